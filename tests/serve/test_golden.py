"""What goes over the wire, to the byte: conversations with the service, compared with tests/serve/golden/*.txt.

A transcript has the bytes that were sent ("> ") and those that came back ("< "), a line each, with what is no text shown
as \\r or \\xff. Only what differs from run to run is masked: times, ids, the workspace's path, owners. Where a chunk ends and the next
begins depends on the moment too, so a chunked body is shown joined.

    GLOVEBOX_WRITE_GOLDEN=1 python3 tests/serve/test_golden.py     writes them again
"""

import json
import os
import re
import socket
import unittest
from pathlib import Path

from service import PATIENCE, ServiceTest, multipart, wait_until

GOLDEN = Path(__file__).parent / "golden"
UUID = r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}"
MASKS = [
    (rb"(?m)^((?:Date|Last-Modified): )[^\r]+", rb"\1{DATE}"),
    (UUID.encode(), b"{ID}"),
    (rb"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)", b"{TIME}"),
    (rb'"timestamp":\d{13}', b'"timestamp":{MS}'),
    (rb"\d{8}-\d{6}-\d{3}-[0-9a-f]{6}", b"{LAYER}"),
    (rb'("type":"directory",[^{}]*"size":)\d+', rb"\1{NUMBER}"),
    (rb'"(owner|group)":"[^"]*"', rb'"\1":"{NAME}"'),
    (rb'"(uid|gid)":\d+', rb'"\1":{NUMBER}'),
    (rb'"idle_remaining_seconds":\d+', b'"idle_remaining_seconds":{NUMBER}'),
]
# The length of a body in which something was masked says nothing.
LENGTH = re.compile(rb"(?m)^(Content-Length: )\d+(\r)$")


class Conversation:
    """One connection, whose bytes are written down."""

    def __init__(self, service, workspace):
        self.workspace = workspace
        self.socket = socket.create_connection(("127.0.0.1", service.port), timeout=PATIENCE)
        self.file = self.socket.makefile("rb")
        self.text = ""

    def close(self):
        self.file.close()
        self.socket.close()

    def masked(self, data):
        fixed = data.replace(self.workspace.encode(), b"{WORK}")
        for pattern, mask in MASKS:
            fixed = re.sub(pattern, mask, fixed)
        body = data.partition(b"\r\n\r\n")[2]
        if fixed.partition(b"\r\n\r\n")[2] != body:
            fixed = LENGTH.sub(rb"\1{LENGTH}\2", fixed, count=1)
        return fixed

    def note(self, mark, data):
        shown = self.masked(data).decode("utf-8", "backslashreplace").replace("\r", "\\r")
        shown = re.sub(r"[^\n\x20-\U0010ffff]", lambda found: f"\\x{ord(found[0]):02x}", shown)
        self.text += "".join(f"{mark} {line}\n" for line in shown.split("\n"))

    def read_answer(self):
        raw, length, chunked = b"", 0, False
        while True:
            line = self.file.readline()
            raw += line
            if line in (b"\r\n", b""):
                break
            name, _, value = line.lower().partition(b": ")
            if name == b"content-length":
                length = int(value)
            chunked = chunked or (name == b"transfer-encoding" and b"chunked" in value)
        if not chunked:
            return raw + self.file.read(length)
        while size := int(self.file.readline(), 16):
            raw += self.file.read(size)
            self.file.readline()
        self.file.readline()
        return raw

    def ask(self, method, path, body=None, headers=(), noted=True):
        """Sends one request; the body of the answer."""
        if isinstance(body, (dict, list)):
            body = json.dumps(body).encode()
        lines = [f"{method} {path} HTTP/1.1", "Host: localhost", *headers]
        if body is not None:
            lines.append(f"Content-Length: {len(body)}")
        request = "\r\n".join(lines).encode() + b"\r\n\r\n" + (body or b"")
        self.socket.sendall(request)
        answer = self.read_answer()
        if noted:
            self.note(">", request)
            self.note("<", answer)
        return answer.partition(b"\r\n\r\n")[2]


