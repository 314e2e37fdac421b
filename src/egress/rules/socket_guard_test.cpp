#include "egress/rules/socket_guard.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

namespace glovebox::egress {
namespace {

namespace fs = std::filesystem;

UniqueFd bound_at(const std::string& path) {
  UniqueFd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path.c_str(), path.size());
  const auto* generic = reinterpret_cast<const sockaddr*>(&address);
  EXPECT_EQ(::bind(socket.get(), generic, sizeof address), 0) << path;
  return socket;
}

UniqueFd found_at(const std::string& path) {
  return UniqueFd(::open(path.c_str(), O_PATH | O_CLOEXEC));
}

// The kernel tells whose file a socket is to who has power over its network.
class Guard : public testing::Test {
 protected:
  void SetUp() override {
    if (::geteuid() != 0) GTEST_SKIP() << "needs CAP_NET_ADMIN";
    char name[] = "/tmp/glovebox-guard-test-XXXXXX";
    ASSERT_NE(::mkdtemp(name), nullptr);
    directory_ = name;
  }
  void TearDown() override {
    if (!directory_.empty()) fs::remove_all(directory_);
  }
  std::string path(const std::string& name) const { return directory_ + "/" + name; }
  std::unique_ptr<SocketGuard> guard_of(const std::vector<std::string>& places) {
    plan::NetworkPlan plan;
    plan.socket_places = places;
    plan.moved = {{"/inside", "/outside"}};
    auto guard = std::make_unique<SocketGuard>(plan, kept_);
    guard->learn(UniqueFd(::open("/", O_PATH | O_DIRECTORY | O_CLOEXEC)));
    return guard;
  }

  KeptSockets kept_{1024, 0};
  std::string directory_;
};

TEST_F(Guard, AMountOfThePlacesIsTheBoxs) {
  const UniqueFd socket = bound_at("/dev/shm/" + fs::path(directory_).filename().native());
  const std::string there = "/dev/shm/" + fs::path(directory_).filename().native();
  EXPECT_TRUE(guard_of({"/dev/shm"})->may_connect(found_at(there)));
  EXPECT_FALSE(guard_of({"/proc"})->may_connect(found_at(there)));
  EXPECT_FALSE(guard_of({"/nowhere"})->may_connect(found_at(there)));
  fs::remove(there);
}

TEST_F(Guard, ADirectoryThatIsNoMountPointIsNoPlace) {
  const UniqueFd socket = bound_at(path("socket"));
  EXPECT_FALSE(guard_of({directory_})->may_connect(found_at(path("socket"))));
}

TEST_F(Guard, WhatTheBoxListensAtIsItsOwnUnderEveryName) {
  const auto guard = guard_of({});
  const UniqueFd own = bound_at(path("own"));
  EXPECT_FALSE(guard->may_connect(found_at(path("own"))));
  EXPECT_EQ(guard->add_own(own), 0);
  EXPECT_TRUE(guard->may_connect(found_at(path("own"))));
  fs::create_hard_link(path("own"), path("link"));
  fs::rename(path("own"), path("moved"));
  EXPECT_TRUE(guard->may_connect(found_at(path("link"))));
  EXPECT_TRUE(guard->may_connect(found_at(path("moved"))));
  const UniqueFd other = bound_at(path("other"));
  EXPECT_FALSE(guard->may_connect(found_at(path("other"))));
}

// File systems give the number of a removed file to the next one.
TEST_F(Guard, AnotherSocketAtTheSameNameIsNot) {
  const auto guard = guard_of({});
  for (int round = 0; round < 50; ++round) {
    UniqueFd own = bound_at(path("own"));
    EXPECT_EQ(guard->add_own(own), 0);
    own.reset();
    fs::remove(path("own"));
    const UniqueFd other = bound_at(path("own"));
    EXPECT_FALSE(guard->may_connect(found_at(path("own")))) << round;
    fs::remove(path("own"));
  }
}

TEST_F(Guard, OnlySoManyAreKeptAtATime) {
  const auto guard = guard_of({});
  for (std::size_t i = 0; i < SocketGuard::kMostOwn; ++i) {
    EXPECT_EQ(guard->add_own(bound_at(path(std::to_string(i)))), 0);
  }
  EXPECT_EQ(guard->add_own(bound_at(path("more"))), ENOBUFS);
  fs::remove(path("7"));
  fs::remove(path("more"));
  EXPECT_EQ(guard->add_own(bound_at(path("more"))), 0) << "one that is removed makes room";
}

// As with calls that wait: whatever some take, the next one finds some.
TEST_F(Guard, BoxesLeaveRoomToEachOther) {
  kept_.most = 16;
  int serial = 0;
  const auto fill = [&](SocketGuard& guard) {
    int count = 0;
    while (guard.add_own(bound_at(path(std::to_string(serial++)))) == 0) ++count;
    return count;
  };
  auto first = guard_of({});
  const auto second = guard_of({});
  const auto third = guard_of({});
  EXPECT_EQ(fill(*first), 8);
  EXPECT_EQ(fill(*second), 4);
  EXPECT_EQ(fill(*third), 2);
  first.reset();
  EXPECT_GT(fill(*third), 0) << "a box that has ended gives back what it had";
}

TEST_F(Guard, WithoutAPathThereIsNothingToKeep) {
  const auto guard = guard_of({});
  const UniqueFd unbound(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  EXPECT_EQ(guard->add_own(unbound), 0);
}

TEST_F(Guard, FilesThatAreNoSocketsAreTheKernelsToRefuse) {
  EXPECT_TRUE(guard_of({})->may_connect(found_at("/etc/passwd")));
}

}  // namespace
}  // namespace glovebox::egress
