"""Deny globs against the real Codex: `codex sandbox` says which files it denies, and the box must deny them too.

Every pattern is tried on the same tree in both. A file that Codex denies is denied here; what is denied here beyond that is
in EXTRA, with the reason; what Codex refuses as a whole is in REFUSED, with what happens here.
"""
import json
import os
import subprocess
import unittest

from client import managed, path_entry, special
from inherit_test import McpTest
from sdk_test import PACKAGES, needs_clients

CODEX = PACKAGES + "/node_modules/.bin/codex"
FILES = """a.env .env b.txt x.txt y.txt z.txt ab.txt ac.txt abc.txt A.ENV -.txt ^.txt !.txt ].txt [.txt [x].txt [x aXb.env
           ünï.env ü.txt 1.txt 5.txt back\\slash.txt sub/a.env sub/.env sub/b.txt sub/x.txt sub/deep/c.env sub/deep/x.txt
           sub/out/z sub/secrets/k1 secrets/key secrets/deep/key2 out/x out/sub/y .hidden/f .hidden/a.env d.env/inner""".split()

# Relative to the workspace.
PATTERNS = r"""
**/*.env | *.env | ./*.env | sub/*.env | **/.env | .* | **/.* | **/**/*.env | **.env | a** | **a.env | a**b.env | ***
secrets/** | out/** | sub/** | sub/**/ | sub/*/ | ** | * | */ | **/* | **/out/** | **/secrets/** | **/secrets | */deep/**
s*/d*/** | s*/d*/*.env | **/d*/*.env | **/deep/*.env | sub/deep/* | sub/**/x.txt | d.env/** | *.env/** | *.env/inner
**/*.env/** | missing/** | missing* | emptydir/** | sub/d*/*.env | sub/d*/** | sub/[d]eep/c.env
[xy].txt | [!xy].txt | [^xy].txt | [x-z].txt | [0-9].txt | [x].txt | [[]x].txt | []].txt | [!]].txt | [-].txt | [a-].txt
[ab]* | [!.]* | *[!t] | [ | [x | [ü].txt | [[:alpha:]].txt | ?.txt | ??.txt | a?.txt | ?.env | ün?.env | \*.txt | [.]env
*.{env,txt} | *.{env,{x,t}xt} | {x,y}.t?t | *.ENV | A.* | *.Env
"""
PATTERNS = [each.strip() for line in PATTERNS.split("\n") for each in line.split(" | ") if each.strip()]

DIRECTORY = "a directory that matches is denied with all that is in it; Codex looks at files alone"
CHARACTER = "a character of several bytes is one character too; Codex counts bytes"
ANCHOR = "a pattern with a slash begins at its own directory; Codex begins at the one that it was started in"
EXTRA = {
    ".*": (DIRECTORY, {".hidden/a.env", ".hidden/f"}),
    "**/.*": (DIRECTORY, {".hidden/a.env", ".hidden/f"}),
    "**/*.env": (DIRECTORY, {"d.env/inner"}),
    "*.env": (DIRECTORY, {"d.env/inner"}),
    "./*.env": (DIRECTORY, {"d.env/inner"}),
    "**/**/*.env": (DIRECTORY, {"d.env/inner"}),
    "**.env": (DIRECTORY, {"d.env/inner"}),
    "?.env": (DIRECTORY, {"d.env/inner"}),
    "*.{env,txt}": (DIRECTORY, {"d.env/inner"}),
    "*.{env,{x,t}xt}": (DIRECTORY, {"d.env/inner"}),
    "[!.]*": (DIRECTORY, {"sub/.env"}),
    "*[!t]": (DIRECTORY, {"sub/b.txt", "sub/x.txt", "sub/deep/x.txt"}),
    "**/secrets": (DIRECTORY, {"secrets/key", "secrets/deep/key2", "sub/secrets/k1"}),
    "?.txt": (CHARACTER, {"ü.txt"}),
    "[!xy].txt": (CHARACTER, {"ü.txt"}),
    "[^xy].txt": (CHARACTER, {"ü.txt"}),
    "[!]].txt": (CHARACTER, {"ü.txt"}),
    "[ü].txt": (CHARACTER, {"ü.txt"}),
    "ün?.env": (CHARACTER, {"ünï.env"}),
    "sub/d*/*.env": (ANCHOR, {"sub/deep/c.env"}),
    "sub/d*/**": (ANCHOR, {"sub/deep/c.env", "sub/deep/x.txt"}),
    "sub/[d]eep/c.env": (ANCHOR, {"sub/deep/c.env"}),
}
# Codex refuses these. Here the first ones deny what they name; the others are refused too, with these words. One of them
# (braces before a slash) Codex takes by the letter, so that it denies nothing.
NAMED = {"secrets": {"secrets/key", "secrets/deep/key2"}, "secrets/": {"secrets/key", "secrets/deep/key2"},
         "a.env": {"a.env"}, ".env": {".env"}, "sub/./a.env": {"sub/a.env"}, "[x/../a.env": None}
