"""A real `glovebox serve`, started for tests, and a small client of it.

GLOVEBOX_BINARY names the command; glovebox-launcher is beside it. GLOVEBOX_TIER is "root" or "user": in
the second the service runs as an ordinary user, and so do the directories that it works on belong to one.
"""

import http.client
import json
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import unittest
from pathlib import Path
from urllib.parse import quote, urlencode

USER = 65533
TIER = os.environ.get("GLOVEBOX_TIER", "root")
BINARY = os.environ.get("GLOVEBOX_BINARY", "build/glovebox")
AS_USER = ["setpriv", "--reuid", str(USER), "--regid", str(USER), "--clear-groups"]
PATIENCE = 20


def needs_root(test):
    """For a claim that only makes sense for a service that is root."""
    return unittest.skipUnless(TIER == "root", "this is about what root can do")(test)


class Answer:
    def __init__(self, status, headers, body):
        self.status, self.headers, self.body = status, headers, body

    @property
    def json(self):
        return json.loads(self.body)

    @property
    def code(self):
        return self.json["code"]

    def __repr__(self):
        return f"{self.status} {self.body[:500]!r}"


class Run:
    """The events of one foreground run."""

    def __init__(self, body):
        self.events = [json.loads(part) for part in body.decode().split("\n\n") if part]
        self.out = [event["text"] for event in self.events if event["type"] == "stdout"]
        self.err = [event["text"] for event in self.events if event["type"] == "stderr"]

    @property
    def last(self):
        return self.events[-1]

    @property
    def exit_code(self):
        if self.last["type"] == "execution_complete":
            return 0
        value = self.last["error"]["evalue"]
        return int(value) if value.lstrip("-").isdigit() else value

    def __repr__(self):
        return repr(self.events)


class UnixConnection(http.client.HTTPConnection):
    def __init__(self, path):
        super().__init__("localhost", timeout=PATIENCE * 3)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self.path)


def multipart(files, boundary="x-boundary"):
    """The body of an upload: (metadata, content) pairs."""
    parts = []
    for metadata, content in files:
        for name, filename, body in (("metadata", "metadata", json.dumps(metadata).encode()),
                                     ("file", "f", content)):
            parts.append(f'--{boundary}\r\nContent-Disposition: form-data; name="{name}"; '
                         f'filename="{filename}"\r\n\r\n'.encode() + body + b"\r\n")
    return b"".join(parts) + f"--{boundary}--\r\n".encode()


