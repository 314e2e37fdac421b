"""What the documents show is what happens: every Python example of theirs is run, and every `# -> ...` compared."""

import os
import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

from support import PLACE

BLOCK = re.compile(r"^```python\n(.*?)^```", re.M | re.S)
SAYS = re.compile(r"#\s->\s(.*)$", re.M)


def run(code, directory):
    file = Path(directory) / "example.py"  # functions are sent by their source, so it has to be in a file
    file.write_text(code)
    return subprocess.run([sys.executable, "-W", "error::ResourceWarning", str(file)], cwd=directory, capture_output=True,
                          text=True, timeout=120, check=False)


class Documents(unittest.TestCase):
    def check(self, document):
        blocks = BLOCK.findall(document.read_text())
        self.assertTrue(blocks)
        for number, code in enumerate(blocks):
            with self.subTest(f"{document.name} {number}"), tempfile.TemporaryDirectory(dir=os.environ["HOME"]) as directory:
                done = run(code, directory)
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertEqual(done.stdout.splitlines(), SAYS.findall(code))

    def test_the_reference(self):
        self.check(PLACE / "docs/reference/python-sdk.md")

    def test_the_readme(self):
        self.check(PLACE / "README.md")

    def test_every_name_of_the_package_is_in_the_reference(self):
        import glovebox

        text = (PLACE / "docs/reference/python-sdk.md").read_text()
        words = set(re.findall(r"\w+", text))
        internal = {"Capability", "Authority", "Grants", "SpawnOptions", "CompiledPolicy", "Execution", "Files", "FileInfo",
                    "Change", "Commit", "Snapshot", "LogEvent", "MetricEvent", "capabilities", "errors", "find_binary"}
        self.assertEqual(sorted(set(glovebox.__all__) - words - internal), [])


class Examples(unittest.TestCase):
    def test_they_print_what_is_written_beside_them(self):
        files = sorted((PLACE / "examples/python").glob("*.py"))
        self.assertTrue(files)
        for file in files:
            with self.subTest(file.name), tempfile.TemporaryDirectory(dir=os.environ["HOME"]) as directory:
                done = run(file.read_text(), directory)
                self.assertEqual((done.returncode, done.stderr), (0, ""))
                self.assertEqual(done.stdout, file.with_suffix(".out").read_text())


if __name__ == "__main__":
    unittest.main()
