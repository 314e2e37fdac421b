"""The tool `repl` as agents know it: replies to the letter, time, interrupts, ends, large output."""
import base64
import contextlib
import json
import os
import re
import time
import unittest

from client import Server
from inherit_test import IDLE, INTERRUPT, RESTART, RESTARTED, SLEEP, McpTest


# Text that goes past Python's own stream, and what is to be seen of it.
RAW = ("import ctypes, os, subprocess, sys\nlibrary = ctypes.CDLL(None)\n"
       "def everything():\n  sys.__stdout__.write('one\\n')\n  library.puts(b'two')\n"
       "  os.write(1, b'three\\n')\n  subprocess.run(['echo', 'four'])\n  library.printf(b'five ')")
RAW_TEXT = "one\ntwo\nthree\nfour\nfive "


def resident(server):
    """Bytes of memory that the server's process has."""
    with open("/proc/%d/statm" % server.process.pid) as statm:
        return int(statm.read().split()[1]) * os.sysconf("SC_PAGESIZE")


class ExplicitTest(McpTest):
    words = ("--sandbox", "workspace-write")

    def setUp(self):
        super().setUp()
        self.start()

    def until(self, reply, words):
        """Polls until the output has these words; all the text."""
        text = reply.text
        while words not in text:
            text += self.repl("", None, 1000).text
        return text


