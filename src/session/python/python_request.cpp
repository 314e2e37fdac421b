#include "session/python/python_request.h"

namespace glovebox::session {

namespace json = boost::json;

std::string BrokerRequest::data(std::string_view key) const {
  const json::value* found = payload.if_contains(json::string_view(key.data(), key.size()));
  if (found == nullptr || !found->is_object()) return text_at(payload, key);
  const json::value* place = found->as_object().if_contains("$bytes");
  if (place == nullptr) return "";
  // The message was checked: the place is within the bytes.
  const auto offset = place->as_array().at(0).to_number<std::size_t>();
  const auto size = place->as_array().at(1).to_number<std::size_t>();
  return std::string(blobs.substr(offset, size));
}

json::object bytes_value(std::size_t size) {
  return {{"value", json::object{{"$bytes", json::array{0, size}}}}};
}

Result<void> check_granted(const PythonPlan& plan, const authority::Capability& use,
                           std::string_view name) {
  if (plan.authority.decide(use).effect == authority::Effect::Allow) return {};
  return fail(Code::Denied, "{}", name);
}

}  // namespace glovebox::session
