"""Streamable HTTP: the same server behind one endpoint, for clients with a token."""
import http.client
import json
import os
import signal
import subprocess
import threading
import time
import unittest

from client import GLOVEBOX, PATIENCE
from inherit_test import McpTest
from sdk_test import CLIENTS, NODE, NodeScript, needs_clients

TOKEN = "a-token-of-this-test"
INITIALIZE = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
JAVASCRIPT = """
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
const transport = new StreamableHTTPClientTransport(new URL(process.argv[2]),
  { requestInit: { headers: { Authorization: "Bearer " + process.argv[3] } } });
const client = new Client({ name: "test", version: "1" });
await client.connect(transport);
const told = [];
const result = await client.callTool({ name: "repl", arguments: { input: "6*7" } });
await client.callTool({ name: "repl", arguments: { input: "import time; print('p'); time.sleep(1.5)" } },
  undefined, { onprogress: (progress) => told.push(progress.message) });
console.log(JSON.stringify([(await client.listTools()).tools[0].name, result.content, told]));
await transport.terminateSession();
await client.close();
"""
PYTHON = """
import asyncio, json, sys
from mcp import ClientSession
from mcp.client.streamable_http import streamablehttp_client
async def main():
    headers = {"Authorization": "Bearer " + sys.argv[2]}
    async with streamablehttp_client(sys.argv[1], headers=headers) as (read, write, _):
        async with ClientSession(read, write) as session:
            await session.initialize()
            result = await session.call_tool("repl", {"input": "6*7"})
            print(json.dumps([(await session.list_tools()).tools[0].name, result.content[0].text]))
asyncio.run(main())
"""


class HttpTest(McpTest):
    def setUp(self):
        super().setUp()
        self.process = self.listen("--listen", "127.0.0.1:0")
        line = self.process.stderr.readline()
        self.assertIn("listening on http://127.0.0.1:", line)
        self.url = line.split()[-1]
        self.port = int(self.url.split(":")[2].split("/")[0])
        self.last_id = 0

    def tearDown(self):
        self.process.send_signal(signal.SIGTERM)
        self.assertEqual(self.process.wait(PATIENCE), 0)
        self.process.stderr.close()
        super().tearDown()

    def listen(self, *words, token=TOKEN):
        environment = dict(os.environ, GLOVEBOX_MCP_TOKEN=token) if token else dict(os.environ)
        return subprocess.Popen([GLOVEBOX, "mcp", *words], cwd=self.cwd, env=environment, stdin=subprocess.DEVNULL,
                                stderr=subprocess.PIPE, text=True)

    def send(self, method, body=None, headers=None, path="/mcp", token=TOKEN):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
        everything = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}
        if token:
            everything["Authorization"] = "Bearer " + token
        everything.update(headers or {})
        text = body if isinstance(body, (str, bytes, type(None))) else json.dumps(body)
        connection.request(method, path, text, everything)
        response = connection.getresponse()
        content = response.read().decode()
        connection.close()
        return response.status, dict(response.headers), content

    def ask(self, session, method, params=None, **more):
        self.last_id += 1
        body = {"jsonrpc": "2.0", "id": self.last_id, "method": method, "params": params or {}}
        return self.send("POST", body, {"Mcp-Session-Id": session} if session else {}, **more)

    def initialize(self):
        status, headers, body = self.ask(None, "initialize", INITIALIZE)
        self.assertEqual(status, 200, body)
        self.assertEqual(json.loads(body)["result"]["protocolVersion"], "2025-06-18")
        return headers["Mcp-Session-Id"]

    def repl(self, session, code):
        status, _, body = self.ask(session, "tools/call", {"name": "repl", "arguments": {"input": code}})
        self.assertEqual(status, 200, body)
        return json.loads(body)["result"]["content"][0]["text"]


