"""The channel of a Python session: operations, values, events, what a client does wrong, how sessions end."""

import json
import struct
import time
import unittest

from channel import Ended, Failed, PythonTest, imports


class ChannelTest(PythonTest):
    # ---- Operations --------------------------------------------------------------------------

    def test_exec_then_recv_gives_the_posted_value(self):
        box = self.box(*imports("math"))
        box.exec("from math import sqrt\npost(sqrt(2))")
        self.assertEqual(box.recv(), 2 ** 0.5)

    def test_globals_persist_between_execs(self):
        box = self.box()
        box.exec("x = 20")
        self.assertEqual(box.value("x + 1"), 21)

    def test_call_answers_with_its_own_value(self):
        box = self.box(*imports("math"))
        box.exec("post('stale')")
        self.assertEqual(box.call("math.sqrt", 9), 3.0)
        self.assertEqual(box.recv(), "stale")

    def test_call_without_a_dot_is_an_error(self):
        with self.assertRaises(Failed) as caught:
            self.box().call("nothing", 1)
        self.assertEqual(caught.exception.type, "ValueError")

    def test_call_of_a_module_without_a_grant_is_refused(self):
        with self.assertRaises(Failed) as caught:
            self.box(*imports("math")).call("os.getpid")
        self.assertEqual(caught.exception.kind, "policy")

    def test_a_shipped_function_is_called_by_its_name(self):
        box = self.box()
        box.wait(box.begin("define", name="double", source="def double(x, by=2):\n    return x * by\n"))
        self.assertEqual(box.call("double", 21), 42)
        self.assertEqual(box.call("double", 21, by=3), 63)

    def test_an_exception_comes_back_with_its_place_and_the_session_goes_on(self):
        box = self.box()
        with self.assertRaises(Failed) as caught:
            box.exec("def f():\n    raise RuntimeError('bad')\nf()")
        self.assertEqual((caught.exception.kind, caught.exception.type), ("guest", "RuntimeError"))
        self.assertIn("line 2, in f", caught.exception.error["traceback"])
        with self.assertRaises(Failed) as caught:
            box.exec("x = (")
        self.assertEqual(caught.exception.type, "SyntaxError")
        self.assertEqual(box.value("1"), 1)
        self.assertEqual(box.named("denial"), [])

    def test_values_sent_in_are_received_in_order(self):
        box = self.box()
        for value in (1, {"a": [True, None, "é😀"], "$odd": 2.5}):
            box.send({"op": "post", "value": escaped(value)})
        box.exec("first = recv(); second = recv(timeout=5)")
        self.assertEqual(box.value("[first, second['a'], second['$odd']]"), [1, [True, None, "é😀"], 2.5])

    def test_recv_with_a_timeout_is_a_TimeoutError(self):
        with self.assertRaises(Failed) as caught:
            self.box().exec("recv(timeout=0.05)")
        self.assertEqual(caught.exception.type, "TimeoutError")

    def test_bytes_cross_as_bytes_both_ways(self):
        box = self.box()
        data = bytes(range(256)) * 4096
        box.send({"op": "post", "value": {"$bytes": [0, len(data)]}}, data)
        box.exec("data = recv()\npost(data)\npost(len(data))")
        self.assertEqual(box.recv(), data)
        self.assertEqual(box.recv(), len(data))

    def test_arrays_keep_their_kind_and_shape(self):
        box = self.box()
        data = struct.pack("<6d", *range(6))
        box.send({"op": "post", "value": {"$array": [0, 48], "dtype": "float64", "shape": [2, 3]}}, data)
        box.exec("a = recv()\npost([a.format, list(a.shape), a[1, 2]])\npost(a)")
        self.assertEqual(box.recv(), ["d", [2, 3], 5.0])
        sent = box.recv()
        self.assertEqual((sent["dtype"], sent["shape"]), ("float64", [2, 3]))

    def test_what_cannot_cross_is_refused_where_it_is_made(self):
        box = self.box()
        for expression in ("{1, 2}", "object()", "float('nan')", "{1: 2}", "1j"):
            with self.assertRaises(Failed, msg=expression) as caught:
                box.exec(f"post({expression})")
            self.assertIn(caught.exception.type, ("TypeError", "ValueError"))
        with self.assertRaises(Failed):
            box.exec("x = []\nfor _ in range(100): x = [x]\npost(x)")
        self.assertEqual(box.value("[(1, 2), 2 ** 70]"), [[1, 2], 2 ** 70])

    def test_output_logs_and_metrics_are_events(self):
        box = self.box()
        box.exec("print('one'); print('two', end='')\nlog('warning', 'careful')\nmetric('hits', 2, {'a': 'b'})")
        text = "".join(event["text"] for event in box.named("output"))
        self.assertEqual(text, "one\ntwo")
        self.assertEqual([(e["level"], e["message"]) for e in box.named("log")], [("warning", "careful")])
        self.assertEqual([(e["name"], e["value"], e["labels"]) for e in box.named("metric")],
                         [("hits", 2.0, {"a": "b"})])

    def test_stats_are_real(self):
        box = self.box()
        box.exec("sum(range(10 ** 6))")
        stats = box.wait(box.begin("stats"))
        self.assertGreater(stats["cpu_ms"], 1)
        self.assertEqual(stats["ops"], 1)

    def test_thousands_of_messages_keep_their_order(self):
        box = self.box()
        number = box.begin("exec", source="for i in range(20000): post(i)")
        box.wait(number)
        while len(box.posts) < 20000:
            box.step()
        self.assertEqual(box.posts, list(range(20000)))

    # ---- Cancelling --------------------------------------------------------------------------

    def test_cancel_interrupts_sleep_loop_and_recv_and_the_session_goes_on(self):
        box = self.box(*imports("time"))
        for source in ("import time\ntime.sleep(60)", "while True: pass", "recv()"):
            number = box.begin("exec", source="post('in')\n" + source)
            self.assertEqual(box.recv(), "in")
            box.send({"op": "cancel", "id": number})
            with self.assertRaises(Failed, msg=source) as caught:
                box.wait(number)
            self.assertEqual(caught.exception.kind, "cancelled")
        self.assertEqual(box.value("'fine'"), "fine")

    def test_an_operation_that_waits_can_be_cancelled(self):
        box = self.box()
        first = box.begin("exec", source="recv()")
        second = box.begin("exec", source="post('never')")
        box.send({"op": "cancel", "id": second})
        with self.assertRaises(Failed) as caught:
            box.wait(second)
        self.assertEqual(caught.exception.kind, "cancelled")
        box.send({"op": "post", "value": 1})
        box.wait(first)
        self.assertEqual(box.posts, [])

    # ---- Clients -----------------------------------------------------------------------------

    def test_posts_without_a_client_are_kept(self):
        box = self.box(*imports("time"))
        # Long enough for the service to see that its client has gone.
        box.begin("exec", source="post('before')\nimport time\ntime.sleep(1.5)\nfor i in range(100): post(i)")
        box.recv()
        box.socket.close()
        deadline = time.monotonic() + 20
        while time.monotonic() < deadline:
            try:
                box.attach()
                break
            except AssertionError:
                time.sleep(0.05)  # the service has not noticed yet that the first client is gone
        self.assertEqual([box.recv() for _ in range(100)], list(range(100)))

    def test_one_client_at_a_time(self):
        box = self.box()
        with self.assertRaises(AssertionError) as caught:
            box.attach()
        self.assertIn("409", str(caught.exception))

    def test_what_is_no_message_closes_the_channel(self):
        for wrong in ("[]", "{", '{"op":"exec"}', '{"op":"nothing","id":1}', '{"op":"exec","id":-1}',
                      '{"op":"exec","id":1,"source":' + "[" * 100 + "]" * 100 + "}"):
            box = self.box()
            box.socket.send_text(wrong)
            self.assertIsNone(box.socket.receive(), wrong)
        box = self.box()
        box.socket.send_bytes(struct.pack("<I", 1000) + b"{}")
        self.assertIsNone(box.socket.receive())
        box = self.box()
        box.send({"op": "post", "value": {"$bytes": [0, 99]}}, b"few")
        self.assertIsNone(box.socket.receive())

    def test_a_session_without_python_has_no_channel(self):
        session = self.service.create(self.service.workspace("plain"))
        answer = session.get("/python", headers={"Upgrade": "websocket"})
        self.assertEqual(answer.status, 404)

    # ---- Orders ------------------------------------------------------------------------------

    def test_what_cannot_be_had_is_refused_by_name(self):
        for order, word in (({"backend": "microvm"}, "microvm"), ({"python": {"interpreter": "nopython"}}, "nopython"),
                            ({"python": {"interpreter": "../x"}}, "interpreter"),
                            ({"python": {"preload": ["no_such_module_here"]}}, "no_such_module_here"),
                            ({"python": {"odd": 1}}, "odd")):
            answer = self.service.post("/v1/isolated/session", {"python": {}, **order})
            self.assertGreaterEqual(answer.status, 400, order)
            self.assertIn(word, answer.json["message"], order)

    def test_preloaded_modules_are_there_and_still_need_a_grant(self):
        box = self.box(python={"preload": ["json", "decimal"]})
        with self.assertRaises(Failed) as caught:
            box.exec("import decimal")
        self.assertEqual(caught.exception.kind, "policy")

    # ---- Ends --------------------------------------------------------------------------------

    def test_deleting_the_session_ends_what_is_under_way(self):
        box = self.box()
        number = box.begin("exec", source="post(1)\nrecv()")
        box.recv()
        self.service.delete(f"/v1/isolated/session/{box.id}")
        with self.assertRaises(Failed) as caught:
            box.wait(number)
        self.assertEqual(caught.exception.kind, "ended")
        with self.assertRaises(Ended):
            box.recv()

    def test_a_crash_is_told_and_ends_this_session_alone(self):
        other = self.box()
        box = self.box(*imports("ctypes"))
        with self.assertRaises(Failed) as caught:
            box.exec("import ctypes\nctypes.string_at(0)")
        self.assertEqual((caught.exception.kind, caught.exception.reason), ("ended", "crash"))
        self.assertEqual(other.value("'alive'"), "alive")
        # The launcher has the last word about a box, a moment later.
        deadline = time.monotonic() + 20
        while self.service.get(f"/v1/isolated/session/{box.id}").json.get("status") == "active":
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.02)

    # ---- Requests ----------------------------------------------------------------------------

    def test_a_handler_of_the_client_answers(self):
        box = self.box()
        box.send({"op": "handle", "capability": "database"})
        number = box.begin("exec", source="post(request('database', 'query', {'id': 7}))")
        while not box.requests:
            box.step()
        asked = box.requests.pop()
        self.assertEqual((asked["action"], asked["payload"]), ("query", {"id": 7}))
        box.send({"op": "reply", "id": asked["id"], "value": {"name": "Ada"}})
        box.wait(number)
        self.assertEqual(box.recv(), {"name": "Ada"})

    def test_an_error_of_a_handler_is_an_exception(self):
        box = self.box()
        box.send({"op": "handle", "capability": "database"})
        number = box.begin("exec", source="request('database', 'query')")
        while not box.requests:
            box.step()
        box.send({"op": "reply", "id": box.requests.pop()["id"],
                  "error": {"type": "ValueError", "message": "no such row"}})
        with self.assertRaises(Failed) as caught:
            box.wait(number)
        self.assertEqual((caught.exception.type, str(caught.exception)), ("ValueError", "ValueError: no such row"))

    def test_a_request_without_a_grant_is_refused_outside(self):
        box = self.box()
        for capability in ("clock", "random", "subprocess", "read_path", "database"):
            with self.assertRaises(Failed, msg=capability) as caught:
                box.exec(f"request('{capability}', {ACTIONS.get(capability, 'x')!r}, {PAYLOADS.get(capability)!r})")
            self.assertEqual(caught.exception.kind, "policy")
            self.assertIn(capability, str(caught.exception))
        self.assertEqual(len(box.named("denial")), 5)

    def test_granted_requests_are_done_outside(self):
        data = self.service.workspace("requests", a="hello")
        box = self.box({"kind": "clock"}, {"kind": "random"},
                       {"kind": "subprocess", "commands": ["/usr/bin/id"], "allow_shell": False},
                       workspace={"path": data, "mode": "overlay"})
        now = box.value("request('clock', 'now')")
        self.assertLess(abs(now["time"] - time.time()), 60)
        self.assertEqual(len(box.value("request('random', 'bytes', {'size': 100})")), 100)
        ran = box.value("request('subprocess', 'run', {'args': ['/usr/bin/id', '-u']})")
        self.assertEqual(ran["code"], 0)
        self.assertEqual(box.value(f"request('file', 'read', {{'path': '{data}/a'}})"), b"hello")
        self.assertEqual(box.value(f"request('file', 'write', {{'path': '{data}/b', 'data': b'abc'}})"), 3)
        self.assertEqual(box.value(f"open('{data}/b').read()"), "abc")
        with self.assertRaises(Failed):
            box.exec("request('subprocess', 'run', {'args': ['/bin/sh', '-c', 'id']})")
        with self.assertRaises(Failed):
            box.exec("request('file', 'read', {'path': '/etc/hostname'})")

    def test_a_link_out_of_a_grant_is_not_followed_by_the_broker(self):
        data = self.service.workspace("links", a="hello")
        box = self.box(*imports("os"), workspace={"path": data, "mode": "overlay"})
        box.exec(f"import os\nos.symlink('/etc', '{data}/out')")
        with self.assertRaises(Failed) as caught:
            box.exec(f"request('file', 'read', {{'path': '{data}/out/hostname'}})")
        self.assertEqual(caught.exception.kind, "policy")


ACTIONS = {"clock": "now", "random": "bytes", "subprocess": "run", "read_path": "read"}
PAYLOADS = {"subprocess": {"args": ["/usr/bin/id"]}, "read_path": {"path": "/etc/hostname"}}


def escaped(value):
    if isinstance(value, dict):
        return {("$" + key if key.startswith("$") else key): escaped(each) for key, each in value.items()}
    return value


if __name__ == "__main__":
    unittest.main(verbosity=2)
