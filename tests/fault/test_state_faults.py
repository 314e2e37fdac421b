"""Writes of the service that fail: of layers, of the commit journal, of its database, of checkpoints.

For each act on a session strace first counts the calls with which every thread of the service writes; then the n-th
call of each name fails with ENOSPC or EIO while the act is done again. Whatever the act answers, afterwards there is
the old state or the new one, the same act works, and a service that is killed and started again finds it all.

Each name gets the first, the middle and the last of its calls; GLOVEBOX_FAULTS=all takes every one.
"""

import http.client
import os
import re
import signal
import subprocess
import sys
import unittest
from collections import Counter
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "serve"), str(HERE)]

from service import Service, Session, wait_until  # noqa: E402
from test_service_faults import STRACE, ask_once  # noqa: E402

# What puts something on a disk, or a name into a directory.
WRITES = ("write pwrite64 writev pwritev2 fsync fdatasync sync_file_range ftruncate fallocate copy_file_range "
          "sendfile mkdir mkdirat rename renameat renameat2 link linkat symlinkat unlink unlinkat rmdir mknodat "
          "fchmod fchmodat fchown fchownat utimensat fsetxattr lsetxattr setxattr removexattr fremovexattr "
          "open openat openat2 flock").split()
ERRORS = ("ENOSPC", "EIO")
KEY = {"X-Glovebox-Key": "07" * 32}
ALL = os.environ.get("GLOVEBOX_FAULTS") == "all"


