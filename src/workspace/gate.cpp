#include "workspace/gate.h"

#include "workspace/git_config.h"
#include "workspace/text.h"

#include <algorithm>

namespace glovebox::workspace {
namespace {

bool has_set_id(const Node& node) { return (node.mode & 06000U) != 0; }

bool sets_id(const Change& change) {
  if (!change.after.is(NodeType::File) || !has_set_id(change.after)) return false;
  const bool is_as_before = change.kind == ChangeKind::Modified && !change.aspects.content &&
                            (change.after.mode & ~change.before.mode & 06000U) == 0;
  return !is_as_before;
}

bool is_special(const Change& change) {
  return !change.after.is(NodeType::File) && !change.after.is(NodeType::Symlink) &&
         !change.after.is(NodeType::Directory);
}

bool is_executable(const Change& change) {
  if (change.after.is(NodeType::Symlink)) return true;
  return change.after.is(NodeType::File) && (change.after.mode & 0111U) != 0;
}

bool is_settings_file(const Change& change) { return change.after.is(NodeType::File); }

class Judge {
 public:
  Judge(const Change& change, const GateContents& contents, const GateContext& context)
      : change_(change), contents_(contents), context_(context) {}

  // The reason for holding, or nothing.
  std::optional<std::string> reason(const GateRule& rule) const {
    switch (rule.when) {
      case Condition::Any: return rule.why;
      case Condition::LinkPointsOut:
        if (!change_.after.is(NodeType::Symlink)) return std::nullopt;
        return given(points_out(change_.path, change_.target_after, context_.origin), rule);
      case Condition::SetId: return given(sets_id(change_), rule);
      case Condition::SpecialFile: return given(is_special(change_), rule);
      case Condition::FileCapability: return given(change_.has_capability, rule);
      case Condition::Executable: return given(is_executable(change_), rule);
      case Condition::GitConfigExecutes: return git_config(rule);
      case Condition::AttributesBind: return attributes(rule);
    }
    return rule.why;
  }

 private:
  static std::optional<std::string> given(bool is_held, const GateRule& rule) {
    if (!is_held) return std::nullopt;
    return rule.why;
  }

  Result<std::string> before() const {
    if (!change_.before.is(NodeType::File)) return std::string();
    return contents_.before(change_);
  }

  std::optional<std::string> git_config(const GateRule& rule) const {
    if (!is_settings_file(change_)) return rule.why;
    const auto names = [&]() -> Result<std::vector<std::string>> {
      TRY(const std::string old_text, before());
      TRY(const std::string new_text, contents_.after(change_));
      TRY(const GitSettings old_settings, parse_git_config(old_text));
      TRY(const GitSettings new_settings, parse_git_config(new_text));
      return differing_settings(old_settings, new_settings, rule.keys);
    }();
    if (!names) return fmt::format("{} ({})", rule.why, names.error().message);
    if (names->empty()) return std::nullopt;
    return fmt::format("{} ({})", rule.why, printable(fmt::format("{}", fmt::join(*names, ", "))));
  }

  std::optional<std::string> attributes(const GateRule& rule) const {
    if (!is_settings_file(change_)) return rule.why;
    const auto old_text = before();
    const auto new_text = contents_.after(change_);
    if (!old_text || !new_text) return rule.why;
    return given(binding_lines(*old_text) != binding_lines(*new_text), rule);
  }

  const Change& change_;
  const GateContents& contents_;
  const GateContext& context_;
};

}  // namespace

std::string to_text(const Held& held) {
  return fmt::format("held {} [{}]: {}", printable(held.path), held.rule, held.why);
}

std::vector<Held> judge(const GateRules& rules, const Change& change, const GateContents& contents,
                        const GateContext& context) {
  std::vector<Held> held;
  const bool leaves_something = change.kind == ChangeKind::Added ||
                                change.kind == ChangeKind::Modified ||
                                change.kind == ChangeKind::Renamed;
  if (!leaves_something || change.after.is(NodeType::Directory)) return held;
  const Judge judge_one(change, contents, context);
  for (const GateRule& rule : rules) {
    if (!rule.covers(change.path)) continue;
    if (auto why = judge_one.reason(rule)) {
      held.push_back({.path = change.path, .rule = rule.name, .why = *std::move(why)});
    }
  }
  return held;
}

bool points_out(std::string_view path, std::string_view target, std::string_view origin) {
  if (target.empty()) return true;
  std::size_t climbs = 0;
  if (target.starts_with('/')) {
    if (!is_below(target, origin) && target != origin) return true;
    target.remove_prefix(origin.size());
  } else {
    climbs = static_cast<std::size_t>(std::count(path.begin(), path.end(), '/'));
  }
  bool has_name = false;
  while (!target.empty()) {
    const std::size_t end = std::min(target.find('/'), target.size());
    const std::string_view part = target.substr(0, end);
    target.remove_prefix(std::min(end + 1, target.size()));
    if (part == "..") {
      if (has_name || climbs == 0) return true;
      --climbs;
    } else if (!part.empty() && part != ".") {
      has_name = true;
    }
  }
  return false;
}

}  // namespace glovebox::workspace
