"""Services that are found and started, and boxes without Python: commands, files, changes, policies. Real ones."""

import asyncio
import gc
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import unittest
import warnings
from pathlib import Path
from unittest import mock

import glovebox as gb
from glovebox import _service
from glovebox._drive import run
from support import BoxTest, fresh_directory, needs_root, wait_until
from test_values import EVERY_KIND


def state_directories():
    parent = Path(os.environ["GLOVEBOX_STATE"]) / "python"
    return sorted(parent.iterdir()) if parent.is_dir() else []


def is_alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


# Prints where its service is, then waits for a line.
CHILD = """
import os, sys, glovebox as gb
from glovebox import _service
box = gb.spawn("child", python=False)
box.run("sleep 1000 &")
service = _service.shared._service
print(service._process.pid, service._state, service._place, flush=True)
sys.stdin.readline()
"""


class TheOwnService(unittest.TestCase):
    def start_child(self, more=""):
        child = subprocess.Popen([sys.executable, "-c", CHILD + more], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.addCleanup(child.stdin.close)
        self.addCleanup(child.stdout.close)
        pid, state, place = child.stdout.readline().split()
        self.assertTrue(is_alive(int(pid)))
        return child, int(pid), Path(state), Path(place)

    def assertNothingLeft(self, pid, state, place):
        self.assertTrue(wait_until(lambda: not is_alive(pid)), "the service is still there")
        self.assertTrue(wait_until(lambda: not state.exists() and not place.exists()), "its directories are still there")

    def test_ends_with_its_process(self):
        child, *service = self.start_child()
        child.communicate("\n", timeout=60)
        self.assertEqual(child.returncode, 0)
        self.assertNothingLeft(*service)

    def test_ends_when_its_process_is_killed(self):
        child, *service = self.start_child()
        child.kill()
        child.wait()
        self.assertNothingLeft(*service)

    def test_ends_when_its_process_leaves_without_cleaning_up(self):
        child, *service = self.start_child("os._exit(3)\n")
        child.communicate("\n", timeout=60)
        self.assertNothingLeft(*service)

    def test_does_not_end_with_a_keyboard_interrupt(self):
        more = "print(box.run('echo still').stdout, flush=True)\n"
        child, pid, state, place = self.start_child("""
import signal
signal.signal(signal.SIGINT, signal.SIG_IGN)
print("ready", flush=True)
sys.stdin.readline()
""" + more)
        child.stdin.write("\n")
        child.stdin.flush()
        child.stdout.readline()
        os.kill(child.pid, signal.SIGINT)
        self.assertNotEqual(os.getpgid(pid), os.getpgid(child.pid))  # a terminal signals the group
        out, _ = child.communicate("\n", timeout=60)
        self.assertIn("still", out)
        self.assertNothingLeft(pid, state, place)

    def test_a_forked_child_has_no_part_in_it(self):
        with gb.Supervisor() as supervisor:
            box = supervisor.spawn("parent", python=False)
            pid = os.fork()
            if pid == 0:
                code = 9
                try:
                    code = self._in_the_child(box)
                finally:
                    os._exit(code)
            self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), 0)
            self.assertEqual(box.run("echo mine").stdout, "mine\n")

    @staticmethod
    def _in_the_child(box):
        try:
            box.run("true")
            return 1
        except gb.OwnershipError:
            pass
        if _service.shared._service is not None:
            return 2
        with gb.spawn("own", python=False) as own:  # a service of its own
            if own.run("echo x").stdout != "x\n":
                return 3
        gb.shutdown()
        del box  # not closed: it is the parent's
        gc.collect()
        return 0

    def test_is_shared_by_supervisors_and_ends_with_the_last(self):
        first, second = gb.Supervisor(), gb.Supervisor()
        first.host(), second.host()
        service = _service.shared._service
        first.close()
        self.assertTrue(service.is_alive())
        second.close()
        self.assertFalse(service.is_alive())

    def kill_service(self, whom):
        """Of the service of this process: all of it, or the program alone, while its keeper still cleans up."""
        service = _service.shared._service
        if whom == "all":
            os.killpg(service._process.pid, signal.SIGKILL)
            service._process.wait()
        else:
            children = Path(f"/proc/{service._process.pid}/task/{service._process.pid}/children").read_text().split()
            # The other one is the shell that watches the pipe.
            served = [int(pid) for pid in children if not Path(f"/proc/{pid}/cmdline").read_bytes().startswith(b"/bin/sh")]
            self.assertEqual(len(served), 1)
            os.kill(served[0], signal.SIGKILL)
            self.assertTrue(wait_until(lambda: not service._is_listening()))  # its last thread has gone
        return service._state, service._place

    def test_is_started_again_after_it_died(self):
        for whom in ("all", "program"):
            with self.subTest(whom), gb.Supervisor() as first, gb.Supervisor() as second:
                box = first.spawn("same", python=False)
                second.host()
                left = self.kill_service(whom)
                again = first.spawn("same", python=False)  # the name is free: what had it is gone
                self.assertEqual(again.run("echo new").stdout, "new\n")
                with self.assertRaises(gb.SandboxEnded):
                    box.run("true")
                self.assertEqual((box.termination_reason, first.list_active()), ("service", {"same": again}))
                box.close()
                self.assertTrue(second.host()["available"])
                self.assertTrue(wait_until(lambda: not any(place.exists() for place in left)))

    def test_is_started_again_with_asyncio(self):
        async def work():
            async with gb.aio.Supervisor() as supervisor:
                for whom in ("all", "program"):
                    box = await supervisor.spawn("same", python=False)
                    self.kill_service(whom)
                    async with await supervisor.spawn("same", python=False) as again:
                        self.assertEqual((await again.run("echo new")).stdout, "new\n")
                    with self.assertRaises(gb.SandboxEnded):
                        await box.run("true")

        asyncio.run(work())

    def test_what_a_killed_keeper_left_is_removed_by_the_next(self):
        child, pid, state, place = self.start_child()
        other, other_pid, other_state, other_place = self.start_child()  # lives on, and keeps what is its own
        os.kill(pid, signal.SIGKILL)  # as Ray does: the children of a worker, and the worker
        child.kill()
        child.wait()
        self.assertTrue(wait_until(lambda: _service._is_left(state)), "something of the service still lives")
        self.assertTrue(state.exists())
        with gb.Supervisor() as supervisor:
            supervisor.host()
            self.assertEqual((state.exists(), place.exists()), (False, False))
            self.assertEqual((other_state.exists(), other_place.exists()), (True, True))
        other.stdin.write("\n")
        other.stdin.flush()
        self.assertEqual(other.wait(30), 0)
        self.assertNothingLeft(other_pid, other_state, other_place)

    def test_is_stopped_although_its_keeper_was_killed(self):
        with gb.Supervisor() as supervisor:
            box = supervisor.spawn("x", python=False)
            service = _service.shared._service
            os.kill(service._process.pid, signal.SIGKILL)
            service._process.wait()
        self.assertTrue(box.is_closed)
        self.assertTrue(_service._is_left(service._state))
        self.assertEqual((service._state.exists(), service._place.exists()), (False, False))

    def test_its_directories_are_nobody_elses(self):
        with gb.Supervisor() as supervisor:
            supervisor.host()
            service = _service.shared._service
            for directory in (service._state, service._place):
                self.assertEqual(directory.stat().st_mode & 0o777, 0o700)

    def test_passes_on_no_token(self):
        with mock.patch.dict(os.environ, {"GLOVEBOX_TOKEN": "hush", "EXECD_ACCESS_TOKEN": "hush"}):
            with gb.Supervisor() as supervisor:
                self.assertTrue(supervisor.host()["available"])
                with supervisor.spawn("x", python=False) as box:
                    self.assertNotIn("hush", box.run("env").stdout)

    def test_a_program_that_is_not_there_is_said_so(self):
        with mock.patch.dict(os.environ, {"GLOVEBOX": "/nowhere/glovebox"}), self.assertRaisesRegex(
            gb.ServiceNotFound, "/nowhere/glovebox"
        ):
            gb.Supervisor().host()
        with mock.patch.dict(os.environ, {"PATH": "/nowhere"}):
            del os.environ["GLOVEBOX"]
            with self.assertRaisesRegex(gb.ServiceNotFound, "GLOVEBOX_HOST"):
                gb.Supervisor().host()

    def test_a_service_that_does_not_start_says_why(self):
        program = fresh_directory() / "glovebox"
        program.write_text("#!/bin/sh\necho 'it is too hot' >&2\nexit 1\n")
        program.chmod(0o755)
        with self.assertRaisesRegex(gb.ServiceNotFound, "did not start: it is too hot"):
            gb.Supervisor(binary=str(program)).host()

    def test_a_service_that_does_not_start_leaves_nothing(self):
        for program in ("/bin/false", "/bin/true"):
            before = state_directories()
            with self.assertRaisesRegex(gb.ServiceNotFound, "did not start"):
                gb.Supervisor(binary=program).host()
            self.assertEqual(state_directories(), before)


