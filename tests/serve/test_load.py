"""Many clients at once, and clients that go away anywhere: no error but the documented 429, and nothing is left behind.

GLOVEBOX_LOAD_SECONDS says for how long; 60 is the long form.
"""

import json
import os
import resource
import socket
import struct
import subprocess
import threading
import time
import unittest

from service import Service, ServiceTest, multipart, wait_until

CLIENTS = 200
SECONDS = float(os.environ.get("GLOVEBOX_LOAD_SECONDS", "8"))
BUSY_PAUSE = 0.05  # of a client that was told to come again later
MANY_SESSIONS = 500
LIMITS = "[sessions]\nmax = 60\n"


def descriptors(service):
    return len(os.listdir(f"/proc/{service.process.pid}/fd"))


def descendants(service):
    """Processes below the service: its launcher, and boxes."""
    listed = subprocess.run(["ps", "-e", "-o", "pid=,ppid="], capture_output=True, text=True, check=True).stdout
    parents = [tuple(map(int, line.split())) for line in listed.splitlines()]
    found, new = set(), {service.process.pid}
    while new:
        new = {pid for pid, parent in parents if parent in new} - found
        found |= new
    return len(found)


class Load(unittest.TestCase):
    def setUp(self):
        # Boxes that wait for sessions would be counted.
        self.service = Service("pool.size = 0\n" + LIMITS)
        self.addCleanup(self.service.close)

    def cycle(self, connection, met):
        """Makes, uses and deletes one session; the name of what happened is counted."""
        body = {"workspace": {"path": self.path}}
        made = self.service.request("POST", "/v1/isolated/session", body, connection=connection)
        if made.status == 429:
            self.assertIn("Retry-After", made.headers)
            return "busy"
        if made.status != 201:
            return f"create: {made}"
        path = f"/v1/isolated/session/{made.json['session_id']}"
        ran = self.service.request("POST", path + "/run", {"code": "echo used"}, connection=connection)
        if b'"used"' not in ran.body or b"execution_complete" not in ran.body:
            return f"run: {ran}"
        gone = self.service.request("DELETE", path, connection=connection)
        return "whole" if gone.status == 200 else f"delete: {gone}"

    def client(self, met, lock):
        connection = self.service.connect()
        while time.monotonic() < self.until:
            try:
                what = self.cycle(connection, met)
            except Exception as problem:  # whatever it is, it is counted and shown
                what = f"{type(problem).__name__}: {problem}"
            with lock:
                met[what] = met.get(what, 0) + 1
            if what == "busy":
                time.sleep(BUSY_PAUSE)
        connection.close()

    def test_many_clients(self):
        self.path = self.service.workspace("load", a__txt="a")
        self.service.create(self.path).delete()
        before = descriptors(self.service), descendants(self.service)
        met, lock = {}, threading.Lock()
        self.until = time.monotonic() + SECONDS
        threads = [threading.Thread(target=self.client, args=(met, lock)) for _ in range(CLIENTS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        whole, busy = met.pop("whole", 0), met.pop("busy", 0)
        print(f"{CLIENTS} clients, {SECONDS:g} s: {whole} sessions made, used and deleted; {busy} times 429", flush=True)
        self.assertEqual(met, {})
        self.assertGreater(whole, 0)
        self.assertEqual(self.service.get("/v1/isolated/sessions").json["sessions"], [])
        self.assertTrue(wait_until(lambda: (descriptors(self.service), descendants(self.service)) <= before),
                        (before, descriptors(self.service), descendants(self.service)))
        layers = self.service.state / "layers"
        self.assertTrue(wait_until(lambda: not [entry for entry in layers.iterdir() if entry.is_dir()]),
                        list(layers.iterdir()))


class ManySessions(unittest.TestCase):
    """A soft limit of 1,024 open files, as a login has it, is no limit on sessions."""

    def test_many_live_sessions_under_the_usual_soft_limit(self):
        hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        if hard < 16 * MANY_SESSIONS:
            self.skipTest(f"the hard limit on open files is {hard}")
        service = Service(f"pool.size = 0\n[sessions]\nmax = {MANY_SESSIONS}\n",
                          preexec=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (1024, hard)))
        self.addCleanup(service.close)
        workspace = service.workspace("many")
        sessions = [service.create(workspace) for _ in range(MANY_SESSIONS)]
        self.assertGreater(descriptors(service), 1024)
        for session in (sessions[0], sessions[MANY_SESSIONS // 2], sessions[-1]):
            # What the plan gives, and nothing of the service's own.
            self.assertEqual(session.out("ulimit -Sn; ulimit -Hn"), "4096\n4096")
        for session in sessions:
            session.delete()


class Disconnects(ServiceTest):
    """Every kind of request, cut at every kind of place."""

    def request(self, method, path, body=b"", headers=b""):
        if isinstance(body, (dict, list)):
            body = json.dumps(body).encode()
        return b"%s %s HTTP/1.1\r\nHost: localhost\r\n%sContent-Length: %d\r\n\r\n%s" % (
            method.encode(), path.encode(), headers, len(body), body)

    def requests(self, session):
        path = session.path
        upload = multipart([({"path": "up"}, b"x" * 100_000)])
        multi = b"Content-Type: multipart/form-data; boundary=x-boundary\r\n"
        return [
            self.request("POST", "/v1/isolated/session", {"workspace": {"path": session.workspace}}),
            self.request("GET", path),
            self.request("PATCH", path, {"labels": {"a": "b"}}),
            self.request("POST", path + "/run", {"code": "seq 5000; sleep 0.01; seq 5000"}),
            self.request("POST", path + "/run?profile=standard", {"code": "seq 5000", "resume_seconds": 1}),
            self.request("POST", path + "/run", {"code": "cat", "stdin": "x" * 50_000}),
            self.request("POST", path + "/run", {"code": "seq 500", "background": True}),
            self.request("POST", path + "/files/upload", upload, multi),
            self.request("GET", path + "/files/download?path=big"),
            self.request("GET", path + "/files/download?path=big&offset=2&limit=5"),
            self.request("POST", path + "/files/replace", {"big": {"old": "zz", "new": "y"}}),
            self.request("GET", path + "/files/search?path=/&pattern=**"),
            self.request("GET", path + "/diff"),
            self.request("POST", path + "/commit", {"dry_run": True}),
            self.request("GET", path + "/denials", headers=b"Accept: text/event-stream\r\n"),
            self.request("GET", path + "/pty", headers=b"Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: "
                                                       b"13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"),
        ]

    def break_off(self, request, cut, reads, reset):
        client = socket.create_connection(("127.0.0.1", self.service.port), timeout=20)
        client.sendall(request[:cut])
        if reads:
            client.recv(reads)
        if reset:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        client.close()

    def test_every_request_cut_anywhere(self):
        before = descriptors(self.service)
        session = self.session()
        session.out("seq 200000 > big")
        for request in self.requests(session):
            head = request.index(b"\r\n\r\n") + 4
            whole = len(request)
            cuts = [(1, 0), (head // 2, 0), (head, 0), ((head + whole) // 2, 0), (whole, 0)]
            answers = b"/denials" not in request  # a stream in which nothing may ever happen
            for cut, reads in cuts + ([(whole, 1), (whole, 5_000)] if answers else []):
                for reset in (False, True):
                    self.break_off(request, cut, reads, reset)
        self.assertEqual(session.out("echo usable"), "usable")
        # A session whose maker went away is there: it is idle until a client deletes it.
        for listed in self.service.get("/v1/isolated/sessions").json["sessions"]:
            self.assertEqual(self.service.delete(f"/v1/isolated/session/{listed['session_id']}").status, 200)
        self.assertTrue(wait_until(lambda: descriptors(self.service) <= before + 2, 60),
                        (before, descriptors(self.service)))


if __name__ == "__main__":
    unittest.main()
