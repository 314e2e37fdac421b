#!/usr/bin/env python3
"""What the Python SDK costs, with a real service and real boxes.

    GLOVEBOX=build/glovebox PYTHONPATH=sdk/python/src build/sdk/venv/bin/python3 bench/sdk.py [ROUNDS]

Beside each number stands what the same machine did in the same second with nothing in the way: a byte over a Unix
socket to another process and back, and 1 MiB over one. On a busy machine the ratios say more than the times.
"""

import os
import socket
import statistics
import sys
import time

import glovebox as gb
from support.figures import figure

ROUNDS = int(sys.argv[1]) if len(sys.argv) > 1 else 500
MIB = 1 << 20
PIECE = 64 << 10


class Mirror:
    """A process at the other end of a socket that sends back what it is sent."""

    def __init__(self):
        self.here, there = socket.socketpair()
        self.child = os.fork()
        if self.child == 0:
            self.here.close()
            while data := there.recv(MIB):
                there.sendall(data)
            os._exit(0)
        there.close()

    def bounce(self, data=b"x"):
        for start in range(0, len(data), PIECE):  # less than a socket holds, or both would wait
            part = data[start : start + PIECE]
            self.here.sendall(part)
            left = len(part)
            while left:
                left -= len(self.here.recv(MIB))

    def close(self):
        self.here.close()
        os.waitpid(self.child, 0)


def timed(work):
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def interleaved(rounds, work, plain):
    """Medians of both, measured in turns."""
    pairs = [(timed(work), timed(plain)) for _ in range(rounds)]
    return [statistics.median(column) for column in zip(*pairs, strict=True)], sorted(pair[0] for pair in pairs)


def round_trip(box, mirror):
    def work():
        box.exec("post(1)")
        box.recv()

    for _ in range(500):  # the service has just started, and readies interpreters beside this
        work()
    (median, plain), ordered = interleaved(ROUNDS, work, mirror.bounce)
    figure("exec, post, recv", median * 1e6, "us", at_most=300, beside=f"p95 {ordered[int(len(ordered) * 0.95)] * 1e6:.0f} us; "
           f"{median / plain:.1f} x a byte there and back ({plain * 1e6:.0f} us)")

    def echo(value):
        return value

    box.call(echo, 1)
    (median, plain), _ = interleaved(ROUNDS, lambda: box.call(echo, 1), mirror.bounce)
    figure("call of a function that was sent", median * 1e6, "us", beside=f"{median / plain:.1f} x")


def messages(box):
    count = 20_000
    box.exec(f"for i in range({count}): post(i)")
    rate = count / timed(lambda: [box.recv() for _ in range(count)])
    figure("messages from one sandbox", rate, "/s", at_least=10_000)


def bytes_values(box, mirror):
    count, block = 100, bytes(MIB)

    def out():
        box.exec(f"for _ in range({count}): post(block)")
        for _ in range(count):
            assert len(box.recv()) == MIB

    def into():
        for _ in range(count):
            box.post(block)
        assert box.recv() == count

    box.exec(f"block = bytes({MIB})").wait()
    plain = [timed(lambda: [mirror.bounce(block) for _ in range(10)]) / 10 for _ in range(3)]
    rates = [count / timed(out) for _ in range(3)]
    figure("1 MiB values out of a sandbox", statistics.median(rates), "MiB/s", at_least=300,
           beside=f"best {max(rates):.0f}; a socket both ways {1 / min(plain):.0f} MiB/s")
    rates = []
    for _ in range(3):
        box.exec(f"n = 0\nfor _ in range({count}): n += len(recv()) // {MIB}\npost(n)")
        rates.append(count / timed(into))
    figure("1 MiB values into a sandbox", statistics.median(rates), "MiB/s", at_least=300, beside=f"best {max(rates):.0f}")


def spawns(supervisor):
    def work(backend):
        with supervisor.spawn("bench", backend=backend) as box:
            box.exec("post(1)")
            box.recv()

    def first_result(backend):
        box = supervisor.spawn("bench", backend=backend)
        box.exec("post(1)")
        box.recv()
        return box

    for backend in gb.IMPLEMENTED_BACKENDS:
        try:
            work(backend)
        except gb.BackendUnavailable as refused:
            print(f"{backend}: {refused}")
            continue
        times = []
        for _ in range(max(10, ROUNDS // 20)):
            began = time.perf_counter()
            box = first_result(backend)
            times.append(time.perf_counter() - began)
            box.close()
        figure(f"spawn to the first result, {backend}", statistics.median(times) * 1e3, "ms", beside=f"best {min(times) * 1e3:.1f}")


def main():
    mirror = Mirror()  # before there are threads
    with gb.Supervisor() as supervisor:
        with supervisor.spawn("bench") as box:
            round_trip(box, mirror)
            messages(box)
            bytes_values(box, mirror)
        spawns(supervisor)
    mirror.close()
    print(f"load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} processors")


if __name__ == "__main__":
    main()
