"""Figures of the benchmarks that are written in Python: printed, and recorded as those in C++ are (measure.h)."""

import json
import os
import sys
from pathlib import Path


def record(**members):
    place = os.environ.get("GLOVEBOX_BENCH_RESULTS")
    if not place:
        return
    line = {"bench": f"bench_{Path(sys.argv[0]).stem}", "uid": os.getuid(), **members}
    with open(place, "a", encoding="utf-8") as results:
        results.write(json.dumps(line) + "\n")


def figure(name, value, unit, at_most=None, at_least=None, beside=""):
    """One number, and whether it is as asked."""
    members = {"figure": name, "value": round(value, 4), "unit": unit}
    verdict = ""
    if at_most is not None or at_least is not None:
        way, asked = ("at most", at_most) if at_most is not None else ("at least", at_least)
        reached = value <= asked if at_most is not None else value >= asked
        members.update(asked=asked, way=way, reached=reached)
        verdict = f"(asked: {way} {asked:g}{'' if reached else '; MISSED'})"
    print(f"{name:<44} {value:>12.2f} {unit:<8} {verdict} {beside}".rstrip())
    record(**members)
