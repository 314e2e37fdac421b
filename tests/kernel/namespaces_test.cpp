// Seven namespaces of the box's own, and no way into others.
#include "support/box_test.h"

#include <set>

#include <unistd.h>

namespace glovebox::test {
namespace {

class Namespaces : public BoxTest {};

std::set<std::string> own_namespaces() {
  std::set<std::string> found;
  for (const char* name : {"user", "mnt", "pid", "net", "ipc", "uts", "cgroup"}) {
    char target[64];
    const std::string path = std::string("/proc/self/ns/") + name;
    const ssize_t length = readlink(path.c_str(), target, sizeof target);
    found.insert(std::string(target, static_cast<std::size_t>(length)));
  }
  return found;
}

TEST_P(Namespaces, AllSevenDifferFromTheCallers) {
  const Outcome outcome = probe({}, {"ns_ids"});
  ASSERT_THAT(outcome, ended_with(0));
  const Words inside = lines_after(outcome.out, "ns ");
  EXPECT_EQ(inside.size(), 7U);
  const std::set<std::string> outside = own_namespaces();
  for (const std::string& name : inside) EXPECT_FALSE(outside.contains(name)) << name;
}

TEST_P(Namespaces, TwoBoxesShareNone) {
  const Words first = lines_after(probe({}, {"ns_ids"}).out, "ns ");
  // The first box is held open while the second starts, so that inode numbers cannot be reused.
  Running holder = start_probe({}, {"sleep"});
  ASSERT_TRUE(holder.wait_for("ready"));
  std::set<std::string> held;
  for (const pid_t pid : box_processes()) {
    for (const char* name : {"user", "mnt", "pid", "ipc", "uts"}) {
      char target[64];
      const std::string path = "/proc/" + std::to_string(pid) + "/ns/" + name;
      const ssize_t length = readlink(path.c_str(), target, sizeof target);
      if (length > 0) held.insert(std::string(target, static_cast<std::size_t>(length)));
    }
  }
  for (const std::string& outside : own_namespaces()) held.erase(outside);
  const Outcome second = probe({}, {"ns_ids"});
  ASSERT_THAT(second, ended_with(0));
  for (const std::string& name : lines_after(second.out, "ns ")) {
    EXPECT_FALSE(held.contains(name)) << name << " is shared with another box";
  }
  kill(holder);
  holder.finish();
  EXPECT_EQ(first.size(), 7U);
}

TEST_P(Namespaces, ProcessesAndThreadsCanBeMade) {
  EXPECT_THAT(probe({}, {"fork"}), ended_with(0));
  EXPECT_THAT(probe({}, {"thread"}), ended_with(0));
}

TEST_P(Namespaces, NoFurtherOnesCanBeMade) {
  for (const char* name : {"user", "mount", "pid", "net", "ipc", "uts", "cgroup", "time"}) {
    EXPECT_THAT(probe({}, {"unshare", name}), ended_with(EPERM)) << name;
  }
  for (const char* name : {"user", "mount", "pid", "net", "ipc", "uts", "cgroup"}) {
    EXPECT_THAT(probe({}, {"clone_flag", name}), ended_with(EPERM)) << name;
  }
}

TEST_P(Namespaces, NoneCanBeEntered) {
  EXPECT_THAT(probe({}, {"setns", "/proc/self/ns/uts"}), ended_with(EPERM));
}

TEST_P(Namespaces, HostNameIsTheBoxsOwn) {
  char outside[256];
  gethostname(outside, sizeof outside);
  const Outcome outcome = probe({"--hostname", "sealed-7"}, {"hostname"});
  EXPECT_THAT(outcome, ended_with(0));
  EXPECT_EQ(lines_after(outcome.out, "hostname "), Words{"sealed-7"});
  EXPECT_THAT(probe({}, {"sethostname"}), ended_with(EPERM));
  char after[256];
  gethostname(after, sizeof after);
  EXPECT_STREQ(outside, after);
}

BOX_TEST_TIERS(Namespaces);

}  // namespace
}  // namespace glovebox::test
