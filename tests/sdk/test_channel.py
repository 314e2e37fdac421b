"""The conversation with a sandbox's Python, with a stand-in for the service that says what a test wants.

Every claim is tried with a blocked thread and with asyncio: the tests are coroutines over a driver, as the client is.
"""

import asyncio
import json
import logging
import os
import shutil
import signal
import struct
import threading
import time
import unittest
from unittest import mock

import httpx

import glovebox as gb
from fake_host import FakeHost, refusing_server
from glovebox import _channel, _core
from glovebox._core import Core
from glovebox._drive import AsyncDriver, BlockingDriver, run
from glovebox._request import SpawnRequest
from glovebox.aio import Sandbox, Supervisor


async def pause(box):
    if isinstance(box._core.driver, BlockingDriver):
        time.sleep(0.002)
    else:
        await asyncio.sleep(0.002)


class ChannelTest(unittest.TestCase):
    def check(self, script, claim, handlers=None):
        """Has `claim(box, host)` hold of a sandbox whose service follows `script(host, connection)`."""
        for kind in (BlockingDriver, AsyncDriver):
            with self.subTest(kind.__name__):
                host = FakeHost(script)
                try:
                    (run if kind is BlockingDriver else asyncio.run)(self._work(kind, host, claim, handlers or {}))
                finally:
                    host.close()

    async def _work(self, kind, host, claim, handlers):
        driver = kind(host.url, "", None)
        supervisor = Supervisor(driver=driver)
        core = Core(supervisor, driver, SpawnRequest(name="demo", handlers=handlers), "id")
        box = Sandbox(core)
        box.supervisor = supervisor
        try:
            await claim(box, host)
        finally:
            await core.detach()
            await driver.close()

    # ---- Values and answers ----------------------------------------------------------------------------

    def test_a_call_gets_its_own_answer_and_never_a_posted_value(self):
        def script(host, connection):
            first = host.hear(connection)
            host.say(connection, ev="post", value="stale")
            host.say(connection, ev="result", id=999, value="nobody's")
            host.say(connection, ev="result", id=first["id"], value=3.0)
            second, third = host.hear(connection), host.hear(connection)
            host.say(connection, ev="result", id=third["id"], value=None)
            host.say(connection, ev="result", id=second["id"], value=None)
            connection.recv()

        async def claim(box, host):
            self.assertEqual(await box.call("math.sqrt", 9, timeout=10), 3.0)
            self.assertEqual(await box.recv(10), "stale")
            one, two = await box.exec("1"), await box.exec("2")
            await two.wait(10)
            await one.wait(10)
            self.assertEqual(host.heard[0], {"op": "call", "id": 1, "target": "math.sqrt", "args": [9], "kwargs": {}})

        self.check(script, claim)

    def test_recv_is_out_of_time_and_loses_nothing(self):
        def script(host, connection):
            host.hear(connection)
            host.say(connection, ev="post", value=7)
            connection.recv()

        async def claim(box, host):
            with self.assertRaises(TimeoutError) as caught:
                await box.recv(0.02)
            self.assertIsInstance(caught.exception, gb.TimeoutError)
            await box.post("go")
            self.assertEqual(await box.recv(10), 7)

        self.check(script, claim)

    def test_a_call_that_is_out_of_time_is_cancelled_and_its_late_answer_dropped(self):
        def script(host, connection):
            slow = host.hear(connection)
            host.hear(connection)
            host.say(connection, ev="result", id=slow["id"], value="late")
            nxt = host.hear(connection)
            host.say(connection, ev="result", id=nxt["id"], value="fresh")
            connection.recv()

        async def claim(box, host):
            with self.assertRaises(gb.TimeoutError):
                await box.call("m.slow", timeout=0.05)
            self.assertEqual(await box.call("m.next", timeout=10), "fresh")
            self.assertEqual(host.heard[1], {"op": "cancel", "id": 1})

        self.check(script, claim)

    def test_a_function_that_cannot_be_defined_in_time_is_out_of_time(self):
        def script(host, connection):
            host.hear(connection)
            host.hear(connection)
            connection.recv()

        async def claim(box, host):
            with self.assertRaisesRegex(gb.TimeoutError, "0.05 s"):
                await box.call(stands_alone, timeout=0.05)
            while len(host.heard) < 2:
                await pause(box)
            self.assertEqual([each["op"] for each in host.heard], ["define", "cancel"])
            self.assertEqual(host.heard[1]["id"], host.heard[0]["id"])

        self.check(script, claim)

    def test_the_time_of_a_call_is_that_of_both_its_parts(self):
        def script(host, connection):
            defined = host.hear(connection)
            time.sleep(0.3)
            host.say(connection, ev="result", id=defined["id"], value=None)
            host.hear(connection)
            connection.recv()

        async def claim(box, host):
            with mock.patch.object(box._core, "ask", wraps=box._core.ask) as asked:
                with self.assertRaises(gb.TimeoutError):
                    await box.call(stands_alone, timeout=0.5)
            self.assertEqual(host.heard[1]["op"], "call")
            self.assertLessEqual(asked.call_args.args[3], 0.2)

        self.check(script, claim)

    def test_a_checkpoint_waits_for_what_was_asked_for_before(self):
        def script(host, connection):
            number = host.hear(connection)["id"]
            host.say(connection, ev="post", value=1)
            connection.recv()  # the test has seen that it is still under way
            host.say(connection, ev="result", id=number, value=None)
            connection.recv()

        async def claim(box, host):
            await box.exec("post(1); more()")
            self.assertEqual(await box.recv(10), 1)
            seen = []

            async def request(method, path, **more):
                seen.append((path, len(box._core.channel.running())))
                return httpx.Response(200, content=b"file")

            box._core.driver.request = request
            self.assertEqual(len(box._core.channel.running()), 1)
            with mock.patch.object(_core, "_SETTLE_SECONDS", 0.01):  # it does not end: the service decides
                await box.checkpoint(bytes(32))
            await box.checkpoint(bytes(32), force=True)
            await box.post("go")
            self.assertEqual(await box.checkpoint(bytes(32)), b"file")
            self.assertEqual(seen, [("/v1/isolated/session/id/checkpoint", count) for count in (1, 1, 0)])

        self.check(script, claim)

    def test_a_restored_sandbox_is_what_the_service_says(self):
        async def claim(box, host):
            deleted = []

            async def request(method, path, **more):
                deleted.extend([path] if method == "DELETE" else [])
                return httpx.Response(201, json={"session_id": "s", "name": "n", "backend": "cell", "python": True, "tag": "t"})

            box._core.driver.request = request
            restored = await box.supervisor.restore(b"file", bytes(32))
            self.assertEqual((restored.backend, restored._core.request.python, restored.name), ("cell", True, "n"))
            for wrong in ({"backend": "process"}, {"python": False}):
                with self.assertRaises(gb.CheckpointError):
                    await box.supervisor.restore(b"file", bytes(32), name="other", **wrong)
            self.assertEqual(deleted, ["/v1/isolated/session/s"] * 2)

        self.check(lambda host, connection: connection.recv(), claim)

    def test_an_error_of_exec_comes_out_of_recv_in_its_turn(self):
        def script(host, connection):
            number = host.hear(connection)["id"]
            host.say(connection, ev="post", value=1)
            host.say(connection, ev="error", id=number, error={"type": "KeyError", "message": "x", "kind": "guest"})
            host.say(connection, ev="post", value=2)
            connection.recv()

        async def claim(box, host):
            await box.exec("...")
            self.assertEqual(await box.recv(10), 1)
            with self.assertRaisesRegex(gb.GuestError, "KeyError: x"):
                await box.recv(10)
            self.assertEqual(await box.recv(10), 2)

        self.check(script, claim)

    def test_an_error_is_heard_once(self):
        def script(host, connection):
            number = host.hear(connection)["id"]
            host.say(connection, ev="error", id=number, error={"type": "KeyError", "message": "x"})
            host.say(connection, ev="post", value=2)
            connection.recv()

        async def claim(box, host):
            execution = await box.exec("...")
            if is_late:  # the error has come before it is asked for
                while not execution.done:
                    await pause(box)
            with self.assertRaises(gb.GuestError):
                await execution.wait(10)
            self.assertEqual(await box.recv(10), 2)

        for is_late in (False, True):
            self.check(script, claim)

    def test_a_target_without_a_module_is_refused_here(self):
        async def claim(box, host):
            for wrong in ("sqrt", "", ".x", "x.", 3):
                with self.assertRaises(gb.SandboxError):
                    await box.call(wrong)
            self.assertEqual(host.connections, 0)

        self.check(lambda host, connection: None, claim)

    def test_bytes_cross_in_both_directions_and_in_pieces(self):
        blob = bytes(range(256)) * 4096

        def script(host, connection):
            frame = connection.recv()
            size = int.from_bytes(frame[:4], "little")
            number = json.loads(frame[4 : 4 + size])["id"]
            head = json.dumps({"ev": "result", "id": number, "value": {"$bytes": [0, len(blob)]}}).encode()
            whole = struct.pack("<I", len(head)) + head + frame[4 + size :]
            connection.send([whole[:10], whole[10:5000], whole[5000:]])  # a message in three fragments
            connection.recv()

        async def claim(box, host):
            self.assertEqual(await box.call("m.echo", blob, timeout=30), blob)

        self.check(script, claim)

    def test_a_function_is_defined_once(self):
        def double(x):
            return x * 2

        def script(host, connection):
            for _ in range(3):
                host.say(connection, ev="result", id=host.hear(connection)["id"], value=4)
            connection.recv()

        async def claim(box, host):
            self.assertEqual([await box.call(double, 2), await box.call(double, 2)], [4, 4])
            self.assertEqual([message["op"] for message in host.heard], ["define", "call", "call"])
            self.assertEqual(host.heard[1]["target"], "double")

        self.check(script, claim)

    # ---- Requests, denials, records ----------------------------------------------------------------------

    def test_handlers_answer_requests(self):
        heard = []

        def script(host, connection):
            heard.clear()
            handled = {host.hear(connection)["capability"] for _ in range(2)}
            host.hear(connection)
            for number, capability in enumerate(("weather", "broken", "secret")):
                host.say(connection, ev="request", id=number, capability=capability, action="get", payload=[1])
            heard.extend(sorted((host.hear(connection) for _ in range(3)), key=lambda reply: reply["id"]))
            host.say(connection, ev="post", value=sorted(handled))
            connection.recv()

        def broken(action, payload):
            raise ValueError("no such place")

        async def claim(box, host):
            await box.exec("...")
            self.assertEqual(await box.recv(10), ["broken", "weather"])
            self.assertEqual(heard[0], {"op": "reply", "id": 0, "value": ["get", [1]]})
            self.assertEqual(heard[1]["error"], {"type": "ValueError", "message": "no such place"})
            self.assertEqual(heard[2]["error"]["type"], "PermissionError")

        self.check(script, claim, {"weather": lambda action, payload: [action, payload], "broken": broken})

    def test_a_handler_whose_answer_does_not_cross(self):
        def script(host, connection):
            host.hear(connection), host.hear(connection)
            host.say(connection, ev="request", id=5, capability="x", action="a", payload=None)
            reply = host.hear(connection)
            host.say(connection, ev="post", value=reply["error"]["type"])
            connection.recv()

        async def claim(box, host):
            await box.exec("...")
            self.assertEqual(await box.recv(10), "UnsendableValue")

        self.check(script, claim, {"x": lambda action, payload: object()})

    def test_alerts_come_in_order_and_one_that_fails_stops_no_other(self):
        def script(host, connection):
            host.hear(connection)
            for number in range(3):
                host.say(connection, ev="denial", cell="forged", capability="read_path", attempted_action=f"open:{number}",
                         policy_rule="none", decision="deny", time="t")
            host.say(connection, ev="post", value="done")
            connection.recv()

        async def claim(box, host):
            seen, full = [], box._core.driver.make_slot()

            def alert(name, error):
                seen.append((name, error.denial_event.cell, error.denial_event.attempted_action))
                if len(seen) == 3:
                    full.resolve(True)

            box.supervisor.register_alert_handler(lambda name, error: 1 / 0)
            box.supervisor.register_alert_handler(alert)
            await box.exec("...")
            await box.recv(10)
            await box._core.driver.wait(full, 10)
            self.assertEqual(seen, [("demo", "demo", f"open:{number}") for number in range(3)])

        self.check(script, claim)

    def test_a_policy_error_carries_its_denial(self):
        def script(host, connection):
            number = host.hear(connection)["id"]
            host.say(connection, ev="denial", capability="import", attempted_action="import os", policy_rule="none")
            host.say(connection, ev="error", id=number, error={"type": "ImportError", "message": "no", "kind": "policy"})
            connection.recv()

        async def claim(box, host):
            with self.assertRaises(gb.PolicyError) as caught:
                await box.call("os.getpid")
            self.assertEqual(caught.exception.denial_event, gb.DenialEvent("demo", "import", "import os", "none"))

        self.check(script, claim)

    def test_logs_metrics_and_output_are_kept(self):
        def script(host, connection):
            host.hear(connection)
            host.say(connection, ev="log", level="warning", message="50% %s")
            host.say(connection, ev="metric", name="m", value=2, labels={"a": 1})
            host.say(connection, ev="output", stream="stdout", text="out")
            host.say(connection, ev="output", stream="stderr", text="err")
            host.say(connection, ev="surprise", of="a newer service")
            host.say(connection, ev="post", value=0)
            connection.recv()

        async def claim(box, host):
            with self.assertLogs("glovebox.guest.demo", logging.WARNING) as logged:
                await box.exec("...")
                await box.recv(10)
            self.assertEqual(logged.records[0].getMessage(), "50% %s")
            self.assertEqual(box.logs(), [gb.LogEvent("warning", "50% %s")])
            self.assertEqual(box.metrics(), [gb.MetricEvent("m", 2, {"a": "1"})])
            self.assertEqual((box.output(), box.output("stderr")), ("outerr", "err"))

        self.check(script, claim)

    def test_a_cell_whose_worker_was_lost_is_told_so(self):
        def double(x):
            return x * 2

        def script(host, connection):
            for _ in range(2):
                host.say(connection, ev="result", id=host.hear(connection)["id"], value=2)
            host.say(connection, ev="restart", reason="worker", message="the worker ended")
            for _ in range(2):
                host.say(connection, ev="result", id=host.hear(connection)["id"], value=4)
            connection.recv()

        async def claim(box, host):
            self.assertEqual(await box.call(double, 1, timeout=10), 2)
            with self.assertRaisesRegex(gb.SandboxRestarted, "the worker ended"):
                await box.recv(10)
            self.assertEqual(await box.call(double, 2, timeout=10), 4)
            # What it was taught is gone with its globals, and is taught again.
            self.assertEqual([message["op"] for message in host.heard], ["define", "call", "define", "call"])

        self.check(script, claim)

    # ---- Ends --------------------------------------------------------------------------------------------

    def test_the_end_is_told_to_everybody_with_its_reason(self):
        def script(host, connection):
            host.hear(connection)
            host.say(connection, ev="post", value="before")
            host.say(connection, ev="end", reason="memory", message="out of memory")
            connection.close()

        async def claim(box, host):
            execution = await box.exec("...")
            with self.assertRaises(gb.MemoryExceeded):
                await execution.wait(10)
            self.assertEqual(await box.recv(10), "before")
            for _ in range(2):
                with self.assertRaisesRegex(gb.MemoryExceeded, "out of memory"):
                    await box.recv(10)
            with self.assertRaises(gb.MemoryExceeded):
                await box.exec("...")
            self.assertEqual((box.termination_reason, host.connections), ("memory", 1))

        self.check(script, claim)

    def test_what_is_no_message_ends_the_conversation(self):
        for frame in ("[]", "}", b"\xff\xff\xff\xff", json.dumps({"ev": "post", "value": {"$bytes": [0, 5]}})):
            def script(host, connection, frame=frame):
                host.hear(connection)
                connection.send(frame)
                connection.recv()

            async def claim(box, host):
                await box.exec("...")
                with self.assertRaises(gb.SandboxEnded) as caught:
                    await box.recv(10)
                self.assertEqual(caught.exception.reason, "protocol")

            self.check(script, claim)

    def test_a_lost_connection_is_made_again(self):
        def script(host, connection):
            message = host.hear(connection)
            if host.connections == 1:
                host.say(connection, ev="post", value="kept")
                return  # closes
            host.say(connection, ev="result", id=message["id"], value="again")
            connection.recv()

        async def claim(box, host):
            with self.assertRaises(gb.SandboxEnded):
                await box.call("a.b", timeout=10)
            self.assertEqual(await box.call("a.b", timeout=10), "again")
            self.assertEqual(await box.recv(10), "kept")
            self.assertIsNone(box.termination_reason)

        self.check(script, claim)

    def test_more_than_anybody_receives_is_an_end(self):
        def script(host, connection):
            host.hear(connection)
            for _ in range(100):
                host.say(connection, ev="post", value="x" * 10_000)

        async def claim(box, host):
            execution = await box.exec("...")
            with self.assertRaises(gb.OutputExceeded):
                await execution.wait(10)

        with mock.patch.object(_channel, "MAX_INBOX", 200_000):
            self.check(script, claim)

    def test_a_refused_channel_says_what_the_service_said(self):
        body = json.dumps({"code": "NOT_SUPPORTED", "message": "no Python in this session"}).encode()
        listener, path = refusing_server(b"HTTP/1.1 503 No\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))
        self.addCleanup(shutil.rmtree, os.path.dirname(path))
        self.addCleanup(listener.close)

        async def work(kind):
            driver = kind("unix://" + path, "", None)
            core = Core(Supervisor(driver=driver), driver, SpawnRequest(name="demo"), "id")
            with self.assertRaisesRegex(gb.NotSupported, "no Python in this session"):
                await Sandbox(core).exec("1")
            await driver.close()

        run(work(BlockingDriver))
        asyncio.run(work(AsyncDriver))

    def test_nobody_listens(self):
        async def work(kind):
            driver = kind("unix:///nowhere/s", "", None)
            core = Core(Supervisor(driver=driver), driver, SpawnRequest(name="demo"), "id")
            with self.assertRaisesRegex(gb.ServiceNotFound, "/nowhere/s"):
                await Sandbox(core).exec("1")
            with self.assertRaisesRegex(gb.ServiceNotFound, "/nowhere/s"):
                await Sandbox(core).report()
            await driver.close()

        run(work(BlockingDriver))
        asyncio.run(work(AsyncDriver))

    def test_cancel_names_what_runs(self):
        def script(host, connection):
            number = host.hear(connection)["id"]
            host.hear(connection)
            host.say(connection, ev="error", id=number, error={"kind": "cancelled", "message": "stopped"})
            connection.recv()

        async def claim(box, host):
            self.assertFalse(await box.cancel())
            await box.exec("while True: pass")
            self.assertTrue(await box.cancel())
            with self.assertRaises(gb.Cancelled):
                await box.recv(10)
            self.assertEqual(host.heard[1], {"op": "cancel", "id": 1})

        self.check(script, claim)


def stands_alone():
    return 1


class Interrupted(unittest.TestCase):
    """Tasks that are cancelled, and threads that are interrupted by Ctrl-C."""

    _work = ChannelTest._work

    def attempt(self, script, claim):
        """With asyncio alone."""
        host = FakeHost(script)
        try:
            asyncio.run(self._work(AsyncDriver, host, claim, {}))
        finally:
            host.close()

    async def cancelled(self, work, when):
        task = asyncio.create_task(work)
        while not when():
            await asyncio.sleep(0.002)
        task.cancel()
        with self.assertRaises(asyncio.CancelledError):
            await task

    @staticmethod
    def hear_cancel_and_go_on(host, connection):
        host.hear(connection)
        host.hear(connection)
        after = host.hear(connection)
        host.say(connection, ev="result", id=after["id"], value="after")
        connection.recv()

    def test_a_cancelled_task_cancels_what_it_waits_for(self):
        for work in (lambda box: box.call("m.slow"), lambda box: box.call(stands_alone), self._exec_and_wait):
            with self.subTest(work):
                async def claim(box, host):
                    await self.cancelled(work(box), lambda: host.heard)
                    self.assertEqual(await box.call("m.next", timeout=10), "after")
                    self.assertEqual(host.heard[1], {"op": "cancel", "id": host.heard[0]["id"]})
                    self.assertEqual(box._core.channel.running(), [])

                self.attempt(self.hear_cancel_and_go_on, claim)

    @staticmethod
    async def _exec_and_wait(box):
        await (await box.exec("...")).wait()

    def test_wait_for_is_the_same_as_a_timeout(self):
        async def claim(box, host):
            with self.assertRaises(asyncio.TimeoutError):
                await asyncio.wait_for(box.call("m.slow"), 0.05)
            self.assertEqual(await box.call("m.next", timeout=10), "after")
            self.assertEqual(host.heard[1]["op"], "cancel")

        self.attempt(self.hear_cancel_and_go_on, claim)

    def test_a_cancelled_recv_takes_nothing_away(self):
        def script(host, connection):
            host.hear(connection)
            host.say(connection, ev="post", value=7)
            connection.recv()

        async def claim(box, host):
            await self.cancelled(box.recv(), lambda: host.connections)
            await box.post("go")
            self.assertEqual(await box.recv(10), 7)

        self.attempt(script, claim)

    def test_what_comes_together_with_the_cancelling_is_kept_in_its_place(self):
        async def claim(box, host):
            await box._core.attach()
            first = asyncio.create_task(box.recv())
            await asyncio.sleep(0)
            box._core.channel.inbox.put(1)
            box._core.channel.inbox.put(2)
            first.cancel()
            with self.assertRaises(asyncio.CancelledError):
                await first
            self.assertEqual([await box.recv(10), await box.recv(10)], [1, 2])

        self.attempt(lambda host, connection: connection.recv(), claim)

    def test_ctrl_c_in_a_blocked_call_cancels_it_too(self):
        def script(host, connection):
            host.hear(connection)
            signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)
            host.hear(connection)
            after = host.hear(connection)
            host.say(connection, ev="result", id=after["id"], value="after")
            connection.recv()

        async def claim(box, host):
            with self.assertRaises(KeyboardInterrupt):
                await box.call("m.slow")
            self.assertEqual(await box.call("m.next", timeout=10), "after")
            self.assertEqual(host.heard[1], {"op": "cancel", "id": 1})

        host = FakeHost(script)
        self.addCleanup(host.close)
        run(self._work(BlockingDriver, host, claim, {}))


class ManyThreads(unittest.TestCase):
    def test_answers_find_their_threads(self):
        lock = threading.Lock()

        def script(host, connection):
            held = []
            while True:
                message = json.loads(connection.recv())
                with lock:
                    held.append(message)
                    if len(held) < 12:
                        continue
                for each in reversed(held):  # not in the order of the questions
                    host.say(connection, ev="result", id=each["id"], value=each["args"][0] * 2)
                held = []

        host = FakeHost(script)
        self.addCleanup(host.close)
        driver = BlockingDriver(host.url, "", None)
        core = Core(Supervisor(driver=driver), driver, SpawnRequest(name="demo"), "id")
        results = {}

        def work(number):
            box = Sandbox(core)
            for step in range(10):
                value = number * 100 + step
                results[value] = run(box.call("a.b", value, timeout=30))

        threads = [threading.Thread(target=work, args=(number,)) for number in range(12)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(results, {value: value * 2 for value in results})
        self.assertEqual((len(results), host.connections), (120, 1))
        run(core.detach())
        run(driver.close())


if __name__ == "__main__":
    unittest.main()
