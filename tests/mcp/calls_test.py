"""Calls beside one another, standard input that is never code, output in its order, and arguments that are none."""
import os
import unittest

from inherit_test import INTERRUPT, RESTART, RESTARTED, SLEEP, McpTest
from repl_test import RAW, RAW_TEXT, ExplicitTest

DISCARDED = "[repl] input discarded"


class Line(ExplicitTest):
    """Calls with code take turns."""

    def text(self, number):
        return "".join(item["text"] for item in self.server.answer(number)["result"]["content"])

    def wait_in(self, name):
        """Until code in the box has made this file."""
        while not os.path.exists(os.path.join(self.cwd, name)):
            self.repl("", None, 20)

    def test_code_that_comes_meanwhile_runs_afterwards_and_in_order(self):
        numbers = [self.server.start_repl("import time\ntime.sleep(0.5)\nseen = [0]\n0")]
        numbers += [self.server.start_repl("seen.append(%d)\nlen(seen)" % i) for i in range(1, 8)]
        self.assertEqual([self.text(number) for number in numbers],
                         ["0\n"] + ["%d\n" % (i + 1) for i in range(1, 8)])
        self.assertEqual(self.repl("seen").text, "[0, 1, 2, 3, 4, 5, 6, 7]\n")

    def test_one_whose_time_is_over_before_its_turn_is_not_run(self):
        self.repl("1")
        first = self.server.start_repl(SLEEP)
        second = self.server.start_repl("open('f', 'w')", timeout_ms=100)
        told = self.text(second)
        self.assertIn(DISCARDED, told)
        told += self.repl(INTERRUPT).text
        # What the code printed is told once, by the call that is answered first.
        self.assertEqual((told + self.text(first)).count("begun"), 1)
        self.assertFalse(os.path.exists(self.cwd + "/f"))

    def test_when_the_call_before_gives_up_waiting_it_is_discarded(self):
        self.repl("1")
        first = self.server.start_repl(SLEEP, timeout_ms=500)
        second = self.server.start_repl("open('f', 'w')")
        self.assertIn("status: busy", self.text(first))
        self.assertIn(DISCARDED, self.text(second))
        self.repl(INTERRUPT)
        self.assertFalse(os.path.exists(self.cwd + "/f"))

    def test_a_cancelled_one_is_not_run_and_stops_nothing(self):
        self.repl("1")
        first = self.server.start_repl("import time\nopen('begun', 'w').close()\ntime.sleep(1)\n'whole'")
        self.wait_in("begun")
        second = self.server.start_repl("open('f', 'w')")
        third = self.server.start_repl("'third'")
        self.server.send({"method": "notifications/cancelled", "params": {"requestId": second}})
        self.assertEqual(self.text(first), "'whole'\n")
        self.assertEqual(self.text(third), "'third'\n")
        self.assertFalse(os.path.exists(self.cwd + "/f"))

    def test_a_restart_does_not_wait_and_what_waited_is_not_run_in_another_session(self):
        self.repl("1")
        first = self.server.start_repl("open('begun', 'w').close()\n" + SLEEP)
        self.wait_in("begun")
        second = self.server.start_repl("open('f', 'w')")
        self.assertEqual(self.repl(RESTART).texts[-1], RESTARTED)
        self.text(first)
        self.assertIn("restarted while the call waited", self.text(second))
        self.assertEqual(self.repl("1+1").text, "2\n")
        self.assertFalse(os.path.exists(self.cwd + "/f"))

    def test_code_that_waited_is_no_answer(self):
        self.repl("1")
        first = self.server.start_repl("import time\ntime.sleep(0.5)\nname = input('name? ')")
        second = self.server.start_repl("open('f', 'w')")
        self.assertEqual(self.text(first), "name? ")
        self.assertIn(DISCARDED, self.text(second))
        self.repl("Ada")
        self.assertEqual(self.repl("name").text, "'Ada'\n")
        self.assertFalse(os.path.exists(self.cwd + "/f"))


