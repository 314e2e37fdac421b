"""The decision table: what a call does, by the session's state and the sandbox that came with it.

Rows are named by their number in the table of docs/reference/mcp.md. Every test talks to the real
server over its standard streams, and the boxes are real.
"""
import errno
import os
import re
import select
import shutil
import socket
import socket
import tempfile
import time
import unittest

from client import (BAD, Server, full_access, managed, path_entry, read_only, special, state,
                    workspace_write)

MISSING = "requires Codex per-tool-call sandbox metadata"
PARSE = "failed to parse Codex sandbox state metadata"
IDLE = "<<repl status: idle>>"
RESTARTED = "[repl] new session started"
SLEEP = "import time\nprint('begun')\ntime.sleep(100)"
INTERRUPT, RESTART = "\x03", "\x04"


class McpTest(unittest.TestCase):
    words = ("--sandbox", "inherit")

    def setUp(self):
        # Not below /tmp or /var/tmp: a box has those of its own.
        where = os.environ.get("GLOVEBOX_TEST_PLACE", "/srv")
        self.place = os.path.realpath(tempfile.mkdtemp(prefix="glovebox-mcp-test-", dir=where))
        os.chmod(self.place, 0o755)
        self.cwd = os.path.join(self.place, "work")
        os.mkdir(self.cwd)
        self.other = os.path.join(self.place, "other")
        os.mkdir(self.other)
        self.server = None

    def tearDown(self):
        if self.server is not None:
            self.server.close()
        shutil.rmtree(self.place)

    def start(self, *words):
        self.server = Server(*(words or self.words), cwd=self.cwd)
        self.capabilities = self.server.initialize()["capabilities"]
        self.ww, self.ro = workspace_write(self.cwd), read_only(self.cwd)
        self.fa = full_access(self.cwd)
        return self.server

    def repl(self, text, meta=None, timeout_ms=None):
        return self.server.repl(text, meta, timeout_ms)

    def begin_sleep(self, meta):
        """Leaves a request pending; its first output was told."""
        reply = self.repl(SLEEP, meta, 0)
        while "begun" not in reply.text:
            self.assertIn("status: busy", reply.text)
            reply = self.repl("", None, 20)

    def assertRefused(self, reply, words):
        self.assertTrue(reply.is_error, reply)
        self.assertIn(words, reply.text)


class Capability(McpTest):
    def test_row_01_inherit_asks_for_the_state(self):
        for mode in ("inherit", "inherit-codex"):
            self.start("--sandbox", mode)
            self.assertIn("codex/sandbox-state-meta", self.capabilities["experimental"])
            self.assertEqual(self.server.close(), 0)
            self.server = None

    def test_row_02_explicit_modes_do_not(self):
        for words in ((), ("--sandbox", "read-only")):
            self.start(*(words or ("--sandbox", "workspace-write")))
            self.assertNotIn("experimental", self.capabilities)
            self.server.close()
            self.server = None

    def test_row_03_the_last_mode_counts(self):
        for words in (("--sandbox", "workspace-write"), ("--config", "sandbox_mode=workspace-write")):
            self.start("--sandbox", "inherit", *words)
            self.assertNotIn("experimental", self.capabilities)
            self.assertEqual(self.repl("open('f', 'w').write('x')").text, "1\n")
            self.server.close()
            self.server = None

    def test_row_04_a_root_for_a_read_only_sandbox_is_refused(self):
        server = Server("--sandbox", "read-only", "--add-writable-root", "/x", "--sandbox",
                        "inherit", cwd=self.cwd)
        self.assertEqual(server.process.wait(60), 125)
        self.assertIn("--add-writable-root can only be used while sandbox mode is workspace-write",
                      server.errors())
        server.close()

    def test_row_05_and_06_refinements_need_workspace_write(self):
        self.start("--sandbox", "inherit", "--add-writable-root", self.other, "--config",
                   "sandbox_workspace_write.network_access=true")
        write = "open(%r, 'w').write('x')" % (self.other + "/f")
        self.assertEqual(self.repl(write, self.ww).text, "1\n")
        self.repl("x = 1", self.ww)
        self.assertRefused(self.repl("x", self.fa), "requires workspace-write mode")
        self.assertEqual(self.repl("x", self.ww).text, "1\n")


