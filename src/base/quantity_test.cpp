#include "base/quantity.h"

#include <gtest/gtest.h>

namespace glovebox {
namespace {

using namespace std::chrono_literals;

TEST(Quantity, BytesTakeBinaryAndDecimalUnits) {
  EXPECT_EQ(*parse_bytes("17"), 17u);
  EXPECT_EQ(*parse_bytes("256MiB"), 256u << 20);
  EXPECT_EQ(*parse_bytes("1.5G"), 3u << 29);
  EXPECT_EQ(*parse_bytes("2MB"), 2'000'000u);
}

TEST(Quantity, BytesRefuseWhatIsNotAnAmount) {
  for (const char* text : {"", "-1", "M", "1 MiB", "1..5M", "1e3", "99999999999T", ".5M", "5."}) {
    EXPECT_FALSE(parse_bytes(text)) << text;
  }
}

TEST(Quantity, DurationsTakeUnitsAndFractions) {
  EXPECT_EQ(*parse_duration("30"), 30s);
  EXPECT_EQ(*parse_duration("500ms"), 500ms);
  EXPECT_EQ(*parse_duration("1.5s"), 1500ms);
  EXPECT_EQ(*parse_duration("2m"), 120s);
  EXPECT_FALSE(parse_duration("-3s"));
  EXPECT_FALSE(parse_duration("3 s"));
  EXPECT_FALSE(parse_duration("9999999999h"));
}

TEST(Quantity, ThousandthsArePositive) {
  EXPECT_EQ(*parse_thousandths("1.5"), 1500u);
  EXPECT_EQ(*parse_thousandths("2"), 2000u);
  EXPECT_FALSE(parse_thousandths("0"));
  EXPECT_FALSE(parse_thousandths("-1"));
}

TEST(Quantity, TextIsForPeople) {
  EXPECT_EQ(bytes_to_text(256u << 20), "256 MiB");
  EXPECT_EQ(bytes_to_text(1536), "1.5 KiB");
  EXPECT_EQ(duration_to_text(30s), "30 s");
  EXPECT_EQ(duration_to_text(1500us), "1.5 ms");
}

}  // namespace
}  // namespace glovebox
