"""As much of a WebSocket client as the tests need."""

import base64
import os
import socket
import struct


class WebSocket:
    def __init__(self, port, path):
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=20)
        key = base64.b64encode(os.urandom(16))
        self.socket.sendall(b"GET %s HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                            b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: %s\r\n\r\n" % (path.encode(), key))
        self.buffer = b""
        while b"\r\n\r\n" not in self.buffer:
            chunk = self.socket.recv(4096)
            if not chunk:
                raise AssertionError(f"no handshake: {self.buffer}")
            self.buffer += chunk
        head, self.buffer = self.buffer.split(b"\r\n\r\n", 1)
        if b" 101 " not in head.split(b"\r\n")[0]:
            raise AssertionError(f"no handshake: {head} {self.buffer}")

    def _take(self, count):
        while len(self.buffer) < count:
            chunk = self.socket.recv(65536)
            if not chunk:
                return None
            self.buffer += chunk
        taken, self.buffer = self.buffer[:count], self.buffer[count:]
        return taken

    def receive(self):
        """A text as str, bytes as bytes, None at the end."""
        while True:
            head = self._take(2)
            if head is None:
                return None
            kind, length = head[0] & 15, head[1] & 127
            if length == 126:
                length = struct.unpack(">H", self._take(2))[0]
            elif length == 127:
                length = struct.unpack(">Q", self._take(8))[0]
            body = self._take(length) if length else b""
            if kind == 8 or body is None:
                return None
            if kind == 1:
                return body.decode()
            if kind == 2:
                return body

    def _send(self, kind, body):
        mask = os.urandom(4)
        masked = bytes(byte ^ mask[i % 4] for i, byte in enumerate(body))
        size = bytes([128 | len(body)]) if len(body) < 126 else bytes([254]) + struct.pack(">H", len(body))
        self.socket.sendall(bytes([128 | kind]) + size + mask + masked)

    def send_bytes(self, body):
        self._send(2, body)

    def send_text(self, text):
        self._send(1, text.encode())

    def close(self):
        self.socket.close()
