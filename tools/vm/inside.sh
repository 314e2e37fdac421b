#!/usr/bin/bash
# PID 1 of the virtual machine: sets the system up, runs the tests, prints lines that begin with
# "vm: " for run.sh, and turns the machine off.
#
# The cgroups are laid out as systemd does it: controllers are passed on by slices, processes live in
# leaves, and a user's slice belongs to that user from a point on.
export PATH=/usr/bin:/usr/sbin
bb() { busybox "$@"; }
trap 'bb poweroff -f' EXIT

cgroups=/sys/fs/cgroup
controllers="+memory +pids +cpu"
user=65533
failed=0

set_up() {
  # The image may have been made by an ordinary user.
  [[ -z $(bb find / -xdev ! -user 0) ]] || bb find / -xdev -exec busybox chown -h 0:0 {} +
  bb mount -t proc proc /proc
  bb mount -t sysfs sysfs /sys
  bb mount -t cgroup2 cgroup2 $cgroups
  bb chmod 1777 /tmp  # on the disk: this kernel's tmpfs takes no idmapped mounts
  bb mount -t tmpfs -o mode=0755 tmpfs /run
  bb mkdir -p /dev/pts /dev/shm
  bb mount -t devpts -o ptmxmode=0666 devpts /dev/pts
  bb mount -t tmpfs -o mode=1777 tmpfs /dev/shm
  bb ln -sf pts/ptmx /dev/ptmx
  bb ip link set lo up
  bb hostname vm
}

# slice PATH: a directory that passes the controllers on.
slice() {
  bb mkdir -p "$cgroups/$1"
  echo "$controllers" >"$cgroups/$1/cgroup.subtree_control"
}

# Hands a directory to the user: the files that delegation is made of (cgroups(7)).
delegate() {
  local name
  for name in "" /cgroup.procs /cgroup.subtree_control /cgroup.threads; do
    bb chown $user:$user "$cgroups/$1$name"
  done
}

lay_out_cgroups() {
  echo "$controllers" >$cgroups/cgroup.subtree_control
  slice system.slice
  bb mkdir -p $cgroups/system.slice/test.service
  slice user.slice
  slice user.slice/user-$user.slice
  slice user.slice/user-$user.slice/user@$user.service
  slice user.slice/user-$user.slice/user@$user.service/app.slice
  delegated=user.slice/user-$user.slice/user@$user.service
  delegate $delegated
  delegate $delegated/app.slice
  bb mkdir -p $cgroups/$delegated/app.slice/test.scope
  delegate $delegated/app.slice/test.scope
}

# try_case NAME CGROUP COMMAND...: runs the command in that cgroup.
try_case() {
  local name=$1 cgroup=$2 code=0
  shift 2
  echo "vm: -- $name"
  (
    echo $BASHPID >"$cgroups/$cgroup/cgroup.procs" || exit 99
    exec "$@"
  ) >/run/case.log 2>&1 || code=$?
  bb cat /run/case.log
  bb grep -E '^\[  (PASSED|FAILED|SKIPPED) |^ok|^not ok' /run/case.log | bb sed 's/^/vm:    /'
  local left
  left=$(bb find $cgroups -name 'glovebox-*' -type d | bb head -n 3)
  [[ -z $left ]] || { echo "vm: left behind: $left"; code=98; }
  if ((code != 0)); then
    failed=$((failed + 1))
    echo "vm: failed with $code: $name"
  fi
}

# A user without a cgroup of their own is told so, and not left without a limit.
undelegated_is_refused() {
  local said code=0
  said=$(/opt/glovebox run --memory 64MiB -- true 2>&1) || code=$?
  if ((code == 125)) && [[ $said == *"--waive limit.memory"* ]]; then
    echo "ok a limit that cannot be enforced is refused"
  else
    echo "not ok a limit that cannot be enforced is refused: $code $said"
    return 1
  fi
}

as_user=(setpriv --reuid $user --regid $user --clear-groups env HOME=/home)
export -f undelegated_is_refused
export GLOVEBOX_BINARY=/opt/glovebox GLOVEBOX_PROBE=/opt/glovebox-probe GLOVEBOX_CI_STRICT=1

set_up
lay_out_cgroups
tests=$(bb sed -n 's/.*vm\.tests=\([^ ]*\).*/\1/p' /proc/cmdline)
echo "vm: Linux $(bb uname -r), controllers: $(<$cgroups/cgroup.controllers)"
try_case "root, in a service of the system" system.slice/test.service \
  /opt/limits.sh $cgroups/system.slice
try_case "root, at the root of the hierarchy" . /opt/limits.sh $cgroups
try_case "user, in a scope of their own slice" $delegated/app.slice/test.scope \
  "${as_user[@]}" /opt/limits.sh $cgroups/$delegated/app.slice
try_case "user, in a cgroup that is not theirs" system.slice/test.service \
  "${as_user[@]}" bash -c undelegated_is_refused
try_case "a clock that is set" system.slice/test.service /opt/clocks.sh
# Both tiers: the ordinary user of these tests has no cgroup of their own.
try_case "tests $tests" system.slice/test.service glovebox_kernel_test "--gtest_filter=$tests"
if ((failed == 0)); then echo "vm: all passed"; else echo "vm: $failed of the parts failed"; fi