class Golden(ServiceTest):
    def begin(self):
        workspace = self.service.workspace(self.name, a__txt="one\ntwo\nthree\n")
        self.talk = Conversation(self.service, workspace)
        self.addCleanup(self.talk.close)
        return self.talk

    def create(self, noted=False, **more):
        body = {"workspace": {"path": self.talk.workspace}, **more}
        identifier = json.loads(self.talk.ask("POST", "/v1/isolated/session", body, noted=noted))["session_id"]
        path = f"/v1/isolated/session/{identifier}"
        self.addCleanup(self.service.delete, path)
        return path

    def check(self, name):
        path = GOLDEN / f"{name}.txt"
        if os.environ.get("GLOVEBOX_WRITE_GOLDEN"):
            path.write_text(self.talk.text)
        self.assertEqual(self.talk.text, path.read_text())

    def test_service(self):
        talk = self.begin()
        talk.ask("GET", "/ping")
        talk.ask("GET", "/nowhere")
        talk.ask("PUT", "/ping")
        talk.ask("GET", "/v1/isolated/session/00000000-0000-4000-8000-000000000000")
        self.check("service")

    def test_session(self):
        talk = self.begin()
        session = self.create(noted=True, labels={"for": "golden"})
        talk.ask("GET", session)
        talk.ask("GET", "/v1/isolated/sessions?label=for%3Dgolden")
        talk.ask("PATCH", session, {"idle_timeout_seconds": 0, "labels": {"for": "others"}})
        talk.ask("DELETE", session)
        talk.ask("DELETE", session)
        self.check("session")

    def test_refusals(self):
        talk = self.begin()
        create = "/v1/isolated/session"
        talk.ask("POST", create, b"{")
        talk.ask("POST", create, {})
        talk.ask("POST", create, {"workspace": {"path": talk.workspace, "mode": "rwx"}, "colour": "red"})
        talk.ask("POST", create, {"workspace": {"path": talk.workspace}, "binds": [{"source": "/etc"}]})
        session = self.create()
        talk.ask("POST", session + "/run", {"code": ""})
        talk.ask("POST", session + "/run", {"code": ":", "timeout_seconds": -1})
        talk.ask("GET", session + "/files/download")
        talk.ask("GET", session + "/files/download?path=missing")
        talk.ask("GET", session + "/files/download?path=..%2F..%2Fetc%2Fpasswd")
        talk.ask("GET", session + "/runs/nothing")
        self.check("refusals")

    def test_runs(self):
        talk = self.begin()
        session = self.create()
        talk.ask("POST", session + "/run", {"code": "echo hello; echo; echo again >&2"})
        talk.ask("POST", session + "/run", {"code": "printf 'no newline \\xff \"quoted\"'; exit 2"})
        talk.ask("POST", session + "/run", {"code": "echo apart >&2", "stderr": "separate"})
        talk.ask("POST", session + "/run", {"code": "cat", "stdin": "input"})
        talk.ask("POST", session + "/run", {"code": "sleep 60", "timeout_seconds": 1})
        talk.ask("POST", session + "/run?profile=standard", {"code": "echo one"})
        self.check("runs")

    def test_background(self):
        talk = self.begin()
        session = self.create()
        answer = talk.ask("POST", session + "/run", {"code": "echo out; echo err >&2; exit 7", "background": True})
        run = session + "/runs/" + json.loads(answer)["run_id"]
        self.assertTrue(wait_until(lambda: not json.loads(talk.ask("GET", run, noted=False))["running"]))
        talk.ask("GET", run)
        talk.ask("GET", run + "/logs")
        talk.ask("GET", run + "/logs?cursor=4")
        talk.ask("GET", run + "/logs?cursor=-1")
        self.check("background")

    def test_files(self):
        talk = self.begin()
        session = self.create()
        talk.ask("POST", session + "/files/upload", multipart([({"path": "b.bin", "mode": 600}, b"\x00\x01\xff")]),
                 ["Content-Type: multipart/form-data; boundary=x-boundary"])
        talk.ask("GET", session + "/files/info?path=a.txt&path=b.bin")
        talk.ask("GET", session + "/files/download?path=a.txt")
        talk.ask("GET", session + "/files/download?path=a.txt", headers=["Range: bytes=4-6"])
        talk.ask("GET", session + "/files/download?path=a.txt", headers=["Range: lines=1"])
        talk.ask("GET", session + "/files/download?path=a.txt&offset=2&limit=1")
        talk.ask("POST", session + "/files/mv", [{"src": "b.bin", "dest": "c.bin"}])
        talk.ask("POST", session + "/files/permissions", {"c.bin": {"mode": 640}})
        talk.ask("POST", session + "/files/replace?verbose=true", {"a.txt": {"old": "two", "new": "2"}})
        talk.ask("POST", session + "/directories", {"d/e": {"mode": 755}})
        talk.ask("GET", session + "/files/search?path=.&pattern=*.txt")
        talk.ask("GET", session + "/directories/list?path=.&depth=1")
        talk.ask("DELETE", session + "/files?path=c.bin")
        talk.ask("DELETE", session + "/directories?path=d")
        self.check("files")

    def test_changes(self):
        talk = self.begin()
        session = self.create()
        talk.ask("POST", session + "/run", {"code": "echo four >> a.txt; echo new > n.txt; mkdir -p .git/hooks; echo run > .git/hooks/pre-commit"},
                 noted=False)
        talk.ask("GET", session + "/diff", headers=["Accept: application/json"])
        talk.ask("GET", session + "/diff", headers=["Accept: text/x-diff"])
        talk.ask("POST", session + "/commit", {})
        talk.ask("POST", session + "/commit", {"only": ["a.txt", "n.txt"]})
        talk.ask("POST", session + "/undo")
        talk.ask("POST", session + "/undo")
        self.check("changes")


if __name__ == "__main__":
    unittest.main()
