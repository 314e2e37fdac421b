"""`glovebox mcp install`: idempotent, and everything else in the file stays."""
import json
import os
import shutil
import subprocess
import tempfile
import unittest

from client import GLOVEBOX

CODEX = '# mine\nmodel = "x"  # keep\n\n[mcp_servers.other]\ncommand = "o"\n\n[features]\na = true\n'
CLAUDE = '{\n  "b": 1,\n  "mcpServers": {"x": {"command": "y"}},\n  "a": [1, 2]\n}\n'


class Install(unittest.TestCase):
    def setUp(self):
        self.home = tempfile.mkdtemp(prefix="glovebox-mcp-install-")
        os.mkdir(self.home + "/.codex")

    def tearDown(self):
        shutil.rmtree(self.home)

    def install(self, *words):
        environment = dict(os.environ, HOME=self.home)
        environment.pop("CODEX_HOME", None)
        return subprocess.run([GLOVEBOX, "mcp", "install", *words], env=environment, cwd=self.home,
                              capture_output=True, text=True, timeout=60)

    def write(self, name, text):
        with open(os.path.join(self.home, name), "w") as file:
            file.write(text)

    def read(self, name):
        with open(os.path.join(self.home, name)) as file:
            return file.read()

    def test_codex_keeps_what_was_there(self):
        self.write(".codex/config.toml", CODEX)
        self.assertEqual(self.install("--client", "codex").returncode, 0)
        once = self.read(".codex/config.toml")
        self.assertTrue(once.startswith(CODEX))
        self.assertIn("[mcp_servers.glovebox-python]", once)
        self.assertIn('"inherit-codex"', once)
        self.assertIn("tool_timeout_sec = 1800", once)
        self.install("--client", "codex")
        self.assertEqual(self.read(".codex/config.toml"), once)
        self.install("--client", "codex", "--arg", "--debug-dir=/x")
        self.assertEqual(self.read(".codex/config.toml").count("glovebox-python"), 1)
        self.assertIn("--debug-dir=/x", self.read(".codex/config.toml"))

    def test_json_clients_keep_order_and_comments(self):
        self.write(".claude.json", CLAUDE.replace('"b"', '// note\n  "b"'))
        for _ in range(2):
            self.assertEqual(self.install("--client", "claude").returncode, 0)
        text = self.read(".claude.json")
        self.assertIn("// note", text)
        self.assertEqual(text.count("glovebox-python"), 1)
        parsed = json.loads(text.replace("// note", ""))
        self.assertEqual(list(parsed), ["b", "mcpServers", "a"])
        self.assertEqual(parsed["mcpServers"]["x"], {"command": "y"})
        self.assertIn("workspace-write", parsed["mcpServers"]["glovebox-python"]["args"])

    def test_files_that_are_not_there_are_made(self):
        self.assertEqual(self.install("--client", "cursor", "--client", "vscode").returncode, 0)
        self.assertIn("glovebox-python", json.loads(self.read(".cursor/mcp.json"))["mcpServers"])
        self.assertIn("glovebox-python", json.loads(self.read(".vscode/mcp.json"))["servers"])

    def test_without_a_choice_nothing_is_written(self):
        self.write(".codex/config.toml", CODEX)
        self.write(".claude.json", CLAUDE)
        told = self.install()
        self.assertEqual(told.returncode, 125)
        self.assertIn("--client", told.stderr)
        self.assertEqual([line.split(":")[0] for line in told.stdout.splitlines()],
                         ["codex", "claude"])
        self.assertIn(self.home + "/.codex/config.toml", told.stdout)
        self.assertIn('"inherit-codex"', told.stdout)
        self.assertEqual(self.read(".codex/config.toml"), CODEX)
        self.assertEqual(self.read(".claude.json"), CLAUDE)
        self.assertEqual(sorted(os.listdir(self.home)), [".claude.json", ".codex"])

    def test_all_are_those_that_are_found(self):
        self.write(".claude.json", CLAUDE)
        self.assertEqual(self.install("--all").returncode, 0)
        self.assertIn("glovebox-python", self.read(".codex/config.toml"))
        self.assertIn("glovebox-python", self.read(".claude.json"))
        self.assertEqual(sorted(os.listdir(self.home)), [".claude.json", ".codex"])
        self.assertNotEqual(self.install("--all", "--client", "codex").returncode, 0)

    def test_what_is_refused_changes_nothing(self):
        self.write(".claude.json", "{ not json")
        refused = self.install("--client", "claude")
        self.assertEqual(refused.returncode, 125)
        self.assertEqual(self.read(".claude.json"), "{ not json")
        self.assertEqual(self.install("--client", "codex", "--arg", "--interpreter=bash").returncode,
                         125)
        self.assertEqual(self.install("--client", "emacs").returncode, 125)


if __name__ == "__main__":
    unittest.main()
