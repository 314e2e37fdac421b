#!/usr/bin/env python3
"""Makes bench/results/ of what the benchmarks measured.

    tools/bench_results.py ROWS COMMIT [DIRECTORY]

ROWS is the file that GLOVEBOX_BENCH_RESULTS named: one JSON object a line, which is a row of a table (its p50 and p99),
a figure (with what was asked of it, if anything was) or a note. Written are results.json, results.md, starts.svg (the
starts of bench_peers, on a logarithmic scale) and scaling.svg (what a session costs while so many live). All of one run,
with the commit and the machine that they belong to.
"""

import argparse
import datetime
import html
import json
import math
import os
import platform
import re
import sys
from pathlib import Path

STARTS = "bench_peers"
SCALING = re.compile(r"^(?P<what>.*), live: (?P<many>\d+)$")
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


def grouped(rows, key):
    groups = {}
    for row in rows:
        groups.setdefault(key(row), []).append(row)
    return groups


def who(uid):
    return "root" if uid == 0 else "an ordinary user"


def number(value):
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:,.1f}" if abs(value) >= 10 else f"{value:.2f}"


def asked_table(rows):
    """What was asked of a figure, and whether it was reached, before everything else."""
    figures = [row for row in rows if "asked" in row]
    missed = sum(not row["reached"] for row in figures)
    lines = ["## What was asked", "", f"{len(figures) - missed} of {len(figures)} figures are as asked.", "",
             "| figure | measured | asked | |", "|---|--:|--:|---|"]
    for row in figures:
        name = row["figure"] + ("" if row["uid"] == 0 else f" ({who(row['uid'])})")
        lines.append(f"| {name} | {number(row['value'])} {row['unit']} | {row['way']} {row['asked']:g} "
                     f"| {'reached' if row['reached'] else '**missed**'} |")
    return lines + [""]


def times_table(rows):
    first = rows[0]["p50_us"]
    lines = ["| what | p50 µs | p99 µs | ratio |", "|---|--:|--:|--:|"]
    lines += [f"| {row['what']} | {row['p50_us']:,.0f} | {row['p99_us']:,.0f} | {row['p50_us'] / first:.2f} |"
              for row in rows]
    return lines + ["", f"{rows[0]['rounds']} rounds.", ""]


def bench_part(name, uid, rows):
    lines = [f"## {name}, as {who(uid)}", ""]
    for table in grouped([row for row in rows if "table" in row], lambda row: row["table"]).values():
        lines += times_table(table)
    figures = [row for row in rows if "figure" in row]
    if figures:
        lines += ["| figure | measured |", "|---|--:|"]
        lines += [f"| {row['figure']} | {number(row['value'])} {row['unit']} |" for row in figures] + [""]
    notes = [f"- {row['note']}" for row in rows if "note" in row]
    return lines + (notes + [""] if notes else [])


def markdown(facts, rows):
    lines = ["# What was measured", "",
             f"Commit {facts['commit']}, {facts['date']}; {facts['machine']}; load {facts['load']} at the end. Rows of one",
             "table were measured interleaved in one run; ratios are of the p50 to that of the table's first row. The",
             "machine is virtual and shared: ratios mean more than times.", ""]
    lines += asked_table(rows)
    for (name, uid), part in grouped(rows, lambda row: (row["bench"], row["uid"])).items():
        lines += bench_part(name, uid, part)
    return "\n".join(lines)


def svg(height, title, content):
    return (f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" '
            f'font-family="sans-serif" font-size="13">\n<rect width="100%" height="100%" fill="white"/>\n'
            f'<text x="12" y="24" font-size="15">{html.escape(title)}</text>\n{content}\n</svg>\n')


def bar(row, index, scale):
    y = TOP + index * (BAR + GAP)
    length = scale(row["p50_us"])
    color = "#2b6cb0" if row["what"].startswith("glovebox") else "#a0aec0"
    name = html.escape(row["what"])
    return (f'<text x="{LABEL - 8}" y="{y + 15}" text-anchor="end">{name}</text>'
            f'<rect x="{LABEL}" y="{y}" width="{length:.0f}" height="{BAR}" fill="{color}"/>'
            f'<text x="{LABEL + length + 6:.0f}" y="{y + 15}">{row["p50_us"]:,.0f} µs</text>')


