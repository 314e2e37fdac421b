#!/usr/bin/bash
# Limits on cgroup version 2, tried as the user who runs this: "ok CLAIM" or "not ok CLAIM" for each.
#
#   limits.sh CGROUP      the directory in which the boxes' cgroups appear
#
# Needs the programs where inside.sh finds them. Exit code 1 when a claim does not hold.
here=$1
glovebox=/opt/glovebox
probe=/opt/glovebox-probe
bb() { busybox "$@"; }
report=$(bb mktemp)
wrong=0

# claim WORDS COMMAND...: holds when the command succeeds.
claim() {
  local words=$1
  shift
  if "$@"; then echo "ok $words"; else
    echo "not ok $words"
    bb sed 's/^/    /' /tmp/last."$EUID"
    wrong=1
  fi
}

# box CODE OPTIONS... -- COMMAND...: runs a box and compares its exit code.
box() {
  local expected=$1 code=0
  shift
  : >"$report"
  "$glovebox" run --read /opt --report "$report" "$@" >/tmp/last."$EUID" 2>&1 </dev/null || code=$?
  echo "exit code $code, expected $expected" >>/tmp/last."$EUID"
  bb cat "$report" >>/tmp/last."$EUID"
  ((code == expected))
}

ended_by() { # LIMIT OPTIONS...
  local limit=$1
  shift
  box 124 "$@" && bb grep -q "\"limit\": *\"$limit\"" "$report" &&
    bb grep -q "ended by limit: $limit" /tmp/last."$EUID"
}

number() { bb sed -n "s/.*\"$1\": *\([0-9]*\).*/\1/p" "$report"; }

enforced_by_version_2() {
  box 0 --memory 64MiB --pids 20 --cpus 0.5 --cpu-time 10s -- true &&
    (($(bb grep -o 'cgroup v2' "$report" | bb wc -l) >= 4))
}

# A quarter of a core: the box's CPU time is far below the time that passed.
slowed_down() {
  box 0 --cpus 0.25 -- $probe spin 1000 && (($(number cpu_us) * 2 < $(number wall_us)))
}

pids_are_bounded() {
  box 11 --pids 20 -- $probe forks 200 || ended_by pids --pids 20 -- $probe forks 200
}

says_pids() {
  box 0 --pids 20 -- true && [[ $(bb sed -n 's/.*"limits":{[^}]*"pids":\([0-9]*\).*/\1/p' "$report") == 20 ]]
}

counted() { box 0 --memory 64MiB -- $probe memory_hog heap 16 && (($(number peak_memory_bytes) > 16000000)); }

# The only cgroup of a box, while it runs.
the_cgroup() { bb find "$here" -maxdepth 1 -name 'glovebox-*' -type d | bb head -n 1; }

# Starts a box that stays, and leaves its cgroup in $cgroup.
start_sleeper() {
  "$glovebox" run --memory 64MiB --pids 20 --cpus 1.5 -- sleep 60 >/tmp/last."$EUID" 2>&1 </dev/null &
  sleeper=$!
  local tries=0
  until cgroup=$(the_cgroup) && [[ -n $cgroup ]] && (($(bb wc -l <"$cgroup/cgroup.procs") >= 2)); do
    tries=$((tries + 1))
    ((tries < 100)) || return 1
    bb sleep 0.1
  done
}

file_says() { # FILE TEXT
  echo "$1: $(bb cat "$cgroup/$1" 2>&1), expected $2" >/tmp/last."$EUID"
  [[ $(<"$cgroup/$1") == "$2" ]]
}

gone() { # within a few seconds
  local tries=0
  until [[ -z $(the_cgroup) ]]; do
    tries=$((tries + 1))
    ((tries < 50)) || return 1
    bb sleep 0.1
  done
}

end_sleeper() { # SIGNAL
  kill "-$1" $sleeper
  wait $sleeper 2>/dev/null || true
}

limits_are_in_the_files() {
  file_says memory.max 67108864 && file_says memory.swap.max 0 && file_says memory.oom.group 1 &&
    file_says pids.max 21 && file_says cpu.max "150000 100000"
}

sees_no_cgroup_above_its_own() {
  box 0 -- bash -c 'echo "own: $(</proc/self/cgroup)"' && bb grep -q '^own: 0::/$' /tmp/last."$EUID"
}

claim "limits are enforced by cgroup version 2" enforced_by_version_2
claim "a box within its limits ends by itself" box 7 --memory 64MiB --pids 20 --cpus 2 -- $probe exit_code 7
claim "memory ends a hog, all of it" ended_by memory --memory 64MiB -- $probe memory_hog heap 512
claim "memory ends a hog below a shell" ended_by memory --memory 64MiB -- bash -c "$probe memory_hog heap 512; sleep 60"
claim "what the private files take is memory too" ended_by memory --memory 32MiB --disk 512MiB -- $probe disk_fill /tmp/big 256
claim "peak memory is counted" counted
claim "pids are bounded" pids_are_bounded
claim "one process is enough for a command that starts none" box 0 --pids 1 -- true
claim "pids are said as they were asked for" says_pids
claim "cpu time ends a spinner" ended_by cpu --cpu-time 500ms -- $probe spin 0
claim "cpu time counts all processes together" \
  ended_by cpu --cpu-time 800ms -- bash -c "$probe spin 0 & $probe spin 0 & wait"
claim "cpus slow a box down" slowed_down
claim "a box sees no cgroup above its own" sees_no_cgroup_above_its_own
claim "a box that stays can be looked at" start_sleeper
claim "its limits are in the kernel's files" limits_are_in_the_files
end_sleeper TERM
claim "its cgroup goes with it" gone
claim "a second box can be looked at" start_sleeper
end_sleeper KILL
claim "what a killed launcher leaves, the next box removes" box 0 -- true
claim "nothing is left" gone
bb rm -f "$report"
exit $wrong
