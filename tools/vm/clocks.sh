#!/usr/bin/bash
# The machine's clock is set while boxes run: "ok CLAIM" or "not ok CLAIM" for each. Here everything has the set time,
# also what the kernel stamps files with; tests/fault/test_clock_jumps.py says more with the clocks of processes alone.
#
# Needs root, and the programs where inside.sh finds them. Exit code 1 when a claim does not hold.
glovebox=/opt/glovebox
year=$((365 * 86400))
base=/home/clocks
log=$base/last
wrong=0
bb() { busybox "$@"; }
export GLOVEBOX_STATE=$base/state HOME=$base

claim() {
  local words=$1
  shift
  if "$@"; then echo "ok $words"; else
    echo "not ok $words"
    bb sed 's/^/    /' $log
    wrong=1
  fi
}

set_clock() { bb date -s "@$(($(bb date +%s) + $1))" >/dev/null; }

# during SECONDS CODE OPTIONS... -- COMMAND...: the clock is set while the box waits for a line of input, and set right
# again when it has ended.
during() {
  local seconds=$1 expected=$2 code=0 box
  shift 2
  bb rm -f $base/{in,out}
  bb mkfifo $base/in $base/out
  "$glovebox" run "$@" <$base/in >$base/out 2>$log &
  box=$!
  exec 7>$base/in 8<$base/out
  read -r _ <&8 || echo "it said nothing" >>$log
  set_clock "$seconds"
  echo go >&7
  exec 7>&- 8<&-
  wait $box || code=$?
  set_clock $((-seconds))
  echo "exit code $code, expected $expected" >>$log
  ((code == expected))
}

goes_on() { during "$1" 33 --wall 1h -- bash -c 'echo began; read line; [[ $line == go ]] && exit 33'; }
still_ends() { during "$1" 124 --wall 3s -- bash -c 'echo began; read line; sleep 1000'; }
count_layers() { "$glovebox" layers | bb grep -c "$base/work"; }

# change NAME: a run that leaves a layer.
change() { "$glovebox" run -w $base/work -- bash -c "echo $1 >$1" </dev/null >$log 2>&1; }

layers_stay() {
  change first || return 1
  set_clock $year
  change second
  local count
  count=$(count_layers)
  set_clock -$year
  echo "$count layers" >>$log
  ((count == 2))
}

newest_is_last() {
  change third || return 1
  set_clock -$year
  change fourth
  (cd $base/work && "$glovebox" diff last) >$log 2>&1
  set_clock $year
  bb grep -q fourth $log
}

# Files have the stamps of a clock that went back: it cannot be told what the host changed since.
doubt_is_a_conflict() {
  echo before >$base/work/file
  during -$year 0 -w $base/work -- bash -c 'echo began; read line; echo box >file' || return 1
  set_clock -$year
  echo host >$base/work/file
  (cd $base/work && "$glovebox" commit last) >>$log 2>&1
  set_clock $year
  [[ $(<$base/work/file) == host ]]
}

commit_after_ahead() {
  echo before >$base/work/other
  sleep 0.1
  during $year 0 -w $base/work -- bash -c 'echo began; read line; echo box >other' || return 1
  set_clock $year
  (cd $base/work && "$glovebox" commit last) >>$log 2>&1
  set_clock -$year
  [[ $(<$base/work/other) == box ]]
}

session_goes_on() {
  "$glovebox" session start -w $base/work --name s >$log 2>&1 || return 1
  "$glovebox" session run s -c 'word=kept' >>$log 2>&1 || return 1
  set_clock "$1"
  local said
  said=$("$glovebox" session run s -c 'echo $word' 2>>$log)
  "$glovebox" session stop s >>$log 2>&1
  set_clock $((-$1))
  [[ $said == kept ]]
}

bb mkdir -p $base/work
for seconds in $year -$year; do
  claim "a box goes on when the clock is set by $seconds s" goes_on $seconds
  claim "its limit ends it when the clock is set by $seconds s" still_ends $seconds
  claim "a session goes on when the clock is set by $seconds s" session_goes_on $seconds
done
claim "no layer is too old because the clock was set ahead" layers_stay
claim "the newest layer is the last after the clock was set back" newest_is_last
claim "no change of the host is overwritten after the clock was set back" doubt_is_a_conflict
claim "a commit works after the clock was set ahead" commit_after_ahead
bb rm -rf $base
exit $wrong
