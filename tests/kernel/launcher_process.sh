#!/bin/sh
# Runs the launcher test from a place that an ordinary user can reach: TEST LAUNCHER [WRAPPER...].
set -eu
place=$(mktemp -d /tmp/glovebox-launcher-test-XXXXXX)
trap 'rm -rf -- "$place"' EXIT
chmod 0755 "$place"
cp -- "$1" "$place/test"
cp -- "$2" "$place/glovebox-launcher"
shift 2
GLOVEBOX_LAUNCHER="$place/glovebox-launcher" "$@" "$place/test"
