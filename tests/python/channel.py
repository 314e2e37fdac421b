"""A client of the Python channel, as small as the tests need it."""

import json
import socket
import struct
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "serve"))
from service import Service  # noqa: E402
from websocket import WebSocket  # noqa: E402

PATIENCE = 30


class Failed(Exception):
    """An operation that was answered with an error."""

    def __init__(self, error):
        super().__init__(f"{error['type']}: {error['message']}")
        self.error = error
        self.kind, self.type, self.reason = error["kind"], error["type"], error.get("reason")


class Ended(Exception):
    def __init__(self, event):
        super().__init__(str(event))
        self.reason = event["reason"]


class LargeSocket(WebSocket):
    """With messages of more than 64 KiB, and masking in one go."""

    def _send(self, kind, body):
        size = (bytes([128 | len(body)]) if len(body) < 126 else
                bytes([254]) + struct.pack(">H", len(body)) if len(body) < 65536 else
                bytes([255]) + struct.pack(">Q", len(body)))
        # A mask of zeros is a mask.
        self.socket.sendall(bytes([128 | kind]) + size + b"\0\0\0\0" + body)


class Box:
    """One Python session and its channel."""

    def __init__(self, service, capabilities=(), attach=True, **order):
        self.service = service
        rules = capabilities[0] if capabilities and "allow" in capabilities[0] else list(capabilities)
        body = {"python": order.pop("python", {}), "capabilities": rules, **order}
        answer = service.request("POST", "/v1/isolated/session", body)
        assert answer.status == 201, answer
        self.id = answer.json["session_id"]
        self.number = 0
        self.posts, self.events, self.end = [], [], None
        self.requests = []
        self.socket = None
        if attach:
            self.attach()

    def attach(self):
        self.socket = LargeSocket(self.service.port, f"/v1/isolated/session/{self.id}/python")
        self.socket.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket.socket.settimeout(PATIENCE)

    def send(self, message, blobs=b""):
        head = json.dumps(message).encode()
        if blobs:
            self.socket.send_bytes(struct.pack("<I", len(head)) + head + blobs)
        else:
            self.socket.send_text(head.decode())

    def receive(self):
        """The next event; the bytes of a binary one under "blobs"."""
        message = self.socket.receive()
        if message is None:
            raise ConnectionError("the channel is closed")
        if isinstance(message, str):
            return json.loads(message)
        size = struct.unpack("<I", message[:4])[0]
        event = json.loads(message[4:4 + size])
        event["blobs"] = message[4 + size:]
        return event

    def step(self):
        event = self.receive()
        if event["ev"] == "post":
            self.posts.append(value_of(event))
        elif event["ev"] == "end":
            self.end = event
        elif event["ev"] == "request":
            self.requests.append(event)
        elif event["ev"] not in ("result", "error"):
            self.events.append(event)
        return event

    def begin(self, op, **fields):
        self.number += 1
        self.send({"op": op, "id": self.number, **fields})
        return self.number

    def wait(self, number):
        while True:
            event = self.step()
            if event["ev"] in ("result", "error") and event["id"] == number:
                if event["ev"] == "error":
                    raise Failed(event["error"])
                return value_of(event)
            if event["ev"] == "end":
                raise Ended(event)

    def exec(self, source):
        return self.wait(self.begin("exec", source=source))

    def call(self, target, *args, **kwargs):
        return self.wait(self.begin("call", target=target, args=list(args), kwargs=kwargs))

    def recv(self):
        while not self.posts:
            if self.step()["ev"] == "end":
                raise Ended(self.end)
        return self.posts.pop(0)

    def value(self, expression):
        """What an expression gives in the box."""
        self.exec(f"post({expression})")
        return self.recv()

    def named(self, kind):
        return [event for event in self.events if event["ev"] == kind]

    def delete(self):
        if self.socket:
            self.socket.close()
        self.service.request("DELETE", f"/v1/isolated/session/{self.id}")

    def __enter__(self):
        return self

    def __exit__(self, *problem):
        self.delete()


def value_of(event):
    value = event.get("value")
    if isinstance(value, dict) and "$bytes" in value:
        offset, size = value["$bytes"]
        return event["blobs"][offset:offset + size]
    return value


def imports(*names):
    return [{"kind": "import", "module": name} for name in names]


def start(**settings):
    return Service(**settings)


class PythonTest(unittest.TestCase):
    """A service for the whole class, and boxes that end with their test."""

    @classmethod
    def start(cls):
        return start()

    @classmethod
    def setUpClass(cls):
        cls.service = cls.start()

    @classmethod
    def tearDownClass(cls):
        cls.service.close()

    def box(self, *capabilities, **order):
        box = Box(self.service, capabilities, **order)
        self.addCleanup(box.delete)
        return box
