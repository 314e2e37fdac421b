"""Python in real boxes, through the SDK. The numbers are those of the behaviours that PyIsolate's own tests hold it to;
tests/sdk/README.md lists where each of the 48 is kept."""

import array
import asyncio
import os
import subprocess
import sys
import threading
import time
import unittest

import glovebox as gb
from support import BoxTest, fresh_directory, wait_until


def hypotenuse(a, b=4):
    import math

    return math.hypot(a, b)


def fails():
    raise LookupError("nothing there")


def factorial(n):
    return 1 if n == 0 else n * factorial(n - 1)


class Helper:
    @staticmethod
    def triple(x):
        return 3 * x

    def shout(self, text):
        return text.upper() + "!"


class Conversation(BoxTest):
    def test_01_what_is_posted_is_received(self):
        box = self.spawn()
        box.exec("post({'a': [1, None, True, 2.5, 'ü']})")
        self.assertEqual(box.recv(30), {"a": [1, None, True, 2.5, "ü"]})

    def test_02_a_call_has_its_result(self):
        box = self.spawn(allowed_imports=["math"])
        self.assertEqual(box.call("math.sqrt", 9), 3.0)
        box.exec("post('stale')")
        self.assertEqual(box.call("math.sqrt", 16), 4.0)  # not what was posted before
        self.assertEqual(box.recv(30), "stale")

    def test_03_a_target_without_a_module_is_an_error(self):
        with self.assertRaises(gb.SandboxError):
            self.spawn().call("sqrt", 9)

    def test_04_recv_is_out_of_time(self):
        box = self.spawn()
        with self.assertRaises(TimeoutError):
            box.recv(0.05)
        box.exec("post(1)")
        self.assertEqual(box.recv(30), 1)

    def test_05_errors_come_out_of_recv_and_the_box_stays_usable(self):
        box = self.spawn()
        box.exec("def broken(:")
        with self.assertRaises(gb.GuestError) as caught:
            box.recv(30)
        self.assertEqual(caught.exception.type, "SyntaxError")
        box.exec("x = 5\nraise RuntimeError('boom')")
        with self.assertRaisesRegex(gb.GuestError, "RuntimeError: boom") as caught:
            box.recv(30)
        self.assertIn("boom", caught.exception.traceback)
        box.exec("post(x)")
        self.assertEqual(box.recv(30), 5)

    def test_05_an_execution_can_be_waited_for(self):
        box = self.spawn()
        execution = box.exec("y = 1")
        execution.wait(30)
        self.assertTrue(execution.done)
        with self.assertRaises(gb.GuestError):
            box.exec("1 / 0").wait(30)
        box.exec("post(y)")
        self.assertEqual(box.recv(30), 1)

    def test_06_a_call_raises_what_the_function_raised(self):
        box = self.spawn()
        with self.assertRaisesRegex(gb.GuestError, "LookupError: nothing there") as caught:
            box.call(fails)
        self.assertIsInstance(caught.exception, gb.SandboxError)

    def test_07_a_context_manager_closes(self):
        with self.supervisor.spawn("managed") as box:
            box.exec("pass").wait(30)
        self.assertTrue(box.is_closed)
        with self.assertRaises(gb.SandboxEnded):
            box.exec("pass")

    def test_values_keep_their_kind(self):
        box = self.spawn()

        def echo(value):
            return value

        for value in (b"", bytes(range(256)) * 10_000, {"$bytes": 1}, [[b"x"], {"y": b"z"}], "\0", 2**63, -(2**63), 1e300):
            self.assertEqual(box.call(echo, value), value)
        numbers = array.array("d", [1.5, -2.0])
        got = box.call(echo, numbers)
        self.assertEqual(bytes(got), bytes(numbers))

    def test_what_is_too_much_to_take_in_is_an_error_and_the_box_goes_on(self):
        # Room for a message, and not for the value in it as well.
        try:
            box = self.spawn(mem_bytes=192 << 20, handlers={"much": lambda action, payload: bytes(60 << 20)})
        except gb.NotSupported as refused:
            self.assertIn("memory", str(refused))
            self.skipTest("this host keeps no memory limit for an ordinary user")
        box.exec("held = bytes(90 << 20)").wait(30)
        with self.assertRaises(gb.SandboxError):
            box.call("builtins.len", bytes(60 << 20), timeout=60)
        with self.assertRaises(gb.SandboxError):
            box.exec("request('much', 'now')").wait(60)
        box.exec("post('free')")
        self.assertEqual(box.recv(30), "free")

    def test_values_go_in_too(self):
        box = self.spawn()
        box.exec("while (item := recv()) is not None: post(item * 2)")
        for number in range(50):
            box.post(number)
            self.assertEqual(box.recv(30), number * 2)
        box.post(None)

    def test_a_guest_that_posts_what_does_not_cross(self):
        box = self.spawn()
        box.exec("post(object())")
        with self.assertRaises(gb.SandboxError):
            box.recv(30)
        box.exec("post(1)")
        self.assertEqual(box.recv(30), 1)

    def test_functions_are_sent(self):
        box = self.spawn(allowed_imports=["math"])
        self.assertEqual(box.call(hypotenuse, 3), 5.0)
        self.assertEqual(box.call(hypotenuse, 6, b=8), 10.0)
        self.assertEqual(box.call(factorial, 10), 3628800)
        self.assertEqual(box.call(Helper.triple, 4), 12)
        self.assertEqual(box.call(Helper().shout, "hey"), "HEY!")

    def test_output_logs_and_metrics(self):
        box = self.spawn()
        box.exec("print('printed')\nlog('warning', 'careful')\nmetric('speed', 2.5)\npost(0)")
        box.recv(30)
        self.assertTrue(wait_until(lambda: "printed" in box.output("stdout")))
        self.assertEqual(box.logs(), [gb.LogEvent("warning", "careful")])
        self.assertEqual([(each.name, each.value) for each in box.metrics()], [("speed", 2.5)])

    def test_cancel_interrupts_what_runs(self):
        box = self.spawn()
        box.exec("post('on')\nwhile True: pass")
        self.assertEqual(box.recv(30), "on")
        self.assertTrue(box.cancel())
        with self.assertRaises(gb.SandboxError):
            box.recv(30)
        box.exec("post('free')")
        self.assertEqual(box.recv(30), "free")

    def test_a_call_that_is_out_of_time_is_interrupted(self):
        def forever():
            while True:
                pass

        box = self.spawn()
        began = time.monotonic()
        with self.assertRaises(gb.TimeoutError):
            box.call(forever, timeout=0.3)
        self.assertLess(time.monotonic() - began, 10)
        box.exec("post('free')")
        self.assertEqual(box.recv(30), "free")

    def test_a_call_behind_one_that_does_not_end_is_out_of_time_too(self):
        box = self.spawn()
        box.exec("while True: pass")
        with self.assertRaises(gb.TimeoutError):
            box.call(hypotenuse, 3, timeout=0.3)  # its definition waits already
        self.assertTrue(box.cancel())
        with self.assertRaises(gb.Cancelled):
            box.recv(30)
        self.assertEqual(box.call(factorial, 3, timeout=30), 6)

    def test_cancel_ends_commands_and_python_together(self):
        box = self.spawn()
        box.exec("while True: pass")
        begun, results = threading.Event(), []
        thread = threading.Thread(target=lambda: results.append(
            box.run("echo on; sleep 1000", on_output=lambda *_: begun.set())))
        thread.start()
        self.assertTrue(begun.wait(30))
        self.assertTrue(box.cancel())
        thread.join(30)
        self.assertTrue(results[0].cancelled)
        with self.assertRaises(gb.Cancelled):
            box.recv(30)

    def test_stats_are_real(self):
        box = self.spawn()
        box.exec("sum(i * i for i in range(2_000_000))").wait(60)
        stats = box.stats
        self.assertEqual((stats.operations, stats.errors), (2, 0))
        self.assertGreater(stats.cpu_ms, 5)
        self.assertGreater(stats.latency_ms, 0)
        self.assertGreater(stats.memory_bytes, 1 << 20)
        box.exec("print('x' * 50_000)").wait(30)
        box.exec("x = bytearray(64 << 20)").wait(30)
        later = box.stats
        self.assertGreater(later.memory_bytes - stats.memory_bytes, 60 << 20)
        self.assertGreater(later.output_bytes - stats.output_bytes, 50_000)
        self.assertLess(later.output_bytes - stats.output_bytes, 60_000)
        self.assertEqual(len(later.latency), 5)

    def test_run_and_files_are_of_the_same_box(self):
        work = fresh_directory(a="1\n")
        box = self.spawn(workspace=work, capabilities=[gb.WritePath(work)])
        self.assertEqual(box.run("cat a").stdout, "1\n")
        box.files.write("b", "2")
        self.assertIn("b", [each.path for each in box.diff()])

    def test_reset_has_fresh_globals_and_the_same_authority(self):
        box = self.spawn(allowed_imports=["math"])
        box.exec("x = 1").wait(30)
        box.reset()
        with self.assertRaisesRegex(gb.GuestError, "NameError"):
            box.exec("x").wait(30)
        self.assertEqual(box.call("math.sqrt", 4), 2.0)


