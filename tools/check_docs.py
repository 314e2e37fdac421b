#!/usr/bin/env python3
"""Checks what in the documents a program can check.

    CHANGELOG.md parses as Keep a Changelog 1.1.0
    links between files of the repository lead to files (and headings) that exist
    decisions are numbered without a gap, have their four parts, fit a page, and are in the index with their title
    files and folders that CONTRIBUTING.md, CODEOWNERS and the folder READMEs name exist
    types that the folder READMEs and the glossary name are declared in the sources
    the large folders of src/ have a README
    CONTRIBUTING.md's command for one unit test selects tests that exist, and passes where it is built
    comments and documents name roles: few are left that say nobody, whoever or somebody
    README.md lists the options that `glovebox run --help` has, no more and no fewer

    tools/check_docs.py [--glovebox BINARY] [--persons] [ROOT]
"""

import argparse
import io
import re
import subprocess
import sys
import tokenize
from pathlib import Path

RELEASE = re.compile(r"^## \[(Unreleased|\d+\.\d+\.\d+)\](?: - (\d{4}-\d{2}-\d{2}))?$")
KINDS = ["Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"]
LINK = re.compile(r"(?<!!)\[[^\]]+\]\(([^)\s]+)\)")
DECISION_PARTS = ["Context", "Decision", "Consequences", "What would change our mind"]
DECISION_LINES = 70
OPTION = re.compile(r"--[a-z][a-z-]+")
INDEX_ROW = re.compile(r"^\| (\d+) \| \[(.+)\]\((\d{4}-[\w-]+\.md)\) \| (.+) \| (.+) \|$")
FOLDERS_WITH_README = ["authority", "cli", "egress", "guest", "http", "launch", "launch/child", "mcp", "plan", "policy",
                       "python", "serve", "session", "workspace"]
QUOTED = re.compile(r"`([^`\n]+)`")
# `plan/spec.h`, `src/plan/`, `view.*`: a path, and not an absolute one of a host or a box.
PATH = re.compile(r"(?:[\w.-]+/)+(?:[\w.*-]+)?|[\w*-]+\.(?:h|cpp|py|md|txt|sh|yaml|json|\*)")
TYPE = re.compile(r"[A-Z][a-z0-9]+(?:[A-Z]+[a-z0-9]*)*")
DECLARES = re.compile(r"\b(?:class|struct|union|enum(?: class)?|using|concept)\s+(?:\[\[\w+\]\]\s*)?([A-Z]\w+)")
UNIT_TEST = re.compile(r"\bbuild/(glovebox_\w+_test) --gtest_filter='(\w+)\.\*'")
PERSONS = re.compile(r"(?<![\"'`])\b(?:nobody|whoever|somebody)\b(?![\"'`])", re.IGNORECASE)  # quoted: the Unix user
PERSONS_LIMIT = 20
COMMENT = {".h": "//", ".cpp": "//", ".yaml": "#", ".cmake": "#", ".sh": "#", ".txt": "#", "": "#"}
SOURCE_FOLDERS = ["src", "include", "sdk", "tests", "bench", "examples", "policies", "schema", "cmake", "tools"]


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
    for expected, path in enumerate(sorted(folder.glob("[0-9]*.md")), start=1):
        where = path.relative_to(root)
        lines = path.read_text(encoding="utf-8").splitlines()
        if not path.name.startswith(f"{expected:04d}-"):
            yield f"{where}:1: number {expected:04d} is missing or used twice"
        parts = [line[3:] for line in lines if line.startswith("## ")]
        if parts != DECISION_PARTS:
            yield f"{where}:1: its parts are {', '.join(DECISION_PARTS)}"
        if len(lines) > DECISION_LINES:
            yield f"{where}:1: {len(lines)} lines are more than a page ({DECISION_LINES})"


def check_decision_index(root):
    index = root / "docs" / "decisions" / "README.md"
    where = index.relative_to(root)
    if not index.is_file():
        yield f"{where}: the index of decisions is missing"
        return
    listed = []
    for number, line in enumerate(index.read_text(encoding="utf-8").splitlines(), start=1):
        row = INDEX_ROW.match(line)
        if not row:
            continue
        listed.append(row.group(3))
        path = index.parent / row.group(3)
        title = f"# {row.group(1)}. {row.group(2)}"
        if path.is_file() and path.read_text(encoding="utf-8").split("\n", 1)[0] != title:
            yield f"{where}:{number}: {path.name} does not begin with '{title}'"
    for name in sorted({path.name for path in index.parent.glob("[0-9]*.md")} - set(listed)):
        yield f"{where}: {name} is not in the index"
    if listed != sorted(set(listed)):
        yield f"{where}: decisions stand once each, in their order"


def quoted_words(path):
    """Pairs (line number, word) of what a document has in backquotes, outside of its code blocks."""
    in_block = False
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        if line.lstrip().startswith("```"):
            in_block = not in_block
        elif not in_block:
            for word in QUOTED.findall(line):
                yield number, word


