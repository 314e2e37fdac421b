#include "authority/budgets.h"

#include "authority/plain_text.h"
#include "base/quantity.h"

namespace glovebox::authority {
namespace {

constexpr std::uint64_t kNanosecondsPerMillisecond = 1'000'000;
constexpr std::uint64_t kLargest = std::numeric_limits<std::int64_t>::max();

constexpr bool table_is_in_order() {
  for (std::size_t i = 0; i < kBudgets.size(); ++i) {
    if (kBudgets[i].kind != static_cast<BudgetKind>(i)) return false;
  }
  return true;
}
static_assert(table_is_in_order());

Result<std::uint64_t> parse_milliseconds(std::string_view text) {
  TRY(const std::chrono::nanoseconds duration, parse_duration(text));
  const auto nanoseconds = static_cast<std::uint64_t>(duration.count());
  if (nanoseconds % kNanosecondsPerMillisecond != 0) {
    return fail(Code::Invalid, "finer than a millisecond");
  }
  return nanoseconds / kNanosecondsPerMillisecond;
}

}  // namespace

std::string_view field_name(Unit unit) {
  switch (unit) {
    case Unit::Milliseconds: return "ms";
    case Unit::Bytes: return "bytes";
    case Unit::Count: return "count";
  }
  return "";
}

Result<void> check_amount(BudgetKind kind, std::uint64_t amount) {
  const BudgetInfo& budget = info(kind);
  if (amount == 0) return fail(Code::Invalid, "{} budget: must be positive", budget.word);
  const std::uint64_t largest =
      budget.unit == Unit::Milliseconds ? kLargest / kNanosecondsPerMillisecond : kLargest;
  if (amount > largest) {
    return fail(Code::Invalid, "{} budget: {} is more than {}", budget.word, amount, largest);
  }
  return {};
}

Result<std::uint64_t> parse_amount(BudgetKind kind, std::string_view text) {
  const BudgetInfo& budget = info(kind);
  auto amount = budget.unit == Unit::Milliseconds ? parse_milliseconds(text)
                : budget.unit == Unit::Bytes      ? parse_bytes(text)
                                                  : parse_count(text);
  if (!amount) {
    return fail(Code::Invalid, "{} budget {}: {}", budget.word, quoted(text),
                amount.error().message);
  }
  return amount;
}

std::string amount_to_text(BudgetKind kind, std::uint64_t amount) {
  return fmt::format("{}{}", amount, info(kind).unit == Unit::Milliseconds ? "ms" : "");
}

}  // namespace glovebox::authority