class Service:
    """One service with its own directory. `settings` is TOML that is added to its file, `files` are texts that are put
    beside it; @BASE@ in either is the directory."""

    def __init__(self, settings="", environment=None, token=None, files=None, preexec=None, state=None):
        # Not below /tmp: that is private to every box.
        self.base = Path(tempfile.mkdtemp(prefix="glovebox-serve-", dir="/var/tmp"))
        self.token = token
        self.bin = self.base / "bin"
        self.bin.mkdir()
        for name in ("glovebox", "glovebox-launcher"):
            shutil.copy(Path(BINARY).parent / name, self.bin / name)
        self.state = state or self.base / "service" / "state"
        self.work = self.base / "work"
        self.data = self.base / "data"
        for directory in (self.base / "service", self.work, self.data):
            directory.mkdir()
        self.socket_path = str(self.base / "service" / "s.sock")
        self.config = self.base / "service" / "config.toml"
        self.config.write_text(
            f'listen = ["127.0.0.1:0"]\nsocket = "{self.socket_path}"\n'
            f'state_directory = "{self.state}"\n'
            + ("" if "allowed_writable" in settings else f'allowed_writable = ["{self.data}"]\n')
            + settings.replace("@BASE@", str(self.base)))
        self.environment = {"PATH": "/usr/bin:/bin", "HOME": str(self.base / "service")}
        self.environment.update(environment or {})
        if token:
            self.environment["EXECD_ACCESS_TOKEN"] = token
        self.preexec = preexec
        for name, text in (files or {}).items():
            path = self.base / "service" / name
            path.parent.mkdir(exist_ok=True)
            path.write_text(text.replace("@BASE@", str(self.base)))
            path.chmod(0o600)
        self.base.chmod(0o755)
        if TIER == "user":
            subprocess.run(["chown", "-R", f"{USER}:{USER}", str(self.base)], check=True)
        self.log = []
        self.process = None
        self.spawn = subprocess.Popen
        try:
            self.start()
        except RuntimeError:
            self.close()
            raise

    def start(self):
        words = AS_USER if TIER == "user" else []
        self.errors = open(self.base / "log", "ab+")
        position = self.errors.tell()
        self.process = self.spawn(
            words + [str(self.bin / "glovebox"), "serve", "--config", str(self.config)],
            env=self.environment, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            stderr=self.errors, preexec_fn=self.preexec)
        end = time.monotonic() + PATIENCE
        self.port = None
        while time.monotonic() < end:
            text = (self.base / "log").read_bytes()[position:].decode()
            for line in text.splitlines():
                if line.startswith("{") and '"listening"' in line:
                    address = json.loads(line)["address"]
                    if address.startswith("127."):
                        self.port = int(address.rsplit(":", 1)[1])
            if self.port and os.path.exists(self.socket_path) and '"' + self.socket_path in text:
                return
            if self.process.poll() is not None:
                raise RuntimeError(f"the service ended with {self.process.returncode}: {text}")
            time.sleep(0.01)
        raise RuntimeError(f"the service did not start: {text}")

    def log_text(self):
        return (self.base / "log").read_text()

    def stop(self, number=signal.SIGTERM):
        if self.process and self.process.poll() is None:
            self.process.send_signal(number)
            try:
                self.process.wait(PATIENCE * 2)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
                raise
        self.errors.close()

    def await_removals(self):
        """Layers of deleted sessions are removed by and by. Until then a walk over them meets what is going."""
        return wait_until(lambda: not list((self.state / "layers").glob(".removing-*")))

    def close(self):
        try:
            self.stop()
        finally:
            shutil.rmtree(self.base, ignore_errors=True)

    # ---- Requests ----------------------------------------------------------------------------

    def connect(self, tcp=False):
        if tcp:
            return http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE * 3)
        return UnixConnection(self.socket_path)

    def request(self, method, path, body=None, headers=None, query=None, tcp=True, connection=None):
        own = connection is None
        connection = connection or self.connect(tcp)
        headers = dict(headers or {})
        if self.token and "X-EXECD-ACCESS-TOKEN" not in headers and "Authorization" not in headers:
            headers["X-EXECD-ACCESS-TOKEN"] = self.token
        if isinstance(body, (dict, list)):
            body = json.dumps(body)
            headers.setdefault("Content-Type", "application/json")
        if query:
            path += "?" + urlencode(query, doseq=True, quote_via=quote)
        try:
            connection.request(method, path, body=body, headers=headers)
            response = connection.getresponse()
            return Answer(response.status, response.headers, response.read())
        finally:
            if own:
                connection.close()

    def get(self, path, **more):
        return self.request("GET", path, **more)

    def post(self, path, body=None, **more):
        return self.request("POST", path, body, **more)

    def delete(self, path, **more):
        return self.request("DELETE", path, **more)

    # ---- Sessions ----------------------------------------------------------------------------

    def workspace(self, name, **files):
        """A fresh directory that the service's user owns, with files in it."""
        directory = self.work / name
        directory.mkdir(parents=True, exist_ok=True)
        for path, text in files.items():
            target = directory / path.replace("__", ".")
            target.write_text(text)
        if TIER == "user":
            subprocess.run(["chown", "-R", f"{USER}:{USER}", str(directory)], check=True)
        return str(directory)

    def create(self, workspace=None, mode=None, **more):
        body = dict(more)
        if workspace is not None:
            body["workspace"] = {"path": workspace}
            if mode:
                body["workspace"]["mode"] = mode
        answer = self.post("/v1/isolated/session", body)
        if answer.status != 201:
            raise AssertionError(f"create: {answer}")
        return Session(self, answer.json["session_id"])


