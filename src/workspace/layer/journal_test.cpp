#include "workspace/layer/journal.h"

#include <gtest/gtest.h>

namespace glovebox::workspace {
namespace {

std::vector<Step> some_steps() {
  Step replace{.kind = StepKind::Replace, .path = "a\n b%\xff"};
  replace.before = {.type = NodeType::File,
                    .mode = 0644,
                    .uid = 1000,
                    .gid = 1000,
                    .size = 17,
                    .device = 64769,
                    .inode = 1234567890123,
                    .modified = -5,
                    .changed = 1793000000123456789};
  replace.staged_inode = 42;
  Step attributes{.kind = StepKind::SetAttributes, .path = "d"};
  attributes.mode_after = 0700;
  attributes.xattrs_before = {{"user.a b", std::string("\0x", 2)}};
  attributes.xattrs_after = {{"user.empty", ""}, {"user.eq", "=="}};
  Step remove{.kind = StepKind::Remove, .path = "t", .scope = Scope::Tree};
  return {replace, attributes, remove};
}

TEST(Journal, StepsRoundTrip) {
  const auto decoded = decode_steps(encode_steps(some_steps()));
  ASSERT_TRUE(decoded) << decoded.error().message;
  EXPECT_EQ(*decoded, some_steps());
}

TEST(Journal, EveryCutIsSeen) {
  const std::string text = encode_steps(some_steps());
  for (std::size_t length = 0; length < text.size(); ++length) {
    EXPECT_FALSE(decode_steps(text.substr(0, length))) << length;
  }
}

TEST(Journal, IntentAndOutcomesRoundTrip) {
  const Intent intent{.staging = ".glovebox-x-1", .undoes = 7};
  EXPECT_EQ(decode_intent(encode_intent(intent)), intent);
  const Intent plain{.staging = ".glovebox-x-1"};
  EXPECT_EQ(decode_intent(encode_intent(plain)), plain);
  const Outcomes outcomes{some_steps()[0].before, Node{}};
  EXPECT_EQ(decode_outcomes(encode_outcomes(outcomes)), outcomes);
  EXPECT_FALSE(decode_outcomes(encode_steps({})));
}

}  // namespace
}  // namespace glovebox::workspace
