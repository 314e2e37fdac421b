"""Sandboxes that get a fresh box, are forked, written out and brought back, through the SDK."""

import asyncio
import secrets
import unittest
from unittest import mock

import glovebox as gb
from glovebox import _core
from support import BoxTest, fresh_directory

KEY = bytes(range(32))


class Recycling(BoxTest):
    def test_24_a_fresh_box_with_the_same_authority(self):
        data = fresh_directory(open="yes")
        box = self.spawn(python=False, workspace=fresh_directory(), capabilities=[gb.ReadPath(data)], env={"A": "b"})
        box.run("echo kept > file; X=1")
        before = box.id
        box.recycle()
        self.assertEqual(box.id, before)
        self.assertEqual(box.run(f"cat {data}/open; cat file; echo $X$A").stdout, "yeskept\nb\n")
        box.reset()
        self.assertEqual(box.diff(), [])
        self.assertEqual(box.run(f"cat {data}/open").stdout, "yes")


    def test_24_a_fresh_interpreter_with_the_same_authority(self):
        data = fresh_directory(open="yes")
        for backend in ("process", "cell"):
            with self.subTest(backend):
                box = self.spawn(name=f"fresh-{backend}", backend=backend, allowed_imports=["math"],
                                 capabilities=[gb.ReadPath(data)], handlers={"ask": lambda action, payload: action})
                before = box.id
                for renew in (box.recycle, box.reset):
                    box.exec("x = 1").wait(30)
                    renew()
                    self.assertEqual(box.id, before)
                    with self.assertRaisesRegex(gb.GuestError, "NameError"):
                        box.exec("x").wait(30)
                    self.assertEqual(box.call("math.sqrt", 4), 2.0)
                    box.exec(f"post([open('{data}/open').read(), request('ask', 'again')])")
                    self.assertEqual(box.recv(30), ["yes", "again"])
                    with self.assertRaises(gb.PolicyError):
                        box.exec("import os").wait(30)

    def test_24_python_comes_back_from_a_file(self):
        box = self.spawn(name="saved", allowed_imports=["math"], workspace=(work := fresh_directory(a="1")))
        box.exec(f"open('{work}/b', 'w').write('kept')").wait(30)
        blob = box.checkpoint(KEY)
        box.close()
        again = self.supervisor.restore(blob, KEY)
        self.addCleanup(again.close)
        self.assertEqual(again.call("math.sqrt", 4), 2.0)
        again.exec(f"post(open('{work}/b').read())")
        self.assertEqual(again.recv(30), "kept")

    def test_source_whose_value_was_received_may_still_be_ending(self):
        work = fresh_directory()
        for act in (lambda box: box.checkpoint(KEY), lambda box: [each.close() for each in box.fork(1)],
                    lambda box: box.checkpoint(KEY)):
            box = self.spawn(name="ending", workspace=work, allowed_imports=["time"])
            box.exec(f"import time\nopen('{work}/b', 'w').write('x')\npost(1)\ntime.sleep(0.5)")
            self.assertEqual(box.recv(30), 1)
            act(box)
            box.close()

    def test_source_that_does_not_end_is_said_so(self):
        box = self.spawn(name="endless")
        box.exec("post(1)\nwhile True: pass")
        self.assertEqual(box.recv(30), 1)
        with mock.patch.object(_core, "_SETTLE_SECONDS", 0.05), self.assertRaisesRegex(gb.ServiceError, "under way"):
            box.checkpoint(KEY)

    def test_a_cell_comes_back_as_a_cell(self):
        box = self.spawn(name="cell", backend="cell", allowed_imports=["math"])
        box.exec("x = 1").wait(30)
        blob = box.checkpoint(KEY)
        box.close()
        again = self.supervisor.restore(blob, KEY)
        self.addCleanup(again.close)
        self.assertEqual((again.backend, again.info()["backend"], again.info()["python"]), ("cell", "cell", True))
        self.assertEqual(again.call("math.sqrt", 4), 2.0)
        with self.assertRaisesRegex(gb.CheckpointError, "'cell'"):
            self.supervisor.restore(blob, KEY, name="other", backend="process")
        self.assertEqual(list(self.supervisor.list_active()), ["cell"])
        moved = again.migrate(self.supervisor_of_another(), KEY)
        self.assertEqual(moved.backend, "cell")

    def supervisor_of_another(self):
        """Of the same service: a name is one sandbox of a supervisor."""
        other = gb.Supervisor()
        self.addCleanup(other.close)
        return other

    def test_a_box_without_python_comes_back_without(self):
        box = self.spawn(name="plain", python=False)
        blob = box.checkpoint(KEY)
        box.close()
        again = self.supervisor.restore(blob, KEY)
        self.addCleanup(again.close)
        self.assertEqual((again.backend, again.run("echo x").stdout), ("process", "x\n"))
        with self.assertRaisesRegex(gb.SandboxError, "without Python"):
            again.exec("1")

    def test_a_fork_has_the_files_and_fresh_globals(self):
        work = fresh_directory()
        box = self.spawn(name="trunk", workspace=work, capabilities=[gb.Import("math")])
        box.exec(f"x = 1\nopen('{work}/b', 'w').write('kept')").wait(30)
        children = box.fork(2)
        for each in (*children, box):
            self.addCleanup(each.close)
            self.assertEqual(each.call("math.sqrt", 4), 2.0)
            each.exec(f"post(open('{work}/b').read())")
            self.assertEqual(each.recv(30), "kept")
            with self.assertRaisesRegex(gb.SandboxError, "'x' is not defined"):
                each.exec("x").wait(30)


