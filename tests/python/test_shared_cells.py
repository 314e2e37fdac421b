"""Cells that share a worker, which they do from CPython 3.12 on: same owner, same box, same authority. Each sentence of
docs/reference/python.md about what such a cell promises has its test here."""

import concurrent.futures
import os
import resource
import signal
import time
import unittest
from pathlib import Path

from cell_test import BOMBS, NEEDS_SHARED, SHARED, STUBBORN, CellCase, with_os
from channel import Failed, imports, start

MANY = int(os.environ.get("GLOVEBOX_CELLS", "100"))
# Each channel is a request that goes on, over a connection of its own.
LIMITS = "[sessions]\nmax = 4000\n[limits]\nrequests = 4000\nconnections = 4000\n"

# All that a class hierarchy leads to, and the dict behind a type's read-only one.
TOOLS = """
def types():
    found, rest = {}, [object]
    while rest:
        one = rest.pop()
        if id(one) in found: continue
        found[id(one)] = one
        try: rest.extend(type.__subclasses__(one))
        except TypeError: pass
    return list(found.values())
class Grab:
    def __eq__(self, other):
        self.names = other
        return True
def names_of(one):
    grab = Grab()
    type.__dict__['__dict__'].__get__(one) == grab
    return getattr(grab, 'names', None)
"""
# With so much granted as a cell can have without native code.
WIDE = ("array", "atexit", "builtins", "codecs", "collections", "contextvars", "copyreg", "csv", "datetime", "decimal",
        "functools", "gc", "hashlib", "io", "itertools", "json", "locale", "marshal", "operator", "pickle", "random",
        "re", "resource", "select", "signal", "string", "struct", "sys", "time", "types", "unicodedata", "warnings",
        "weakref", "zlib", "_imp", "_codecs", "_locale", "_signal", "_thread", "_warnings", "_weakref", "posix")
LOAD = "import " + ", ".join(WIDE)

