// Budgets: how much of something a box may use up.
//
// A budget is a limit, not a permission. A set without one says nothing about that resource, so
// it is wider than any set with one; two budgets on the same resource combine to the smaller.
#pragma once

#include "base/result.h"

#include <algorithm>
#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>

namespace glovebox::authority {

enum class BudgetKind : std::uint8_t {
  Cpu,          // processor time used by all processes of the box
  Memory,       // resident memory, page cache of its own writes included
  Pids,         // processes and threads alive at once
  Wall,         // time from start to end
  Disk,         // bytes written to the box's own layer
  Inodes,       // files and directories made in that layer
  Output,       // bytes on stdout and stderr together
  OpenFiles,    // descriptors open in one process
  Connections,  // connections open at once
  EgressBytes,  // bytes sent out of the box
  ConnectRate,  // new connections to one destination (address and port) in a second
};

enum class Unit : std::uint8_t { Milliseconds, Bytes, Count, PerSecond };

struct BudgetInfo {
  BudgetKind kind;
  std::string_view tag;   // in JSON
  std::string_view word;  // in terms: "memory=256MiB"
  Unit unit;
};

inline constexpr std::array<BudgetInfo, 11> kBudgets{{
    {BudgetKind::Cpu, "cpu_budget", "cpu", Unit::Milliseconds},
    {BudgetKind::Memory, "memory_budget", "memory", Unit::Bytes},
    {BudgetKind::Pids, "pids_budget", "pids", Unit::Count},
    {BudgetKind::Wall, "wall_budget", "wall", Unit::Milliseconds},
    {BudgetKind::Disk, "disk_budget", "disk", Unit::Bytes},
    {BudgetKind::Inodes, "inode_budget", "inodes", Unit::Count},
    {BudgetKind::Output, "output_budget", "output", Unit::Bytes},
    {BudgetKind::OpenFiles, "open_files_budget", "open_files", Unit::Count},
    {BudgetKind::Connections, "connections_budget", "connections", Unit::Count},
    {BudgetKind::EgressBytes, "egress_bytes_budget", "egress_bytes", Unit::Bytes},
    {BudgetKind::ConnectRate, "connect_rate_budget", "connect_rate", Unit::PerSecond},
}};

constexpr const BudgetInfo& info(BudgetKind kind) {
  return kBudgets[static_cast<std::size_t>(kind)];
}

// Those that the connect broker keeps.
inline constexpr std::array kNetworkBudgets{BudgetKind::Connections, BudgetKind::EgressBytes,
                                            BudgetKind::ConnectRate};
constexpr bool is_of_network(BudgetKind kind) {
  return std::find(kNetworkBudgets.begin(), kNetworkBudgets.end(), kind) != kNetworkBudgets.end();
}

// The name of a unit's field in JSON: "ms", "bytes", "count" or "per_second".
std::string_view field_name(Unit unit);

// Refuses zero (to forbid a thing is to grant no capability for it, not a budget of nothing) and
// amounts that a signed 64-bit count of bytes or nanoseconds cannot hold.
Result<void> check_amount(BudgetKind kind, std::uint64_t amount);

// An amount as people write it ("30s", "256MiB", "64", "20/s"), and back without loss ("30000ms").
Result<std::uint64_t> parse_amount(BudgetKind kind, std::string_view text);
std::string amount_to_text(BudgetKind kind, std::uint64_t amount);

// One budget, as a value of its own type: Budget<BudgetKind::Cpu> is CpuBudget, and so on.
template <BudgetKind K>
class Budget {
 public:
  static constexpr BudgetKind kKind = K;

  static Result<Budget> make(std::uint64_t amount) {
    TRY_VOID(check_amount(K, amount));
    return Budget(amount);
  }
  static Result<Budget> parse(std::string_view text) {
    TRY(const std::uint64_t amount, parse_amount(K, text));
    return make(amount);
  }

  // In the unit that info(kKind) names.
  std::uint64_t amount() const { return amount_; }
  std::string value_text() const { return amount_to_text(K, amount_); }

  friend std::strong_ordering operator<=>(const Budget&, const Budget&) = default;

 private:
  explicit Budget(std::uint64_t amount) : amount_(amount) {}

  std::uint64_t amount_;
};

using CpuBudget = Budget<BudgetKind::Cpu>;
using MemoryBudget = Budget<BudgetKind::Memory>;
using PidsBudget = Budget<BudgetKind::Pids>;
using WallBudget = Budget<BudgetKind::Wall>;
using DiskBudget = Budget<BudgetKind::Disk>;
using InodeBudget = Budget<BudgetKind::Inodes>;
using OutputBudget = Budget<BudgetKind::Output>;
using OpenFilesBudget = Budget<BudgetKind::OpenFiles>;
using ConnectionsBudget = Budget<BudgetKind::Connections>;
using EgressBytesBudget = Budget<BudgetKind::EgressBytes>;
using ConnectRateBudget = Budget<BudgetKind::ConnectRate>;

}  // namespace glovebox::authority
