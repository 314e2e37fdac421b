"""The tool `session`: names, forks, and sessions as files. The boxes are real."""
import json
import os
import stat
import unittest

from client import Server
from inherit_test import McpTest

KEY = "11" * 32


class SessionTest(McpTest):
    def session(self, action, meta=None, **more):
        answer = self.server.call("session", dict(more, action=action), meta)
        if "error" in answer:
            return answer["error"]["message"], True
        result = answer["result"]
        return result["content"][0]["text"], result["isError"]

    def done(self, action, meta=None, **more):
        text, is_error = self.session(action, meta, **more)
        self.assertFalse(is_error, text)
        return json.loads(text)

    def refused(self, words, action, meta=None, **more):
        text, is_error = self.session(action, meta, **more)
        self.assertTrue(is_error, text)
        self.assertIn(words, text)

    def names(self):
        return [each["name"] for each in self.done("list")]

    def schema(self):
        tools = {tool["name"]: tool for tool in self.server.ask("tools/list")["result"]["tools"]}
        return tools["session"]["inputSchema"]["properties"]


class Forks(SessionTest):
    words = ("--interpreter", "bash", "--layered")

    def test_children_begin_with_the_files_and_share_nothing_from_then_on(self):
        self.start()
        self.repl("echo past > f; mkdir d; cd d; export WORD=said")
        self.done("fork", name="child", count=2)
        self.assertEqual(self.names(), ["child-1", "child-2", "main"])
        self.assertEqual(self.repl("cat ../f; pwd; echo $WORD; echo main > ../f").text,
                         "past\n%s/d\nsaid\n" % self.cwd)
        for name in ("child-1", "child-2"):
            self.done("use", name=name)
            self.assertEqual(self.repl("cat ../f; echo $WORD; echo %s > ../f" % name).text, "past\nsaid\n")
        for name in ("child-1", "child-2", "main"):
            self.done("use", name=name)
            self.assertEqual(self.repl("cat %s/f" % self.cwd).text, name + "\n")
        self.assertFalse(os.path.exists(self.cwd + "/f"))
        self.done("close", name="child-1")
        self.assertEqual(self.names(), ["child-2", "main"])

    def test_what_cannot_be_forked(self):
        self.start()
        self.refused("has not been started", "fork", name="child")
        self.repl("echo x > f")
        self.refused("already", "fork", name="main")
        self.refused("name must have", "fork")
        for count in (0, 17):
            self.refused("count must be", "fork", name="child", count=count)
        self.refused("more than 16", "fork", name="child", count=16)
        self.repl("sleep 100", None, 0)
        self.refused("busy", "fork", name="child")
        self.assertEqual(self.names(), ["main"])

    def test_without_layers_there_is_none(self):
        self.start("--interpreter", "bash")
        self.repl("echo x > f")
        self.refused("--layered", "fork", name="child")
        self.assertEqual(self.schema()["action"]["enum"], ["list", "use", "close"])

    def test_names_stay_held_while_any_of_them_lives(self):
        self.start()
        self.repl("echo x > f")
        self.done("fork", name="child")
        self.done("close", name="main")
        self.done("use", name="child")
        self.assertIn("denied", self.repl("mkdir .git/x 2>&1 || echo denied").text)

    def test_a_child_has_the_sandbox_of_its_parent(self):
        secret = os.path.join(self.other, "secret")
        with open(secret, "w") as file:
            file.write("s")
        self.start("--interpreter", "bash", "--layered", "--deny", "read=" + secret)
        self.repl("echo x > f")
        self.done("fork", name="child")
        self.done("use", name="child")
        self.assertIn("none", self.repl("cat %s 2>/dev/null || echo none" % secret).text)
        self.assertIn("none", self.repl("echo x > %s/new 2>/dev/null || echo none" % self.other).text)


