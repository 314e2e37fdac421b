"""The system clock is set, a year ahead or a year back, while a service and its boxes run.

Nothing may be over because of that, and nothing may last longer: limits, idle sessions and dead ones are counted with
a clock that cannot be set. No work is thrown away as too old, and the newest is still the last. The clock is that of the
processes of this test alone (clock.py).
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import unittest
from email.utils import parsedate_to_datetime
from functools import partial
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / name) for name in ("serve", "egress", "python")] + [str(HERE)]

import clock  # noqa: E402
import servers  # noqa: E402
from channel import Box, Failed  # noqa: E402
from clock import YEAR  # noqa: E402
from service import AS_USER, BINARY, TIER, USER, Service, Session, wait_until  # noqa: E402
from test_service_faults import children_of, descendants_of, go_round  # noqa: E402

JUMPS = (YEAR, -YEAR)
SETTINGS = (YEAR, -YEAR, 0)  # one after the other: the second is two years back
KEY = {"X-Glovebox-Key": "07" * 32}
# Until the test makes `go`, which is the only thing that ends it.
WAIT = "until [ -e go ]; do sleep 0.05; done; cat go"


def set_clocks(pid, seconds):
    """Of a process and everything below it, boxes included."""
    for each in [pid, *descendants_of(pid)]:
        try:
            clock.Clock(each).set(seconds)
        except OSError:
            pass  # it has ended meanwhile


def start_as_tier(words, seconds, preexec_fn=None, **more):
    """As clock.start(), and as the user that this test is about."""
    if TIER == "user":
        more.update(user=USER, group=USER, extra_groups=[])
        words = words[len(AS_USER):] if words[:len(AS_USER)] == AS_USER else words
    return clock.start(words, seconds, **more)


class Background:
    """A request that is answered later."""

    def __init__(self, ask):
        self.answer = None
        self.thread = threading.Thread(target=self.go, args=(ask,), daemon=True)
        self.thread.start()

    def go(self, ask):
        self.answer = ask()

    def wait(self):
        self.thread.join()
        return self.answer


@unittest.skipUnless(clock.CAN_SET, "clock.py has no code for this processor")
class ServiceClock(unittest.TestCase):
    def setUp(self):
        self.service = Service("pool.size = 0\n")
        self.addCleanup(self.service.close)
        self.place = self.service.workspace("work", old="old")

    def jump(self, seconds):
        set_clocks(self.service.process.pid, seconds)
        told = parsedate_to_datetime(self.service.get("/v1/isolated/sessions").headers["Date"]).timestamp()
        self.assertLess(abs(told - time.time() - seconds), YEAR / 10, "the clock was not set")

    def await_sweep(self):
        """Until the service has looked for sessions that are over, and found this one."""
        idle = self.service.create(self.place, idle_timeout_seconds=1)
        self.assertTrue(wait_until(lambda: idle.get().status == 404), "an idle session stays")

    # ---- What goes on ------------------------------------------------------------------------

    def test_runs_and_sessions_go_on(self):
        for seconds in SETTINGS:
            session = self.service.create(self.place, idle_timeout_seconds=3600, limits={"wall": "1h"})
            held = self.service.create(self.place, idle_timeout_seconds=3600)
            session.out("rm -f go began")
            run = Background(lambda: session.run("echo > began; " + WAIT, timeout_seconds=3600))
            other = self.service.post(held.path + "/run", {"code": WAIT, "background": True})
            self.assertEqual(other.status, 202, other)
            self.assertTrue(wait_until(lambda: session.info("began").status == 200))
            self.jump(seconds)
            self.await_sweep()
            for each in (session, held):
                self.assertEqual(each.state()["status"], "active")
                self.assertIsNone(each.state().get("end"))
            held.write("go", "background")
            session.write("go", "went")
            self.assertEqual(run.wait().out, ["went"])
            self.check_acts(session)
            self.assertEqual(held.delete().status, 200)
            self.assertIsNone(go_round(self.service, self.place))

    def check_acts(self, session):
        """Everything else that a session can do."""
        session.out("echo past > file")
        diff = session.get("/diff", headers={"Accept": "text/x-diff"})
        self.assertIn(b"+past", diff.body)
        whole = session.post("/checkpoint", {"force": True}, headers=KEY)
        self.assertEqual(whole.status, 200, whole)
        back = self.service.post("/v1/isolated/restore", whole.body, headers=KEY)
        self.assertEqual(back.status, 201, back)
        forked = session.post("/fork", {"count": 1, "force": True})
        self.assertEqual(forked.status, 201, forked)
        self.assertEqual(session.post("/recycle").status, 200)
        for answer in (back.json, forked.json["sessions"][0], {"session_id": session.id}):
            each = Session(self.service, answer["session_id"])
            self.assertEqual(each.out("cat file"), "past")
            self.assertEqual(each.delete().status, 200)

    def test_python_goes_on_and_its_budgets_end(self):
        for backend in ("process", "cell"):
            for seconds in SETTINGS:
                box = Box(self.service, [{"kind": "clock"}], backend=backend)
                box.exec("x = 1")
                self.jump(seconds)
                self.await_sweep()
                self.assertEqual(box.value("x + 1"), 2)
                box.delete()
        box = Box(self.service, limits={"wall": "2s"})
        number = box.begin("exec", source="while True: pass")
        self.jump(-YEAR)
        with self.assertRaises(Failed) as caught:
            box.wait(number)
        self.assertEqual(caught.exception.type, "BudgetExceeded")
        box.delete()

    # ---- What ends ---------------------------------------------------------------------------

    def test_limits_and_idle_sessions_end(self):
        """They were begun before; a clock that is asked how late it is would never get there."""
        for seconds in SETTINGS:
            limited = self.service.create(self.place, limits={"wall": "2s"})
            idle = self.service.create(self.place, idle_timeout_seconds=1)
            slow = self.service.create(self.place)
            run = Background(lambda: slow.run("sleep 1000", timeout_seconds=2))
            self.jump(seconds)
            self.assertIn("deadline", str(run.wait().exit_code))
            self.assertTrue(wait_until(lambda: limited.state()["status"] == "dead"))
            self.assertEqual(limited.state()["end"]["limit"], "wall")
            self.assertTrue(wait_until(lambda: idle.get().status == 404))
            for each in (limited, slow):
                each.delete()

    # ---- What stays --------------------------------------------------------------------------

    def test_dead_sessions_keep_their_work(self):
        session = self.service.create(self.place)
        session.out("echo past > file")
        agent = children_of(children_of(self.service.process.pid)[0])[0]
        os.kill(agent, 9)
        self.assertTrue(wait_until(lambda: session.state()["status"] == "dead"))
        for seconds in SETTINGS:
            self.jump(seconds)
            self.await_sweep()
            self.assertIn(b"+past", session.get("/diff", headers={"Accept": "text/x-diff"}).body)
        self.assertEqual(session.post("/commit", {}).status, 200)
        self.assertEqual(Path(self.place, "file").read_text(), "past\n")

    def test_the_newest_session_is_the_last(self):
        made = []
        for seconds in (0, YEAR, -YEAR, 0):
            self.jump(seconds)
            made.append(self.service.create(self.place).id)
        listed = [each["session_id"] for each in self.service.get("/v1/isolated/sessions").json["sessions"]]
        self.assertEqual(listed, made)

    def test_a_service_that_starts_at_another_time(self):
        session = self.service.create(self.place)
        session.out("echo past > file")
        for seconds in SETTINGS:
            self.service.stop()
            self.service.spawn = partial(start_as_tier, seconds=seconds)
            self.service.start()
            self.jump(seconds)
            self.await_sweep()
            self.assertEqual(session.state()["status"], "dead")
            self.assertEqual(session.post("/recycle").status, 200)
            self.assertEqual(session.out("cat file"), "past")
            self.assertIsNone(go_round(self.service, self.place))
        # It began before the clock was set; it cannot be told what the host changed since.
        self.assertEqual(session.delete().status, 200)


@unittest.skipUnless(clock.CAN_SET, "clock.py has no code for this processor")
class CommandClock(unittest.TestCase):
    """`glovebox run`, without a service."""

    def setUp(self):
        self.base = Path(tempfile.mkdtemp(prefix="glovebox-clock-", dir="/var/tmp"))
        self.addCleanup(shutil.rmtree, self.base, ignore_errors=True)
        self.base.chmod(0o755)
        (self.base / "work").mkdir()
        for name in ("glovebox", "glovebox-launcher"):
            shutil.copy(Path(BINARY).parent / name, self.base / name)
        if TIER == "user":
            subprocess.run(["chown", "-R", f"{USER}:{USER}", str(self.base)], check=True)
        self.environment = {"PATH": "/usr/bin:/bin", "HOME": str(self.base), "GLOVEBOX_STATE": str(self.base / "state")}

    def begin(self, seconds, *words):
        process = start_as_tier([str(self.base / "glovebox"), *words], seconds, stdin=subprocess.PIPE,
                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=self.environment, text=True,
                                cwd=str(self.base / "work"))
        self.addCleanup(process.stdout.close)
        return process

    def end(self, process, line="go\n", code=0):
        said, _ = process.communicate(line)
        self.assertEqual(process.returncode, code, said)
        return said

    def run_at(self, seconds, *words, **more):
        return self.end(self.begin(seconds, *words), **more)

    def change(self, seconds, name):
        """A run that leaves a layer with one change."""
        self.run_at(seconds, "run", "-w", str(self.base / "work"), "--", "sh", "-c", f"echo {name} > {name}")

    def layers(self):
        return [each["id"] for each in json.loads(self.run_at(0, "layers", "--json"))]

    def test_a_command_goes_on_and_its_limit_ends_it(self):
        for seconds in JUMPS:
            process = self.begin(0, "run", "--wall", "1h", "--", "sh", "-c", "echo began; read line; echo $line")
            self.assertEqual(process.stdout.readline(), "began\n")
            set_clocks(process.pid, seconds)
            self.assertEqual(self.end(process), "go\n")
            process = self.begin(0, "run", "--wall", "2s", "--", "sh", "-c", "echo began; exec sleep 1000")
            self.assertEqual(process.stdout.readline(), "began\n")
            set_clocks(process.pid, seconds)
            self.end(process, code=124)

    def test_no_layer_is_too_old_because_the_clock_was_set(self):
        self.change(0, "first")
        before = self.layers()
        self.assertEqual(len(before), 1)
        for seconds in JUMPS:
            self.change(seconds, "other")
        # And of a run in which it is set.
        words = ("run", "-w", str(self.base / "work"), "--", "sh", "-c", "echo began; read line; echo $line > third")
        process = self.begin(-YEAR, *words)
        self.assertEqual(process.stdout.readline(), "began\n")
        set_clocks(process.pid, YEAR)
        self.end(process)
        self.assertEqual(len(self.layers()), 4)
        self.run_at(0, "commit", before[0])
        self.assertEqual((self.base / "work/first").read_text(), "first\n")

    def test_the_last_layer_is_the_newest(self):
        for number, seconds in enumerate((0, YEAR, -YEAR, 0)):
            self.change(seconds, f"file{number}")
            self.assertIn(f"file{number}", self.run_at(seconds, "diff", "last"))
        self.assertEqual(len(self.layers()), 4)

    def test_names_that_a_box_holds(self):
        names, web = servers.Names(), servers.Web()
        self.addCleanup(names.close)
        self.addCleanup(web.close)
        fetch = f"curl -sS -o /dev/null -w '%{{http_code}}\\n' http://web.test:{web.port}/"
        for seconds in JUMPS:
            process = self.begin(0, "run", "--resolver", names.where, "--allow", f"connect=web.test:{web.port}", "--allow",
                                 f"connect={servers.ADDRESS}:{web.port}", "--", "sh", "-c", f"{fetch}; read line; {fetch}")
            code = process.stdout.readline()
            self.assertRegex(code, "^[1-5][0-9][0-9]$")
            set_clocks(process.pid, seconds)
            self.assertEqual(self.end(process), code)


if __name__ == "__main__":
    unittest.main(verbosity=2)