class Authority(BoxTest):
    def test_09_nothing_can_be_imported_without_a_grant(self):
        box = self.spawn()
        for module in ("os", "math", "json", "ctypes", "socket"):
            with self.subTest(module), self.assertRaises(gb.SandboxError):
                box.exec(f"import {module}").wait(30)
        both = self.spawn(gb.Policy().allow_import("math"), allowed_imports=["json"], name="both")
        both.exec("import math, json\npost(json.dumps(math.floor(2.5)))")
        self.assertEqual(both.recv(30), "2")

    def test_10_a_grant_on_a_submodule_is_not_one_on_its_parent(self):
        box = self.spawn(allowed_imports=["os.path"])
        box.exec("import os.path\npost(os.path.join('a', 'b'))").wait(30)
        self.assertEqual(box.recv(30), "a/b")
        other = self.spawn(allowed_imports=["json"], name="other")
        with self.assertRaises(gb.PolicyError):
            other.exec("import json\nimport os").wait(30)

    def test_10_an_import_is_of_a_package_unless_it_is_strict(self):
        home = fresh_directory()
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(home / "venv")], check=True)
        packages = next((home / "venv").glob("lib/python3*/site-packages"))
        for name, text in (("outer/__init__.py", "import helper\nfrom . import inner\n"), ("outer/inner.py", "x = 1\n"),
                           ("outer/deep/__init__.py", ""), ("outer/deep/down.py", "import helper.more\ny = helper.more.z\n"),
                           ("helper/__init__.py", "import json\n"), ("helper/more.py", "z = 3\n")):
            (packages / name).parent.mkdir(exist_ok=True)
            (packages / name).write_text(text)
        python = {"interpreter": str(home / "venv/bin/python3")}
        code = "import outer.deep.down\nfrom outer import inner\npost([outer.inner.x, inner.x, outer.deep.down.y])"
        box = self.spawn(capabilities=[gb.Import("outer")], name="package", **python)
        box.exec(code).wait(30)
        self.assertEqual(box.recv(30), [1, 1, 3])
        for refused in ("import helper", "import helper.more", "import json"):
            with self.subTest(refused), self.assertRaises(gb.PolicyError):
                box.exec(refused).wait(30)
        strict = self.spawn(capabilities=[gb.Import("outer", strict=True), gb.Import("helper", strict=True)],
                            name="strict", **python)
        strict.exec("import outer\npost(outer.inner.x)").wait(30)
        self.assertEqual(strict.recv(30), 1)
        for refused in ("import outer.deep.down", "from outer import inner"):
            with self.subTest(refused), self.assertRaises(gb.PolicyError):
                strict.exec(refused).wait(30)
        alone = self.spawn(capabilities=[gb.Import("outer", strict=True)], name="alone", **python)
        with self.assertRaises(gb.PolicyError):
            alone.exec("import outer").wait(30)  # it needs helper, which is of another package

    def test_14_paths_are_what_was_granted(self):
        data = fresh_directory(readable="yes")
        out = fresh_directory()
        box = self.spawn(capabilities=[gb.ReadPath(data), gb.WritePath(out)])

        def read(path):
            with open(path) as file:
                return file.read()

        def write(path, text):
            with open(path, "w") as file:
                return file.write(text)

        self.assertEqual(box.call(read, f"{data}/readable"), "yes")
        self.assertEqual(box.call(write, f"{out}/made", "x"), 1)  # 17: new files below a granted directory
        self.assertEqual((out / "made").read_text(), "x")
        for path in (f"{data}/readable", f"{data}/new", "/etc/x"):
            with self.subTest(path), self.assertRaises(gb.SandboxError):
                box.call(write, path, "no")
        for path in ("/etc/shadow", f"{os.environ['GLOVEBOX_STATE']}", f"{data}x/readable", f"{data}/../x"):
            with self.subTest(path), self.assertRaises(gb.SandboxError):
                box.call(read, path)

    def test_20_a_denial_is_an_event_and_21_an_alert(self):
        heard = []
        with gb.Supervisor() as supervisor:
            supervisor.register_alert_handler(lambda name, error: 1 / 0)
            supervisor.register_alert_handler(lambda name, error: heard.append((name, error)))
            with supervisor.spawn("curious") as box:
                with self.assertRaises(gb.PolicyError) as caught:
                    box.exec("import os").wait(30)
                self.assertTrue(wait_until(lambda: heard))
                event = caught.exception.denial_event
                self.assertEqual((event.cell, event.decision), ("curious", "deny"))
                self.assertIn("os", event.attempted_action)
                self.assertIn("import", event.capability)
                self.assertEqual(heard[0][0], "curious")
                self.assertEqual(heard[0][1].denial_event, event)
                self.assertEqual(box.denials(), [event])
                self.assertRegex(event.time, r"^\d{4}-\d\d-\d\dT")
                self.assertEqual(box.stats.denials, len(box._core.channel.records.denials))

    def test_33_requests_are_answered_by_handlers(self):
        seen = []

        def weather(action, payload):
            seen.append((action, payload))
            if payload is None:
                raise ValueError("where?")
            return {"degrees": 3, "raw": b"\0"}

        box = self.spawn(handlers={"weather": weather})
        box.exec("post(request('weather', 'now', {'city': 'Oslo'}))")
        self.assertEqual(box.recv(30), {"degrees": 3, "raw": b"\0"})
        self.assertEqual(seen, [("now", {"city": "Oslo"})])
        box.exec("request('weather', 'now', None)")
        with self.assertRaisesRegex(gb.SandboxError, "where"):
            box.recv(30)
        box.exec("request('tides', 'now', None)")
        with self.assertRaisesRegex(gb.SandboxError, "tides"):
            box.recv(30)

    def test_33_a_handler_may_use_the_box_itself(self):
        box = self.spawn()

        def ask(action, payload):
            return box.run("echo from the shell").stdout

        box.handle("ask", ask)
        box.exec("post(request('ask', 'x', None))")
        self.assertEqual(box.recv(30), "from the shell\n")


