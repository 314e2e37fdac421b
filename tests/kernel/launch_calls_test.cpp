// What the box's first process really does, against what the plan says: a launch is watched with
// strace, and its system calls are read as the steps that `glovebox explain` prints, in that order,
// none left out and none added.
//
// After it has given up its rights to be looked at, the process of an ordinary user shows strace
// its calls but not its memory, so that texts appear as addresses: in that tier names and flags are
// compared, and as root the texts too.
#include "support/box_test.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <regex>
#include <sstream>

namespace glovebox::test {
namespace {

constexpr const char* kStrace = "/usr/bin/strace";

// A line of `glovebox explain`: "   3  attach-host        /usr at /usr (ro,nosuid,nodev)".
struct PlanStep {
  std::string name;
  std::string details;
};

// A call that a step makes: its name, and what stands in its arguments. A part in quotes, or one
// that begins with '?', lies in the process' memory.
struct Call {
  std::string name;
  Words parts;
};

// How a step looks from outside: its calls in order, the names of what may stand between them, and
// of what may follow the last.
struct Shape {
  std::vector<Call> calls;
  Words between{};
  Words after{};
};

std::string quoted(const std::string& text) { return "\"" + text + "\""; }

// "/usr" as it is called below the new root: usr.
std::string below_root(const std::string& path) { return path.substr(path.find_first_not_of('/')); }

// The words of a step's details, whatever separates them: "/usr at /usr (ro,nosuid)" has four.
Words words_of(const std::string& details) {
  Words words;
  std::istringstream stream(details);
  for (std::string word; stream >> word;) words.push_back(word);
  return words;
}

// "private:run/shm" is below the private tmpfs, "/usr" below the root.
std::string place_of(const std::string& word) {
  const std::string scratch = "private:";
  return word.starts_with(scratch) ? word.substr(scratch.size()) : below_root(word);
}

std::string mode_of(const std::string& word) {
  const std::string digits = word.substr(1, word.size() - 2);  // "(0755)", "(1777)"
  if (digits == "0000") return "000";                          // as strace writes nothing at all
  return digits.starts_with('0') ? digits : "0" + digits;
}

Words attributes_of(const std::string& word) {
  Words parts;
  const std::pair<const char*, const char*> known[] = {{"ro", "?MOUNT_ATTR_RDONLY"},
                                                       {"nosuid", "?MOUNT_ATTR_NOSUID"},
                                                       {"nodev", "?MOUNT_ATTR_NODEV"},
                                                       {"noexec", "?MOUNT_ATTR_NOEXEC"}};
  for (const auto& [name, flag] : known) {
    if (std::regex_search(word, std::regex(std::string("\\b") + name + "\\b"))) {
      parts.emplace_back(flag);
    }
  }
  return parts;
}

Shape fresh_mount(const std::string& type, const std::string& target) {
  return {{{"fsopen", {quoted(type)}},
           {"fsconfig", {"FSCONFIG_CMD_CREATE"}},
           {"fsmount", {"MOUNT_ATTR_NOSUID"}},
           {"move_mount", {quoted(target)}}},
          {"fsconfig", "statx"},
          {"statx"}};
}

Shape map_identity(const Words& words) {
  return {{{"openat", {quoted("setgroups")}},
           {"write", {quoted("deny")}},
           {"openat", {quoted("uid_map")}},
           {"write", {}},
           {"openat", {quoted("gid_map")}},
           {"write", {}},
           {"setresgid", {words.at(3)}},
           {"setresuid", {words.at(1)}},
           {"prctl", {"PR_SET_PDEATHSIG", "SIGKILL"}},
           {"prctl", {"PR_SET_DUMPABLE", "SUID_DUMP_DISABLE"}},
           {"prctl", {"PR_GET_PDEATHSIG"}},
           {"prctl", {"PR_GET_DUMPABLE"}}},
          {"openat", "getresuid", "getresgid"}};
}

Shape attach_host(const Words& words) {
  return {{{"open_tree", {quoted(words.at(0)), "OPEN_TREE_CLONE", "AT_RECURSIVE"}},
           {"mount_setattr", attributes_of(words.at(3))},
           {"move_mount", {quoted(below_root(words.at(2)))}},
           {"statx", {}},
           {"statx", {quoted(below_root(words.at(2)))}}},
          {"fstatfs"}};
}

// A cap is asked for before it is lowered.
Shape set_limit(const std::string& details, bool is_cap) {
  const std::pair<const char*, const char*> known[] = {{"core", "RLIMIT_CORE"},
                                                       {"open files", "RLIMIT_NOFILE"},
                                                       {"stack", "RLIMIT_STACK"},
                                                       {"processes", "RLIMIT_NPROC"},
                                                       {"cpu seconds", "RLIMIT_CPU"},
                                                       {"pending signals", "RLIMIT_SIGPENDING"},
                                                       {"message queue bytes", "RLIMIT_MSGQUEUE"}};
  for (const auto& [name, resource] : known) {
    if (!details.starts_with(name)) continue;
    const Call look{"getrlimit", {resource}};
    const Call set{"prlimit64", {resource}};
    return {is_cap ? std::vector<Call>{look, set, look} : std::vector<Call>{set, look}};
  }
  return {{{"prlimit64", {"an unknown limit"}}}, {}};
}

Shape verify_wall(const std::string& wall) {
  Shape shape;
  if (wall == "namespaces") {
    for (const char* name : {"user", "mnt", "pid", "ipc", "uts", "net", "cgroup"}) {
      shape.calls.push_back({"statx", {quoted(std::string("/proc/self/ns/") + name)}});
    }
  } else if (wall == "root") {
    shape.calls = {{"statx", {quoted("/")}}, {"statx", {quoted("/..")}}};
  } else if (wall == "privileges") {
    shape = {{{"openat", {quoted("/proc/self/status")}}, {"prctl", {"PR_GET_SECUREBITS"}}},
             {"read"}};
  } else if (wall == "filter") {
    shape.calls = {{"openat2", {"-1, NULL"}}};
  } else {
    shape.calls = {{"an unknown wall", {}}};
  }
  return shape;
}

// One cover for files and one for directories, and copies of them.
Shape cover_proc(const Words& words) {
  const Words parts{"open_tree", "mount_setattr", "fstatfs", "move_mount", "statx"};
  return {{{"open_tree", {quoted("nothing/file")}},
           {"open_tree", {quoted("nothing/directory")}},
           {"move_mount", {quoted("proc/" + words.back())}}},
          parts,
          parts};
}

Shape cap_namespace(const Words& words) {
  return {{{"openat", {quoted("/proc/sys/user")}},
           {"openat", {quoted(words.at(0)), "O_WRONLY"}},
           {"write", {quoted(words.at(1))}},
           {"openat", {quoted(words.at(0)), "O_RDONLY"}},
           {"read", {}}},
          {}};
}

using ShapeOf = Shape (*)(const std::string& details, const Words& words);

// What each step must do. A step that is missing here is an error of the test.
// NOLINTNEXTLINE(readability-function-size): a table
const std::map<std::string, ShapeOf>& shapes() {
  static const std::map<std::string, ShapeOf> table{
      {"begin-network",
       [](const std::string&, const Words&) { return Shape{{{"clone", {"CLONE_THREAD"}}}, {}}; }},
      {"map-identity", [](const std::string&, const Words& w) { return map_identity(w); }},
      {"mount-root", [](const std::string&, const Words&) { return fresh_mount("tmpfs", "/"); }},
      {"make-directory",
       [](const std::string&, const Words& w) {
         return Shape{{{"mkdirat", {quoted(place_of(w.at(0))), mode_of(w.at(1))}}}, {}};
       }},
      {"make-file",
       [](const std::string&, const Words& w) {
         return Shape{{{"openat", {quoted(place_of(w.at(0))), "O_CREAT|O_EXCL"}}}, {}};
       }},
      {"make-link",
       [](const std::string&, const Words& w) {
         return Shape{{{"symlinkat", {quoted(w.at(2)), quoted(place_of(w.at(0)))}}}, {}};
       }},
      {"attach-host", [](const std::string&, const Words& w) { return attach_host(w); }},
      {"seal-root",
       [](const std::string&, const Words&) {
         return Shape{{{"mount_setattr", {"?MOUNT_ATTR_RDONLY"}}, {"fstatfs", {}}}, {}};
       }},
      {"pivot-root",
       [](const std::string&, const Words&) {
         return Shape{{{"fchdir", {}},
                       {"pivot_root", {quoted(".")}},
                       {"statx", {quoted("/")}},
                       {"chdir", {quoted("/")}},
                       {"clone", {"CLONE_THREAD"}}},
                      {"statx"}};
       }},
      {"mount-scratch", [](const std::string&,
                           const Words& w) { return fresh_mount("tmpfs", below_root(w.back())); }},
      {"attach-scratch",
       [](const std::string&, const Words& w) {
         return Shape{{{"open_tree", {quoted(place_of(w.at(0))), "OPEN_TREE_CLONE"}},
                       {"move_mount", {quoted(below_root(w.at(2)))}},
                       {"statx", {}},
                       {"statx", {quoted(below_root(w.at(2)))}}},
                      {}};
       }},
      {"mount-proc", [](const std::string&, const Words&) { return fresh_mount("proc", "proc"); }},
      {"cover-proc", [](const std::string&, const Words& w) { return cover_proc(w); }},
      {"cap-namespace", [](const std::string&, const Words& w) { return cap_namespace(w); }},
      {"mount-terminals",
       [](const std::string&, const Words&) { return fresh_mount("devpts", "dev/pts"); }},
      {"enter-network",
       [](const std::string&, const Words&) {
         return Shape{{{"setns", {"CLONE_NEWNET"}}, {"statx", {quoted("/proc/self/ns/net")}}},
                      {"fstat", "newfstatat"}};
       }},
      {"set-hostname",
       [](const std::string&, const Words& w) {
         return Shape{{{"sethostname", {quoted(w.at(0))}}, {"uname", {}}}, {}};
       }},
      {"change-directory",
       [](const std::string&, const Words& w) {
         return Shape{{{"openat2", {quoted(w.at(0))}}, {"fchdir", {}}}, {}};
       }},
      // Version 1: goes into the cgroups that it is handed, and out again.
      {"enter-cgroups",
       [](const std::string&, const Words&) {
         return Shape{{{"unshare", {"CLONE_NEWCGROUP"}}}, {"recvmsg", "write"}, {"write"}};
       }},
      // Waits for the other thread, if that is not done already: see HostIsGoneBeforeRightsAre.
      {"leave-host", [](const std::string&, const Words&) { return Shape{}; }},
      {"drop-capabilities",
       [](const std::string&, const Words&) {
         return Shape{{{"prctl", {"PR_SET_SECUREBITS", "SECBIT_NOROOT_LOCKED"}},
                       {"prctl", {"PR_CAPBSET_DROP", "CAP_CHOWN"}},
                       {"prctl", {"PR_CAPBSET_DROP", "CAP_SYS_ADMIN"}},
                       {"prctl", {"PR_CAPBSET_DROP", "CAP_CHECKPOINT_RESTORE"}},
                       {"prctl", {"PR_CAP_AMBIENT_CLEAR_ALL"}},
                       {"capset", {"?effective=0, permitted=0, inheritable=0"}}},
                      {"prctl"}};
       }},
      {"no-new-privileges",
       [](const std::string&, const Words&) {
         return Shape{{{"prctl", {"PR_SET_NO_NEW_PRIVS, 1"}}, {"prctl", {"PR_GET_NO_NEW_PRIVS"}}},
                      {}};
       }},
      {"landlock-begin", [](const std::string&,
                            const Words&) { return Shape{{{"landlock_create_ruleset", {}}}, {}}; }},
      {"landlock-allow",
       [](const std::string&, const Words& w) {
         return Shape{{{"openat", {quoted(w.at(0)), "O_PATH"}}, {"landlock_add_rule", {}}}, {}};
       }},
      {"landlock-enforce",
       [](const std::string&, const Words&) {
         return Shape{{{"landlock_restrict_self", {}}, {"mkdirat", {quoted("forbidden")}}}, {}};
       }},
      {"close-files",
       [](const std::string&, const Words&) {
         return Shape{{{"poll", {}},
                       {"fcntl", {"F_DUPFD_CLOEXEC"}},
                       {"close_range", {"4294967295"}},
                       {"openat", {quoted("/proc/self/fd")}},
                       {"getdents64", {}}},
                      {"dup3", "fcntl", "fstat", "newfstatat"},
                      {"getdents64"}};
       }},
      {"set-limit", [](const std::string& d, const Words&) { return set_limit(d, false); }},
      {"cap-limit", [](const std::string& d, const Words&) { return set_limit(d, true); }},
      {"verify-wall", [](const std::string& d, const Words&) { return verify_wall(d); }},
      {"install-filter",
       [](const std::string&, const Words&) {
         return Shape{{{"seccomp", {"SECCOMP_SET_MODE_FILTER"}}}, {}};
       }},
  };
  return table;
}

// Closing and waiting may happen anywhere.
const Words kAnywhere{"close", "futex"};

// What the process does before its first step, and after the last until the command is there.
const Shape kBirth{
    {{"prctl", {"PR_SET_NAME"}}, {"umask", {"000"}}, {"prctl", {"PR_SET_PDEATHSIG", "SIGKILL"}}},
    {}};
const Shape kStart{
    {{"umask", {"022"}}, {"rt_sigprocmask", {"SIG_SETMASK"}}, {"signalfd4", {}}, {"vfork", {}}},
    {}};

// What strace wrote, a call per line: "PID name(arguments) = result".
class Trace {
 public:
  explicit Trace(const std::string& text) {
    std::istringstream stream(text);
    for (std::string line; std::getline(stream, line);) lines_.push_back(line);
  }

