#!/usr/bin/env python3
"""Checks that the rooms of src/ point one way, are small, and that no two hold files of one name.

A room is a folder of src/ or a sub-folder of one; a file belongs to the room it lies in. It includes files
of its own room and of rooms above it in the list below, which is the architecture (docs/architecture.md).
Own headers are included in quotes and by their path from src/ (tests: also from tests/), so that every
include says which room it uses.

A room has at most 40 files, tests included. A stem (x of x.h, x.cpp and x_test.cpp) stands in one room.

    tools/check_layers.py [ROOT]
"""

import re
import sys
from collections import defaultdict
from pathlib import Path

# A line is a folder; its rooms are in the order in which they may use each other.
ROOMS = """
base
async
authority
policy
host
plan/filter plan
launch/child launch
guest/protocol guest/files guest/shell guest/agent
workspace/tree workspace/git workspace/layer workspace/diff workspace/commit
request
checkpoint
egress/kernel egress/rules egress/dns egress
python python/host python/repl python/channel
session/store session/box session/python session/prepare session/state session/layers session/manager
library
observe
http
serve/bodies serve serve/routes
mcp/profile mcp/repl mcp
client
doctor
cli cli/completion cli/session cli/mcp
attack
app
""".split()
RANK = {name: rank for rank, name in enumerate(ROOMS)}
FOLDERS = list(dict.fromkeys(name.split("/")[0] for name in ROOMS))
# Above it in the list, and still none of its business: what both need is in http/.
NEVER = {("mcp", "serve")}
MOST_FILES = 40
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


def room_of(name):
    """The room of a path below src/."""
    return name.rpartition("/")[0]


def may_use(user, used):
    """Whether room `user` may include a file of room `used`."""
    if (user.split("/")[0], used.split("/")[0]) in NEVER:
        return False
    return RANK[used] <= RANK[user]


def check_source(root, path):
    """Problems of one file of src/, as "file:line: sentence"."""
    where = path.relative_to(root)
    room = room_of(path.relative_to(root / "src").as_posix())
    if room not in RANK:
        yield f"{where}:1: '{room}' is no room of src/ (the list is in tools/check_layers.py)"
        return
    for number, quote, name in includes(path):
        if quote == "<":
            if (root / "src" / name).is_file():
                yield f"{where}:{number}: <{name}> is our own: include it in quotes"
            continue
        if (root / "include" / name).is_file():
            continue  # the public headers are above everything
        used = room_of(name)
        if not (root / "src" / name).is_file():
            yield f'{where}:{number}: "{name}" is no file below src/ (own headers by their full path)'
        elif used in RANK and not may_use(room, used):
            yield f"{where}:{number}: {room}/ must not include {used}/ (the order is in tools/check_layers.py)"


def check_outside(root, path):
    """Problems of one file of tests/ or bench/: they may use every room, by the same words."""
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


def check_sizes(files):
    """Rooms with too many of these paths below src/."""
    counts = defaultdict(int)
    for name in files:
        counts[room_of(name)] += 1
    for room, count in sorted(counts.items()):
        if count > MOST_FILES:
            yield f"src/{room}: {count} files; {MOST_FILES} is the most"


def check_stems(files):
    """Stems that stand in two rooms."""
    rooms = defaultdict(set)
    for name in files:
        rooms[Path(name).stem.removesuffix("_test")].add(room_of(name))
    for stem, found in sorted(rooms.items()):
        if len(found) > 1:
            yield f"src: {stem} stands in {' and '.join(sorted(found))}; one name, one room"


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
        if folder not in FOLDERS:
            yield f"{where}:{line}: '{folder}' is no folder of the architecture"
            continue
        for used in depends_of(match.group(2)):
            below = used not in FOLDERS or FOLDERS.index(used) >= FOLDERS.index(folder)
            if below or (folder, used) in NEVER:
                yield f"{where}:{line}: {folder} must not depend on {used}"


def main():
    root = Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).parent.parent).resolve()
    problems, count = [], 0
    own = source_files(root / "src")
    for path in own:
        problems += check_source(root, path)
        count += 1
    names = [path.relative_to(root / "src").as_posix() for path in own]
    problems += check_sizes(names)
    problems += check_stems(names)
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
    print(f"layers: {count} files, all include upwards; {len(set(map(room_of, names)))} rooms, no stem in two")
    return 0


if __name__ == "__main__":
    sys.exit(main())
