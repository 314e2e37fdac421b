"""The package as people get it: built into a wheel, installed somewhere fresh, used from there.

GLOVEBOX_PROGRAMS names the directory that has the programs; the interpreter that runs this has the build's tools.
"""

import os
import subprocess
import sys
import tempfile
import unittest
import zipfile
from pathlib import Path

PROJECT = Path(__file__).resolve().parent.parent.parent / "sdk" / "python"
PROGRAMS = os.environ["GLOVEBOX_PROGRAMS"]
PACKAGES = next(Path(sys.prefix).glob("lib/python3*/site-packages"))


class Wheel(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory(dir="/var/tmp")
        self.addCleanup(temporary.cleanup)
        self.place = Path(temporary.name)

    def build(self, programs, *options):
        words = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(self.place), str(PROJECT),
                 f"-Ccmake.define.GLOVEBOX_BINARY_DIR={programs}", *options]
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        return done, next(self.place.glob("*.whl"), None)

    def run_installed(self, wheel, code):
        """Installs the wheel without what it depends on, which is put beside it, and runs code that knows no program."""
        site = self.place / "site"
        subprocess.run([sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps",
                        "--target", str(site), str(wheel)], check=True)
        environment = {"PATH": "/usr/bin:/bin", "HOME": str(self.place), "GLOVEBOX_STATE": str(self.place / "state"),
                       "PYTHONPATH": f"{site}:{PACKAGES}", "PYTHONDONTWRITEBYTECODE": "1"}
        return subprocess.run(["/usr/bin/python3", "-c", code], env=environment, cwd="/", capture_output=True, text=True,
                              check=False)

    def test_carries_the_program_and_works_from_anywhere(self):
        done, wheel = self.build(PROGRAMS, "-Ccmake.define.GLOVEBOX_REQUIRE_BINARY=ON")
        self.assertIsNotNone(wheel, done.stdout + done.stderr)
        self.assertRegex(wheel.name, r"^glovebox-\d+\.\d+\.\d+-py3-none-linux_x86_64\.whl$")
        with zipfile.ZipFile(wheel) as archive:
            entries = {each.filename: each for each in archive.infolist()}
        self.assertIn("glovebox/py.typed", entries)
        for name in ("glovebox", "glovebox-launcher"):
            self.assertTrue(entries[f"glovebox/_bin/{name}"].external_attr >> 16 & 0o111, name)
        ran = self.run_installed(wheel, "import glovebox as gb\n"
                                        "with gb.spawn('x', python=False) as box: print(box.run('echo sealed').stdout, end='')\n"
                                        "print(gb.find_binary())")
        self.assertEqual(ran.returncode, 0, ran.stderr)
        self.assertEqual(ran.stdout.splitlines(), ["sealed", str(self.place / "site/glovebox/_bin/glovebox")])
        # The version is the same wherever it is written down.
        self.assertIn(f"glovebox-{self._version()}-", wheel.name)

    @staticmethod
    def _version():
        text = (PROJECT / "src" / "glovebox" / "__init__.py").read_text()
        return next(line.split('"')[1] for line in text.splitlines() if line.startswith("__version__"))

    def test_without_a_program_it_says_what_to_do(self):
        done, wheel = self.build("/nowhere")
        self.assertIsNotNone(wheel, done.stdout + done.stderr)
        ran = self.run_installed(wheel, "import glovebox as gb; gb.spawn('x')")
        self.assertNotEqual(ran.returncode, 0)
        self.assertRegex(ran.stderr, "ServiceNotFound: there is no glovebox program.*GLOVEBOX.*PATH.*GLOVEBOX_HOST")

    def test_a_required_program_that_is_not_there_stops_the_build(self):
        done, wheel = self.build("/nowhere", "-Ccmake.define.GLOVEBOX_REQUIRE_BINARY=ON")
        self.assertIsNone(wheel)
        self.assertIn("./dev build", done.stdout + done.stderr)


if __name__ == "__main__":
    unittest.main()
