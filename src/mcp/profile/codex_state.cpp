#include "mcp/profile/codex_state.h"

#include "authority/paths.h"
#include "base/strict_json.h"

#include <boost/json/value.hpp>

#include <algorithm>

namespace glovebox::mcp {
namespace {

namespace json = boost::json;

constexpr std::size_t kMaxEntries = 1024;

Result<std::string> plain_path(std::string_view text, std::string_view what) {
  if (!text.starts_with('/')) {
    return fail(Code::Invalid, "{} requires an absolute path, got: {}", what, text);
  }
  auto path = authority::AbsolutePath::parse(text);
  if (!path) return fail(Code::Invalid, "{}: {}", what, path.error().message);
  return path->text();
}

int hex_digit(char digit) {
  if (digit >= '0' && digit <= '9') return digit - '0';
  if (digit >= 'a' && digit <= 'f') return digit - 'a' + 10;
  if (digit >= 'A' && digit <= 'F') return digit - 'A' + 10;
  return -1;
}

Result<std::string> percent_decoded(std::string_view text) {
  std::string decoded;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      decoded += text[i];
      continue;
    }
    const int high = i + 2 < text.size() ? hex_digit(text[i + 1]) : -1;
    const int low = i + 2 < text.size() ? hex_digit(text[i + 2]) : -1;
    if (high < 0 || low < 0 || (high == 0 && low == 0)) {
      return fail(Code::Invalid, "Codex sandbox metadata has invalid sandboxCwd");
    }
    decoded += static_cast<char>(high * 16 + low);
    i += 2;
  }
  return decoded;
}

// A path, or a file: URI without host, user, port, query and fragment.
Result<std::string> read_cwd(std::string_view text) {
  constexpr std::string_view kScheme = "file:";
  if (!text.starts_with(kScheme)) {
    if (text.starts_with('/')) return plain_path(text, "sandboxCwd");
    return fail(Code::Invalid, "Codex sandbox metadata requires an absolute sandboxCwd, got: {}",
                text);
  }
  text.remove_prefix(kScheme.size());
  if (text.find_first_of("?#") != std::string_view::npos) {
    return fail(Code::Invalid, "Codex sandbox metadata file URI has unsupported metadata");
  }
  if (text.starts_with("//")) {
    text.remove_prefix(2);
    if (text.starts_with("localhost/")) text.remove_prefix(std::string_view("localhost").size());
    if (!text.starts_with('/')) {
      return fail(Code::Invalid, "Codex sandbox metadata file URI has unsupported metadata");
    }
  }
  TRY(const std::string path, percent_decoded(text));
  return plain_path(path, "sandboxCwd");
}

Result<Access> read_access(std::string_view text) {
  if (text == "read") return Access::Read;
  if (text == "write") return Access::Write;
  if (text == "deny" || text == "none") return Access::Deny;
  return fail(Code::Invalid, "unknown access '{}'", text);
}

Result<Network> read_network(std::string_view text) {
  if (text == "restricted") return Network::Off;
  if (text == "enabled") return Network::On;
  return fail(Code::Invalid, "unknown network '{}'", text);
}

// The network is only the client's word where the files are.
void take_external(Profile& profile, External external) {
  const bool is_full = external == External::FullAccess;
  profile.reach = is_full ? Reach::FullAccess : Reach::ReadAll;
  if (!is_full) profile.network = Network::Off;
}

// Reads permissionProfile into a profile whose cwd is known.
class ProfileReader {
 public:
  ProfileReader(Profile& profile, External external) : profile_(profile), external_(external) {}

  Result<void> read(const json::value& value) {
    TRY(JsonFields fields, JsonFields::of(value, "permissionProfile"));
    TRY(const std::string_view type, fields.text("type"));
    if (type == "disabled") {
      profile_.reach = Reach::FullAccess;
      profile_.network = Network::On;
      return fields.finish();
    }
    TRY(const std::string_view network, fields.text("network"));
    TRY(profile_.network, read_network(network));
    if (type == "external") {
      take_external(profile_, external_);
      return fields.finish();
    }
    if (type != "managed") return fail(Code::Invalid, "unknown permissionProfile type '{}'", type);
    const json::value* files = fields.find("file_system");
    if (files == nullptr) return fail(Code::Invalid, "permissionProfile: file_system is missing");
    TRY_VOID(fields.finish());
    return read_files(*files);
  }

