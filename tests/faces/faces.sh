#!/bin/sh
# faces.sh TEST SOURCE PYTHON [AS...]: the bodies of the SDK are made first, then all faces are compared.
set -eu
test=$1 source=$2 python=$3
shift 3
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
mkdir "$place/workspace" "$place/data" "$place/data/secret" "$place/state"
PYTHONDONTWRITEBYTECODE=1 PYTHONPATH=$source/sdk/python/src "$python" "$source/tests/faces/sdk_bodies.py" \
  "$source/tests/faces/cases.json" "$place/workspace" "$place/data" "$place/state" >"$place/state/sdk.json"
[ $# -eq 0 ] || chown -R 65533:65533 "$place"
GLOVEBOX_FACES=$place "$@" "$test"