  // The process that was made with a user namespace of its own; empty when there is none.
  std::string first_process() const {
    const std::regex made(R"(^\d+ +clone3\(.*CLONE_NEWUSER.*= (\d+)$)");
    const std::regex resumed(R"(^\d+ +<\.\.\. clone3 resumed>.*= (\d+)$)");
    std::smatch match;
    for (const std::string& line : lines_) {
      if (std::regex_search(line, match, made) || std::regex_search(line, match, resumed)) {
        return match[1];
      }
    }
    return "";
  }

  // The calls of that process, whole, up to the one that makes the command's process.
  Words calls_of(const std::string& pid) const {
    Words calls;
    for (const std::string& line : lines_) {
      if (!line.starts_with(pid + " ")) continue;
      const std::string call = line.substr(line.find_first_not_of(' ', pid.size()));
      if (call.starts_with("<...")) continue;  // its beginning was seen
      calls.push_back(call);
      if (call.starts_with("vfork(")) return calls;
    }
    return calls;
  }

  // The line on which a call of any process has ended; the number of lines when there is none.
  std::size_t end_of(const std::string& name, const std::string& part) const {
    bool begun = false;
    for (std::size_t i = 0; i < lines_.size(); ++i) {
      const bool here = lines_[i].find(" " + name + "(") != std::string::npos &&
                        lines_[i].find(part) != std::string::npos;
      const bool resumed = begun && lines_[i].find(name + " resumed>") != std::string::npos;
      const bool whole = lines_[i].find("<unfinished") == std::string::npos;
      if ((here || resumed) && whole) return i;
      begun = begun || here;
    }
    return lines_.size();
  }
  std::size_t size() const { return lines_.size(); }