class NoWorker(McpTest):
    def test_row_07_and_08_code_without_a_sandbox_is_not_run(self):
        self.start()
        code = "open('f', 'w')"
        self.assertRefused(self.repl(code), MISSING)
        self.assertRefused(self.repl(code, BAD), PARSE)
        self.assertFalse(os.path.exists(self.cwd + "/f"))

    def test_row_09_and_10_a_poll(self):
        self.start()
        self.assertRefused(self.repl(""), MISSING)
        reply = self.repl("", self.ww)
        self.assertEqual((reply.text, reply.is_error), (IDLE, False))

    def test_row_11_to_13_a_restart(self):
        self.start()
        self.assertRefused(self.repl(RESTART), MISSING)
        self.assertEqual(self.repl(RESTART, self.ww).texts, [RESTARTED])
        self.assertEqual(self.repl("", self.ww).text, IDLE)

    def test_row_14_a_restart_with_code(self):
        self.start()
        self.assertEqual(self.repl(RESTART + "1+1", self.ww).texts, [RESTARTED, "2\n"])


class LiveIdle(McpTest):
    def setUp(self):
        super().setUp()
        self.start()
        self.repl("x = 1", self.ww)

    def test_row_15_and_16_polls_and_interrupts_need_no_sandbox(self):
        for text in ("", INTERRUPT):
            reply = self.repl(text, BAD)
            self.assertEqual((reply.text, reply.is_error), (IDLE, False))

    def test_row_17_and_18_a_restart_needs_one(self):
        self.assertRefused(self.repl(RESTART), MISSING)
        self.assertRefused(self.repl(RESTART, BAD), PARSE)
        self.assertRefused(self.repl(RESTART + "x = 2", BAD), PARSE)
        self.assertEqual(self.repl("x", self.ww).text, "1\n")

    def test_row_19_another_sandbox_starts_another_session(self):
        reply = self.repl("'x' in globals()", self.fa)
        self.assertTrue(reply.text.startswith("[repl] sandbox policy changed; new session started\n"
                                              "[repl] new sandbox policy: {"), reply)
        self.assertIn("danger-full-access", reply.text)
        self.assertEqual(reply.texts[-1], "False\n")

    def test_row_20_the_same_sandbox_keeps_the_session(self):
        again = workspace_write(self.cwd)
        for key in ("codex/sandbox-state-meta", "codex/sandbox-state"):
            again[key]["codexLinuxSandboxExe"] = "/another/helper"
        self.assertEqual(self.repl("x", again).texts, ["1\n"])

    def test_row_21_a_restart_says_nothing_of_the_policy(self):
        self.assertEqual(self.repl(RESTART, self.ro).texts, [RESTARTED])
        self.assertIn("Read-only file system", self.repl("open('f', 'w')", self.ro).text)

    def test_files_need_the_sandbox_of_the_session(self):
        write = {"action": "write", "path": "f", "content": "x"}
        for meta, words in ((None, MISSING), (BAD, PARSE), (self.ro, "not the one that")):
            result = self.server.call("files", write, meta)["result"]
            self.assertTrue(result["isError"])
            self.assertIn(words, result["content"][0]["text"])
        self.assertFalse(os.path.exists(self.cwd + "/f"))
        self.assertFalse(self.server.call("files", write, self.ww)["result"]["isError"])
        self.assertTrue(os.path.exists(self.cwd + "/f"))


