#include "http/router.h"

#include "http/url.h"

#include <array>
#include <optional>

namespace glovebox::serve {
namespace {

std::vector<std::string_view> split(std::string_view path) {
  std::vector<std::string_view> segments;
  while (!path.empty()) {
    path.remove_prefix(1);  // the slash
    const std::size_t end = path.find('/');
    segments.push_back(path.substr(0, end));
    path = end == std::string_view::npos ? std::string_view() : path.substr(end);
  }
  return segments;
}

bool is_name(std::string_view segment) { return segment.starts_with('{'); }

std::optional<std::vector<std::string>> match(const std::vector<std::string_view>& pattern,
                                              const std::vector<std::string_view>& path) {
  if (pattern.size() != path.size()) return std::nullopt;
  for (std::size_t i = 0; i < path.size(); ++i) {
    if (!is_name(pattern[i]) && pattern[i] != path[i]) return std::nullopt;
  }
  std::vector<std::string> parts;
  for (std::size_t i = 0; i < path.size(); ++i) {
    if (!is_name(pattern[i])) continue;
    auto decoded = percent_decode(path[i], Plus::IsItself);
    if (!decoded || decoded->empty()) return std::nullopt;
    parts.push_back(*std::move(decoded));
  }
  return parts;
}

}  // namespace

std::string_view to_text(Scope scope) {
  constexpr std::array<std::string_view, 3> kNames = {"read", "create", "admin"};
  return kNames.at(static_cast<std::size_t>(scope));
}

Router::Router(std::span<const Route> routes) {
  for (const Route& route : routes) entries_.push_back({&route, split(route.pattern)});
}

Router::Match Router::find(Method method, std::string_view path) const {
  Match result;
  if (!path.starts_with('/')) return result;
  const std::vector<std::string_view> segments = split(path);
  for (const Entry& entry : entries_) {
    auto parts = match(entry.segments, segments);
    if (!parts) continue;
    if (entry.route->method == method) {
      result.route = entry.route;
      result.parts = *std::move(parts);
      return result;
    }
    if (!result.allowed.empty()) result.allowed += ", ";
    result.allowed += to_text(entry.route->method);
  }
  return result;
}

}  // namespace glovebox::serve
