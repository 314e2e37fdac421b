#!/usr/bin/env python3
"""Checks that the folders of src/ point one way.

A folder includes itself and folders above it in the list below, which is the architecture
(docs/architecture.md). Own headers are included in quotes and by their path from src/ (tests: also
from tests/), so that every include says which folder it uses.

    tools/check_layers.py [ROOT]
"""

import re
import sys
from pathlib import Path

LAYERS = [
    "base", "async", "authority", "policy", "host", "plan", "launch", "guest", "workspace",
    "request", "checkpoint", "egress", "python", "session", "library", "observe", "http", "serve",
    "mcp", "client", "doctor", "cli", "attack", "app",
]
RANK = {name: rank for rank, name in enumerate(LAYERS)}
SOURCES = {".h", ".cpp"}
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')
FOLDER_CALL = re.compile(r"glovebox_folder\(\s*(\w+)([^)]*)\)", re.DOTALL)
KEYWORDS = {"DEPENDS", "SOURCES", "TESTS", "TEST_LIBS"}


def source_files(directory):
    return sorted(path for path in directory.rglob("*") if path.suffix in SOURCES)


def includes(path):
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        match = INCLUDE.match(line)
        if match:
            yield number, match.group(1), match.group(2)


def is_too_low(user, used):
    """Whether folder `user` may not use folder `used`."""
    return RANK[used] > RANK[user]


def check_source(root, path):
    """Problems of one file of src/, as "file:line: sentence"."""
    where = path.relative_to(root)
    folder = where.parts[1] if len(where.parts) > 2 else None
    if folder not in RANK:
        yield f"{where}:1: src/ has the folders {', '.join(LAYERS)}, and no files outside them"
        return
    for number, quote, name in includes(path):
        if quote == "<":
            if (root / "src" / name).is_file():
                yield f"{where}:{number}: <{name}> is our own: include it in quotes"
            continue
        used = name.split("/")[0]
        if (root / "include" / name).is_file():
            continue  # the public headers are above everything
        if not (root / "src" / name).is_file():
            yield f'{where}:{number}: "{name}" is no file below src/ (own headers by their full path)'
        elif is_too_low(folder, used):
            yield f"{where}:{number}: {folder}/ must not include {used}/, which is below it"


def check_outside(root, path):
    """Problems of one file of tests/ or bench/: they may use every folder, by the same words."""
    where = path.relative_to(root)
    bases = [root / "src", root / where.parts[0], path.parent]
    for number, quote, name in includes(path):
        if (root / "include" / name).is_file():
            continue  # public, and included as a user does
        own = any((base / name).is_file() for base in bases)
        if quote == "<" and own and "/" in name:
            yield f"{where}:{number}: <{name}> is our own: include it in quotes"
        elif quote == '"' and not own:
            yield f'{where}:{number}: "{name}" is none of our files'


def depends_of(arguments):
    """The words after DEPENDS in the arguments of glovebox_folder()."""
    words, taking = [], False
    for word in arguments.split():
        if word in KEYWORDS:
            taking = word == "DEPENDS"
        elif taking:
            words.append(word)
    return words


def check_cmake(root, path):
    """Problems of the declared dependencies of one folder."""
    where = path.relative_to(root)
    text = path.read_text(encoding="utf-8")
    for match in FOLDER_CALL.finditer(text):
        folder, line = match.group(1), text.count("\n", 0, match.start()) + 1
        if folder not in RANK:
            yield f"{where}:{line}: '{folder}' is no folder of the architecture"
            continue
        for used in depends_of(match.group(2)):
            if used not in RANK or is_too_low(folder, used) or used == folder:
                yield f"{where}:{line}: {folder} must not depend on {used}"


def main():
    root = Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).parent.parent).resolve()
    problems, count = [], 0
    for path in source_files(root / "src"):
        problems += check_source(root, path)
        count += 1
    for name in ("tests", "bench"):
        for path in source_files(root / name):
            problems += check_outside(root, path)
            count += 1
    for path in sorted((root / "src").rglob("CMakeLists.txt")):
        problems += check_cmake(root, path)
    for problem in problems:
        print(problem, file=sys.stderr)
    if count == 0:
        print("layers: no sources found", file=sys.stderr)
        return 1
    if problems:
        return 1
    print(f"layers: {count} files, all include upwards")
    return 0


if __name__ == "__main__":
    sys.exit(main())
