"""What ill-meaning code and clients cost the service and each other: memory, denials, the channel."""

import json
import select
import struct
import time
import unittest
from pathlib import Path

from channel import Ended, Failed, PythonTest, imports

MIB = 1 << 20
# Code that writes a frame of its own into the channel, past the interpreter's functions.
FORGE = ("import os\n"
         "def forge(word, text, form=0):\n"
         "    data = len(text).to_bytes(4, 'little') + bytes([word, form, 0, 0]) + bytes(4) + text\n"
         "    data = memoryview(data)\n"
         "    while data: data = data[os.write(101, data):]\n")


class HostileTest(PythonTest):
    def peak(self):
        """The most memory that the service has had."""
        status = Path(f"/proc/{self.service.process.pid}/status").read_text()
        return int(status.split("VmHWM:")[1].split()[0]) << 10

    def attach(self, box):
        deadline = time.monotonic() + 20
        while True:
            try:
                return box.attach()
            except AssertionError:  # the service has not noticed yet that the first client is gone
                self.assertLess(time.monotonic(), deadline)
                time.sleep(0.05)

    # ---- Memory of the service ---------------------------------------------------------------

    def test_a_message_costs_the_service_what_it_weighs(self):
        box = self.box(*imports("os"))
        box.exec(FORGE)
        before = self.peak()
        box.exec("forge(3, b'{\"ev\":\"post\",\"value\":[0' + b',0' * (10 << 20) + b']}')")
        self.assertEqual(len(box.recv()), (10 << 20) + 1)
        self.assertLess(self.peak() - before, 150 * MIB)

    def test_a_request_of_very_many_values_is_refused(self):
        box = self.box()
        with self.assertRaises(Failed) as caught:
            box.exec("request('database', 'query', [0] * 1000000)")
        self.assertEqual(caught.exception.type, "ValueError")
        self.assertEqual(box.value("1"), 1)

    def test_a_long_request_is_refused_before_it_is_read(self):
        box = self.box(*imports("os"))
        with self.assertRaises(Failed) as caught:
            box.exec("request('database', 'query', 'x' * (1 << 20))")
        self.assertEqual(caught.exception.type, "ValueError")
        self.assertIn("bytes", str(caught.exception))
        # As bytes it is no longer than the rest: what is missing is a grant.
        with self.assertRaises(Failed) as caught:
            box.exec("request('database', 'query', b'x' * (8 << 20))")
        self.assertEqual(caught.exception.kind, "policy")
        box.exec(FORGE)
        with self.assertRaises((Failed, Ended)) as caught:
            box.exec("forge(4, b'{\"ev\":\"request\",\"id\":99,\"capability\":\"x\",\"action\":\"y\",\"payload\":[0'"
                     " + b',0' * (1 << 20) + b']}')\nrecv()")
        self.assertIn("too long a request", str(caught.exception))

    def test_a_long_message_holds_up_nobody_else(self):
        other, best = self.box(), 1e9
        for _ in range(8):  # other programs of this machine make it wait as well, not every time
            loud = self.box(*imports("os"))
            loud.exec(FORGE + "message = b'{\"ev\":\"post\",\"value\":[0' + b',0' * (30 << 20) + b']}'")
            loud.begin("exec", source="post(1)\nforge(3, message)\npost(2)")
            self.assertEqual(loud.recv(), 1)
            loud.socket.close()  # it is kept for the next client
            began = last = time.monotonic()
            longest = 0
            while last < began + 4:
                self.assertEqual(other.value("1"), 1)
                longest, last = max(longest, time.monotonic() - last), time.monotonic()
            loud.delete()
            best = min(best, longest)
            if best < 0.3:
                return
        self.fail(f"another session had to wait for {best:.2f} s")

    def test_operations_that_wait_are_bounded_in_bytes(self):
        box = self.box()
        before = self.peak()
        box.begin("exec", source="post(recv())")
        numbers = [box.begin("exec", source="#" * (8 * MIB)) for _ in range(40)]
        box.send({"op": "post", "value": 1})
        answers = {}
        while len(answers) < len(numbers) + 1:
            event = box.step()
            if event["ev"] in ("result", "error"):
                answers[event["id"]] = event
        refused = [event["error"]["kind"] for event in answers.values() if event["ev"] == "error"]
        self.assertEqual(set(refused), {"invalid"})
        self.assertGreater(len(refused), 25)
        self.assertLess(self.peak() - before, 250 * MIB)
        self.assertEqual(box.recv(), 1)

    def test_a_client_that_takes_no_answers_is_not_heard(self):
        box = self.box()
        box.begin("exec", source="post(recv())")
        sock = box.socket.socket
        sock.setblocking(False)

        def frame(message):
            body = json.dumps(message).encode()
            return bytes([129, 128 | len(body)]) + bytes(4) + body

        pair, sent = b"", 0
        while sent < 400_000:
            if not pair:
                sent += 1
                pair = frame({"op": "exec", "id": sent + 10, "source": ""}) + frame({"op": "cancel", "id": sent + 10})
            try:
                pair = pair[sock.send(pair):]
            except BlockingIOError:
                if not select.select([], [sock], [], 5)[1]:
                    break
        self.assertLess(sent, 400_000, "the service reads on")
        # As soon as it takes them, all is well.
        while pair or box.posts != [7]:
            readable, writable, _ = select.select([sock], [sock] if pair else [], [], 30)
            self.assertTrue(readable or writable)
            if writable:
                pair = pair[sock.send(pair):]
                if not pair:
                    pair, done = frame({"op": "post", "value": 7}), pair
                    sock.setblocking(True)
                    sock.sendall(pair)
                    pair = b""
            else:
                sock.setblocking(True)
                box.step()
            sock.setblocking(not pair)

    # ---- Answers ---------------------------------------------------------------------------

    def test_counts_are_numbers_and_no_bytes(self):
        box = self.box(*imports("os"))
        box.exec(FORGE)
        # An answer to the operation that is under way, and one to that which begins by it.
        first = box.begin("exec", source="recv()\nhead = b'{\"ev\":\"result\",\"id\":3,\"value\":{\"x\":{\"$bytes\":[0,5]}}}'\n"
                                         "forge(2, b'{\"ev\":\"result\",\"id\":2,\"value\":null}')\n"
                                         "forge(2, len(head).to_bytes(4, 'little') + head + b'bytes', 1)\nrecv()")
        second = box.begin("stats")
        self.assertEqual((first, second), (2, 3))
        box.send({"op": "post", "value": 1})
        box.wait(first)
        with self.assertRaises((Failed, Ended)) as caught:
            box.wait(second)
        self.assertEqual(caught.exception.reason, "invalid")

    # ---- Room --------------------------------------------------------------------------------

    def test_what_nobody_takes_waits_and_comes_in_order(self):
        for backend in ("process", "cell"):
            with self.subTest(backend):
                box = self.box(backend=backend)
                number = box.begin("exec", source="for i in range(20000): post([i, 'x' * 1000])")
                # Nothing is read until the service has so much that the code waits.
                busy = self.box(backend=backend)
                for i in range(50):
                    self.assertEqual(busy.value(str(i)), i)
                box.wait(number)
                self.assertEqual([post[0] for post in box.posts], list(range(20000)))

    def test_a_cell_without_a_reader_holds_up_nobody(self):
        loud, other = self.box(backend="cell"), self.box(backend="cell")
        loud.begin("exec", source="while True: post(1)")
        loud.recv()
        loud.socket.close()
        # The service hears of it, and keeps what it may.
        self.attach(loud)
        loud.socket.close()
        for i in range(200):
            self.assertEqual(other.value(str(i)), i)
        third = self.box(backend="cell")
        self.assertEqual(third.value("3"), 3)
        third.delete()
        loud.delete()
        self.assertEqual(other.value("4"), 4)
        self.assertEqual(other.named("restart"), [])

    def test_a_wait_for_room_can_be_cancelled(self):
        for backend in ("process", "cell"):
            with self.subTest(backend):
                box = self.box(backend=backend)
                number = box.begin("exec", source="while True: post(1)")
                box.recv()
                box.socket.close()
                self.attach(box)
                box.send({"op": "cancel", "id": number})
                with self.assertRaises(Failed) as caught:
                    box.wait(number)
                self.assertEqual(caught.exception.kind, "cancelled")

    def test_an_interpreter_that_does_not_wait_for_room_is_ended(self):
        box = self.box(*imports("os"))
        box.exec(FORGE)
        box.begin("exec", source="post('in')\nrecv()\nwhile True: forge(3, b'{\"ev\":\"post\",\"value\":1}')")
        box.recv()
        box.send({"op": "post", "value": 1})
        box.socket.close()
        deadline = time.monotonic() + 30
        while self.service.get(f"/v1/isolated/session/{box.id}").json.get("status") == "active":
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.02)

    # ---- Denials -----------------------------------------------------------------------------

    def test_denials_are_told_no_faster_than_anybody_reads(self):
        quiet, box = self.box(), self.box()
        with self.assertRaises(Failed):
            quiet.exec("import os")
        box.exec("for i in range(3000):\n    try: request('x' * 900, 'y')\n    except PermissionError: pass")
        box.exec("for i in range(3000):\n    try: request('database', str(i))\n    except PermissionError: pass")
        self.assertLess(len(box.named("denial")), 600)
        told = self.service.get(f"/v1/isolated/session/{box.id}/denials").json["denials"]
        self.assertLess(len(told), 600)
        self.assertGreater(len(told), 1)
        kept = self.service.get(f"/v1/isolated/session/{quiet.id}/denials").json["denials"]
        self.assertEqual(len(kept), 1)

    def test_what_is_cut_is_cut_between_characters(self):
        box = self.box()
        with self.assertRaises(Failed) as caught:
            box.exec("request('x' + 'é' * 200, 'y' + 'é' * 1000)")
        self.assertEqual(caught.exception.kind, "policy", str(caught.exception))
        self.assertTrue(box.named("denial")[0]["capability"].startswith("xé"))
        answer = self.service.get(f"/v1/isolated/session/{box.id}/denials")
        self.assertIn("xé", answer.body.decode())
        # Paths are any bytes.
        with self.assertRaises(Failed) as caught:
            box.exec("open(b'/etc/\\xff\\xc3', 'rb')")
        self.assertEqual(caught.exception.kind, "policy")
        self.assertEqual(box.value("1"), 1)


if __name__ == "__main__":
    unittest.main(verbosity=2)