 private:
  Words lines_;
};

// The steps below these headings of `glovebox explain`, in the order in which they run.
std::vector<PlanStep> steps_of(const std::string& explanation) {
  std::vector<PlanStep> steps;
  const std::regex step(R"(^ +\d+  (\S+) *(.*)$)");
  std::istringstream stream(explanation);
  std::smatch match;
  for (std::string line; std::getline(stream, line);) {
    if (std::regex_match(line, match, step)) steps.push_back({match[1], match[2]});
  }
  return steps;
}

class LaunchCalls : public BoxTest {
 protected:
  void SetUp() override {
    BoxTest::SetUp();
    if (IsSkipped()) return;
    if (!std::filesystem::exists(kStrace)) GTEST_SKIP() << "strace is not installed";
    Running attempt({kStrace, "-o", scratch() + "/attempt", "/bin/true"}, {}, caller(), "");
    if (attempt.finish().code != 0) GTEST_SKIP() << "strace cannot watch processes here";
  }

  Trace watch_launch() {
    const std::string file = scratch() + "/trace";
    Settings settings;
    settings.wrapper = {kStrace, "-f", "-s", "4096", "-o", file};
    EXPECT_THAT(run({}, {"true"}, settings), ended_with(0));
    return Trace(read_text(file));
  }