class ANamedService(unittest.TestCase):
    """A service that another user runs, over TCP with a token."""

    def setUp(self):
        self.directory = fresh_directory(token="open-sesame")
        (self.directory / "token").chmod(0o600)
        (self.directory / "config.toml").write_text(
            f'listen = ["127.0.0.1:0"]\nstate_directory = "{self.directory}/state"\n'
            f'[[token]]\nname = "t"\nfile = "{self.directory}/token"\n')
        self.service = subprocess.Popen([os.environ["GLOVEBOX"], "serve", "--config", str(self.directory / "config.toml")],
                                        stderr=subprocess.PIPE, text=True)
        self.addCleanup(self.service.stderr.close)
        self.addCleanup(self.service.wait)
        self.addCleanup(self.service.terminate)
        for line in self.service.stderr:
            if '"listening"' in line:
                self.url = "http://" + json.loads(line)["address"]
                return

    def test_is_used_and_left_alone(self):
        environment = {"GLOVEBOX_HOST": self.url, "GLOVEBOX_TOKEN_FILE": str(self.directory / "token")}
        with mock.patch.dict(os.environ, environment):
            with gb.Supervisor() as supervisor, supervisor.spawn("x", python=False) as box:
                self.assertEqual(box.run("echo there").stdout, "there\n")
                self.assertEqual(box.info()["idle_timeout_seconds"], 1800)
        self.assertIsNone(self.service.poll())
        self.assertIsNone(_service.shared._service)

    def test_wants_its_token(self):
        for token in ("", "wrong"):
            with gb.Supervisor(self.url, token=token) as supervisor, self.assertRaises(gb.PolicyAuthError):
                supervisor.spawn("x", python=False)

    def test_asyncio_over_tcp(self):
        async def work():
            async with gb.aio.Supervisor(self.url, token="open-sesame") as supervisor:
                async with await supervisor.spawn("x", python=False) as box:
                    return (await box.run("echo there")).stdout

        self.assertEqual(asyncio.run(work()), "there\n")


