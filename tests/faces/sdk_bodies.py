"""Prints the bodies that the Python SDK sends for the cases that it can express, as a JSON object by name.

    sdk_bodies.py CASES WORKSPACE DATA STATE
"""
import json
import sys

import glovebox as gb
from glovebox._request import SpawnRequest

cases, workspace, data, state = sys.argv[1:]
names = {"gb": gb, "W": workspace, "D": data, "S": state, "Request": SpawnRequest}
bodies = {}
with open(cases, encoding="utf-8") as file:
    for case in json.load(file):
        if "python" not in case:
            continue
        request = eval(f"Request(name='', python=False, {case['python']})", names)  # our own table
        bodies[case["name"]] = request.to_body(idle_timeout=None)
json.dump(bodies, sys.stdout)
