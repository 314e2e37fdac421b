#include "base/result.h"

#include <gtest/gtest.h>

#include <cerrno>

namespace glovebox {
namespace {

Result<int> half(int n) {
  if (n % 2 != 0) return fail(Code::Invalid, "{} is odd", n);
  return n / 2;
}

Result<int> quarter(int n) {
  TRY(const int once, half(n));
  TRY(const int twice, half(once));
  return twice;
}

TEST(Result, TryReturnsTheValueOrTheFirstError) {
  EXPECT_EQ(*quarter(8), 2);
  EXPECT_EQ(quarter(6).error(), (Error{Code::Invalid, 0, "3 is odd"}));
}

TEST(Result, OsErrorsNameTheActAndTheErrno) {
  const Result<int> result = fail_os(ENOENT, "open {}", "/x");
  EXPECT_EQ(result.error().message, "open /x: No such file or directory (ENOENT)");
  EXPECT_EQ(result.error().os_errno, ENOENT);
  EXPECT_EQ(errno_text(99999), "error 99999");
}

TEST(Result, BrokenInvariantsThrowBug) { EXPECT_THROW(GLOVEBOX_CHECK(1 == 2), Bug); }

}  // namespace
}  // namespace glovebox
