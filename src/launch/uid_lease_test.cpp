#include "launch/uid_lease.h"

#include <gtest/gtest.h>

namespace glovebox::launch {
namespace {

TEST(UidRange, RefusesIdsOfPeopleAndNobody) {
  EXPECT_EQ(*parse_uid_range("1900000000-100"), (UidRange{1'900'000'000, 100}));
  for (const char* text : {"", "0-10", "1000-5", "65534-10", "1900000000", "1900000000-0", "a-b",
                           "4294967290-100", "1900000000-99999999999"}) {
    EXPECT_FALSE(parse_uid_range(text)) << text;
  }
}

}  // namespace
}  // namespace glovebox::launch