class Python(ExplicitTest):
    def test_01_an_expression_is_shown(self):
        self.assertEqual(self.repl("1+1").content, [{"type": "text", "text": "2\n"}])
        self.assertEqual(self.repl("x = 1").content, [{"type": "text", "text": ""}])

    def test_02_state_survives_errors(self):
        self.repl("x = 41")
        reply = self.repl("x += 1\n1/0")
        self.assertFalse(reply.is_error)
        self.assertTrue(reply.text.startswith("stderr: Traceback (most recent call last):\n"))
        self.assertNotIn("glovebox", reply.text)
        self.assertEqual(self.repl("x").text, "42\n")

    def test_03_and_04_timeouts_return_early(self):
        self.repl("1")
        reply = self.repl("import time\nprint('a')\ntime.sleep(1)\nprint('b')", None, 300)
        self.assertEqual(reply.texts[0], "a\n")
        self.assertRegex(reply.texts[-1],
                         r"^<<repl status: busy, write_stdin timeout reached; elapsed_ms=\d+00>>$")
        self.assertEqual(self.repl("", None, 10_000).text, "b\n")
        began = time.monotonic()
        self.assertIn("status: busy", self.repl("time.sleep(60)", None, 0).text)
        self.assertLess(time.monotonic() - began, 20)
        answer = self.server.call("repl", {"input": "1", "timeout_ms": -1})
        self.assertEqual(answer["error"]["code"], -32602)

    def test_05_and_06_busy_and_idle(self):
        self.repl(SLEEP, None, 0)
        reply = self.repl("open('f', 'w')", None, 0)
        self.assertEqual(reply.texts[-1], "[repl] input discarded while worker busy")
        self.repl(INTERRUPT)
        self.assertFalse(os.path.exists(self.cwd + "/f"))
        self.assertEqual(self.repl("").text, IDLE)

    def test_07_and_08_restarts(self):
        self.repl("x = 1")
        self.assertEqual(self.repl(RESTART).content, [{"type": "text", "text": RESTARTED}])
        self.assertIn("NameError", self.repl("x").text)
        self.assertEqual(self.repl(RESTART + "2+2").texts, [RESTARTED, "4\n"])

    def test_09_a_restart_while_busy_is_prompt(self):
        self.until(self.repl(SLEEP, None, 0), "begun")
        began = time.monotonic()
        reply = self.repl(RESTART)
        self.assertLess(time.monotonic() - began, 20)
        self.assertEqual(reply.texts[-1], RESTARTED)
        self.assertEqual(self.repl("1").text, "1\n")

    def test_10_to_12_interrupts(self):
        self.until(self.repl(SLEEP, None, 0), "begun")
        self.assertIn("KeyboardInterrupt", self.repl(INTERRUPT).text)
        self.repl("input('q')")
        self.assertIn("KeyboardInterrupt", self.repl(INTERRUPT).text)
        self.until(self.repl(SLEEP, None, 0), "begun")
        reply = self.repl(INTERRUPT + "3+3")
        self.assertIn("KeyboardInterrupt", reply.text)
        self.assertEqual(reply.texts[-1], "6\n")
        self.assertEqual(self.repl(INTERRUPT).text, IDLE)
        self.assertEqual(self.repl("1").text, "1\n")

    def test_an_interrupt_gets_through_while_a_call_waits(self):
        self.repl("1")
        waiting = self.server.start_repl("import time\ntime.sleep(100)")
        interrupting = self.server.start_repl(INTERRUPT)
        texts = [self.server.answer(number)["result"]["content"][0]["text"]
                 for number in (waiting, interrupting)]
        self.assertTrue(any("KeyboardInterrupt" in text for text in texts), texts)

    def test_13_and_14_standard_input(self):
        self.assertEqual(self.repl("name = input('name: ')").text, "name: ")
        self.assertEqual(self.repl("Ada\nnot code").text, "")
        self.assertEqual(self.repl("name").text, "'Ada'\n")
        self.assertEqual(self.repl("import sys; sys.stdin.readline()").text,
                         "<<repl status: waiting for input>>")
        self.assertEqual(self.repl("line").text, "'line\\n'\n")
        self.assertIn("(Pdb) ", self.repl("import pdb; pdb.set_trace(); y = 5").text)
        self.assertIn("(Pdb) ", self.repl("1 + 6").text)
        self.repl("c")
        self.assertEqual(self.repl("y").text, "5\n")

    def test_15_what_does_not_compile_does_nothing(self):
        self.assertIn("SyntaxError", self.repl("z = 1\nz +").text)
        self.assertIn("NameError", self.repl("z").text)
        self.assertIn("SyntaxError", self.repl("z = 1\nreturn").text)
        self.assertIn("NameError", self.repl("z").text)
        self.assertIn("IndentationError", self.repl("if True:").text)

    def test_16_the_displayhook_is_the_users(self):
        self.repl("import sys\nsys.displayhook = lambda value: print('shown', value)")
        self.assertEqual(self.repl("5").text, "shown 5\n")
        self.repl("sys.displayhook = sys.__displayhook__\n1/0")
        self.assertIn("ZeroDivisionError", self.repl("sys.last_value").text)

    def test_17_an_exit_ends_the_session(self):
        reply = self.repl("import atexit, sys\natexit.register(print, 'bye')\nsys.exit(3)")
        self.assertEqual(reply.text, "bye\n[repl] session ended\n")
        self.assertIn("NameError", self.repl("atexit").text)
        self.assertEqual(self.repl("import os; os._exit(4)").text,
                         "[repl] worker exited with status 4\n")
        self.assertEqual(self.repl("import os; os.kill(os.getpid(), 9)").text,
                         "[repl] worker exited with signal 9\n")
        self.assertEqual(self.repl("1").text, "1\n")

    def test_18_and_21_streams_keep_their_order(self):
        reply = self.repl("import os, subprocess, sys\nprint('one')\nsys.stderr.write('two\\n')\n"
                          "print('three')\nsubprocess.run(['echo', 'four'])\n"
                          "_ = os.write(1, b'five\\n> ')\nprint('six')")
        self.assertEqual(reply.texts[:2], ["one\n", "stderr: two\n"])
        self.assertEqual("".join(reply.texts[2:]),
                         "three\nfour\nfive\n> six\n")

    def test_19_children_have_no_part_in_the_session(self):
        self.assertEqual(self.repl("import subprocess\n"
                                   "subprocess.run(['cat'], capture_output=True).stdout").text,
                         "b''\n")
        code = ("import os\npid = os.fork()\nif pid == 0:\n  try:\n    input()\n"
                "  except EOFError:\n    os._exit(7)\n  os._exit(1)\n"
                "os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])")
        self.assertEqual(self.repl(code).text, "7\n")
        listed = self.repl("subprocess.run(['sh', '-c', 'ls /proc/self/fd | tr \"\\\\n\" \" \"'],"
                           "capture_output=True, text=True).stdout").text
        self.assertEqual(listed, "'0 1 2 3 '\n")  # 3 is ls reading the directory

    def test_20_an_end_does_not_wait_for_those_left_behind(self):
        began = time.monotonic()
        self.repl("import subprocess, sys\nsubprocess.Popen(['sleep', '60'])\nsys.exit()")
        self.assertLess(time.monotonic() - began, 20)

    def test_asyncio_and_unix_sockets_work_without_network(self):
        code = ("import asyncio, socket\nasync def main():\n"
                "  return await asyncio.to_thread(lambda: 5)\nprint(asyncio.run(main()))\n"
                "a, b = socket.socketpair()\na.send(b'x')\nprint(b.recv(1))")
        self.assertEqual(self.repl(code, None, 20_000).text, "5\nb'x'\n")

    def test_28_the_network_is_off(self):
        import socket
        listener = socket.create_server(("127.0.0.1", 0))
        port = listener.getsockname()[1]
        reply = self.repl("import socket\nsocket.create_connection(('127.0.0.1', %d), 5)" % port)
        self.assertIn("Error", reply.text)
        listener.close()

    def test_bytes_that_are_no_text(self):
        reply = self.repl("import os\n_ = os.write(1, b'a\\xff\\xc3')\n_ = os.write(1, b'\\xa9z')")
        self.assertEqual(reply.text, "a\ufffd\u00e9z")

    def test_26_output_between_calls_comes_first(self):
        self.repl("import threading, time\n"
                  "threading.Timer(0.3, lambda: print('late')).start()")
        text = ""
        while "late" not in text:
            text += self.repl("", None, 50).text
        self.assertEqual(text.replace(IDLE, ""), "late\n")

    def test_30_the_temporary_directory_is_empty_after_a_restart(self):
        path = self.repl("import tempfile\nopen(tempfile.gettempdir() + '/f', 'w')\n"
                         "tempfile.gettempdir()").text
        again = self.repl(RESTART + "import tempfile, os\nprint(os.listdir(tempfile.gettempdir()))\n"
                          "tempfile.gettempdir()").texts[-1]
        self.assertEqual(again, "[]\n" + path)

    def test_31_a_broken_virtual_environment_is_passed_over(self):
        os.makedirs(self.cwd + "/.venv/bin")
        with open(self.cwd + "/.venv/bin/python", "w") as broken:
            broken.write("#!/nowhere\n")
        os.chmod(self.cwd + "/.venv/bin/python", 0o755)
        self.assertEqual(self.repl("1+1").text, "2\n")

    def test_a_python_that_was_asked_for_is_used_or_nothing_is(self):
        self.server.close()
        self.start(*self.words, "--python", "/usr/bin/python3")
        self.assertEqual(self.repl("import sys\nsys.executable").text, "'/usr/bin/python3'\n")
        self.server.close()
        self.start(*self.words, "--python", "/tmp/venv/bin/python")
        self.assertRefused(self.repl("1"), "/tmp/venv/bin/python was tried")

    def test_the_environment_is_scrubbed(self):
        self.server.close()
        self.server = Server(*self.words, cwd=self.cwd, env={"API_TOKEN": "hunter2"})
        self.server.initialize()
        self.assertEqual(self.repl("import os\nos.environ.get('API_TOKEN')").text, "")
        self.assertEqual(self.repl("'hunter2' in str(dict(os.environ))").text, "False\n")


