"""Requests made from schema/openapi.yaml, thousands of them, against a real service: none may be a 5xx, and every answer
must be one that the document describes. One session exists for them to hit, on a workspace of its own."""

import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "serve"))

from service import Service  # noqa: E402

CHECKS = "not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance"
# A terminal is no request and answer, denials as events never end, and a session that was deleted serves no client.
LEFT_OUT = ["--exclude-path-regex", "pty|denials"]


class Schema(unittest.TestCase):
    def run_requests(self, session, *words):
        with tempfile.TemporaryDirectory() as directory:
            if session:
                Path(directory, "schemathesis.toml").write_text(f'[parameters]\n"path.id" = "{session}"\n')
            ended = subprocess.run(
                [str(Path(sys.executable).parent / "schemathesis"), "run", f"http://127.0.0.1:{self.service.port}/openapi.yaml",
                 "--checks", CHECKS, "--phases", "coverage,fuzzing", "--seed", "1", "--continue-on-failure",
                 "--request-timeout", "30", *LEFT_OUT, *words],
                cwd=directory, capture_output=True, text=True, timeout=400)
        self.assertEqual(ended.returncode, 0, ended.stdout[-6000:] + ended.stderr[-2000:])
        self.assertEqual(self.service.get("/ping").status, 200)
        self.assertNotIn("a bug in glovebox", self.service.log_text())

    def setUp(self):
        self.service = Service('[sessions]\nallowed_workspaces = ["@BASE@/work"]\nrun_timeout_seconds = 2\n')
        self.addCleanup(self.service.close)

    def test_without_a_session(self):
        self.run_requests(None, "--max-examples", "8")

    def test_with_a_session(self):
        session = self.service.create(self.service.workspace("w", a="1"))
        self.run_requests(session.id, "--max-examples", "10", "--exclude-method", "DELETE")


if __name__ == "__main__":
    unittest.main(verbosity=2)