  std::vector<PlanStep> planned_steps() {
    return steps_of(glovebox({"explain", "--", "true"}).out);
  }

  // Whether the call is the expected one. A text that could not be read is an address.
  bool fits(const std::string& call, const Call& expected) const {
    if (!call.starts_with(expected.name + "(")) return false;
    const bool hidden = !as_root() && call.find("0x") != std::string::npos;
    return std::all_of(expected.parts.begin(), expected.parts.end(), [&](const std::string& part) {
      const bool in_memory = part.starts_with('"') || part.starts_with('?');
      if (in_memory && hidden) return true;
      return call.find(part.starts_with('?') ? part.substr(1) : part) != std::string::npos;
    });
  }

  static bool is_one_of(const std::string& call, const Words& names) {
    const std::string name = call.substr(0, call.find('('));
    return std::find(names.begin(), names.end(), name) != names.end() ||
           std::find(kAnywhere.begin(), kAnywhere.end(), name) != kAnywhere.end();
  }

  // Takes the calls of one step from the front of what is left. Says what is wrong, or nothing.
  std::string take(const Words& calls, std::size_t& next, const std::string& step,
                   const Shape& shape) const {
    for (const Call& expected : shape.calls) {
      while (next < calls.size() && !fits(calls[next], expected) &&
             is_one_of(calls[next], shape.between)) {
        ++next;
      }
      if (next == calls.size()) return step + ": " + expected.name + " was never called";
      if (!fits(calls[next], expected)) {
        return step + ": expected " + expected.name + ", but there is " + calls[next];
      }
      ++next;
    }
    while (next < calls.size() && is_one_of(calls[next], shape.after)) ++next;
    return "";
  }

