#include "workspace/tree/printable.h"

#include <gtest/gtest.h>

namespace glovebox::workspace {
namespace {

TEST(Printable, EscapesWhatDrivesOrDeceivesATerminal) {
  EXPECT_EQ(printable("a b"), "a b");
  EXPECT_EQ(printable("x\n\x1b[2J"), "x\\x0a\\x1b[2J");
  EXPECT_EQ(printable("caf\xc3\xa9"), "caf\xc3\xa9");
  EXPECT_EQ(printable("\xff"), "\\xff");
  EXPECT_EQ(printable("\xc2\x9b"), "\\xc2\\x9b");  // C1 control
  EXPECT_EQ(printable("a\xe2\x80\xae"
                      "b"),
            "a\\xe2\\x80\\xaeb");            // right-to-left override
  EXPECT_EQ(printable("\\x1b"), "\\\\x1b");  // no imitation of an escape
  EXPECT_EQ(printable_line("a\t\\b\x07"), "a\t\\b\\x07");
}

TEST(QuotedPath, IsPlainOrCQuoted) {
  EXPECT_EQ(quoted_path("a/b-c"), "a/b-c");
  EXPECT_EQ(quoted_path("a/b c"), "\"a/b c\"");
  EXPECT_EQ(quoted_path("a\nb"), "\"a\\nb\"");
  EXPECT_EQ(quoted_path("q\"x"), "\"q\\\"x\"");
  EXPECT_EQ(quoted_path("\x1b"), "\"\\033\"");
}

TEST(EncodeBytes, RoundTripsEveryByte) {
  std::string all;
  for (int byte = 0; byte < 256; ++byte) all += static_cast<char>(byte);
  const std::string encoded = encode_bytes(all);
  EXPECT_EQ(encoded.find(' '), std::string::npos);
  EXPECT_EQ(encoded.find('\n'), std::string::npos);
  EXPECT_EQ(decode_bytes(encoded), all);
  EXPECT_FALSE(decode_bytes("%4"));
  EXPECT_FALSE(decode_bytes("%zz"));
}

}  // namespace
}  // namespace glovebox::workspace
