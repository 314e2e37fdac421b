"""Clients that do not read, do not finish, or are too many; boxes and users without a process left; clocks that lie.

Whatever they do, the service does not grow and goes on to serve others.
"""

import contextlib
import json
import resource
import socket
import sqlite3
import sys
import time
import unittest
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "serve"), str(HERE)]

from service import TIER, Service, wait_until  # noqa: E402
from test_service_faults import (Use, check_as_before, count_descriptors, descendants_of, fill, go_round,  # noqa: E402
                                 status_kib)

MEBI = 1 << 20


class StuckClients(unittest.TestCase):
    def setUp(self):
        self.service = Service("pool.size = 0\n")
        self.addCleanup(self.service.close)
        self.place = self.service.workspace("work")
        self.assertIsNone(go_round(self.service, self.place))
        self.pid = self.service.process.pid
        self.descriptors = count_descriptors(self.pid)
        self.memory = status_kib(self.pid, "VmRSS")

    def send(self, data):
        client = socket.create_connection(("127.0.0.1", self.service.port), timeout=30)
        client.sendall(data)
        return client

    def request(self, method, path, body):
        text = json.dumps(body).encode()
        return (f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                f"Content-Length: {len(text)}\r\n\r\n").encode() + text

    def check_service(self, clients, grown):
        """Others are served meanwhile, and it is all gone afterwards."""
        for _ in range(3):
            began = time.monotonic()
            self.assertIsNone(go_round(self.service, self.place))
            self.assertLess(time.monotonic() - began, 10)
        self.assertLess(status_kib(self.pid, "VmRSS") - self.memory, grown)
        for client in clients:
            client.close()
        self.assertTrue(wait_until(lambda: count_descriptors(self.pid) <= self.descriptors + 2),
                        (self.descriptors, count_descriptors(self.pid)))

    def test_output_that_nobody_reads(self):
        """100 MiB each, of which no byte is read."""
        sessions = [self.service.create(self.place) for _ in range(8)]
        self.descriptors = count_descriptors(self.pid)
        clients = [self.send(self.request("POST", session.path + "/run",
                                          {"code": f"head -c {100 * MEBI} /dev/zero | tr '\\0' x | fold"}))
                   for session in sessions]
        for client in clients:  # all are under way
            self.assertTrue(client.recv(1, socket.MSG_PEEK))
        self.check_service(clients, 32 * 1024)
        for session in sessions:
            self.assertEqual(session.delete().status, 200)

    def test_requests_that_never_end(self):
        halves = [b"POST /v1/isolated/session HTTP/1.1\r\nHost: loc",
                  b"POST /v1/isolated/session HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{\"workspace\"",
                  b"G"]
        clients = [self.send(halves[number % len(halves)]) for number in range(150)]
        self.check_service(clients, 32 * 1024)

    def test_uploads_that_stand_still(self):
        session = self.service.create(self.place)
        head = (f"POST {session.path}/files/upload HTTP/1.1\r\nHost: localhost\r\n"
                f"Content-Type: multipart/form-data; boundary=b\r\nContent-Length: {100 * MEBI}\r\n\r\n"
                '--b\r\nContent-Disposition: form-data; name="metadata"\r\n\r\n{"path": "up"}\r\n'
                '--b\r\nContent-Disposition: form-data; name="file"; filename="f"\r\n\r\n').encode()
        self.descriptors = count_descriptors(self.pid)
        clients = [self.send(head + b"x" * MEBI) for _ in range(12)]
        self.check_service(clients, 32 * 1024)
        session.delete()


