#include "egress/rules/ledger.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace glovebox::egress {
namespace {

TEST(Ledger, CountsWhatItDoesNotList) {
  Ledger ledger;
  const Denied denied{Denied::Act::Connect, "192.0.2.1:80", "connect=192.0.2.1:80",
                      "no rule grants it"};
  for (int i = 0; i < 1000; ++i) ledger.add(denied);
  ASSERT_EQ(ledger.denials().size(), 1U);
  EXPECT_EQ(ledger.denials().front().times, 1000U);
  for (int i = 0; i < 1000; ++i) {
    ledger.add(Denied{Denied::Act::Connect, fmt::format("192.0.2.1:{}", i), "", ""});
  }
  EXPECT_EQ(ledger.denials().size(), Ledger::kMostDenials);
  EXPECT_EQ(ledger.totals().denials, 2000U);
}

TEST(Ledger, SumsConnections) {
  Ledger ledger;
  ledger.add(Connected{1, "a.example", "192.0.2.1:80"});
  ledger.add(Closed{1, "a.example", "192.0.2.1:80", 10, 20, {}});
  ledger.add(Closed{2, "", "192.0.2.1:80", 1, 2, {}});
  EXPECT_EQ(ledger.totals().bytes_out, 11U);
  EXPECT_EQ(ledger.totals().bytes_in, 22U);
  EXPECT_EQ(ledger.connections().size(), 2U);
}

TEST(DeniedText, NamesTheCapability) {
  EXPECT_EQ(to_text(Denied{Denied::Act::Connect, "a.example (192.0.2.1:80)", "connect=a.example:80",
                           "no rule grants it"}),
            "denied: connect to a.example (192.0.2.1:80): no rule grants it (--allow "
            "connect=a.example:80 would)");
}

}  // namespace
}  // namespace glovebox::egress
