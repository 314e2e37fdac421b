// What must hold for every block that is said to be a plan, however hostile. The fuzzer looks for
// one that breaks it; the corpus is checked as a plain test too.
//
// The launcher and the code between clone and exec read a decoded plan without further questions.
// So everything that they could read is read here: with AddressSanitizer, a text or a section that
// leaves the block is found even when nothing looks wrong.
#pragma once

#include "plan/flat_plan.h"

#include <cstddef>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace glovebox::plan {

// Reads everything that a view gives access to, and says what it should not have given.
class PlanWalk {
 public:
  explicit PlanWalk(const PlanView& plan) : plan_(plan) {}

  // Empty, or the name of the property that is broken.
  std::string broken() {
    for (const auto& list : {plan_.early(), plan_.base(), plan_.box()}) steps(list);
    trees();
    for (const FlatController& controller : plan_.controllers()) {
      text(controller.name);
      text(controller.parent);
    }
    for (const auto& list : {plan_.argv(), plan_.envp(), plan_.candidates()}) {
      for (const std::uint32_t offset : list) text(offset);
    }
    filter();
    header();
    if (!plan_.has_same_base(plan_)) say("a base view that differs from itself");
    return broken_;
  }

 private:
  void say(std::string_view property) {
    if (broken_.empty()) broken_ = property;
  }

  // A text ends within the string section.
  void text(std::uint32_t offset) {
    const FlatSection& strings = plan_.header().strings;
    if (offset >= strings.count) return say("a text that begins outside");
    if (offset + std::strlen(plan_.text(offset)) >= strings.count) say("a text that ends outside");
  }

  void steps(std::span<const FlatStep> list) {
    for (const FlatStep& step : list) {
      text(step.text);
      text(step.other);
      if (to_text(static_cast<Op>(step.op)) == "unknown") say("a step that nobody knows");
      if (static_cast<Op>(step.op) == Op::AttachTree && step.a >= plan_.trees().size()) {
        say("a step with a tree that is not there");
      }
      if (static_cast<Op>(step.op) == Op::MountOverlay && step.a + 1 >= plan_.trees().size()) {
        say("an overlay with a tree that is not there");
      }
      if (!broken_.empty()) return;
      if (to_text(unflatten(plan_, step)).empty()) say("a step without words");
    }
  }

  void trees() {
    if (plan_.trees().size() > kMaxTrees) say("too many trees");
    for (const FlatTree& tree : plan_.trees()) {
      text(tree.path);
      if (plan_.text(tree.path)[0] != '/') say("a tree at a relative path");
    }
  }

  // The kernel checks a filter itself; here it only has to be readable, and short enough to ask.
  void filter() {
    if (plan_.filter().empty() || plan_.filter().size() > BPF_MAXINSNS) say("a filter of no size");
    std::uint64_t sum = 0;
    for (const sock_filter& instruction : plan_.filter()) sum += instruction.code + instruction.k;
    if (sum == 1) checksum_ = sum;  // a use, so that reading is not optimised away
  }

  void header() {
    const FlatHeader& h = plan_.header();
    if (h.size != plan_.bytes().size()) say("a length that is not the block's");
    const bool has_command = !plan_.argv().empty() && !plan_.candidates().empty();
    const bool agent = h.resident == static_cast<std::uint32_t>(Resident::Agent);
    if (has_command == agent) say("neither a command nor an agent, or both");
  }

  const PlanView& plan_;
  std::string broken_;
  volatile std::uint64_t checksum_ = 0;
};

// Empty, or the name of the property that these bytes break.
inline std::string broken_property(std::span<const std::byte> bytes) {
  // A block of its own with nothing behind it that could be read by mistake.
  const auto block = std::make_unique<std::byte[]>(bytes.size());
  if (!bytes.empty()) std::memcpy(block.get(), bytes.data(), bytes.size());
  const auto view = PlanView::decode({block.get(), bytes.size()});
  if (!view) return view.error().message.empty() ? "refused without a reason" : "";
  return PlanWalk(*view).broken();
}

}  // namespace glovebox::plan
