#include "python/channel/python_head.h"

namespace glovebox::session {

namespace json = boost::json;

std::string text_of(const json::object& object, std::string_view key) {
  const json::value* found = object.if_contains(json::string_view(key.data(), key.size()));
  return found != nullptr && found->is_string() ? std::string(found->as_string()) : std::string();
}

std::optional<std::uint64_t> id_of(const json::object& object) {
  const json::value* found = object.if_contains("id");
  if (found == nullptr || !found->is_number()) return std::nullopt;
  json::error_code problem;
  const auto id = found->to_number<std::uint64_t>(problem);
  if (problem || id > kMaxId) return std::nullopt;
  return id;
}

}  // namespace glovebox::session
