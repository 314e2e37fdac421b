#include "workspace/commit/gate.h"

#include "base/strict_json.h"
#include "workspace/git/git_config.h"
#include "workspace/tree/printable.h"

#include <boost/json.hpp>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <filesystem>

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

// A new directory is often writable for the group, by the umask of its maker; one that was
// there becomes so on purpose only.
bool opens_directory(const Change& change) {
  if (!change.after.is(NodeType::Directory)) return false;
  if (!change.before.is(NodeType::Directory)) return (change.after.mode & 0002U) != 0;
  return (change.after.mode & ~change.before.mode & 0022U) != 0;
}

std::string lowered(std::string_view text) {
  std::string out(text);
  for (char& byte : out) byte = static_cast<char>(std::tolower(static_cast<unsigned char>(byte)));
  return out;
}

// Takes an object's id (SHA-1 or SHA-256, in hexadecimal) off the front of the text.
bool take_object_id(std::string_view& text) {
  const std::size_t digits = std::min(text.find_first_not_of("0123456789abcdef"), text.size());
  text.remove_prefix(digits);
  return digits == 40 || digits == 64;
}

// What git writes for a branch or a tag: an id alone, or a log whose lines begin with two ids. As a
// configuration it sets nothing: git gives up at the first line of a log.
bool is_ref_or_its_log(std::string_view text) {
  if (!take_object_id(text)) return false;
  if (text == "\n") return true;
  if (!text.starts_with(' ')) return false;
  text.remove_prefix(1);
  return take_object_id(text) && text.starts_with(' ');
}

// A branch may be called "config" or "hooks/x": then git itself puts such names in these places.
bool is_place_of_refs(std::string_view path) {
  const std::size_t repository = path.rfind(".git/");
  if (repository == std::string_view::npos) return false;
  path.remove_prefix(repository);
  return path.find("/refs/") != std::string_view::npos ||
         path.find("/logs/") != std::string_view::npos;
}

// "branch.topic.remote = origin", as git writes it whenever a branch is made, leads nowhere new if
// `origin` is a remote by name: remotes have addresses of their own, which are judged. Any other
// value is an address itself.
bool names_a_remote(const std::string& setting, const GitSettings& settings) {
  static const std::vector<std::string> kKeys = {"branch.*.remote", "branch.*.pushremote",
                                                 "remote.pushdefault"};
  if (!is_setting_of(setting, kKeys)) return false;
  const auto found = settings.find(setting);
  if (found == settings.end()) return true;  // taken away
  return std::all_of(found->second.begin(), found->second.end(), [&](const std::string& value) {
    return value == "." || settings.contains(fmt::format("remote.{}.url", value));
  });
}

// Where in the workspace a value of core.hooksPath leads ("." is its root), if it does.
std::optional<std::string> place_in_workspace(std::string_view value, std::string_view origin) {
  if (is_below(value, origin)) value.remove_prefix(origin.size() + 1);
  if (value.empty() || value.starts_with('/') || value.starts_with('~')) return std::nullopt;
  std::string place = std::filesystem::path(value).lexically_normal().string();
  if (place.ends_with('/')) place.pop_back();
  if (place == ".." || place.starts_with("../")) return std::nullopt;
  return place;
}

// Whether the change is in the directory of hooks, or a link in place of a directory on the way.
bool is_at_place(const Change& change, std::string_view place) {
  const std::string path = lowered(change.path);
  const std::string hooks = lowered(place);
  if (hooks == ".") return path.find('/') == std::string::npos;
  const bool is_link_on_the_way = change.after.is(NodeType::Symlink) && is_below(hooks, path);
  return path == hooks || is_below(path, hooks) || is_link_on_the_way;
}

// The values of some top keys of a JSON object, as text; a key that is missing is null.
Result<std::string> json_values(const std::string& text, const std::vector<std::string>& keys) {
  if (text.empty()) return json_values("{}", keys);
  const auto value = parse_strict_json(text, kAnyLength);
  if (!value || !value->is_object()) return fail(Code::Invalid, "it is no JSON object");
  boost::json::array values;
  for (const std::string& key : keys) {
    const auto* found = value->get_object().if_contains(key);
    values.push_back(found == nullptr ? boost::json::value() : *found);
  }
  return boost::json::serialize(values);
}

