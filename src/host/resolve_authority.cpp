#include "host/resolve_authority.h"

#include <cerrno>
#include <variant>
#include <vector>

namespace glovebox::host {
namespace {

using authority::Rule;

bool is_missing(const Error& error) {
  return error.code == Code::NotFound || error.os_errno == ENOTDIR || error.os_errno == EACCES;
}

// The path of a capability that has one.
const authority::AbsolutePath* find_path(const authority::Capability& capability) {
  return std::visit(
      [](const auto& kind) -> const authority::AbsolutePath* {
        if constexpr (requires { kind.path; }) return &kind.path;
        return nullptr;
      },
      capability);
}

void move_to(authority::Capability& capability, const authority::AbsolutePath& path) {
  std::visit(
      [&](auto& kind) {
        if constexpr (requires { kind.path; }) kind.path = path;
      },
      capability);
}

Result<void> resolve_rule(Rule& rule, ResolvedAuthority& resolved) {
  const authority::AbsolutePath* named = find_path(rule.capability);
  if (named == nullptr) return {};
  auto facts = look_up(named->text());
  std::string real;
  if (facts) {
    real = facts->path;
    resolved.paths.insert_or_assign(real, *std::move(facts));
  } else if (is_missing(facts.error())) {
    TRY(real, resolve_existing_part(named->text()));
  } else {
    return tl::unexpected(std::move(facts).error());
  }
  if (real == named->text()) return {};
  auto path = authority::AbsolutePath::parse(real);
  if (!path) return fail(Code::Invalid, "{}: {}", named->text(), path.error().message);
  resolved.links.insert_or_assign(named->text(), real);
  move_to(rule.capability, *path);
  return {};
}

}  // namespace

Result<std::string> resolve_existing_part(const std::string& path) {
  std::string front = path;
  std::string rest;
  while (front.size() > 1) {
    const std::size_t slash = front.rfind('/');
    rest = front.substr(slash) + rest;
    front.resize(slash == 0 ? 1 : slash);
    const auto facts = look_up(front);
    if (facts) return facts->path == "/" ? rest : facts->path + rest;
    if (!is_missing(facts.error())) return tl::unexpected(facts.error());
  }
  return path;
}

Result<ResolvedAuthority> resolve_paths(const authority::AuthoritySet& set) {
  ResolvedAuthority resolved;
  std::vector<Rule> rules = set.rules();
  for (Rule& rule : rules) TRY_VOID(resolve_rule(rule, resolved));
  TRY(resolved.set, authority::AuthoritySet::from_rules(rules));
  return resolved;
}

}  // namespace glovebox::host