class Budgets(BoxTest):
    def test_34_wall_time_ends_a_sleeping_guest(self):
        box = self.spawn(wall_time_ms=500, capabilities=[gb.Clock(), gb.Import("time")])
        began = time.monotonic()
        with self.assertRaises(gb.WallTimeExceeded):
            box.exec("import time\ntime.sleep(1000)").wait(30)
        self.assertLess(time.monotonic() - began, 10)

    def test_cpu_time_ends_a_loop_that_catches_everything(self):
        box = self.spawn(cpu_ms=300)
        with self.assertRaises(gb.CPUExceeded):
            box.exec("while True:\n  try:\n    while True: pass\n  except BaseException: pass").wait(60)

    def test_output_that_is_too_much(self):
        box = self.spawn(output_bytes_max=10_000)
        with self.assertRaises(gb.OutputExceeded):
            box.exec("for _ in range(1000): post('x' * 1000)").wait(60)

    def test_35_a_budget_that_cannot_be_kept_is_refused(self):
        try:
            box = self.spawn(mem_bytes=64 << 20)
        except (gb.NotSupported, gb.BackendUnavailable) as refused:
            self.assertRegex(str(refused), "memory|cgroup")
            return
        with self.assertRaises(gb.MemoryExceeded):
            box.exec("x = bytearray(500_000_000)\nx[::4096] = b'1' * len(x[::4096])").wait(60)


