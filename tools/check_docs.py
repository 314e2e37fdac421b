#!/usr/bin/env python3
"""Checks what in the documents a program can check.

    CHANGELOG.md parses as Keep a Changelog 1.1.0
    links between files of the repository lead to files (and headings) that exist
    decisions are numbered without a gap, have their four parts, and fit a page
    README.md lists the options that `glovebox run --help` has, no more and no fewer

    tools/check_docs.py [--glovebox BINARY] [ROOT]
"""

import argparse
import re
import subprocess
import sys
from pathlib import Path

RELEASE = re.compile(r"^## \[(Unreleased|\d+\.\d+\.\d+)\](?: - (\d{4}-\d{2}-\d{2}))?$")
KINDS = ["Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"]
LINK = re.compile(r"(?<!!)\[[^\]]+\]\(([^)\s]+)\)")
DECISION_PARTS = ["Context", "Decision", "Consequences", "What would change our mind"]
DECISION_LINES = 70
OPTION = re.compile(r"--[a-z][a-z-]+")


def check_changelog(path):
    lines = path.read_text(encoding="utf-8").splitlines()
    if not lines or lines[0] != "# Changelog":
        yield f"{path.name}:1: the first line is '# Changelog'"
    releases, kind = [], None
    for number, line in enumerate(lines, start=1):
        where = f"{path.name}:{number}"
        if line.startswith("## "):
            match, kind = RELEASE.match(line), None
            if not match or (match.group(1) == "Unreleased") != (match.group(2) is None):
                yield f"{where}: a release is '## [Unreleased]' or '## [1.2.3] - 2025-01-31'"
                continue
            releases.append(match.group(1))
        elif line.startswith("### "):
            kind = line[4:]
            if not releases or kind not in KINDS:
                yield f"{where}: below a release there are {', '.join(KINDS)}"
        elif line.startswith("- ") and kind is None:
            yield f"{where}: an entry stands below one of {', '.join(KINDS)}"
    if releases[:1] != ["Unreleased"]:
        yield f"{path.name}:1: the first release is [Unreleased]"
    numbers = [tuple(map(int, name.split("."))) for name in releases[1:] if name[0].isdigit()]
    if numbers != sorted(set(numbers), reverse=True):
        yield f"{path.name}:1: releases stand once each, the latest first"


def anchors(path):
    """The names of a document's headings, as GitHub makes them."""
    found = set()
    for line in path.read_text(encoding="utf-8").splitlines():
        if line.startswith("#"):
            text = line.lstrip("#").strip().lower()
            found.add(re.sub(r"[^\w\- ]", "", text).replace(" ", "-"))
    return found


def check_links(root, path):
    where = path.relative_to(root)
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        for target in LINK.findall(line):
            if re.match(r"[a-z]+:", target):
                continue
            name, _, anchor = target.partition("#")
            file = (path.parent / name) if name else path
            if not file.exists():
                yield f"{where}:{number}: {target} leads nowhere"
            elif anchor and file.suffix == ".md" and anchor not in anchors(file):
                yield f"{where}:{number}: {name or path.name} has no heading '{anchor}'"


def check_decisions(root):
    folder = root / "docs" / "decisions"
    for expected, path in enumerate(sorted(folder.glob("*.md")), start=1):
        where = path.relative_to(root)
        lines = path.read_text(encoding="utf-8").splitlines()
        if not path.name.startswith(f"{expected:04d}-"):
            yield f"{where}:1: number {expected:04d} is missing or used twice"
        parts = [line[3:] for line in lines if line.startswith("## ")]
        if parts != DECISION_PARTS:
            yield f"{where}:1: its parts are {', '.join(DECISION_PARTS)}"
        if len(lines) > DECISION_LINES:
            yield f"{where}:1: {len(lines)} lines are more than a page ({DECISION_LINES})"


def check_options(root, binary):
    done = subprocess.run([str(binary), "run", "--help"], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        yield f"{binary} run --help failed"
        return
    has = {match.group(0) for line in done.stdout.splitlines() if re.match(r"^\s+-", line)
           for match in [OPTION.search(line)] if match} - {"--help"}
    readme = (root / "README.md").read_text(encoding="utf-8").splitlines()
    lists = {OPTION.search(line).group(0) for line in readme
             if line.startswith("| `-") and OPTION.search(line)}
    for name in sorted(has - lists):
        yield f"README.md: its table of options lacks {name}"
    for name in sorted(lists - has):
        yield f"README.md: its table of options has {name}, which the command has not"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--glovebox", type=Path)
    parser.add_argument("root", nargs="?", type=Path, default=Path(__file__).parent.parent)
    options = parser.parse_args()
    root = options.root.resolve()
    documents = [path for path in sorted(root.rglob("*.md"))
                 if not any(part.startswith((".", "build")) for part in path.relative_to(root).parts)]
    problems = list(check_changelog(root / "CHANGELOG.md")) + list(check_decisions(root))
    for path in documents:
        problems += check_links(root, path)
    if options.glovebox:
        problems += check_options(root, options.glovebox)
    for problem in problems:
        print(problem, file=sys.stderr)
    if problems:
        return 1
    print(f"docs: {len(documents)} documents hold together")
    return 0


if __name__ == "__main__":
    sys.exit(main())
