#!/usr/bin/env python3
"""Counts lines. Fails on what must never be, mentions what is over the rule.

    files      600 as a rule, 1000 never
    headers    250, never more
    functions   40 as a rule, 60 never without a reason: a comment NOLINT(readability-function-size)
               on its first line. Tests may be longer: their length is tables of cases.

    classes     40 functions and 15 data members, of headers of src/. A struct is a value and may have more
               fields. Those that are still larger are named in LARGE_CLASSES and may only shrink.
    detached    asio::detached stands in async/task_group.cpp alone: a coroutine is started by a TaskGroup,
               which its owner waits for, or by spawn_owning(). What is left is named in DETACHED.

Functions are found by their indentation, which clang-format keeps: a body starts on a line that ends
with "{" and ends on the line that has "}" in the same column.

    tools/check_lengths.py [--list] [ROOT]     --list: also name each function over the rule
"""

import argparse
import re
import sys
from pathlib import Path

FILE_RULE, FILE_NEVER, HEADER_NEVER = 600, 1000, 250
FUNCTION_RULE, FUNCTION_NEVER = 40, 60
NOT_A_FUNCTION = re.compile(
    r"^\s*(namespace|class|struct|enum|union|extern|if|for|while|switch|do|else|try|case|default)\b")
CLOSES = re.compile(r"^(\s*)\}")
REASON = "NOLINT(readability-function-size)"
DEEPEST_INDENTATION = 4  # a member of a class in a class


CLASS_FUNCTIONS, CLASS_MEMBERS = 40, 15
CLASS_HEAD = re.compile(r"\bclass\s+([A-Za-z_]\w*)(?:\s+final)?\s*(?::[^;{]*)?\{")
NO_MEMBER = re.compile(r"^(using|friend|enum|static|template|typedef|class|struct|union)\b|^$")
# Those of rooms that are not taken apart yet: (functions, members) that each has.
LARGE_CLASSES = {
    ("src/egress/brokered_box.h", "Box"): (58, 28),
    ("src/egress/dns/dns_server.h", "NameServer"): (40, 16),
    ("src/guest/agent/agent_core.h", "Agent"): (60, 23),
    ("src/guest/shell/shell.h", "PersistentShell"): (40, 25),
    ("src/http/connection.h", "Connection"): (41, 24),
    ("src/launch/launcher.h", "Launcher"): (40, 20),
    ("src/mcp/repl/repl.h", "Repl"): (40, 21),
    ("src/mcp/repl/repl_output.h", "OutputLog"): (40, 17),
    ("src/python/host/cell.h", "Cell"): (40, 36),
    ("src/session/box/box_session.h", "BoxSession"): (71, 31),
    ("src/session/python/python_host.h", "PythonHost"): (46, 32),
    ("src/session/python/python_worker.h", "PythonWorker"): (40, 19),
}
# How many coroutines a file starts without an owner that waits for them.
DETACHED = {
    # They own what they use, and become spawn_owning().
    "src/session/python/python_host_requests.cpp": 1,
    "src/session/python/python_worker.cpp": 2,
    # They use objects of a main() that end with its loop.
    "src/client/run_channel.cpp": 4,
    "src/http/server.cpp": 3,
    "src/mcp/http_front.cpp": 2,
    "src/mcp/mcp_server.cpp": 1,
    "src/mcp/stdio.cpp": 3,
    "src/serve/run_service.cpp": 5,
}


def without_comments(text):
    text = re.sub(r'"(?:\\.|[^"\\\n])*"', '""', text)
    text = re.sub(r"'(?:\\.|[^'\\\n])'", "' '", text)
    return re.sub(r"//[^\n]*|/\*.*?\*/|^\s*#[^\n]*", "", text, flags=re.DOTALL | re.MULTILINE)


def without_arguments(text):
    """Without what is in <...>, so that the type of a callback is not taken for a function."""
    before = None
    while before != text:
        before, text = text, re.sub(r"<[^<>;]*>", "", text)
    return text


def declarations(text, start):
    """What stands in the class whose body begins at `start`, bodies and initializers left out."""
    found, depth, current = [], 0, ""
    for char in text[start:]:
        if char == "{":
            depth += 1
        elif char == "}":
            depth -= 1
            if depth < 0:
                break
            if depth == 0 and "(" in without_arguments(current).split("=")[0]:
                found.append(current)  # the body of a function ends its declaration
                current = ""
        elif depth == 0 and char == ";":
            found.append(current)
            current = ""
        elif depth == 0:
            current += char
    return [re.sub(r"\b(public|private|protected)\s*:", "", one).strip() for one in found]