  static Words names_of(const PlanStep& step) {
    const auto shape = shapes().find(step.name);
    if (shape == shapes().end()) return {};
    Words names;
    for (const Call& call : shape->second(step.details, words_of(step.details)).calls) {
      names.push_back(call.name);
    }
    return names;
  }

  // Reads the calls as the steps. Says what does not fit, or nothing.
  std::string compare(const Words& calls, const std::vector<PlanStep>& steps) const {
    std::size_t next = 0;
    std::string problem = take(calls, next, "before the first step", kBirth);
    for (const PlanStep& step : steps) {
      if (!problem.empty()) return problem;
      const auto shape = shapes().find(step.name);
      if (shape == shapes().end()) return "this test does not know the step " + step.name;
      problem = take(calls, next, step.name + " " + step.details,
                     shape->second(step.details, words_of(step.details)));
    }
    if (problem.empty()) problem = take(calls, next, "after the last step", kStart);
    if (problem.empty() && next != calls.size()) return "more than the plan says: " + calls[next];
    return problem;
  }
};

TEST_P(LaunchCalls, AreTheStepsOfThePlanInItsOrder) {
  const Trace trace = watch_launch();
  const std::string pid = trace.first_process();
  ASSERT_NE(pid, "");
  const std::vector<PlanStep> steps = planned_steps();
  ASSERT_GT(steps.size(), 40U);
  EXPECT_EQ(compare(trace.calls_of(pid), steps), "");
}

// The comparison is worth something only if it notices.
TEST_P(LaunchCalls, StepThatIsLeftOutOrMovedIsNoticed) {
  const Trace trace = watch_launch();
  const Words calls = trace.calls_of(trace.first_process());
  const std::vector<PlanStep> steps = planned_steps();
  ASSERT_EQ(compare(calls, steps), "");
  for (std::size_t i = 0; i < steps.size(); ++i) {
    if (steps[i].name == "leave-host") continue;  // it only waits
    std::vector<PlanStep> without = steps;
    without.erase(without.begin() + static_cast<std::ptrdiff_t>(i));
    EXPECT_NE(compare(calls, without), "") << "the box does " << steps[i].name << " in addition";
    std::vector<PlanStep> with = steps;
    with.insert(with.begin() + static_cast<std::ptrdiff_t>(i), steps[i]);
    EXPECT_NE(compare(calls, with), "") << "the box leaves out " << steps[i].name;
    if (i == 0 || steps[i - 1].name == "leave-host") continue;
    // Without their texts, two steps that make the same calls look alike.
    if (!as_root() && names_of(steps[i - 1]) == names_of(steps[i])) continue;
    std::vector<PlanStep> swapped = steps;
    std::swap(swapped[i - 1], swapped[i]);
    EXPECT_NE(compare(calls, swapped), "") << steps[i].name << " after " << steps[i - 1].name;
  }
}

// `leave-host` waits for the thread that takes the host's tree away; no right is given up before.
TEST_P(LaunchCalls, HostIsGoneBeforeRightsAre) {
  const Trace trace = watch_launch();
  const std::size_t gone = trace.end_of("umount2", "MNT_DETACH");
  ASSERT_LT(gone, trace.size()) << "the host's tree stays";
  const std::size_t locked = trace.end_of("prctl", "SECBIT_NOROOT_LOCKED");
  EXPECT_LT(gone, locked);
  EXPECT_LT(locked, trace.end_of("vfork", ""));
}

// After the filter comes only the look whether it stands.
TEST_P(LaunchCalls, FilterIsTheLastWall) {
  const std::vector<PlanStep> steps = planned_steps();
  ASSERT_GE(steps.size(), 2U);
  EXPECT_EQ(steps[steps.size() - 2].name, "install-filter");
  EXPECT_EQ(steps.back().name, "verify-wall");
  EXPECT_EQ(steps.back().details, "filter");
}

BOX_TEST_TIERS(LaunchCalls);

}  // namespace
}  // namespace glovebox::test