def check_paths(root, path):
    """Paths are meant from the document's folder, from src/ or from the root; `x.*` means at least one file."""
    where = path.relative_to(root)
    for number, word in quoted_words(path):
        if PATH.fullmatch(word) and not any(any(base.glob(word)) for base in (path.parent, root / "src", root)):
            yield f"{where}:{number}: there is no {word}"


def check_owners(root):
    path = root / "CODEOWNERS"
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        name = line.split()[0] if line.strip() else "#"
        if name.startswith("/") and not (root / name[1:]).exists():
            yield f"CODEOWNERS:{number}: there is no {name}"


def check_readmes(root):
    for name in FOLDERS_WITH_README:
        if not (root / "src" / name / "README.md").is_file():
            yield f"src/{name}/README.md is missing: what the folder is for, and what to read first"


def declared_types(root):
    names = set()
    for folder in ("src", "include"):
        for path in (root / folder).rglob("*"):
            if path.suffix in (".h", ".cpp"):
                names.update(DECLARES.findall(path.read_text(encoding="utf-8")))
    return names


def check_types(root, path, declared):
    for number, word in quoted_words(path):
        if TYPE.fullmatch(word) and word not in declared:
            yield f"{path.relative_to(root)}:{number}: no type is called {word}"


def check_first_test(root, binary):
    """The command for one unit test: static, and for real where its program is built."""
    found = UNIT_TEST.search((root / "CONTRIBUTING.md").read_text(encoding="utf-8"))
    if not found:
        yield "CONTRIBUTING.md: there is no command for one unit test"
        return
    program, suite = found.groups()
    folder = program.removeprefix("glovebox_").removesuffix("_test")
    tests = [path.read_text(encoding="utf-8") for path in (root / "src" / folder).rglob("*_test.cpp")]
    if not any(f"TEST({suite}, " in text for text in tests):
        yield f"CONTRIBUTING.md: src/{folder}/ has no test suite {suite}"
        return
    built = binary.parent / program if binary else None
    if built and built.is_file():
        done = subprocess.run([str(built), f"--gtest_filter={suite}.*"], capture_output=True, text=True, check=False)
        if done.returncode != 0:
            yield f"CONTRIBUTING.md: its command for one unit test failed:\n{done.stdout[-2000:]}"


def comments_of_python(text):
    """Comments and the strings that stand alone, which are documentation."""
    before = tokenize.NEWLINE
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        alone = before in (tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT)
        if token.type == tokenize.COMMENT or (token.type == tokenize.STRING and alone):
            yield token.start[0], token.string
        if token.type not in (tokenize.NL, tokenize.COMMENT):
            before = token.type


def comments_of(path):
    """Pairs (line number, text) of the comments of one source file."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".py":
        yield from comments_of_python(text)
        return
    begin = re.compile(r"(?:^|\s)" + re.escape(COMMENT[path.suffix]) + r"(?:\s|$)(.*)")
    for number, line in enumerate(text.splitlines(), start=1):
        found = begin.search(line)
        if found:
            yield number, found.group(1)


def own_sources(root):
    yield root / "dev"
    for folder in SOURCE_FOLDERS:
        for path in sorted((root / folder).rglob("*")):
            if path.suffix == ".py" or (path.suffix in COMMENT and path.suffix):
                if path.is_file() and "corpus" not in path.parts and path.name != "check_docs.py":
                    yield path


def persons(root, documents):
    """Where comments and documents speak of persons, as "file:line: word"."""
    for path in documents:
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
            for word in PERSONS.findall(line):
                yield f"{path.relative_to(root)}:{number}: {word}"
    for path in own_sources(root):
        for number, text in comments_of(path):
            for word in PERSONS.findall(text):
                yield f"{path.relative_to(root)}:{number}: {word}"


def check_persons(root, documents):
    found = list(persons(root, documents))
    if len(found) > PERSONS_LIMIT:
        yield from found
        yield (f"comments and documents say nobody, whoever or somebody {len(found)} times; {PERSONS_LIMIT} is the most: "
               "name the role (the caller, the client, the box, another process)")


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
    parser.add_argument("--persons", action="store_true", help="list where comments and documents speak of persons")
    parser.add_argument("root", nargs="?", type=Path, default=Path(__file__).parent.parent)
    options = parser.parse_args()
    root = options.root.resolve()
    documents = [path for path in sorted(root.rglob("*.md"))
                 if not any(part.startswith((".", "build")) for part in path.relative_to(root).parts)]
    problems = list(check_changelog(root / "CHANGELOG.md")) + list(check_decisions(root))
    problems += list(check_decision_index(root)) + list(check_owners(root)) + list(check_readmes(root))
    declared = declared_types(root)
    for path in documents:
        problems += check_links(root, path)
        is_readme = path.name == "README.md" and path.is_relative_to(root / "src")
        if is_readme or path == root / "CONTRIBUTING.md":
            problems += check_paths(root, path)
        if is_readme or path == root / "docs" / "glossary.md":
            problems += check_types(root, path, declared)
    problems += check_first_test(root, options.glovebox)
    problems += check_persons(root, documents)
    if options.persons:
        print("\n".join(persons(root, documents)))
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
