"""Python sessions that get a fresh interpreter, are written to a file and come back; and what they say they have used."""

import json
import unittest

from channel import Box, Ended, Failed, PythonTest, imports

KEY = {"X-Glovebox-Key": bytes(range(32)).hex()}


class StateTest(PythonTest):
    def path(self, box):
        return f"/v1/isolated/session/{box.id}"

    def recycle(self, box, ended="closed", **body):
        """A fresh interpreter, and the channel to it."""
        answer = self.service.post(self.path(box) + "/recycle", body)
        self.assertEqual(answer.status, 200, answer)
        self.assertEqual(answer.json["session_id"], box.id)
        with self.assertRaises((Ended, ConnectionError)) as caught:
            while True:
                if box.step()["ev"] == "end":
                    raise Ended(box.end)
        if isinstance(caught.exception, Ended):
            self.assertEqual(caught.exception.reason, ended)
        box.socket.close()
        box.end = None
        box.attach()

    # ---- Recycle -----------------------------------------------------------------------------

    def test_a_fresh_interpreter_with_the_same_authority(self):
        data = self.service.workspace("granted", a="text")
        for backend in ("process", "cell"):
            with self.subTest(backend):
                box = self.box(*imports("math"), {"kind": "read_path", "path": data}, backend=backend,
                               name=f"fresh-{backend}", labels={"for": "test"})
                before = self.service.get(self.path(box)).json
                for _ in range(3):
                    box.exec("x = 1")
                    self.recycle(box)
                    with self.assertRaises(Failed) as caught:
                        box.exec("x")
                    self.assertEqual(caught.exception.type, "NameError")
                    self.assertEqual(box.call("math.sqrt", 9), 3.0)
                    self.assertEqual(box.value(f"open('{data}/a').read()"), "text")
                    for source in ("import os", "open('/etc/hostname')", f"open('{data}/a', 'w')"):
                        with self.assertRaises(Failed) as caught:
                            box.exec(source)
                        self.assertEqual(caught.exception.kind, "policy")
                after = self.service.get(self.path(box)).json
                for field in ("session_id", "name", "labels", "capabilities", "backend", "python", "status"):
                    self.assertEqual(after.get(field), before.get(field), field)

    def test_what_was_under_way_ends(self):
        box = self.box()
        number = box.begin("exec", source="post('in')\nrecv()")
        box.recv()
        answer = self.service.post(self.path(box) + "/recycle", {})
        self.assertEqual(answer.status, 200, answer)
        with self.assertRaises(Failed) as caught:
            box.wait(number)
        self.assertEqual((caught.exception.kind, caught.exception.reason), ("ended", "closed"))

    def test_one_that_is_dead_lives_again(self):
        for backend in ("process", "cell"):
            with self.subTest(backend):
                box = self.box({"kind": "wall_budget", "ms": 300}, backend=backend)
                with self.assertRaises(Failed):
                    box.exec("recv()")
                self.recycle(box, ended="wall")
                self.assertEqual(box.value("1 + 1"), 2)
                self.assertEqual(self.service.get(self.path(box)).json["status"], "active")
                # The next end is its own again.
                with self.assertRaises(Failed) as caught:
                    box.exec("recv()")
                self.assertEqual(caught.exception.reason, "wall")

    def test_a_recycled_cell_leaves_the_others_alone(self):
        cell, other = self.box(backend="cell"), self.box(backend="cell")
        other.exec("x = 1")
        self.recycle(cell)
        self.assertEqual(other.value("x"), 1)
        self.assertEqual(other.named("restart"), [])

    def test_changes_are_kept_or_dropped(self):
        work = self.service.workspace("layered", a="text")
        box = self.box(workspace={"path": work, "mode": "overlay"})
        box.exec(f"open('{work}/new', 'w').write('1')")
        self.recycle(box, layer="keep")
        self.assertEqual(box.value(f"open('{work}/new').read()"), "1")
        self.recycle(box, layer="drop")
        with self.assertRaises(Failed) as caught:
            box.exec(f"open('{work}/new')")
        self.assertEqual(caught.exception.type, "FileNotFoundError")

    def child_of(self, box, identifier):
        child = Box.__new__(Box)
        child.__dict__.update(box.__dict__, id=identifier, number=0, posts=[], events=[])
        child.attach()
        self.addCleanup(child.delete)
        return child

    def test_a_fork_has_files_and_authority_and_no_memory(self):
        work = self.service.workspace("forked", a="text")
        for backend in ("process", "cell"):
            with self.subTest(backend):
                order = {"workspace": {"path": work, "mode": "overlay"}} if backend == "process" else {}
                box = self.box(*imports("math", "random"), backend=backend, **order)
                box.exec("x = 1")
                if order:
                    box.exec(f"open('{work}/b', 'w').write('before')")
                answer = self.service.post(self.path(box) + "/fork", {"count": 2})
                self.assertEqual(answer.status, 201, answer)
                children = [self.child_of(box, one["session_id"]) for one in answer.json["sessions"]]
                for child in children:
                    self.assertEqual(child.call("math.sqrt", 16), 4.0)
                    for source, kind in (("x", "guest"), ("import os", "policy")):
                        with self.assertRaises(Failed) as caught:
                            child.exec(source)
                        self.assertEqual(caught.exception.kind, kind)
                first, second = (child.value("__import__('random').random()") for child in children)
                self.assertNotEqual(first, second)
                if order:
                    children[0].exec(f"open('{work}/b', 'w').write('mine')")
                    self.assertEqual(children[0].value(f"open('{work}/b').read()"), "mine")
                    self.assertEqual(children[1].value(f"open('{work}/b').read()"), "before")

    def test_a_fork_ends_no_operation_unasked(self):
        work = self.service.workspace("busy", a="text")
        box = self.box(workspace={"path": work, "mode": "overlay"})
        box.exec(f"open('{work}/b', 'w').write('kept')")
        box.begin("exec", source="post('in')\nrecv()")
        box.recv()
        refused = self.service.post(self.path(box) + "/fork", {})
        self.assertEqual(refused.status, 409, refused)
        forced = self.service.post(self.path(box) + "/fork", {"force": True})
        self.assertEqual(forced.status, 201, forced)
        child = self.child_of(box, forced.json["sessions"][0]["session_id"])
        self.assertEqual(child.value(f"open('{work}/b').read()"), "kept")

    # ---- Files -------------------------------------------------------------------------------

    def test_a_checkpoint_holds_what_it_is_and_its_files(self):
        work = self.service.workspace("saved", a="text")
        for backend in ("process", "cell"):
            with self.subTest(backend):
                order = {"workspace": {"path": work, "mode": "overlay"}} if backend == "process" else {}
                box = self.box(*imports("math"), backend=backend, **order)
                if order:
                    box.exec(f"open('{work}/b', 'w').write('kept')")
                saved = self.service.post(self.path(box) + "/checkpoint", {}, headers=KEY)
                self.assertEqual(saved.status, 200, saved)
                answer = self.service.request("POST", "/v1/isolated/restore", saved.body, headers={
                    "Content-Type": "application/x-glovebox-checkpoint", **KEY})
                self.assertEqual(answer.status, 201, answer)
                again = Box.__new__(Box)
                again.__dict__.update(box.__dict__, id=answer.json["session_id"], number=0, posts=[], events=[])
                again.attach()
                self.addCleanup(again.delete)
                self.assertEqual(again.call("math.sqrt", 16), 4.0)
                with self.assertRaises(Failed) as caught:
                    again.exec("import os")
                self.assertEqual(caught.exception.kind, "policy")
                if order:
                    self.assertEqual(again.value(f"open('{work}/b').read()"), "kept")

    def test_a_checkpoint_waits_for_nobody_who_works(self):
        box = self.box()
        number = box.begin("exec", source="post('in')\nrecv()")
        box.recv()
        refused = self.service.post(self.path(box) + "/checkpoint", {}, headers=KEY)
        self.assertEqual(refused.status, 409, refused)
        box.send({"op": "post", "value": 0})
        box.wait(number)
        self.assertEqual(self.service.post(self.path(box) + "/checkpoint", {}, headers=KEY).status, 200)

    # ---- What was used -----------------------------------------------------------------------

    def stats(self, box):
        return box.wait(box.begin("stats"))

    def test_numbers_are_of_this_session(self):
        for backend in ("process", "cell"):
            with self.subTest(backend):
                busy, idle = self.box(backend=backend), self.box(backend=backend)
                first = self.stats(busy)
                busy.exec("x = bytearray(64 << 20)\nfor i in range(2_000_000): i * i")
                busy.exec("for _ in range(10): print('y' * 10_000)")
                then = self.stats(busy)
                self.assertGreater(then["cpu_ms"] - first["cpu_ms"], 20)
                self.assertGreater(then["memory_bytes"] - first["memory_bytes"], 60 << 20)
                self.assertGreater(then["output_bytes"] - first["output_bytes"], 100_000)
                self.assertLess(then["output_bytes"] - first["output_bytes"], 120_000)
                self.assertGreater(then["latency_us"], 0)
                # The other one did nothing, in the same process or in another.
                other = self.stats(idle)
                self.assertLess(other["cpu_ms"], 20)
                self.assertLess(other["output_bytes"], 10_000)
                self.assertLess(other["memory_bytes"], then["memory_bytes"] - (50 << 20))
                busy.exec("del x")
                self.assertLess(self.stats(busy)["memory_bytes"], then["memory_bytes"] - (50 << 20))

    def test_output_of_a_cell_is_its_own(self):
        other = self.box({"kind": "output_budget", "bytes": 200_000}, backend="cell")
        for _ in range(3):  # together more than one of them may
            cell = self.box({"kind": "output_budget", "bytes": 200_000}, backend="cell")
            cell.exec("for _ in range(15): post('x' * 10_000)")
        with self.assertRaises(Failed) as caught:
            cell.exec("for _ in range(100): post('x' * 10_000)")
        self.assertEqual((caught.exception.kind, caught.exception.reason), ("budget", "output"))
        self.assertEqual(other.value("'alive'"), "alive")
        self.assertEqual(other.named("restart"), [])

    def test_every_line_of_the_log_is_json(self):
        with self.assertRaises(Failed):
            self.box().exec("import os  # in a\nlog of\ntwo lines")
        lines = self.service.log_text().splitlines()
        self.assertTrue(lines)
        for line in lines:
            self.assertIsInstance(json.loads(line), dict, line)


if __name__ == "__main__":
    unittest.main(verbosity=2)