class LargeOutput(ExplicitTest):
    def test_23_the_threshold_and_the_preview(self):
        self.assertEqual(len(self.repl("print('x' * 4374)").text), 4375)
        reply = self.repl("for i in range(1000): print('line', i)")
        match = re.search(r"\.\.\.\[middle truncated; shown lines 1-(\d+) and (\d+)-1000 of 1000 "
                          r"total; full output: (/.*/transcript\.txt)\]\.\.\.", reply.text)
        self.assertTrue(match, reply.text[:200])
        shown = reply.text.splitlines()
        self.assertEqual(shown[int(match[1]) - 1], "line %d" % (int(match[1]) - 1))
        self.assertEqual(shown[-1], "line 999")
        self.assertEqual(shown[int(match[1]) + 1], "line %d" % (int(match[2]) - 1))
        with open(match[3]) as transcript:
            self.assertEqual(transcript.read(), "".join("line %d\n" % i for i in range(1000)))
        self.server.close()
        self.server = None
        self.assertFalse(os.path.exists(match[3]))

    def test_one_long_line_is_shown_by_characters(self):
        reply = self.repl("print('\u00e9' * 10000)")
        self.assertIn("shown chars 1-2333 and 8836-10001 of 10001 total", reply.text)

    def test_a_flood_does_not_fill_the_server(self):
        self.repl("1")
        before = resident(self.server)
        reply = self.repl("line = 'x' * 1023\nfor i in range(102400): print(line)", None, 110_000)
        self.assertIn("full output: ", reply.text)
        path = reply.text.split("full output: ")[1].split("]")[0]
        self.assertEqual(os.path.getsize(path), 100 << 20)
        self.assertLess(resident(self.server) - before, 32 << 20)


