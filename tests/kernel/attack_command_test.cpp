// `glovebox attack`: everything holds here, and the probes would notice if it did not.
#include "support/box_test.h"

#include <algorithm>
#include <filesystem>
#include <set>
#include <sstream>

namespace glovebox::test {
namespace {

using testing::HasSubstr;

class AttackCommand : public BoxTest {
 protected:
  // The command looks for the probe beside itself.
  void SetUp() override {
    BoxTest::SetUp();
    if (IsSkipped()) return;
    const std::string bin = make_directory("bin");
    for (const std::string& program : {installation().glovebox(), installation().probe()}) {
      const std::string to = bin + "/" + std::filesystem::path(program).filename().string();
      std::filesystem::copy_file(program, to);
      std::filesystem::permissions(to, std::filesystem::perms(0755));
    }
    program_ = bin + "/glovebox";
  }

  Outcome attack(const Words& words) {
    Words all{program_, "attack"};
    all.insert(all.end(), words.begin(), words.end());
    Settings settings;
    settings.patience = std::chrono::seconds(150);
    Running running(all, settings, caller(), "");
    return running.finish();
  }

  std::string program_;
};

TEST_P(AttackCommand, NothingGetsOut) {
  const Outcome outcome = attack({"--as", as_root() ? "root" : "user"});
  EXPECT_THAT(outcome, ended_with(0)) << outcome.out;
  EXPECT_THAT(outcome.out, HasSubstr(" 0 open, 0 escaped"));
}

// Without a box the same probes do reach what they reach for: the host's sockets, processes, shared
// memory, secrets.
TEST_P(AttackCommand, WithoutABoxTheProbesGetOut) {
  USER_TIER_ONLY();
  const Outcome outcome = attack({"--peer", "none", "-v"});
  EXPECT_THAT(outcome, ended_with(1)) << outcome.out;
  for (const char* tried :
       {"11 connect to an abstract socket", "12 connect to a socket", "13 kill a process",
        "13 stop a process", "21 read a secret of the host", "22 send a datagram",
        "41 connect to a service", "57 read a secret of the environment", "57 see other processes",
        "22 change the mode", "22 cut a file", "24 leave a setuid file", "33 leave a core dump"}) {
    EXPECT_THAT(outcome.out, HasSubstr(std::string("ESCAPED     ") + tried));
  }
  for (const char* tried : {" 2 use descriptors that were left open", "28 find shared memory",
                            "28 find System V", "19 make a user namespace", "24 have any"}) {
    EXPECT_THAT(outcome.out, HasSubstr(std::string("OPEN        ") + tried));
  }
}

// A class is tried, or it is said why not.
TEST_P(AttackCommand, EveryClassIsAccountedFor) {
  const Outcome outcome = attack({"--list"});
  EXPECT_THAT(outcome, ended_with(0));
  std::set<int> classes;
  std::istringstream lines(outcome.out);
  for (std::string line; std::getline(lines, line);) {
    const int number = std::atoi(line.c_str());
    if (number > 0) classes.insert(number);
  }
  for (int number = 1; number <= 60; ++number) {
    EXPECT_TRUE(classes.contains(number)) << number;
  }
}

BOX_TEST_TIERS(AttackCommand);

}  // namespace
}  // namespace glovebox::test