class Judge {
 public:
  // `name` is what the path of the change is called.
  Judge(const Change& change, const std::string& name, const GateContents& contents,
        const GateContext& context)
      : change_(change), name_(name), contents_(contents), context_(context) {}

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
      case Condition::OpenedDirectory: return given(opens_directory(change_), rule);
      case Condition::InHooksPath: return given(is_in_hooks_path(), rule);
      case Condition::NotAGitRef: return given(!is_git_ref(), rule);
      case Condition::GitConfigExecutes: return git_config(rule);
      case Condition::AttributesBind: return attributes(rule);
      case Condition::JsonKeysDiffer: return json_keys(rule);
      case Condition::ShadowsSource: return given(shadows_source(), rule);
      case Condition::GitUnreadable:
      case Condition::GitForgedObject:
      case Condition::GitHiddenFile:
      case Condition::GitSubmoduleCommit: return std::nullopt;  // gate_git.h
    }
    return rule.why;
  }

 private:
  static std::optional<std::string> given(bool is_held, const GateRule& rule) {
    if (!is_held) return std::nullopt;
    return rule.why;
  }

  bool is_removal() const { return !change_.after.exists(); }

  Result<std::string> before() const {
    if (!change_.before.is(NodeType::File)) return std::string();
    return contents_.before(change_);
  }

  // A file that goes holds nothing afterwards.
  Result<std::string> after() const {
    if (is_removal()) return std::string();
    return contents_.after(change_);
  }

  bool has_settings() const { return is_removal() || is_settings_file(change_); }

  // Only what git could not run or obey as anything else.
  bool is_git_ref() const {
    const Node& node = is_removal() ? change_.before : change_.after;
    const bool could_run = (node.mode & 0111U) != 0;
    if (!node.is(NodeType::File) || could_run || !is_place_of_refs(name_)) return false;
    const auto text = is_removal() ? before() : after();
    return text && is_ref_or_its_log(*text);
  }

  bool is_in_hooks_path() const {
    const HookPlaces& hooks = context_.hooks;
    return hooks.is_anywhere ||
           std::any_of(hooks.places.begin(), hooks.places.end(),
                       [&](const std::string& place) { return is_at_place(change_, place); });
  }

  // "src/app.cpython-311.so" and "src/app.py".
  bool shadows_source() const {
    const auto [dir, name] = split_path(change_.path);
    const std::string source = join_path(dir, name.substr(0, name.find('.')) + ".py");
    return !context_.is_there || context_.is_there(source);
  }

  std::optional<std::string> git_config(const GateRule& rule) const {
    if (!has_settings()) return rule.why;
    if (is_git_ref()) return std::nullopt;
    const auto names = [&]() -> Result<std::vector<std::string>> {
      TRY(const std::string old_text, before());
      TRY(const std::string new_text, after());
      TRY(const GitSettings old_settings, parse_git_config(old_text));
      TRY(const GitSettings new_settings, parse_git_config(new_text));
      auto differing = differing_settings(old_settings, new_settings, rule.keys);
      std::erase_if(differing,
                    [&](const auto& name) { return names_a_remote(name, new_settings); });
      return differing;
    }();
    if (!names) return fmt::format("{} ({})", rule.why, names.error().message);
    if (names->empty()) return std::nullopt;
    return fmt::format("{} ({})", rule.why, printable(fmt::format("{}", fmt::join(*names, ", "))));
  }

  std::optional<std::string> attributes(const GateRule& rule) const {
    if (!has_settings()) return rule.why;
    const auto old_text = before();
    const auto new_text = after();
    if (!old_text || !new_text) return rule.why;
    return given(binding_lines(*old_text) != binding_lines(*new_text), rule);
  }

  std::optional<std::string> json_keys(const GateRule& rule) const {
    if (!has_settings()) return rule.why;
    const auto values_of = [&](const Result<std::string>& text) -> Result<std::string> {
      if (!text) return tl::unexpected(text.error());
      return json_values(*text, rule.keys);
    };
    const auto new_values = values_of(after());
    if (!new_values) return fmt::format("{} ({})", rule.why, new_values.error().message);
    // Other readers take documents that this one does not: what was obeyed before cannot be told.
    const auto old_values = values_of(before());
    if (!old_values) return fmt::format("{} (before, {})", rule.why, old_values.error().message);
    return given(*old_values != *new_values, rule);
  }

  const Change& change_;
  const std::string& name_;
  const GateContents& contents_;
  const GateContext& context_;
};