class Pager(McpTest):
    """--oversized-output pager: the same output in pages (25)."""

    def setUp(self):
        super().setUp()
        self.start("--oversized-output", "pager")

    def test_pages_commands_and_the_end(self):
        first = self.repl("for i in range(1000): print('line %03d' % i)")
        self.assertEqual(first.texts[-1], "--More-- (2p, 38.8%, @0..3492/9000)")
        self.assertEqual(first.texts[0], "".join("line %03d\n" % i for i in range(388)))
        self.assertEqual(self.repl("").texts[0].splitlines()[0], "line 388")
        self.assertEqual(self.repl(":/line 9").texts[0].splitlines()[0], "line 900")
        self.assertEqual(self.repl(":n").texts[0].splitlines()[0], "line 901")
        self.assertEqual(self.repl(":seek line 11").texts[0].splitlines()[0], "line 010")
        self.assertEqual(self.repl(":matches -n 1 line 77").texts, ["@6930: line 770\n[pager] 10 matches\n"])
        end = self.repl(":tail 3l")
        self.assertEqual(end.texts[-1], "(END, 100.0%, @8973..9000/9000)")
        self.assertEqual(self.repl("").text, IDLE)
        self.assertEqual(self.repl("1+1").text, "2\n")
        self.assertIn("SyntaxError", self.repl(":tail").text)

    def test_other_code_dismisses_it(self):
        self.repl("print('x' * 9000)")
        self.assertEqual(self.repl("1+1").text, "2\n")
        self.assertEqual(self.repl("").text, IDLE)

    def test_one_mark_for_errors_over_many_pages(self):
        reply = self.repl("import sys\nfor i in range(1000): print('error', i, file=sys.stderr)")
        text = reply.texts[0]
        while "END" not in reply.texts[-1]:
            reply = self.repl("")
            text += reply.texts[0]
        self.assertEqual(text.count("stderr: "), 1)
        self.assertEqual(len(text.splitlines()), 1000)

    def test_a_flood_does_not_fill_the_server(self):
        self.repl("1")
        before = resident(self.server)
        reply = self.repl("line = 'x' * 1023\nfor i in range(102400): print(line)", None, 110_000)
        self.assertIn("[repl] output truncated (older output dropped)", reply.text)
        self.assertLess(resident(self.server) - before, 32 << 20)


class Figures(ExplicitTest):
    """Images of matplotlib (22), with a stand-in of it that writes the smallest PNG there is."""

    PYPLOT = """
import base64
import contextlib
PNG = base64.b64decode("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==")
figures = {}
class Figure:
    def savefig(self, file, format): file.write(PNG)
def figure(number=None):
    number = number or len(figures) + 1
    return figures.setdefault(number, Figure())
def get_fignums(): return sorted(figures)
def close(figure):
    for number in [n for n in figures if figures[n] is figure]: del figures[number]
def show():
    import importlib, os
    importlib.import_module(os.environ["MPLBACKEND"].removeprefix("module://")).show()
"""

    def setUp(self):
        super().setUp()
        os.makedirs(self.cwd + "/matplotlib/backends")
        for name in ("", "backends/"):
            with open(self.cwd + "/matplotlib/" + name + "__init__.py", "w"):
                pass
        with open(self.cwd + "/matplotlib/backends/backend_agg.py", "w") as file:
            file.write("FigureCanvas = FigureManager = object\n")
        with open(self.cwd + "/matplotlib/pyplot.py", "w") as file:
            file.write(self.PYPLOT)
        self.repl("import sys\nsys.path.insert(0, %r)\nfrom matplotlib import pyplot" % self.cwd)

    def kinds(self, reply):
        return [item["type"] for item in reply.content]

    def test_22_a_figure_comes_before_what_is_printed_after_it(self):
        reply = self.repl("print('before')\npyplot.figure()\npyplot.show()\nprint('after')")
        self.assertEqual(self.kinds(reply), ["text", "image", "text"])
        self.assertEqual([reply.texts[0], reply.texts[1]], ["before\n", "after\n"])
        self.assertEqual(reply.images[0]["mimeType"], "image/png")
        self.assertTrue(base64.b64decode(reply.images[0]["data"]).startswith(b"\x89PNG"))

    def test_22_a_figure_comes_after_what_was_written_below_python(self):
        self.repl(RAW)
        reply = self.repl("everything()\n_ = pyplot.figure()\npyplot.show()\nprint('after')")
        self.assertEqual(self.kinds(reply), ["text", "image", "text"])
        self.assertEqual(reply.texts, [RAW_TEXT, "after\n"])

    def test_22_a_figure_that_nobody_showed_comes_at_the_end(self):
        self.assertEqual(self.kinds(self.repl("_ = pyplot.figure()\nprint('x')")), ["text", "image"])

    def test_22_many_figures_go_to_a_bundle(self):
        reply = self.repl("for i in range(6): pyplot.figure()\npyplot.show()")
        self.assertEqual(len(reply.images), 2)
        self.assertIn("first and last images shown inline", reply.text)
        path = reply.text.split("bundle index: ")[1].split("]")[0]
        self.assertEqual(sorted(os.listdir(path + "/images")), ["%03d.png" % (i + 1) for i in range(6)])


