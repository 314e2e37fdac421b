"""Cells: interpreters in workers, each held to its own authority. What is true of every CPython is tried with the host's
own, and with one whose cells share a worker where there is one. What only such cells promise is in test_shared_cells.py."""

import concurrent.futures
import os
import signal
import time
import unittest

from cell_test import BOMBS, NEEDS_SHARED, OWN, SHARED, STUBBORN, CellCase, is_shared, parent_of, with_os
from channel import Box, Failed, imports

class CellTest(CellCase):
    def test_operations_are_those_of_a_process(self):
        cell = self.cell(*imports("math"))
        cell.exec("from math import sqrt\npost(sqrt(2))\nprint('hi')")
        self.assertEqual(cell.recv(), 2 ** 0.5)
        self.assertEqual(cell.call("math.sqrt", 9), 3.0)
        with self.assertRaises(Failed) as caught:
            cell.exec("1 / 0")
        self.assertEqual(caught.exception.type, "ZeroDivisionError")

    def test_one_cell_cannot_be_narrowed_and_the_others_feel_nothing(self):
        first, second = self.cell(), self.cell()
        for body in ({"limits": {"wall": "1s"}}, {"limits": {"memory": "1MiB"}}, {"limits": {"pids": 1}},
                     {"limits": {"cpus": 0.1}}, {"capabilities": []}):
            answer = self.service.request("PATCH", f"/v1/isolated/session/{first.id}", body)
            self.assertEqual(answer.status, 400, answer)
            self.assertIn(next(iter(body)), answer.json["message"])
            self.assertIn("cell", answer.json["message"])
        for cell in (first, second):
            self.assertEqual(cell.value("1"), 1)

    def test_a_wall_budget_is_an_operations_and_not_taken_later(self):
        alone = Box(self.service, (), backend="process")
        self.addCleanup(alone.delete)
        answer = self.service.request("PATCH", f"/v1/isolated/session/{alone.id}", {"limits": {"wall": "1s"}})
        self.assertEqual(answer.status, 400, answer)
        self.assertIn("wall", answer.json["message"])
        self.assertEqual(alone.value("1"), 1)

    def test_cells_with_different_boxes_do_not_share_a_worker(self):
        data = self.service.workspace("cells", a="text")
        plain = self.cell(*with_os())
        reader = self.cell(*with_os(), {"kind": "read_path", "path": data})
        self.assertFalse(self.together(plain, reader))
        self.assertEqual(reader.value(f"open('{data}/a').read()"), "text")
        with self.assertRaises(Failed):
            plain.exec(f"open('{data}/a')")

    def test_cells_with_different_authorities_do_not_share_a_worker(self):
        """Also where the box is the same: what only the interpreter keeps apart is kept apart by processes too."""
        plain = self.cell(*with_os())
        for more in (imports("json"), [{"kind": "cpu_budget", "ms": 60_000}], [{"kind": "wall_budget", "ms": 60_000}],
                     [{"kind": "output_budget", "bytes": 1 << 20}], [{"kind": "clock"}]):
            with self.subTest(more):
                self.assertFalse(self.together(plain, self.cell(*with_os(), *more)))

    def test_a_cell_that_crashes_ends_and_a_cell_of_another_worker_feels_nothing(self):
        other = self.cell(*imports("math"))
        other.exec("x = 1")
        for name, source in BOMBS.items():
            with self.subTest(name):
                cell = self.cell()
                with self.assertRaises(Failed) as caught:
                    cell.exec(source)
                self.assertEqual((caught.exception.kind, caught.exception.reason), ("ended", "crash"))
                self.assertEqual(other.value("x"), 1)
                self.assertEqual(other.named("restart"), [])
                self.assertEqual(self.cell().value("1"), 1)

    def test_a_cell_begins_in_no_worker_that_has_ended(self):
        """Also when the service does not know yet: the agent that would tell it is stopped here."""
        own = self.worker_of(self.cell(*with_os()))
        deadline = time.monotonic() + 30
        while not is_shared(self.interpreter) and self.workers() == [own]:  # the next cell gets one that was made ahead
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.02)
        agents = {parent_of(pid) for pid in self.workers()}
        for agent in agents:
            os.kill(agent, signal.SIGSTOP)
        try:
            for pid in self.workers():
                os.kill(pid, signal.SIGKILL)
            with concurrent.futures.ThreadPoolExecutor(1) as pool:
                made = pool.submit(self.cell, *with_os())
                with self.assertRaises(concurrent.futures.TimeoutError):
                    made.result(0.5)  # it waits for the worker to say that the cell is there
                for agent in agents:
                    os.kill(agent, signal.SIGCONT)
                cell = made.result(30)
        finally:
            for agent in agents:
                try:
                    os.kill(agent, signal.SIGCONT)
                except ProcessLookupError:
                    pass
        self.assertEqual(cell.value("'fine'"), "fine")
        self.assertEqual(cell.named("restart"), [])

    def test_what_reaches_beyond_the_cell_is_not_there(self):
        cell = self.cell(*imports("os", "sys", "_thread", "posix"))
        names = cell.value("[n for n in ('read', 'write', 'close', 'dup2', '_exit', 'kill', 'fork', 'system') "
                           "if hasattr(__import__('posix'), n)]")
        self.assertEqual(names, [])
        self.assertEqual(cell.value("hasattr(__import__('_thread'), 'start_new_thread')"), False)
        for source in ("open(101, 'wb')", "open('/proc/self/fd/101', 'wb')", "open('/proc/self/mem', 'rb')"):
            with self.assertRaises(Failed) as caught:
                cell.exec(source)
            self.assertEqual(caught.exception.kind, "policy", source)

    def test_the_channel_is_not_the_cells_to_write(self):
        """Not by a function that is left, and not by any descriptor: the kernel refuses its thread."""
        other = self.cell(*imports("ctypes"))
        cell = self.cell(*imports("ctypes"))
        # Native calls stand for whatever way Python code may find; the worker's own thread still writes.
        cell.exec("import ctypes\nlibc = ctypes.CDLL(None, use_errno=True)\n"
                  "def tried(name, *a):\n    ctypes.set_errno(0)\n    got = getattr(libc, name)(*a)\n"
                  "    return [got, ctypes.get_errno()]")
        for call in ("'write', 101, b'garbage that is no frame', 24", "'close', 101", "'dup', 101", "'dup2', 101, 50",
                     "'dup2', 0, 101", "'dup2', 0, 100", "'dup3', 101, 50, 0", "'dup3', 0, 101, 0", "'fcntl', 101, 0, 0",
                     "'read', 100, ctypes.create_string_buffer(9), 9"):
            self.assertEqual(cell.value(f"tried({call})"), [-1, 9], call)
        self.assertEqual(cell.value("tried('dup2', 0, 102)[0]"), 102)
        self.assertEqual(cell.value("tried('open', b'/proc/self/mem', 2)"), [-1, 13])
        self.assertEqual(cell.value("tried('open', b'/proc/self/fd/101', 1)"), [-1, 13])
        self.assertEqual(other.value("'fine'"), "fine")

    def test_a_second_posix_is_not_to_be_had(self):
        cell = self.cell(*imports("os", "sys", "posix"))
        for name in ("posix", "_thread"):
            with self.assertRaises(Failed) as caught:
                cell.exec(f"import sys\nclass S: name = '{name}'\nsys.modules['_imp'].create_builtin(S)")
            self.assertEqual(caught.exception.kind, "policy")

    def test_cancel_reaches_one_cell(self):
        cell, other = self.cell(*imports("time")), self.cell()
        for source in ("import time\nwhile True: time.sleep(0.01)", "recv()", "while True: pass"):
            number = cell.begin("exec", source="post(1)\n" + source)
            cell.recv()
            cell.send({"op": "cancel", "id": number})
            with self.assertRaises(Failed, msg=source) as caught:
                cell.wait(number)
            self.assertEqual(caught.exception.kind, "cancelled")
        self.assertEqual(cell.value("'fine'"), "fine")
        self.assertEqual(other.value("'fine'"), "fine")

    def test_memory_is_counted_by_cell(self):
        cell = self.cell({"kind": "memory_budget", "bytes": 64 << 20}) if os.environ.get("GLOVEBOX_TIER") != "user" \
            else self.skipTest("an ordinary user has no memory limit for boxes here")
        with self.assertRaises(Failed) as caught:
            cell.exec("x = bytearray(100 << 20)")
        self.assertEqual((caught.exception.kind, caught.exception.reason), ("budget", "memory"))
        self.assertEqual(cell.value("'alive'"), "alive")

    def test_cpu_time_ends_the_cell_alone(self):
        other = self.cell()
        cell = self.cell({"kind": "cpu_budget", "ms": 300})
        with self.assertRaises(Failed) as caught:
            cell.exec("while True: pass")
        self.assertEqual((caught.exception.kind, caught.exception.reason), ("budget", "cpu"))
        self.assertEqual(other.value("'alive'"), "alive")
        self.assertEqual(other.named("restart"), [])

    def test_deleting_a_cell_leaves_the_others(self):
        first, second = self.cell(), self.cell()
        first.delete()
        self.assertEqual(second.value("1"), 1)
        self.assertEqual(self.service.get(f"/v1/isolated/session/{first.id}").status, 404)

    def test_a_cell_has_no_shell(self):
        cell = self.cell()
        answer = self.service.post(f"/v1/isolated/session/{cell.id}/run", {"code": "id"})
        self.assertIn(b"a cell has no shell", answer.body)

    def test_parallel_sessions_give_their_own_results(self):
        def one(i):
            with Box(self.service, imports("math"), backend="cell" if i % 2 else "process") as box:
                return box.call("math.factorial", i)
        with concurrent.futures.ThreadPoolExecutor(12) as pool:
            values = list(pool.map(one, range(48)))
        product, expected = 1, []
        for i in range(48):
            product = product * i if i else 1
            expected.append(product)
        self.assertEqual(values, expected)


