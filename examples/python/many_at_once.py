"""Twenty sandboxes from one event loop, each asking this process for something it may not do itself."""

import asyncio

from glovebox import aio

PRICES = {"apple": 3, "pear": 4}


async def price(action, payload):
    await asyncio.sleep(0)  # a handler may wait, as any coroutine
    return PRICES[payload]


async def shop(supervisor, number):
    async with await supervisor.spawn(f"shop-{number}", handlers={"price": price}) as box:
        await box.exec(f"post(request('price', 'get', 'pear') * {number})")
        return await box.recv(timeout=60)


async def main():
    async with aio.Supervisor() as supervisor:
        totals = await asyncio.gather(*(shop(supervisor, number) for number in range(20)))
    print(totals)
    assert totals == [4 * number for number in range(20)]


if __name__ == "__main__":
    asyncio.run(main())
