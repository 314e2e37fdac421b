#!/usr/bin/env python3
"""Checks that what base/ has is used, and not written again.

Product code of src/ opens pidfds, pipes, pairs of sockets and epolls, reads JSON and matches wildcards by
the headers named below. Free of this are base/ itself, launch/child/ (a dialect that links nothing:
src/launch/child/README.md) and tests, which look at the kernel beside the code under test. Comments and
strings do not count.

    tools/check_foundations.py [ROOT]
"""

import re
import sys
from pathlib import Path

# What is looked for, and what is used instead.
FOUNDATIONS = [
    (r"\b(SYS_)?pidfd_open\b", "open_pidfd() of base/pidfd.h"),
    (r"\b(SYS_)?pidfd_send_signal\b", "kill_process() of base/pidfd.h"),
    (r"\bP_PIDFD\b", "reap_process() or has_ended() of base/pidfd.h"),
    (r"\bpipe2?\(\s*[^)\s]", "open_pipe() of base/pipe.h"),
    (r"\bsocketpair\(", "open_socket_pair() of base/pipe.h"),
    (r"\bepoll_(create1?|p?wait2?)\(", "Epoll of base/epoll.h"),
    (r"\bjson::(parse|parser|stream_parser)\b", "parse_strict_json() of base/strict_json.h"),
    (r"\bfnmatch\(", "GlobPattern of base/glob.h"),
]
FREE = ("base/", "launch/child/")
# A file that may, and why.
ALLOWED = {}

IS_TEST = re.compile(r"_test(_support)?[.](h|cpp)$")
# In this order: a string may hold "//", and a comment a quote.
NO_CODE = re.compile(r'R"(\w*)\(.*?\)\1"|"(?:\\.|[^"\\\n])*"|//[^\n]*|/\*.*?\*/', re.DOTALL)


def code_of(text):
    """The text without strings and comments, on the same lines."""
    return NO_CODE.sub(lambda match: "\n" * match.group(0).count("\n"), text)


def check_file(root, path):
    """Problems of one file, as "file:line: sentence"."""
    for number, line in enumerate(code_of(path.read_text(encoding="utf-8")).splitlines(), start=1):
        for pattern, instead in FOUNDATIONS:
            found = re.search(pattern, line)
            if found:
                yield f"{path.relative_to(root)}:{number}: '{found.group(0)}': use {instead}"


def main():
    root = Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).parent.parent).resolve()
    problems, count = [], 0
    for path in sorted(path for path in (root / "src").rglob("*") if path.suffix in {".h", ".cpp"}):
        name = path.relative_to(root / "src").as_posix()
        if name.startswith(FREE) or IS_TEST.search(name) or name in ALLOWED:
            continue
        problems += check_file(root, path)
        count += 1
    problems += [f"tools/check_foundations.py: {name} is allowed and is no file"
                 for name in ALLOWED if not (root / "src" / name).is_file()]
    for problem in problems:
        print(problem, file=sys.stderr)
    if count == 0:
        print("foundations: no sources found", file=sys.stderr)
    if problems or count == 0:
        return 1
    print(f"foundations: {count} files use base/ for what it has")
    return 0


if __name__ == "__main__":
    sys.exit(main())