class Pending(McpTest):
    def setUp(self):
        super().setUp()
        self.start()

    def test_row_25_and_26_polls_drain(self):
        self.repl("x = 1", self.ww)
        self.begin_sleep(self.ww)
        for meta in (None, self.fa):
            reply = self.repl("", meta, 0)
            self.assertFalse(reply.is_error)
            self.assertIn("<<repl status: busy, write_stdin timeout reached; elapsed_ms=",
                          reply.text)
        self.repl(INTERRUPT)
        self.assertEqual(self.repl("x", self.ww).text, "1\n")

    def test_row_27_an_interrupt_needs_no_sandbox(self):
        self.begin_sleep(self.ww)
        reply = self.repl(INTERRUPT)
        self.assertFalse(reply.is_error)
        self.assertIn("KeyboardInterrupt", reply.text)

    def test_row_28_and_29_code_behind_a_control_needs_one(self):
        self.repl("x = 1", self.ww)
        self.begin_sleep(self.ww)
        self.assertRefused(self.repl(INTERRUPT + "1+1", BAD), PARSE)
        self.assertRefused(self.repl(RESTART + "1+1", BAD), PARSE)
        self.assertIn("status: busy", self.repl("", None, 0).text)
        self.repl(INTERRUPT)
        self.assertEqual(self.repl("x", self.ww).text, "1\n")

    def test_row_30_and_31_another_sandbox_aborts_the_request(self):
        for text in (INTERRUPT + "'x' in globals()", "'x' in globals()"):
            self.repl(RESTART + "x = 1", self.ww)
            self.begin_sleep(self.ww)
            reply = self.repl(text, self.fa)
            self.assertIn("[repl] previous request aborted because sandbox policy changed\n",
                          reply.text)
            self.assertEqual(reply.texts[-1], "False\n")

    def test_row_32_input_while_busy_is_discarded(self):
        self.begin_sleep(self.ww)
        reply = self.repl("1+1", self.ww)
        self.assertIn("status: busy", reply.texts[0])
        self.assertEqual(reply.texts[1:], ["[repl] input discarded while worker busy"])

    def test_row_33_a_worker_that_exited_is_replaced_under_the_new_sandbox(self):
        self.repl("import os, time\ntime.sleep(0.3)\nos._exit(0)", self.ww, 0)
        self.wait_for_end()
        self.assertIn("Read-only file system", self.repl("open('f', 'w')", self.ro).text)

    def wait_for_end(self):
        reply = self.repl("", None, 10_000)
        self.assertIn("[repl] ", reply.text)
        return reply

    def test_row_34_code_never_runs_under_the_older_sandbox(self):
        for delay in (0, 0.05, 0.1):
            self.repl(RESTART + "import time\ntime.sleep(%r)" % delay, self.ww, 0)
            reply = self.repl("open('f', 'w')", self.ro)
            self.assertIn("Read-only file system", reply.text)
            self.assertFalse(os.path.exists(self.cwd + "/f"))

    def test_row_35_and_36_a_request_that_settled(self):
        self.repl("import time\ntime.sleep(0.1)\nprint('tail')", self.ro, 0)
        self.repl("", None, 10_000)
        reply = self.repl("open('f', 'w').write('x')", self.ww)
        self.assertEqual(reply.texts[-1], "1\n")

    def test_row_37_and_38_a_session_that_ended(self):
        for meta in (self.ro, None):
            self.repl(RESTART + "import sys, time\ntime.sleep(0.2)\nsys.exit()", self.fa, 0)
            reply = self.repl("", meta, 10_000)
            self.assertEqual((reply.text, reply.is_error), ("[repl] session ended\n", False))
        self.assertRefused(self.repl(""), MISSING)
        self.assertEqual(self.repl("", self.ro).text, IDLE)

    def test_row_39_and_40_an_interrupt_after_the_end(self):
        self.repl("import sys; sys.exit()", self.ww)
        self.assertFalse(self.repl(INTERRUPT).is_error)
        self.assertRefused(self.repl(""), MISSING)
        self.assertFalse(self.repl(INTERRUPT, self.ro).is_error)
        self.assertEqual(self.repl("", self.ro).text, IDLE)

    HANDLER = ("import signal, sys, time\n"
               "def handle(*_):\n  print('handled', flush=True)\n  %s\n"
               "signal.signal(signal.SIGINT, handle)\nprint('begun')\n"
               "end = time.time() + 100\n"
               "while time.time() < end and not done: time.sleep(0.05)")

    def begin_handler(self, act, meta):
        self.repl("done = []", meta)
        reply = self.repl(self.HANDLER % act, meta, 0)
        while "begun" not in reply.text:
            reply = self.repl("", None, 20)

    def test_row_41_and_43_a_handler_that_exits(self):
        self.begin_handler("sys.exit()", self.ww)
        reply = self.repl(INTERRUPT, self.ro)
        self.assertEqual(reply.text, "handled\n[repl] session ended\n")
        self.assertIn("Read-only", self.repl("open('f', 'w')", self.ro).text)
        self.begin_handler("sys.exit()", self.ro)
        reply = self.repl(INTERRUPT + "open('f', 'w').write('x')", self.ww)
        self.assertEqual(reply.texts[-1], "1\n")

    def test_row_42_a_handler_that_survives(self):
        self.begin_handler("done.append(1)", self.ww)
        self.assertEqual(self.repl(INTERRUPT, self.ro).text, "handled\n")
        reply = self.repl("open('f', 'w')", self.ro)
        self.assertIn("sandbox policy changed", reply.text)
        self.assertIn("Read-only file system", reply.text)

    def test_row_44_the_code_behind_an_interrupt_gets_the_new_sandbox(self):
        self.begin_sleep(self.ww)
        write = "open(%r, 'w').write('x')" % (self.other + "/f")
        self.assertEqual(self.repl(INTERRUPT + write, self.fa).texts[-1], "1\n")

    def transcript(self, reply):
        path = reply.text.split("full output: ")[1].split("]")[0]
        with open(path) as file:
            return path, file.read()

    def test_row_50_and_51_bundles_survive_errors_and_changes(self):
        reply = self.repl("import time\nfor i in range(300): print('line', i, 'x' * 30)\nprint('begun')\n"
                          "time.sleep(100)", self.ww, 0)
        told = reply.text
        while "begun" not in told:
            reply = self.repl("", None, 50)
            told += reply.text
        self.assertRefused(self.repl("1", BAD), PARSE)
        path, text = self.transcript(reply if "full output" in reply.text else self.repl("", self.ww, 0))
        self.assertEqual(text.splitlines()[:300], ["line %d %s" % (i, "x" * 30) for i in range(300)])
        self.assertNotIn("repl status", text)
        # Another sandbox, another session, another bundle; what was told of stays as it is.
        reply = self.repl("for i in range(300): print('next', i, 'x' * 30)", self.ro)
        other, fresh = self.transcript(reply)
        self.assertNotEqual(other, path)
        self.assertEqual(len(fresh.splitlines()), 300)
        with open(path) as file:
            self.assertTrue(file.read().startswith(text))