class StandardInput(ExplicitTest):
    def sessions(self):
        return self.server.call("session", {"action": "list"})["result"]["content"][0]["text"]

    def test_a_thread_gets_the_answer_while_its_cell_waits_for_it(self):
        code = ("import asyncio\nasync def main():\n  return await asyncio.to_thread(input, 'name? ')\n"
                "asyncio.run(main())")
        self.assertEqual(self.repl(code).text, "name? ")
        self.assertEqual(self.repl("Ada").text, "'Ada'\n")

    def test_several_threads_are_answered_one_after_the_other(self):
        self.repl("import threading\nseen = []\ndef ask(): seen.append(input('q? '))")
        self.assertEqual(self.repl("threads = [threading.Thread(target=ask) for _ in range(2)]\n"
                                   "for one in threads: one.start()\nfor one in threads: one.join()").text, "q? ")
        self.assertEqual(self.repl("first").text, "q? ")
        self.repl("second")
        self.assertEqual(self.repl("seen").text, "['first', 'second']\n")

    def test_an_answer_that_no_code_waits_for_any_more_is_not_code(self):
        self.repl("import signal, threading, time\n"
                  "def ask():\n  try: print('got', input('q? '))\n  except EOFError: print('no answer')\n"
                  "def ring(*_): raise TimeoutError\n_ = signal.signal(signal.SIGALRM, ring)")
        for code in ("threading.Thread(target=ask).start()\ntime.sleep(1.5)", "signal.alarm(1)\ninput('q? ')",
                     "threading.Thread(target=ask).start()\ntime.sleep(1.5)\nimport os; os._exit(3)"):
            with self.subTest(code):
                self.assertEqual(self.repl(code).text, "q? ")
                while "waiting" in self.sessions():
                    pass
                reply = self.repl("open('f', 'w')")
                self.assertIn("no longer waits", reply.text)
                self.assertFalse(os.path.exists(self.cwd + "/f"))
        self.assertEqual(self.repl("1+1").text, "2\n")

    def test_a_thread_of_no_cell_reads_the_end(self):
        self.repl("import threading, time\ndone = []\ndef ask():\n  time.sleep(0.3)\n"
                  "  try: input('q? ')\n  except EOFError as error: done.append(str(error))\n"
                  "threading.Thread(target=ask).start()")
        while self.repl("len(done)").text != "1\n":
            pass
        self.assertIn("only while a cell runs", self.repl("done").text)

    def test_an_interrupt_reaches_a_cell_whose_thread_waits(self):
        self.assertEqual(self.repl("import threading\none = threading.Thread(target=input, args=('q? ',))\n"
                                   "one.start()\none.join()").text, "q? ")
        self.assertIn("KeyboardInterrupt", self.repl(INTERRUPT).text)
        # What the thread says of its end may come with a later answer.
        self.assertTrue(self.repl("1+1").text.endswith("2\n"))


class ChangedSandbox(McpTest):
    def test_an_answer_under_another_sandbox_is_not_code(self):
        self.start()
        self.assertEqual(self.repl("name = input('name? ')", self.ww).text, "name? ")
        reply = self.repl("open(%r, 'w')" % (self.other + "/f"), self.fa)
        self.assertIn("sandbox policy changed", reply.text)
        self.assertIn("no longer waits", reply.text)
        self.assertFalse(os.path.exists(self.other + "/f"))


class Order(ExplicitTest):
    def test_what_was_written_below_python_comes_before_the_prompt(self):
        self.repl(RAW)
        self.assertEqual(self.repl("everything()\nname = input('name? ')").text, RAW_TEXT + "name? ")
        self.assertEqual(self.repl("Ada").text, "")


class Arguments(ExplicitTest):
    def test_a_timeout_is_a_whole_number(self):
        for wrong in (1.5, -1, -0.5, "100", True, [1], {}, 1e300, 86_400_001, 2**63, 2**64):
            answer = self.server.call("repl", {"input": "open('f', 'w')", "timeout_ms": wrong})
            self.assertEqual(answer["error"]["code"], -32602, wrong)
            self.assertIn("timeout_ms must be a whole number", answer["error"]["message"])
        self.assertFalse(os.path.exists(self.cwd + "/f"))
        for right in (None, 60_000, 60_000.0, 86_400_000):
            self.assertEqual(self.server.call("repl", {"input": "1+1", "timeout_ms": right})["result"]["content"],
                             [{"type": "text", "text": "2\n"}])

    def test_keys_that_come_twice_are_refused(self):
        line = ('{"jsonrpc": "2.0", "id": 1000, "method": "tools/call", "params": {"name": "repl", "arguments": '
                '{"input": "1", "input": "open(\'f\', \'w\')"}}}\n')
        self.server.send_line(line)
        answer = self.server.wait(lambda message: "error" in message)
        self.assertIn("'input' twice", answer["error"]["message"])
        self.assertFalse(os.path.exists(self.cwd + "/f"))


del ExplicitTest, McpTest  # tests of theirs run where they are

if __name__ == "__main__":
    unittest.main()
