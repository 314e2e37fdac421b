#!/usr/bin/env python3
"""What the MCP server costs: from its start to the answer to initialize, and one call of `1+1` in a
warm session, next to the same cell in a plain Python behind a pipe.

    GLOVEBOX=build/glovebox bench/mcp.py [ROUNDS]
"""
import os
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "tests", "mcp"))
from client import Server  # noqa: E402
from support.figures import figure, record  # noqa: E402

LOOP = "import sys\nfor line in sys.stdin: print(eval(line), flush=True)"


def percentiles(name, seconds):
    ordered = sorted(seconds)
    at = lambda part: ordered[min(len(ordered) - 1, int(len(ordered) * part))] * 1e6
    print("%-28s p50 %9.0f us   p99 %9.0f us   n %d" % (name, at(0.5), at(0.99), len(ordered)))
    record(table="start to initialize", what=name, rounds=len(ordered), p50_us=round(at(0.5), 1), p99_us=round(at(0.99), 1))
    return at(0.5) / 1e3


def timed(work):
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def starts(cwd, rounds):
    def once():
        server = Server("--sandbox", "workspace-write", cwd=cwd)
        server.initialize()
        servers.append(server)
    servers = []
    seconds = []
    for _ in range(rounds):
        seconds.append(timed(once))
        servers.pop().close()
    figure("start to the answer to initialize", percentiles("start to initialize", seconds), "ms", at_most=30)


def first_results(cwd, rounds):
    seconds = []
    for _ in range(rounds):
        began = time.perf_counter()
        server = Server("--sandbox", "workspace-write", "--python", "/usr/bin/python3", cwd=cwd)
        server.initialize()
        server.repl("1+1")
        seconds.append(time.perf_counter() - began)
        server.close()
    figure("start to the first result of Python", percentiles("start to first result", seconds), "ms", at_most=150)


def calls(cwd, rounds):
    server = Server("--sandbox", "workspace-write", "--python", "/usr/bin/python3", cwd=cwd)
    server.initialize()
    plain = subprocess.Popen(["/usr/bin/python3", "-c", LOOP], stdin=subprocess.PIPE,
                             stdout=subprocess.PIPE)

    def ask_plain():
        plain.stdin.write(b"1+1\n")
        plain.stdin.flush()
        plain.stdout.readline()
    for _ in range(20):
        server.repl("1+1")
        ask_plain()
    boxed, bare = [], []
    for _ in range(rounds):
        boxed.append(timed(lambda: server.repl("1+1")))
        bare.append(timed(ask_plain))
    figure("call of 1+1 in a warm session", percentiles("repl 1+1, warm", boxed), "ms", at_most=1)
    percentiles("plain Python behind a pipe", bare)
    plain.stdin.close()
    plain.wait()
    server.close()


def main():
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 500
    with tempfile.TemporaryDirectory(dir="/srv") as cwd:
        starts(cwd, max(10, rounds // 20))
        first_results(cwd, max(10, rounds // 20))
        calls(cwd, rounds)


main()
