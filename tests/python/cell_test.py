"""What the tests of cells share: which interpreters there are, in which worker a cell is, and code that ends one."""

import os
import shutil
import subprocess
from pathlib import Path

from channel import PythonTest, imports, start

# Where the service looks for an interpreter by its name.
SYSTEM = "/usr/local/bin:/usr/bin:/bin"
# From here on a worker holds many cells.
SHARES = (3, 12)
# Ways not to end when told to: to catch what is raised, and never to come back from one call. Each posts when nothing
# can end it any more: inside of the `try`, so that what is raised before the loop or the call is caught as well. (CPython
# 3.11 looks up who catches what is raised at the end of a loop by the instruction before its start.)
STUBBORN = {
    "catches": "def run():\n    try:\n        post(1)\n        while True: len('')\n    finally: run()\nrun()",
    "never returns": "def run():\n    try:\n        post(1)\n        sum(iter(int, 1))\n    finally: run()\nrun()",
}
# Plain Python that runs over the stack of any CPython so far.
BOMBS = {
    "a tuple's hash": "t = ()\nfor _ in range(1_000_000): t = (t,)\nhash(t)",
    "zip": "it = iter([1])\nfor _ in range(1_000_000): it = zip(it)\nnext(it)",
    "map": "it = iter([1])\nfor _ in range(1_000_000): it = map(str, it)\nnext(it)",
    "filter": "it = iter([1])\nfor _ in range(1_000_000): it = filter(None, it)\nnext(it)",
}


def version_of(interpreter):
    code = "import sys; print(*sys.version_info[:2])"
    try:
        done = subprocess.run([interpreter, "-I", "-S", "-c", code], capture_output=True, text=True, check=False)
    except OSError:
        return None
    return tuple(int(part) for part in done.stdout.split()) if done.returncode == 0 else None


def is_shared(interpreter):
    """Whether cells of this interpreter share a worker."""
    return (version_of(interpreter) or (0, 0)) >= SHARES


def find_shared():
    """An interpreter whose cells share a worker: the one that is named, the host's own, or another of the system."""
    named = os.environ.get("GLOVEBOX_SHARED_PYTHON")
    if named and not is_shared(named):
        raise ValueError(f"GLOVEBOX_SHARED_PYTHON={named} is no CPython from 3.12 on")
    for name in filter(None, (named, "python3", "python3.12", "python3.13", "python3.14")):
        path = shutil.which(name, path=SYSTEM)
        if path and is_shared(path):
            return path
    return None


OWN = shutil.which("python3", path=SYSTEM)
SHARED = find_shared()
NEEDS_SHARED = "there is no CPython from 3.12 on here, below which a worker holds one cell (GLOVEBOX_SHARED_PYTHON names one)"


class CellCase(PythonTest):
    interpreter = OWN
    settings = ""

    @classmethod
    def start(cls):
        return start(settings=cls.settings)

    def cell(self, *capabilities, **order):
        return self.box(*capabilities, backend="cell", python={"interpreter": self.interpreter}, **order)

    def place(self, cell):
        """The pid namespace of a cell with a grant of `os`: one number for each worker's box."""
        return cell.value("__import__('os').stat('/proc/self/ns/pid').st_ino")

    def together(self, *cells):
        """Whether cells with a grant of `os` are in one worker."""
        return len({self.place(cell) for cell in cells}) == 1

    def workers(self):
        """Pids of interpreters that serve cells, of this service: those that wait for one too."""
        found = []
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                command = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            if b"cells" in command and str(self.service.state).encode() in b"".join(command):
                found.append(int(pid))
        return found

    def worker_of(self, cell):
        """The pid of a cell's worker, of a cell with a grant of `os`."""
        name = f"pid:[{self.place(cell)}]"
        return next(pid for pid in self.workers() if os.readlink(f"/proc/{pid}/ns/pid") == name)


def parent_of(pid):
    return int(Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[1])


def with_os(*names):
    return imports("os", *names)
