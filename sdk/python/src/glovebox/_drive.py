"""Two ways to wait: with a blocked thread, and with asyncio.

Everything above this file is written once, as coroutines. `AsyncDriver` lets them wait as coroutines do.
`BlockingDriver` has the same functions, but none of them ever suspends: each blocks its thread until it is
done. A coroutine that awaits only those runs from its beginning to its end in one step, which is what
`run()` does. So there is one client, and the blocking form of it costs neither an event loop nor a thread hop.
"""

from __future__ import annotations

import abc
import asyncio
import builtins
import inspect
import os
import queue
import threading
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import AbstractAsyncContextManager
from typing import Any, TypeVar

import httpx

from ._channel import Slot
from ._service import Address, EmbeddedService, find_service, shared
from ._socket import AsyncLink, BlockingLink, Link, OnLost, OnMessage
from .errors import OwnershipError, SandboxError, ServiceNotFound, service_error

T = TypeVar("T")

# Answers may take as long as what they answer; connecting may not.
_PATIENCE = httpx.Timeout(None, connect=10.0)
_MOST_CALLBACKS = 64
# Alerts that wait for their handlers. A guest that is refused more than they can hear of is not told to them.
_MOST_ALERTS = 10_000

Reply = Callable[[Any, BaseException | None], None]


def run(work: Coroutine[Any, Any, T]) -> T:
    """The result of a coroutine that waits for nothing but a `BlockingDriver`."""
    try:
        work.send(None)
    except StopIteration as done:
        result: T = done.value
        return result
    work.close()
    raise RuntimeError("a blocking sandbox waited for an event loop")


class Driver(abc.ABC):
    """How to reach one service, and how to wait."""

    def __init__(self, url: str | None, token: str | None, binary: str | None) -> None:
        self._asked = (url, token, binary)
        self._service: EmbeddedService | None = None
        self._address: Address | None = None
        self.owner = os.getpid()

    def check_owner(self) -> None:
        if os.getpid() != self.owner:
            raise OwnershipError("this sandbox belongs to another process: a forked child makes sandboxes of its own")

    def _find(self) -> Address:
        found = find_service(*self._asked)
        if isinstance(found, EmbeddedService):
            self._service = found
            return found.address
        return found

    def service(self) -> EmbeddedService | None:
        """The service, when it is this process's own."""
        return self._service

    def has_lost_service(self) -> bool:
        """Whether the service was this process's own and is gone, with every sandbox in it."""
        return self._service is not None and not self._service.is_alive()

    def is_embedded(self, address: Address) -> bool:
        return self._service is not None and self._service.address == address

    def _release(self) -> None:
        service, self._service = self._service, None
        if service is not None:
            shared.release(service)

    def _unreachable(self, problem: Exception) -> ServiceNotFound:
        if self.has_lost_service():
            assert self._service is not None
            return ServiceNotFound(f"the service of this process has ended: {self._service.last_words()}")
        assert self._address is not None
        return ServiceNotFound(f"the service at {self._address.name} cannot be reached: {problem}")

    @abc.abstractmethod
    async def address(self) -> Address:
        """Where the service is. Starts it when it has to be started."""

    @abc.abstractmethod
    async def has_service_ended(self) -> bool:
        """Whether the service is this process's own and cannot be talked to. Waits until its end is complete."""

    @abc.abstractmethod
    async def let_go_of_lost(self) -> None:
        """Forgets a service of this process's own that is gone. The next request finds or starts another."""

    @abc.abstractmethod
    async def complete(self, work: Coroutine[Any, Any, T], undo: Callable[[T], Coroutine[Any, Any, None]]) -> T:
        """Does what is not to be left half done: when the caller is cancelled meanwhile, it is undone."""

    @abc.abstractmethod
    async def request(self, method: str, path: str, **more: Any) -> httpx.Response:
        """A whole answer. Anything but a success is raised."""

    @abc.abstractmethod
    def stream(self, method: str, path: str, **more: Any) -> AsyncIterator[bytes]:
        """An answer piece by piece."""

    @abc.abstractmethod
    async def link(self, path: str, on_message: OnMessage, on_lost: OnLost) -> Link: ...

    @abc.abstractmethod
    def make_slot(self) -> Slot: ...

    @abc.abstractmethod
    def make_lock(self) -> AbstractAsyncContextManager[Any]:
        """Held by one at a time."""

    @abc.abstractmethod
    async def wait(self, slot: Slot, timeout: float | None) -> Any:
        """What comes into the slot; the builtin TimeoutError when nothing does in time."""

    @abc.abstractmethod
    def call_back(self, function: Callable[..., Any], arguments: tuple[Any, ...], reply: Reply | None) -> None:
        """Calls a function of the user's, elsewhere than here, and hands what it returns or raises to `reply`.
        Without a `reply` calls are made one after the other, in order."""

    @abc.abstractmethod
    def in_background(self, work: Coroutine[Any, Any, Any]) -> None:
        """Does a small piece of sending that no caller waits for."""

    @abc.abstractmethod
    async def close(self) -> None: ...


