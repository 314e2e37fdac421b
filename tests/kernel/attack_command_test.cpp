// `glovebox attack`: everything holds here, and the probes would notice if it did not.
#include "support/box_test.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>
#include <sstream>

#include <sys/syscall.h>

namespace glovebox::test {
namespace {

namespace json = boost::json;
using testing::HasSubstr;
using testing::Not;

class AttackCommand : public BoxTest {
 protected:
  // The command looks for the probe and the launcher beside itself.
  void SetUp() override {
    BoxTest::SetUp();
    if (IsSkipped()) return;
    const std::string bin = make_directory("bin");
    for (const std::string& program :
         {installation().glovebox(), installation().probe(), launcher()}) {
      const std::string to = bin + "/" + std::filesystem::path(program).filename().string();
      std::filesystem::copy_file(program, to);
      std::filesystem::permissions(to, std::filesystem::perms(0755));
    }
    program_ = bin + "/glovebox";
  }

  static std::string launcher() {
    const char* binary = std::getenv("GLOVEBOX_BINARY");
    const std::filesystem::path of(binary == nullptr ? "build/glovebox" : binary);
    return of.parent_path() / "glovebox-launcher";
  }

  Outcome attack(const Words& words, Settings settings = {}) {
    Words all = settings.wrapper;
    all.insert(all.end(), {program_, "attack"});
    all.insert(all.end(), words.begin(), words.end());
    settings.wrapper.clear();
    settings.patience = std::chrono::seconds(150);
    Running running(all, settings, caller(), "");
    return running.finish();
  }
  std::string tier_word() const { return as_root() ? "root" : "user"; }

  std::string program_;
};

// Every backend, each with little and with much granted. The one thing that may stay unproven is a
// limit that this host does not let an ordinary user have.
TEST_P(AttackCommand, NothingGetsOut) {
  const Outcome outcome = attack({"--as", tier_word()});
  EXPECT_THAT(outcome, ended_with(0)) << outcome.out;
  EXPECT_THAT(outcome.out, HasSubstr(" 0 open, 0 escaped"));
  std::istringstream lines(outcome.out);
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with("not proven")) continue;
    EXPECT_FALSE(as_root()) << line;
    EXPECT_THAT(line, HasSubstr(" 31 fill memory"));
  }
  for (const char* backend : {"process", "session", "parked", "python", "cell", "mcp"}) {
    const std::string start = std::string("backend ") + backend;
    const std::size_t at = outcome.out.find(start);
    ASSERT_NE(at, std::string::npos) << backend << "\n" << outcome.out;
    EXPECT_GT(std::atoi(outcome.out.c_str() + at + sizeof("backend 1234567")), 150) << backend;
  }
}

// Without a box the same probes do reach what they reach for: the host's sockets, processes, shared
// memory, secrets, and those of another program. The host is one of the test's own, so that nothing
// else is in their way.
TEST_P(AttackCommand, WithoutABoxTheProbesGetOut) {
  USER_TIER_ONLY();
  if (geteuid() != 0) GTEST_SKIP() << "needs root, to make a host that can be attacked";
  const std::string kept = installation().directory();  // below /tmp, which is made anew
  const std::string script = make_file(
      "host", "mount --bind " + kept + " /mnt && mount -t tmpfs tmpfs /tmp && mkdir -p " + kept +
                  " && mount --bind /mnt " + kept +
                  " && mount -t tmpfs tmpfs /dev/shm && ip link set lo up && exec \"$@\"\n");
  Words words{
      "/usr/bin/unshare", "--mount", "--pid", "--fork", "--net",  "--ipc",  "--uts", "--mount-proc",
      "--kill-child",     "/bin/sh", script,  program_, "attack", "--peer", "none",  "-v"};
  Settings settings;
  settings.patience = std::chrono::seconds(60);
  settings.environment = {"PATH=/usr/sbin:/usr/bin:/sbin:/bin"};
  Running running(words, settings, std::nullopt, "");
  const Outcome outcome = running.finish();
  EXPECT_THAT(outcome, ended_with(1)) << outcome.out << outcome.err;
  for (const char* tried : {"10 push keys into",
                            "11 connect to an abstract socket",
                            "12 connect to a socket",
                            "13 kill a process",
                            "13 stop a process",
                            "20 change the address",
                            "20 lead a granted socket",
                            "21 read a secret of the host",
                            "21 read it through links",
                            "22 send a datagram",
                            "22 send a message",
                            "22 change the mode",
                            "22 cut a file",
                            "24 leave a setuid file",
                            "28 find a secret of another box",
                            "33 leave a core dump",
                            "35 forge a whiteout",
                            "41 connect to a service",
                            "41 connect to it on ::1",
                            "41 connect to it by a mapped",
                            "41 connect to a server without",
                            "46 have a relay",
                            "46 connect a socket that",
                            "47 reach a server by saying",
                            "48 send to the name server",
                            "57 read a secret of the environment",
                            "57 read environments",
                            "57 see other processes",
                            " 7 follow the link"}) {
    EXPECT_THAT(outcome.out, HasSubstr(std::string("ESCAPED     ") + tried));
  }
  for (const char* tried : {" 2 use descriptors that were left open",
                            "16 set up a ring",
                            "16 enter such a ring",
                            "18 clone into",
                            "19 make a user namespace",
                            "19 make calls that",
                            "19 have its own system calls",
                            "23 find a wall",
                            "24 have any",
                            "25 add a key",
                            "26 find any odd kind",
                            "28 find shared memory",
                            "28 find System V",
                            "30 take the inotify",
                            "34 gain anything",
                            "56 read the records",
                            "57 list the keys",
                            "57 count the keys",
                            "57 list the locks",
                            "57 read where the kernel",
                            "57 count the interrupts"}) {
    EXPECT_THAT(outcome.out, HasSubstr(std::string("OPEN        ") + tried));
  }
}

