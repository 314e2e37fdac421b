#include "egress/kernel/as_user.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <functional>
#include <thread>

#include <linux/securebits.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace glovebox::egress {
namespace {

constexpr UserIds kOther{65534, 65534};

CapabilitySets capabilities() {
  CapabilitySets sets{};
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  EXPECT_EQ(::syscall(SYS_capget, &header, sets.data()), 0);
  return sets;
}

// What is changed is the thread's alone.
class AsAnotherUser : public testing::TestWithParam<int> {
 protected:
  void SetUp() override {
    if (::geteuid() != 0) GTEST_SKIP() << "needs root";
  }
  static void in_thread(const std::function<void()>& work) { std::thread(work).join(); }
};

// As a launcher keeps its capabilities through changes of its user, and as every other program.
TEST_P(AsAnotherUser, HasNoCapabilityAndGetsAllBack) {
  in_thread([] {
    if (::prctl(PR_SET_SECUREBITS, GetParam(), 0, 0, 0) != 0) {
      GTEST_SKIP() << "securebits cannot be set here";
    }
    const CapabilitySets before = capabilities();
    {
      const AsUser as_user(kOther);
      ASSERT_TRUE(as_user.is_in_force());
      EXPECT_EQ(::geteuid(), kOther.uid);
      EXPECT_EQ(::getegid(), kOther.gid);
      EXPECT_EQ(::getgroups(0, nullptr), 0);
      EXPECT_EQ(capabilities()[0].effective, 0U);
      EXPECT_EQ(capabilities()[1].effective, 0U);
    }
    EXPECT_EQ(::geteuid(), 0U);
    const CapabilitySets after = capabilities();
    for (const std::size_t word : {0, 1}) {
      EXPECT_EQ(after.at(word).effective, before.at(word).effective);
      EXPECT_EQ(after.at(word).permitted, before.at(word).permitted);
      EXPECT_EQ(after.at(word).inheritable, before.at(word).inheritable);
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Securebits, AsAnotherUser, testing::Values(0, SECBIT_NO_SETUID_FIXUP));

}  // namespace
}  // namespace glovebox::egress
