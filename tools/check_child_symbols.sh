#!/usr/bin/env bash
# Checks what the code between clone and exec calls (src/launch/child/README.md).
#
#   tools/check_child_symbols.sh BUILD_DIR
#   tools/check_child_symbols.sh --objects ALLOWED_FILE OBJECT...
#
# Takes the objects of the CMake target glovebox_child, drops inline functions of headers that nothing
# there calls (a header-only library leaves its own behind), and compares the symbols that remain
# undefined with src/launch/child/allowed_symbols.txt. Fails on a symbol that is not listed, and on
# objects that would run code before main or use thread-local storage. A listed symbol that nothing
# needs is only mentioned: compilers differ in the memory functions they call on their own.
set -euo pipefail
export LC_ALL=C

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

fail() {
  printf 'child symbols: %s\n' "$*" >&2
  exit 1
}

# The symbols that the objects together need from outside.
needed_symbols() {
  local work=$1
  shift
  local -a roots=()
  local symbol
  while read -r symbol; do
    roots+=("--undefined=$symbol")
  done < <(nm --defined-only --extern-only -- "$@" | awk '$2 == "T" { print $3 }' | sort -u)
  ((${#roots[@]} > 0)) || fail "the objects define no function"
  ld -r --gc-sections "${roots[@]}" -o "$work/joined.o" "$@"
  strip --strip-unneeded "$work/joined.o"  # undefined symbols that no kept section refers to
  nm --undefined-only "$work/joined.o" | awk '{ print $NF }' | sort -u
}

# Static constructors and thread-local variables show up as sections.
check_sections() {
  local object sections
  for object in "$@"; do
    sections=$(readelf --section-headers --wide "$object" |
      grep --extended-regexp --only-matching '\.(init_array|ctors|preinit_array|tbss|tdata)[^ ]*' || true)
    [[ -z $sections ]] || fail "$(basename "$object") has a section ${sections//$'\n'/, }"
  done
}

main() {
  local allowed=$root/src/launch/child/allowed_symbols.txt
  local -a objects
  if [[ ${1:-} == --objects ]]; then
    (($# >= 3)) || fail "usage: check_child_symbols.sh --objects ALLOWED_FILE OBJECT..."
    allowed=$2
    objects=("${@:3}")
  else
    (($# == 1)) || fail "usage: check_child_symbols.sh BUILD_DIR"
    objects=("$1"/src/launch/CMakeFiles/glovebox_child.dir/child/*.o)
    local sources=("$root"/src/launch/child/*.cpp)
    [[ -e ${objects[0]} ]] || fail "no objects in $1; run './dev build' first"
    ((${#objects[@]} == ${#sources[@]})) ||
      fail "${#sources[@]} sources in src/launch/child, but ${#objects[@]} objects in $1"
  fi

  local work
  work=$(mktemp -d)
  # shellcheck disable=SC2064  # the path of now is meant
  trap "rm -rf -- '$work'" EXIT

  check_sections "${objects[@]}"
  needed_symbols "$work" "${objects[@]}" > "$work/needed"
  sed -e 's/#.*//' -e 's/[[:space:]]*$//' -e '/^$/d' "$allowed" | sort -u > "$work/allowed"

  local extra unused
  extra=$(comm -23 "$work/needed" "$work/allowed" | c++filt)
  unused=$(comm -13 "$work/needed" "$work/allowed")
  [[ -z $extra ]] || fail "not in $(basename "$allowed"): ${extra//$'\n'/; }"
  [[ -z $unused ]] || printf 'child symbols: listed but not needed: %s\n' "${unused//$'\n'/, }"
  printf 'child symbols: %d, all listed\n' "$(wc -l < "$work/needed")"
}

main "$@"
