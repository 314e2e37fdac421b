#include "workspace/commit/gate_groups.h"

#include "workspace/tree/printable.h"

#include <algorithm>
#include <map>
#include <set>

namespace glovebox::workspace {
namespace {

constexpr std::size_t kMostNamesShown = 5;

bool gathers(const GateRule& rule, std::string_view rule_class) {
  return std::any_of(rule.gathers.begin(), rule.gathers.end(),
                     [&](RuleClass each) { return to_text(each) == rule_class; });
}

const GateRule* find_by_name(const GateRules& rules, std::string_view name) {
  const auto found = std::find_if(rules.begin(), rules.end(),
                                  [&](const GateRule& rule) { return rule.name == name; });
  return found == rules.end() ? nullptr : &*found;
}

// The topmost directory on the way to a path that was not there before the commit, or "".
std::string new_directory(const std::string& path, const std::set<std::string>& added) {
  for (std::size_t slash = path.find('/'); slash != std::string::npos;
       slash = path.find('/', slash + 1)) {
    std::string directory = path.substr(0, slash);
    if (added.contains(directory)) return directory;
  }
  return {};
}

std::string common_directory(const std::vector<std::string>& paths) {
  std::string common = split_path(paths.front()).first;
  for (const std::string& path : paths) {
    while (!common.empty() && !is_below(path, common)) common = split_path(common).first;
  }
  return common.empty() ? "." : common;
}

// Everything that makes one question.
struct Group {
  std::vector<const Held*> members{};
  std::string path{};  // or empty: what the members have in common
  const GateRule* gatherer = nullptr;
};

// How the members of a question are told from those of others.
struct Key {
  std::string what{};
  std::string directory{};
};

Key key_of(const GateRules& rules, const Held& held, const std::set<std::string>& added) {
  if (!held.gathered_by.empty()) return {.what = held.gathered_by, .directory = ""};
  const std::size_t objects = held.path.find("/objects/");
  if (held.rule_class == to_text(RuleClass::Git) && objects != std::string::npos) {
    return {.what = held.rule, .directory = held.path.substr(0, objects) + "/objects"};
  }
  const std::string directory = new_directory(held.path, added);
  if (directory.empty()) return {.what = held.rule + " of " + held.path, .directory = ""};
  const bool is_everyday = std::any_of(rules.begin(), rules.end(), [&](const GateRule& rule) {
    return gathers(rule, held.rule_class);
  });
  return {.what = is_everyday ? "" : held.rule, .directory = directory};
}

std::string words_of(const std::set<std::string>& rules) {
  return fmt::format("{}", fmt::join(rules, ", "));
}

Held question(const Group& group) {
  if (group.members.size() == 1 && group.gatherer == nullptr) return *group.members.front();
  Held held = *group.members.front();
  std::set<std::string> rules, reasons, named;
  std::vector<std::string> shown;
  for (const Held* member : group.members) {
    rules.insert(member->rule);
    reasons.insert(member->why);
    if (!named.insert(member->path).second) continue;
    held.paths.push_back(member->path);
    if (shown.size() < kMostNamesShown) shown.push_back(printable(member->path));
  }
  held.path = group.path.empty() ? common_directory(held.paths) : group.path;
  if (group.gatherer != nullptr) {
    held.rule = group.gatherer->name;
    held.rule_class = to_text(group.gatherer->rule_class);
  } else {
    held.rule = words_of(rules);
  }
  std::vector<std::string> told(reasons.begin(), reasons.end());
  if (told.size() > kMostNamesShown) {
    const std::size_t more = told.size() - kMostNamesShown;
    told.resize(kMostNamesShown);
    told.push_back(fmt::format("and {} more reasons", more));
  }
  held.why = group.gatherer != nullptr
                 ? fmt::format("{} ({})", group.gatherer->why, words_of(rules))
                 : fmt::format("{}", fmt::join(told, "; "));
  if (held.paths.size() == 1) {
    held.path = held.paths.front();
    if (group.gatherer == nullptr) {
      held.paths.clear();
      return held;
    }
  }
  const std::size_t more = held.paths.size() - shown.size();
  held.why += fmt::format(": {}{}", fmt::join(shown, ", "),
                          more == 0 ? "" : fmt::format(" and {} more", more));
  return held;
}

}  // namespace

const GateRule* find_gathering_rule(const GateRules& rules, const Held& held, const Change& change,
                                    const IsIgnored& is_ignored) {
  for (const GateRule& rule : rules) {
    if (rule.act != RuleAct::Gather || !rule.covers(held.path)) continue;
    const bool is_known_link = change.after.is(NodeType::Symlink) &&
                               held.rule == to_text(Condition::LinkPointsOut) &&
                               rule.links.matches(change.target_after);
    if (!is_known_link && !gathers(rule, held.rule_class)) continue;
    if (is_ignored(held.path)) return &rule;
  }
  return nullptr;
}

std::vector<Held> group_held(const GateRules& rules, const std::vector<Held>& held,
                             const std::vector<Change>& changes) {
  std::set<std::string> added;
  for (const Change& change : changes) {
    if (change.kind == ChangeKind::Added && change.after.is(NodeType::Directory)) {
      added.insert(change.path);
    }
  }
  std::vector<Group> groups;
  std::map<std::pair<std::string, std::string>, std::size_t> places;
  for (const Held& one : held) {
    const Key key = key_of(rules, one, added);
    const auto [at, is_first] = places.emplace(std::pair(key.what, key.directory), groups.size());
    if (is_first) {
      groups.push_back({.path = key.directory, .gatherer = find_by_name(rules, one.gathered_by)});
    }
    groups[at->second].members.push_back(&one);
  }
  std::vector<Held> questions;
  for (const Group& group : groups) questions.push_back(question(group));
  return questions;
}

}  // namespace glovebox::workspace
