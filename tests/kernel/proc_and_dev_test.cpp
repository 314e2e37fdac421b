// A /proc that shows the box alone and lets no process write the host's settings; a /dev with the
// few devices that programs need.
#include "support/box_test.h"

#include <cctype>
#include <set>

namespace glovebox::test {
namespace {

class ProcAndDev : public BoxTest {};

TEST_P(ProcAndDev, OnlyTheBoxsProcessesAreSeen) {
  const Outcome outcome = probe({}, {"list_processes"});
  ASSERT_THAT(outcome, ended_with(0));
  const Words processes = lines_after(outcome.out, "process ");
  EXPECT_EQ(processes.size(), 2U) << "init and the command";
  EXPECT_THAT(processes, testing::Contains(testing::StartsWith("1 ")));
}

TEST_P(ProcAndDev, OwnEntriesWork) {
  EXPECT_THAT(probe({}, {"read", "/proc/self/status"}), ended_with(0));
  EXPECT_THAT(probe({}, {"read", "/proc/meminfo"}), ended_with(0));
  EXPECT_THAT(probe({}, {"read", "/proc/cpuinfo"}), ended_with(0));
}

TEST_P(ProcAndDev, KnobsOfTheHostCannotBeTurned) {
  for (const char* path :
       {"/proc/sys/kernel/core_pattern", "/proc/sys/kernel/modprobe", "/proc/sys/vm/panic_on_oom",
        "/proc/sys/kernel/hostname", "/proc/sysrq-trigger", "/proc/sys/net/ipv4/ip_forward",
        "/proc/sys/user/max_user_namespaces", "/proc/irq", "/proc/bus"}) {
    EXPECT_THAT(probe({}, {"open_write", path}),
                refused_with(Errnos{EROFS, EACCES, EPERM, ENOENT, EISDIR}))
        << path;
  }
}

TEST_P(ProcAndDev, KnobsOfTheNamespacesCannotBeTurned) {
  // Their modes let every user open them; the kernel decides at the write.
  for (const char* path : {"/proc/self/uid_map", "/proc/self/gid_map", "/proc/self/setgroups",
                           "/proc/sys/kernel/ns_last_pid"}) {
    EXPECT_THAT(probe({}, {"write", path, "0 0 1"}), refused_with(Errnos{EPERM, EACCES, EROFS}))
        << path;
  }
}

TEST_P(ProcAndDev, SecretsOfTheKernelCannotBeRead) {
  for (const char* path :
       {"/proc/kcore", "/proc/kmsg", "/proc/kpageflags", "/proc/kpagecount", "/proc/vmallocinfo",
        "/proc/slabinfo", "/proc/keys", "/proc/key-users", "/proc/locks", "/proc/kallsyms",
        "/proc/timer_list", "/proc/sched_debug", "/proc/interrupts", "/proc/cmdline", "/proc/1/mem",
        "/proc/1/environ", "/proc/1/maps"}) {
    EXPECT_THAT(probe({}, {"read", path}), refused_with(Errnos{EACCES, EPERM, ENOENT})) << path;
  }
}

// Everything in /proc that is not a process's: these remain, with the reasons that
// plan/proc_view.cpp gives, and the rest cannot be opened, whatever the kernel has there.
TEST_P(ProcAndDev, OnlyWhatProgramsNeedOfProcCanBeOpened) {
  const std::set<std::string> kept{"cgroups", "cpuinfo", "filesystems", "loadavg", "meminfo",
                                   "stat",    "sys",     "sysvipc",     "uptime",  "version",
                                   "vmstat",  "mounts",  "net",         "self",    "thread-self"};
  const Words entries = lines_after(probe({}, {"list", "/proc"}).out, "entry ");
  std::size_t covered = 0;
  for (const std::string& name : entries) {
    if (std::isdigit(static_cast<unsigned char>(name.front())) != 0) continue;
    const bool is_kept = kept.contains(name);
    const Outcome file = probe({}, {"read", "/proc/" + name});
    const Outcome directory = probe({}, {"list", "/proc/" + name});
    const bool opened = file.code == 0 || directory.code == 0;
    EXPECT_EQ(opened, is_kept) << name << " " << file.code << " " << directory.code;
    if (!is_kept) ++covered;
  }
  EXPECT_GT(covered, 10U);
}

TEST_P(ProcAndDev, CoversOfProcCannotBeChanged) {
  EXPECT_THAT(probe({}, {"chmod", "/proc/locks", "0666"}), refused_with(Errnos{EROFS, EPERM}));
  EXPECT_THAT(probe({}, {"open_write", "/proc/sysrq-trigger"}),
              refused_with(Errnos{EROFS, EACCES, EPERM, ENOENT}));
}

TEST_P(ProcAndDev, InitsLinksCannotBeFollowed) {
  for (const char* path : {"/proc/1/root", "/proc/1/cwd", "/proc/1/exe", "/proc/1/ns/mnt"}) {
    EXPECT_THAT(probe({}, {"readlink", path}), refused_with(Errnos{EACCES, EPERM})) << path;
  }
  EXPECT_THAT(probe({}, {"list", "/proc/1/fd"}), refused_with(Errnos{EACCES, EPERM}));
  EXPECT_THAT(probe({}, {"list", "/proc/self/fd"}), ended_with(0));
}

TEST_P(ProcAndDev, DevicesAreTheFewKnownOnes) {
  const Outcome outcome = probe({}, {"list", "/dev"});
  ASSERT_THAT(outcome, ended_with(0));
  const Words entries = lines_after(outcome.out, "entry ");
  const std::set<std::string> expected{"null", "zero", "full", "random", "urandom", "tty",   "ptmx",
                                       "pts",  "shm",  "fd",   "stdin",  "stdout",  "stderr"};
  EXPECT_EQ(std::set<std::string>(entries.begin(), entries.end()), expected);
}

TEST_P(ProcAndDev, DevicesWork) {
  for (const char* path : {"/dev/zero", "/dev/urandom", "/dev/random", "/dev/full"}) {
    EXPECT_THAT(probe({}, {"read", path}), ended_with(0)) << path;
  }
  EXPECT_THAT(probe({}, {"write", "/dev/null"}), ended_with(0));
  EXPECT_THAT(probe({}, {"write", "/dev/full"}), ended_with(ENOSPC));
  EXPECT_THAT(run({}, {"/bin/sh", "-c", "echo through > /dev/stdout"}), ended_with(0));
}

TEST_P(ProcAndDev, TerminalsOfTheHostAreNotInDevPts) {
  const Words entries = lines_after(probe({}, {"list", "/dev/pts"}).out, "entry ");
  for (const std::string& entry : entries) EXPECT_EQ(entry, "ptmx");
}

TEST_P(ProcAndDev, NoDeviceCanBeMade) {
  EXPECT_THAT(probe({}, {"mknod", "/tmp/mem", "1", "1"}), ended_with(EPERM));
  EXPECT_THAT(probe({}, {"mknod", "/tmp/disk", "254", "0"}), ended_with(EPERM));
  EXPECT_THAT(probe({}, {"mknod", "/tmp/whiteout", "0", "0"}), ended_with(EPERM));
  EXPECT_THAT(probe({}, {"mkfifo", "/tmp/fifo"}), ended_with(0));
}

TEST_P(ProcAndDev, DevItselfIsReadOnly) {
  EXPECT_THAT(probe({}, {"create", "/dev/new"}), refused_with(Errnos{EROFS, EACCES}));
  EXPECT_THAT(probe({}, {"unlink", "/dev/null"}), refused_with(Errnos{EROFS, EACCES, EBUSY}));
  EXPECT_THAT(probe({}, {"chmod", "/dev/null", "0"}), refused_with(Errnos{EROFS, EACCES, EPERM}));
}

BOX_TEST_TIERS(ProcAndDev);

}  // namespace
}  // namespace glovebox::test
