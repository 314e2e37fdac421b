#!/usr/bin/env python3
"""Runs clang-tidy on what changed, within a time.

    tools/run_tidy.py --build-dir DIR [--all] [--seconds N] [--jobs N] [--mark FILE]

"Changed" is against the commit in the mark file (the last one that passed here), else against the
merge base with origin/main, else against the commit before; files that are not committed count as
changed. For a changed header, the sources that include it are looked at. When the time is up the files
that were not looked at are named and the mark stays where it was.
"""

import argparse
import concurrent.futures
import json
import os
import subprocess
import sys
import time
from pathlib import Path

TIDY = "clang-tidy-19"
PER_FILE_SECONDS = 300


def git(root, *words):
    """Output of a git command, or None when it fails."""
    done = subprocess.run(["git", "-C", str(root), *words], capture_output=True, text=True, check=False)
    return done.stdout.strip() if done.returncode == 0 else None


def base_commit(root, mark):
    head = git(root, "rev-parse", "HEAD")
    candidates = []
    if mark and mark.is_file():
        candidates.append(mark.read_text(encoding="utf-8").strip())
    merge_base = git(root, "merge-base", "HEAD", "origin/main")
    if merge_base and merge_base != head:
        candidates.append(merge_base)
    candidates.append("HEAD~1")
    for candidate in candidates:
        if git(root, "merge-base", "--is-ancestor", candidate, "HEAD") is not None:
            return git(root, "rev-parse", candidate)
    return None


def changed_files(root, base):
    """Paths below root that differ from the base, or None when that cannot be told."""
    if base is None:
        return None
    committed = git(root, "diff", "--name-only", base)
    untracked = git(root, "ls-files", "--others", "--exclude-standard")
    if committed is None or untracked is None:
        return None
    return {root / name for name in (committed + "\n" + untracked).split("\n") if name}


def compiled_sources(root, build_dir):
    """Sources of ours in the compilation database, without those that the build writes."""
    with open(build_dir / "compile_commands.json", encoding="utf-8") as file:
        commands = json.load(file)
    sources = {Path(command["file"]) for command in commands}
    return sorted(source for source in sources if source.is_relative_to(root) and source.is_file()
                  and not source.is_relative_to(build_dir.resolve()))


def select(root, sources, changed):
    headers = {path for path in changed if path.suffix == ".h"}
    names = [f'#include "{path.relative_to(root / base)}"'
             for path in headers for base in ("src", "tests") if path.is_relative_to(root / base)]
    chosen = []
    for source in sources:
        if source in changed:
            chosen.append(source)
        elif names:
            text = source.read_text(encoding="utf-8")
            if any(name in text for name in names):
                chosen.append(source)
    # What itself changed first, then what includes it.
    return sorted(chosen, key=lambda source: (source not in changed, str(source)))


def tidy(build_dir, source, deadline):
    """(source, None when there was no time, else whether it passed, output)."""
    left = PER_FILE_SECONDS if deadline is None else min(PER_FILE_SECONDS, deadline - time.monotonic())
    if left <= 1:
        return source, None, ""
    try:
        done = subprocess.run([TIDY, "--quiet", "-p", str(build_dir), str(source)],
                              capture_output=True, text=True, check=False, timeout=left)
    except subprocess.TimeoutExpired:
        return source, None, ""
    return source, done.returncode == 0, done.stdout + (done.stderr if done.returncode != 0 else "")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build-dir", type=Path, required=True)
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--seconds", type=int, default=240)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--mark", type=Path)
    options = parser.parse_args()
    root = Path(__file__).resolve().parent.parent
    sources = compiled_sources(root, options.build_dir)
    base = None if options.all else base_commit(root, options.mark)
    changed = None if options.all else changed_files(root, base)
    chosen = sources if changed is None else select(root, sources, changed)
    against = "everything" if changed is None else f"changed since {base[:12]}"
    print(f"tidy: {len(chosen)} of {len(sources)} sources ({against})", flush=True)

    deadline = None if options.all else time.monotonic() + options.seconds
    failed, skipped = [], []
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        jobs = [pool.submit(tidy, options.build_dir, source, deadline) for source in chosen]
        for number, job in enumerate(concurrent.futures.as_completed(jobs), start=1):
            source, passed, output = job.result()
            name = source.relative_to(root)
            if passed is None:
                skipped.append(str(name))
                continue
            print(f"[{number}/{len(chosen)}] {name}", flush=True)
            if not passed:
                failed.append(str(name))
                print(output, flush=True)
    if skipped:
        print(f"tidy: no time for {len(skipped)} sources: {', '.join(sorted(skipped))}")
    if failed:
        print(f"tidy: {len(failed)} sources with findings: {', '.join(sorted(failed))}", file=sys.stderr)
        return 1
    head = git(root, "rev-parse", "HEAD")
    if options.mark and head and not skipped:
        options.mark.write_text(head + "\n", encoding="utf-8")
    print(f"tidy: {len(chosen) - len(skipped)} sources without findings")
    return 0


if __name__ == "__main__":
    sys.exit(main())