 private:
  Result<void> read_files(const json::value& value) {
    TRY(JsonFields fields, JsonFields::of(value, "file_system"));
    TRY(const std::string_view type, fields.text("type"));
    if (type == "unrestricted") {
      profile_.reach = profile_.network == Network::On ? Reach::FullAccess : Reach::WriteAll;
      return fields.finish();
    }
    if (type != "restricted") return fail(Code::Invalid, "unknown file_system type '{}'", type);
    TRY(const json::array* entries, fields.array("entries"));
    if (const json::value* depth = fields.find("glob_scan_max_depth")) {
      // Denials reach further here than it asks for: every depth is looked at.
      TRY(const std::uint64_t levels, json_integer(*depth, "glob_scan_max_depth"));
      if (levels == 0) return fail(Code::Invalid, "glob_scan_max_depth must be positive");
    }
    TRY_VOID(fields.finish());
    if (entries->size() > kMaxEntries) {
      return fail(Code::Exhausted, "file_system: more than {} entries", kMaxEntries);
    }
    for (const json::value& each : *entries) TRY_VOID(read_entry(each));
    if (!can_read_)
      return fail(Code::Invalid, "restricted policy requires at least one readable entry");
    return {};
  }

  Result<void> read_entry(const json::value& value) {
    TRY(JsonFields fields, JsonFields::of(value, "entry"));
    TRY(const std::string_view word, fields.text("access"));
    TRY(const Access access, read_access(word));
    if (const json::value* missing = fields.find("missing_path_behavior")) {
      // "skip" lets an absent path go unprotected. Here it is protected all the same.
      TRY(const std::string_view text, json_text(*missing, "missing_path_behavior"));
      if (text != "skip") {
        return fail(Code::Invalid, "unknown missing_path_behavior '{}'", text);
      }
    }
    const json::value* path = fields.find("path");
    if (path == nullptr) return fail(Code::Invalid, "entry: path is missing");
    TRY_VOID(fields.finish());
    return read_path(*path, access);
  }

  Result<void> read_path(const json::value& value, Access access) {
    TRY(JsonFields fields, JsonFields::of(value, "path"));
    TRY(const std::string_view type, fields.text("type"));
    if (type == "path") {
      TRY(const std::string_view text, fields.text("path"));
      TRY_VOID(fields.finish());
      TRY(std::string path, plain_path(text, "entry"));
      return add(std::move(path), access);
    }
    if (type == "glob_pattern") {
      TRY(const std::string_view pattern, fields.text("pattern"));
      TRY_VOID(fields.finish());
      if (access != Access::Deny) {
        return fail(Code::Invalid, "glob pattern entries only support deny access");
      }
      // Codex's own words for places, which it replaces before it sends a pattern.
      if (pattern.find("://") != std::string_view::npos) {
        return fail(Code::Unsupported, "glob pattern is not a path: {}", pattern);
      }
      profile_.deny_globs.push_back(pattern.starts_with('/')
                                        ? std::string(pattern)
                                        : fmt::format("{}/{}", profile_.cwd, pattern));
      return {};
    }
    if (type != "special") return fail(Code::Invalid, "unknown path type '{}'", type);
    const json::value* special = fields.find("value");
    if (special == nullptr) return fail(Code::Invalid, "special path: value is missing");
    TRY_VOID(fields.finish());
    return read_special(*special, access);
  }

  Result<void> read_special(const json::value& value, Access access) {
    TRY(JsonFields fields, JsonFields::of(value, "special path"));
    TRY(const std::string_view kind, fields.text("kind"));
    if (kind == "unknown") {  // a newer client's word for older servers: no grant
      if (access != Access::Deny) return {};
      return fail(Code::Unsupported, "a path is denied by a word that is not known here");
    }
    if (kind == "project_roots" || kind == "current_working_directory") {
      std::string path = profile_.cwd;
      if (const json::value* subpath = fields.find("subpath"); subpath && !subpath->is_null()) {
        TRY(const std::string_view text, json_text(*subpath, "subpath"));
        if (text.starts_with('/')) return fail(Code::Invalid, "subpath is absolute: {}", text);
        TRY(path, plain_path(fmt::format("{}/{}", path, text), "subpath"));
      }
      TRY_VOID(fields.finish());
      return add(std::move(path), access);
    }
    TRY_VOID(fields.finish());
    return add_special(kind, access);
  }

