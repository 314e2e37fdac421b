#!/usr/bin/env bash
# Installs what the tests of the Python SDK need, at the versions that are written down here, below DIRECTORY.
#   tests/sdk/install.sh DIRECTORY
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
directory=$1

# A stamp of what was installed, so that a second call has nothing to do.
stamp=$(sha256sum <"$here/requirements.txt" | cut -d' ' -f1)
[[ $(cat "$directory/stamp" 2>/dev/null) != "$stamp" ]] || exit 0

# Debian's Python: the tests of an ordinary user run with it too.
/usr/bin/python3 -m venv --clear "$directory/venv"
"$directory/venv/bin/pip" install --quiet --disable-pip-version-check -r "$here/requirements.txt"
printf '%s\n' "$stamp" >"$directory/stamp"
