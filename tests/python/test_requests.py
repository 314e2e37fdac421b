"""What request() does outside the interpreter: connections and secrets. (Files, programs, clock, random: test_channel.py.)"""

import hashlib
import hmac
import os
import shutil
import socket
import tempfile
import unittest
from pathlib import Path

from channel import Failed, PythonTest, imports, start
from service import TIER, USER
from test_reload import Echo

SECRET = b"not for the box\n"


class RequestTest(PythonTest):
    @classmethod
    def start(cls):
        cls.kept = Path(tempfile.mkdtemp(prefix="glovebox-secrets-", dir="/var/tmp"))
        (cls.kept / "key").write_bytes(SECRET)
        (cls.kept / "key").chmod(0o600)
        for path in (cls.kept, cls.kept / "key"):
            if TIER == "user":
                os.chown(path, USER, USER)
        cls.echo, cls.other = Echo("127.60.1.1"), Echo("127.60.1.2")
        return start(environment={"GLOVEBOX_SECRETS": str(cls.kept)})

    @classmethod
    def tearDownClass(cls):
        super().tearDownClass()
        cls.echo.close()
        cls.other.close()
        shutil.rmtree(cls.kept)

    def grant(self, server):
        return {"kind": "connect_tcp", "host": server.address, "port": server.port}

    def exchange(self, box, server, **more):
        payload = {"host": server.address, "port": server.port, **more}
        return box.value(f"(lambda a: [a['data'], a['ended']])(request('connect', 'exchange', {payload!r}))")

    def failed(self, box, source):
        with self.assertRaises(Failed, msg=source) as caught:
            box.exec(source)
        return caught.exception

    # ---- connect -----------------------------------------------------------------------------

    def test_a_granted_place_is_talked_to(self):
        for backend in ("process", "cell"):
            with self.subTest(backend):
                box = self.box(self.grant(self.echo), backend=backend)
                number = box.begin("exec", source=f"a = request('connect', 'exchange', {{'host': '{self.echo.address}', "
                                                  f"'port': {self.echo.port}, 'data': b'\\x00hi\\n', 'most': 4}})\n"
                                                  "post(a['data'])\npost(a['ended'])")
                box.wait(number)
                self.assertEqual((box.recv(), box.recv()), (b"\0hi\n", False))

    def test_nothing_else_is_reached(self):
        box = self.box(self.grant(self.echo))
        before = self.other.visitors
        for host, port in ((self.other.address, self.other.port), ("127.0.0.1", self.service.port),
                           (self.echo.address, self.other.port), ("localhost", self.service.port), ("::1", 1)):
            error = self.failed(box, f"request('connect', 'exchange', {{'host': '{host}', 'port': {port}}})")
            self.assertEqual(error.kind, "policy", (host, port, error.error))
            self.assertIn("connect_tcp", str(error))
        self.assertEqual(self.other.visitors, before)
        self.assertEqual(len(box.named("denial")), 5)

    def test_no_grant_no_connection(self):
        error = self.failed(self.box(), f"request('connect', 'exchange', {{'host': '{self.echo.address}', "
                                        f"'port': {self.echo.port}}})")
        self.assertEqual(error.kind, "policy")

    def test_what_is_no_place_is_refused(self):
        box = self.box(self.grant(self.echo))
        for host, port in (("", 1), ("*.example.com", 443), ("10.0.0.0/8", 80), ("-x", 1), ("a b", 1), ("a", 0),
                           ("a", 65536), (7, 7)):
            error = self.failed(box, f"request('connect', 'exchange', {{'host': {host!r}, 'port': {port}}})")
            self.assertEqual(error.type, "ValueError", (host, port, error.error))

    def test_what_is_taken_from_the_session_is_gone(self):
        box = self.box(self.grant(self.echo))
        place = {"host": self.echo.address, "port": self.echo.port, "data": "x\n", "most": 2}
        box.exec(f"request('connect', 'exchange', {place!r})")
        before = self.echo.visitors
        answer = self.service.request("PATCH", f"/v1/isolated/session/{box.id}", {"capabilities": []})
        self.assertEqual(answer.status, 200, answer)
        error = self.failed(box, f"request('connect', 'exchange', {place!r})")
        # Without the grant it is an address of the box's own loopback, where no server is.
        self.assertEqual(error.type, "OSError", error.error)
        self.assertEqual(self.echo.visitors, before)

    def test_time_is_bounded(self):
        box = self.box(self.grant(self.echo))
        place = {"host": self.echo.address, "port": self.echo.port, "timeout": 1}
        box.exec(f"a = request('connect', 'exchange', {place!r})\npost([len(a['data']), a['ended']])")
        self.assertEqual(box.recv(), [0, False])

    def test_nobody_there_is_an_error_of_the_system(self):
        with socket.create_server(("127.60.1.3", 0)) as server:
            address, port = server.getsockname()
        box = self.box({"kind": "connect_tcp", "host": address, "port": port})
        error = self.failed(box, f"request('connect', 'exchange', {{'host': '{address}', 'port': {port}}})")
        self.assertEqual(error.type, "OSError")

    # ---- subprocess --------------------------------------------------------------------------

    def test_commands_are_words_and_not_lines(self):
        box = self.box({"kind": "subprocess", "commands": ["/usr/bin/id"], "allow_shell": False})
        for args, kind in (("'/usr/bin/id; id'", "ValueError"), ("['/usr/bin/id; id']", "PolicyError"),
                           ("['/usr/bin/id', 7]", "ValueError"), ("[]", "ValueError"), ("['id']", "PolicyError"),
                           ("['/bin/sh', '-c', 'id']", "PolicyError")):
            error = self.failed(box, f"request('subprocess', 'run', {{'args': {args}}})")
            self.assertIn(kind, error.type, (args, error.error))
        answer = box.value("request('subprocess', 'run', {'args': ['/usr/bin/id', '; id']})")
        self.assertNotEqual(answer["code"], 0)  # a word like any other

    # ---- secret ------------------------------------------------------------------------------

    def test_a_secret_signs_and_stays_outside(self):
        for backend in ("process", "cell"):
            with self.subTest(backend):
                box = self.box({"kind": "secret", "name": "key"}, *imports("os"), backend=backend)
                for algorithm in ("sha256", "sha512"):
                    made = box.value(f"request('secret', 'hmac', {{'name': 'key', 'data': b'a\\x00b', "
                                     f"'algorithm': '{algorithm}'}})")
                    self.assertEqual(made, hmac.digest(SECRET, b"a\0b", algorithm))
                self.assertEqual(box.value("request('secret', 'hmac', {'name': 'key'})"),
                                 hmac.new(SECRET, b"", hashlib.sha256).digest())
                self.assertEqual(self.failed(box, "open('/run/secrets/key')").kind, "policy")
                self.assertEqual(self.failed(box, "request('secret', 'read', {'name': 'key'})").kind, "policy")
        # Not for programs of the box either, which nothing of the interpreter holds.
        box = self.box({"kind": "secret", "name": "key"})
        answer = self.service.post(f"/v1/isolated/session/{box.id}/run",
                                   {"code": "ls -A /run/secrets 2>&1; cat /run/secrets/key 2>&1"})
        self.assertNotIn(SECRET.strip(), answer.body)

    def test_a_secret_needs_its_own_grant(self):
        box = self.box({"kind": "secret", "name": "key"})
        for name in ("other", "../key", ""):
            error = self.failed(box, f"request('secret', 'hmac', {{'name': '{name}', 'data': b''}})")
            self.assertIn(error.type, ("glovebox.PolicyError", "PolicyError", "ValueError"), error.error)
        self.assertEqual(self.failed(self.box(), "request('secret', 'hmac', {'name': 'key'})").kind, "policy")

    def test_a_secret_that_is_not_there_refuses_the_session(self):
        answer = self.service.post("/v1/isolated/session", {"python": {}, "capabilities": [
            {"kind": "secret", "name": "nowhere"}]})
        self.assertGreaterEqual(answer.status, 400)
        self.assertIn("nowhere", answer.json["message"])


if __name__ == "__main__":
    unittest.main(verbosity=2)