# (what one cell does, what another sees of it): before, after and in one that begins later, the same.
CHANGES = {
    "an error handler": ("codecs.register_error('planted', lambda e: ('', e.end))",
                         "str(__import__('codecs').encode('é', 'ascii', 'planted'))"),
    "a codec": ("codecs.register(lambda name: codecs.lookup('utf-8') if name == 'planted' else None)",
                "str('é'.encode('planted'))"),
    "warnings": ("warnings.simplefilter('error')", "len(__import__('warnings').filters)"),
    "a pickle reducer": ("copyreg.pickle(type('Planted', (), {}), lambda c: (str, ('planted',)))",
                         "len(__import__('copyreg').dispatch_table)"),
    "a csv dialect": ("csv.register_dialect('planted', 'excel')", "__import__('csv').list_dialects()"),
    "the depth of recursion": ("sys.setrecursionlimit(5000)", "__import__('sys').getrecursionlimit()"),
    "digits of numbers": ("sys.set_int_max_str_digits(700)", "__import__('sys').get_int_max_str_digits()"),
    "the switch interval": ("sys.setswitchinterval(0.5)", "__import__('sys').getswitchinterval()"),
    "flags for libraries": ("sys.setdlopenflags(1)", "__import__('sys').getdlopenflags()"),
    "the path of modules": ("sys.path.insert(0, '/planted'); sys.path_hooks.clear()",
                            "[__import__('sys').path, len(__import__('sys').path_hooks)]"),
    "a finder": ("sys.meta_path.clear()", "len(__import__('sys').meta_path)"),
    "a hook": ("sys.excepthook = sys.displayhook = sys.unraisablehook = None", "str(__import__('sys').excepthook)[:20]"),
    "the decimal context": ("decimal.getcontext().prec = 3; decimal.DefaultContext.prec = 3; decimal.setcontext(decimal.Context(prec=3))",
                            "str(__import__('decimal').Decimal(1) / 3)"),
    "the collector": ("gc.disable(); gc.set_threshold(1); gc.callbacks.append(print)",
                      "[__import__('gc').isenabled(), __import__('gc').get_threshold(), len(__import__('gc').callbacks)]"),
    "builtins": ("builtins.len = lambda x: 'planted'; builtins.planted = 1", "[len([]), hasattr(__import__('builtins'), 'planted')]"),
    "a context variable": ("contextvars.ContextVar('planted').set('planted'); v = contextvars.ContextVar('p'); v.set(1)",
                           "[v.name for v in __import__('contextvars').copy_context() if v.name in ('planted', 'p')]"),
    "interned words": ("sys.planted = sys.intern('pla' + 'nted-word')", "hasattr(__import__('sys'), 'planted')"),
    "the environment": ("import os; os.environ['PLANTED'] = '1'; posix.putenv('PLANTED', '1'); posix.unsetenv('PATH')",
                        "[b'PLANTED' in __import__('posix').environ, b'PATH' in __import__('posix').environ]"),
    "the current directory": ("posix.chdir(posix.getcwd() + '/sub')", "__import__('posix').getcwd()"),
    "the umask": ("posix.umask(0)", "__import__('posix').umask(0o22)"),
    "an audit hook": ("calls = []; sys.addaudithook(lambda *a: calls.append(a)); open('/dev/null').close(); assert not calls", "1"),
    "the end of the interpreter": ("atexit.register(print, 'planted')", "__import__('atexit')._ncallbacks()"),
    "the random state": ("random.seed(1)", "__import__('random').random() == 0.13436424411240122"),
}
# What a cell has not got, or may not do, with whatever grant.
REFUSED = {
    "the locale": "locale.setlocale(locale.LC_ALL, 'C.UTF-8')",
    "the time zone": "time.tzset()",
    "a signal": "_signal.raise_signal(15)",
    "a signal to a thread": "_signal.pthread_kill(1, 15)",
    "an alarm": "_signal.alarm(1)",
    "a timer": "_signal.setitimer(0, 1)",
    "a wakeup descriptor": "_signal.set_wakeup_fd(-1)",
    "a handler": "signal.signal(signal.SIGTERM, signal.SIG_DFL)",
    "a limit": "resource.setrlimit(resource.RLIMIT_NOFILE, (10, 10))",
    "frames of all threads": "sys._current_frames()",
    "exceptions of all threads": "sys._current_exceptions()",
    "a thread": "_thread.start_new_thread(print, ())",
    "modules with one state for all": "_imp._override_multi_interp_extensions_check(-1)",
    "a trampoline": "sys.activate_stack_trampoline('perf')",
    "another posix": "_imp.create_builtin(types.SimpleNamespace(name='posix'))",
    "another _signal": "_imp.create_builtin(types.SimpleNamespace(name='_signal'))",
    "another time": "_imp.create_builtin(types.SimpleNamespace(name='time'))",
    "another _locale": "_imp.create_builtin(types.SimpleNamespace(name='_locale'))",
    "a namespace": "posix.unshare(0x20000)",
    "the process": "posix._exit(0)",
}
# Not for a cell, with a grant of their own.
MODULES = ("_interpreters", "_interpchannels", "_interpqueues", "_xxsubinterpreters", "_testinternalcapi", "faulthandler")


