#!/usr/bin/env bash
# What `cmake --install` leaves is all that a user needs: the example is built against it with CMake and with
# pkg-config, and runs; the installed command makes a box; nothing that is not public is among the symbols.
#
#   tests/library/installed.sh BUILD_DIR COMPILER
set -euo pipefail

build=$1 compiler=$2
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
place=$(mktemp -d /var/tmp/glovebox-installed-XXXXXX)
trap 'rm -rf -- "$place"' EXIT
chmod 755 "$place"

fail() {
  printf 'installed: %s\n' "$*" >&2
  exit 1
}

# expect FILE TEXT
expect() { grep -qF -- "$2" "$1" || fail "'$2' is not in: $(cat "$1")"; }

cmake --install "$build" --prefix "$place/prefix" >"$place/log" || fail "$(cat "$place/log")"
prefix=$place/prefix
library=$(find "$prefix" -name 'libglovebox.so')
for name in bin/glovebox bin/glovebox-launcher include/glovebox/glovebox.h share/bash-completion/completions/glovebox \
  lib/systemd/system/glovebox.service; do
  [[ -s $prefix/$name ]] || fail "$name was not installed"
done

# Only what the headers declare. Templates of the standard library are everybody's.
strangers=$(nm -DC --defined-only "$library" | grep -E ' [TDBR] ' | grep -vE ' (typeinfo|vtable) ' |
  grep -vE ' glovebox::(Session|Supervisor)::| glovebox::to_text\(glovebox::Code\)' || true)
[[ -z $strangers ]] || fail "exported, and not public: $strangers"

# With CMake.
cmake -S "$root/examples/cpp" -B "$place/example" -DCMAKE_PREFIX_PATH="$prefix" -DCMAKE_CXX_COMPILER="$compiler" \
  >"$place/log" 2>&1 && cmake --build "$place/example" >>"$place/log" 2>&1 || fail "$(cat "$place/log")"
# With pkg-config, whose file names the prefix that was configured: the same words with this one.
PKG_CONFIG_PATH=$(dirname "$library")/pkgconfig
export PKG_CONFIG_PATH
read -ra words < <(pkg-config --define-variable=libdir="$(dirname "$library")" \
  --define-variable=includedir="$prefix/include" --cflags --libs glovebox)
"$compiler" -std=c++20 -o "$place/by-pkg-config" "$root/examples/cpp/first_box.cpp" "${words[@]}"

for program in "$place/example/first_box" "$place/by-pkg-config"; do
  rm -rf "$place/work"
  mkdir "$place/work"
  LD_LIBRARY_PATH=$(dirname "$library") "$program" "$place/work" >"$place/out"
  diff -u "$root/examples/cpp/first_box.out" "$place/out" || fail "$program prints something else than it should"
  expect "$place/work/greeting.txt" 'hello from the box'
  ! LD_LIBRARY_PATH=$(dirname "$library") "$program" not/absolute >"$place/out" 2>&1 ||
    fail "a relative workspace was accepted: $(cat "$place/out")"
done

[[ $("$prefix/bin/glovebox" run -- echo boxed) == boxed ]] || fail "the installed command makes no box"
printf 'installed: command, library, headers and examples work\n'