class Bash(McpTest):
    def setUp(self):
        super().setUp()
        self.start("--interpreter", "bash")

    def test_state_streams_and_errors(self):
        self.assertEqual(self.repl("cd /usr; x=5; f() { echo f $x; }").text, "")
        self.assertEqual(self.repl("f; pwd").text, "f 5\n/usr\n")
        reply = self.repl("echo wrong >&2; false")
        self.assertEqual((reply.text, reply.is_error), ("stderr: wrong\n", False))

    def test_timeouts_interrupts_and_restarts(self):
        self.repl("x=1")
        reply = self.repl("echo a; sleep 100", None, 300)
        self.assertIn("status: busy", reply.text)
        self.assertEqual(self.repl("echo no", None, 0).texts[-1],
                         "[repl] input discarded while worker busy")
        self.assertNotIn("busy", self.repl(INTERRUPT).text)
        self.assertEqual(self.repl("echo $x").text, "1\n")
        self.assertEqual(self.repl(RESTART + "echo $x").texts, [RESTARTED, "\n"])

    def test_an_exit_ends_the_session(self):
        self.repl("x=1")
        self.assertEqual(self.repl("echo bye; exit 3").text, "bye\n[repl] session ended\n")
        self.assertEqual(self.repl("echo \"[$x]\"").text, "[]\n")

    def test_writes_stay_in_the_workspace(self):
        self.assertEqual(self.repl("echo x > f; cat f").text, "x\n")
        self.assertIn("Read-only", self.repl("echo x > %s/f" % self.other).text)
        self.assertIn("Read-only", self.repl("echo x > .git/config").text)