class PythonForks(SessionTest):
    words = ("--layered",)

    def test_an_interpreter_ends_only_by_consent(self):
        self.start()
        self.repl("x = 1")
        self.done("fork", name="early")  # nothing was written: nothing has to end
        self.assertEqual(self.repl("x").text, "1\n")
        self.repl("_ = open('f', 'w').write('past')")
        self.refused('"force": true', "fork", name="child")
        self.assertEqual(self.repl("x").text, "1\n")
        self.done("fork", name="child", force=True)
        self.assertIn("NameError", self.repl("x").text)
        self.assertEqual(self.repl("open('f').read()").text, "'past'\n")
        self.done("use", name="child")
        self.assertEqual(self.repl("open('f').read()").text, "'past'\n")
        self.done("use", name="early")
        self.assertIn("FileNotFoundError", self.repl("open('f')").text)

    def test_a_restart_after_a_fork_is_a_fresh_session(self):
        self.start()
        self.repl("_ = open('f', 'w').write('past')")
        self.done("fork", name="child", force=True)
        self.repl("\x04")
        self.assertIn("FileNotFoundError", self.repl("open('f')").text)
        self.done("use", name="child")
        self.assertEqual(self.repl("open('f').read()").text, "'past'\n")


class Inherited(SessionTest):
    words = ("--sandbox", "inherit", "--interpreter", "bash", "--layered")

    def test_a_fork_needs_the_sandbox_of_the_session(self):
        self.start()
        self.repl("echo x > f", self.ww)
        self.refused("requires Codex", "fork", name="child")
        self.refused("not the one", "fork", self.fa, name="child")
        self.assertEqual(self.names(), ["main"])
        self.done("fork", self.ww, name="child")
        self.assertEqual(self.names(), ["child", "main"])