def _raise_for(response: httpx.Response) -> None:
    if response.is_success:
        return
    try:
        body = response.json()
    except ValueError:
        body = None
    raise service_error(response.status_code, body)


def _base(address: Address) -> dict[str, Any]:
    headers = {"User-Agent": "glovebox-python"}
    if address.token:
        headers["Authorization"] = f"Bearer {address.token}"
    return {"base_url": address.url, "headers": headers, "timeout": _PATIENCE, "trust_env": False}


# ---- Blocking ----------------------------------------------------------------------------------------------


class BlockingSlot:
    """A slot for one thread that waits."""

    __slots__ = ("_done", "_error", "_gate", "_value")

    def __init__(self) -> None:
        self._gate = threading.Lock()
        self._gate.acquire()
        self._value: Any = None
        self._error: BaseException | None = None
        self._done = False

    def resolve(self, value: Any) -> None:
        if not self._done:
            self._value, self._done = value, True
            self._gate.release()

    def fail(self, error: BaseException) -> None:
        if not self._done:
            self._error, self._done = error, True
            self._gate.release()

    def is_done(self) -> bool:
        return self._done

    def outcome(self) -> tuple[Any, BaseException | None]:
        return self._value, self._error

    def wait(self, timeout: float | None) -> Any:
        if not self._done:
            limit = -1 if timeout is None else min(max(timeout, 0), threading.TIMEOUT_MAX)
            if self._gate.acquire(timeout=limit):
                self._gate.release()  # for the next who waits
            elif not self._done:
                raise builtins.TimeoutError
        if self._error is not None:
            raise self._error
        return self._value


