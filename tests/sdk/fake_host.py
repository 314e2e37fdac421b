"""A stand-in for the service's Python channel: a WebSocket that says what a test tells it to.

The real service checks what a guest sends; this one does not, so that the SDK's own checks can be seen at work.
"""

import json
import os
import socket
import tempfile
import threading

from websockets.exceptions import ConnectionClosed
from websockets.sync.server import unix_serve


class FakeHost:
    """Calls `script(connection)` for each connection, in a thread of its own."""

    def __init__(self, script):
        self.directory = tempfile.mkdtemp(prefix="glovebox-fake-")
        self.path = os.path.join(self.directory, "s")
        self.heard = []
        self.connections = 0
        self._script = script
        self._server = unix_serve(self._serve, self.path, compression=None, max_size=None)
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    def _serve(self, connection):
        self.connections += 1
        try:
            self._script(self, connection)
        except ConnectionClosed:
            pass  # the SDK has said good-bye

    def hear(self, connection):
        """The next message of the SDK, as its JSON."""
        frame = connection.recv()
        message = json.loads(frame if isinstance(frame, str) else frame[4 : 4 + int.from_bytes(frame[:4], "little")])
        self.heard.append(message)
        return message

    @staticmethod
    def say(connection, **message):
        connection.send(json.dumps(message))

    @property
    def url(self):
        return "unix://" + self.path

    def close(self):
        self._server.shutdown()
        os.unlink(self.path)
        os.rmdir(self.directory)


def refusing_server(answer):
    """A socket whose every connection gets these bytes, for handshakes that are refused."""
    directory = tempfile.mkdtemp(prefix="glovebox-fake-")
    path = os.path.join(directory, "s")
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(path)
    listener.listen()

    def serve():
        while True:
            try:
                peer, _ = listener.accept()
            except OSError:
                return
            peer.recv(65536)
            peer.sendall(answer)
            peer.close()

    threading.Thread(target=serve, daemon=True).start()
    return listener, path