class Checkpoints(SessionTest):
    def setUp(self):
        super().setUp()
        self.kept = os.path.join(self.place, "kept")
        os.mkdir(self.kept, 0o700)
        self.key = os.path.join(self.place, "key")
        with open(self.key, "w") as file:
            file.write(KEY)
        os.chmod(self.key, 0o600)

    def begin(self, *words):
        self.start("--interpreter", "bash", "--layered", "--checkpoint-dir", self.kept, "--key-file", self.key,
                   *words)

    def end(self):
        self.assertEqual(self.server.close(), 0)
        self.server = None

    def test_another_server_goes_on_where_one_was(self):
        self.begin()
        self.repl("echo past > f; mkdir d; cd d; export WORD=said")
        written = self.done("checkpoint", checkpoint="one")
        self.assertGreater(written["bytes"], 0)
        self.assertEqual(self.done("checkpoints"), [{"checkpoint": "one", "bytes": written["bytes"]}])
        path = os.path.join(self.kept, "one.checkpoint")
        self.assertEqual(stat.S_IMODE(os.stat(path).st_mode), 0o600)
        with open(path, "rb") as file:
            self.assertNotIn(b"past", file.read())
        self.repl("echo later > %s/f" % self.cwd)
        self.end()
        self.begin()
        self.done("restore", name="again", checkpoint="one")
        self.assertEqual(self.names(), ["again", "main"])
        self.done("use", name="again")
        self.assertEqual(self.repl("cat ../f; pwd; echo $WORD").text, "past\n%s/d\nsaid\n" % self.cwd)
        self.assertFalse(os.path.exists(self.cwd + "/f"))

    def test_no_box_sees_the_files_or_the_key(self):
        self.begin()
        self.repl("echo x > f")
        self.done("checkpoint", checkpoint="one")
        self.assertEqual(self.repl("ls %s/ 2>&1 | grep one; cat %s 2>/dev/null; echo end" % (self.kept, self.key)).text,
                         "end\n")
        # That the rest of that directory can be seen shows that this is a wall and not an accident.
        self.assertIn("work", self.repl("ls %s" % self.place).text)

    def test_names_that_lead_elsewhere_and_files_that_are_there(self):
        self.begin()
        self.repl("echo x > f")
        for name in ("", "../one", "/tmp/one", "a/b", ".one", "x" * 65):
            self.refused("checkpoint must be a name", "checkpoint", checkpoint=name)
            self.refused("checkpoint must be a name", "restore", name="new", checkpoint=name)
        self.done("checkpoint", checkpoint="one")
        self.refused("already", "checkpoint", checkpoint="one")
        self.refused("no checkpoint 'two'", "restore", name="new", checkpoint="two")
        self.refused("already", "restore", name="main", checkpoint="one")
        self.assertEqual(sorted(os.listdir(self.kept)), ["one.checkpoint"])

    def test_a_file_decides_nothing_about_the_sandbox(self):
        """Written by a session that may write elsewhere, restored by one that may not."""
        self.begin("--allow", "write=" + self.other)
        self.repl("echo x > f; echo y > %s/seen" % self.other)
        self.assertTrue(os.path.exists(self.other + "/seen"))
        self.done("checkpoint", checkpoint="wide")
        self.end()
        self.begin()
        self.done("restore", name="narrow", checkpoint="wide")
        self.done("use", name="narrow")
        self.assertEqual(self.repl("cat f; (echo z > %s/new) 2>/dev/null || echo no" % self.other).text, "x\nno\n")
        self.assertFalse(os.path.exists(self.other + "/new"))

    def test_another_workspace_and_damage_are_refused(self):
        self.begin()
        self.repl("echo x > f")
        self.done("checkpoint", checkpoint="one")
        path = os.path.join(self.kept, "one.checkpoint")
        with open(path, "rb") as file:
            whole = file.read()
        for name, bytes_ in (("cut", whole[:-1]), ("flipped", whole[:200] + bytes([whole[200] ^ 1]) + whole[201:])):
            with open(os.path.join(self.kept, name + ".checkpoint"), "wb") as file:
                file.write(bytes_)
            text, is_error = self.session("restore", name="new", checkpoint=name)
            self.assertTrue(is_error, text)
        self.end()
        os.mkdir(self.place + "/elsewhere")
        self.cwd = self.place + "/elsewhere"
        self.begin()
        self.refused("other workspaces", "restore", name="new", checkpoint="one")
        self.assertEqual(self.names(), ["main"])

    def test_it_is_off_unless_it_was_asked_for(self):
        self.start("--interpreter", "bash", "--layered")
        self.repl("echo x > f")
        self.assertEqual(self.schema()["action"]["enum"], ["list", "use", "close", "fork"])
        for action in ("checkpoint", "checkpoints", "restore"):
            self.refused("--checkpoint-dir", action, name="new", checkpoint="one")

    def test_what_must_be_named_with_it(self):
        for words, told in ((("--checkpoint-dir", self.kept), b"--layered"),
                            (("--layered", "--checkpoint-dir", self.kept), b"needs a key"),
                            (("--layered", "--key-file", self.key), b"needs --checkpoint-dir"),
                            (("--layered", "--checkpoint-dir", self.kept + "/none", "--key-file", self.key),
                             b"No such file")):
            server = Server(*words, cwd=self.cwd)
            _, errors = server.process.communicate(timeout=60)
            self.assertEqual(server.process.returncode, 125)
            self.assertIn(told, errors)
        os.chmod(self.kept, 0o777)
        server = Server("--layered", "--checkpoint-dir", self.kept, "--key-file", self.key, cwd=self.cwd)
        _, errors = server.process.communicate(timeout=60)
        self.assertIn(b"nobody else", errors)

    def test_it_may_not_lie_where_the_box_writes(self):
        inside = os.path.join(self.cwd, "kept")
        os.mkdir(inside, 0o700)
        server = Server("--layered", "--checkpoint-dir", inside, "--key-file", self.key, cwd=self.cwd)
        _, errors = server.process.communicate(timeout=60)
        self.assertEqual(server.process.returncode, 125)
        self.assertIn(b"must not lie in", errors)
        self.start("--sandbox", "read-only", "--layered", "--checkpoint-dir", inside, "--key-file", self.key)
        self.assertEqual(self.repl("1").text, "1\n")

    def test_python_that_is_idle_can_be_written_out(self):
        self.start("--layered", "--checkpoint-dir", self.kept, "--key-file", self.key)
        self.repl("x = 1\n_ = open('f', 'w').write('past')")
        self.done("checkpoint", checkpoint="one")
        self.assertEqual(self.repl("x").text, "1\n")
        self.begin_sleep(None)
        self.refused("busy", "checkpoint", checkpoint="two")
        self.done("restore", name="new", checkpoint="one")
        self.done("use", name="new")
        self.assertEqual(self.repl("open('f').read()").text, "'past'\n")


if __name__ == "__main__":
    unittest.main()
