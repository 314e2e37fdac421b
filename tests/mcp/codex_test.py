"""The real Codex, from npm, with a model that only says which tool to call: what Codex allows is what the box gets.

Codex reads the configuration that `glovebox mcp install` wrote. Everything happens in a network namespace of its own that
has nothing but its loopback, so that no test sends anything anywhere; that needs root.
"""
import ctypes
import fcntl
import http.server
import json
import os
import socket
import struct
import subprocess
import threading
import unittest

from client import GLOVEBOX
from inherit_test import McpTest
from sdk_test import CLIENTS, PACKAGES, needs_clients

CODEX = PACKAGES + "/node_modules/.bin/codex"
PROVIDER = """
model = "none"
model_provider = "local"
check_for_update_on_startup = false
[analytics]
enabled = false
[model_providers.local]
name = "local"
base_url = "http://127.0.0.1:%d/v1"
wire_api = "responses"
request_max_retries = 0
stream_max_retries = 0
"""


def leave_the_network():
    """A namespace with a loopback that is up, for this process and what it starts."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(0x40000000) != 0:  # CLONE_NEWNET
        raise OSError(ctypes.get_errno(), "unshare")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        up = struct.pack("16sh", b"lo", 1)  # SIOCSIFFLAGS, IFF_UP
        fcntl.ioctl(any_socket, 0x8914, up)


class Model(http.server.BaseHTTPRequestHandler):
    """Calls the tool with each input in turn, then says that it is done."""
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def do_GET(self):
        self.reply("application/json", b'{"data": [], "models": []}')

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        outputs = [item["output"] for item in body["input"] if item.get("type") == "function_call_output"]
        self.server.outputs = outputs
        number = len(outputs)
        if number < len(self.server.inputs):
            item = {"type": "function_call", "id": f"f{number}", "call_id": f"c{number}",
                    "namespace": "mcp__glovebox_python", "name": "repl",
                    "arguments": json.dumps({"input": self.server.inputs[number]})}
        else:
            item = {"type": "message", "role": "assistant", "id": "m",
                    "content": [{"type": "output_text", "text": "done"}]}
        response = {"id": f"r{number}"}
        usage = {"input_tokens": 1, "input_tokens_details": None, "output_tokens": 1,
                 "output_tokens_details": None, "total_tokens": 2}
        events = [{"type": "response.created", "response": response},
                  {"type": "response.output_item.done", "output_index": 0, "item": item},
                  {"type": "response.completed", "response": dict(response, usage=usage)}]
        text = "".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events)
        self.reply("text/event-stream", text.encode())

    def reply(self, kind, body):
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


@needs_clients
@unittest.skipUnless(os.geteuid() == 0, "a network namespace for Codex needs root")
class Codex(McpTest):
    @classmethod
    def setUpClass(cls):
        leave_the_network()

    def setUp(self):
        super().setUp()
        self.home = self.place + "/codex"
        os.mkdir(self.home)
        self.model = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Model)
        self.model.inputs, self.model.outputs = [], []
        threading.Thread(target=self.model.serve_forever, daemon=True).start()
        self.environment = {"PATH": CLIENTS + "/python/bin:/usr/bin:/bin", "HOME": self.place, "CODEX_HOME": self.home}
        subprocess.run([GLOVEBOX, "mcp", "install", "--client", "codex"], env=self.environment, check=True,
                       stdout=subprocess.DEVNULL, timeout=60)
        with open(self.home + "/config.toml") as file:
            installed = file.read()
        with open(self.home + "/config.toml", "w") as file:
            file.write(PROVIDER % self.model.server_port + "\n" + installed)

    def tearDown(self):
        self.model.shutdown()
        self.model.server_close()
        super().tearDown()

    def ask(self, sandbox, *inputs):
        """What the tool said to each input, under that sandbox of Codex."""
        self.model.inputs = list(inputs)
        done = subprocess.run([CODEX, "exec", "--skip-git-repo-check", "--sandbox", sandbox, "go"],
                              cwd=self.cwd, env=self.environment, stdin=subprocess.DEVNULL, capture_output=True,
                              text=True, timeout=120)
        self.assertEqual(len(self.model.outputs), len(inputs), done.stderr[-2000:])
        return [output if isinstance(output, str) else json.dumps(output) for output in self.model.outputs]

    def write(self, path):
        return "try: print('wrote', open(%r, 'w').write('x'))\nexcept OSError as e: print(e)" % path

    def test_read_only(self):
        with open(self.cwd + "/a", "w") as file:
            file.write("content")
        told = self.ask("read-only", "x = 6*7", "x", "open('a').read()", self.write("b"), self.write(self.other + "/b"))
        self.assertIn("42", told[1])  # one session for all calls
        self.assertIn("content", told[2])
        self.assertIn("Read-only file system", told[3])
        self.assertIn("Read-only file system", told[4])
        self.assertEqual(os.listdir(self.cwd), ["a"])

    def test_workspace_write(self):
        told = self.ask("workspace-write", self.write("b"), self.write(self.other + "/b"),
                        "import os\ntry: os.mkdir('.git')\nexcept OSError as e: print('not made:', e)\nelse: print('made')",
                        "import socket\ntry: socket.create_connection(('127.0.0.1', %d), 5)\n"
                        "except OSError as e: print('refused')" % self.model.server_port)
        self.assertIn("wrote 1", told[0])
        self.assertIn("Read-only file system", told[1])
        self.assertIn("not made", told[2])
        self.assertIn("refused", told[3])
        self.assertEqual(os.listdir(self.cwd), ["b"])
        self.assertEqual(os.listdir(self.other), [])

    def test_full_access(self):
        told = self.ask("danger-full-access", self.write("b"), self.write(self.other + "/b"))
        self.assertIn("wrote 1", told[0])
        self.assertIn("wrote 1", told[1])
        self.assertEqual(os.listdir(self.other), ["b"])


if __name__ == "__main__":
    unittest.main()
