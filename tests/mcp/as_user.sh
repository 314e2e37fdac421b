#!/bin/sh
# as_user.sh TESTS GLOVEBOX LAUNCHER: the same tests as an ordinary user, from copies that it can
# read.
set -eu
[ "$(id -u)" = 0 ] || exit 77
place=$(mktemp -d /srv/glovebox-mcp-user-XXXXXX)
trap 'rm -rf "$place"' EXIT
cp "$1"/*.py "$1"/*.json "$2" "$3" "$place"
chmod 755 "$place"
chmod a+rX "$place"/*
mkdir "$place/home"
chown 65533:65533 "$place/home"
cd "$place"
env -i PATH=/usr/bin:/bin HOME="$place/home" GLOVEBOX="$place/glovebox" PYTHONDONTWRITEBYTECODE=1 \
  GLOVEBOX_TEST_PLACE="$place/home" \
  setpriv --reuid 65533 --regid 65533 --clear-groups \
  /usr/bin/python3 -m unittest inherit_test codex_glob_test repl_test calls_test session_test install_test http_test kill_test
