// Who the command is: an ordinary user without any power, inside and outside.
#include "support/box_test.h"

#include <fstream>

#include <unistd.h>

namespace glovebox::test {
namespace {

class Identity : public BoxTest {
 protected:
  uid_t expected_uid() const { return as_root() ? 1000 : caller_ids().uid; }
};

std::string status_line(pid_t pid, const std::string& name) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/status");
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with(name + ":")) return line;
  }
  return "";
}

TEST_P(Identity, UserInsideIsTheExpectedOne) {
  const Outcome outcome = probe({}, {"ids"});
  ASSERT_THAT(outcome, ended_with(0));
  const std::string id = std::to_string(expected_uid());
  EXPECT_EQ(lines_after(outcome.out, "uid "),
            Words{id + " " + id + " " + id + " gid " + id + " " + id + " " + id});
}

TEST_P(Identity, IdsInsideCanBeChosen) {
  const Outcome outcome = probe({"--uid", "4242", "--gid", "4343"}, {"ids"});
  ASSERT_THAT(outcome, ended_with(0));
  EXPECT_EQ(lines_after(outcome.out, "uid "), Words{"4242 4242 4242 gid 4343 4343 4343"});
}

TEST_P(Identity, UserOutsideIsNeverRoot) {
  for (const Words& options : {Words{}, Words{"--uid", "0", "--gid", "0"}}) {
    Running box = start_probe(options, {"sleep"});
    if (!box.wait_for("ready")) {
      EXPECT_THAT(box.finish(), refused_to_start("")) << "uid 0 inside may be refused, not broken";
      continue;
    }
    std::size_t in_box = 0;
    for (const pid_t pid : box_processes()) {
      std::ifstream comm("/proc/" + std::to_string(pid) + "/comm");
      std::string name;
      std::getline(comm, name);
      if (name != "glovebox-probe") continue;
      ++in_box;
      unsigned long real = 0;
      ASSERT_EQ(sscanf(status_line(pid, "Uid").c_str(), "Uid: %lu", &real), 1);
      if (as_root()) {
        EXPECT_GE(real, kFirstBoxUid);
      } else {
        EXPECT_EQ(real, caller_ids().uid);
      }
    }
    EXPECT_EQ(in_box, 1U);
    kill(box);
    box.finish();
  }
}

TEST_P(Identity, NoCapabilityInAnySet) {
  EXPECT_THAT(probe({}, {"caps"}), ended_with(0));
  EXPECT_THAT(probe({"--uid", "4242"}, {"caps"}), ended_with(0));
  EXPECT_THAT(probe({}, {"capset"}), ended_with(EPERM));
}

TEST_P(Identity, SecurebitsAreLocked) {
  // SECBIT_NOROOT, NO_SETUID_FIXUP, NO_CAP_AMBIENT_RAISE and their locks: 0x2f without KEEP_CAPS,
  // with or without the lock of KEEP_CAPS.
  const Words bits = lines_after(probe({}, {"caps"}).out, "securebits ");
  ASSERT_EQ(bits.size(), 1U);
  constexpr int kLocked = 0x01 | 0x02 | 0x04 | 0x08 | 0x40 | 0x80;
  EXPECT_EQ(std::stoi(bits.front()) & kLocked, kLocked) << bits.front();
}

TEST_P(Identity, PrivilegesCannotBeGained) {
  EXPECT_THAT(probe({}, {"nnp"}), ended_with(0));
  EXPECT_THAT(probe({}, {"seccomp_mode"}), ended_with(0));
  EXPECT_THAT(probe({}, {"setuid", "0"}), refused_with(Errnos{EPERM, EINVAL}));
  EXPECT_THAT(probe({}, {"setgid", "0"}), refused_with(Errnos{EPERM, EINVAL}));
  EXPECT_THAT(probe({}, {"setuid", std::to_string(expected_uid())}), ended_with(0));
}

TEST_P(Identity, GroupsAreDropped) {
  EXPECT_THAT(probe({}, {"groups"}), ended_with(0));
  EXPECT_THAT(probe({}, {"setgroups"}), ended_with(EPERM));
}

TEST_P(Identity, OneIdIsMapped) {
  const Outcome outcome = probe({}, {"id_maps"});
  ASSERT_THAT(outcome, ended_with(0));
  const Words users = lines_after(outcome.out, "uid_map ");
  ASSERT_EQ(users.size(), 1U);
  unsigned long inside = 0, outside = 0, count = 0;
  ASSERT_EQ(sscanf(users.front().c_str(), "%lu %lu %lu", &inside, &outside, &count), 3);
  EXPECT_EQ(inside, expected_uid());
  EXPECT_EQ(count, 1U);
  EXPECT_EQ(lines_after(outcome.out, "setgroups "), Words{"deny"});
}

TEST_P(Identity, IdsThatDoNotFitAreRefused) {
  for (const char* id : {"-1", "4294967295", "4294967296", "99999999999999999999", "root", ""}) {
    EXPECT_THAT(probe({"--uid", id}, {"ids"}), refused_to_start("")) << id;
    EXPECT_THAT(probe({"--gid", id}, {"ids"}), refused_to_start("")) << id;
  }
}

BOX_TEST_TIERS(Identity);

}  // namespace
}  // namespace glovebox::test
