#include "authority/budgets.h"

#include "base/plain_text.h"
#include "base/quantity.h"

namespace glovebox::authority {
namespace {

constexpr std::uint64_t kNanosecondsPerMillisecond = 1'000'000;
constexpr std::string_view kPerSecond = "/s";
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

// "20/s", and as everywhere a bare number is in the kind's own unit.
Result<std::uint64_t> parse_per_second(std::string_view text) {
  if (text.ends_with(kPerSecond)) text.remove_suffix(kPerSecond.size());
  auto parsed = parse_count(text);
  if (parsed) return parsed;
  return fail(Code::Invalid, "{} (a rate is so many in a second, such as 20/s)",
              parsed.error().message);
}

Result<std::uint64_t> parse_in(Unit unit, std::string_view text) {
  switch (unit) {
    case Unit::Milliseconds: return parse_milliseconds(text);
    case Unit::Bytes: return parse_bytes(text);
    case Unit::Count: return parse_count(text);
    case Unit::PerSecond: return parse_per_second(text);
  }
  return fail(Code::Invalid, "not an amount");
}

}  // namespace

std::string_view field_name(Unit unit) {
  switch (unit) {
    case Unit::Milliseconds: return "ms";
    case Unit::Bytes: return "bytes";
    case Unit::Count: return "count";
    case Unit::PerSecond: return "per_second";
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
  auto amount = parse_in(budget.unit, text);
  if (!amount) {
    return fail(Code::Invalid, "{} budget {}: {}", budget.word, quoted(text),
                amount.error().message);
  }
  return amount;
}

std::string amount_to_text(BudgetKind kind, std::uint64_t amount) {
  switch (info(kind).unit) {
    case Unit::Milliseconds: return fmt::format("{}ms", amount);
    case Unit::PerSecond: return fmt::format("{}{}", amount, kPerSecond);
    case Unit::Bytes:
    case Unit::Count: break;
  }
  return fmt::format("{}", amount);
}

}  // namespace glovebox::authority
