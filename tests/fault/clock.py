"""The wall clock of chosen processes, set to any time while they run. The machine's own clock is not touched.

A program asks the time of the vDSO, a page of code that the kernel maps into every process. Through /proc/PID/mem
the functions in the process's own copy of it are replaced by ones that make the system call and add so many seconds
to what the wall clock says; the clocks that cannot be set are left alone, as they are when a user sets the time.
Nothing traces the process afterwards. A program that it executes has a fresh copy, and the true time; what it forks
has the set one. What the kernel itself stamps, such as files, has the true time.
"""

import ctypes
import os
import platform
import re
import signal
import struct
import subprocess
from pathlib import Path

YEAR = 365 * 86_400
CAN_SET = platform.machine() == "x86_64"

# Each function: its code, with the eight bytes of the offset after its last instruction's `rip`.
# clock_gettime: the call; on success add to the seconds if the clock is CLOCK_REALTIME or its coarse form.
GETTIME = bytes.fromhex("b8e40000000f05" "85c0" "7513" "85ff" "7405" "83ff05" "750a") + b"\x48\x8b\x0d@@@@" + bytes.fromhex(
    "48010e" "c3")
# gettimeofday: its first argument may be null.
GETTIMEOFDAY = bytes.fromhex("b8600000000f05" "4885ff" "740a") + b"\x48\x8b\x0d@@@@" + bytes.fromhex("48010f" "c3")
# time: the answer is in the register, and where the argument points.
TIME = bytes.fromhex("b8c90000000f05") + b"\x48\x03\x05@@@@" + bytes.fromhex("4885ff" "7403" "488907" "c3")
FUNCTIONS = {b"__vdso_clock_gettime": GETTIME, b"__vdso_gettimeofday": GETTIMEOFDAY, b"__vdso_time": TIME}


def find_vdso(pid):
    for line in Path(f"/proc/{pid}/maps").read_text().splitlines():
        if line.endswith("[vdso]"):
            return tuple(int(word, 16) for word in line.split()[0].split("-"))
    raise ProcessLookupError(f"{pid} has no vDSO")


def find_functions(image):
    """Where the functions begin, and where the table of sections does, which no program reads."""
    table, count = struct.unpack_from("<Q", image, 0x28)[0], struct.unpack_from("<H", image, 0x3c)[0]
    sections = [struct.unpack_from("<IIQQQQIIQQ", image, table + 64 * number) for number in range(count)]
    symbols = next(section for section in sections if section[1] == 11)
    names = sections[symbols[6]][4]
    found = {}
    for at in range(symbols[4], symbols[4] + symbols[5], 24):
        name, _, _, _, value, _ = struct.unpack_from("<IBBHQQ", image, at)
        found[image[names + name:image.index(b"\0", names + name)]] = value
    return {name: found[name] for name in FUNCTIONS if name in found}, table, 64 * count


class Clock:
    """The wall clock of one process."""

    def __init__(self, pid):
        self.pid = pid
        self.begin, end = find_vdso(pid)
        with self.memory() as memory:
            self.image = os.pread(memory.fileno(), end - self.begin, self.begin)
        self.functions, table, room = find_functions(self.image)
        self.code, self.at = self.assemble(table + room - 160 & ~15)  # the last ones: the first are looked up again
        assert len(self.code) <= 128

    def memory(self):
        return open(f"/proc/{self.pid}/mem", "r+b", buffering=0)

    def assemble(self, at):
        """All functions, after the eight bytes that they add."""
        code, self.entries = bytearray(8), {}
        for name in self.functions:
            self.entries[name] = at + len(code)
            body = bytearray(FUNCTIONS[name])
            hole = body.index(b"@@@@")
            struct.pack_into("<i", body, hole, -(len(code) + hole + 4))
            code += body
        return code, at

    def set(self, seconds):
        """So many seconds from the true time."""
        with self.memory() as memory:
            descriptor = memory.fileno()
            if os.pread(descriptor, len(self.code) - 8, self.begin + self.at + 8) == self.code[8:]:
                os.pwrite(descriptor, struct.pack("<q", seconds), self.begin + self.at)
                return
            struct.pack_into("<q", self.code, 0, seconds)
            os.pwrite(descriptor, self.code, self.begin + self.at)
            with Stopped(self.pid, [(self.begin + at, self.begin + at + 5) for at in self.functions.values()]):
                for name, at in self.functions.items():  # a jump
                    os.pwrite(descriptor, struct.pack("<Bi", 0xE9, self.entries[name] - at - 5), self.begin + at)


class Stopped:
    """Stops a process while no thread of it is within the given addresses."""

    def __init__(self, pid, places):
        self.pid, self.places = pid, places

    def is_there(self):
        for task in Path(f"/proc/{self.pid}/task").iterdir():
            words = (task / "syscall").read_text().split()
            if words[0] == "running":
                return True
            if any(begin < int(words[-1], 16) < end for begin, end in self.places):
                return True
        return False

    def __enter__(self):
        if is_traced(self.pid):  # by start(), and stopped by that
            return self
        while True:
            os.kill(self.pid, signal.SIGSTOP)
            for _ in range(1000):
                if not self.is_there():
                    return self
                os.sched_yield()
            os.kill(self.pid, signal.SIGCONT)

    def __exit__(self, *_):
        if not is_traced(self.pid):
            os.kill(self.pid, signal.SIGCONT)


def is_traced(pid):
    return re.search(r"^TracerPid:\s+[1-9]", Path(f"/proc/{pid}/status").read_text(), re.M) is not None


def ptrace(request, pid):
    libc = ctypes.CDLL(None, use_errno=True)
    libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
    libc.ptrace.restype = ctypes.c_long
    if libc.ptrace(request, pid, None, None) != 0:
        raise OSError(ctypes.get_errno(), "ptrace")


def start(words, seconds, **more):
    """A program whose clock is set before its first instruction. `more` is subprocess.Popen's."""
    traceme, detach = 0, 17
    process = subprocess.Popen(words, preexec_fn=lambda: ptrace(traceme, 0), **more)
    _, status = os.waitpid(process.pid, os.WUNTRACED)
    assert os.WIFSTOPPED(status) and os.WSTOPSIG(status) == signal.SIGTRAP, status
    try:
        Clock(process.pid).set(seconds)
    finally:
        ptrace(detach, process.pid)
    return process