@unittest.skipUnless(SHARED, NEEDS_SHARED)
class SharedCellTest(CellCase):
    interpreter = SHARED

    @classmethod
    def setUpClass(cls):
        if MANY > 400:
            most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
            resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))  # a connection for each cell
            cls.settings = LIMITS
        super().setUpClass()

    def pair(self, *names, **order):
        """Two cells in one worker."""
        first, second = self.cell(*with_os(*names), **order), self.cell(*with_os(*names), **order)
        self.assertTrue(self.together(first, second))
        return first, second

    def seen(self, cell, expression):
        """A value, or what was raised instead."""
        try:
            return cell.value(expression)
        except Failed as failed:
            return failed.type

    # ---- Objects -----------------------------------------------------------------------------

    def test_cells_of_one_box_share_a_worker_and_nothing_else(self):
        first, second = self.pair("json", "sys")
        first.exec("import sys, json\nx = 1\nsys.secret = 2\njson.secret = 3")
        with self.assertRaises(Failed) as caught:
            second.exec("x")
        self.assertEqual(caught.exception.type, "NameError")
        self.assertEqual(second.value("hasattr(__import__('sys'), 'secret')"), False)
        self.assertEqual(second.value("hasattr(__import__('json'), 'secret')"), False)

    def test_no_object_of_another_cell_is_found(self):
        """By the types that lead to others, by the collector, and by frames."""
        victim, thief = self.pair(*WIDE)
        victim.exec("class Purse:\n    gold = 'vic' + 'tim-gold'\npurse = Purse()\nclass Str(str): pass\n"
                    "def f(gold='vic' + 'tim-gold'): return gold\nlisted = ['vic' + 'tim-gold', {1: 'vic' + 'tim-gold'}]")
        find = ("[len([t for t in types() if t.__name__ == 'Purse']), sum('vic' 'tim-gold' in o for o in "
                "__import__('gc').get_objects() if isinstance(o, (list, tuple)))]")
        for cell in (victim, thief):
            cell.exec(TOOLS)
        self.assertGreaterEqual(victim.value(find)[0], 1)  # it would be found
        self.assertEqual(thief.value(find)[0], 0)
        # The one source of the thief that names it is its own.
        self.assertEqual(thief.value("[type(o).__name__ for o in __import__('gc').get_objects() if isinstance(o, dict) "
                                     "and 'purse' in o and 'listed' in o]"), [])

    def test_what_is_planted_in_any_type_is_found_by_no_other_cell(self):
        author, other = self.pair(*WIDE)
        for cell in (author, other):
            cell.exec(LOAD + TOOLS)
        author.exec("for one in types():\n    names = names_of(one)\n    if names is not None and isinstance(names, dict):\n"
                    "        names['planted'] = 1\n        for key in ('upper', 'append', '__len__', 'get', 'items'):\n"
                    "            if key in names: names[key] = lambda *a: 'planted'\n")
        look = "[t.__module__ + '.' + t.__name__ for t in types() if 'planted' in (names_of(t) or ())]"
        self.assertGreater(author.value(f"len({look})"), 100)  # the way is open inside one cell
        later = self.cell(*with_os(*WIDE))
        later.exec(LOAD + TOOLS)
        self.assertTrue(self.together(other, later))
        for cell in (other, later):
            self.assertEqual(cell.value(look), [])
            self.assertEqual(cell.value("['a'.upper(), len([1]), {1: 2}.get(1), list({1: 2}.items())]"), ["A", 1, 2, [[1, 2]]])

    def test_what_is_planted_in_any_module_is_found_by_no_other_cell(self):
        author, other = self.pair(*WIDE)
        for cell in (author, other):
            cell.exec(LOAD)
        author.exec("for one in list(sys.modules.values()):\n    try: one.planted = 1\n    except Exception: pass")
        look = "[name for name, one in __import__('sys').modules.items() if hasattr(one, 'planted')]"
        self.assertGreater(author.value(f"len({look})"), 50)
        later = self.cell(*with_os(*WIDE))
        later.exec(LOAD)
        for cell in (other, later):
            self.assertEqual(cell.value(look), [])

    # ---- What a process has once ---------------------------------------------------------------

    def test_what_a_cell_changes_is_changed_for_itself(self):
        data = self.service.workspace("changes")
        place = {"workspace": {"path": data, "mode": "rw"}}
        os.mkdir(data + "/sub", 0o777)
        for name, (change, look) in CHANGES.items():
            with self.subTest(name):
                author, other = self.pair(*WIDE, **place)
                author.exec(LOAD)
                other.exec(LOAD)
                before = self.seen(other, look)
                author.exec(change)
                self.assertEqual(self.seen(other, look), before)
                for _ in range(6):  # more than are made ahead
                    later = self.cell(*with_os(*WIDE), **place)
                    later.exec(LOAD)
                    self.assertEqual(self.seen(later, look), before)
                    later.delete()
                for cell in (author, other):
                    cell.delete()

    def test_what_belongs_to_the_process_is_not_to_be_had(self):
        cell, other = self.pair(*WIDE)
        cell.exec(LOAD)
        for name, source in REFUSED.items():
            with self.subTest(name):
                with self.assertRaises(Failed) as caught:
                    cell.exec(source)
                self.assertNotEqual(caught.exception.type, "NameError")
        self.assertEqual(other.value("'alive'"), "alive")
        self.assertEqual(other.named("restart"), [])

    def test_modules_that_reach_other_interpreters_are_not_to_be_had(self):
        cell = self.cell(*imports("sys", "_imp", "gc", "types", *MODULES))
        for name in MODULES:
            with self.subTest(name):
                with self.assertRaises(Failed) as caught:
                    cell.exec(f"import {name}")
                self.assertEqual(caught.exception.kind, "policy")
        # The function that makes built-in modules is not to be found either: what is there is the guard's.
        made = "[f for f in __import__('gc').get_objects() if getattr(f, '__name__', '') == 'create_builtin']"
        cell.exec(f"import gc, types\nfor make in {made}:\n    try: make(types.SimpleNamespace(name='faulthandler'))\n"
                  "    except ImportError: pass\n    else: post('made')\npost('done')")
        self.assertEqual(cell.recv(), "done")

    def test_descriptors_are_a_cells_own(self):
        data = self.service.workspace("descriptors", secret="secret")
        place = {"workspace": {"path": data, "mode": "rw"}}
        owner, other = self.cell(*with_os("posix"), **place), self.cell(*with_os("posix"), **place)
        self.assertTrue(self.together(owner, other))
        owner.exec(f"file = open('{data}/secret', 'rb', buffering=0)")
        fd = owner.value("file.fileno()")
        look = ("def tried(fd):\n    try: return open('/dev/null', 'rb', buffering=0, opener=lambda *a: fd).read().decode()\n"
                "    except OSError as error: return error.errno")
        for cell in (owner, other):
            cell.exec(look)
        self.assertEqual(owner.value(f"tried({fd})"), "secret")
        self.assertEqual(other.value("[n for n in range(3, 200) if tried(n) != 9]"), [])

    def test_what_a_cell_writes_to_a_standard_stream_reaches_no_other(self):
        loud, other = self.pair("io")
        loud.exec("import io\nfor fd in (1, 2):\n    io.FileIO(fd, 'wb', closefd=False).write(b'planted')")
        self.assertEqual(other.value("1"), 1)
        loud.delete()
        self.assertEqual(other.value("1"), 1)
        self.assertEqual(other.named("output"), [])

    # ---- Ends --------------------------------------------------------------------------------

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

    def await_restart(self, cell):
        """One restart, with empty globals, and all is well."""
        while not cell.named("restart"):
            self.assertNotEqual(cell.step()["ev"], "end", cell.end)
        with self.assertRaises(Failed) as caught:
            cell.exec("x")
        self.assertEqual(caught.exception.type, "NameError")
        self.assertEqual(len(cell.named("restart")), 1)

    def test_a_cell_that_crashes_ends_and_the_others_begin_anew(self):
        for name, source in BOMBS.items():
            with self.subTest(name):
                cell, idle = self.pair("math")
                waiting = self.cell(*with_os("math"))
                busy = self.cell(*with_os("math"))
                for each in (idle, waiting, busy):
                    each.exec("x = 1")
                first = waiting.begin("exec", source="post('there')\nrecv()")
                second = busy.begin("exec", source="post('there')\nwhile True: pass")
                queued = busy.begin("exec", source="post('queued')")
                for each in (waiting, busy):
                    self.assertEqual(each.recv(), "there")
                with self.assertRaises(Failed) as caught:
                    cell.exec(source)
                self.assertEqual((caught.exception.kind, caught.exception.reason), ("ended", "crash"))
                for each, number in ((waiting, first), (busy, second)):
                    with self.assertRaises(Failed) as caught:
                        each.wait(number)
                    self.assertEqual((caught.exception.kind, caught.exception.reason), ("ended", "worker"))
                busy.wait(queued)  # what waited is done in the next worker
                self.assertEqual(busy.recv(), "queued")
                for each in (idle, waiting, busy):
                    self.await_restart(each)
                    self.assertEqual(each.call("math.sqrt", 9), 3.0)
                self.assertTrue(self.together(idle, waiting, busy))
                for each in (idle, waiting, busy, cell):
                    each.delete()

    def test_a_worker_that_is_killed_ends_none_of_its_cells(self):
        """With code of several under way, and nothing known of who is to blame."""
        cells = [*self.pair(), self.cell(*with_os())]
        worker = self.worker_of(cells[0])
        for each in cells:
            each.exec("x = 1")
        numbers = [each.begin("exec", source="post(1)\nrecv()") for each in cells[:2]]
        for each in cells[:2]:
            each.recv()
        os.kill(worker, signal.SIGKILL)
        for each, number in zip(cells, numbers):
            with self.assertRaises(Failed) as caught:
                each.wait(number)
            self.assertEqual((caught.exception.kind, caught.exception.reason), ("ended", "worker"))
        for each in cells:
            self.await_restart(each)

    def test_a_cell_that_ignores_its_end_takes_its_worker_and_the_others_begin_anew(self):
        for way, source in STUBBORN.items():
            with self.subTest(way):
                other, cell = self.pair("math")
                other.exec("x = 1")
                number = cell.begin("exec", source=source)
                self.assertEqual(cell.recv(), 1)
                self.assertEqual(number, 2)
                cell.delete()
                self.await_restart(other)
                self.assertEqual(other.call("math.sqrt", 9), 3.0)
                with self.assertRaises(Failed) as caught:
                    other.exec("import json")
                self.assertEqual(caught.exception.kind, "policy")
                other.delete()

    def test_none_begins_in_a_worker_that_is_being_ended(self):
        """From soon after a cell was told to end and does not, long before its worker is killed."""
        other, cell = self.pair()
        cell.begin("exec", source=STUBBORN["never returns"])
        self.assertEqual(cell.recv(), 1)
        old = self.place(other)
        cell.delete()
        deadline = time.monotonic() + 30
        while self.place(later := self.cell(*with_os())) == old:
            later.delete()
            self.assertLess(time.monotonic(), deadline)
        self.assertEqual(other.named("restart"), [])  # that is still to come
        self.assertEqual(later.value("'fine'"), "fine")
        while not other.named("restart"):
            other.step()
        self.assertEqual(later.value("'fine'"), "fine")
        self.assertEqual(later.named("restart"), [])

    def test_an_answer_for_the_old_cell_is_none_for_the_new(self):
        cell, other = self.pair()
        other.begin("exec", source="post(1)\nrecv()")  # with code of two under way none is blamed
        self.assertEqual(other.recv(), 1)
        worker = self.worker_of(cell)
        cell.send({"op": "handle", "capability": "database"})
        number = cell.begin("exec", source="request('database', 'old')")
        while not cell.requests:
            cell.step()
        old = cell.requests.pop()
        os.kill(worker, signal.SIGKILL)
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

    def test_many_cells_on_one_worker(self):
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            cells = list(pool.map(lambda _: self.cell(*with_os("json")), range(MANY)))
            values = list(pool.map(lambda pair: pair[1].value(f"{pair[0]} * 2"), enumerate(cells)))
        self.assertEqual(values, [2 * i for i in range(MANY)])
        self.assertTrue(self.together(*cells[:3], *cells[-3:]))


@unittest.skipUnless(SHARED, NEEDS_SHARED)
class OwnerTest(CellCase):
    interpreter = SHARED

    @classmethod
    def start(cls):
        tokens = ("first", "second")
        settings = "".join(f'[[token]]\nname = "{name}"\nenv = "{name.upper()}"\nscopes = ["create"]\n' for name in tokens)
        return start(settings=settings, environment={name.upper(): name + "-secret" for name in tokens})

    def test_cells_of_different_owners_do_not_share_a_worker(self):
        """With one wish and one authority."""
        body = {"python": {"interpreter": self.interpreter}, "backend": "cell"}
        for owner, workers in (("first", 1), ("first", 1), ("second", 2), ("first", 2), ("second", 2)):
            answer = self.service.post("/v1/isolated/session", body, headers={"X-EXECD-ACCESS-TOKEN": owner + "-secret"})
            self.assertEqual(answer.status, 201, answer)
            self.assertEqual(len(self.workers()), workers)


if __name__ == "__main__":
    unittest.main(verbosity=2)