class Session:
    def __init__(self, service, identifier):
        self.service, self.id = service, identifier
        self.path = f"/v1/isolated/session/{identifier}"

    def run(self, code, **more):
        answer = self.service.post(self.path + "/run", {"code": code, **more})
        if answer.status != 200:
            raise AssertionError(f"run: {answer}")
        return Run(answer.body)

    def out(self, code, **more):
        run = self.run(code, **more)
        if run.exit_code != 0:
            raise AssertionError(f"{code}: {run}")
        return "\n".join(run.out)

    def get(self, path="", **more):
        return self.service.get(self.path + path, **more)

    def post(self, path, body=None, **more):
        return self.service.post(self.path + path, body, **more)

    def state(self):
        return self.get().json

    def delete(self):
        return self.service.delete(self.path)

    # ---- Files -------------------------------------------------------------------------------

    def upload(self, *files):
        return self.service.post(self.path + "/files/upload", multipart(files),
                                 headers={"Content-Type": "multipart/form-data; boundary=x-boundary"})

    def write(self, path, content, **metadata):
        if isinstance(content, str):
            content = content.encode()
        answer = self.upload(({"path": path, **metadata}, content))
        if answer.status != 200:
            raise AssertionError(f"upload {path}: {answer}")

    def download(self, path, headers=None, **query):
        return self.get("/files/download", query={"path": path, **query}, headers=headers)

    def read(self, path):
        answer = self.download(path)
        if answer.status != 200:
            raise AssertionError(f"download {path}: {answer}")
        return answer.body.decode()

    def info(self, *paths):
        return self.get("/files/info", query={"path": list(paths)})

    def remove(self, *paths):
        return self.service.delete(self.path + "/files", query={"path": list(paths)})

    def remove_directories(self, *paths):
        return self.service.delete(self.path + "/directories", query={"path": list(paths)})

    def move(self, source, target):
        return self.post("/files/mv", [{"src": source, "dest": target}])

    def chmod(self, path, **permission):
        return self.post("/files/permissions", {path: permission})

    def replace(self, path, old, new, **query):
        return self.post("/files/replace", {path: {"old": old, "new": new}}, query=query)

    def search(self, path, pattern=None):
        query = {"path": path}
        if pattern:
            query["pattern"] = pattern
        return self.get("/files/search", query=query)

    def list(self, path, depth=None):
        query = {"path": path}
        if depth is not None:
            query["depth"] = depth
        return self.get("/directories/list", query=query)

    def make_directories(self, **modes):
        return self.post("/directories", {path: {"mode": mode} for path, mode in modes.items()})


class ServiceTest(unittest.TestCase):
    """Tests that share one service."""

    SETTINGS = ""
    ENVIRONMENT = {}
    TOKEN = None
    FILES = {}
    maxDiff = None

    @classmethod
    def setUpClass(cls):
        cls.service = Service(cls.SETTINGS, cls.ENVIRONMENT, cls.TOKEN, cls.FILES)

    @classmethod
    def tearDownClass(cls):
        cls.service.close()

    def setUp(self):
        self.name = self.id().rsplit(".", 1)[1]

    def session(self, mode="overlay", files=None, **more):
        """A session on a fresh workspace, deleted after the test."""
        path = self.service.workspace(self.name, **(files or {}))
        session = self.service.create(path, mode, **more)
        session.workspace = path
        self.addCleanup(session.delete)
        return session

    def assertStatus(self, answer, status, code=None):
        self.assertEqual(answer.status, status, answer)
        if code:
            self.assertEqual(answer.code, code, answer)


def wait_until(condition, patience=PATIENCE):
    """True as soon as `condition()` is; False after `patience` seconds."""
    end = time.monotonic() + patience
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(0.02)
    return False
