"""The program of a Python session by itself, without a box: the frames that it sends, in their order."""
import os
import subprocess
import sys
import tempfile
import unittest

SOURCE = os.environ.get("GLOVEBOX_WORKER", os.path.join(os.path.dirname(os.path.abspath(__file__)),
                                                        "../../src/python/repl/worker.py"))
BOOT = "import sys; exec(compile(sys.argv.pop(), '<glovebox>', 'exec'), {'__name__': 'glovebox'})"
ASK = ("import threading\nseen = []\ndef ask():\n  try: seen.append(input('q? '))\n"
       "  except EOFError: seen.append('end')\n")


class Worker(unittest.TestCase):
    def setUp(self):
        with open(SOURCE) as source:
            text = source.read()
        # As the server starts it (src/mcp/repl/python_repl_worker.cpp).
        environment = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
        self.process = subprocess.Popen([sys.executable, "-u", "-c", BOOT, text], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, env=environment)
        self.assertEqual(self.until("R"), "")

    def tearDown(self):
        self.process.stdin.close()
        self.process.wait(60)
        self.process.stdout.close()

    def send(self, kind, text):
        payload = text.encode()
        self.process.stdin.write(kind.encode() + len(payload).to_bytes(4, "little") + payload)
        self.process.stdin.flush()

    def until(self, wanted):
        """Everything printed before a frame of this kind, which is the next that is no output."""
        printed = b""
        while True:
            head = self.process.stdout.read(5)
            self.assertEqual(len(head), 5, "it has ended: %r" % printed)
            payload = self.process.stdout.read(int.from_bytes(head[1:], "little"))
            if head[:1] not in (b"O", b"E"):
                self.assertEqual(head[:1].decode(), wanted, (printed, payload))
                self.payload = payload.decode()
                return printed.decode()
            printed += payload

    def cell(self, code):
        self.send("C", code)
        return self.until("R")

    def test_text_of_the_c_library_comes_before_the_prompt(self):
        self.cell("import ctypes, os, subprocess, sys\nlibrary = ctypes.CDLL(None)")
        self.send("C", "sys.__stdout__.write('one ')\nlibrary.puts(b'two')\n_ = os.write(1, b'three ')\n"
                       "_ = subprocess.run(['echo', 'four'])\n_ = library.printf(b'five ')\nname = input('name? ')")
        self.assertEqual(sorted(self.until("W").split()), sorted("one two three four five".split()))
        self.assertEqual(self.payload, "name? ")
        self.send("S", "Ada\n")
        self.assertEqual(self.until("R"), "")

    def test_a_thread_is_answered_while_its_cell_runs(self):
        self.cell(ASK)
        self.send("C", "one = threading.Thread(target=ask)\none.start()\none.join()\nseen")
        self.until("W")
        self.assertEqual(self.payload, "q? ")
        self.send("S", "open('f', 'w')\n")
        self.assertEqual(self.until("R"), "[\"open('f', 'w')\"]\n")

    def test_threads_and_the_main_one_take_turns(self):
        self.cell(ASK)
        self.send("C", "ones = [threading.Thread(target=ask) for _ in range(3)]\nfor one in ones: one.start()\nask()\n"
                       "for one in ones: one.join()\nsorted(seen)")
        for answer in "abc":
            self.until("W")
            self.send("S", answer + "\n")
        self.until("W")
        self.send("S", "d\n")
        self.assertEqual(self.until("R"), "['a', 'b', 'c', 'd']\n")

    def test_with_the_cell_the_wait_of_its_threads_ends(self):
        self.cell(ASK + "started = threading.Event()\n")
        # The main thread goes on when the other has asked.
        self.send("C", "import sys\nsend = sys.stdin.fill\ndef fill(prompt):\n  started.set()\n  return send(prompt)\n"
                       "sys.stdin.fill = fill\none = threading.Thread(target=ask)\none.start()\n_ = started.wait()\n"
                       "while not sys.stdin.turn.locked(): pass")
        self.until("W")
        self.until("R")
        # What comes too late is no cell, and no answer for the next who asks.
        self.send("S", "late\n")
        self.assertEqual(self.cell("one.join()\nseen"), "['end']\n")
        self.assertEqual(self.cell("1 + 1"), "2\n")

    def send_with_interrupt(self, code):
        """A cell and its interrupt in one write: the signal is there before the interpreter has read the code."""
        payload = code.encode()
        self.process.stdin.write(b"C" + len(payload).to_bytes(4, "little") + payload + b"I" + bytes(4))
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
                self.assertIn("KeyboardInterrupt", self.until("R"))

    def test_an_interrupt_that_a_thread_of_an_earlier_cell_takes_is_not_lost(self):
        self.cell("import threading, time\nthreading.Thread(target=threading.Event().wait, daemon=True).start()")
        for _ in range(10):
            self.send_with_interrupt("time.sleep(1000)")
            self.assertIn("KeyboardInterrupt", self.until("R"))

    def test_an_interrupt_that_comes_too_late_hits_no_other_cell(self):
        self.send("C", "import signal\nold = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])\ninput('on')")
        self.until("W")
        self.send("I", "")
        self.send("S", "\n")
        self.until("R")
        self.assertEqual(self.cell("1 + 1"), "2\n")

    def test_a_forked_child_takes_nothing_from_its_parent(self):
        code = ("import os\npid = os.fork()\nif pid == 0:\n  try: input()\n  except EOFError: os._exit(7)\n  os._exit(1)\n"
                "os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])")
        self.assertEqual(self.cell(code), "7\n")
        # One that runs out of its cell, too.
        self.cell("import os\npid = os.fork()")
        self.assertEqual(self.cell("_ = os.waitpid(pid, 0)\n'there'"), "'there'\n")


if __name__ == "__main__":
    unittest.main()
