// Class 25: kernel keyrings are kept by user, not by namespace: a key added in one box could be
// read in another box of the same user, or the caller's keys inside. Tried: add_key, request_key,
// keyctl. Canary: a key that the test holds in its own session keyring.
#include "support/box_test.h"

#include <linux/keyctl.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace glovebox::test {
namespace {

class Keyrings : public BoxTest {};

TEST_P(Keyrings, CallsAreRefused) {
  EXPECT_THAT(probe({}, {"keyctl"}), ended_with(EPERM));
  EXPECT_THAT(probe({}, {"add_key", "glovebox-one"}), ended_with(EPERM));
  EXPECT_THAT(probe({}, {"request_key", "glovebox-one"}), ended_with(EPERM));
}

TEST_P(Keyrings, CallersKeysCannotBeFound) {
  const long key =
      syscall(SYS_add_key, "user", "glovebox-canary", "secret", 6, KEY_SPEC_PROCESS_KEYRING);
  EXPECT_THAT(probe({}, {"request_key", "glovebox-canary"}), ended_with(EPERM));
  const Outcome keys = probe({}, {"read", "/proc/keys"});
  EXPECT_THAT(keys.out, testing::Not(testing::HasSubstr("glovebox-canary")));
  if (key > 0) syscall(SYS_keyctl, KEYCTL_REVOKE, key);
}

TEST_P(Keyrings, CommandsWorkWithoutThem) { EXPECT_THAT(run({}, {"true"}), ended_with(0)); }

BOX_TEST_TIERS(Keyrings);

}  // namespace
}  // namespace glovebox::test
