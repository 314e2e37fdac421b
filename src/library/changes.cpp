#include "library/changes.h"

#include "base/result.h"
#include "base/strict_json.h"

#include <boost/algorithm/hex.hpp>
#include <boost/json.hpp>

namespace glovebox::library {
namespace {

namespace json = boost::json;

// Exact bytes where the path is no plain text.
std::string path_of(const json::object& change) {
  const json::value* hex = change.if_contains("path_hex");
  if (hex == nullptr) return std::string(change.at("path").as_string());
  return boost::algorithm::unhex(std::string(hex->as_string()));
}

}  // namespace

Result<std::vector<Change>> read_changes(std::string_view text) {
  try {
    TRY(const json::value document, parse_strict_json(text, kAnyLength));
    std::vector<Change> changes;
    for (const json::value& change : document.at("changes").as_array()) {
      changes.push_back({path_of(change.as_object()), std::string(change.at("kind").as_string())});
    }
    return changes;
  } catch (const std::exception& problem) {
    return fail(Code::Os, "the list of changes cannot be read: {}", problem.what());
  }
}

}  // namespace glovebox::library