def plot_starts(facts, rows):
    """Bars from a tenth of the fastest row to the slowest; each power of ten has the same length."""
    low = math.log10(min(row["p50_us"] for row in rows) / 10)
    high = math.log10(max(row["p50_us"] for row in rows))
    space = WIDTH - LABEL - 110

    def scale(value):
        return space * (math.log10(value) - low) / (high - low)

    bars = "\n".join(bar(row, index, scale) for index, row in enumerate(rows))
    title = f"/usr/bin/true until its exit status is known, p50, logarithmic ({facts['commit']})"
    return svg(TOP + len(rows) * (BAR + GAP) + 20, title, bars)


def scaling_series(rows):
    """What was measured at each number of live sessions: {(what, unit): [(many, value), ...]}."""
    series = {}
    for row in rows:
        found = SCALING.match(row.get("figure", ""))
        if found:
            series.setdefault((found["what"], row["unit"]), []).append((int(found["many"]), row["value"]))
    return series


def plot_scaling(facts, series):
    """One panel for each series; the numbers of sessions on a logarithmic axis, the values from zero."""
    parts = []
    panel, left, right = 130, 60, WIDTH - 90
    most = max(many for points in series.values() for many, _ in points)
    for index, ((what, unit), points) in enumerate(series.items()):
        top = TOP + index * (panel + 30)
        highest = max(value for _, value in points) * 1.25

        def place(many, value, top=top, highest=highest):
            x = left + (right - left) * (math.log10(many) / math.log10(most))
            return x, top + 18 + (panel - 18) * (1 - value / highest)

        parts.append(f'<text x="{left}" y="{top + 8}">{html.escape(what)}, {html.escape(unit)}</text>')
        parts.append(f'<line x1="{left}" y1="{top + panel}" x2="{right}" y2="{top + panel}" stroke="#a0aec0"/>')
        path = " ".join(f"{x:.0f},{y:.0f}" for x, y in (place(*point) for point in points))
        parts.append(f'<polyline points="{path}" fill="none" stroke="#2b6cb0" stroke-width="2"/>')
        for many, value in points:
            x, y = place(many, value)
            parts.append(f'<circle cx="{x:.0f}" cy="{y:.0f}" r="3" fill="#2b6cb0"/>'
                         f'<text x="{x:.0f}" y="{y - 7:.0f}" text-anchor="middle">{number(value)}</text>'
                         f'<text x="{x:.0f}" y="{top + panel + 15}" text-anchor="middle" fill="#4a5568">{many:,}</text>')
    title = f"One session while so many live ({facts['commit']})"
    return svg(TOP + len(series) * (panel + 30) + 10, title, "\n".join(parts))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("rows")
    parser.add_argument("commit")
    parser.add_argument("directory", nargs="?", default="bench/results")
    arguments = parser.parse_args()
    rows = read_rows(arguments.rows)
    facts = {"commit": arguments.commit, "date": datetime.date.today().isoformat(), "machine": machine(),
             "load": f"{os.getloadavg()[0]:.1f}"}
    directory = Path(arguments.directory)
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "results.json").write_text(json.dumps({**facts, "rows": rows}, indent=1) + "\n")
    (directory / "results.md").write_text(markdown(facts, rows))
    starts = [row for row in rows if row["bench"] == STARTS and "table" in row and row["uid"] == rows[0]["uid"]]
    if starts:
        (directory / "starts.svg").write_text(plot_starts(facts, starts))
    if series := scaling_series(rows):
        (directory / "scaling.svg").write_text(plot_scaling(facts, series))
    print(f"bench: {len(rows)} lines of {len(grouped(rows, lambda row: row['bench']))} benchmarks are in {directory}")


if __name__ == "__main__":
    main()
