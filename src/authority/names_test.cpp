#include "authority/names.h"

#include "authority/capability.h"

#include <gtest/gtest.h>

namespace glovebox::authority {
namespace {

TEST(SecretName, IsAPlainName) {
  for (const char* text : {"a", "API_KEY", "db.password-2", "_x", "9"}) {
    EXPECT_TRUE(SecretName::parse(text)) << text;
  }
  for (const char* text : {"", ".a", "-a", "a b", "a/b", "a=b", "ä", "a\n"}) {
    EXPECT_FALSE(SecretName::parse(text)) << text;
  }
  EXPECT_TRUE(SecretName::parse(std::string(128, 'a')));
  EXPECT_FALSE(SecretName::parse(std::string(129, 'a')));
  EXPECT_FALSE(ChannelName::parse("a b"));
}

TEST(EnvName, IsWhatAShellCanName) {
  for (const char* text : {"A", "_", "PATH", "a1"}) EXPECT_TRUE(EnvName::parse(text)) << text;
  for (const char* text : {"", "1A", "A-B", "A B", "A=B", "A.B"}) {
    EXPECT_FALSE(EnvName::parse(text)) << text;
  }
}

TEST(EnvValue, IsTextThatExecveTakes) {
  EXPECT_TRUE(EnvValue::parse(""));
  EXPECT_TRUE(EnvValue::parse("a=b\tc\nd ü"));
  EXPECT_FALSE(EnvValue::parse(std::string_view("a\0b", 3)));
  EXPECT_FALSE(EnvValue::parse("\x1b[2J"));
  EXPECT_FALSE(EnvValue::parse("\xff"));
  EXPECT_FALSE(EnvValue::parse(std::string(std::size_t{128} * 1024, 'a')));
}

TEST(CommandName, IsOneArgument) {
  EXPECT_TRUE(CommandName::parse("git"));
  EXPECT_TRUE(CommandName::parse("/opt/my tools/run"));
  for (const char* text : {"", "a,b", "a\nb"}) EXPECT_FALSE(CommandName::parse(text)) << text;
}

TEST(ModulePattern, TakesModulesAndWhatIsBelow) {
  for (const char* text : {"json", "os.path", "_x.y1", "numpy.*", "*"}) {
    const auto module = ModulePattern::parse(text);
    ASSERT_TRUE(module) << text;
    EXPECT_EQ(module->to_text(), text);
  }
  for (const char* text : {"", ".", "a.", ".a", "a..b", "1a", "a-b", "a b", "*.a", "a.*.b", "a*",
                           ".*", "**", "a/b", "módulo"}) {
    EXPECT_FALSE(ModulePattern::parse(text)) << text;
  }
}

TEST(Subprocess, IsASetOfCommands) {
  const auto subprocess = Subprocess::parse("make,git,make");
  ASSERT_TRUE(subprocess);
  EXPECT_EQ(subprocess->value_text(), "git,make");
  EXPECT_EQ(subprocess->shell(), Shell::Refused);
  EXPECT_NE(*subprocess, *Subprocess::parse_with_shell("git,make"));
  for (const char* text : {"", ",", "git,", ",git"}) EXPECT_FALSE(Subprocess::parse(text)) << text;
  EXPECT_FALSE(Subprocess::make({}, Shell::Refused));
}

TEST(Budget, IsPositiveAndBounded) {
  EXPECT_EQ(CpuBudget::parse("1.5s")->amount(), 1500u);
  EXPECT_EQ(MemoryBudget::parse("256MiB")->amount(), 256u << 20);
  EXPECT_EQ(PidsBudget::parse("64")->amount(), 64u);
  EXPECT_EQ(ConnectRateBudget::parse("20/s")->amount(), 20u);
  EXPECT_EQ(ConnectRateBudget::parse("20")->amount(), 20u);
  EXPECT_FALSE(CpuBudget::make(0));
  EXPECT_FALSE(CpuBudget::parse("1us"));
  EXPECT_FALSE(CpuBudget::make(10'000'000'000'000));
  EXPECT_FALSE(MemoryBudget::make(std::uint64_t{1} << 63));
  EXPECT_TRUE(MemoryBudget::make((std::uint64_t{1} << 63) - 1));
  for (const char* text : {"", "-1", "ten", "64MiB"}) EXPECT_FALSE(PidsBudget::parse(text)) << text;
  for (const char* text : {"", "/s", "0/s", "-1/s", "1/m", "1 /s", "1/s/s", "1.5/s", "1s"}) {
    EXPECT_FALSE(ConnectRateBudget::parse(text)) << text;
  }
}

}  // namespace
}  // namespace glovebox::authority