class BlockingLock:
    """A lock for `async with` that blocks its thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()

    async def __aenter__(self) -> None:
        self._lock.acquire()

    async def __aexit__(self, *_: object) -> None:
        self._lock.release()


class _Callbacks:
    """Calls functions one after the other in a thread of their own."""

    def __init__(self) -> None:
        self._waiting: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()

    def put(self, call: Callable[[], None]) -> None:
        with self._lock:
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="glovebox-callbacks", daemon=True)
                self._thread.start()
        self._waiting.put(call)

    def count(self) -> int:
        return self._waiting.qsize()

    def _run(self) -> None:
        while (call := self._waiting.get()) is not None:
            call()

    def stop(self) -> None:
        self._waiting.put(None)


class BlockingDriver(Driver):
    def __init__(self, url: str | None = None, token: str | None = None, binary: str | None = None) -> None:
        super().__init__(url, token, binary)
        self._client: httpx.Client | None = None
        self._lock = threading.Lock()
        self._ordered = _Callbacks()
        self._room = threading.BoundedSemaphore(_MOST_CALLBACKS)

    async def address(self) -> Address:
        self.check_owner()
        with self._lock:
            if self._address is None:
                self._address = self._find()
            return self._address

    async def has_service_ended(self) -> bool:
        service = self._service
        return service is not None and service.await_end()

    async def let_go_of_lost(self) -> None:
        with self._lock:
            if not self.has_lost_service():
                return  # another thread has
            client, self._client, self._address = self._client, None, None
            self._release()
        if client is not None:
            client.close()

    async def complete(self, work: Coroutine[Any, Any, T], undo: Callable[[T], Coroutine[Any, Any, None]]) -> T:
        return await work

    async def _http(self) -> httpx.Client:
        address = await self.address()
        with self._lock:
            if self._client is None:
                limits = httpx.Limits(max_connections=None, max_keepalive_connections=32, keepalive_expiry=30)
                transport = httpx.HTTPTransport(uds=address.socket or None, limits=limits, retries=1)
                self._client = httpx.Client(transport=transport, **_base(address))
            return self._client

    async def request(self, method: str, path: str, **more: Any) -> httpx.Response:
        client = await self._http()
        try:
            response = client.request(method, path, **more)
        except httpx.TransportError as problem:
            raise self._unreachable(problem) from None
        _raise_for(response)
        return response

    async def stream(self, method: str, path: str, **more: Any) -> AsyncIterator[bytes]:
        client = await self._http()
        try:
            with client.stream(method, path, **more) as response:
                if not response.is_success:
                    response.read()
                    _raise_for(response)
                for piece in response.iter_bytes():
                    yield piece
        except httpx.TransportError as problem:
            raise self._unreachable(problem) from None

    async def link(self, path: str, on_message: OnMessage, on_lost: OnLost) -> Link:
        return BlockingLink(await self.address(), path, on_message, on_lost)

    def make_slot(self) -> BlockingSlot:
        return BlockingSlot()

    def make_lock(self) -> AbstractAsyncContextManager[Any]:
        return BlockingLock()

    async def wait(self, slot: Slot, timeout: float | None) -> Any:
        assert isinstance(slot, BlockingSlot)
        return slot.wait(timeout)

    def call_back(self, function: Callable[..., Any], arguments: tuple[Any, ...], reply: Reply | None) -> None:
        if reply is None:
            if self._ordered.count() < _MOST_ALERTS:
                self._ordered.put(lambda: _call(function, arguments, None))
            return
        if not self._room.acquire(blocking=False):
            reply(None, SandboxError(f"more than {_MOST_CALLBACKS} requests at the same time"))
            return

        def call() -> None:
            try:
                _call(function, arguments, reply)
            finally:
                self._room.release()

        threading.Thread(target=call, name="glovebox-handler", daemon=True).start()

    def in_background(self, work: Coroutine[Any, Any, Any]) -> None:
        try:
            run(work)
        except SandboxError:
            pass  # the reader of the connection tells of its end

    async def close(self) -> None:
        with self._lock:
            client, self._client = self._client, None
        self._ordered.stop()
        if os.getpid() == self.owner:
            if client is not None:
                client.close()
            self._release()


def _call(function: Callable[..., Any], arguments: tuple[Any, ...], reply: Reply | None) -> None:
    try:
        result = function(*arguments)
        if inspect.isawaitable(result):
            result = asyncio.run(_await(result))
    except Exception as problem:
        if reply is not None:
            reply(None, problem)
        return  # one failing function does not stop the others
    if reply is not None:
        reply(result, None)


async def _await(work: Any) -> Any:
    return await work


# ---- asyncio -----------------------------------------------------------------------------------------------


class AsyncSlot:
    """A slot for one task that waits."""

    __slots__ = ("future",)

    def __init__(self) -> None:
        self.future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        # An error that is not asked for is not reported: operations may end without a caller that waits.
        self.future.add_done_callback(lambda future: future.cancelled() or future.exception())

    def resolve(self, value: Any) -> None:
        if not self.future.done():
            self.future.set_result(value)

    def fail(self, error: BaseException) -> None:
        if not self.future.done():
            self.future.set_exception(error)

    def is_done(self) -> bool:
        return self.future.done()

    def outcome(self) -> tuple[Any, BaseException | None]:
        error = self.future.exception()
        return (None, error) if error is not None else (self.future.result(), None)


class AsyncDriver(Driver):
    """For one event loop: the one in which it is first used."""

    def __init__(self, url: str | None = None, token: str | None = None, binary: str | None = None) -> None:
        super().__init__(url, token, binary)
        self._client: httpx.AsyncClient | None = None
        self._finding: asyncio.Lock | None = None
        self._tasks: set[asyncio.Task[Any]] = set()
        self._last_alert: asyncio.Task[Any] | None = None

    async def address(self) -> Address:
        self.check_owner()
        if self._address is None:
            self._finding = self._finding or asyncio.Lock()
            async with self._finding:
                if self._address is None:
                    self._address = await asyncio.to_thread(self._find)
        return self._address

    async def has_service_ended(self) -> bool:
        service = self._service
        return service is not None and await asyncio.to_thread(service.await_end)

    async def let_go_of_lost(self) -> None:
        if not self.has_lost_service():
            return
        client, self._client, self._address = self._client, None, None
        service, self._service = self._service, None
        if client is not None:
            await client.aclose()
        if service is not None:
            await asyncio.to_thread(shared.release, service)

    async def complete(self, work: Coroutine[Any, Any, T], undo: Callable[[T], Coroutine[Any, Any, None]]) -> T:
        task = self._keep(asyncio.get_running_loop().create_task(work))

        def take_back(done: asyncio.Task[T]) -> None:
            if not done.cancelled() and done.exception() is None:
                self.in_background(undo(done.result()))

        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            task.add_done_callback(take_back)
            raise

    async def _http(self) -> httpx.AsyncClient:
        address = await self.address()
        if self._client is None:
            limits = httpx.Limits(max_connections=None, max_keepalive_connections=32, keepalive_expiry=30)
            transport = httpx.AsyncHTTPTransport(uds=address.socket or None, limits=limits, retries=1)
            self._client = httpx.AsyncClient(transport=transport, **_base(address))
        return self._client

    async def request(self, method: str, path: str, **more: Any) -> httpx.Response:
        client = await self._http()
        try:
            response = await client.request(method, path, **more)
        except httpx.TransportError as problem:
            raise self._unreachable(problem) from None
        _raise_for(response)
        return response

    async def stream(self, method: str, path: str, **more: Any) -> AsyncIterator[bytes]:
        client = await self._http()
        try:
            async with client.stream(method, path, **more) as response:
                if not response.is_success:
                    await response.aread()
                    _raise_for(response)
                async for piece in response.aiter_bytes():
                    yield piece
        except httpx.TransportError as problem:
            raise self._unreachable(problem) from None

    async def link(self, path: str, on_message: OnMessage, on_lost: OnLost) -> Link:
        return await AsyncLink.open(await self.address(), path, on_message, on_lost)

    def make_slot(self) -> AsyncSlot:
        return AsyncSlot()

    def make_lock(self) -> AbstractAsyncContextManager[Any]:
        return asyncio.Lock()

    async def wait(self, slot: Slot, timeout: float | None) -> Any:
        assert isinstance(slot, AsyncSlot)
        async with asyncio.timeout(timeout):
            return await asyncio.shield(slot.future)

    def _keep(self, task: asyncio.Task[Any]) -> asyncio.Task[Any]:
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def call_back(self, function: Callable[..., Any], arguments: tuple[Any, ...], reply: Reply | None) -> None:
        previous = self._last_alert if reply is None else None
        if reply is None and len(self._tasks) >= _MOST_ALERTS:
            return
        if reply is not None and len(self._tasks) >= _MOST_CALLBACKS:
            reply(None, SandboxError(f"more than {_MOST_CALLBACKS} requests at the same time"))
            return

        async def call() -> None:
            if previous is not None:
                await asyncio.wait([previous])
            try:
                result = function(*arguments)
                if inspect.isawaitable(result):
                    result = await result
            except Exception as problem:
                if reply is not None:
                    reply(None, problem)
                return
            if reply is not None:
                reply(result, None)

        task = self._keep(asyncio.get_running_loop().create_task(call()))
        if reply is None:
            self._last_alert = task

    def in_background(self, work: Coroutine[Any, Any, Any]) -> None:
        async def quietly() -> None:
            try:
                await work
            except SandboxError:
                pass  # the reader of the connection tells of its end

        self._keep(asyncio.get_running_loop().create_task(quietly()))

    async def close(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            await client.aclose()
        if self._service is not None:
            await asyncio.to_thread(self._release)