class Protocol(ExplicitTest):
    def test_versions(self):
        for version in ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"):
            self.assertEqual(self.server.initialize(version)["protocolVersion"], version)
        self.assertEqual(self.server.initialize("1999-01-01")["protocolVersion"], "2025-11-25")

    def test_the_tool_is_described_as_agents_expect(self):
        tools = {tool["name"]: tool for tool in self.server.ask("tools/list")["result"]["tools"]}
        repl = tools["repl"]
        self.assertEqual(repl["annotations"], {"readOnlyHint": False, "destructiveHint": False,
                                               "openWorldHint": False})
        self.assertEqual(repl["inputSchema"]["required"], ["input"])
        self.assertFalse(repl["inputSchema"]["additionalProperties"])
        self.assertNotIn("commit", tools)

    def test_lines_that_are_no_messages(self):
        for line, code in (("{", -32700), ("[]", -32600), ("5", -32600), ("{}", -32600),
                           ('{"jsonrpc":"2.0","id":1,"id":2,"method":"ping"}', -32700),
                           ("[" * 1000, -32700)):
            self.server.send_line(line + "\n")
            answer = self.server.wait(lambda message: message.get("id", 0) is None)
            self.assertEqual(answer["error"]["code"], code, line)
        self.assertEqual(self.server.ask("ping")["result"], {})
        self.assertEqual(self.server.ask("no/such")["error"]["code"], -32601)
        self.assertEqual(self.server.call("no", {})["error"]["code"], -32602)
        for arguments in ({}, {"input": 5}, {"input": "1", "more": 1},
                          {"input": "1", "timeout_ms": "5"}):
            self.assertEqual(self.server.call("repl", arguments)["error"]["code"], -32602)

    def test_cancelling_interrupts(self):
        self.repl("1")
        number = self.server.start_repl("import time\nopen('begun', 'w').close()\ntime.sleep(100)")
        while not os.path.exists(self.cwd + "/begun"):  # a call that has not begun is dropped, and interrupts nothing
            time.sleep(0.01)
        self.server.send({"method": "notifications/cancelled", "params": {"requestId": number}})
        # The call is over without an answer, and its code was interrupted.
        text = ""
        while "KeyboardInterrupt" not in text:
            text += self.repl("", None, 1000).text
        self.assertFalse([m for m in self.server.early if m.get("id") == number])

    def test_progress_is_told_while_a_call_waits(self):
        self.repl("1")
        number = self.server.start_repl("import time\nprint('step 1')\ntime.sleep(2.5)",
                                        {"progressToken": "p"})
        told = self.server.wait(lambda m: m.get("method") == "notifications/progress")["params"]
        self.assertEqual((told["progressToken"], told["message"]), ("p", "step 1"))
        self.server.answer(number)

    def test_several_sessions(self):
        self.repl("x = 'first'")
        self.server.call("session", {"action": "use", "name": "second"})
        self.assertIn("NameError", self.repl("x").text)
        listed = json.loads(self.server.call("session", {"action": "list"})["result"]["content"][0]
                            ["text"])
        self.assertEqual([each["name"] for each in listed], ["main", "second"])
        self.server.call("session", {"action": "close", "name": "second"})
        self.assertEqual(self.repl("x").text, "'first'\n")

    def test_files(self):
        def files(**arguments):
            result = self.server.call("files", arguments)["result"]
            return result["content"][0]["text"], result["isError"]
        self.assertEqual(files(action="write", path="a/b.txt", content="text")[1], False)
        self.assertEqual(files(action="read", path="a/b.txt"), ("text", False))
        self.assertIn("a/b.txt", files(action="search", path=".", pattern="**/*.txt")[0])
        self.assertIn("a", files(action="list", path=".")[0])
        self.assertTrue(files(action="write", path=self.other + "/f", content="x")[1])
        self.assertTrue(files(action="write", path=".git/config", content="x")[1])

    def test_the_sandbox_explains_itself(self):
        self.repl("1")
        text = self.server.call("sandbox", {})["result"]["content"][0]["text"]
        told = json.loads(text)
        self.assertEqual(told["sandbox"]["type"], "workspace-write")
        self.assertIn("deny write=%s/.git" % self.cwd, [rule["what"] for rule in told["rules"]])

    @staticmethod
    def directories_of_servers():
        """Of this user: tests of the other tier run beside."""
        found = set()
        for entry in os.scandir("/tmp"):
            with contextlib.suppress(FileNotFoundError):
                if entry.name.startswith("glovebox-mcp-") and entry.stat(follow_symlinks=False).st_uid == os.getuid():
                    found.add(entry.name)
        return found

    def test_nothing_is_left_behind(self):
        self.repl("1")
        before = self.directories_of_servers()
        self.assertTrue(before)
        self.assertEqual(self.server.close(), 0)
        self.server = None
        self.assertLess(len(self.directories_of_servers()), len(before))
        self.assertEqual(os.listdir(self.cwd), [])


class Denials(McpTest):
    def test_the_sandbox_tells_what_was_refused_and_what_would_allow_it(self):
        self.start("--allow", "connect=127.9.9.9:9")
        self.repl("import socket\ns = socket.socket()\ns.connect_ex(('192.0.2.1', 443))")
        told = json.loads(self.server.call("sandbox", {})["result"]["content"][0]["text"])
        self.assertEqual(len(told["denied"]), 1, told)
        self.assertIn("connect=192.0.2.1:443", told["denied"][0])


class Layered(McpTest):
    def test_changes_and_commit(self):
        self.start("--layered", "--allow-commit")
        self.repl("open('f', 'w').write('new')")
        self.assertFalse(os.path.exists(self.cwd + "/f"))
        diff = self.server.call("changes", {})["result"]["content"][0]["text"]
        self.assertIn("+new", diff)
        result = self.server.call("commit", {})["result"]
        self.assertFalse(result["isError"], result)
        with open(self.cwd + "/f") as file:
            self.assertEqual(file.read(), "new")


if __name__ == "__main__":
    unittest.main()