class NoProcessLeft(unittest.TestCase):
    BOMB = "for i in $(seq 400); do sleep 1000 & done 2>/dev/null; wait"

    def test_a_box_that_has_used_up_its_processes_is_ended_or_can_be(self):
        """Where the kernel counts for the box (cgroup) it ends, and says why; where it counts for the user (rlimit) it
        goes on without new processes, and its runs and itself can still be ended."""
        service = Service("pool.size = 0\n")
        self.addCleanup(service.close)
        place = service.workspace("work")
        made = service.post("/v1/isolated/session", {"workspace": {"path": place}, "limits": {"pids": 64}})
        self.assertEqual(made.status, 201, made)
        path = "/v1/isolated/session/" + made.json["session_id"]
        self.assertEqual(service.post(path + "/run", {"code": self.BOMB, "background": True}).status, 202)

        def is_full():
            if service.get(path).json["status"] == "dead":
                return True
            answer = service.get(path + "/directories/list", query={"path": place})
            return answer.status == 500 and "EAGAIN" in answer.json["message"]

        self.assertTrue(wait_until(is_full))
        state = service.get(path).json
        if state["status"] == "dead":
            self.assertEqual(state["end"]["limit"], "pids", state)
        else:
            began = time.monotonic()
            ran = service.post(path + "/run", {"code": "echo told; /bin/true", "timeout_seconds": 1})
            self.assertIn(b"told", ran.body)
            self.assertLess(time.monotonic() - began, 15)
        began = time.monotonic()
        self.assertEqual(service.delete(path).status, 200)
        self.assertLess(time.monotonic() - began, 10)
        self.assertIsNone(go_round(service, place))
        self.assertTrue(wait_until(lambda: len(descendants_of(service.process.pid)) == 1))

    def test_a_user_who_has_used_up_his_processes_is_told_so(self):
        if TIER != "user":
            self.skipTest("the kernel counts no processes of root")
        # The soft limit alone: a box's own limit is set from it, and a hard one below that is refused at once.
        limit = (60, resource.getrlimit(resource.RLIMIT_NPROC)[1])
        service = Service("pool.size = 0\n", preexec=lambda: resource.setrlimit(resource.RLIMIT_NPROC, limit))
        self.addCleanup(service.close)
        place = service.workspace("work")
        self.assertIsNone(go_round(service, place))
        before = Use(service)
        kept, refused = fill(service, place, 80)
        self.assertIsNotNone(refused, "as many boxes as processes")
        self.assertIn("code", refused.json)
        for session in kept:
            self.assertEqual(service.delete("/v1/isolated/session/" + session, tcp=False).status, 200)
        self.assertTrue(wait_until(lambda: go_round(service, place) is None))
        check_as_before(self, service, before)


class Clocks(unittest.TestCase):
    """What was written down lies in the future or long ago, as after a clock was set."""

    def shift_records(self, service, days):
        """Every time in the store, by so many days."""
        more = days * 86_400 * 1_000_000_000
        with contextlib.closing(sqlite3.connect(service.state / "sessions.db")) as store, store:
            store.execute("update runs set began_ns = began_ns + ?, ended_ns = ended_ns + ?", (more, more))
            rows = store.execute("select id, document from sessions").fetchall()
            for identifier, document in rows:
                store.execute("update sessions set created_ns = created_ns + ?, last_run_ns = last_run_ns + ?, document = ? "
                              "where id = ?", (more, more, self.shift(document, days) or document, identifier))
        return len(rows)

    def shift(self, text, days):
        """JSON with every number that is a time of these years moved; nothing when there is none."""
        try:
            value = json.loads(text)
        except (TypeError, ValueError):
            return None
        found = []

        def moved(each):
            if isinstance(each, dict):
                return {name: moved(value) for name, value in each.items()}
            if isinstance(each, list):
                return [moved(value) for value in each]
            for unit in (1, 1_000, 1_000_000, 1_000_000_000):
                if isinstance(each, int) and 1.6e9 * unit < each < 4e9 * unit:
                    found.append(each)
                    return each + days * 86_400 * unit
            return each

        value = moved(value)
        return json.dumps(value) if found else None

    def restart_with_shift(self, days):
        service = Service("pool.size = 0\n")
        self.addCleanup(service.close)
        place = service.workspace("work")
        session = service.create(place)
        session.out("echo past > file")
        service.stop()
        changed = self.shift_records(service, days)
        service.start()
        return service, place, session, changed

    def test_sessions_of_the_future_are_there_and_can_be_used(self):
        service, place, session, changed = self.restart_with_shift(1000)
        self.assertGreater(changed, 0)
        self.assertEqual([each["session_id"] for each in service.get("/v1/isolated/sessions").json["sessions"]],
                         [session.id])
        self.assertIn(b"+past", session.get("/diff", headers={"Accept": "text/x-diff"}).body)
        self.assertEqual(session.post("/recycle").status, 200)
        self.assertEqual(session.out("cat file"), "past")
        began = time.monotonic()
        self.assertNotEqual(session.run("sleep 30", timeout_seconds=1).exit_code, 0)
        self.assertLess(time.monotonic() - began, 15)
        self.assertEqual(session.delete().status, 200)
        self.assertIsNone(go_round(service, place))


if __name__ == "__main__":
    unittest.main(verbosity=2)