// The peer is run with what it can do; its scorecard is its own.
TEST_P(AttackCommand, BubblewrapIsTriedTheSameWay) {
  USER_TIER_ONLY();
  if (access("/usr/bin/bwrap", X_OK) != 0) GTEST_SKIP() << "bubblewrap is not installed";
  const Outcome outcome = attack({"--peer", "bwrap", "-v"});
  EXPECT_THAT(outcome.code, testing::AnyOf(0, 1)) << outcome.out << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("backend bwrap"));
  EXPECT_THAT(outcome.out, Not(HasSubstr("not proven  ")));
  // It has namespaces too, and nothing here may say otherwise.
  for (const char* tried : {"11 connect to an abstract", "13 kill a process", "21 read a secret",
                            "41 connect to a service", "28 find a secret of another box"}) {
    EXPECT_THAT(outcome.out, HasSubstr(std::string("held        ") + tried));
  }
}

// A box that cannot be made, or cannot do what it was granted, refuses everything and proves
// nothing.
TEST_P(AttackCommand, WhatCouldNotRunIsNotProven) {
  Settings settings;
  settings.refused_syscalls = {SYS_landlock_create_ruleset};
  const Outcome outcome =
      attack({"--as", tier_word(), "--backend", "process", "--class", "21"}, settings);
  EXPECT_NE(outcome.code, 0);
  EXPECT_THAT(outcome.out, HasSubstr(" 0 held, 0 open, 0 escaped"));
  EXPECT_THAT(outcome.err, HasSubstr("nothing could be tried"));
}

TEST_P(AttackCommand, JsonNamesEveryTry) {
  const Outcome outcome = attack({"--as", tier_word(), "--backend", "process", "--backend",
                                  "python", "--class", "2", "--class", "40", "--json"});
  EXPECT_THAT(outcome, ended_with(0)) << outcome.err;
  const json::object report = json::parse(outcome.out).as_object();
  EXPECT_EQ(report.at("escaped"), json::value(0));
  EXPECT_EQ(report.at("open"), json::value(0));
  std::map<std::string, int> tries;
  for (const json::value& one : report.at("attacks").as_array()) {
    EXPECT_EQ(one.at("verdict"), json::value("held"));
    EXPECT_EQ(one.at("as"), json::value(tier_word()));
    ++tries[one.at("backend").as_string().c_str()];
  }
  // Four of class 2 with each of two policies, and three of class 40 in Python.
  EXPECT_EQ(tries, (std::map<std::string, int>{{"process", 8}, {"python", 14}}));
}

// A class is tried, or it is said why not; never both.
TEST_P(AttackCommand, EveryClassIsAccountedFor) {
  const Outcome outcome = attack({"--list"});
  EXPECT_THAT(outcome, ended_with(0));
  std::set<int> tried, left_out;
  std::set<int>* classes = &tried;
  std::istringstream lines(outcome.out);
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("not tried")) classes = &left_out;
    const int number = std::atoi(line.c_str());
    if (number > 0) classes->insert(number);
  }
  for (int number = 1; number <= 60; ++number) {
    EXPECT_NE(tried.contains(number), left_out.contains(number)) << number;
  }
  EXPECT_THAT(left_out, testing::ElementsAre(3, 4, 8, 39, 49, 50));
}

BOX_TEST_TIERS(AttackCommand);

}  // namespace
}  // namespace glovebox::test