  Result<void> add_special(std::string_view kind, Access access) {
    if (kind == "root") return add("/", access);
    if (kind == "minimal") {
      if (access == Access::Write)
        return fail(Code::Invalid, "minimal write access is not supported");
      if (access == Access::Deny) return fail(Code::Unsupported, "minimal cannot be denied");
      can_read_ = true;
      profile_.reach = std::max(profile_.reach, Reach::System);
      return {};
    }
    if (kind != "tmpdir" && kind != "slash_tmp") {
      return fail(Code::Invalid, "unknown special path '{}'", kind);
    }
    // The box has a /tmp of its own, empty and gone with it, whatever is said about the host's.
    can_read_ = can_read_ || access != Access::Deny;
    (kind == "tmpdir" ? profile_.writes_tmpdir : profile_.writes_tmp) = access == Access::Write;
    return {};
  }

  Result<void> add(std::string path, Access access) {
    can_read_ = can_read_ || access != Access::Deny;
    if (path != "/") {
      profile_.entries.push_back({std::move(path), access});
      return {};
    }
    if (access == Access::Deny) {
      root_is_denied_ = true;
      profile_.reach = Reach::Nothing;
    } else if (!root_is_denied_) {
      const Reach reach = access == Access::Write ? Reach::WriteAll : Reach::ReadAll;
      profile_.reach = std::max(profile_.reach, reach);
    }
    return {};
  }

  Profile& profile_;
  External external_;
  bool can_read_ = false;
  bool root_is_denied_ = false;
};

Result<void> read_roots(const json::value& value, Profile& profile) {
  if (!value.is_array()) return fail(Code::Invalid, "sandboxPolicy.writable_roots is no array");
  for (const json::value& each : value.as_array()) {
    TRY(const std::string_view text, json_text(each, "writable_roots"));
    if (!text.starts_with('/')) {
      return fail(Code::Invalid,
                  "Codex sandbox metadata requires absolute sandboxPolicy.writable_roots entries");
    }
    TRY(std::string path, plain_path(text, "writable_roots"));
    profile.entries.push_back({std::move(path), Access::Write});
  }
  return {};
}

Result<bool> read_flag(JsonFields& fields, std::string_view name) {
  const json::value* value = fields.find(name);
  if (value == nullptr) return false;
  if (!value->is_bool()) return fail(Code::Invalid, "sandboxPolicy.{} is not true or false", name);
  return value->as_bool();
}

// {"type":"restricted","include_platform_defaults":true}: reads the system alone.
Result<void> read_old_access(const json::value& value, Profile& profile) {
  TRY(JsonFields fields, JsonFields::of(value, "sandboxPolicy.access"));
  TRY(const std::string_view type, fields.text("type"));
  if (type == "full-access" || type == "full") return fields.finish();
  if (type != "restricted") return fail(Code::Invalid, "unknown sandboxPolicy access '{}'", type);
  TRY(const bool has_system, read_flag(fields, "include_platform_defaults"));
  if (const json::value* roots = fields.find("readable_roots")) {
    if (!roots->is_array()) return fail(Code::Invalid, "readable_roots is no array");
    for (const json::value& each : roots->as_array()) {
      TRY(const std::string_view text, json_text(each, "readable_roots"));
      TRY(std::string path, plain_path(text, "readable_roots"));
      profile.entries.push_back({std::move(path), Access::Read});
    }
  }
  TRY_VOID(fields.finish());
  profile.reach = has_system ? Reach::System : Reach::Nothing;
  return {};
}