class Boxes(BoxTest):
    def test_commands(self):
        box = self.spawn(python=False, env={"GREETING": "hello"})
        result = box.run("printf 'a\\n\\nb'; echo $GREETING >&2; exit 3")
        self.assertEqual(result, gb.RunResult(3, "a\n\nb", "hello\n"))
        with self.assertRaisesRegex(gb.SandboxError, "ended with 3: hello"):
            box.run("echo hello >&2; exit 3", check=True)
        self.assertEqual(box.run("cat; pwd", stdin="in", cwd="/usr").stdout, "in/usr\n")
        self.assertEqual(box.run("echo $A", env={"A": "ü"}).stdout, "ü\n")
        box.run("cd /usr; X=1")
        self.assertEqual(box.run("pwd; echo $X").stdout, "/usr\n1\n")

    def test_a_command_that_is_out_of_time(self):
        box = self.spawn(python=False)
        result = box.run("echo before; sleep 1000", timeout=1)
        self.assertEqual((result.timed_out, result.exit_code), (True, 124))
        self.assertIn("before", result.stdout)
        self.assertEqual(box.run("echo after").stdout, "after\n")

    def test_cancel_ends_a_command(self):
        box = self.spawn(python=False)
        self.assertFalse(box.cancel())
        # One that SIGINT ends, and one that ignores it.
        for command in ("echo on; sleep 1000", "trap '' INT; echo on; sleep 1000 & wait; sleep 1000"):
            with self.subTest(command):
                begun, results = threading.Event(), []
                thread = threading.Thread(target=lambda: results.append(
                    box.run(command, on_output=lambda *_: begun.set())))
                thread.start()
                self.assertTrue(begun.wait(30))
                self.assertTrue(box.cancel())
                thread.join(30)
                self.assertFalse(thread.is_alive())
                self.assertEqual((results[0].cancelled, results[0].ok, results[0].stdout), (True, False, "on\n"))
                with self.assertRaises(gb.Cancelled):
                    results[0].check()
                again = box.run("echo free", timeout=30)
                self.assertEqual((again.stdout, again.cancelled), ("free\n", False))

    def test_cancel_ends_commands_that_wait_for_their_turn(self):
        box = self.spawn(python=False)
        begun, results = threading.Event(), []
        threads = [threading.Thread(target=lambda: results.append(
            box.run("echo on; sleep 1000", on_output=lambda *_: begun.set()))) for _ in range(3)]
        for thread in threads:
            thread.start()
        self.assertTrue(begun.wait(30))
        self.assertTrue(wait_until(lambda: len(box._core._runs) == 3))
        self.assertTrue(box.cancel())
        for thread in threads:
            thread.join(30)
        self.assertEqual([each.cancelled for each in results], [True, True, True])

    def test_output_is_heard_as_it_comes(self):
        box = self.spawn(python=False, workspace=fresh_directory(), mode="rw")
        first = threading.Event()
        heard = []

        def on_output(stream, text):
            heard.append((stream, text))
            first.set()

        # The command goes on only when what it printed has arrived.
        runner = threading.Thread(target=lambda: box.run("echo one; until [ -e go ]; do sleep 0.02; done; echo two >&2",
                                                         on_output=on_output))
        runner.start()
        self.assertTrue(first.wait(30))
        self.assertEqual(heard, [("stdout", "one\n")])
        box.files.write("go", "")
        runner.join(30)
        self.assertEqual(heard[1:], [("stderr", "two\n")])

    def test_nothing_of_the_callers_environment_is_inside(self):
        with mock.patch.dict(os.environ, {"MARKER_OF_THE_CALLER": "1"}):
            self.assertNotIn("MARKER_OF_THE_CALLER", self.spawn(python=False).run("env").stdout)

    def test_files(self):
        box = self.spawn(python=False, workspace=fresh_directory(a="one\n"))
        files = box.files
        self.assertEqual((files.read_text("a"), files.read_bytes("a")), ("one\n", b"one\n"))
        blob = b"--glovebox-python-boundary--\r\n" + bytes(range(256)) * 5000
        files.write("b", blob, mode=0o640)
        self.assertEqual(files.read_bytes("b"), blob)
        info = files.info("b")
        self.assertEqual((info.size, info.mode, info.type), (len(blob), 0o640, "file"))
        self.assertEqual(box.run("stat -c %a b").stdout, "640\n")
        files.chmod("b", 0o600)
        files.make_directory("d/e")
        files.move("b", "d/e/c")
        self.assertEqual(files.replace("a", "one", "two"), 1)
        self.assertEqual(box.run("cat a; ls -R d | tail -1").stdout, "two\nc\n")
        self.assertEqual({each.path for each in files.list(".", 3)} >= {"./a", "./d/e/c"}, True)
        self.assertEqual([each.path for each in files.search(".", "**/c")], ["d/e/c"])
        files.remove("d/e/c")
        files.remove_directory("d")
        self.assertEqual((files.exists("d"), files.exists("a")), (False, True))
        with self.assertRaises(FileNotFoundError):
            files.read_text("nothing")
        with self.assertRaises(ValueError):
            files.read_text("../../etc/passwd")

    def test_changes_wait_for_a_commit(self):
        work = fresh_directory(a="1\n", gone="x\n")
        box = self.spawn(python=False, workspace=work)
        box.run("echo 2 > a; echo n > new; rm gone")
        self.assertEqual({(each.path, each.kind) for each in box.diff()},
                         {("a", "modified"), ("new", "added"), ("gone", "deleted")})
        self.assertIn("+2", box.diff_text())
        self.assertEqual((work / "a").read_text(), "1\n")
        dry = box.commit(only=["a"], dry_run=True)
        self.assertEqual(([each.path for each in dry.applied], (work / "a").read_text()), (["a"], "1\n"))
        box.commit()
        self.assertEqual(((work / "a").read_text(), (work / "gone").exists()), ("2\n", False))
        box.undo()
        self.assertEqual(((work / "a").read_text(), (work / "gone").exists()), ("1\n", True))

    def test_a_risky_change_is_held(self):
        work = fresh_directory()
        box = self.spawn(python=False, workspace=work)
        box.run("echo x > .envrc")
        with self.assertRaises(gb.CommitRefused) as caught:
            box.commit()
        self.assertEqual(caught.exception.held[0]["path"], ".envrc")
        self.assertEqual(list(work.iterdir()), [])

    def test_a_read_only_workspace(self):
        box = self.spawn(python=False, workspace=fresh_directory(a="1"), mode="ro")
        self.assertFalse(box.run("echo 2 > a").ok)
        with self.assertRaises(PermissionError):
            box.files.write("a", "2")

    def test_grants_are_what_they_say_and_denials_win(self):
        data = fresh_directory(open="yes", private="no")
        policy = gb.Policy().allow_read(data).deny_fs(data / "private")
        box = self.spawn(policy, python=False, capabilities=[gb.ReadPath(data / "private")])
        result = box.run(f"cat {data}/open; cat {data}/private; echo x > {data}/open")
        self.assertEqual(result.stdout, "yes")
        self.assertEqual((data / "open").read_text(), "yes")
        plain = self.spawn(python=False, name="no-grant")
        self.assertFalse(plain.run(f"cat {data}/open").ok)

    def test_the_service_reads_every_kind_of_capability_as_it_is_meant(self):
        # What is about Python code alone is refused in a box without Python; the rest is in force, word for word.
        data = fresh_directory()
        listener = socket.socket(socket.AF_UNIX)
        self.addCleanup(listener.close)
        listener.bind(str(data / "s"))
        for capability in EVERY_KIND:
            if isinstance(capability, (gb.ReadPath, gb.WritePath, gb.ExecPath, gb.ConnectUnix)):
                capability = type(capability)(listener.getsockname() if capability.kind == "connect_unix" else data)
            with self.subTest(capability):
                try:
                    # Nothing can be executed that cannot be read.
                    more = gb.ReadPath(data) if isinstance(capability, gb.ExecPath) else None
                    with self.supervisor.spawn("kinds", python=False, capabilities=[capability, more]) as box:
                        terms = {term["name"] for term in box.report()["terms"]}
                except (gb.NotSupported, gb.InvalidRequest) as refused:
                    self.assertRegex(str(refused), "what Python code may do|cannot be kept for a session|there is no secret|cgroup")
                    continue
                wanted = {f"allow {capability.to_term()}"}
                if isinstance(capability, gb.Subprocess):
                    wanted = {f"allow {capability.word}={each}" for each in capability.commands}
                self.assertLessEqual(wanted, terms)

    def test_names(self):
        box = self.spawn(python=False, name="taken")
        with self.assertRaisesRegex(RuntimeError, "'taken' already exists"):
            self.supervisor.spawn("taken", python=False)
        box.close()
        self.spawn(python=False, name="taken").close()
        with gb.Supervisor(name_pattern="[a-z]+") as strict:
            with self.assertRaises(ValueError):
                strict.spawn("A1", python=False)
            self.assertEqual(strict.name_pattern, "[a-z]+")

    def test_backends(self):
        self.assertEqual(self.spawn(python=False).backend, "process")
        with self.assertRaises(ValueError):
            self.supervisor.spawn("x", backend="thread")
        with self.assertRaisesRegex(gb.MicroVMUnavailable, "virtual machine") as caught:
            self.supervisor.spawn("x", backend="microvm", python=False)
        self.assertIsInstance(caught.exception, gb.BackendUnavailable)
        with self.assertRaisesRegex(gb.BackendUnavailable, "cells are for Python sessions"):
            self.supervisor.spawn("x", backend="cell", python=False)

    def test_a_failed_spawn_leaves_nothing(self):
        for _ in range(2):  # the name is free again
            with self.assertRaises(ValueError):
                self.supervisor.spawn("failing", python=False, capabilities=[gb.ReadPath("/nowhere/at/all")])
        self.assertNotIn("failing", self.supervisor.list_active())

    def test_tenants(self):
        first = self.spawn(python=False, name="t1", tenant="acme", tenant_quota=1)
        with self.assertRaises(gb.TenantQuotaExceeded):
            self.supervisor.spawn("t2", python=False, tenant="acme", tenant_quota=1)
        with self.assertRaises(ValueError):
            self.supervisor.spawn("t3", python=False, tenant="other", tenant_quota=1, capabilities=[gb.ReadPath("/nowhere/x")])
        self.spawn(python=False, name="t4", tenant="other", tenant_quota=1)
        first.quarantine("odd")
        self.spawn(python=False, name="t5", tenant="acme", tenant_quota=1)
        self.assertEqual(first.quarantine_reason, "odd")

    def test_a_life(self):
        box = self.spawn(python=False, workspace=fresh_directory())
        self.assertIn(box.name, self.supervisor.list_active())
        self.assertFalse(box.reap())
        box.run("echo x > left; cd /usr")
        box.reset()
        self.assertEqual((box.diff(), box.run("pwd").stdout == "/usr\n"), ([], False))
        self.assertTrue(box.kill())
        self.assertFalse(box.kill())
        self.assertTrue(box.reap())
        self.assertEqual(box.termination_reason, "killed")
        self.assertNotIn(box.name, self.supervisor.list_active())
        for act in (box.report, box.diff, lambda: box.run("true"), lambda: box.exec("1"), lambda: box.recv(1)):
            with self.assertRaises(gb.SandboxEnded):
                act()

    def test_a_dropped_handle_warns_and_closes(self):
        box = self.supervisor.spawn("dropped", python=False)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            del box
            gc.collect()
        self.assertEqual([each.category for each in caught], [ResourceWarning])
        self.supervisor.spawn("dropped", python=False).close()

    def test_a_report_says_what_is_enforced(self):
        box = self.spawn(python=False, output_bytes_max=1 << 20)
        report = box.report()
        names = {each["name"] for each in report["enforced"]}
        self.assertLessEqual({"syscalls", "network", "filesystem", "limit.output"}, names)
        self.assertEqual(box.snapshot().session["session_id"], box.id)
        self.assertEqual(box.stats.operations, 0)

    def test_a_budget_that_is_used_up_has_its_own_error(self):
        box = self.spawn(python=False, output_bytes_max=1000, workspace=fresh_directory())
        with self.assertRaises(gb.OutputExceeded):
            box.run("echo kept > file; yes | head -c 100000")
        with self.assertRaises(gb.OutputExceeded):
            box.run("true")
        with self.assertRaises(gb.OutputExceeded):
            box.files.write("x", "")
        self.assertEqual(box.termination_reason, "output")
        self.assertNotIn(box.name, self.supervisor.list_active())
        self.assertEqual([each.path for each in box.diff()], ["file"])  # what it changed is still there
        self.assertTrue(box.reap())

    def test_wall_time_is_the_supervisors(self):
        box = self.spawn(python=False, wall_time_ms=300)
        with self.assertRaises(gb.WallTimeExceeded):
            box.run("trap '' TERM INT; sleep 1000")

    @needs_root
    def test_a_memory_budget_is_in_force(self):
        box = self.spawn(python=False, mem_bytes=64 << 20)
        with self.assertRaises(gb.MemoryExceeded):
            box.run("head -c 200000000 /dev/zero | tail -c 199999999 > /dev/null").check()
            box.run("true").check()

    def test_policies_are_the_services(self):
        self.assertIn("python", self.supervisor.policies())
        with self.assertRaisesRegex(gb.PolicyCompilerError, "no policy 'nope'"):
            self.supervisor.spawn("x", "nope", python=False)
        with self.assertRaisesRegex(gb.PolicyCompilerError, "not absolute"):
            self.supervisor.spawn("x", {"fs": {"read": ["data"]}}, python=False)
        file = fresh_directory(p__yaml="version: 1\nsandboxes:\n  a: {wall: 10s}\n  b: {wall: 20s}\n") / "p.yaml"
        box = self.spawn(f"{file}#b", python=False)
        self.assertIn("limit.wall", {each["name"] for each in box.report()["enforced"]})
        digest = gb.Policy.from_file(file, "b").compile().digest
        self.assertEqual(box.info()["policy"]["digest"], digest)
        self.spawn(f"{file}#b", python=False, if_policy=digest, name="by-digest")
        with self.assertRaises(ValueError):
            self.supervisor.spawn("x", f"{file}#a", python=False, if_policy=digest)

    def test_what_is_wrong_beside_a_policy_is_not_the_policys(self):
        path = fresh_directory(policy="a file, no directory") / "policy"
        with self.assertRaises(gb.InvalidRequest) as caught:
            self.supervisor.spawn("x", "python", python=False, workspace=path)
        self.assertIn("policy", str(caught.exception))
        self.assertNotEqual(caught.exception.code, "POLICY_INVALID")

    def test_numbers_of_a_policy_may_be_floats(self):
        box = self.spawn({"version": 1.0, "open_files": 128.0}, python=False)
        self.assertEqual(box.run("ulimit -n").stdout, "128\n")
        # Also of clients that do not make whole numbers of them.
        answer = run(self.supervisor._inner._driver.request(
            "POST", "/v1/isolated/session", json={"policy": {"document": {"version": 1.0, "open_files": 128.0}}, "overlays": []}))
        run(self.supervisor._inner._delete(answer.json()["session_id"]))
        with self.assertRaisesRegex(gb.PolicyCompilerError, "unsupported version"):
            self.spawn({"version": 1.5}, python=False, name="wrong")

    @needs_root
    def test_a_policy_may_ask_for_parts_of_a_processor(self):
        box = self.spawn({"version": 1.0, "memory": 256e6, "cpus": 0.5}, python=False)
        self.assertIn("256000000", " ".join(each["name"] for each in box.report()["terms"]))

    def test_a_connection_that_is_not_granted_is_told_with_its_rule(self):
        # Not of 127.0.0.1, whose other ports are the box's own.
        with socket.create_server(("127.0.0.1", 0)) as granted:
            port = granted.getsockname()[1]
            box = self.spawn(python=False, capabilities=[gb.ConnectTCP("127.0.0.1", port)])
            self.assertTrue(box.run(f"exec 3<>/dev/tcp/127.0.0.1/{port}").ok)
            self.assertFalse(box.run("exec 3<>/dev/tcp/192.0.2.1/9").ok)
            self.assertTrue(wait_until(box.denials))
        denial = box.denials()[0]
        self.assertEqual((denial.capability, denial.policy_rule, denial.decision, denial.attempted_action),
                         ("connect_tcp", "authority:connect_tcp", "deny", "connect to 192.0.2.1:9"))

    def test_48_boxes_from_12_threads(self):
        results = {}

        def work(number):
            for step in range(4):
                with self.supervisor.spawn(f"many-{number}-{step}", python=False) as box:
                    results[number, step] = box.run(f"echo {number} {step}").stdout

        threads = [threading.Thread(target=work, args=(number,)) for number in range(12)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(results, {(a, b): f"{a} {b}\n" for a in range(12) for b in range(4)})


class Policies(unittest.TestCase):
    def test_what_is_granted_is_what_the_compiler_reads(self):
        for capability in EVERY_KIND:
            with self.subTest(capability):
                policy = gb.Policy().grant(capability)
                again = gb.Policy.from_yaml(policy.to_yaml())
                self.assertEqual(again.compile(), policy.compile())
                if not capability.kind.endswith("_budget") and len(getattr(capability, "commands", "1")) == 1:
                    self.assertTrue(policy.allows(capability))
                    self.assertFalse(gb.Policy().allows(capability))

    def test_allow_fs_round_trips(self):
        policy = gb.Policy().allow_fs("/srv").allow_read("/srv").allow_tcp("a.example:1").allow_import("json").cpu_budget(5)
        self.assertEqual(gb.Policy.from_yaml(policy.to_yaml()).compile(), policy.compile())
        named = gb.Policy.from_yaml(policy.to_yaml("job"), "job")
        self.assertEqual(named.compile().digest, policy.compile().digest)

    def test_memory_is_not_dropped(self):
        self.assertEqual(gb.Policy(mem="256MiB").compile().document["memory"], "256MiB")

    def test_more_can_be_granted_to_a_policy_that_was_read(self):
        policy = gb.Policy.from_yaml("fs: [{read: /a}]\nwall: 3s").grant(gb.ReadPath("/b")).deny(gb.ReadPath("/a/x"))
        self.assertTrue(policy.allows(gb.ReadPath("/b")) and policy.allows(gb.ReadPath("/a")))
        self.assertFalse(policy.allows(gb.ReadPath("/a/x")))

    def test_everything_wrong_is_said_at_once(self):
        with self.assertRaises(gb.PolicyCompilerError) as caught:
            gb.Policy.from_yaml("fs: {read: [x]}\nconect: 1")
        self.assertRegex(str(caught.exception), r"policy:1:\d+: path 'x'.*\npolicy:2:1: unknown key 'conect'")
        with self.assertRaises(gb.PolicyCompilerError):
            gb.Policy().allow_read("/a").deny(gb.ReadPath("/a")).compile()

    def test_pyisolates_documents_are_read(self):
        text = """
version: 1.0
defaults:
  imports: [math]
sandboxes:
  base:
    fs: [{allow: "/srv/data"}, {deny: "/srv/data/private"}]
    net: [{connect: ["127.0.0.1:6379"]}]
  myguest: {extends: base, imports: [json], cpu_ms: 50}
"""
        policy = gb.Policy.from_yaml(text, "myguest")
        for module in ("math", "json"):  # a name of a policy is one module
            self.assertTrue(policy.allows(gb.Import(module, strict=True)))
            self.assertFalse(policy.allows(gb.Import(module)))
        self.assertTrue(policy.allows(gb.WritePath("/srv/data/x")))
        self.assertFalse(policy.allows(gb.ReadPath("/srv/data/private/x")))
        self.assertTrue(policy.allows(gb.ConnectTCP("127.0.0.1", 6379)))

    def test_templates(self):
        self.assertEqual(gb.Policy.named("python").compile().document["workspace"], "overlay")
        with self.assertRaises(gb.PolicyCompilerError):
            gb.Policy.named("nope")


class Asyncio(unittest.TestCase):
    def test_the_same_boxes_without_threads(self):
        async def work():
            async with gb.aio.Supervisor() as supervisor:
                async def one(number):
                    async with await supervisor.spawn(f"a{number}", python=False, workspace=fresh_directory(a="1")) as box:
                        await box.files.write("b", f"{number}")
                        result = await box.run("cat b; sleep 0.05")
                        self.assertEqual([each.path for each in await box.diff()], ["b"])
                        return result.stdout

                results = await asyncio.gather(*map(one, range(8)))
                self.assertEqual(results, [str(number) for number in range(8)])
                self.assertEqual(supervisor.list_active(), {})
                with self.assertRaises(gb.MicroVMUnavailable):
                    await supervisor.spawn("x", backend="microvm", python=False)

        asyncio.run(work())

    def test_a_cancelled_run_ends_in_the_box(self):
        async def work():
            async with gb.aio.Supervisor() as supervisor, await supervisor.spawn("c", python=False) as box:
                started = asyncio.Event()
                task = asyncio.create_task(box.run("echo go; sleep 1000", on_output=lambda *_: started.set()))
                await asyncio.wait_for(started.wait(), 30)
                task.cancel()
                with self.assertRaises(asyncio.CancelledError):
                    await task
                self.assertEqual((await box.run("echo free", timeout=30)).stdout, "free\n")

        asyncio.run(work())

    def test_a_cancelled_spawn_leaves_no_sandbox(self):
        async def work():
            async with gb.aio.Supervisor() as supervisor:
                await supervisor.host()
                task = asyncio.create_task(supervisor.spawn("c", python=False))
                while not supervisor._driver._tasks:
                    await asyncio.sleep(0)
                await asyncio.sleep(0)
                task.cancel()
                with self.assertRaises(asyncio.CancelledError):
                    await task
                while supervisor._driver._tasks:  # it is made all the same, and then unmade
                    await asyncio.sleep(0.002)
                listed = (await supervisor._driver.request("GET", "/v1/isolated/sessions")).json()
                self.assertEqual((supervisor.list_active(), listed["sessions"]), ({}, []))
                async with await supervisor.spawn("c", python=False) as box:
                    self.assertEqual((await box.run("echo free", timeout=30)).stdout, "free\n")

        asyncio.run(work())


if __name__ == "__main__":
    unittest.main()
