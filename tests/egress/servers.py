"""Servers on loopback addresses of this machine, for real programs in boxes: each listens on 127.50.0.1 at a port of its own,
speaks as much of its protocol as a client needs, and runs until close()."""

import base64
import hashlib
import http.server
import io
import json
import socket
import socketserver
import ssl
import struct
import subprocess
import tarfile
import threading
import time
import zipfile

ADDRESS = "127.50.0.1"


class Names:
    """Answers questions for addresses: every name of .test is ADDRESS, and no other is there."""

    def __init__(self):
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.bind(("127.50.0.53", 0))
        self.asked = []
        threading.Thread(target=self.serve, daemon=True).start()

    @property
    def where(self):
        return "%s:%d" % self.socket.getsockname()

    def serve(self):
        while True:
            try:
                question, client = self.socket.recvfrom(2048)
            except OSError:
                return
            labels, at = [], 12
            while question[at]:
                labels.append(question[at + 1:at + 1 + question[at]].decode())
                at += question[at] + 1
            name = ".".join(labels).lower()
            self.asked.append(name)
            kind = struct.unpack(">H", question[at + 1:at + 3])[0]
            known, wanted = name.endswith(".test"), kind == 1
            answer = (b"\xc0\x0c" + struct.pack(">HHIH", 1, 1, 60, 4) + socket.inet_aton(ADDRESS)
                      if known and wanted else b"")
            flags = 0x8180 if known else 0x8183
            self.socket.sendto(question[:2] + struct.pack(">HHHHH", flags, 1, 1 if answer else 0, 0, 0)
                               + question[12:at + 5] + answer, client)

    def close(self):
        self.socket.close()


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        body = self.server.files.get(self.path.split("?")[0])
        if callable(body):
            return body(self)
        if body is None and self.server.directory:
            path = self.server.directory / self.path.split("?")[0].lstrip("/")
            body = path.read_bytes() if path.is_file() else None
        elif body is None:
            body = f"hello {self.path}\n".encode()
        self.send_response(404 if body is None else 200)
        kind = "application/json" if (body or b"").startswith(b"{") else "text/html"
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body or b"")))
        self.end_headers()
        self.wfile.write(body or b"")

    def log_message(self, *_):
        pass


class Web(http.server.ThreadingHTTPServer):
    """Says "hello PATH", or what `files` or `directory` have; with a certificate, over TLS."""

    daemon_threads = True

    def __init__(self, files=None, directory=None, certificate=None):
        super().__init__((ADDRESS, 0), Handler)
        self.files, self.directory = files or {}, directory
        self.port = self.server_address[1]
        if certificate:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(*certificate)
            self.socket = context.wrap_socket(self.socket, server_side=True)
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def handle_error(self, *_):
        pass

    def close(self):
        self.shutdown()
        self.server_close()


class Talk(socketserver.ThreadingTCPServer):
    """Does with each connection what it is told."""

    daemon_threads = True

    def __init__(self, talk):
        class Handle(socketserver.StreamRequestHandler):
            def handle(self):
                talk(self.rfile, self.wfile)
        super().__init__((ADDRESS, 0), Handle)
        self.port = self.server_address[1]
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def handle_error(self, *_):
        pass

    def close(self):
        self.shutdown()
        self.server_close()


def redis(read, write):
    """PONG to every client that says PING."""
    while line := read.readline():
        words = []
        for _ in range(int(line[1:])):
            words.append(read.read(int(read.readline()[1:]) + 2)[:-2])
        write.write(b"+PONG\r\n" if words[0].upper() == b"PING" else b"-ERR unknown\r\n")


def postgres(read, write):
    """One row, "42", for every query."""
    def say(kind, body=b""):
        write.write(kind + struct.pack(">I", len(body) + 4) + body)

    def ready():
        say(b"Z", b"I")

    while True:
        size, code = struct.unpack(">II", read.read(8))
        read.read(size - 8)
        if code == 196608:
            break
        write.write(b"N")  # neither TLS nor GSSAPI
    say(b"R", struct.pack(">I", 0))
    say(b"S", b"server_version\x0015.0\x00")
    say(b"S", b"client_encoding\x00UTF8\x00")
    ready()
    while (kind := read.read(1)) and kind != b"X":
        read.read(struct.unpack(">I", read.read(4))[0] - 4)
        say(b"T", struct.pack(">H", 1) + b"x\x00" + struct.pack(">IHIHIH", 0, 0, 25, 65535, 4294967295, 0))
        say(b"D", struct.pack(">HI", 1, 2) + b"42")
        say(b"C", b"SELECT 1\x00")
        ready()


def web_socket(handler):
    """Takes a WebSocket and sends every message back."""
    key = handler.headers["Sec-WebSocket-Key"].encode() + b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
    handler.send_response(101)
    for name, value in (("Upgrade", "websocket"), ("Connection", "Upgrade"),
                        ("Sec-WebSocket-Accept", base64.b64encode(hashlib.sha1(key).digest()).decode())):
        handler.send_header(name, value)
    handler.end_headers()
    head = handler.rfile.read(2)
    mask, body = handler.rfile.read(4), handler.rfile.read(head[1] & 127)
    text = bytes(byte ^ mask[i % 4] for i, byte in enumerate(body))
    handler.wfile.write(bytes([head[0], len(text)]) + text)
    handler.wfile.flush()
    handler.rfile.read(1)
    handler.close_connection = True


def python_index():
    """An index with one package, hello_box, whose module says HELLO."""
    wheel, name = io.BytesIO(), "hello_box-1.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("hello_box.py", "HELLO = 'from the index'\n")
        archive.writestr("hello_box-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: hello-box\nVersion: 1.0\n")
        archive.writestr("hello_box-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr("hello_box-1.0.dist-info/RECORD", "hello_box.py,,\n")
    return {"/simple/hello-box/": f"<a href='/files/{name}'>{name}</a>".encode(), f"/files/{name}": wheel.getvalue()}


def node_registry(port):
    """A registry with one package, hello-box, that exports a text."""
    package = {"name": "hello-box", "version": "1.0.0", "main": "index.js"}
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w:gz") as tar:
        for name, text in (("package.json", json.dumps(package)), ("index.js", "module.exports = 'from the registry'\n")):
            info = tarfile.TarInfo(f"package/{name}")
            info.size = len(text)
            tar.addfile(info, io.BytesIO(text.encode()))
    body = archive.getvalue()
    integrity = "sha512-" + base64.b64encode(hashlib.sha512(body).digest()).decode()
    dist = {"tarball": f"http://web.test:{port}/hello-box.tgz", "integrity": integrity}
    return {"/hello-box": json.dumps({"name": "hello-box", "dist-tags": {"latest": "1.0.0"},
                                      "versions": {"1.0.0": {**package, "dist": dist}}}).encode(),
            "/hello-box.tgz": body}


class Program:
    """A server program, until close(). `words` are given its port."""

    def __init__(self, words, **more):
        with socket.socket() as probe:
            probe.bind((ADDRESS, 0))
            self.port = probe.getsockname()[1]
        self.process = subprocess.Popen(words(self.port), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                        stderr=subprocess.DEVNULL, start_new_session=True, **more)
        end = time.monotonic() + 20
        while True:
            try:
                socket.create_connection((ADDRESS, self.port)).close()
                return
            except OSError:
                if time.monotonic() > end or self.process.poll() is not None:
                    self.close()
                    raise
                time.sleep(0.01)

    def close(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
