#!/usr/bin/env python3
"""Makes bench/results/ of what the benchmarks measured.

    tools/bench_results.py ROWS COMMIT [DIRECTORY]

ROWS is the file that GLOVEBOX_BENCH_RESULTS named: one JSON object a line. Written are results.json,
results.md (a table for each benchmark) and starts.svg (the starts of bench_peers, on a logarithmic
scale). All of one run, with the commit and the machine that they belong to.
"""

import argparse
import datetime
import html
import json
import math
import os
import platform
import sys
from pathlib import Path

PLOTTED = "bench_peers"
WIDTH, LABEL, BAR, GAP, TOP = 820, 210, 22, 10, 46


def machine():
    model = "unknown processor"
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            model = line.split(":", 1)[1].strip()
            break
    return f"Linux {platform.release()} {platform.machine()}, {os.cpu_count()} cores, {model}"


def read_rows(path):
    rows = [json.loads(line) for line in Path(path).read_text().splitlines() if line]
    if not rows:
        sys.exit("bench_results.py: nothing was measured")
    return rows


def by_bench(rows):
    benches = {}
    for row in rows:
        benches.setdefault(row["bench"], []).append(row)
    return benches


def markdown(facts, benches):
    lines = ["# What was measured", "",
             f"Commit {facts['commit']}, {facts['date']}; {facts['machine']}. Rows of one table were measured",
             "interleaved in one run; ratios are of the p50 to that of the table's first row.", ""]
    for name, rows in benches.items():
        first = rows[0]["p50_us"]
        lines += [f"## {name}", "", "| what | p50 µs | p99 µs | ratio |", "|---|--:|--:|--:|"]
        lines += [f"| {row['what']} | {row['p50_us']:,.0f} | {row['p99_us']:,.0f} | {row['p50_us'] / first:.2f} |"
                  for row in rows]
        lines += ["", f"{rows[0]['rounds']} rounds, uid {rows[0]['uid']}.", ""]
    return "\n".join(lines)


def bar(row, index, scale):
    y = TOP + index * (BAR + GAP)
    length = scale(row["p50_us"])
    color = "#2b6cb0" if row["what"].startswith("glovebox") else "#a0aec0"
    name = html.escape(row["what"])
    return (f'<text x="{LABEL - 8}" y="{y + 15}" text-anchor="end">{name}</text>'
            f'<rect x="{LABEL}" y="{y}" width="{length:.0f}" height="{BAR}" fill="{color}"/>'
            f'<text x="{LABEL + length + 6:.0f}" y="{y + 15}">{row["p50_us"]:,.0f} µs</text>')


def plot(facts, rows):
    """Bars from a tenth of the fastest row to the slowest; each power of ten has the same length."""
    low = math.log10(min(row["p50_us"] for row in rows) / 10)
    high = math.log10(max(row["p50_us"] for row in rows))
    space = WIDTH - LABEL - 110

    def scale(value):
        return space * (math.log10(value) - low) / (high - low)

    height = TOP + len(rows) * (BAR + GAP) + 20
    bars = "\n".join(bar(row, index, scale) for index, row in enumerate(rows))
    title = html.escape(f"/usr/bin/true until its exit status is known, p50, logarithmic ({facts['commit']})")
    return (f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" '
            f'font-family="sans-serif" font-size="13">\n<rect width="100%" height="100%" fill="white"/>\n'
            f'<text x="12" y="24" font-size="15">{title}</text>\n{bars}\n</svg>\n')


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("rows")
    parser.add_argument("commit")
    parser.add_argument("directory", nargs="?", default="bench/results")
    arguments = parser.parse_args()
    rows = read_rows(arguments.rows)
    benches = by_bench(rows)
    facts = {"commit": arguments.commit, "date": datetime.date.today().isoformat(), "machine": machine()}
    directory = Path(arguments.directory)
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "results.json").write_text(json.dumps({**facts, "rows": rows}, indent=1) + "\n")
    (directory / "results.md").write_text(markdown(facts, benches))
    if PLOTTED in benches:
        (directory / "starts.svg").write_text(plot(facts, benches[PLOTTED]))
    print(f"bench: {len(rows)} rows of {len(benches)} benchmarks are in {directory}")


if __name__ == "__main__":
    main()
