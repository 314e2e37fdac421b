"""Sessions that show what they are before anybody uses them."""

import shutil
import unittest
from pathlib import Path

from service import BINARY, ServiceTest

PROVED = ["identity", "capabilities", "no-new-privileges", "network", "ipc", "processes", "filesystem",
          "syscalls", "keyrings", "files-passed"]


class Prove(ServiceTest):
    def put_probe(self, text=None):
        """The real probe beside the service's program, or one that says what it is told."""
        place = self.service.bin / "glovebox-probe"
        if text is None:
            shutil.copy(Path(BINARY).parent / "glovebox-probe", place)
        else:
            lines = "".join(f"echo 'prove: {line}'\n" for line in text)
            place.write_text("#!/bin/sh\n" + lines)
        place.chmod(0o755)

    def create(self):
        return self.service.post("/v1/isolated/session",
                                 {"workspace": {"path": self.service.workspace(self.name)}, "prove": True})

    def test_a_session_that_holds_is_handed_out(self):
        self.put_probe()
        session = self.session(prove=True)
        report = session.get("/report").json
        self.assertEqual(report["proved"], PROVED)
        self.assertLessEqual(set(PROVED), {one["name"] for one in report["enforced"]})
        self.assertEqual(session.out("echo hi"), "hi")

    def test_nothing_is_proved_unasked(self):
        self.put_probe()
        self.assertEqual(self.session().get("/report").json["proved"], [])

    def test_a_guarantee_that_does_not_hold_refuses_the_session(self):
        for name in PROVED:
            self.put_probe([("open " if one == name else "held ") + one for one in PROVED])
            answer = self.create()
            self.assertGreaterEqual(answer.status, 400, name)
            self.assertIn(f"'{name}' does not hold", answer.json["message"])
        self.assertEqual(self.service.get("/v1/isolated/sessions").json["sessions"], [])

    def test_what_was_not_tried_is_not_proved(self):
        self.put_probe([f"held {one}" for one in PROVED if one != "network"])
        self.assertIn("'network' does not hold", self.create().json["message"])

    def test_without_the_probe_it_is_refused(self):
        (self.service.bin / "glovebox-probe").unlink(missing_ok=True)
        answer = self.create()
        self.assertGreaterEqual(answer.status, 400)
        self.assertIn("glovebox-probe", answer.json["message"])


if __name__ == "__main__":
    unittest.main()