class Guardrail(McpTest):
    EAT = "x = bytearray(10**9)"

    def setUp(self):
        super().setUp()
        self.start("--sandbox", "inherit", "--allow", "memory=200MiB")
        reply = self.repl("1", self.ww)
        if "limit.memory" in reply.text or reply.is_error:
            self.skipTest("this host cannot limit memory for this user: " + reply.text)

    def test_row_22_and_23_killed_while_busy(self):
        self.repl("import time\ntime.sleep(0.2)\n" + self.EAT, self.ww, 0)
        reply = self.repl("")
        while "status: busy" in reply.text:
            reply = self.repl("")
        self.assertFalse(reply.is_error, reply)
        self.assertIn("[repl] worker killed by memory guardrail: rss=200MB limit=200MB", reply.text)
        self.assertIn("[repl] previous request aborted; retry your last input", reply.text)
        self.assertRefused(self.repl("1+1"), MISSING)
        self.assertEqual(self.repl("1+1", self.ww).texts[-1], "2\n")

    def test_row_24_killed_while_idle(self):
        self.repl("import threading, time\ndef eat():\n  time.sleep(0.3)\n  globals()['y'] = bytearray(10**9)\n"
                  "threading.Thread(target=eat).start()", self.ww)
        deadline = time.monotonic() + 60
        while not (reply := self.repl("")).is_error and time.monotonic() < deadline:
            self.assertEqual(reply.text, IDLE)
        self.assertRefused(reply, MISSING)
        reply = self.repl("1+1", self.ww)
        self.assertIn("[repl] worker killed by memory guardrail", reply.text)
        self.assertIn("[repl] worker was idle; new session started", reply.text)
        self.assertEqual(reply.texts[-1], "2\n")