// Whether a rule may speak of a file that goes: not where the danger is in what the file is.
bool holds_removals(const GateRule& rule) {
  if (rule.removals == Removals::Pass) return false;
  switch (rule.when) {
    case Condition::Any:
    case Condition::InHooksPath:
    case Condition::NotAGitRef:
    case Condition::GitConfigExecutes:
    case Condition::AttributesBind:
    case Condition::JsonKeysDiffer: return true;
    default: return false;
  }
}

// Of a directory only the mode counts: what is put into it comes as changes of their own.
bool concerns(const GateRule& rule, const Change& change, const std::string& name) {
  if (rule.act == RuleAct::Gather) return false;
  if (change.kind == ChangeKind::Deleted) {
    return !change.before.is(NodeType::Directory) && holds_removals(rule) && rule.covers(name);
  }
  const bool is_about_directories = rule.when == Condition::OpenedDirectory;
  if (change.after.is(NodeType::Directory) != is_about_directories) return false;
  if (change.after.is(NodeType::Symlink)) return rule.covers_link(name);
  return rule.covers(name);
}

}  // namespace

std::vector<std::string> names_of(const std::string& path, const std::vector<Alias>& aliases) {
  std::vector<std::string> names = {path};
  for (const Alias& alias : aliases) {
    if (alias.directory.empty()) {
      names.push_back(join_path(alias.name, path));
    } else if (is_below(path, alias.directory)) {
      names.push_back(alias.name + path.substr(alias.directory.size()));
    }
  }
  return names;
}

HookPlaces find_hook_places(const Result<std::string>& config, std::string_view origin) {
  if (!config) {
    // Without a repository there are no hooks. Behind a link there may be one, which is not looked
    // for (docs/reference/workspace.md).
    const int why = config.error().os_errno;
    return {.is_anywhere = why != ENOENT && why != ENOTDIR && why != ELOOP};
  }
  // Most name none, and are not taken apart.
  if (lowered(*config).find("hookspath") == std::string::npos) return {};
  const auto settings = parse_git_config(*config);
  if (!settings) return {.is_anywhere = true};
  HookPlaces hooks;
  const auto values = settings->find("core.hookspath");
  if (values == settings->end()) return hooks;
  for (const std::string& value : values->second) {
    if (auto place = place_in_workspace(value, origin)) hooks.places.push_back(*std::move(place));
  }
  return hooks;
}

std::string to_text(const Held& held) {
  const std::string count = held.paths.empty() ? "" : fmt::format(" ({} paths)", held.paths.size());
  return fmt::format("held {}{} [{}]: {}", printable(held.path), count, held.rule, held.why);
}

std::vector<Held> judge(const GateRules& rules, const Change& change, const GateContents& contents,
                        const GateContext& context) {
  std::vector<Held> held;
  if (change.kind == ChangeKind::Refused) return held;
  const std::vector<std::string> names = names_of(change.path, context.aliases);
  for (const GateRule& rule : rules) {
    for (const std::string& name : names) {
      if (!concerns(rule, change, name)) continue;
      auto why = Judge(change, name, contents, context).reason(rule);
      if (!why) continue;
      if (change.kind == ChangeKind::Deleted) why = fmt::format("it would be removed; {}", *why);
      held.push_back({.path = change.path,
                      .rule = rule.name,
                      .why = *std::move(why),
                      .rule_class = std::string(to_text(rule.rule_class))});
      break;
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