REFUSED = {"[z-x].txt": "a range ends before it begins", "{x,y}.txt": "braces before the first wildcard",
           "{sub,secrets}/*": "braces before the first wildcard",
           "*{a": "a '{' without '}'", "*a}": "a '}' without '{'"}
# Tries every file, and prints which cannot be read.
PROBE = """
import json, os
denied = []
for name in json.loads(%r):
    try:
        with open(os.path.join(%r, name)) as file:
            file.read()
    except OSError:
        denied.append(name)
print(json.dumps(denied))
"""


class Globs(McpTest):
    """Without Codex: what it was seen to do is in codex_globs.json."""

    def setUp(self):
        super().setUp()
        for name in FILES:
            path = os.path.join(self.cwd, name)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "w") as file:
                file.write("hidden")
        os.mkdir(self.cwd + "/emptydir")
        os.symlink("b.txt", self.cwd + "/link.env")
        os.symlink("secrets", self.cwd + "/linkdir")
        self.start()

    def sandbox(self, *patterns, entries=()):
        globs = [{"path": {"type": "glob_pattern", "pattern": pattern}, "access": "deny"} for pattern in patterns]
        return managed(self.cwd, [special("root", "read"), path_entry(self.cwd, "write"), *entries, *globs])

    def probe(self):
        return PROBE % (json.dumps(FILES), self.cwd)

    def denied_here(self, pattern):
        reply = self.repl(self.probe(), self.sandbox(pattern))
        self.assertFalse(reply.is_error, f"{pattern}: {reply.text}")
        return set(json.loads(reply.texts[-1]))

    def whole(self, pattern):
        return f"{self.cwd}/{pattern}"

    def check(self, pattern, by_codex):
        extra = EXTRA.get(pattern, ("", set()))[1]
        with self.subTest(pattern=pattern):
            self.assertEqual(self.denied_here(self.whole(pattern)), by_codex | extra)