@unittest.skipUnless(SHARED, NEEDS_SHARED)
@unittest.skipIf(SHARED == OWN, "the host's own interpreter is one")
class NewerCellTest(CellTest):
    interpreter = SHARED


@unittest.skipIf(is_shared(OWN), "the host's own interpreter lets cells share a worker")
class OneCellTest(CellCase):
    """Below CPython 3.12 all interpreters of a process share the built-in types. So there is one cell in a process, ever."""

    def test_equal_cells_have_a_worker_each(self):
        first, second = self.cell(*with_os()), self.cell(*with_os())
        self.assertFalse(self.together(first, second))

    def test_a_worker_ends_with_its_cell(self):
        cell = self.cell(*with_os())
        worker = self.worker_of(cell)
        cell.delete()
        deadline = time.monotonic() + 30
        while worker in self.workers():
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.02)

    def test_no_class_of_another_cell_is_among_those_of_object(self):
        victim, thief = self.cell(), self.cell()
        victim.exec("class Purse:\n    gold = 'gold'\ndef f(): return Purse.gold")
        find = "[c for c in object.__subclasses__() if c.__name__ == 'Purse']"
        self.assertEqual(victim.value(f"len({find})"), 1)  # it would be found
        self.assertEqual(thief.value(f"len({find})"), 0)

    def test_what_is_planted_in_a_built_in_type_is_found_by_no_other_cell(self):
        plant = ("class Grab:\n    def __eq__(self, other):\n        global names\n        names = other\n        return True\n"
                 "str.__dict__ == Grab()\nnames['planted'] = lambda self: 'planted'")
        before, author = self.cell(), self.cell()
        author.exec(plant)
        self.assertEqual(author.value("''.planted()"), "planted")  # the way is open inside one cell
        self.assertEqual(before.value("hasattr('', 'planted')"), False)
        author.delete()
        for _ in range(3):  # of those that come later none begins in what it left behind
            self.assertEqual(self.cell().value("hasattr('', 'planted')"), False)

    def test_one_that_ignores_its_end_takes_nothing_but_its_own_worker(self):
        for way, source in STUBBORN.items():
            with self.subTest(way):
                other = self.cell()
                other.exec("x = 1")
                cell = self.cell({"kind": "wall_budget", "ms": 500})
                with self.assertRaises(Failed) as caught:
                    cell.exec(source)
                self.assertEqual((caught.exception.kind, caught.exception.reason), ("budget", "wall"))
                self.assertEqual(other.value("x"), 1)
                self.assertEqual(other.named("restart"), [])


if __name__ == "__main__":
    unittest.main(verbosity=2)