class Http(HttpTest):
    def test_sessions_are_their_clients_own(self):
        first, second = self.initialize(), self.initialize()
        self.assertNotEqual(first, second)
        self.repl(first, "x = 1")
        self.assertEqual(self.repl(first, "x"), "1\n")
        self.assertIn("NameError", self.repl(second, "x"))
        self.assertEqual(self.send("DELETE", headers={"Mcp-Session-Id": first})[0], 200)
        self.assertEqual(self.ask(first, "ping")[0], 404)
        self.assertEqual(self.repl(second, "1+1"), "2\n")

    def test_notifications_are_taken_and_progress_is_streamed(self):
        session = self.initialize()
        note = {"jsonrpc": "2.0", "method": "notifications/initialized"}
        status, headers, body = self.send("POST", note, {"Mcp-Session-Id": session})
        self.assertEqual((status, headers["Content-Length"], body), (202, "0", ""))
        self.repl(session, "import time")
        params = {"name": "repl", "arguments": {"input": "print('p')\ntime.sleep(1.5)"}, "_meta": {"progressToken": "t"}}
        status, headers, body = self.ask(session, "tools/call", params)
        self.assertEqual(headers["Content-Type"], "text/event-stream")
        events = [json.loads(part.split("data: ", 1)[1]) for part in body.strip().split("\n\n")]
        self.assertEqual([event.get("method") for event in events], ["notifications/progress", None])
        self.assertEqual(events[0]["params"]["message"], "p")
        self.assertEqual(events[1]["result"]["content"][0]["text"], "p\n")

    def cancel(self, session, number):
        note = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": number}}
        self.assertEqual(self.send("POST", note, {"Mcp-Session-Id": session})[0], 202)

    def test_a_cancelled_call_ends_its_request(self):
        session = self.initialize()
        self.repl(session, "import time")
        for meta, status, kind in (({}, 202, None), ({"progressToken": "t"}, 200, "text/event-stream")):
            params = {"name": "repl", "arguments": {"input": "time.sleep(3)"}, "_meta": meta}
            answers = []
            thread = threading.Thread(target=lambda: answers.append(self.ask(session, "tools/call", params)), daemon=True)
            thread.start()
            time.sleep(1)
            self.cancel(session, self.last_id)
            thread.join(10)
            self.assertEqual(len(answers), 1, "the request has ended")
            self.assertEqual((answers[0][0], answers[0][1].get("Content-Type")), (status, kind))
            self.assertNotIn('"id"', answers[0][2])
            self.last_id -= 1
            self.assertEqual(self.ask(session, "ping")[0], 200, "the id is free again")

    def waits_to_be_closed(self):
        """Whether the server holds a connection whose client is gone (CLOSE_WAIT)."""
        with open("/proc/net/tcp") as table:
            lines = [line.split() for line in table.readlines()[1:]]
        return any(line[1].endswith(":%04X" % self.port) and line[3] == "08" for line in lines)

    def call_and_hang_up(self, session, code, meta):
        body = json.dumps({"jsonrpc": "2.0", "id": 77, "method": "tools/call", "params": {
            "name": "repl", "arguments": {"input": code}, "_meta": meta}})
        connection = http.client.HTTPConnection("127.0.0.1", self.port)
        connection.request("POST", "/mcp", body, {"Authorization": "Bearer " + TOKEN, "Mcp-Session-Id": session,
                                                  "Accept": "application/json, text/event-stream"})
        time.sleep(1)
        connection.close()

    def test_a_client_that_is_forgotten_while_a_call_goes_on(self):
        for meta in ({}, {"progressToken": "t"}):
            session = self.initialize()
            self.repl(session, "import time")
            self.call_and_hang_up(session, "time.sleep(60)", meta)
            time.sleep(1)
            self.assertEqual(self.send("DELETE", headers={"Mcp-Session-Id": session})[0], 200)
            self.assertEqual(self.repl(self.initialize(), "1+1"), "2\n")

    def test_a_client_that_hangs_up_frees_its_connection_and_ends_no_call(self):
        session = self.initialize()
        self.repl(session, "import time")
        for meta in ({}, {"progressToken": "t"}):
            self.call_and_hang_up(session, "time.sleep(4); x = 5", meta)
            time.sleep(1)
            self.assertFalse(self.waits_to_be_closed())
            time.sleep(3)
            self.assertEqual(self.repl(session, "x"), "5\n")
            self.repl(session, "del x")

    def test_nobody_gets_in_without_the_token(self):
        for more in ({"token": None}, {"token": "another"}, {"headers": {"Origin": "http://example.com"}}):
            status, headers, body = self.send("POST", {"jsonrpc": "2.0", "id": 1, "method": "initialize",
                                                       "params": INITIALIZE}, **more)
            self.assertIn(status, (401, 403))
            self.assertNotIn("Mcp-Session-Id", headers)

    def test_who_is_refused_learns_what_to_send(self):
        for token in (None, "another"):
            status, headers, body = self.send("POST", {"jsonrpc": "2.0", "id": 1, "method": "ping"}, token=token)
            self.assertEqual((status, headers["WWW-Authenticate"]), (401, 'Bearer realm="glovebox"'))
            self.assertIn("Authorization: Bearer TOKEN", json.loads(body)["error"]["message"])
            self.assertNotIn("EXECD", body)

    def test_clients_that_never_say_goodbye_keep_no_other_out(self):
        with_box = self.initialize()
        self.repl(with_box, "x = 1")
        without = [self.initialize() for _ in range(15)]
        self.assertEqual(self.repl(self.initialize(), "1+1"), "2\n")
        # The one that was silent for the longest and had nothing to lose went, and hears why.
        status, _, body = self.ask(without[0], "ping")
        self.assertEqual(status, 404)
        self.assertIn("to make room for another client", json.loads(body)["error"]["message"])
        self.assertNotIn("are gone", body)
        for session in (*without[1:], with_box):
            self.assertEqual(self.ask(session, "ping")[0], 200)
        self.assertEqual(self.repl(with_box, "x"), "1\n")

    def test_a_client_that_loses_a_box_is_told_so(self):
        sessions = [self.initialize() for _ in range(16)]
        for session in sessions:
            self.repl(session, "x = 1")
        self.initialize()
        status, _, body = self.ask(sessions[0], "ping")
        self.assertEqual(status, 404)
        self.assertIn("its interpreters, and files of its boxes that were not committed, are gone", body)
        self.assertIn("to make room for another client", self.process.stderr.readline())
        self.assertEqual(self.repl(sessions[1], "x"), "1\n")

    def test_clients_with_code_under_way_stay(self):
        sessions = [self.initialize() for _ in range(16)]
        # Calls that were given up by their clients, and code that a call has left running.
        for session in sessions:
            status, _, body = self.ask(session, "tools/call", {"name": "repl", "arguments": {
                "input": "import time; time.sleep(1000)", "timeout_ms": 0}})
            self.assertIn("status: busy", body)
        self.assertEqual(self.ask(None, "initialize", INITIALIZE)[0], 429)
        self.assertEqual(self.send("DELETE", headers={"Mcp-Session-Id": sessions[3]})[0], 200)
        self.assertEqual(self.ask(None, "initialize", INITIALIZE)[0], 200)
        for session in (*sessions[:3], *sessions[4:]):
            self.assertEqual(self.ask(session, "ping")[0], 200)

    def test_what_is_refused(self):
        session = self.initialize()
        self.assertEqual(self.send("GET", headers={"Mcp-Session-Id": session})[0], 405)
        self.assertEqual(self.ask(None, "tools/list")[0], 400)
        self.assertEqual(self.ask("no-such-session", "tools/list")[0], 404)
        self.assertEqual(self.send("POST", "{", {"Mcp-Session-Id": session})[0], 400)
        self.assertEqual(self.send("POST", "[]", {"Mcp-Session-Id": session})[0], 400)
        self.assertEqual(self.ask(session, "ping", path="/other")[0], 404)
        self.assertEqual(self.send("POST", {"jsonrpc": "2.0", "id": 1, "method": "ping"},
                                   {"Mcp-Session-Id": session, "MCP-Protocol-Version": "1999-01-01"})[0], 400)

    def test_where_it_does_not_listen(self):
        for words, token, said in ((("--listen", "0.0.0.0:0"), TOKEN, "only this host's own"),
                                   (("--listen", "127.0.0.1:0"), "", "need a token"),
                                   (("--listen", "127.0.0.1:0"), "short", "at least"),
                                   (("--listen", "somewhere"), TOKEN, "somewhere")):
            process = self.listen(*words, token=token)
            self.assertEqual(process.wait(PATIENCE), 125)
            self.assertIn(said, process.stderr.read())
            process.stderr.close()

    def test_a_box_does_not_see_the_token(self):
        session = self.initialize()
        self.assertEqual(self.repl(session, "import os\n%r in str(dict(os.environ))" % TOKEN), "False\n")


@needs_clients
class HttpSdk(HttpTest):
    def test_typescript(self):
        with NodeScript(JAVASCRIPT) as script:
            done = subprocess.run([NODE, script, self.url, TOKEN], capture_output=True, text=True, timeout=120)
        self.assertEqual(done.stdout, '["repl",[{"type":"text","text":"42\\n"}],["p"]]\n', done.stderr)

    def test_python(self):
        done = subprocess.run([CLIENTS + "/python/bin/python3", "-c", PYTHON, self.url, TOKEN], capture_output=True,
                              text=True, timeout=120)
        self.assertEqual(done.stdout, '["repl", "42\\n"]\n', done.stderr)


if __name__ == "__main__":
    unittest.main()
