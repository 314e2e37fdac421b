"""Sessions that show what they are before they are used."""

import shutil
import subprocess
import time
import unittest
from pathlib import Path

from service import BINARY, ServiceTest

PROVED = ["identity", "capabilities", "no-new-privileges", "network", "ipc", "processes", "filesystem",
          "syscalls", "keyrings", "files-passed"]


class Prove(ServiceTest):
    def put_probe(self, text=None):
        """The real probe beside the service's program, or one that says what it is told."""
        place = self.service.bin / "glovebox-probe"
        fresh = place.with_name("fresh-probe")  # the one in place may still be running
        if text is None:
            shutil.copy(Path(BINARY).parent / "glovebox-probe", fresh)
        else:
            lines = "".join(f"echo 'prove: {line}'\n" for line in text)
            fresh.write_text("#!/bin/sh\n" + lines)
        fresh.chmod(0o755)
        fresh.replace(place)

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

    def test_a_box_that_does_reach_something_outside_is_refused(self):
        """Nothing is pretended here: the real probe, and a box that was granted the host's loopback."""
        self.put_probe()
        body = {"workspace": {"path": self.service.workspace(self.name)}, "prove": True,
                "capabilities": [{"kind": "connect_tcp", "host": "127.0.0.1", "ports": [1, 65535]}]}
        answer = self.service.post("/v1/isolated/session", body)
        self.assertGreaterEqual(answer.status, 400, answer)
        self.assertIn("'network' does not hold", answer.json["message"])
        self.assertEqual(self.service.get("/v1/isolated/sessions").json["sessions"], [])

    def test_interpreters_are_proved_too(self):
        """Those that were made ahead, and cells, which share the box of their worker."""
        self.put_probe()
        # One that was started without a proof leaves a spare too, which must not be taken for one that was proved.
        for backend, prove in (("process", False), *[("process", True)] * 3, ("cell", False), *[("cell", True)] * 2):
            body = {"python": {}, "backend": backend, "prove": prove}
            answer = self.service.post("/v1/isolated/session", body)
            self.assertEqual(answer.status, 201, answer)
            path = f"/v1/isolated/session/{answer.json['session_id']}"
            self.assertEqual(self.service.get(path + "/report").json["proved"], PROVED if prove else [], backend)
            if backend == "process":
                self.wait_for_spare()
            self.service.delete(path)

    def wait_for_spare(self):
        """Until there is an interpreter beside the session's, for the next session to have."""
        deadline = time.monotonic() + 20
        while self.count_interpreters() < 2:
            self.assertLess(time.monotonic(), deadline, "none is made ahead")
            time.sleep(0.05)

    def count_interpreters(self):
        lines = subprocess.run(["ps", "-eo", "args"], capture_output=True, check=True, text=True).stdout.splitlines()
        return sum("glovebox_host" in line and str(self.service.base) in line for line in lines)

    def test_an_interpreter_that_does_not_hold_is_refused(self):
        self.put_probe([("open " if one == "ipc" else "held ") + one for one in PROVED])
        for backend in ("process", "cell"):
            answer = self.service.post("/v1/isolated/session",
                                       {"python": {}, "backend": backend, "prove": True})
            self.assertGreaterEqual(answer.status, 400, backend)
            self.assertIn("'ipc' does not hold", answer.json["message"])

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
