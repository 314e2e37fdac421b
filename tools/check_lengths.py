#!/usr/bin/env python3
"""Counts lines. Fails on what must never be, mentions what is over the rule.

    files      600 as a rule, 1000 never
    headers    250, never more
    functions   40 as a rule, 60 never without a reason: a comment NOLINT(readability-function-size)
               on its first line. Tests may be longer: their length is tables of cases.

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
            problems += more_problems
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
