"""Unix sockets of the host in directories that a session is shown: out of reach, unless they are granted."""

import os
import select
import socket
import subprocess
import unittest

from service import TIER, USER, ServiceTest

CONNECT = """python3 - {path} {kind} <<'END'
import errno, socket, sys
try:
    socket.socket(socket.AF_UNIX, getattr(socket, sys.argv[2])).connect(sys.argv[1])
    print("through")
except OSError as error:
    print("met", errno.errorcode[error.errno])
END"""

OWN = """python3 - {path} <<'END'
import os, socket, struct, sys
server, client = socket.socket(socket.AF_UNIX), socket.socket(socket.AF_UNIX)
server.bind(sys.argv[1])
server.listen()
client.connect(sys.argv[1])
peer = struct.unpack("iii", server.accept()[0].getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
print(server.getsockname() == sys.argv[1], peer[1] == os.getuid())
END"""


class Listener:
    def __init__(self, path, kind=socket.SOCK_STREAM):
        self.socket = socket.socket(socket.AF_UNIX, kind)
        self.socket.bind(path)
        os.chmod(path, 0o777)
        if TIER == "user":
            subprocess.run(["chown", f"{USER}:{USER}", path], check=True)
        if kind != socket.SOCK_DGRAM:
            self.socket.listen()

    def was_reached(self):
        return bool(select.select([self.socket], [], [], 0)[0])


class HostSockets(ServiceTest):
    TOKEN = "token-of-an-admin"
    SETTINGS = """[[token]]
name = "bounded"
file = "@BASE@/service/bounded"
scopes = ["create"]
ceiling = "@BASE@/service/ceiling.yaml"
"""
    FILES = {"bounded": "token-of-a-tenant\n",
             "ceiling.yaml": "version: 1\nfs: {write: [@BASE@/work]}\n"}

    def listener(self, name="service.sock", kind=socket.SOCK_STREAM):
        path = os.path.join(self.service.workspace(self.name), name)
        made = Listener(path, kind)
        self.addCleanup(made.socket.close)
        return made, path

    def test_a_workspace_that_is_shown_does_not_carry_them_along(self):
        stream, path = self.listener()
        datagrams, other = self.listener("log.sock", socket.SOCK_DGRAM)
        for mode in ("ro", "rw"):
            session = self.session(mode)
            self.assertEqual(session.out(CONNECT.format(path=path, kind="SOCK_STREAM")), "met EACCES")
            self.assertEqual(session.out(CONNECT.format(path=other, kind="SOCK_DGRAM")), "met EACCES")
        overlay = self.session("overlay")
        self.assertEqual(overlay.out(CONNECT.format(path=path, kind="SOCK_STREAM")), "met ECONNREFUSED")
        self.assertFalse(stream.was_reached() or datagrams.was_reached())

    def test_its_own_work(self):
        for mode in ("rw", "overlay"):
            session = self.session(mode)
            for place in (session.workspace, "/tmp", "/run"):
                self.assertEqual(session.out(OWN.format(path=f"{place}/own-{mode}")), "True True")

    def test_one_that_is_granted_is_reached(self):
        stream, path = self.listener()
        session = self.session("rw", capabilities=[{"kind": "connect_unix", "path": path}])
        self.assertEqual(session.out(CONNECT.format(path=path, kind="SOCK_STREAM")), "through")
        self.assertTrue(stream.was_reached())

    def test_a_token_with_a_ceiling_cannot_give_the_guard_up(self):
        path = self.service.workspace(self.name)
        body = {"workspace": {"path": path, "mode": "rw"},
                "policy": {"document": {"version": 1, "waive": ["host-sockets"]}}}
        bounded = {"X-EXECD-ACCESS-TOKEN": "token-of-a-tenant"}
        answer = self.service.post("/v1/isolated/session", body, headers=bounded)
        self.assertEqual(answer.status, 400, answer)
        self.assertIn("waive host-sockets: what you may hand in is bounded", answer.json["message"])


if __name__ == "__main__":
    unittest.main()
