#include "mcp/profile/modes.h"

#include "authority/network.h"
#include "base/strict_json.h"

#include <algorithm>

namespace glovebox::mcp {
namespace {

namespace json = boost::json;

Result<bool> parse_flag(std::string_view key, std::string_view value) {
  if (value == "true") return true;
  if (value == "false") return false;
  return fail(Code::Invalid, "--config {}: '{}' is neither true nor false", key, value);
}

Result<std::vector<std::string>> parse_list(std::string_view key, std::string_view value) {
  TRY(const json::value parsed, parse_strict_json(value));
  if (!parsed.is_array()) {
    return fail(Code::Invalid, "--config {}: a JSON array of strings is needed", key);
  }
  std::vector<std::string> list;
  for (const json::value& each : parsed.as_array()) {
    TRY(const std::string_view text, json_text(each, key));
    list.emplace_back(text);
  }
  return list;
}

// "**.example.com" is the name and everything below it; a bare "*" would be no list at all.
Result<void> check_domain(std::string_view pattern) {
  if (pattern.starts_with("**.")) pattern.remove_prefix(1);
  if (pattern == "*.*" || pattern == "*") {
    return fail(Code::Invalid, "domain '{}': name the domains", pattern);
  }
  if (pattern.starts_with("*.")) pattern.remove_prefix(2);
  TRY_VOID(authority::DomainPattern::parse(pattern));
  return {};
}

class Chooser {
 public:
  Result<void> take(const ModeWord& word) {
    switch (word.kind) {
      case ModeWord::Kind::Sandbox: return set_mode(word.value);
      case ModeWord::Kind::AddWritableRoot: return add_root(word.value);
      case ModeWord::Kind::AddAllowedDomain: return add_domain(word.value);
      case ModeWord::Kind::Config: return set_config(word.value);
    }
    return fail(Code::Invalid, "an unknown word");
  }

  Result<ModeChoice> finish() {
    // In inherit mode it is the client's sandbox that decides, call by call.
    if (problem_ && choice_.mode != Mode::Inherit) return unexpected(*problem_);
    return choice_;
  }

 private:
  Result<void> set_mode(std::string_view text) {
    TRY(const Mode mode, parse_mode(text));
    choice_ = ModeChoice{mode, {}};
    problem_.reset();
    return {};
  }

  bool can_refine() const {
    return choice_.mode == Mode::WorkspaceWrite || choice_.mode == Mode::Inherit;
  }

  Result<void> add_root(const std::string& path) {
    if (!can_refine()) {
      return fail(Code::Invalid,
                  "--add-writable-root can only be used while sandbox mode is workspace-write");
    }
    if (!path.starts_with('/')) {
      return fail(Code::Invalid, "--add-writable-root {}: not an absolute path", path);
    }
    choice_.refinements.writable_roots.push_back(path);
    return {};
  }

  Result<void> add_domain(const std::string& pattern) {
    TRY_VOID(check_domain(pattern));
    choice_.refinements.allowed_domains.push_back(pattern);
    return {};
  }

  Result<void> set_config(std::string_view text) {
    const std::size_t equals = text.find('=');
    if (equals == std::string_view::npos) {
      return fail(Code::Invalid, "--config {}: KEY=VALUE is needed", text);
    }
    return set_key(text.substr(0, equals), text.substr(equals + 1));
  }

  Result<void> set_key(std::string_view key, std::string_view value) {
    constexpr std::string_view kWorkspace = "sandbox_workspace_write.";
    constexpr std::string_view kNetwork = "permissions.network.";
    if (key == "sandbox_mode") return set_mode(unquoted(value));
    if (key == "features.use_linux_sandbox_bwrap" || key == "use_linux_sandbox_bwrap") {
      TRY_VOID(parse_flag(key, value));  // nothing here depends on bubblewrap
      return {};
    }
    if (key.starts_with(kNetwork)) return set_network(key, key.substr(kNetwork.size()), value);
    if (!key.starts_with(kWorkspace)) {
      return fail(Code::Invalid, "unsupported --config key: {}", key);
    }
    if (!can_refine() && !problem_) {
      problem_ =
          Error{Code::Invalid, 0, fmt::format("--config {} requires workspace-write mode", key)};
    }
    return set_workspace(key, key.substr(kWorkspace.size()), value);
  }

