"""Every kind of process is killed (SIGKILL) at random moments, while many clients do everything that a session can do.

What a client sees of that is an error with a code, an ended session or interpreter, or a closed connection. Afterwards
the service answers, everything works, and nothing is left of what was killed: no process, mount, cgroup, layer, socket,
descriptor. GLOVEBOX_KILL_ROUNDS says how many processes are killed (./dev soak kills more), GLOVEBOX_SEED which.
"""

import http.client
import os
import random
import signal
import sys
import threading
import time
import unittest
from collections import Counter
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / name) for name in ("serve", "python")] + [str(HERE)]

from cell_test import OWN, is_shared  # noqa: E402
from channel import Box, Ended, Failed  # noqa: E402
from service import Service, Session, wait_until  # noqa: E402
from test_service_faults import (Use, check_as_before, children_of, count_cgroups, descendants_of, go_round,  # noqa: E402
                                 launcher_of)  # noqa: E402

ROUNDS = int(os.environ.get("GLOVEBOX_KILL_ROUNDS", "40"))
SEED = int(os.environ.get("GLOVEBOX_SEED", "0")) or random.SystemRandom().randrange(1, 1 << 32)
KINDS = ("service", "launcher", "agent", "shell", "program", "python", "cells")
# What may stay when there is no session: three interpreters that wait for the next sessions; and of workers the one that
# cells share, or three that wait for the next cells where each has its own.
WORKERS = 1 if is_shared(OWN) else 3
MOST = {"service": 1, "launcher": 1, "agent": 3 + WORKERS, "shell": 3 + WORKERS, "program": 0, "python": 3, "cells": WORKERS}
KEY = {"X-Glovebox-Key": "07" * 32}
# Their messages name what happened; what else they are is for other tests.
EXPECTED = (OSError, http.client.HTTPException, AssertionError, Failed, Ended, KeyError, IndexError, ValueError)


def command_of(pid):
    return Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")


def start_of(pid):
    """With the number it names one process for ever."""
    return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[19]


def kind_of_guest(pid):
    words = command_of(pid)
    if any(b"python" in word for word in words):
        return "cells" if b"cells" in words else "python"
    return "shell" if os.path.basename(words[0]) in (b"bash", b"sh", b"dash") else "program"


def processes_of(pid, kind="service", found=None):
    """Everything below a service, by its kind."""
    found = {each: [] for each in KINDS} if found is None else found
    try:
        kind = kind or kind_of_guest(pid)
        below = children_of(pid)
    except OSError:
        return found  # it has ended meanwhile
    found[kind].append(pid)
    for child in below:
        processes_of(child, {"service": "launcher", "launcher": "agent"}.get(kind), found)
    return found


def count_processes(service):
    return {kind: len(pids) for kind, pids in processes_of(service.process.pid).items()}


class Load:
    """Clients that go round until they are told to stop. What they meet is counted, and no matter."""

    def __init__(self, service):
        self.service, self.met, self.is_over = service, Counter(), False
        acts = (self.files, self.state, lambda place: self.python("process"), lambda place: self.python("cell"))
        self.threads = [threading.Thread(target=self.go, args=(number, act)) for number, act in enumerate(acts)]
        for thread in self.threads:
            thread.start()

    def go(self, number, act):
        place = self.service.workspace(f"load-{number}", old="old")
        while not self.is_over:
            try:
                act(place)
                self.met["done"] += 1
            except EXPECTED as problem:
                self.met[type(problem).__name__] += 1
                time.sleep(0.01)

    def files(self, place):
        session = self.service.create(place)
        session.out("seq 2000 > file; sleep 0.05; export WORD=said")
        session.write("up", "x" * 50_000)
        session.post("/run", {"code": "sleep 1000", "background": True})
        session.out("cat file | sort > other; sleep 0.02")
        session.post("/commit", {})
        session.delete()

    def state(self, place):
        session = self.service.create(place)
        session.out("echo past > file; sleep 0.02")
        whole = session.post("/checkpoint", {"force": True}, headers=KEY).body
        back = self.service.post("/v1/isolated/restore", whole, headers=KEY).json["session_id"]
        forked = session.post("/fork", {"count": 1, "force": True}).json["sessions"]
        session.post("/recycle")
        for each in (back, *(child["session_id"] for child in forked), session.id):
            Session(self.service, each).delete()

    def python(self, backend):
        box = Box(self.service, backend=backend)
        try:
            for _ in range(20):
                box.exec("x = sum(range(20_000))")
                if box.value("x") != 199_990_000:
                    raise RuntimeError("another sum")
        finally:
            box.delete()

    def stop(self):
        self.is_over = True
        for thread in self.threads:
            thread.join()