class Forks(BoxTest):
    def test_branches_share_nothing_but_their_past(self):
        work = fresh_directory(a="1\n")
        box = self.spawn(python=False, workspace=work, name="trunk")
        box.run("echo 2 > a; cd /usr; export E=x")
        first, second = box.fork(2)
        self.addCleanup(first.close)
        self.addCleanup(second.close)
        self.assertEqual([first.name, second.name], ["trunk-1", "trunk-2"])
        first.run(f"echo first > {work}/b")
        self.assertEqual(second.run(f"cat {work}/a; ls {work}; echo $E").stdout, "2\na\nx\n")
        self.assertEqual({each.path for each in first.diff()}, {"a", "b"})
        self.assertEqual({each.path for each in box.diff()}, {"a"})
        first.commit()
        self.assertEqual((work / "b").read_text(), "first\n")
        self.assertLessEqual({"trunk", "trunk-1", "trunk-2"}, set(self.supervisor.list_active()))

    def test_a_branch_may_do_less_and_never_more(self):
        data = fresh_directory(open="yes")
        box = self.spawn(python=False, name="wide", capabilities=[gb.ReadPath(data)], workspace=fresh_directory())
        (child,) = box.fork(ceiling=gb.AuthoritySet())
        self.addCleanup(child.close)
        self.assertFalse(child.run(f"cat {data}/open").ok)
        self.assertTrue(box.run(f"cat {data}/open").ok)

    def test_a_name_that_is_taken_forks_nothing(self):
        box = self.spawn(python=False, name="one", workspace=fresh_directory())
        self.spawn(python=False, name="one-2")
        with self.assertRaises(RuntimeError):
            box.fork(2)
        self.assertEqual({"one", "one-2"}, {name for name in self.supervisor.list_active() if name.startswith("one")})
        self.spawn(python=False, name="one-1")  # is free again


class Checkpoints(BoxTest):
    def made(self):
        data = fresh_directory(open="yes")
        box = self.spawn(python=False, workspace=fresh_directory(a="1"), name="source", capabilities=[gb.ReadPath(data)],
                         env={"A": "b"})
        box.run("echo new > b; rm a")
        return box, data

    def test_24_authority_and_files_come_back(self):
        box, data = self.made()
        blob = box.checkpoint(KEY)
        self.assertFalse(box.is_closed)
        box.close()
        again = self.supervisor.restore(blob, KEY, python=False)
        self.addCleanup(again.close)
        self.assertEqual(again.name, "source")
        self.assertEqual(again.run(f"ls; cat b {data}/open; echo $A").stdout, "b\nnew\nyesb\n")

    def test_25_a_wrong_key_or_a_damaged_file_restores_nothing(self):
        box, _ = self.made()
        blob = box.checkpoint(KEY)
        box.close()
        for short in (b"", b"x" * 31, "x" * 32):
            with self.assertRaisesRegex(ValueError, "32 bytes"):
                self.supervisor.restore(blob, short)
        flipped = bytearray(blob)
        flipped[len(blob) // 2] ^= 1
        for wrong, key in ((blob, secrets.token_bytes(32)), (bytes(flipped), KEY), (blob[:-1], KEY), (b"", KEY),
                           (blob + b"x", KEY), (b"X" + blob[1:], KEY)):
            with self.assertRaises(gb.CheckpointError):
                self.supervisor.restore(wrong, key, python=False)
        with self.assertRaises(gb.CheckpointError):
            self.supervisor.restore(blob, KEY, tenant="somebody", python=False)
        self.assertEqual(self.supervisor.list_active(), {})
        self.assertNotIn(b"yes", blob)

    def test_a_name_that_is_taken_restores_nothing(self):
        box, _ = self.made()
        blob = box.checkpoint(KEY)
        with self.assertRaises(RuntimeError):
            self.supervisor.restore(blob, KEY, python=False)
        again = self.supervisor.restore(blob, KEY, name="copy", python=False)
        again.close()

    def test_26_a_migration_ends_the_source_when_the_target_is_there(self):
        box, data = self.made()
        with gb.Supervisor() as other:
            moved = box.migrate(other, KEY)
            self.assertTrue(box.is_closed)
            self.assertEqual(box.termination_reason, "migrated")
            self.assertEqual(moved.run("cat b").stdout, "new\n")

    def test_26_a_migration_that_fails_leaves_the_source(self):
        box, _ = self.made()
        with gb.Supervisor("unix:///nowhere") as other, self.assertRaises(gb.ServiceNotFound):
            box.migrate(other, KEY)
        self.assertEqual(box.run("cat b").stdout, "new\n")

    def test_asyncio(self):
        async def work():
            async with gb.aio.Supervisor() as supervisor:
                async with await supervisor.spawn("x", python=False, workspace=fresh_directory()) as box:
                    await box.run("echo 1 > a")
                    blob = await box.checkpoint(KEY)
                    (child,) = await box.fork()
                    self.assertEqual((await child.run("cat a")).stdout, "1\n")
                    await child.close()
                again = await supervisor.restore(blob, KEY, python=False)
                self.assertEqual((await again.run("cat a")).stdout, "1\n")

        asyncio.run(work())


if __name__ == "__main__":
    unittest.main()
