#include "host/secrets.h"

#include <cerrno>
#include <variant>

#include <sys/stat.h>
#include <unistd.h>

namespace glovebox::host {
namespace {

Result<void> check_private(const std::string& path) {
  struct stat facts{};
  if (::lstat(path.c_str(), &facts) != 0) return fail_os(errno, "{}", path);
  const bool ours = facts.st_uid == ::geteuid() || facts.st_uid == 0;
  if (ours && (facts.st_mode & 077U) == 0) return {};
  return fail(Code::Denied, "{}: others could read or change it (chmod go= {})", path, path);
}

Result<PathFacts> find_secret(const std::string& name, const std::string& directory) {
  const std::string path = directory + "/" + name;
  auto facts = look_up(path);
  if (!facts) {
    return fail(Code::NotFound,
                "secret={}: there is no secret '{}' (set it with 'glovebox secret set {}')", name,
                name, name);
  }
  TRY_VOID(check_private(directory));
  TRY_VOID(check_private(facts->path));
  if (facts->kind != PathKind::File) {
    return fail(Code::Invalid, "{}: a secret is a regular file", path);
  }
  return facts;
}

}  // namespace

Result<std::map<std::string, PathFacts>> find_secrets(const authority::AuthoritySet& set,
                                                      const std::string& directory) {
  std::map<std::string, PathFacts> found;
  for (const authority::Rule& rule : set.rules()) {
    const auto* secret = std::get_if<authority::Secret>(&rule.capability);
    if (secret == nullptr || rule.effect != authority::Effect::Allow) continue;
    TRY(PathFacts facts, find_secret(secret->name.text(), directory));
    found.emplace(secret->name.text(), std::move(facts));
  }
  return found;
}

}  // namespace glovebox::host