class Kills(unittest.TestCase):
    def setUp(self):
        print(f"seed {SEED}", file=sys.stderr)
        self.random, self.launchers = random.Random(SEED), set()
        self.service = Service("pool.size = 0\n")
        self.addCleanup(self.service.close)
        self.place = self.service.workspace("work", old="old")
        self.assert_works()  # what is made once is there afterwards
        self.clean_up()
        self.assertTrue(wait_until(lambda: count_processes(self.service) == MOST), count_processes(self.service))
        self.before = Use(self.service)
        self.entries = self.state_entries()

    def state_entries(self):
        """What the service keeps on disk, without what it writes into."""
        self.service.await_removals()
        return sorted(str(path.relative_to(self.service.base)) for path in (self.service.base / "service").rglob("*")
                      if not path.name.startswith("sessions.db"))

    def assert_works(self):
        self.assertIsNone(go_round(self.service, self.place))
        for backend in ("process", "cell"):
            with Box(self.service, backend=backend) as box:
                self.assertEqual(box.value("1 + 1"), 2)

    def clean_up(self):
        for session in self.service.get("/v1/isolated/sessions").json["sessions"]:
            answer = self.service.delete("/v1/isolated/session/" + session["session_id"])
            self.assertIn(answer.status, (200, 404), answer)

    def kill_one(self, kind):
        """Some process of that kind; false when there is none now."""
        processes = processes_of(self.service.process.pid)
        self.launchers.update(processes["launcher"])
        victims = processes[kind]
        if not victims:
            return False
        victim = self.random.choice(victims)
        if kind == "service":
            self.kill_service()
            return True
        try:
            os.kill(victim, signal.SIGKILL)
        except ProcessLookupError:
            return False
        return True

    def kill_service(self):
        """With everything below it, which ends by itself, and a new one after it."""
        below = {}
        for pid in descendants_of(self.service.process.pid):
            try:
                below[pid] = start_of(pid)
            except OSError:
                pass
        self.service.stop(signal.SIGKILL)

        def left():
            return [pid for pid, start in below.items() if os.path.exists(f"/proc/{pid}") and self.is_same(pid, start)]

        self.assertTrue(wait_until(lambda: not left()), left())
        self.service.start()

    def is_same(self, pid, start):
        try:
            return start_of(pid) == start
        except OSError:
            return False

    def test_at_random_moments(self):
        load, killed = Load(self.service), Counter()
        try:
            while sum(killed.values()) < ROUNDS:
                # Not synchronisation: the moment of the kill is what varies.
                time.sleep(self.random.random() * 0.2)
                # The service itself less often: all others begin again with it.
                kind = self.random.choice(KINDS[1:] * 3 + KINDS[:1])
                killed[kind] += self.kill_one(kind)
                self.assertIsNone(self.service.process.poll(), f"seed {SEED}: the service ended by itself\n"
                                  + self.service.log_text()[-2000:])
                self.assertEqual(self.service.get("/v1/isolated/sessions").status, 200)
        finally:
            load.stop()
        print(f"killed {dict(killed)}; clients met {dict(load.met)}", file=sys.stderr)
        self.assertGreater(load.met["done"], 0)
        self.check_nothing_is_left()

    def test_each_kind_once(self):
        """So that none is left out by chance: each is killed while it works."""
        load = Load(self.service)
        try:
            for kind in KINDS:
                self.assertTrue(wait_until(lambda: self.kill_one(kind)), f"no {kind} to kill")
        finally:
            load.stop()
        self.check_nothing_is_left()

    def is_settled(self):
        return all(count <= MOST[kind] for kind, count in count_processes(self.service).items())

    def check_nothing_is_left(self):
        self.assert_works()
        self.clean_up()
        self.assertTrue(wait_until(self.is_settled), count_processes(self.service))
        # An interpreter that was just started when it was counted had not all of its pipes yet.
        check_as_before(self, self.service, self.before, spare=6)
        self.assertTrue(wait_until(lambda: self.state_entries() == self.entries),
                        set(self.state_entries()) ^ set(self.entries))
        self.assertTrue(wait_until(lambda: self.cgroups_of_the_dead() == 0), self.cgroups_of_the_dead())

    def cgroups_of_the_dead(self):
        """How many are left of launchers that were killed; the next launcher removes them."""
        return sum(count_cgroups(launcher) for launcher in self.launchers - {launcher_of(self.service)})


if __name__ == "__main__":
    unittest.main(verbosity=2)