class Tracer:
    """strace on all threads of a process. It lets go of a process that executes a program."""

    def __init__(self, pid, output, *words):
        self.process = subprocess.Popen(
            [STRACE, "-f", "-b", "execve", "-o", output, *words, "-p", str(pid)],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        line = self.process.stderr.readline().decode()  # one, for all threads
        assert "attached" in line, line

    def stop(self):
        self.process.terminate()
        self.process.communicate()


def read_tree(path):
    """Every file below, with what is in it. What a commit sets aside, until the next one ends it, is not looked at."""
    return {str(file.relative_to(path)): file.read_text() for file in sorted(Path(path).rglob("*"))
            if file.is_file() and not file.relative_to(path).parts[0].startswith(".glovebox-")}


class StateFaults(unittest.TestCase):
    def setUp(self):
        self.service = Service("pool.size = 0\n")
        self.addCleanup(self.service.close)
        self.place = self.service.workspace("work", m1="0", m2="0", x="0")
        self.session = self.service.create(self.place)
        self.rounds = 0
        self.failed = Counter()  # by the status that was answered

    # ---- Faults ------------------------------------------------------------------------------

    def ask(self, method, path, body=None, headers=None):
        """The answer, or nothing when the connection was closed."""
        connection = self.service.connect()
        connection.timeout = 20
        try:
            answer = self.service.request(method, path, body, headers=headers, connection=connection)
            return answer
        except (OSError, http.client.HTTPException):
            return None
        finally:
            connection.close()

    def count_calls(self, act):
        trace = self.service.base / "trace"
        tracer = Tracer(self.service.process.pid, str(trace), "-e", "trace=" + ",".join("?" + name for name in WRITES))
        try:
            act()
        finally:
            tracer.stop()
        per_thread = Counter(re.findall(r"^(\d+) +([a-z_0-9]+)\(", trace.read_text(), re.M))
        most = Counter()
        for (_, name), count in per_thread.items():
            most[name] = max(most[name], count)
        return most

    def fail_each(self, prepare, act, check, least):
        """`check` is told what prepare() returned and what act() answered, after the faults."""
        prepared = prepare()
        self.layers_before = self.layer_count()
        calls = self.count_calls(lambda: check(prepared, act(prepared)))
        self.assertGreaterEqual(len(calls), least, calls)
        for name, count in sorted(calls.items()):
            numbers = range(1, count + 1) if ALL else sorted({1, (count + 1) // 2, count})
            for number in numbers:
                error = ERRORS[(number + len(name)) % 2]
                with self.subTest(call=name, n=number, error=error):
                    self.fail_one(prepare, act, check, f"inject=?{name}:error={error}:when={number}")
        print(f"{self.id().rsplit('.', 1)[1]}: {sum(self.failed.values())} faults in {len(calls)} kinds of calls, "
              f"answers {dict(self.failed)}", file=sys.stderr)

    def fail_one(self, prepare, act, check, fault):
        prepared = prepare()
        self.layers_before = self.layer_count()
        tracer = Tracer(self.service.process.pid, "/dev/null", "-e", fault)
        try:
            answer = act(prepared)
        finally:
            tracer.stop()
        self.failed[answer.status if answer else "closed"] += 1
        self.assertIsNone(self.service.process.poll(), f"{fault}: the service ended\n" + self.service.log_text()[-2000:])
        check(prepared, answer)

    # ---- What must hold ----------------------------------------------------------------------

    def sessions(self):
        answer = ask_once(self.service, "GET", "/v1/isolated/sessions")
        self.assertEqual(answer.status, 200, answer)
        return {each["session_id"]: each for each in answer.json["sessions"]}

    def layer_count(self):
        layers = self.service.state / "layers"
        return len([entry for entry in layers.iterdir() if entry.is_dir()])

    def check_layers(self, more):
        """Of layers there are so many more than before the act."""
        wanted = self.layers_before + more
        wait_until(lambda: self.layer_count() <= wanted, 3)
        self.assertEqual(self.layer_count(), wanted, os.listdir(self.service.state / "layers"))

    def revive(self, session):
        """The session, alive; with a fresh box if the last act left it without one."""
        if self.sessions()[session.id]["status"] != "active":
            answer = session.post("/recycle")
            self.assertEqual(answer.status, 200, answer)
        return session

    def check_restart(self, known):
        """Killed and started again, the service knows these sessions, and has no layers of others."""
        self.service.stop(signal.SIGKILL)
        self.service.start()
        self.assertEqual(set(self.sessions()), set(known))
        for identifier in known:
            diff = self.service.get(f"/v1/isolated/session/{identifier}/diff", headers={"Accept": "text/x-diff"})
            self.assertEqual(diff.status, 200, diff)
            self.assertEqual(self.service.delete(f"/v1/isolated/session/{identifier}").status, 200)
        self.assertTrue(wait_until(lambda: self.layer_count() == 0), list((self.service.state / "layers").iterdir()))
        again = self.service.create(self.place)
        self.assertEqual(again.out("echo usable"), "usable")
        again.delete()

    # ---- Acts --------------------------------------------------------------------------------

    def test_create(self):
        path = "/v1/isolated/session"
        before = set(self.sessions())

        def check(_, answer):
            made = set(self.sessions()) - before
            if answer is not None and answer.status == 201:
                self.assertEqual(made, {answer.json["session_id"]})
                self.assertEqual(Session(self.service, answer.json["session_id"]).out("cat m1"), "0")
            elif answer is not None:
                self.assertEqual(made, set(), answer)
            for identifier in made:
                self.assertEqual(self.service.delete(f"{path}/{identifier}").status, 200)
            self.check_layers(0)

        self.fail_each(lambda: None, lambda _: self.ask("POST", path, {"workspace": {"path": self.place}}), check, 5)
        self.check_restart(before)

    def change(self):
        """Files that a commit would take over; what is there before and after it."""
        self.rounds += 1
        old = read_tree(self.place)
        text = str(self.rounds)
        self.revive(self.session).out(f"mkdir -p d; printf {text} > m1; printf {text} > m2; printf {text} > d/m3; "
                                      f"rm -f x; printf {text} > n{text}")
        new = {name: was for name, was in old.items() if name != "x"}
        new.update({"m1": text, "m2": text, "d/m3": text, "n" + text: text})
        return old, new

    def test_commit(self):
        def check(trees, answer):
            old, new = trees
            now = read_tree(self.place)
            if answer is not None and answer.status == 200:
                self.assertEqual(now, new)
            self.assertIn(now, (old, new), answer)
            again = self.session.post("/commit", {})
            self.assertEqual(again.status, 200, again)
            self.assertEqual(read_tree(self.place), new)
            self.assertEqual([name for name in os.listdir(self.place) if name.startswith(".glovebox-")], [])

        self.fail_each(self.change, lambda _: self.ask("POST", self.session.path + "/commit", {}), check, 8)
        self.check_restart({self.session.id})

    def test_undo(self):
        def prepare():
            old, _ = self.change()
            self.assertEqual(self.session.post("/commit", {}).status, 200)
            return old, read_tree(self.place)

        def check(trees, answer):
            old, new = trees
            now = read_tree(self.place)
            self.assertIn(now, (old, new), answer)
            if answer is not None and answer.status == 200:
                self.assertEqual(now, old)
                return
            again = self.session.post("/undo")
            if now == new:  # undone by this call, or by the recovery before it, which leaves nothing to undo
                self.assertIn(again.status, (200, 404), again)
                self.assertEqual(read_tree(self.place), old)

        self.fail_each(prepare, lambda _: self.ask("POST", self.session.path + "/undo"), check, 5)
        self.check_restart({self.session.id})

    def test_checkpoint(self):
        self.session.out("printf past > m1; head -c 3000000 /dev/urandom > big")

        def check(_, answer):
            self.assertEqual(self.revive(self.session).out("cat m1"), "past")
            if answer is None or answer.status != 200:
                return
            restored = self.service.post("/v1/isolated/restore", answer.body, headers=KEY)
            self.assertEqual(restored.status, 201, restored)
            back = Session(self.service, restored.json["session_id"])
            self.assertEqual(back.out("cat m1; wc -c < big"), "past3000000")
            back.delete()

        self.fail_each(lambda: None, lambda _: self.ask("POST", self.session.path + "/checkpoint", {}, KEY), check, 2)
        self.check_restart({self.session.id})

    def test_restore(self):
        self.session.out("printf past > m1; mkdir -p d; ln -s m1 d/link; rm x")
        whole = self.session.post("/checkpoint", {}, headers=KEY).body
        before = set(self.sessions())

        def check(_, answer):
            made = set(self.sessions()) - before
            if answer is not None and answer.status == 201:
                self.assertEqual(made, {answer.json["session_id"]})
            elif answer is not None:
                self.assertEqual(made, set(), answer)
            for identifier in made:
                self.assertEqual(Session(self.service, identifier).out("cat m1; readlink d/link; ls x 2>/dev/null || true"),
                                 "pastm1")
                self.assertEqual(self.service.delete(f"/v1/isolated/session/{identifier}").status, 200)
            self.check_layers(0)

        self.fail_each(lambda: None, lambda _: self.ask("POST", "/v1/isolated/restore", whole, KEY), check, 5)
        self.check_restart(before)

    def test_fork(self):
        def prepare():
            self.rounds += 1
            self.revive(self.session).out(f"printf {self.rounds} > m1")
            return str(self.rounds)

        def check(text, answer):
            others = set(self.sessions()) - {self.session.id}
            if answer is not None and answer.status == 201:
                self.assertEqual(others, {each["session_id"] for each in answer.json["sessions"]})
            elif answer is not None:
                self.assertEqual(others, set(), answer)
            for identifier in others:
                self.assertEqual(Session(self.service, identifier).out("cat m1"), text)
                self.assertEqual(self.service.delete(f"/v1/isolated/session/{identifier}").status, 200)
            self.assertEqual(self.revive(self.session).out("cat m1"), text)
            if self.rounds % 8 == 0:  # layers stand on one another, and there is a most
                self.session.delete()
                self.session = self.service.create(self.place)

        self.fail_each(prepare, lambda _: self.ask("POST", self.session.path + "/fork", {"count": 2}), check, 5)
        self.check_restart({self.session.id})

    def test_delete(self):
        def prepare():
            session = self.service.create(self.place)
            session.out("echo past > m1")
            return session

        def check(session, answer):
            if answer is None or answer.status != 200:
                self.assertIn(session.delete().status, (200, 404))
            self.assertEqual(set(self.sessions()), {self.session.id})
            self.check_layers(-1)

        self.fail_each(prepare, lambda session: self.ask("DELETE", session.path), check, 4)
        self.check_restart({self.session.id})


if __name__ == "__main__":
    unittest.main(verbosity=2)
