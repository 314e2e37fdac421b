// Every system call of a launch fails once. strace makes the n-th call of each name fail in every
// process of the launch, up to the moment the command is executed, and each time one of two things
// must be seen: the box is refused and the command never ran, or it ran and every wall stood. A
// failure that is shrugged off is how boxes come to lack a wall.
//
// Each call gets one of three errors, so that a fallback for an old kernel (ENOSYS) is tried as
// well as a refusal; GLOVEBOX_FAULTS=all gives every call all three.
#include "support/box_test.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <regex>
#include <sstream>

#include <fcntl.h>
#include <sys/stat.h>

namespace glovebox::test {
namespace {

constexpr const char* kStrace = "/usr/bin/strace";
constexpr std::array<const char*, 3> kErrors{"ENOMEM", "EPERM", "ENOSYS"};

constexpr std::array<std::string_view, 22> kWallCalls{
    "capset",  "chdir",     "close_range",   "dup3",        "fchdir",
    "keyctl",  "mkdirat",   "mount_setattr", "move_mount",  "open_tree",
    "openat2", "prctl",     "prlimit64",     "pivot_root",  "seccomp",
    "setns",   "setresgid", "setresuid",     "sethostname", "landlock_restrict_self",
    "umount2", "unshare"};

// The n-th call of this name in a process.
struct Call {
  std::string name;
  int n = 1;
};

class LaunchFaults : public BoxTest {
 protected:
  // `strace OPTIONS glovebox run -w WORK -- probe walls`. It lets go of a process that executes a
  // program, so the probe is not its business.
  Outcome run_under(const Words& options) {
    Settings settings;
    settings.patience = std::chrono::seconds(20);
    settings.wrapper = {kStrace, "-f", "-b", "execve", "-o", trace_};
    settings.wrapper.insert(settings.wrapper.end(), options.begin(), options.end());
    const UniqueFd input(::open(input_.c_str(), O_RDONLY | O_CLOEXEC));
    settings.in = input.get();
    return run({"-w", work_, "--read", probe_path()}, {probe_path(), "walls"}, settings);
  }

  void SetUp() override {
    BoxTest::SetUp();
    trace_ = scratch() + "/trace";
    input_ = make_file("everybody", "", 0666);
    ASSERT_EQ(::chmod(input_.c_str(), 0666), 0);
    work_ = make_tree("work");
  }

  // The calls that a launch makes, by name and number.
  std::vector<Call> calls_of_a_launch() {
    EXPECT_THAT(run_under({}), ended_with(0));
    std::map<std::pair<std::string, std::string>, int> counts;  // of process and name
    std::map<std::string, int> most;
    static const std::regex kCall(R"(^(\d+) +([a-z_0-9]+)\()");
    std::istringstream lines(read_text(trace_));
    for (std::string line; std::getline(lines, line);) {
      std::smatch parts;
      if (!std::regex_search(line, parts, kCall)) continue;
      const int count = ++counts[{parts[1], parts[2]}];
      most[parts[2]] = std::max(most[parts[2]], count);
    }
    // An error in place of brk's answer is an address; strace needs execve; the others do not
    // return.
    for (const char* name : {"brk", "execve", "exit", "exit_group", "rt_sigreturn"})
      most.erase(name);
    std::vector<Call> calls;
    for (const auto& [name, count] : most) {
      for (int n = 1; n <= count; ++n) {
        if (is_tried(n, count)) calls.push_back({name, n});
      }
    }
    return calls;
  }

  // Some calls are made a hundred times, for the same purpose: of those each fifth is tried, and
  // all of them when GLOVEBOX_FAULTS asks for it (./dev soak).
  static bool is_tried(int n, int count) {
    constexpr int kFirst = 10, kStep = 5;
    return n <= kFirst || n == count || n % kStep == 0 || std::getenv("GLOVEBOX_FAULTS") != nullptr;
  }

  // `answer` is what the call gets instead of being made: "error=EPERM", "retval=0".
  void expect_refused_or_whole(const Call& call, const std::string& answer) {
    const std::string fault =
        "inject=" + call.name + ":" + answer + ":when=" + std::to_string(call.n);
    const Outcome outcome = run_under({"-e", fault});
    const bool was_whole = outcome.out == "walls: ok\n";
    EXPECT_FALSE(outcome.timed_out) << fault;
    EXPECT_TRUE(was_whole || outcome.out.empty()) << fault << ": " << outcome.out;
    EXPECT_TRUE(was_whole || outcome.code != 0) << fault << ": ended with 0, and nothing ran";
    EXPECT_EQ(read_text(work_ + "/old"), original_) << fault;
  }

  std::string trace_, input_, work_;
  std::string original_;
};

TEST_P(LaunchFaults, AFailedCallNeverOpensABox) {
  ASSERT_TRUE(std::filesystem::exists(kStrace));
  original_ = read_text(work_ + "/old");
  const std::vector<Call> calls = calls_of_a_launch();
  // A launch that is mostly invisible to strace would prove nothing.
  ASSERT_GT(calls.size(), 150U);
  ASSERT_TRUE(std::ranges::any_of(
      calls, [](const Call& call) { return call.name == "landlock_restrict_self"; }));
  glovebox_will_be_killed();  // a failed unlink or rmdir leaves something for the next box
  const char* all = std::getenv("GLOVEBOX_FAULTS");
  for (std::size_t i = 0; i < calls.size(); ++i) {
    if (all == nullptr) {
      expect_refused_or_whole(calls[i], std::string("error=") + kErrors.at(i % kErrors.size()));
    } else {
      for (const char* error : kErrors) {
        expect_refused_or_whole(calls[i], std::string("error=") + error);
      }
    }
  }
}

// The same for calls that are answered with 0 and not made: those that a wall is made of, each time
// that one is made.
TEST_P(LaunchFaults, AnAnsweredCallNeverOpensABox) {
  ASSERT_TRUE(std::filesystem::exists(kStrace));
  original_ = read_text(work_ + "/old");
  glovebox_will_be_killed();
  std::size_t tried = 0;
  for (const Call& call : calls_of_a_launch()) {
    if (std::ranges::count(kWallCalls, call.name) == 0) continue;
    expect_refused_or_whole(call, "retval=0");
    ++tried;
  }
  EXPECT_GT(tried, 40U);
}

BOX_TEST_TIERS(LaunchFaults);

}  // namespace
}  // namespace glovebox::test
