#!/usr/bin/env python3
"""Finds what only tests use: files of src/ that no product includes, and functions that none calls.

A body without a header of its name is part of the product: a program, the public interface, a part of a class that
is spread over files. Everything else belongs to it when it is reached from there: a header when a file that is
reached includes it, a body when the header of its name is reached.

A function counts when a header of src/ declares it. It is unused when its name occurs nowhere in the
product but where functions of that name are declared and defined. Names are compared, not types: a
name that stands for two functions is used when either is.

    tools/check_unused.py [ROOT]
"""

import re
import sys
from collections import Counter
from pathlib import Path

# Called by the language, the standard library or another library, under these names.
CALLED_BY_OTHERS = {
    "await_ready", "await_resume", "await_suspend",  # co_await
    "begin", "end",  # range-based for
    "async_teardown", "beast_close_socket",  # Boost.Beast
}
# Bodies that have a header of their name and implement another one as well.
PARTS = {"plan/landlock.cpp": "plan/parts.h", "session/box/box_job.cpp": "session/box/box_session.h"}
# Functions and files that stay although no file of the product needs them, and why.
KEPT = {
    "background_runs": "src/session/box: part of LiveSession, no face lists them yet",
    "decode_capability": "tests read back what was encoded",
    "decode_set": "tests read back what was encoded",
    "destinations": "tests see how many are counted",
    "encode_capability": "tests compare capabilities as JSON",
    "encode_set": "tests read back what was encoded",
    "give_credit": "byte-stream transport of the agent, for a virtual machine",
    "has_program": "tests see which peers are remembered",
    "input_credit": "byte-stream transport of the agent, for a virtual machine",
    "is_uuid": "tests check ids",
    "make_key": "tests seal with a key of their own",
    "of_text": "the fuzzer reads packs from memory",
    "probe_feature": "tests try one feature",
    "sections": "tests compare the schema with the grammar",
    "signal_number": "tests look at the handler of the signal",
    "upper_path": "tests write into a layer directly",
    "work_path": "tests mount a layer directly",
    "session/box/blocking_session.h": "tests and benchmarks use a box without an event loop",
    "session/box/blocking_session.cpp": "tests and benchmarks use a box without an event loop",
    "session/box/run_watch.h": "part of blocking_session",
    "session/box/run_watch.cpp": "part of blocking_session",
}

INCLUDE = re.compile(r'^\s*#\s*include\s*"([^"]+)"', re.MULTILINE)
NOISE = re.compile(r'//[^\n]*|/\*.*?\*/|R"(\w*)\(.*?\)\1"|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])\'|^\s*#\s*(?!define)\w[^\n]*',
                   re.DOTALL | re.MULTILINE)
NAME = re.compile(r"\b[a-z][a-z0-9_]*\b")
ARGUMENTS = re.compile(r"<[^<>;{}]*>")  # of a template
CALL = re.compile(r"\b([a-z][a-z0-9_]*)\s*\(")
CLASS = re.compile(r"(?:\w+::)+$")
NO_TYPE = re.compile(r"\b(return|co_return|co_await|co_yield|throw|new|delete|else|case|goto|not|and|or|using|operator)\b")
BEGINS = re.compile(r"[;{}]|\b(?:public|private|protected)\s*:")


def read_tree(root):
    """Path below src/ -> text, of all files that are no tests and no support of tests."""
    source = root / "src"
    return {path.relative_to(source).as_posix(): path.read_text(encoding="utf-8")
            for path in sorted(source.rglob("*"))
            if path.suffix in (".h", ".cpp") and not path.stem.endswith(("_test", "_test_support"))}


def header_of(body):
    return body.removesuffix(".cpp") + ".h"


def find_reached(files):
    """The files that the product consists of."""
    includes = {name: [each for each in INCLUDE.findall(text) if each in files] for name, text in files.items()}
    parts = {header: body for body, header in PARTS.items()}
    reached, waiting = set(), [name for name in files if name.endswith(".cpp") and header_of(name) not in files]
    while waiting:
        name = waiting.pop()
        if name not in reached:
            reached.add(name)
            waiting.extend(includes[name])
            waiting.extend(each for each in (name.removesuffix(".h") + ".cpp", parts.get(name)) if each in files)
    return reached


def without_noise(text):
    """Without comments, includes and literals; lines stay where they are."""
    def blank(match):
        is_literal = match.group()[0] in "R\"'"
        return ('""' if is_literal else " ") + "\n" * match.group().count("\n")

    return NOISE.sub(blank, text)


def declared_in(piece):
    """The function that a statement declares, or of which it is the head; None for any other statement."""
    for _ in range(4):  # as deep as templates are nested
        piece = ARGUMENTS.sub("", piece)
    call = CALL.search(piece)
    before = CLASS.sub("", piece[:call.start()]).strip() if call else ""
    is_type = before and not re.search(r"[^\w\s:&*\[\]]", before) and not NO_TYPE.search(before)
    return call.group(1) if is_type else None


def declarations(text):
    """Pairs (name, line) of functions that are declared or defined in a text without noise."""
    start, line = 0, 1
    for match in [*BEGINS.finditer(text), None]:
        piece = text[start:match.start() if match else len(text)]
        if name := declared_in(piece):
            yield name, line + text.count("\n", start, text.find(name, start))
        end = match.end() if match else len(text)
        line += text.count("\n", start, end)
        start = end


def find_unused(files, reached):
    """Triples (file, line, name)."""
    seen, declared, where = Counter(), Counter(), {}
    for name in sorted(reached):
        text = without_noise(files[name])
        seen.update(NAME.findall(text))
        for function, line in declarations(text):
            declared[function] += 1
            if name.endswith(".h"):
                where.setdefault(function, (name, line))
    return sorted((*place, function) for function, place in where.items()
                  if seen[function] <= declared[function] and function not in CALLED_BY_OTHERS)


def main():
    root = Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).resolve().parent.parent)
    files = read_tree(root)
    reached = find_reached(files)
    found = {name: f"src/{name}:1: no file of the product needs it" for name in sorted(set(files) - reached)}
    found |= {function: f"src/{name}:{line}: {function}() is called by no file of the product"
              for name, line, function in find_unused(files, reached)}
    problems = [sentence for name, sentence in found.items() if name not in KEPT]
    problems += [f"tools/check_unused.py: {name} is used or gone: take it off KEPT" for name in KEPT if name not in found]
    print("\n".join(problems) if problems else f"unused: {len(reached)} files, all needed; {len(KEPT)} names kept for a reason")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
