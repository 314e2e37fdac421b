"""What a cell may do: imports, files, programs, sockets, budgets; and the known ways around guards in Python."""

import os
import time
import unittest
from pathlib import Path

from channel import Ended, Failed, PythonTest, imports

# Reach modules without importing them, in a box that may import json alone.
SYS = "__import__('json').codecs.sys"


class AuthorityTest(PythonTest):
    def refused(self, box, source):
        with self.assertRaises(Failed, msg=source) as caught:
            box.exec(source)
        self.assertEqual(caught.exception.kind, "policy", (source, caught.exception.error))
        return caught.exception

    # ---- Imports -----------------------------------------------------------------------------

    def test_nothing_is_imported_without_a_grant(self):
        box = self.box()
        for name in ("os", "sys", "math", "json", "builtins", "ctypes", "_io"):
            self.refused(box, f"import {name}")
        denial = box.named("denial")[0]
        self.assertEqual((denial["capability"], denial["attempted_action"], denial["policy_rule"],
                          denial["decision"]), ("import", "import:os", "authority:import", "deny"))

    def test_a_granted_module_brings_its_own_and_hands_out_none(self):
        box = self.box(*imports("json"))
        self.assertEqual(box.value("__import__('json').dumps([1])"), "[1]")
        for statement in ("import re", "import json.decoder", "from json import decoder", "from json import codecs",
                          "import codecs"):
            self.refused(box, statement)

    def test_a_submodule_does_not_grant_its_package(self):
        box = self.box(*imports("os.path"))
        box.exec("import os.path\npost([os.path.join('a', 'b'), hasattr(os, 'system')])")
        self.assertEqual(box.recv(), ["a/b", False])
        self.assertEqual(box.value("__import__('os.path', None, None, ('join',)).join('a', 'b')"), "a/b")
        box.exec("from os import path")
        self.refused(box, "import os")
        self.refused(box, "from os import system")

    def test_a_pattern_grants_what_is_below(self):
        box = self.box(*imports("collections", "collections.*"))
        box.exec("import collections.abc\nfrom collections import OrderedDict, abc")

    def test_libraries_load_what_they_need_later(self):
        box = self.box(*imports("datetime", "dataclasses", "collections", "enum", "typing", "decimal"))
        box.exec("import datetime, dataclasses, collections, enum, typing, decimal\n"
                 "post(datetime.datetime.strptime('2020', '%Y').year)\n"
                 "@dataclasses.dataclass\nclass D:\n    x: int = 1\n"
                 "N = collections.namedtuple('N', 'a b')\nE = enum.Enum('E', 'x y')\n"
                 "post([D().x, N(1, 2).b, str(decimal.Decimal('1.10'))])")
        self.assertEqual(box.recv(), 2020)
        self.assertEqual(box.recv(), [1, 2, "1.10"])

    def test_a_denied_import_is_denied_within_a_grant(self):
        box = self.box({"version": 1, "allow": imports("*"), "deny": imports("socket")})
        box.exec("import json, os, re")
        self.refused(box, "import socket")

    # ---- Files -------------------------------------------------------------------------------

    def test_reading_and_writing_are_different_grants(self):
        data = self.service.workspace("files", a="text")
        box = self.box({"kind": "read_path", "path": data})
        self.assertEqual(box.value(f"open('{data}/a').read()"), "text")
        error = self.refused(box, f"open('{data}/new', 'w')")
        self.assertIn("write_path", str(error))
        denial = box.named("denial")[-1]
        self.assertEqual((denial["capability"], denial["attempted_action"]), ("write_path", f"open:{data}/new"))
        for path in ("/etc/passwd", "/etc/hostname", f"{data}/../../log", f"{data}x", "/proc/self/environ", "/"):
            self.refused(box, f"open('{path}')")

    def test_a_link_does_not_lead_out_of_a_grant(self):
        data = self.service.workspace("escape", a="text")
        os.symlink("/etc/hostname", f"{data}/link")
        box = self.box({"kind": "read_path", "path": data})
        self.refused(box, f"open('{data}/link')")

    def test_a_denial_within_a_grant_holds(self):
        data = self.service.workspace("private", a="text")
        self.service.workspace("private/inner", b="secret")
        box = self.box({"version": 1, "allow": [{"kind": "read_path", "path": data}],
                        "deny": [{"kind": "read_path", "path": data + "/inner"}]})
        self.assertEqual(box.value(f"open('{data}/a').read()"), "text")
        self.refused(box, f"open('{data}/inner/b')")

    def test_other_ways_to_files_are_the_same_way(self):
        box = self.box(*imports("os", "io", "pathlib", "codecs", "tempfile", "shutil", "linecache", "tokenize",
                                "fileinput", "mmap"))
        for source in ("import os\nos.open('/etc/hostname', 0)", "import os\nos.listdir('/etc')",
                       "import os\nos.scandir('/')", "import os\nos.remove('/tmp/x')", "import os\nos.mkdir('/tmp/x')",
                       "import os\nos.rename('/tmp/a', '/tmp/b')", "import os\nos.symlink('/etc', '/tmp/b')",
                       "import os\nos.chmod('/tmp', 0)", "import os\nos.truncate('/tmp/x', 0)",
                       "import os\nos.chdir('/etc')", "import io\nio.FileIO('/etc/hostname')",
                       "import io\nio.open_code('/etc/hostname')", "import pathlib\npathlib.Path('/etc/hostname').read_text()",
                       "import pathlib\npathlib.Path('/tmp/x').write_text('')",
                       "import codecs\ncodecs.open('/etc/hostname')", "import shutil\nshutil.copy('/etc/hostname', '/tmp/x')",
                       "import tokenize\ntokenize.open('/etc/hostname')",
                       "import fileinput\nlist(fileinput.input('/etc/hostname'))",
                       "open(100, 'rb')", "open(101, 'wb')"):
            self.refused(box, source)

    # ---- Programs, sockets, native code ------------------------------------------------------

    def test_no_program_starts_however_it_is_asked_for(self):
        box = self.box(*imports("os", "subprocess", "_posixsubprocess", "pty", "posix", "multiprocessing"))
        for source in ("import os\nos.system('id')", "import os\nos.execv('/bin/id', ['id'])", "import os\nos.fork()",
                       "import subprocess\nsubprocess.run(['/usr/bin/id'])", "import os\nos.posix_spawn('/bin/id', ['id'], {})",
                       "import os\nos.popen('id')", "import pty\npty.spawn('id')"):
            self.refused(box, source)
        # Not an event of the interpreter: the kernel holds.
        box.exec("import _posixsubprocess as p, os\nr, w = os.pipe()\n"
                 "try:\n"
                 "    post(p.fork_exec([b'/usr/bin/id'], [b'/usr/bin/id'], True, (w,), None, None, -1, -1, -1, -1, -1, -1,\n"
                 "                     r, w, True, False, 0, None, None, None, -1, None, False))\n"
                 "except OSError as e: post('refused %d' % e.errno)\n"
                 "except TypeError as e: post('refused ' + str(e))")
        self.assertTrue(str(box.recv()).startswith("refused"))

    def test_no_socket_without_a_grant(self):
        box = self.box(*imports("socket", "_socket"))
        for source in ("import socket\nsocket.socket()", "import socket\nsocket.create_connection(('127.0.0.1', 1))",
                       "import socket\nsocket.socket(socket.AF_UNIX)", "import socket\nsocket.socketpair()",
                       "import socket\nsocket.getaddrinfo('localhost', 80)", "import _socket\n_socket.socket()"):
            self.refused(box, source)

    def test_native_calls_need_a_grant_of_their_own(self):
        box = self.box(*imports("json"))
        self.refused(box, "import ctypes")
        # What a library would like to load does not bring it in either.
        box = self.box(*imports("uuid", "ctypes.util"))
        self.refused(box, "import ctypes")

    # ---- Ways around guards in Python --------------------------------------------------------

    ESCAPES = {
        "subclasses": "[c for c in ().__class__.__base__.__subclasses__() if c.__name__ == '_wrap_close'][0]"
                      ".__init__.__globals__['system']('id')",
        "the module of open": "open.__self__.FileIO('/etc/hostname')",
        "builtins of a library": "__import__('json').__builtins__['exec']('1')",
        "eval of a library": "__import__('json').__builtins__['eval']('1')",
        "compile of a library": "__import__('json').__builtins__['compile']('1', '/usr/lib/python3.11/os.py', 'exec')",
        "import of a library": "__import__('json').__builtins__['__import__']('subprocess')",
        "io through codecs": "__import__('json').codecs.open('/etc/hostname')",
        "the system through sys.modules": SYS + ".modules['os'].system('id')",
        "posix through sys.modules": SYS + ".modules['posix'].system('id')",
        "opening through posix": SYS + ".modules['posix'].open('/etc/hostname', 0)",
        "importlib's loader": SYS + ".modules['_frozen_importlib_external'].FileLoader('x', '/etc/hostname')"
                                    ".get_data('/etc/hostname')",
        "importlib's source loader": SYS + ".modules['_frozen_importlib_external'].SourceFileLoader('x',"
                                           " '/etc/hostname').load_module()",
        "importlib's import": SYS + ".modules['_frozen_importlib']._gcd_import('subprocess')",
        "an extension by hand": SYS + ".modules['_imp'].create_dynamic(type('S', (), {'name': 'x',"
                                      " 'origin': '/tmp/x.so'})())",
        "code of a function": "(lambda: 0).__code__",
        "frames": SYS + "._getframe()",
        "frames of others": SYS + "._current_frames()",
        "frames of a traceback": "try: 1 / 0\nexcept Exception as e: e.__traceback__.tb_frame",
        "tracing": SYS + ".settrace(print)",
        "profiling": SYS + ".setprofile(print)",
        "unmarshalling": SYS + ".modules['marshal'].loads(b'c')",
    }

    def test_the_known_ways_out_lead_nowhere(self):
        for name, source in self.ESCAPES.items():
            box = self.box(*imports("json"), python={"preload": ["os"]})
            with self.subTest(name):
                self.refused(box, source)

    # What code hands to a library is called by it, and gains nothing by that.
    LENT = {
        "import": "class K:\n    def __init__(self, **k): pass\n"
                  "    decode = staticmethod(json.__builtins__['__import__'])\n"
                  "json.loads('subprocess', cls=K)",
        "eval": "class K:\n    def __init__(self, **k): pass\n"
                "    decode = staticmethod(json.__builtins__['eval'])\njson.loads('1 + 1', cls=K)",
        "an object that is imported": "class Fake:\n    def __getattr__(self, name):\n"
                                      "        json.__builtins__['__import__']('subprocess')\n"
                                      "json.codecs.sys.modules['re'] = Fake()\nimport textwrap",
        "a finder": "class F:\n    def find_spec(self, *a): json.__builtins__['__import__']('subprocess')\n"
                    "json.codecs.sys.meta_path.insert(0, F())\nimport textwrap",
        "code with a library's name": "json.codecs.sys.modules['_frozen_importlib']._call_with_frames_removed("
                                      "json.__builtins__['compile'], '1', json.__file__, 'exec')",
        "a module of C": "json.__builtins__['__import__']('_posixsubprocess')",
        "a second posix": "class S: name = 'posix'\njson.codecs.sys.modules['_imp'].create_builtin(S)",
        "a module made by hand": "class S: name = '_posixsubprocess'\njson.codecs.sys.modules['_imp'].create_builtin(S)",
    }

    def test_a_library_does_not_lend_its_standing(self):
        for name, source in self.LENT.items():
            box = self.box(*imports("json", "textwrap"))
            with self.subTest(name):
                self.refused(box, "import json\n" + source)

    def test_what_becomes_a_path_by_its_own_code_is_refused(self):
        data = self.service.workspace("odd", a="text")
        box = self.box({"kind": "read_path", "path": data}, *imports("io", "os", "pathlib"))
        box.exec("class X:\n    def __init__(self, n): self.n = n\n    def __index__(self): return self.n\n"
                 "class P:\n    def __init__(self, *p): self.p = list(p)\n    def __fspath__(self): return self.p.pop()\n")
        for source in ("import io\nio.FileIO(X(101), 'w', closefd=False)", "import os\nos.listdir(X(101))",
                       f"import io\nio.FileIO(P('{data}/a', '/etc/hostname'))",
                       "import os\nos.listdir(bytearray(b'/etc'))"):
            self.refused(box, source)
        # As ordinary code does it, they are fine.
        self.assertEqual(box.value(f"__import__('pathlib').Path('{data}/a').read_text()"), "text")
        self.assertEqual(box.value(f"__import__('os').listdir(__import__('pathlib').Path('{data}'))"), ["a"])

    def test_a_path_begins_where_the_kernel_begins_it(self):
        data = self.service.workspace("begins", a="text")
        self.service.workspace("begins/inner", b="secret")
        box = self.box({"version": 1, "allow": [{"kind": "read_path", "path": data}, *imports("os")],
                        "deny": [{"kind": "read_path", "path": data + "/inner"}]})
        box.exec(f"import os\nos.chdir('{data}')\ntop = os.open('{data}', os.O_RDONLY)")
        self.assertEqual(box.value("os.read(os.open('a', 0, dir_fd=top), 9)"), b"text")
        self.assertEqual(box.value("os.read(os.open('a', 0), 9)"), b"text")
        for source in ("os.open('inner/b', 0, dir_fd=top)", "os.open('../begins/inner/b', 0, dir_fd=top)",
                       "os.open('../../../../etc/hostname', 0, dir_fd=top)", "os.mkdir('x', dir_fd=top)",
                       "os.rename('a', 'b', src_dir_fd=top, dst_dir_fd=top)", "os.symlink('a', 'b', dir_fd=top)",
                       "os.open('a', 0, dir_fd=12345)"):
            self.refused(box, source)
        # Relative to a directory for which the same words mean something else.
        box = self.box({"kind": "read_path", "path": data + "/inner"}, {"kind": "read_path", "path": "/usr"},
                       *imports("os"))
        box.exec(f"import os\nos.chdir('{data}/inner')\nusr = os.open('/usr', os.O_RDONLY)")
        self.refused(box, "os.open('../etc/hostname', 0, dir_fd=usr)")

    def test_processes_are_no_files(self):
        data = self.service.workspace("processes", a="text")
        os.symlink("/proc/self/mem", f"{data}/link")
        box = self.box({"kind": "read_path", "path": "/usr"}, *imports("os"),
                       workspace={"path": data, "mode": "overlay"})
        for path in ("/proc/self/mem", "/proc/thread-self/mem", "/proc/self/fd/101", "/dev/fd/101",
                     "/proc/self/task/self/mem", f"{data}/link"):
            for mode in ("rb", "wb"):
                self.refused(box, f"open('{path}', '{mode}')")
        box.exec(f"import os\nos.chdir('{data}')\nusr = os.open('/usr', os.O_RDONLY)")
        self.refused(box, "os.open('../proc/self/mem', os.O_RDWR, dir_fd=usr)")

    # Each has code of its own run at the moment when the guard decides. `act` reads what is not granted.
    PREPARE = ("sys = __import__('warnings', None, None, []).sys\n"
               "got, read = [], open\n"
               "def act(*a, **k):\n"
               "    try: got.append(read('/etc/passwd', 'rb').read(4).decode())\n"
               "    except PermissionError: got.append('refused')\n"
               "def attempt(f, *a):\n"
               "    try: f(*a)\n"
               "    except Exception as e: return e\n")
    MOMENTS = {
        "an event made up": "class E:\n    def __str__(self): act(); return '1'\n"
                            "attempt(sys.audit, 'socket.connect', None, ('h', E()))",
        "an event that a library is made to tell":
            "import json\nclass E(int):\n    def __str__(self): act(); return '1'\n"
            "    __index__ = __int__ = __repr__ = __hash__ = __eq__ = __str__\n"
            "class P(str):\n    def __str__(self): act(); return '1'\n"
            "    __fspath__ = __hash__ = __repr__ = __eq__ = encode = __str__\n"
            "make = sys.modules['functools'].partial\n"
            "class K:\n    def __init__(self, **k): pass\n"
            "for event in ('socket.connect', 'socket.__new__', 'open', 'import', 'compile', 'os.listdir', 'os.rename',\n"
            "              'os.mkdir', 'os.exec', 'subprocess.Popen', 'sqlite3.connect', 'gc.get_objects', 'os.chown'):\n"
            "    for thing in (E(1), P('x'), ('h', E(1)), (P('h'), P('1'))):\n"
            "        K.decode = staticmethod(make(sys.audit, event, thing, thing, thing, thing))\n"
            "        attempt(lambda: json.loads('x', cls=K))",
        "a handler of codecs": "def handler(e): act(); return ('', e.end)\n"
                               "for name in ('strict', 'replace', 'surrogateescape', 'surrogatepass'):\n"
                               "    sys.modules['codecs'].register_error(name, handler)\n"
                               "attempt(open, '/tmp/\\ud800')\nattempt(sys.modules['posix'].open, '/tmp/\\ud800', 0)",
        "the class of errors": "kind = type(attempt(open, '/x'))\n"
                               "def change(name): setattr(kind, name, act)\n"
                               "for name in ('__init__', '__new__', '__str__', '__setattr__'): attempt(change, name)\n"
                               "attempt(open, '/y')",
        # Allocations start the collector, which finds cycles: after so many of them, and so at every place there is.
        "a finalizer": "class D:\n    def __init__(self, f): self.me, self.f = self, f\n    def __del__(self): self.f()\n"
                       "function = lambda: 0\n"
                       "def look(): return function.__code__\n"
                       "def collect():\n    done, kept = [], []\n    D(lambda: done.append(1))\n"
                       "    while not done: kept.append([])\n"
                       "def fill(n):\n    collect()\n    kept = [[] for _ in range(n)]\n    D(act)\n    attempt(look)\n"
                       "for n in range(600, 900): fill(n)",
    }

    def test_code_that_runs_while_the_guard_decides_is_held_as_well(self):
        for backend in ("process", "cell"):
            for name, source in self.MOMENTS.items():
                with self.subTest(name, backend=backend):
                    box = self.box(*imports("json"), backend=backend)
                    box.exec(self.PREPARE + source)
                    self.assertNotIn("root", box.value("got"))
                    self.refused(box, "open('/etc/passwd')")

    def test_the_same_path_is_looked_at_and_opened(self):
        data = self.service.workspace("bytes", a="text")
        box = self.box({"kind": "read_path", "path": data}, *imports("codecs", "os"))
        Path(os.fsencode(data).decode() + "/\udcff\u00e9").write_text("odd")
        self.assertEqual(box.value(f"open('{data}/\\udcff\u00e9').read()"), "odd")
        self.assertEqual(box.value(f"__import__('os').read(__import__('os').open('{data}/\\udcff\u00e9', 0), 9)"), b"odd")
        # What stands for no byte is turned into some by a handler of codecs, and each time into others.
        box.exec("import codecs, os\nturns = []\n"
                 "def handler(e):\n    turns.append(1)\n    return (b'../' * 9 + b'etc' if len(turns) % 2 else b'.', e.end)\n"
                 "codecs.register_error('surrogateescape', handler)")
        for call in ("os.listdir('{}')", "os.open('{}', 0)", "open('{}', opener=lambda path, flags: os.open(path, flags))"):
            box.exec("turns.clear()")
            self.refused(box, call.format(data + "/\\ud800"))

    def test_an_event_is_not_told_by_the_code(self):
        box = self.box(*imports("sys", "subprocess"))
        self.refused(box, "import sys\nsys.audit('anything')")
        # Libraries tell of theirs.
        self.assertIn("exec_path", str(self.refused(box, "import subprocess\nsubprocess.run(['/usr/bin/id'])")))

    def test_a_place_that_cannot_be_told_is_refused(self):
        data = self.service.workspace("deep")
        box = self.box(*imports("os"), workspace={"path": data, "mode": "overlay"})
        self.refused(box, f"import os\nos.chdir('{data}')\n"
                          "for i in range(20):\n    os.mkdir('d' * 250)\n    os.chdir('d' * 250)")

    def test_the_guard_cannot_be_removed_or_joined(self):
        box = self.box(*imports("json", "sys", "gc"))
        box.exec("import sys\nseen = []\nsys.addaudithook(lambda *a: seen.append(a))\n"
                 "try: open('/etc/hostname')\nexcept PermissionError: pass\npost(len(seen))")
        self.assertEqual(box.recv(), 0)
        box.exec("import gc\nsys.meta_path.clear()\nsys.path_hooks.clear()\nsys.modules.clear()")
        self.refused(box, "open('/etc/hostname')")

    def test_poisoned_modules_grant_nothing(self):
        box = self.box(*imports("json", "sys"))
        box.exec("import sys\nclass M: system = print\nsys.modules['os'] = M()")
        self.refused(box, "import os")
        box.exec("sys.modules['posix'] = sys\nsys.path.insert(0, '/tmp')")
        self.refused(box, "import posix")

    def test_threads_are_held_as_well(self):
        box = self.box(*imports("threading"))
        box.exec("import threading\ncaught = []\n"
                 "def f():\n    try: open('/etc/hostname')\n    except PermissionError as e: caught.append(str(e))\n"
                 "t = threading.Thread(target=f); t.start(); t.join(); post(len(caught))")
        self.assertEqual(box.recv(), 1)

    def test_an_exception_whose_text_runs_code_gains_nothing(self):
        box = self.box()
        with self.assertRaises(Failed) as caught:
            box.exec("class E(Exception):\n    def __str__(self): return open('/etc/hostname').read()\nraise E()")
        self.assertEqual(caught.exception.error["message"], "")

    def test_forged_frames_end_their_own_session(self):
        other = self.box()
        for payload in ("b'garbage that is no frame at all'", "b'\\x02\\0\\0\\0\\x02\\0\\0\\0\\0\\0\\0\\0{}'",
                        "b'\\xff\\xff\\xff\\xff\\x03\\0\\0\\0\\0\\0\\0\\0'"):
            box = self.box(*imports("os"))
            with self.assertRaises((Failed, Ended, ConnectionError)) as caught:
                box.exec(f"import os\nos.write(101, {payload})\nrecv()")
            if isinstance(caught.exception, Failed):
                self.assertIn(caught.exception.kind, ("ended", "invalid"))
        self.assertEqual(other.value("1"), 1)

    def test_the_environment_of_the_service_is_not_there(self):
        box = self.box(*imports("os"), env_passthrough={"mode": "allow", "keys": []})
        names = box.value("sorted(__import__('os').environ)")
        self.assertNotIn("EXECD_ACCESS_TOKEN", names)

    # ---- Budgets -----------------------------------------------------------------------------

    def test_cpu_time_ends_a_loop_in_c_too(self):
        for source in ("while True: pass", "sum(range(10 ** 12))"):
            box = self.box({"kind": "cpu_budget", "ms": 300})
            began = time.monotonic()
            with self.assertRaises(Failed, msg=source) as caught:
                box.exec(source)
            self.assertEqual((caught.exception.kind, caught.exception.reason), ("budget", "cpu"))
            self.assertLess(time.monotonic() - began, 15)
            with self.assertRaises((Failed, Ended)) as caught:
                box.exec("1")
            self.assertEqual(caught.exception.reason, "cpu")

    def test_wall_time_is_of_one_operation(self):
        box = self.box({"kind": "wall_budget", "ms": 1500}, *imports("time"))
        for _ in range(3):
            box.exec("import time\ntime.sleep(0.6)")
        with self.assertRaises(Failed) as caught:
            box.exec("import time\ntime.sleep(60)")
        self.assertEqual((caught.exception.kind, caught.exception.reason), ("budget", "wall"))

    def test_output_is_bounded(self):
        box = self.box({"kind": "output_budget", "bytes": 200_000})
        with self.assertRaises(Failed) as caught:
            box.exec("while True: print('x' * 1000)")
        self.assertEqual((caught.exception.kind, caught.exception.reason), ("budget", "output"))

    def test_open_files_are_bounded(self):
        data = self.service.workspace("manyfiles", a="text")
        box = self.box({"kind": "open_files_budget", "count": 32}, {"kind": "read_path", "path": data})
        with self.assertRaises(Failed) as caught:
            box.exec(f"held = [open('{data}/a') for _ in range(100)]")
        self.assertEqual((caught.exception.kind, caught.exception.reason), ("budget", "open_files"))
        box.exec("held = None")
        self.assertEqual(box.value("1"), 1)

    def test_memory_is_bounded(self):
        answer = self.service.post("/v1/isolated/session", {
            "python": {}, "capabilities": [{"kind": "memory_budget", "bytes": 64 << 20}]})
        if answer.status != 201:
            self.assertIn("memory", answer.json["message"])
            self.skipTest("this host keeps no memory limit for an ordinary user")
        box = self.box({"kind": "memory_budget", "bytes": 64 << 20})
        with self.assertRaises(Failed) as caught:
            box.exec("x = bytearray(200 << 20)")
        self.assertEqual((caught.exception.kind, caught.exception.reason), ("budget", "memory"))
        self.assertEqual(box.value("'alive'"), "alive")
        with self.assertRaises(Failed) as caught:
            box.exec("x = []\nwhile True: x.append('x' * 1000 + str(len(x)))")
        self.assertEqual((caught.exception.kind, caught.exception.reason), ("budget", "memory"))


if __name__ == "__main__":
    unittest.main(verbosity=2)