  static std::string_view unquoted(std::string_view value) {
    if (value.size() >= 2 && value.front() == '"' && value.back() == '"') {
      return value.substr(1, value.size() - 2);
    }
    return value;
  }

  Result<void> set_network(std::string_view key, std::string_view name, std::string_view value) {
    if (name == "allow_local_binding") {
      TRY_VOID(parse_flag(key, value));  // a box has a loopback of its own, and may bind there
      return {};
    }
    if (name != "allowed_domains" && name != "denied_domains") {
      return fail(Code::Invalid, "unsupported --config key: {}", key);
    }
    TRY(std::vector<std::string> list, parse_list(key, value));
    for (const std::string& each : list) TRY_VOID(check_domain(each));
    Refinements& all = choice_.refinements;
    (name == "allowed_domains" ? all.allowed_domains : all.denied_domains) = std::move(list);
    return {};
  }

  Result<void> set_workspace(std::string_view key, std::string_view name, std::string_view value) {
    Refinements& all = choice_.refinements;
    if (name == "writable_roots") {
      TRY(std::vector<std::string> roots, parse_list(key, value));
      for (const std::string& each : roots) {
        if (!each.starts_with('/')) {
          return fail(Code::Invalid, "--config {}: {} is not an absolute path", key, each);
        }
      }
      all.writable_roots = std::move(roots);
      return {};
    }
    std::optional<bool>* flag = name == "network_access"           ? &all.network_access
                                : name == "exclude_tmpdir_env_var" ? &all.exclude_tmpdir
                                : name == "exclude_slash_tmp"      ? &all.exclude_slash_tmp
                                                                   : nullptr;
    if (flag == nullptr) return fail(Code::Invalid, "unsupported --config key: {}", key);
    TRY(*flag, parse_flag(key, value));
    return {};
  }

  ModeChoice choice_;
  std::optional<Error> problem_;
};

void apply(Profile& profile, const Refinements& refinements) {
  for (const std::string& root : refinements.writable_roots) {
    profile.entries.push_back({root, Access::Write});
  }
  if (refinements.network_access) {
    profile.network = *refinements.network_access ? Network::On : Network::Off;
  }
  if (refinements.exclude_slash_tmp) profile.writes_tmp = !*refinements.exclude_slash_tmp;
  if (refinements.exclude_tmpdir) profile.writes_tmpdir = !*refinements.exclude_tmpdir;
  profile.allowed_domains = refinements.allowed_domains;
  profile.denied_domains = refinements.denied_domains;
  normalize(profile);
}

}  // namespace

Result<Mode> parse_mode(std::string_view text) {
  if (text == "read-only") return Mode::ReadOnly;
  if (text == "workspace-write") return Mode::WorkspaceWrite;
  if (text == "danger-full-access") return Mode::FullAccess;
  if (text == "inherit" || text == "inherit-codex") return Mode::Inherit;
  return fail(Code::Invalid,
              "--sandbox {}: there are read-only, workspace-write, danger-full-access, inherit and "
              "inherit-codex",
              text);
}

Result<ModeChoice> choose_mode(std::span<const ModeWord> words) {
  Chooser chooser;
  for (const ModeWord& word : words) TRY_VOID(chooser.take(word));
  return chooser.finish();
}

Profile make_profile(const ModeChoice& choice, const std::string& cwd) {
  GLOVEBOX_CHECK(choice.mode != Mode::Inherit);
  Profile profile;
  profile.cwd = cwd;
  profile.reach = choice.mode == Mode::FullAccess ? Reach::FullAccess : Reach::ReadAll;
  if (choice.mode == Mode::FullAccess) profile.network = Network::On;
  if (choice.mode == Mode::WorkspaceWrite) {
    profile.entries.push_back({cwd, Access::Write});
    profile.writes_tmp = profile.writes_tmpdir = true;
  }
  apply(profile, choice.refinements);
  return profile;
}

Result<Profile> refine(Profile inherited, const Refinements& refinements) {
  if (refinements.empty()) return inherited;
  if (mode_name(inherited) != "workspace-write") {
    return fail(Code::Invalid,
                "what was added on the command line requires workspace-write mode, and the "
                "client's sandbox is {}",
                mode_name(inherited));
  }
  apply(inherited, refinements);
  return inherited;
}

}  // namespace glovebox::mcp
