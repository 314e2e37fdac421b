// The fixture of tests/kernel and tests/escape: runs `glovebox run` as a real process, once as root
// and once as an ordinary user, and checks after every test that nothing was left behind.
//
//   TEST_P(ReadOnlyGrants, RefuseWrites) {
//     EXPECT_THAT(probe({"--read", tree}, {"read", file}), ended_with(0));
//     EXPECT_THAT(probe({"--read", tree}, {"write", file}), ended_with(EROFS));
//   }
//   BOX_TEST_TIERS(ReadOnlyGrants);
#pragma once

#include "base/unique_fd.h"
#include "support/features.h"
#include "support/installation.h"
#include "support/leftovers.h"
#include "support/process.h"

#include <boost/json.hpp>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <chrono>
#include <initializer_list>
#include <memory>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

namespace glovebox::test {

using Words = std::vector<std::string>;

enum class Tier { Root, User };
std::string to_text(Tier tier);
void PrintTo(Tier tier, std::ostream* stream);

// How one run ended. Printed whole when an expectation fails.
struct Outcome {
  int code = -1;  // the shell's number: exit code, or 128 + signal of glovebox itself
  bool timed_out = false;
  std::string out;
  std::string err;
  boost::json::value report;  // null when glovebox wrote none
  std::chrono::milliseconds took{};

  // exit.reason and exit.limit of the report, "" when absent.
  std::string reason() const;
  std::string limit() const;
};
void PrintTo(const Outcome& outcome, std::ostream* stream);

// What differs from an ordinary run.
struct Settings {
  std::chrono::seconds patience{30};
  std::string input;                // standard input is a pipe with this text, then its end
  std::optional<int> in, out, err;  // or these descriptors; -1 closes
  Words environment{"PATH=/usr/bin:/bin", "HOME=/nonexistent", "TERM=dumb"};
  std::string directory = "/";
  std::vector<int> kept;
  std::vector<int> refused_syscalls;
  std::vector<AnsweredCall> answered_calls;
  std::string terminal;
  Words wrapper;  // words before glovebox: a parent of its own
};

// A run that is under way. Its standard output and error are pipes that the test reads.
class Running {
 public:
  Running(const Words& argv, const Settings& settings, std::optional<Ids> ids,
          std::string report_path);

  pid_t pid() const { return process_->pid(); }
  void signal(int number) const { process_->signal(number); }
  // Reads standard output until `text` has been seen; false at the end or after the patience.
  bool wait_for(std::string_view text);
  // What standard output has said so far, as far as it was read.
  const std::string& seen() const { return out_text_; }
  // Writes to standard input, which stays open until finish().
  void type(std::string_view text);
  Outcome finish();

 private:
  void take_available();

  Settings settings_;
  std::string report_path_;
  Clock::time_point start_ = Clock::now();
  UniqueFd input_, out_, err_;
  std::string out_text_, err_text_;
  std::unique_ptr<Process> process_;
};

class BoxTest : public testing::TestWithParam<Tier> {
 protected:
  void SetUp() override;
  void TearDown() override;

  Tier tier() const { return GetParam(); }
  bool as_root() const { return tier() == Tier::Root; }
  // Who runs glovebox in this tier. Nothing when that is the test program itself.
  std::optional<Ids> caller() const;
  Ids caller_ids() const;

  // `glovebox run OPTIONS --report FILE -- COMMAND`, to its end.
  Outcome run(const Words& options, const Words& command, const Settings& settings = {});
  // The same with the probe as the command, which is granted for reading. Fails the test when the
  // probe did not get to speak although glovebox says that it ended by itself.
  Outcome probe(const Words& options, const Words& words, const Settings& settings = {});
  // The same, left running.
  Running start(const Words& options, const Words& command, const Settings& settings = {});
  Running start_probe(const Words& options, const Words& words, const Settings& settings = {});
  // Ends glovebox (or what stands before it) by SIGKILL. What it could not remove any more is then
  // the next box's to remove, and the test is followed by one.
  void kill(Running& box);
  void glovebox_will_be_killed() { killed_ = true; }
  // `glovebox ARGUMENTS` as they are.
  Outcome glovebox(const Words& arguments, const Settings& settings = {});

  // A directory of this test that belongs to the caller.
  const std::string& scratch() const { return scratch_; }
  // Makes a file or a directory in scratch(); it belongs to the caller. Returns its path.
  std::string make_file(const std::string& name, const std::string& text, unsigned mode = 0644);
  std::string make_directory(const std::string& name, unsigned mode = 0755);
  // A directory below scratch() with one file "old" in it.
  std::string make_tree(const std::string& name);
  // A path that nothing of the host has: who finds it outside knows that the box wrote there.
  static std::string own_name_in(const std::string& directory);
  std::string probe_path() const { return installation().probe(); }

  // The box's pids as seen outside: everything below glovebox. Waits for nothing.
  static std::vector<pid_t> box_processes() { return descendants_of(getpid()); }

 private:
  // Layers of a test are its own.
  Settings with_state(Settings settings) const;
  static Words command_line(const std::string& report, const Words& options, const Words& command);

  std::string scratch_;
  int run_count_ = 0;
  bool killed_ = false;
  Snapshot before_;
};

std::string read_text(const std::string& path);
void write_text(const std::string& path, const std::string& text);

// Lines of a probe's output that begin with "NAME: PREFIX", without that.
Words lines_after(const std::string& output, const std::string& prefix);

// The command ended by itself with this code.
MATCHER_P(ended_with, code, "ended with " + std::to_string(code)) {
  return !arg.timed_out && arg.code == code;
}
// The act was refused, with one of these errnos. 0 and glovebox's own codes are not refusals.
MATCHER_P(refused_with, errnos, "was refused with one of the named errnos") {
  if (arg.timed_out) return false;
  for (const int expected : errnos) {
    if (arg.code == expected) return true;
  }
  return false;
}
// glovebox did not start the command, and says why in one sentence that contains `words`.
MATCHER_P(refused_to_start, words,
          "was refused before it started, saying '" + std::string(words) + "'") {
  return !arg.timed_out && arg.code == 125 && arg.err.starts_with("glovebox: ") &&
         arg.err.find(words) != std::string::npos;
}
// A limit of this name ended the run: in the code, on stderr and in the report.
MATCHER_P(ended_by_limit, name, "was ended by the limit '" + std::string(name) + "'") {
  return !arg.timed_out && arg.code == 124 && arg.reason() == "limit" && arg.limit() == name &&
         arg.err.find("glovebox: ended by limit: " + std::string(name)) != std::string::npos;
}

using Errnos = std::vector<int>;

}  // namespace glovebox::test

// For a claim that only makes sense in one tier; the other skips.
#define ROOT_TIER_ONLY()                                             \
  do {                                                               \
    if (!as_root()) GTEST_SKIP() << ::glovebox::test::kRootTierOnly; \
  } while (false)
#define USER_TIER_ONLY()                                            \
  do {                                                              \
    if (as_root()) GTEST_SKIP() << ::glovebox::test::kUserTierOnly; \
  } while (false)

// Last line of a test file: runs the fixture's tests in both tiers.
#define BOX_TEST_TIERS(fixture)                                                                    \
  INSTANTIATE_TEST_SUITE_P(                                                                        \
      Tiers, fixture, testing::Values(::glovebox::test::Tier::Root, ::glovebox::test::Tier::User), \
      [](const auto& tier_info) { return ::glovebox::test::to_text(tier_info.param); })