class Pages(McpTest):
    LINES = "for i in range(3000): print('line', i)"

    def setUp(self):
        super().setUp()
        self.start("--sandbox", "inherit", "--oversized-output", "pager")

    def begin_pages(self, code=LINES):
        reply = self.repl(code, self.ww)
        self.assertRegex(reply.texts[-1], r"^--More-- \(\d+p, \d+\.\d%, @0\.\.\d+/\d+\)$")
        return reply

    def test_row_45_to_46_pages_need_no_sandbox(self):
        first = self.begin_pages()
        self.repl("x = 1", self.ww)
        self.begin_pages()
        for meta in (None, BAD, self.fa):
            reply = self.repl("", meta)
            self.assertFalse(reply.is_error)
            self.assertNotEqual(reply.texts[0], first.texts[0])
            self.assertIn("--More--", reply.texts[-1])
        for meta in (None, self.fa):
            self.assertEqual(self.repl(":q", meta).text, IDLE)
            self.assertEqual(self.repl("x", self.ww).text, "1\n")  # no restart
            self.begin_pages()

    def test_row_47_the_request_goes_on(self):
        reply = self.repl(self.LINES + "\nimport time\ntime.sleep(100)", self.ww, 0)
        while "--More--" not in reply.text:
            self.assertIn("status: busy", reply.text)
            reply = self.repl("", None, 20)
        reply = self.repl(":q")
        self.assertFalse(reply.is_error)
        self.assertIn("status: busy", reply.text)
        reply = self.repl(INTERRUPT)
        while "--More--" in reply.text:  # lines that were still on their way when the pages were left
            reply = self.repl("")
        self.assertIn("KeyboardInterrupt", reply.text)

    def test_row_48_nothing_is_started_for_a_command(self):
        self.repl("import os\n" + self.LINES + "\nos._exit(3)", self.ww)
        reply = self.repl(":q", self.ro)
        self.assertFalse(reply.is_error)
        self.assertRefused(self.repl(""), MISSING)  # there is no session

    def test_row_49_a_restart_shows_no_old_page(self):
        self.begin_pages()
        self.assertEqual(self.repl(RESTART, self.ro).texts, [RESTARTED])
        self.assertEqual(self.repl("", self.ro).text, IDLE)
        # Without a pager a colon is code like any other.
        self.assertIn("SyntaxError", self.repl(":q", self.ro).text)


