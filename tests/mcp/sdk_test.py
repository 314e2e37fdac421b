"""Real clients: the official SDKs for Python and TypeScript and the Inspector's command line, in the versions that
tests/clients pins. ./dev test installs them; elsewhere these tests are skipped by name."""
import json
import os
import subprocess
import unittest

from client import GLOVEBOX
from inherit_test import McpTest

CLIENTS = os.environ.get("GLOVEBOX_CLIENTS", "")
NODE = CLIENTS + "/python/bin/node"
PACKAGES = CLIENTS + "/javascript"

JAVASCRIPT = """
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
const transport = new StdioClientTransport({ command: process.argv[2], args: ["mcp"],
  cwd: process.argv[3], env: process.env });
const client = new Client({ name: "test", version: "1" });
await client.connect(transport);
const tools = await client.listTools();
const result = await client.callTool({ name: "repl", arguments: { input: "6*7" } });
let refused = "";
try { await client.callTool({ name: "repl", arguments: {} }); } catch (e) { refused = String(e.code); }
console.log(JSON.stringify([tools.tools[0].name, result.content, refused]));
await client.close();
"""
PYTHON = """
import asyncio, json, os, sys
from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client
async def main():
    parameters = StdioServerParameters(command=sys.argv[1], args=["mcp"], cwd=sys.argv[2],
                                       env=dict(os.environ))
    told = []
    async def progress(done, total, message): told.append(message)
    async with stdio_client(parameters) as (read, write):
        async with ClientSession(read, write) as session:
            await session.initialize()
            tools = await session.list_tools()
            result = await session.call_tool("repl", {"input": "6*7"})
            await session.call_tool("repl", {"input": "import time\\nprint('p')\\ntime.sleep(1.5)"},
                                    progress_callback=progress)
            print(json.dumps([tools.tools[0].name, result.content[0].text, told]))
asyncio.run(main())
"""


def needs_clients(test):
    """When nothing may be skipped, it is a failure."""
    there = os.path.exists(NODE) or os.environ.get("GLOVEBOX_CI_STRICT") == "1"
    return unittest.skipUnless(there, "the published clients are not installed (tests/clients/install.sh)")(test)


class NodeScript:
    """A script among the packages, where it finds them."""

    def __init__(self, text):
        self.path = os.path.join(PACKAGES, "glovebox-test-%d.mjs" % os.getpid())
        with open(self.path, "w") as file:
            file.write(text)

    def __enter__(self):
        return self.path

    def __exit__(self, *_):
        os.unlink(self.path)


@needs_clients
class Sdk(McpTest):
    def run_client(self, words):
        return subprocess.run(words, capture_output=True, text=True, timeout=120, cwd=self.cwd)

    def test_typescript(self):
        with NodeScript(JAVASCRIPT) as script:
            done = self.run_client([NODE, script, GLOVEBOX, self.cwd])
        self.assertEqual(done.stdout, '["repl",[{"type":"text","text":"42\\n"}],"-32602"]\n',
                         done.stderr)

    def test_python(self):
        done = self.run_client([CLIENTS + "/python/bin/python3", "-c", PYTHON, GLOVEBOX, self.cwd])
        self.assertEqual(done.stdout, '["repl", "42\\n", ["p"]]\n', done.stderr)

    def inspect(self, *words):
        command = PACKAGES + "/node_modules/@modelcontextprotocol/inspector-cli/build/cli.js"
        done = self.run_client([NODE, command, "--cli", GLOVEBOX, "mcp", *words])
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)

    def test_inspector(self):
        tools = self.inspect("--method", "tools/list")["tools"]
        self.assertEqual([tool["name"] for tool in tools], ["repl", "files", "sandbox", "session"])
        called = self.inspect("--method", "tools/call", "--tool-name", "repl", "--tool-arg", "input=6*7")
        self.assertEqual(called, {"content": [{"type": "text", "text": "42\n"}], "isError": False})


if __name__ == "__main__":
    unittest.main()
