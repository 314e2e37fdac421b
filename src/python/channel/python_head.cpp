#include "python/channel/python_head.h"

namespace glovebox::session {

namespace json = boost::json;

std::string text_at(const json::object& object, std::string_view key) {
  const json::value* found = object.if_contains(json::string_view(key.data(), key.size()));
  return found != nullptr && found->is_string() ? std::string(found->as_string()) : std::string();
}

std::optional<std::int64_t> number_at(const json::object& object, std::string_view key) {
  const json::value* found = object.if_contains(json::string_view(key.data(), key.size()));
  if (found == nullptr || !found->is_number()) return std::nullopt;
  json::error_code problem;
  const auto number = found->to_number<std::int64_t>(problem);
  if (problem) return std::nullopt;
  return number;
}

std::optional<std::uint64_t> id_of(const json::object& object) {
  const auto id = number_at(object, "id");
  if (!id || *id < 0 || static_cast<std::uint64_t>(*id) > kMaxId) return std::nullopt;
  return static_cast<std::uint64_t>(*id);
}

}  // namespace glovebox::session
