"""Cells: many interpreters in one worker, each held to its own authority."""

import concurrent.futures
import os
import resource
import time
import unittest
from pathlib import Path

from channel import Box, Ended, Failed, PythonTest, imports, start

MANY = int(os.environ.get("GLOVEBOX_CELLS", "100"))

# Each channel is a request that goes on, over a connection of its own.
LIMITS = "[sessions]\nmax = 4000\n[limits]\nrequests = 4000\nconnections = 4000\n"


class CellTest(PythonTest):
    @classmethod
    def start(cls):
        most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))  # a connection for each cell
        return start(settings=LIMITS if MANY > 400 else "")

    def cell(self, *capabilities, **order):
        return self.box(*capabilities, backend="cell", **order)

    def workers(self):
        """Interpreters that serve cells, of this service."""
        found = 0
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                command = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            found += b"cells" in command and str(self.service.state).encode() in b"".join(command)
        return found

    def test_operations_are_those_of_a_process(self):
        cell = self.cell(*imports("math"))
        cell.exec("from math import sqrt\npost(sqrt(2))\nprint('hi')")
        self.assertEqual(cell.recv(), 2 ** 0.5)
        self.assertEqual(cell.call("math.sqrt", 9), 3.0)
        with self.assertRaises(Failed) as caught:
            cell.exec("1 / 0")
        self.assertEqual(caught.exception.type, "ZeroDivisionError")

    def test_cells_of_one_box_share_a_worker_and_nothing_else(self):
        first, second = self.cell(*imports("json", "sys")), self.cell(*imports("math", "sys"))
        self.assertEqual(self.workers(), 1)
        first.exec("import sys, json\nx = 1\nsys.secret = 2\njson.secret = 3")
        with self.assertRaises(Failed) as caught:
            second.exec("x")
        self.assertEqual(caught.exception.type, "NameError")
        self.assertEqual(second.value("hasattr(__import__('sys'), 'secret')"), False)
        for cell, module in ((first, "math"), (second, "json")):
            with self.assertRaises(Failed) as caught:
                cell.exec(f"import {module}")
            self.assertEqual(caught.exception.kind, "policy")

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
        plain = self.cell()
        reader = self.cell({"kind": "read_path", "path": data})
        self.assertEqual(self.workers(), 2)
        self.assertEqual(reader.value(f"open('{data}/a').read()"), "text")
        with self.assertRaises(Failed):
            plain.exec(f"open('{data}/a')")

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

    def test_what_is_left_of_a_cell_may_do_nothing(self):
        """Finalizers run when its interpreter is taken down, after its last operation."""
        data = self.service.workspace("left")
        place = {"workspace": {"path": data, "mode": "rw"}}
        cell, neighbour = self.cell(**place), self.cell(**place)  # a worker without cells is killed
        # What they meet is told through files that were opened before. Some are in the globals, some in a module; one
        # may be interrupted, which is how a cell is told to end.
        cell.exec("sys = __import__('warnings', None, None, []).sys\nclass Left:\n"
                  "    def __init__(self, name): self.told = open(name, 'wb', buffering=0)\n"
                  "    def __del__(self, open=open, BaseException=BaseException, str=str):\n"
                  "        try: self.told.write(open('/etc/passwd', 'rb').read(4))\n"
                  "        except BaseException as error: self.told.write(str(error).encode())\n"
                  f"first = [Left('{data}/globals%d' % i) for i in range(4)]\n"
                  f"sys.left = [Left('{data}/module%d' % i) for i in range(4)]")
        cell.delete()
        deadline = time.monotonic() + 30
        for name in ("globals", "module"):
            told = set()
            while not told:
                self.assertLess(time.monotonic(), deadline, name)
                time.sleep(0.02)
                told = {path.read_text() for path in Path(data).glob(name + "*")} - {""}
            self.assertEqual(told, {"the cell has ended"})
        self.assertEqual(neighbour.value("1"), 1)

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

    # Ways not to end when told to: to catch what is raised, and never to come back from one call. CPython 3.11 looks up
    # who catches what is raised at the end of a loop by the instruction before its start, which must be inside the `try`.
    STUBBORN = {
        "catches": "def run():\n    try:\n        len('')\n        while True: len('')\n    finally: run()\nrun()",
        "never returns": "sum(iter(int, 1))",
    }

    def test_a_cell_that_ignores_its_end_takes_its_worker_and_the_others_begin_anew(self):
        for way, source in self.STUBBORN.items():
            with self.subTest(way):
                other, third = self.cell(), self.cell(*imports("math"))
                for each in (other, third):
                    each.exec("x = 1")
                cell = self.cell({"kind": "wall_budget", "ms": 500})
                with self.assertRaises(Failed) as caught:
                    cell.exec(source)
                self.assertEqual((caught.exception.kind, caught.exception.reason), ("budget", "wall"))
                for each in (other, third):
                    while not each.named("restart"):
                        each.step()
                    with self.assertRaises(Failed) as caught:
                        each.exec("x")
                    self.assertEqual(caught.exception.type, "NameError")
                    self.assertEqual(len(each.named("restart")), 1)
                # With the authority that each had, in one worker again.
                self.assertEqual(third.call("math.sqrt", 9), 3.0)
                with self.assertRaises(Failed) as caught:
                    other.exec("import math")
                self.assertEqual(caught.exception.kind, "policy")
                self.assertEqual(self.workers(), 1)

    def test_an_answer_for_the_old_cell_is_none_for_the_new(self):
        cell = self.cell()
        cell.send({"op": "handle", "capability": "database"})
        number = cell.begin("exec", source="request('database', 'old')")
        while not cell.requests:
            cell.step()
        old = cell.requests.pop()
        with self.assertRaises(Failed):
            self.cell({"kind": "wall_budget", "ms": 500}).exec(self.STUBBORN["never returns"])
        with self.assertRaises(Failed) as caught:
            cell.wait(number)
        self.assertEqual((caught.exception.kind, caught.exception.reason), ("ended", "worker"))
        number = cell.begin("exec", source="post(request('database', 'new'))")
        while not cell.requests:
            cell.step()
        new = cell.requests.pop()
        cell.send({"op": "reply", "id": old["id"], "value": "stale"})
        cell.send({"op": "reply", "id": new["id"], "value": "fresh"})
        cell.wait(number)
        self.assertEqual(cell.recv(), "fresh")

    def test_a_crash_of_the_worker_is_told_to_all_of_its_cells(self):
        other = self.cell(*imports("math"))
        cell = self.cell(*imports("ctypes"))
        with self.assertRaises(Failed) as caught:
            cell.exec("import ctypes\nctypes.string_at(0)")
        self.assertEqual(caught.exception.kind, "ended")
        with self.assertRaises((Failed, Ended)):
            other.exec("1")
        self.assertEqual(self.cell().value("1"), 1)

    def test_deleting_a_cell_leaves_the_others(self):
        first, second = self.cell(), self.cell()
        first.delete()
        self.assertEqual(second.value("1"), 1)
        self.assertEqual(self.service.get(f"/v1/isolated/session/{first.id}").status, 404)

    def test_a_cell_has_no_shell(self):
        cell = self.cell()
        answer = self.service.post(f"/v1/isolated/session/{cell.id}/run", {"code": "id"})
        self.assertIn(b"a cell has no shell", answer.body)

    def test_many_cells_on_one_worker(self):
        before = self.workers()
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            cells = list(pool.map(lambda _: self.cell(*imports("json")), range(MANY)))
            values = list(pool.map(lambda pair: pair[1].value(f"{pair[0]} * 2"), enumerate(cells)))
        self.assertEqual(values, [2 * i for i in range(MANY)])
        self.assertLessEqual(self.workers(), max(before, 1))

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


if __name__ == "__main__":
    unittest.main(verbosity=2)
