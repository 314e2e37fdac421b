#include "authority/terms.h"

#include <gtest/gtest.h>

#include <set>

namespace glovebox::authority {
namespace {

constexpr const char* kOneOfEach[] = {
    "read=/srv",
    "write=/",
    "exec=/usr/bin/env",
    "connect=*.a.com:443",
    "listen=[::1]:8000-8100",
    "unix=/run/x.sock",
    "resolve=*",
    "import=numpy.*",
    "env=HOME=/a=b",
    "secret=api-key",
    "subprocess=git,make",
    "clock",
    "random",
    "channel=jobs",
    "syscalls=sysv-ipc",
    "cpu=500ms",
    "memory=1024",
    "pids=3",
    "wall=30000ms",
    "disk=7",
    "inodes=8",
    "output=9",
    "open_files=10",
    "connections=11",
    "egress_bytes=12",
    "connect_rate=13/s",
    "subprocess_shell=sh",
    "connect=*.:*",
    "connect=[fd00::/8]:1",
    "env=HOME",
    "env=EMPTY=",
    "listen=*:80",
};

TEST(Terms, EveryKindIsReadAndWritten) {
  std::set<std::size_t> kinds;
  for (const char* text : kOneOfEach) {
    const auto capability = parse_term(text);
    ASSERT_TRUE(capability) << text << ": " << capability.error().message;
    EXPECT_EQ(to_text(*capability), text);
    kinds.insert(capability->index());
  }
  EXPECT_EQ(kinds.size(), std::variant_size_v<Capability>);
}

TEST(Terms, RefuseUnknownWordsAndMissingOrExtraValues) {
  for (const char* text :
       {"", "=", "raed=/srv", "READ=/srv", "read", "read=", "clock=1", "random=x", "connect=a.com",
        "env", "env==x", "cpu", "cpu=", "subprocess"}) {
    EXPECT_FALSE(parse_term(text)) << text;
  }
  EXPECT_NE(parse_term("raed=/srv").error().message.find("read, write, exec"), std::string::npos);
}

TEST(Terms, RulesNameTheirEffect) {
  EXPECT_EQ(to_text(Rule{Effect::Deny, *parse_term("write=/srv")}), "deny write=/srv");
}

TEST(Terms, AValueCannotPassForASecondRule) {
  const Rule rule{Effect::Allow, *parse_term("env=A=1\nallow write=/")};
  EXPECT_EQ(to_text(rule), "allow env=A=1\\x0aallow write=/");
}

}  // namespace
}  // namespace glovebox::authority
