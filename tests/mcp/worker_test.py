"""The program of a Python session by itself, without a box: the frames that it sends, in their order."""
import os
import subprocess
import sys
import tempfile
import unittest

SOURCE = os.environ.get("GLOVEBOX_WORKER", os.path.join(os.path.dirname(os.path.abspath(__file__)),
                                                        "../../src/python/repl/worker.py"))
BOOT = "import sys; exec(compile(sys.argv.pop(), '<glovebox>', 'exec'), {'__name__': 'glovebox'})"
# As bytes: what the server puts before the program (src/python/python_protocol.h).
KINDS = dict(CODE=2, INPUT=3, INTERRUPT=5, QUIT=6, READY=1, OVER=6, OUTPUT=8, ERROR=9, IMAGE=10, INPUT_WAIT=11, BYE=12)
MOST_TEXT = 1000
NUMBERS = "".join("%s = %r\n" % each for each in dict(KINDS, HEADER=12, MOST_TEXT=MOST_TEXT, MOST_IMAGE=5000).items())
ASK = ("import threading\nseen = []\ndef ask():\n  try: seen.append(input('q? '))\n"
       "  except EOFError: seen.append('end')\n")


class Worker(unittest.TestCase):
    def setUp(self):
        with open(SOURCE) as source:
            text = source.read()
        # As the server starts it (src/mcp/repl/python_repl_worker.cpp).
        environment = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
        self.process = subprocess.Popen([sys.executable, "-u", "-c", BOOT, NUMBERS + text], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, env=environment)
        self.assertEqual(self.until("READY"), "")

    def tearDown(self):
        self.process.stdin.close()
        self.process.wait(60)
        self.process.stdout.close()

    @staticmethod
    def frame(kind, text):
        payload = text.encode()
        return len(payload).to_bytes(4, "little") + bytes([KINDS[kind]]) + bytes(7) + payload

    def send(self, kind, text):
        self.process.stdin.write(self.frame(kind, text))
        self.process.stdin.flush()

    def until(self, wanted):
        """Everything printed before a frame of this kind, which is the next that is no output."""
        printed = b""
        while True:
            head = self.process.stdout.read(12)
            self.assertEqual(len(head), 12, "it has ended: %r" % printed)
            self.assertEqual(head[5:], bytes(7))
            payload = self.process.stdout.read(int.from_bytes(head[:4], "little"))
            self.assertLessEqual(len(payload), MOST_TEXT)
            if head[4] not in (KINDS["OUTPUT"], KINDS["ERROR"]):
                self.assertEqual(head[4], KINDS[wanted], (printed, payload))
                self.payload = payload.decode()
                return printed.decode()
            printed += payload

    def cell(self, code):
        self.send("CODE", code)
        return self.until("READY")

    def test_text_of_the_c_library_comes_before_the_prompt(self):
        self.cell("import ctypes, os, subprocess, sys\nlibrary = ctypes.CDLL(None)")
        self.send("CODE", "sys.__stdout__.write('one ')\nlibrary.puts(b'two')\n_ = os.write(1, b'three ')\n"
                       "_ = subprocess.run(['echo', 'four'])\n_ = library.printf(b'five ')\nname = input('name? ')")
        self.assertEqual(sorted(self.until("INPUT_WAIT").split()), sorted("one two three four five".split()))
        self.assertEqual(self.payload, "name? ")
        self.send("INPUT", "Ada\n")
        self.assertEqual(self.until("READY"), "")

    def test_a_thread_is_answered_while_its_cell_runs(self):
        self.cell(ASK)
        self.send("CODE", "one = threading.Thread(target=ask)\none.start()\none.join()\nseen")
        self.until("INPUT_WAIT")
        self.assertEqual(self.payload, "q? ")
        self.send("INPUT", "open('f', 'w')\n")
        self.assertEqual(self.until("READY"), "[\"open('f', 'w')\"]\n")

    def test_threads_and_the_main_one_take_turns(self):
        self.cell(ASK)
        self.send("CODE", "ones = [threading.Thread(target=ask) for _ in range(3)]\nfor one in ones: one.start()\nask()\n"
                       "for one in ones: one.join()\nsorted(seen)")
        for answer in "abc":
            self.until("INPUT_WAIT")
            self.send("INPUT", answer + "\n")
        self.until("INPUT_WAIT")
        self.send("INPUT", "d\n")
        self.assertEqual(self.until("READY"), "['a', 'b', 'c', 'd']\n")

    def test_with_the_cell_the_wait_of_its_threads_ends(self):
        self.cell(ASK + "started = threading.Event()\n")
        # The main thread goes on when the other has asked.
        self.send("CODE", "import sys\nsend = sys.stdin.fill\ndef fill(prompt):\n  started.set()\n  return send(prompt)\n"
                       "sys.stdin.fill = fill\none = threading.Thread(target=ask)\none.start()\n_ = started.wait()\n"
                       "while not sys.stdin.turn.locked(): pass")
        self.until("INPUT_WAIT")
        self.until("READY")
        # What comes too late is no cell, and no answer for the next who asks.
        self.send("INPUT", "late\n")
        self.assertEqual(self.cell("one.join()\nseen"), "['end']\n")
        self.assertEqual(self.cell("1 + 1"), "2\n")

    def send_with_interrupt(self, code):
        """A cell and its interrupt in one write: the signal is there before the interpreter has read the code."""
        self.process.stdin.write(self.frame("CODE", code) + self.frame("INTERRUPT", ""))
        self.process.stdin.flush()

    def test_an_interrupt_reaches_a_cell_that_has_not_begun(self):
        # What an interpreter does between two cells takes its time.
        with tempfile.TemporaryDirectory() as place:
            gate = os.path.join(place, "gate")
            os.mkfifo(gate)
            self.cell("import os, signal, time\nreal = signal.sigtimedwait\n"
                      "def slow(*words):\n  with open(%r): pass\n  return real(*words)\n"
                      "signal.sigtimedwait = slow" % gate)
            self.send_with_interrupt("time.sleep(1000)")
            with open(os.open(gate, os.O_RDWR), "w"):
                self.assertIn("KeyboardInterrupt", self.until("READY"))

    def test_an_interrupt_that_a_thread_of_an_earlier_cell_takes_is_not_lost(self):
        self.cell("import threading, time\nthreading.Thread(target=threading.Event().wait, daemon=True).start()")
        for _ in range(10):
            self.send_with_interrupt("time.sleep(1000)")
            self.assertIn("KeyboardInterrupt", self.until("READY"))

    def test_an_interrupt_that_comes_too_late_hits_no_other_cell(self):
        self.send("CODE", "import signal\nold = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])\ninput('on')")
        self.until("INPUT_WAIT")
        self.send("INTERRUPT", "")
        self.send("INPUT", "\n")
        self.until("READY")
        self.assertEqual(self.cell("1 + 1"), "2\n")

    def test_no_frame_is_longer_than_its_bound(self):
        self.assertEqual(self.cell("print('x' * 10000)"), "x" * 10000 + "\n")
        self.send("CODE", "input('y' * 10000)")
        self.until("INPUT_WAIT")
        self.assertEqual(self.payload, "y" * MOST_TEXT)
        self.send("INPUT", "\n")
        self.until("READY")

    def test_a_forked_child_takes_nothing_from_its_parent(self):
        code = ("import os\npid = os.fork()\nif pid == 0:\n  try: input()\n  except EOFError: os._exit(7)\n  os._exit(1)\n"
                "os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])")
        self.assertEqual(self.cell(code), "7\n")
        # One that runs out of its cell, too.
        self.cell("import os\npid = os.fork()")
        self.assertEqual(self.cell("_ = os.waitpid(pid, 0)\n'there'"), "'there'\n")


if __name__ == "__main__":
    unittest.main()
