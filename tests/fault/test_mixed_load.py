"""Everything that a session can do, by many clients at once, on one service.

Run against a service that is built with a sanitizer (./dev check tsan, ./dev check fuzz) this is where it looks at
the service's threads: no report may be in its log, and it ends by itself with 0. Against the ordinary build it is a
test of the same claims without the reports. GLOVEBOX_LOAD_ROUNDS says how many rounds each client makes.
"""

import os
import signal
import sys
import threading
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "serve"))

from service import Service, Session  # noqa: E402

CLIENTS = 6
ROUNDS = int(os.environ.get("GLOVEBOX_LOAD_ROUNDS", "4"))
KEY = {"X-Glovebox-Key": "07" * 32}
OPTIONS = "halt_on_error=0:exitcode=66:second_deadlock_stack=1"


class MixedLoad(unittest.TestCase):
    def setUp(self):
        environment = {"TSAN_OPTIONS": OPTIONS, "ASAN_OPTIONS": "detect_leaks=1", "UBSAN_OPTIONS": "print_stacktrace=1"}
        self.service = Service("pool.size = 2\n", environment=environment)
        self.addCleanup(self.service.close)
        self.problems = []

    def expect(self, answer, *statuses):
        if answer.status not in statuses:
            raise AssertionError(f"{answer}")
        return answer

    def go_round(self, place):
        session = self.service.create(place)
        session.out("echo one > a; mkdir -p d; seq 2000 > d/b; export WORD=said")
        session.write("up", "x" * 50_000)
        self.expect(session.download("up"), 200)
        self.expect(session.search(place, "**"), 200)
        self.expect(session.post("/run", {"code": "sleep 0.05; echo later", "background": True}), 200, 201, 202)
        self.expect(session.get("/diff", headers={"Accept": "text/x-diff"}), 200)
        whole = self.expect(session.post("/checkpoint", {"force": True}, headers=KEY), 200).body
        back = self.expect(self.service.post("/v1/isolated/restore", whole, headers=KEY), 201).json
        restored = Session(self.service, back["session_id"])
        if restored.out("cat a; echo $WORD") != "one\nsaid":
            raise AssertionError("another session came back")
        forked = self.expect(session.post("/fork", {"count": 2, "force": True}), 201).json["sessions"]
        for child in forked:
            Session(self.service, child["session_id"]).out("cat d/b > /dev/null; rm a")
        self.expect(session.post("/recycle"), 200)
        self.expect(session.post("/commit", {"dry_run": True}), 200, 409)
        self.expect(self.service.get("/v1/isolated/sessions"), 200)
        self.expect(self.service.get("/metrics"), 200)
        for each in (*(Session(self.service, child["session_id"]) for child in forked), restored, session):
            self.expect(each.delete(), 200)

    def client(self, number):
        try:
            place = self.service.workspace(f"work-{number}", a="before")
            for _ in range(ROUNDS):
                self.go_round(place)
        except Exception as problem:  # whatever it is, it is shown
            self.problems.append(repr(problem))

    def test_no_report_and_no_error(self):
        threads = [threading.Thread(target=self.client, args=(number,)) for number in range(CLIENTS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.service.stop(signal.SIGTERM)
        log = self.service.log_text()
        reports = [at for at in range(len(log)) if log.startswith("Sanitizer", at) or log.startswith("runtime error", at)]
        self.assertEqual(len(reports), 0, log[max(0, reports[0] - 200):reports[0] + 12_000] if reports else "")
        self.assertEqual(self.problems, [])
        self.assertEqual(self.service.process.returncode, 0, log[-2000:])


if __name__ == "__main__":
    unittest.main(verbosity=2)
