// Boxes that are begun before their requests, for a serving launcher.
//
// A parked box has its namespaces, its cgroup, its uid and the first of its steps behind it, and
// waits. It holds nothing that a plan grants and runs no code of a caller; what the request adds is
// done when it is handed out (child/park.cpp), by the same steps as in a box that was not parked. A
// box is used once: it is never parked again.
//
// Boxes are kept by shape: everything that they were made from is the same as in the plan that they
// are handed out for. How many of a shape are kept follows the demand for it, up to what the
// requests name; a shape that is not asked for gives way to others.
#pragma once

#include "base/epoll.h"
#include "base/result.h"
#include "base/unique_fd.h"
#include "launch/box.h"
#include "plan/flat_plan.h"

#include <cstddef>
#include <cstdint>
#include <list>
#include <optional>
#include <vector>

namespace glovebox::launch {

// Ends, and is waited for, when it is destroyed.
struct ParkedBox {
  ParkedBox() = default;
  ParkedBox(ParkedBox&&) = default;
  ParkedBox& operator=(ParkedBox&&) = delete;
  ~ParkedBox();

  Box box;
  UniqueFd order;         // what it waits on
  bool is_ready = false;  // it has said that it waits
};

struct ParkedCounts {
  std::uint32_t parked = 0;   // now
  std::uint64_t refills = 0;  // boxes that were ever parked
};

class ParkedBoxes {
 public:
  static constexpr std::size_t kMaxShapes = 8;
  static constexpr std::uint32_t kMaxPerShape = 64;
  // Boxes of one shape that ended unasked, after which the launcher waits for the next request
  // before it makes more.
  static constexpr std::uint32_t kMaxLosses = 3;

  Result<void> open();

  // A request asks for a box for this plan: up to `keep` are made ahead for plans of its shape.
  void expect(const plan::PlanView& plan, std::uint32_t keep);
  // One that waits, if there is; and one that was not used after all.
  std::optional<ParkedBox> take(const plan::PlanView& plan);
  void put_back(const plan::PlanView& plan, ParkedBox parked);

  // The shape that one more is wanted of, as a plan to make it from, or nullptr. After that add()
  // is told of it, or give_up() that it could not be made.
  const plan::PlanView* wanted();
  void add(ParkedBox parked);
  void give_up();

  // Readable when a parked box has ended; reap() puts those away.
  BorrowedFd fd() const { return ended_.fd(); }
  void reap();

  ParkedCounts counts() const;

 private:
  struct Shape {
    std::vector<std::byte> bytes;
    plan::PlanView plan;  // of these bytes
    std::uint32_t target = 1;
    std::uint32_t losses = 0;
    std::list<ParkedBox> boxes{};
  };

  Shape* find(const plan::PlanView& plan);
  void remember(const plan::PlanView& plan);

  Epoll ended_;
  std::list<Shape> shapes_;  // the one that was asked for last comes first
  Shape* wanted_ = nullptr;
  std::uint64_t refills_ = 0;
};

}  // namespace glovebox::launch
