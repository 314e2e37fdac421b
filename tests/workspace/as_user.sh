#!/bin/sh
# Runs a test program as an ordinary user, from a place that the user can reach: PROGRAM [ARGUMENT...].
set -eu
place=$(mktemp -d /tmp/glovebox-as-user-XXXXXX)
trap 'rm -rf -- "$place"' EXIT
chmod 0755 "$place"
cp -- "$1" "$place/test"
shift
setpriv --reuid 65533 --regid 65533 --clear-groups "$place/test" "$@"
