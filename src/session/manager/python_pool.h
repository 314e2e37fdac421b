// Boxes with an interpreter that is ready, made ahead of need.
//
// Starting an interpreter takes many times as long as anything else about a Python session. So once
// one was asked for, a few more of exactly the same kind are started while no caller waits: the
// same plan, the same interpreter, the same preloads. Each serves one session and is never used
// again. What only the Python host keeps (imports, CPU time, a name) is told when it is handed out,
// and need not be the same.
#pragma once

#include "session/prepare/prepare.h"

#include <chrono>
#include <deque>
#include <optional>
#include <string>

namespace glovebox::session {

// What two sessions must have in common for one box to serve either. Nothing for one whose box
// cannot be made ahead: it has a layer of its own, or a network with its own rules.
std::optional<std::string> python_pool_key(const Prepared& prepared);

// A bounded collection of things by their key, the oldest first. The loop's thread only.
template <class Thing>
class PythonPool {
 public:
  // Of one kind, and in all.
  static constexpr std::size_t kMaxOfKind = 3;
  static constexpr std::size_t kMaxInAll = 12;
  static constexpr std::chrono::seconds kLife{300};

  bool wants(const std::string& key) const {
    std::size_t count = 0;
    for (const Entry& entry : entries_) count += entry.key == key ? 1 : 0;
    return count < kMaxOfKind;
  }

  std::optional<Thing> take(const std::string& key) {
    for (auto entry = entries_.begin(); entry != entries_.end(); ++entry) {
      if (entry->key != key) continue;
      Thing thing = std::move(entry->thing);
      entries_.erase(entry);
      return thing;
    }
    return std::nullopt;
  }

  // What has to make room is returned, for its end to be seen to.
  std::optional<Thing> put(std::string key, Thing thing) {
    entries_.push_back({std::move(key), std::move(thing), std::chrono::steady_clock::now()});
    if (entries_.size() <= kMaxInAll) return std::nullopt;
    return take_first();
  }

  // The first that was not asked for in kLife; with Whose::All, any.
  enum class Whose : std::uint8_t { Expired, All };
  std::optional<Thing> take_old(Whose whose) {
    if (entries_.empty()) return std::nullopt;
    const auto age = std::chrono::steady_clock::now() - entries_.front().since;
    if (whose == Whose::Expired && age < kLife) return std::nullopt;
    return take_first();
  }

 private:
  struct Entry {
    std::string key;
    Thing thing;
    std::chrono::steady_clock::time_point since;
  };

  Thing take_first() {
    Thing thing = std::move(entries_.front().thing);
    entries_.pop_front();
    return thing;
  }

  std::deque<Entry> entries_;
};

}  // namespace glovebox::session
