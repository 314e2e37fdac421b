"""A client of `glovebox mcp` for tests: the real program, over its real standard streams."""
import json
import os
import queue
import subprocess
import threading

GLOVEBOX = os.environ.get("GLOVEBOX", "glovebox")
PATIENCE = int(os.environ.get("GLOVEBOX_PATIENCE", "120"))  # seconds; only a broken server takes so long


class Server:
    def __init__(self, *words, cwd, env=None, prefix=()):
        everything = dict(os.environ, **(env or {}))
        self.process = subprocess.Popen([*prefix, GLOVEBOX, "mcp", *words], cwd=cwd, env=everything,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE)
        self.messages = queue.Queue()
        self.early = []  # taken while something else was waited for
        self.last_id = 0
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()

    def _read(self):
        for line in self.process.stdout:
            self.messages.put(json.loads(line))
        self.messages.put(None)

    def send_line(self, line):
        self.process.stdin.write(line if isinstance(line, bytes) else line.encode())
        self.process.stdin.flush()

    def send(self, message):
        self.send_line(json.dumps(dict({"jsonrpc": "2.0"}, **message)) + "\n")

    def request(self, method, params=None):
        """Sends a request without waiting; its id."""
        self.last_id += 1
        self.send({"id": self.last_id, "method": method, "params": params or {}})
        return self.last_id

    def wait(self, is_wanted):
        for message in self.early:
            if is_wanted(message):
                self.early.remove(message)
                return message
        while True:
            message = self.messages.get(timeout=PATIENCE)
            assert message is not None, "the server has ended: " + self.errors()
            if is_wanted(message):
                return message
            self.early.append(message)

    def answer(self, number):
        return self.wait(lambda message: message.get("id") == number and "method" not in message)

    def ask(self, method, params=None):
        return self.answer(self.request(method, params))

    def initialize(self, version="2025-06-18"):
        answer = self.ask("initialize", {"protocolVersion": version, "capabilities": {},
                                         "clientInfo": {"name": "test", "version": "1"}})
        self.send({"method": "notifications/initialized"})
        return answer["result"]

    def start_call(self, name, arguments, meta=None):
        params = {"name": name, "arguments": arguments}
        if meta is not None:
            params["_meta"] = meta
        return self.request("tools/call", params)

    def call(self, name, arguments, meta=None):
        return self.answer(self.start_call(name, arguments, meta))

    def start_repl(self, text, meta=None, timeout_ms=None):
        arguments = {"input": text}
        if timeout_ms is not None:
            arguments["timeout_ms"] = timeout_ms
        return self.start_call("repl", arguments, meta)

    def repl(self, text, meta=None, timeout_ms=None):
        return Reply(self.answer(self.start_repl(text, meta, timeout_ms))["result"])

    def errors(self):
        return self.process.stderr.read().decode(errors="replace")

    def close(self):
        """Ends the input and waits; the exit code."""
        self.process.stdin.close()
        code = self.process.wait(timeout=PATIENCE)
        self.reader.join(timeout=PATIENCE)
        self.process.stdout.close()
        self.process.stderr.close()
        return code


class Reply:
    def __init__(self, result):
        self.content = result["content"]
        self.is_error = result["isError"]
        self.texts = [item["text"] for item in self.content if item["type"] == "text"]
        self.images = [item for item in self.content if item["type"] == "image"]
        self.text = "".join(self.texts)

    def __repr__(self):
        return "Reply(%r, is_error=%r)" % (self.content, self.is_error)


def path_entry(path, access, **more):
    return dict({"path": {"type": "path", "path": path}, "access": access}, **more)


def special(kind, access, **more):
    return {"path": {"type": "special", "value": dict({"kind": kind}, **more)}, "access": access}


def managed(cwd, entries, network="restricted", **more):
    profile = {"type": "managed", "network": network,
               "file_system": dict({"type": "restricted", "entries": entries}, **more)}
    return state(cwd, profile)


def state(cwd, profile):
    payload = {"permissionProfile": profile, "codexLinuxSandboxExe": "/nowhere/codex-linux-sandbox",
               "sandboxCwd": "file://" + cwd, "useLegacyLandlock": False, "useMxc": False}
    return {"codex/sandbox-state-meta": payload, "codex/sandbox-state": payload,
            "codex/sandbox-launcher": {"codexExecutable": "/nowhere/codex"}}


def read_only(cwd):
    return managed(cwd, [special("root", "read")])


def workspace_write(cwd):
    protected = [path_entry(cwd + "/" + name, "read", missing_path_behavior="skip")
                 for name in (".git", ".agents", ".codex", ".aws")]
    return managed(cwd, [special("root", "read"), path_entry(cwd, "write"),
                         special("slash_tmp", "write"), special("tmpdir", "write"), *protected])


def full_access(cwd):
    return state(cwd, {"type": "disabled"})


BAD = {"codex/sandbox-state-meta": "invalid"}
