#!/usr/bin/env bash
# Installs the published clients, at the versions that are written down here, below DIRECTORY.
#   tests/clients/install.sh DIRECTORY
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
directory=$1
mkdir -p "$directory/javascript"

# A stamp of what was installed, so that a second call has nothing to do.
stamp=$(cat "$here/requirements.txt" "$here/package-lock.json" | sha256sum | cut -d' ' -f1)
[[ $(cat "$directory/stamp" 2>/dev/null) != "$stamp" ]] || exit 0

python3 -m venv --clear "$directory/python"
"$directory/python/bin/pip" install --quiet --disable-pip-version-check -r "$here/requirements.txt"

# The JavaScript SDK asks for Node 20, and Debian 12 has an older one: it comes with the Python packages.
export PATH="$directory/python/bin:$PATH"
cp "$here/package.json" "$here/package-lock.json" "$here/.npmrc" "$directory/javascript/"
(cd "$directory/javascript" && npm ci --no-audit --no-fund --ignore-scripts)
printf '%s\n' "$stamp" >"$directory/stamp"