class Many(BoxTest):
    def test_32_a_box_is_another_process(self):
        box = self.spawn(allowed_imports=["os"])
        box.exec("import os; post(os.getpid())")
        self.assertNotEqual(box.recv(30), os.getpid())
        self.assertIn(box.name, self.supervisor.list_active())

    def test_48_boxes_from_12_threads(self):
        results = {}

        def work(number):
            for step in range(4):
                with self.supervisor.spawn(f"many-{number}-{step}") as box:
                    box.exec(f"post({number} * 100 + {step})")
                    results[number, step] = box.recv(60)

        threads = [threading.Thread(target=work, args=(number,)) for number in range(12)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(results, {(a, b): a * 100 + b for a in range(12) for b in range(4)})

    def test_a_box_that_dies_takes_nobody_with_it(self):
        victim, other = self.spawn(name="victim", allowed_imports=["os"]), self.spawn(name="other")
        victim.exec("import os\nos._exit(3)")
        with self.assertRaises(gb.SandboxError):
            victim.recv(30)
        other.exec("post('fine')")
        self.assertEqual(other.recv(30), "fine")

    def test_asyncio(self):
        async def work():
            async with gb.aio.Supervisor() as supervisor:
                async def one(number):
                    async with await supervisor.spawn(f"a{number}", allowed_imports=["math"]) as box:
                        await box.exec(f"post({number})")
                        self.assertEqual(await box.recv(60), number)
                        return await box.call(hypotenuse, 3, timeout=60)

                self.assertEqual(await asyncio.gather(*map(one, range(6))), [5.0] * 6)

        asyncio.run(work())

    def test_the_decorator_and_pipelines(self):
        @gb.sandbox(timeout="30s", supervisor=self.supervisor, allowed_imports=["math"])
        def root(x):
            import math

            return math.isqrt(x)

        self.assertEqual(root(17), 4)

        def double(x):
            return 2 * x

        pipeline = gb.Pipeline(self.supervisor).add_stage(double).add_stage("math.sqrt", allowed_imports=["math"])
        self.assertEqual(pipeline.run(8), 4.0)
        self.assertEqual(self.supervisor.list_active(), {})


class Cells(BoxTest):
    def test_a_cell_that_had_to_be_killed_takes_no_other_authority_with_it(self):
        other = self.spawn(backend="cell", name="c1", allowed_imports=["math"])
        other.exec("x = 1").wait(30)
        self.assertEqual(other.call(Helper.triple, 4), 12)
        stubborn = self.spawn(backend="cell", name="c2", wall_time_ms=500)
        with self.assertRaises(gb.WallTimeExceeded):
            stubborn.exec("sum(iter(int, 1))").wait(30)
        other.exec("post(x)").wait(30)
        self.assertEqual(other.recv(30), 1)
        self.assertEqual(other.call("math.sqrt", 9), 3.0)

    def test_a_cell_is_a_sandbox_of_its_own(self):
        first = self.spawn(backend="cell", name="c1", allowed_imports=["math"])
        second = self.spawn(backend="cell", name="c2")
        self.assertEqual((first.backend, first.call("math.sqrt", 9)), ("cell", 3.0))
        first.exec("x = 1").wait(30)
        with self.assertRaises(gb.SandboxError):
            second.exec("x").wait(30)
        with self.assertRaises(gb.PolicyError):
            second.exec("import math").wait(30)


if __name__ == "__main__":
    unittest.main()
