"""A disk without a byte left: that of the service's state, and of the workspace.

The disk is a small ext4 image, mounted in a mount namespace of this test's own and filled to the last block. What is
asked meanwhile may fail, with a code; nothing that was there is lost, the service goes on, and when there is room again
everything works and nothing is left of what failed.
"""

import ctypes
import http.client
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "serve"), str(HERE)]

from service import TIER, USER, Service  # noqa: E402
from test_service_faults import Use, check_as_before, go_round  # noqa: E402

KEY = {"X-Glovebox-Key": "07" * 32}
NEW_MOUNTS = 0x00020000


def setUpModule():
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(NEW_MOUNTS) != 0:
        raise OSError(ctypes.get_errno(), "unshare")
    subprocess.run(["mount", "--make-rprivate", "/"], check=True)


class SmallDisk:
    """Where nothing is written but by this test and the service."""

    def __init__(self, size):
        self.base = Path(tempfile.mkdtemp(prefix="glovebox-disk-", dir="/var/tmp"))
        self.base.chmod(0o755)
        image, self.place = self.base / "image", self.base / "disk"
        self.place.mkdir()
        with open(image, "wb") as file:
            file.truncate(size)
        subprocess.run(["/usr/sbin/mke2fs", "-q", "-F", "-t", "ext4", "-m", "0", "-O", "^has_journal", str(image)], check=True)
        subprocess.run(["mount", "-o", "loop", str(image), str(self.place)], check=True)
        self.filler = self.place / "filler"

    def fill(self):
        """To the last block, whichever process writes meanwhile."""
        with open(self.filler, "ab", buffering=0) as file:
            for size in (1 << 20, 4096, 1):
                try:
                    while True:
                        file.write(b"x" * size)
                except OSError:
                    pass

    def empty(self):
        self.filler.unlink()

    def close(self):
        subprocess.run(["umount", str(self.place)], check=True)
        shutil.rmtree(self.base)


@unittest.skipUnless(os.path.exists("/dev/loop-control"), "this kernel has no loop devices")
class FullDisk(unittest.TestCase):
    def setUp(self):
        self.disk = SmallDisk(64 << 20)
        self.addCleanup(self.disk.close)
        for name in ("service", "work"):
            (self.disk.place / name).mkdir()
            if TIER == "user":
                os.chown(self.disk.place / name, USER, USER)
        self.service = Service("pool.size = 0\n", state=self.disk.place / "service" / "state")
        self.addCleanup(self.service.close)
        self.place = self.service.workspace("work", old="old")
        self.assertIsNone(go_round(self.service, self.place))
        self.session = self.service.create(self.place)
        self.session.out("echo past > file")
        self.before = Use(self.service)

    def try_everything(self):
        """What the service answers, by what was asked; each failure has a code."""
        answers = {}

        def ask(name, method, path, body=None, **more):
            try:
                answers[name] = self.service.request(method, path, body, **more)
            except (OSError, http.client.HTTPException):
                answers[name] = None  # an answer that was begun cannot be taken back
                return None
            if answers[name].status >= 400:
                self.assertTrue(answers[name].json["code"], name)
            return answers[name]

        made = ask("create", "POST", "/v1/isolated/session", {"workspace": {"path": self.place}})
        ask("run", "POST", self.session.path + "/run", {"code": "seq 100000 > big; rm -f big; echo here"})
        ask("diff", "GET", self.session.path + "/diff")
        ask("checkpoint", "POST", self.session.path + "/checkpoint", {"force": True}, headers=KEY)
        ask("fork", "POST", self.session.path + "/fork", {"count": 2, "force": True})
        ask("recycle", "POST", self.session.path + "/recycle")
        ask("list", "GET", "/v1/isolated/sessions")
        for each in (made, answers["fork"]):
            if each is not None and each.status == 201:
                for one in each.json.get("sessions", [each.json]):
                    ask("delete", "DELETE", "/v1/isolated/session/" + one["session_id"])
        return answers

    def test_the_state_of_the_service(self):
        self.disk.fill()
        for _ in range(3):
            answers = self.try_everything()
            self.assertEqual(answers["list"].status, 200)
            self.assertIn(answers["diff"].status, (200, 507), answers["diff"])  # a long one is put on disk first
            self.assertIsNone(self.service.process.poll(), self.service.log_text()[-2000:])
        self.assertEqual(answers["create"].status, 507, answers["create"])
        self.disk.empty()
        self.check_all_is_well()

    def check_all_is_well(self):
        session = self.session
        if session.state()["status"] != "active":
            self.assertEqual(session.post("/recycle").status, 200)
        self.assertEqual(session.out("cat file"), "past")
        self.assertIsNone(go_round(self.service, self.place))
        others = [each["session_id"] for each in self.service.get("/v1/isolated/sessions").json["sessions"]]
        for each in set(others) - {session.id}:  # a client that was not told of it cannot delete it
            self.assertEqual(self.service.delete(f"/v1/isolated/session/{each}").status, 200)
        check_as_before(self, self.service, self.before)
        self.service.stop(signal.SIGKILL)
        self.service.start()
        self.assertEqual(session.post("/recycle").status, 200)
        self.assertEqual(session.out("cat file"), "past")
        self.assertEqual(session.post("/commit", {}).status, 200)
        self.assertEqual(Path(self.place, "file").read_text(), "past\n")

    def test_the_workspace(self):
        """A commit that does not fit changes nothing, and can be done when there is room."""
        place = self.disk.place / "work"
        (place / "old").write_text("old")
        os.chown(place / "old", *((USER, USER) if TIER == "user" else (0, 0)))
        session = self.service.create(str(place))
        session.out("echo new > old; seq 100000 > more; mkdir d; echo x > d/y")
        self.disk.fill()
        for _ in range(2):
            answer = session.post("/commit", {})
            self.assertGreaterEqual(answer.status, 400, answer)
            self.assertEqual((place / "old").read_text(), "old")
            self.assertFalse((place / "more").exists() or (place / "d").exists())
        self.disk.empty()
        answer = session.post("/commit", {})
        self.assertEqual(answer.status, 200, answer)
        self.assertEqual((place / "old").read_text(), "new\n")
        self.assertEqual(len((place / "more").read_text().split()), 100000)
        self.assertEqual([name for name in os.listdir(place) if name.startswith(".glovebox-")], [])
        self.assertEqual(session.delete().status, 200)
        self.check_all_is_well()


if __name__ == "__main__":
    unittest.main(verbosity=2)
