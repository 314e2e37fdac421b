#include "mcp/profile/profile.h"

#include <boost/json/array.hpp>

#include <algorithm>

namespace glovebox::mcp {
namespace {

namespace json = boost::json;

bool writes_something(const Profile& profile) {
  return std::ranges::any_of(profile.entries,
                             [](const PathEntry& each) { return each.access == Access::Write; });
}

bool denies_something(const Profile& profile) {
  return !profile.deny_globs.empty() ||
         std::ranges::any_of(profile.entries,
                             [](const PathEntry& each) { return each.access == Access::Deny; });
}

json::array texts(const std::vector<std::string>& list) {
  json::array array;
  for (const std::string& each : list) array.emplace_back(each);
  return array;
}

json::array paths_with(const Profile& profile, Access access) {
  json::array array;
  for (const PathEntry& each : profile.entries) {
    if (each.access == access) array.emplace_back(each.path);
  }
  return array;
}

std::string_view reach_text(Reach reach) {
  switch (reach) {
    case Reach::Nothing: return "nothing";
    case Reach::System: return "system";
    case Reach::ReadAll: return "read";
    case Reach::WriteAll: return "write";
    case Reach::FullAccess: return "full";
  }
  return "nothing";
}

}  // namespace

std::string_view to_text(Access access) {
  switch (access) {
    case Access::Read: return "read";
    case Access::Write: return "write";
    case Access::Deny: return "deny";
  }
  return "deny";
}

void normalize(Profile& profile) {
  std::ranges::sort(profile.entries);
  std::vector<PathEntry> joined;
  for (PathEntry& each : profile.entries) {
    // Sorted by access too: the last of a path is the one that holds.
    if (!joined.empty() && joined.back().path == each.path) joined.pop_back();
    joined.push_back(std::move(each));
  }
  profile.entries = std::move(joined);
  for (auto* list : {&profile.deny_globs, &profile.allowed_domains, &profile.denied_domains}) {
    std::ranges::sort(*list);
    list->erase(std::ranges::unique(*list).begin(), list->end());
  }
}

std::string_view mode_name(const Profile& profile) {
  if (profile.reach == Reach::FullAccess) return "danger-full-access";
  if (profile.reach != Reach::ReadAll || denies_something(profile)) return "managed";
  return writes_something(profile) ? "workspace-write" : "read-only";
}

json::object to_json(const Profile& profile) {
  json::object object{{"type", mode_name(profile)}};
  if (profile.reach != Reach::FullAccess) {
    object["root"] = reach_text(profile.reach);
    object["writable_roots"] = paths_with(profile, Access::Write);
    json::array read = paths_with(profile, Access::Read);
    if (!read.empty()) object["read_only"] = std::move(read);
    json::array denied = paths_with(profile, Access::Deny);
    if (!denied.empty()) object["denied"] = std::move(denied);
    if (!profile.deny_globs.empty()) object["denied_globs"] = texts(profile.deny_globs);
  }
  object["network_access"] = profile.network == Network::On;
  if (!profile.allowed_domains.empty()) object["domains"] = texts(profile.allowed_domains);
  if (!profile.denied_domains.empty()) object["denied_domains"] = texts(profile.denied_domains);
  object["cwd"] = profile.cwd;
  return object;
}

}  // namespace glovebox::mcp
