"""What the tests with a real service share. run.py sets the place, the tier and the program."""

import os
import tempfile
import time
import unittest
from pathlib import Path

import glovebox as gb

TIER = os.environ.get("GLOVEBOX_TIER", "root")
PLACE = Path(os.environ.get("GLOVEBOX_TEST_PLACE", "/var/tmp"))
PATIENCE = 30


def needs_root(test):
    return unittest.skipUnless(TIER == "root", "this is about what root can do")(test)


def wait_until(condition, patience=PATIENCE):
    """True as soon as `condition()` is; False after `patience` seconds."""
    end = time.monotonic() + patience
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(0.01)
    return False


def fresh_directory(**files):
    """A directory of the tests' user, with files in it."""
    parent = PLACE / "home" if (PLACE / "home").is_dir() else PLACE
    directory = Path(tempfile.mkdtemp(prefix="work-", dir=parent))
    directory.chmod(0o755)
    for name, text in files.items():
        (directory / name.replace("__", ".")).write_text(text)
    return directory


class BoxTest(unittest.TestCase):
    """Tests that share one supervisor, and with it one service of this process's own."""

    @classmethod
    def setUpClass(cls):
        cls.supervisor = gb.Supervisor()

    @classmethod
    def tearDownClass(cls):
        cls.supervisor.close()

    def spawn(self, *args, **options):
        name = self.id().rsplit(".", 1)[1][:40]
        box = self.supervisor.spawn(options.pop("name", name), *args, **options)
        self.addCleanup(box.close)
        return box
