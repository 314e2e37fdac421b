#include "mcp/rpc.h"

#include "mcp/repl/repl_output.h"

#include <gtest/gtest.h>

namespace glovebox::mcp {
namespace {

int code_of(std::string_view line) {
  const Message message = parse_message(line);
  const auto* malformed = std::get_if<Malformed>(&message);
  return malformed == nullptr ? 0 : malformed->code;
}

TEST(Rpc, MessagesAreTold) {
  EXPECT_TRUE(std::holds_alternative<Request>(
      parse_message(R"({"jsonrpc":"2.0","id":"a","method":"ping"})")));
  EXPECT_TRUE(
      std::holds_alternative<Notification>(parse_message(R"({"jsonrpc":"2.0","method":"x"})")));
  EXPECT_TRUE(
      std::holds_alternative<Answer>(parse_message(R"({"jsonrpc":"2.0","id":1,"result":{}})")));
  EXPECT_EQ(code_of("{"), kParseError);
  for (const char* line :
       {"[]", "1", "{}", R"({"jsonrpc":"1.0","id":1,"method":"x"})",
        R"({"jsonrpc":"2.0","id":null,"method":"x"})", R"({"jsonrpc":"2.0","id":1.5,"method":"x"})",
        R"({"jsonrpc":"2.0","id":1,"method":5})",
        R"({"jsonrpc":"2.0","id":1,"method":"x","params":[]})"}) {
    EXPECT_EQ(code_of(line), kInvalidRequest) << line;
  }
  EXPECT_EQ(code_of(std::string(100, '[')), kParseError);
}

TEST(LineSplitter, SkipsALineThatIsTooLongAndGoesOn) {
  LineSplitter splitter(5);
  std::vector<std::string> lines;
  int skipped = 0;
  for (const char each : std::string_view("abc\r\n\n1234567\n12345\n")) {
    splitter.feed(
        std::string_view(&each, 1), [&](std::string_view line) { lines.emplace_back(line); },
        [&] { ++skipped; });
  }
  EXPECT_EQ(lines, (std::vector<std::string>{"abc", "12345"}));
  EXPECT_EQ(skipped, 1);
}

TEST(Utf8Cleaner, HoldsWhatIsCutAndReplacesWhatIsNoText) {
  Utf8Cleaner cleaner;
  EXPECT_EQ(cleaner.feed("a\xc3"), "a");
  EXPECT_EQ(cleaner.feed("\xa9"), "\xc3\xa9");
  EXPECT_EQ(cleaner.feed("\xff\xed\xa0\x80"), "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd");
  EXPECT_EQ(cleaner.feed("\xf0\x9f"), "");
  EXPECT_EQ(cleaner.finish(), "\xef\xbf\xbd");
}

}  // namespace
}  // namespace glovebox::mcp
