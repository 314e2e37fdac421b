// A launch in which a system call does not exist. A filter around glovebox itself takes one call
// away after another: each time the launch is refused with a sentence, or the box is whole. It is
// never a box with a wall missing, and nothing is left behind.
#include "support/box_test.h"

#include <filesystem>

#include <fcntl.h>
#include <sys/syscall.h>

namespace glovebox::test {
namespace {

struct Call {
  const char* name;
  int number;
};

// Everything that builds a wall or leads to one.
const Call kCalls[] = {
    {"clone", SYS_clone},
    {"clone3", SYS_clone3},
    {"unshare", SYS_unshare},
    {"setns", SYS_setns},
    {"mount", SYS_mount},
    {"umount2", SYS_umount2},
    {"pivot_root", SYS_pivot_root},
    {"open_tree", SYS_open_tree},
    {"move_mount", SYS_move_mount},
    {"fsopen", SYS_fsopen},
    {"fsconfig", SYS_fsconfig},
    {"fsmount", SYS_fsmount},
    {"mount_setattr", SYS_mount_setattr},
    {"openat2", SYS_openat2},
    {"sethostname", SYS_sethostname},
    {"setresuid", SYS_setresuid},
    {"setresgid", SYS_setresgid},
    {"setgroups", SYS_setgroups},
    {"capset", SYS_capset},
    {"prctl", SYS_prctl},
    {"seccomp", SYS_seccomp},
    {"landlock_create_ruleset", 444},
    {"landlock_add_rule", 445},
    {"landlock_restrict_self", 446},
    {"close_range", SYS_close_range},
    {"setsid", SYS_setsid},
    {"prlimit64", SYS_prlimit64},
    {"pidfd_open", SYS_pidfd_open},
    {"pidfd_send_signal", SYS_pidfd_send_signal},
    {"keyctl", SYS_keyctl},
    {"memfd_create", SYS_memfd_create},
    {"mkdirat", SYS_mkdirat},
    {"symlinkat", SYS_symlinkat},
    {"fchdir", SYS_fchdir},
    {"chdir", SYS_chdir},
    {"socketpair", SYS_socketpair},
    {"socket", SYS_socket},
    {"sendmsg", SYS_sendmsg},
    {"pipe2", SYS_pipe2},
    {"dup3", SYS_dup3},
    {"ioctl", SYS_ioctl},
    {"epoll_create1", SYS_epoll_create1},
    {"timerfd_create", SYS_timerfd_create},
    {"signalfd4", SYS_signalfd4},
    {"execveat", SYS_execveat},
};

class Failure : public BoxTest {
 protected:
  Settings without(int number) const {
    Settings settings;
    settings.refused_syscalls = {number};
    return settings;
  }
};

TEST_P(Failure, NothingMissingGivesAWholeBox) {
  const UniqueFd input(open(make_file("input", "x", 0666).c_str(), O_RDONLY | O_CLOEXEC));
  Settings settings;
  settings.in = input.get();
  EXPECT_THAT(probe({}, {"walls"}, settings), ended_with(0));
}

TEST_P(Failure, WithoutACallTheLaunchIsRefusedOrTheBoxIsWhole) {
  const UniqueFd input(open(make_file("input", "x", 0666).c_str(), O_RDONLY | O_CLOEXEC));
  const std::string work = make_tree("work");
  for (const Call& call : kCalls) {
    SCOPED_TRACE(call.name);
    Settings settings = without(call.number);
    settings.in = input.get();
    const Snapshot before = take_snapshot();
    const Outcome outcome = probe({"-w", work + ":rw"}, {"walls"}, settings);
    EXPECT_FALSE(outcome.timed_out);
    EXPECT_THAT(outcome, testing::AnyOf(ended_with(0), refused_to_start("")));
    EXPECT_EQ(left_since(before, Clock::now() + std::chrono::seconds(5)), Words{});
  }
}

TEST_P(Failure, WallsAreNeverLeftOut) {
  // The calls without which there is no wall at all: here nothing but a refusal will do.
  const Call needed[] = {{"mount_setattr", SYS_mount_setattr},
                         {"pivot_root", SYS_pivot_root},
                         {"landlock_create_ruleset", 444},
                         {"landlock_add_rule", 445},
                         {"landlock_restrict_self", 446},
                         {"capset", SYS_capset},
                         {"prctl", SYS_prctl}};
  const std::string work = make_directory("work");
  for (const Call& call : needed) {
    const Outcome outcome =
        run({"-w", work + ":rw"}, {"/usr/bin/touch", work + "/ran"}, without(call.number));
    EXPECT_THAT(outcome, refused_to_start("")) << call.name;
    EXPECT_FALSE(std::filesystem::exists(work + "/ran")) << call.name;
  }
}

TEST_P(Failure, SeccompCannotBeLeftOut) {
  const std::string work = make_directory("work");
  Settings settings;
  // prctl is the older way to the same filter.
  settings.refused_syscalls = {SYS_seccomp, SYS_prctl};
  const Outcome outcome = run({"-w", work + ":rw"}, {"/usr/bin/touch", work + "/ran"}, settings);
  EXPECT_THAT(outcome, refused_to_start(""));
  EXPECT_FALSE(std::filesystem::exists(work + "/ran"));
}

TEST_P(Failure, NamespacesCannotBeLeftOut) {
  const std::string work = make_directory("work");
  Settings settings;
  settings.refused_syscalls = {SYS_unshare, SYS_clone3};
  const Outcome outcome = probe({"-w", work + ":rw"}, {"ns_ids"}, settings);
  EXPECT_THAT(outcome, testing::AnyOf(ended_with(0), refused_to_start("")));
  settings.refused_syscalls = {SYS_unshare, SYS_clone3, SYS_clone};
  EXPECT_THAT(run({"-w", work + ":rw"}, {"/usr/bin/touch", work + "/ran"}, settings),
              refused_to_start(""));
  EXPECT_FALSE(std::filesystem::exists(work + "/ran"));
}

TEST_P(Failure, MessageNamesTheStep) {
  EXPECT_THAT(run({}, {"true"}, without(444)), refused_to_start("Landlock"));
  const Outcome outcome = run({}, {"true"}, without(SYS_pivot_root));
  EXPECT_THAT(outcome, refused_to_start("ENOSYS"));
}

BOX_TEST_TIERS(Failure);

}  // namespace
}  // namespace glovebox::test