class Recorded(Globs):
    def test_what_codex_denies_is_denied(self):
        self.assertGreaterEqual(len(PATTERNS), 60)
        with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "codex_globs.json")) as file:
            recorded = json.load(file)
        self.assertEqual(sorted(recorded), sorted(PATTERNS))
        for pattern in PATTERNS:
            self.check(pattern, set(recorded[pattern]))

    def test_without_wildcards(self):
        for pattern, expected in NAMED.items():
            with self.subTest(pattern=pattern):
                if expected is None:
                    self.assertRefused(self.repl("1", self.sandbox(self.whole(pattern))), "'..' is not taken")
                else:
                    self.assertEqual(self.denied_here(self.whole(pattern)), expected)

    def test_what_cannot_be_enforced_is_refused_by_name(self):
        for pattern, words in REFUSED.items():
            with self.subTest(pattern=pattern):
                reply = self.repl("1", self.sandbox(self.whole(pattern)))
                self.assertRefused(reply, words)
                self.assertIn(pattern, reply.text)
        self.assertRefused(self.repl("1", self.sandbox("/**/*.env")), "it begins at the root directory")
        self.assertRefused(self.repl("1", self.sandbox(self.whole("linkdir/**"))), "symbolic link that the box could")

    def test_relative_patterns_begin_in_the_directory_of_the_call(self):
        self.assertEqual(self.denied_here("sub/deep/**"), {"sub/deep/c.env", "sub/deep/x.txt"})

    def test_a_directory_with_wildcards_in_its_name(self):
        """Clients put the workspace in front of a pattern; it is taken by the letter."""
        odd = self.place + "/my[x]{a,b}"
        os.mkdir(odd)
        with open(odd + "/a.env", "w") as file:
            file.write("hidden")
        meta = managed(odd, [special("root", "read"), path_entry(odd, "write"), {
            "path": {"type": "glob_pattern", "pattern": odd + "/**/*.env"}, "access": "deny"}])
        self.assertIn("Error", self.repl("open('a.env').read()", meta).text)
        self.assertEqual(self.repl("open('f', 'w').write('x')", meta).text, "1\n")

    def test_a_pattern_denies_whatever_is_granted_by_name(self):
        grants = [path_entry(self.cwd + "/secrets/deep", "write"), path_entry(self.cwd + "/a.env", "read")]
        meta = self.sandbox(self.whole("secrets/**"), self.whole("*.env"), entries=grants)
        denied = set(json.loads(self.repl(self.probe(), meta).texts[-1]))
        self.assertLessEqual({"a.env", "secrets/key", "secrets/deep/key2"}, denied)
        self.assertEqual(self.repl("open('secrets/deep/new', 'w').write('x')", meta).text, "1\n")

    def test_names_that_are_held_are_no_matches(self):
        """Else every call would find that something new matches, and start another session."""
        meta = self.sandbox(self.whole("**"))
        self.repl("x = 1", meta)
        self.assertEqual(self.repl("x", meta).text, "1\n")

    def test_a_match_cannot_be_moved_or_removed(self):
        meta = self.sandbox(self.whole("*.env"))
        for act in ("unlink('a.env')", "rename('a.env', 'q')", "rename('sub', 'sub2')", "rename('b.txt', 'a.env')",
                    "link('sub/a.env', 'q')", "open('a.env', os.O_WRONLY)"):
            self.assertIn("Error", self.repl("import os; os." + act, meta).text, act)
        with open(self.cwd + "/a.env") as file:
            self.assertEqual(file.read(), "hidden")

    def test_a_file_that_comes_to_match_is_denied_to_the_next_call(self):
        """As in Codex, where each command looks again."""
        meta = self.sandbox(self.whole("*.key"))
        self.assertEqual(self.repl("x = open('later.key', 'w').write('x'); x", meta).text, "1\n")
        reply = self.repl("open('later.key').read()", meta)
        self.assertIn("has appeared, or was replaced outside of the box", reply.text)
        self.assertIn("Error", reply.texts[-1])
        self.assertEqual(self.repl("y = 1", meta).texts, [""])
        # One that the host replaces, as editors do, is another file; its cover is gone with the older one.
        with open(self.cwd + "/fresh", "w") as file:
            file.write("hidden")
        os.rename(self.cwd + "/fresh", self.cwd + "/later.key")
        reply = self.repl("open('later.key').read()", meta)
        self.assertIn("has appeared, or was replaced outside of the box", reply.text)
        self.assertIn("Error", reply.texts[-1])
        # What happens elsewhere changes nothing.
        self.repl("z = 1", meta)
        with open(self.cwd + "/other", "w") as file:
            file.write("shown")
        self.assertEqual(self.repl("z, open('other').read()", meta).text, "(1, 'shown')\n")


@needs_clients
@unittest.skipUnless(os.geteuid() == 0, "Codex's own sandbox needs to make namespaces")
class Oracle(Globs):
    def codex(self, pattern):
        """What Codex denies; or nothing and its sentence, when it refuses."""
        state = dict(self.sandbox(pattern)["codex/sandbox-state"], codexLinuxSandboxExe=None)
        home = self.place + "/home"
        os.makedirs(home, exist_ok=True)
        done = subprocess.run([CODEX, "sandbox", "--sandbox-state-json", json.dumps(state), "--", "/usr/bin/python3", "-c",
                               self.probe()], cwd=self.cwd, env={"PATH": "/usr/bin:/bin", "HOME": home, "CODEX_HOME": home},
                              stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120)
        return set(json.loads(done.stdout)) if done.returncode == 0 else done.stderr

    def test_the_record_is_what_codex_does(self):
        with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "codex_globs.json")) as file:
            recorded = json.load(file)
        for pattern in PATTERNS:
            with self.subTest(pattern=pattern):
                self.assertEqual(self.codex(self.whole(pattern)), set(recorded[pattern]))

    def test_it_refuses_what_has_no_wildcard(self):
        for pattern in [*NAMED, "[z-x].txt", "{x,y}.txt", "*{a", "*a}"]:
            with self.subTest(pattern=pattern):
                self.assertIsInstance(self.codex(self.whole(pattern)), str)


if __name__ == "__main__":
    unittest.main()
