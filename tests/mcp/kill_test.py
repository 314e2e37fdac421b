"""Every process of an MCP server is killed (SIGKILL) once, while a request is pending and at random moments.

Whichever it is, the pending request is answered, the next one works, and nothing is left; with the server itself
everything below it ends. GLOVEBOX_KILL_ROUNDS says how often at random moments (./dev soak kills more).
"""
import os
import random
import signal
import sys
import threading
import time
import unittest
from pathlib import Path

from inherit_test import SLEEP, McpTest

ROUNDS = int(os.environ.get("GLOVEBOX_KILL_ROUNDS", "15"))
SEED = int(os.environ.get("GLOVEBOX_SEED", "0")) or random.SystemRandom().randrange(1, 1 << 32)
PATIENCE = 30


def children_of(pid):
    try:
        return [int(word) for task in Path(f"/proc/{pid}/task").iterdir()
                for word in (task / "children").read_text().split()]
    except OSError:
        return []


def descendants_of(pid):
    found = children_of(pid)
    for child in found:
        found += children_of(child)
    return found


def wait_until(condition):
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(0.02)
    return False


class Kills(McpTest):
    words = ("--sandbox", "workspace-write")

    def below(self):
        """The launcher, the box's init, its shell, and the interpreter with its own child."""
        return descendants_of(self.server.process.pid)

    def begin(self):
        self.start()
        self.assertEqual(self.repl("x = 1\nx + 1").text, "2\n")

    def assert_works(self):
        """After what was killed some answers may say so."""
        end = time.monotonic() + PATIENCE
        reply = self.repl("40 + 2")
        while "42" not in reply.text and time.monotonic() < end:
            reply = self.repl("40 + 2")
        self.assertIn("42", reply.text)

    def test_each_while_a_request_is_pending(self):
        self.begin()
        for number in range(len(self.below())):
            self.assert_works()
            pending = self.server.start_repl(SLEEP)
            victim = self.below()[number]
            name = Path(f"/proc/{victim}/comm").read_text().strip()
            with self.subTest(victim=name):
                os.kill(victim, signal.SIGKILL)
                if name != "bash":  # the shell of the box is not what runs the request
                    self.assertIn("result", self.server.answer(pending))
                else:
                    self.repl("\x04")
                self.assert_works()
        self.assertEqual(len(self.below()), 5, [Path(f"/proc/{pid}/comm").read_text() for pid in self.below()])
        self.assertEqual(self.server.close(), 0)
        self.server = None

    def test_the_server(self):
        self.begin()
        self.server.start_repl(SLEEP)
        below = self.below()
        self.assertEqual(len(below), 5)
        self.server.process.kill()
        self.server.process.wait()
        self.assertTrue(wait_until(lambda: not any(os.path.exists(f"/proc/{pid}") for pid in below)))
        self.server.reader.join()
        for stream in (self.server.process.stdin, self.server.process.stdout, self.server.process.stderr):
            stream.close()
        self.server = None

    def test_nothing_is_left_in_the_workspace(self):
        """Names that were held against the box go with the server, however it ends."""
        self.begin()
        self.assertIn(".git", os.listdir(self.cwd))
        self.server.process.kill()
        self.server.process.wait()
        self.assertTrue(wait_until(lambda: os.listdir(self.cwd) == []), os.listdir(self.cwd))
        self.server.reader.join()
        for stream in (self.server.process.stdin, self.server.process.stdout, self.server.process.stderr):
            stream.close()
        self.server = None

    def test_at_random_moments(self):
        self.begin()
        chance, killed = random.Random(SEED), 0
        while killed < ROUNDS:
            victims = self.below()
            if not victims:
                self.assert_works()
                continue
            victim = chance.choice(victims)
            # Not synchronisation: the moment of the kill is what varies.
            timer = threading.Timer(chance.random() * 0.2, self.kill, [victim])
            timer.start()
            for _ in range(5):
                self.repl("sum(range(100_000))")
            timer.join()
            killed += 1
            self.assertIsNone(self.server.process.poll(), f"seed {SEED}: the server ended")
        self.assert_works()
        self.assertEqual(self.server.close(), 0)
        self.server = None

    def kill(self, pid):
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass


if __name__ == "__main__":
    unittest.main(verbosity=2, argv=sys.argv)
