"""Real clients: the official SDKs for Python and TypeScript, in the versions that
tests/mcp/sdk_versions.txt pins. Skipped by name where they are not installed."""
import os
import subprocess
import sys
import unittest

from client import GLOVEBOX
from inherit_test import McpTest

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


class Sdk(McpTest):
    def test_typescript(self):
        place = os.environ.get("GLOVEBOX_MCP_SDK_JS", "")
        if not os.path.isdir(place + "/node_modules/@modelcontextprotocol/sdk"):
            self.skipTest("GLOVEBOX_MCP_SDK_JS names no directory with @modelcontextprotocol/sdk")
        script = os.path.join(place, "glovebox-test-%d.mjs" % os.getpid())
        with open(script, "w") as file:
            file.write(JAVASCRIPT)
        try:
            done = subprocess.run(["node", script, GLOVEBOX, self.cwd], capture_output=True,
                                  text=True, timeout=120, cwd=place)
        finally:
            os.unlink(script)
        self.assertEqual(done.stdout, '["repl",[{"type":"text","text":"42\\n"}],"-32602"]\n',
                         done.stderr)

    def test_python(self):
        python = os.environ.get("GLOVEBOX_MCP_SDK_PYTHON", sys.executable)
        if subprocess.run([python, "-c", "import mcp"], capture_output=True).returncode != 0:
            self.skipTest("GLOVEBOX_MCP_SDK_PYTHON names no Python with the package mcp")
        done = subprocess.run([python, "-c", PYTHON, GLOVEBOX, self.cwd], capture_output=True,
                              text=True, timeout=120)
        self.assertEqual(done.stdout, '["repl", "42\\n", ["p"]]\n', done.stderr)


if __name__ == "__main__":
    unittest.main()