class Profiles(McpTest):
    def setUp(self):
        super().setUp()
        self.start()

    def write(self, path):
        return "open(%r, 'w').write('x')" % path

    def test_row_52_an_explicit_mode_ignores_what_is_sent(self):
        self.server.close()
        self.start("--sandbox", "workspace-write")
        self.assertIn("Read-only", self.repl(self.write(self.other + "/f"), self.fa).text)

    def test_row_53_to_55_where_writing_works(self):
        self.assertEqual(self.repl(self.write("f"), self.ww).text, "1\n")
        self.assertIn("Read-only", self.repl(self.write("g"), self.ro).text)
        # The box's /tmp is its own: what is written there never reaches the host's.
        name = "/tmp/" + os.path.basename(self.place)
        self.repl(self.write(name), self.ro)
        self.assertFalse(os.path.exists(name))
        self.assertEqual(self.repl("import tempfile\ntempfile.TemporaryFile() and 1", self.ro).text,
                         "1\n")
        self.assertEqual(self.repl(self.write(self.other + "/f"), self.fa).texts[-1], "1\n")
        self.assertTrue(os.path.exists(self.other + "/f"))

    def test_row_56_a_profile_that_reads_nothing(self):
        self.assertRefused(self.repl("1", managed(self.cwd, [])),
                           "requires at least one readable entry")

    def test_row_57_and_58_wide_profiles(self):
        unrestricted = state(self.cwd, {"type": "managed", "network": "restricted",
                                        "file_system": {"type": "unrestricted"}})
        for meta in (unrestricted, managed(self.cwd, [special("root", "write")]),
                     managed(self.cwd, [special("root", "read")], network="enabled")):
            self.assertEqual(self.repl(RESTART + "1+1", meta).texts[-1], "2\n")

    def test_no_profile_leads_to_a_unix_socket_of_the_host(self):
        places = [self.place + "/service.sock", self.cwd + "/service.sock"]
        listeners = []
        for place in places:
            listener = socket.socket(socket.AF_UNIX)
            self.addCleanup(listener.close)
            listener.bind(place)
            os.chmod(place, 0o777)
            listener.listen()
            listeners.append(listener)
        connect = ("import socket\ntry: socket.socket(socket.AF_UNIX).connect(%r)\n"
                   "except OSError as error: print(error.errno)")
        own = ("import socket\nserver = socket.socket(socket.AF_UNIX)\nserver.bind('own')\n"
               "server.listen()\nprint(socket.socket(socket.AF_UNIX).connect('own'))")
        for meta in (self.ro, self.ww, managed(self.cwd, [special("root", "write")]),
                     managed(self.cwd, [special("root", "read")], network="enabled")):
            for place in places:
                text = self.repl(RESTART + connect % place, meta).texts[-1]
                self.assertEqual(text.strip(), str(errno.EACCES), place)
        self.assertEqual(self.repl(RESTART + own, self.ww).texts[-1], "None\n")
        self.assertEqual(select.select(listeners, [], [], 0)[0], [])

    def test_row_59_unknown_specials_grant_nothing(self):
        meta = managed(self.cwd, [special("root", "read"),
                                  special("unknown", "write", path=":future")])
        self.assertEqual(self.repl("1+1", meta).text, "2\n")
        self.assertIn("Read-only", self.repl(self.write("f"), meta).text)

    def test_row_60_a_denied_path(self):
        os.mkdir(self.cwd + "/secrets")
        with open(self.cwd + "/secrets/key", "w") as key:
            key.write("hidden")
        meta = managed(self.cwd, [special("root", "read"), path_entry(self.cwd, "write"),
                                  path_entry(self.cwd + "/secrets", "deny")])
        for code in ("open('secrets/key').read()", self.write("secrets/key"),
                     "import os; os.unlink('secrets/key')", "os.rename('secrets', 'other')"):
            self.assertIn("Error", self.repl(code, meta).text)
        with open(self.cwd + "/secrets/key") as key:
            self.assertEqual(key.read(), "hidden")

    def test_row_61_a_grant_inside_a_denial(self):
        os.makedirs(self.cwd + "/closed/open")
        os.makedirs(self.cwd + "/closed/sibling")
        meta = managed(self.cwd, [special("root", "read"), path_entry(self.cwd, "write"),
                                  path_entry(self.cwd + "/closed", "deny"),
                                  path_entry(self.cwd + "/closed/open", "write")])
        self.assertEqual(self.repl(self.write("closed/open/f"), meta).text, "1\n")
        self.assertIn("Error", self.repl("import os; os.listdir('closed/sibling')", meta).text)

    def test_row_62_and_63_a_minimal_profile(self):
        meta = managed(self.cwd, [special("minimal", "read"), path_entry(self.cwd, "write"),
                                  special("tmpdir", "write")])
        self.assertEqual(self.repl(self.write("f"), meta).text, "1\n")
        self.assertIn("Error", self.repl("import os; os.listdir(%r)" % self.other, meta).text)

    def test_row_64_a_missing_root_is_made(self):
        meta = managed(self.cwd, [special("root", "read"),
                                  special("project_roots", "write", subpath="made/here")])
        self.assertEqual(self.repl(self.write("made/here/f"), meta).text, "1\n")
        self.assertTrue(os.path.exists(self.cwd + "/made/here/f"))

    def test_row_65_a_workspace_behind_a_link(self):
        os.symlink(self.cwd, self.place + "/alias")
        meta = workspace_write(self.place + "/alias")
        self.assertEqual(self.repl(self.write(self.place + "/alias/f"), meta).text, "1\n")
        self.assertTrue(os.path.exists(self.cwd + "/f"))

    def test_row_66_protected_names_cannot_be_made(self):
        meta = managed(self.cwd, [special("root", "read"), path_entry(self.cwd, "write")])
        self.assertEqual(self.repl(self.write("f"), meta).text, "1\n")
        for name in (".git", ".codex", ".agents", ".aws"):
            self.assertIn("Error", self.repl("import os; os.mkdir(%r)" % name, meta).text)
            self.assertIn("Error", self.repl("os.rmdir(%r)" % name, meta).text)
            self.assertIn("Error", self.repl("os.rename('f', %r)" % name, meta).text)
            self.assertIn("Error", self.repl(self.write(name + "/config"), meta).text)
        self.server.close()
        self.server = None
        self.assertEqual(os.listdir(self.cwd), ["f"])

    def test_external_is_read_only_unless_told_otherwise(self):
        """As in Codex's own sandbox, which gives it no network either."""
        for network in ("restricted", "enabled"):
            meta = state(self.cwd, {"type": "external", "network": network})
            self.assertIn("Read-only", self.repl(self.write("f"), meta).text)
            self.assertIn("Error", self.repl("import socket; socket.create_connection(('192.0.2.1', 9), 5)", meta).text)
        self.server.close()
        self.start("--sandbox", "inherit", "--external", "full-access")
        self.assertEqual(self.repl(self.write("f"), state(self.cwd, {"type": "external", "network": "restricted"})).text,
                         "1\n")

    def test_the_tool_says_what_differs_from_the_client(self):
        """The host's /tmp and loopback, which a client may allow, are not in the box; the text for the agent says so."""
        text = self.server.ask("tools/list")["result"]["tools"][0]["description"]
        self.assertIn("the session's own, also where the client's sandbox allows the host's", text)
        with tempfile.NamedTemporaryFile(dir="/tmp") as outside, socket.create_server(("127.0.0.1", 0)) as listener:
            meta = managed(self.cwd, [special("root", "read"), path_entry(self.cwd, "write"), special("slash_tmp", "write")],
                           network="enabled")
            self.assertEqual(self.repl("import os; os.path.exists(%r)" % outside.name, meta).text, "False\n")
            connect = "import socket; socket.create_connection(('127.0.0.1', %d), 5)" % listener.getsockname()[1]
            self.assertIn("Error", self.repl(connect, meta).text)

    def git_acts(self, place, meta):
        """Every way to change hooks and configuration there; what the box said to each."""
        for act in ("open(%r, 'a')" % (place + "/config"), "open(%r, 'w')" % (place + "/hooks/pre-commit"),
                    "os.rename(%r, 'elsewhere')" % place, "shutil.rmtree(%r)" % place,
                    "os.rename(%r, 'elsewhere')" % (place + "/hooks")):
            yield act, self.repl("import os, shutil; " + act, meta).text

    def make_git_directory(self, path):
        os.makedirs(path + "/hooks")
        with open(path + "/config", "w") as file:
            file.write("[core]\n")

    def test_what_a_git_file_leads_to_is_protected(self):
        """A bare repository beside its tree, and a worktree of a repository in another writable root."""
        self.make_git_directory(self.cwd + "/.bare")
        self.make_git_directory(self.other + "/main")
        os.makedirs(self.other + "/main/worktrees/w/hooks")
        for name, text in (("config", ""), ("commondir", "../..\n")):
            with open(self.other + "/main/worktrees/w/" + name, "w") as file:
                file.write(text)
        for target, places in ((".bare", [self.cwd + "/.bare"]),
                               (self.other + "/main/worktrees/w", [self.other + "/main", self.other + "/main/worktrees/w"])):
            with open(self.cwd + "/.git", "w") as file:
                file.write("gitdir: %s\n" % target)
            for sandbox in (workspace_write, lambda cwd: managed(cwd, [special("root", "read"), path_entry(cwd, "write")])):
                meta = sandbox(self.cwd)
                meta["codex/sandbox-state"]["permissionProfile"]["file_system"]["entries"].append(
                    path_entry(self.other, "write"))
                for place in places:
                    for act, told in self.git_acts(place, meta):
                        self.assertIn("Error", told, act)
                for act in ("os.unlink('.git')", "os.rename('.git', 'x')", "open('.git', 'w')"):
                    self.assertIn("Error", self.repl("import os; " + act, meta).text)
                self.assertEqual(self.repl(self.write("f"), meta).texts[-1], "1\n")
                self.assertEqual(self.repl(self.write(self.other + "/f"), meta).text, "1\n")

    def test_a_git_directory_that_is_missing_cannot_be_made(self):
        with open(self.cwd + "/.git", "w") as file:
            file.write("gitdir: later\n")
        self.repl("1", workspace_write(self.cwd))
        self.assertIn("Error", self.repl("import os; os.makedirs('later/hooks')", workspace_write(self.cwd)).text)
        with open(self.cwd + "/.git", "w") as file:
            file.write("gitdir: .\n")
        self.assertRefused(self.repl("1", workspace_write(self.cwd)), "cannot protect the hooks")

    def test_a_linked_git_directory_is_refused(self):
        """The box could replace the link, so that git on the host used what it made; Codex refuses this too."""
        self.make_git_directory(self.cwd + "/real")
        os.symlink("real", self.cwd + "/.git")
        for meta in (workspace_write(self.cwd), managed(self.cwd, [special("root", "read"), path_entry(self.cwd, "write")])):
            reply = self.repl("1", meta)
            self.assertRefused(reply, ".git is a symbolic link that the box could replace")
        self.assertEqual(self.repl("1", read_only(self.cwd)).text, "1\n")

    def test_a_repository_that_is_made_anew_is_protected_again(self):
        """The cover lies on the directory that was there; the next call notices that it is another."""
        self.make_git_directory(self.cwd + "/.git")
        self.repl("x = 1", self.ww)
        shutil.rmtree(self.cwd + "/.git")
        self.make_git_directory(self.cwd + "/.git")
        self.assertIn("was replaced outside of the box", self.repl("1", self.ww).text)
        for act, told in self.git_acts(self.cwd + "/.git", self.ww):
            self.assertIn("Error", told, act)

    def test_row_67_a_denied_pattern_masks_what_is_there(self):
        os.mkdir(self.cwd + "/deep")
        for name in ("a.env", "deep/b.env"):
            with open(self.cwd + "/" + name, "w") as file:
                file.write("hidden")
        meta = managed(self.cwd, [special("root", "read"), path_entry(self.cwd, "write"),
                                  {"path": {"type": "glob_pattern",
                                            "pattern": self.cwd + "/**/*.env"}, "access": "deny"}],
                       glob_scan_max_depth=3)
        for name in ("a.env", "deep/b.env"):
            self.assertNotIn("hidden", self.repl("open(%r).read()" % name, meta).text)
        self.assertEqual(self.repl(self.write("f"), meta).text, "1\n")

    def test_row_68_a_denied_path_that_is_missing_cannot_be_made(self):
        meta = managed(self.cwd, [special("root", "read"), path_entry(self.cwd, "write"),
                                  path_entry(self.cwd + "/later", "deny")])
        self.assertIn("Error", self.repl(self.write("later"), meta).text)
        self.assertIn("Error", self.repl(self.write("later/f"), meta).text)
        deeper = managed(self.cwd, [special("root", "read"), path_entry(self.cwd, "write"),
                                    path_entry(self.cwd + "/no/such/place", "deny")])
        self.assertRefused(self.repl("1", deeper), "cannot enforce sandbox")

    def test_row_69_and_70_helpers_of_the_client_do_not_matter(self):
        self.server.close()
        os.environ["MCP_REPL_USE_LINUX_BWRAP"] = "0"
        self.addCleanup(os.environ.pop, "MCP_REPL_USE_LINUX_BWRAP")
        self.start()
        meta = workspace_write(self.cwd)
        for key in ("codex/sandbox-state-meta", "codex/sandbox-state"):
            meta[key]["useLegacyLandlock"] = True
        self.assertEqual(self.repl(self.write("f"), meta).text, "1\n")
        self.assertIn("Error", self.repl("import os; os.mkdir('.git')", meta).text)

    def test_forms_that_disagree_are_refused(self):
        meta = workspace_write(self.cwd)
        meta["codex/sandbox-state"] = read_only(self.cwd)["codex/sandbox-state"]
        self.assertRefused(self.repl("1", meta), "disagree")


class Table(unittest.TestCase):
    def test_every_row_has_a_test(self):
        """The table has 70 rows; names of tests say which they are about."""
        rows = set()
        for kind in McpTest.__subclasses__():
            for name in dir(kind):
                found = re.match(r"test_row_(\d+)(?:_(and|to)_(\d+))?", name)
                if found:
                    first, last = int(found[1]), int(found[3] or found[1])
                    rows |= set(range(first, last + 1)) if found[2] == "to" else {first, last}
        self.assertEqual(sorted(rows), list(range(1, 71)))


if __name__ == "__main__":
    unittest.main()