def class_sizes(text):
    """Triples (name, functions, data members) of the classes of one header."""
    text = without_comments(text)
    for head in CLASS_HEAD.finditer(text):
        functions = members = 0
        for one in declarations(text, head.end()):
            flat = without_arguments(re.sub(r"operator\s*(\(\)|[^\s(]+)", "operator_", one))
            flat = re.sub(r"\[\[\w+\]\]|\balignas\([^)]*\)", "", flat).strip()
            if flat.endswith("= delete") or flat.startswith(("friend", "using", "typedef", "static_assert")):
                continue
            if "(" in flat.split("=")[0]:
                functions += 1
            elif not NO_MEMBER.match(flat):
                members += 1
        yield head.group(1), functions, members


def check_classes(where, path):
    problems = []
    if path.suffix != ".h" or not str(where).startswith("src/"):
        return problems
    for name, functions, members in class_sizes(path.read_text(encoding="utf-8")):
        most_functions, most_members = LARGE_CLASSES.get((str(where), name), (CLASS_FUNCTIONS, CLASS_MEMBERS))
        if functions > most_functions:
            problems.append(f"{where}:1: class {name} has {functions} functions; {most_functions} is the most")
        if members > most_members:
            problems.append(f"{where}:1: class {name} has {members} data members; {most_members} is the most")
    return problems


def check_detached(where, path):
    name = str(where)
    if not name.startswith("src/") or name.endswith("_test.cpp") or name == "src/async/task_group.cpp":
        return []
    count = len(re.findall(r"asio::detached\b", without_comments(path.read_text(encoding="utf-8"))))
    if count <= DETACHED.get(name, 0):
        return []
    return [f"{name}:1: {count} detached coroutines; start them in a TaskGroup (async/task_group.h)"]


def indentation(line):
    return len(line) - len(line.lstrip(" "))


def function_lengths(lines):
    """Pairs (first line, number of lines) of the functions of one file."""
    found = []
    head = None
    for number, line in enumerate(lines, start=1):
        if line.lstrip().startswith("//"):
            continue
        if head is not None:
            closing = CLOSES.match(line)
            if closing and len(closing.group(1)) == indentation(lines[head - 1]):
                found.append((head, number - head + 1))
                head = None
        elif line.rstrip().endswith("{"):
            first = signature_start(lines, number)
            if is_signature(lines[first - 1:number]):
                head = first
    return found


def is_signature(lines):
    if NOT_A_FUNCTION.match(lines[0]) or indentation(lines[0]) > DEEPEST_INDENTATION:
        return False
    return "(" in "".join(lines)


def signature_start(lines, number):
    """The line on which the signature that ends on line `number` begins."""
    head = number
    while head > 1:
        above = lines[head - 2].rstrip()
        if not above or above.lstrip().startswith(("//", "#", "}")) or above[-1] in ";{}:":
            break
        head -= 1
    return head


def check_file(root, path, options):
    lines = path.read_text(encoding="utf-8").splitlines()
    where = path.relative_to(root)
    problems, notes = [], []
    if path.suffix == ".h" and len(lines) > HEADER_NEVER:
        problems.append(f"{where}:1: a header of {len(lines)} lines; {HEADER_NEVER} is the most")
    if len(lines) > FILE_NEVER:
        problems.append(f"{where}:1: {len(lines)} lines; {FILE_NEVER} is the most")
    elif len(lines) > FILE_RULE:
        notes.append(f"{where}:1: {len(lines)} lines, over the rule of {FILE_RULE}")
    over = 0
    for number, length in function_lengths(lines):
        is_test = path.name.endswith("_test.cpp")
        if length > FUNCTION_NEVER and not is_test and REASON not in lines[number - 1]:
            problems.append(f"{where}:{number}: a function of {length} lines; {FUNCTION_NEVER} is the most")
        elif length > FUNCTION_RULE:
            over += 1
            if options.list:
                notes.append(f"{where}:{number}: a function of {length} lines, over {FUNCTION_RULE}")
    return problems, notes, over


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--list", action="store_true")
    parser.add_argument("root", nargs="?", default=Path(__file__).parent.parent)
    options = parser.parse_args()
    root = Path(options.root).resolve()
    problems, notes, over, count = [], [], 0, 0
    for name in ("src", "tests", "bench", "include"):
        for path in sorted((root / name).rglob("*")):
            if path.suffix not in (".h", ".cpp"):
                continue
            more_problems, more_notes, more_over = check_file(root, path, options)
            where = path.relative_to(root)
            problems += more_problems + check_classes(where, path) + check_detached(where, path)
            notes += more_notes
            over += more_over
            count += 1
    for note in notes:
        print(f"note: {note}")
    for problem in problems:
        print(problem, file=sys.stderr)
    if problems:
        return 1
    print(f"lengths: {count} files, none over the limits; {over} functions over {FUNCTION_RULE} lines")
    return 0


if __name__ == "__main__":
    sys.exit(main())