Result<void> read_workspace_policy(JsonFields& fields, Profile& profile) {
  profile.entries.push_back({profile.cwd, Access::Write});
  if (const json::value* roots = fields.find("writable_roots")) {
    TRY_VOID(read_roots(*roots, profile));
  }
  TRY(const bool no_tmpdir, read_flag(fields, "exclude_tmpdir_env_var"));
  TRY(const bool no_tmp, read_flag(fields, "exclude_slash_tmp"));
  profile.writes_tmpdir = !no_tmpdir;
  profile.writes_tmp = !no_tmp;
  return {};
}

// sandboxPolicy, of the releases before permissionProfile.
Result<void> read_policy(const json::value& value, External external, Profile& profile) {
  TRY(JsonFields fields, JsonFields::of(value, "sandboxPolicy"));
  TRY(const std::string_view type, fields.text("type"));
  if (type == "danger-full-access") {
    profile.reach = Reach::FullAccess;
    profile.network = Network::On;
    return fields.finish();
  }
  if (type == "external-sandbox") {
    if (const json::value* network = fields.find("network_access")) {
      TRY(const std::string_view text, json_text(*network, "network_access"));
      TRY(profile.network, read_network(text));
    }
    take_external(profile, external);
    return fields.finish();
  }
  if (type != "read-only" && type != "workspace-write") {
    return fail(Code::Invalid, "unknown sandboxPolicy type '{}'", type);
  }
  profile.reach = Reach::ReadAll;
  if (type == "workspace-write") TRY_VOID(read_workspace_policy(fields, profile));
  TRY(const bool network, read_flag(fields, "network_access"));
  profile.network = network ? Network::On : Network::Off;
  for (const char* name : {"access", "read_only_access"}) {
    const json::value* access = fields.find(name);
    if (access != nullptr) TRY_VOID(read_old_access(*access, profile));
  }
  return fields.finish();
}

// For comparing two forms: the names that are protected anyway are in one and not in the other.
Profile without_protected(Profile profile) {
  std::erase_if(profile.entries, [](const PathEntry& entry) {
    if (entry.access != Access::Read) return false;
    return std::ranges::any_of(kProtectedNames, [&](std::string_view name) {
      return entry.path.ends_with(fmt::format("/{}", name));
    });
  });
  return profile;
}

Result<Profile> read_state(const json::value& value, External external) {
  TRY(JsonFields fields, JsonFields::of(value, "sandbox state"));
  TRY(const std::string_view cwd, fields.text("sandboxCwd"));
  Profile profile;
  TRY(profile.cwd, read_cwd(cwd));
  const json::value* current = fields.find("permissionProfile");
  const json::value* older = fields.find("sandboxPolicy");
  // Of no meaning for what may be done: paths of Codex's own helpers, and which of them it uses.
  for (const char* name : {"codexLinuxSandboxExe", "useLegacyLandlock", "useMxc"}) {
    (void)fields.find(name);
  }
  TRY_VOID(fields.finish());
  if (current == nullptr && older == nullptr) {
    return fail(Code::Invalid, "missing field `sandboxPolicy` or `permissionProfile`");
  }
  Profile other = profile;
  if (current != nullptr) TRY_VOID(ProfileReader(profile, external).read(*current));
  if (older != nullptr) TRY_VOID(read_policy(*older, external, other));
  normalize(profile);
  normalize(other);
  if (current == nullptr) return other;
  if (older != nullptr && without_protected(profile) != without_protected(other)) {
    return fail(Code::Invalid, "sandboxPolicy and permissionProfile disagree");
  }
  return profile;
}

Result<Profile> told(Result<Profile> read) {
  if (read) return read;
  return fail(read.error().code, "failed to parse Codex sandbox state metadata: {}",
              read.error().message);
}

}  // namespace

Result<std::optional<Profile>> read_codex_state(const json::object& meta, External external) {
  const json::value* first = meta.if_contains(kStateMeta);
  const json::value* second = meta.if_contains(kState);
  if (first == nullptr) std::swap(first, second);
  if (first == nullptr) return std::nullopt;
  TRY(Profile profile, told(read_state(*first, external)));
  if (second != nullptr) {
    TRY(const Profile other, told(read_state(*second, external)));
    if (other != profile) {
      return fail(Code::Invalid, "failed to parse Codex sandbox state metadata: {} and {} disagree",
                  kStateMeta, kState);
    }
  }
  return profile;
}

}  // namespace glovebox::mcp
