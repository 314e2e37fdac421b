#include "base/strict_json.h"

#include "base/plain_text.h"

#include <boost/json/basic_parser_impl.hpp>

#include <limits>
#include <utility>
#include <vector>

namespace glovebox {
namespace {

namespace json = boost::json;

// Boost's own value parser keeps the last of two equal keys, so a first pass looks for them. The
// names and signatures of the members are those basic_parser calls.
class DoubleKeyFinder {
 public:
  static constexpr std::size_t max_object_size = std::numeric_limits<std::size_t>::max();
  static constexpr std::size_t max_array_size = std::numeric_limits<std::size_t>::max();
  static constexpr std::size_t max_key_size = std::numeric_limits<std::size_t>::max();
  static constexpr std::size_t max_string_size = std::numeric_limits<std::size_t>::max();

  const std::optional<std::string>& double_key() const { return double_key_; }

  bool on_object_begin(json::error_code&) {
    open_objects_.emplace_back();
    return true;
  }
  bool on_object_end(std::size_t, json::error_code&) {
    open_objects_.pop_back();
    return true;
  }
  bool on_key_part(json::string_view part, std::size_t, json::error_code&) {
    key_.append(part.data(), part.size());
    return true;
  }
  bool on_key(json::string_view part, std::size_t, json::error_code&) {
    key_.append(part.data(), part.size());
    if (!open_objects_.back().insert(key_).second && !double_key_) double_key_ = key_;
    key_.clear();
    return true;
  }

  bool on_document_begin(json::error_code&) { return true; }
  bool on_document_end(json::error_code&) { return true; }
  bool on_array_begin(json::error_code&) { return true; }
  bool on_array_end(std::size_t, json::error_code&) { return true; }
  bool on_string_part(json::string_view, std::size_t, json::error_code&) { return true; }
  bool on_string(json::string_view, std::size_t, json::error_code&) { return true; }
  bool on_number_part(json::string_view, json::error_code&) { return true; }
  bool on_int64(std::int64_t, json::string_view, json::error_code&) { return true; }
  bool on_uint64(std::uint64_t, json::string_view, json::error_code&) { return true; }
  bool on_double(double, json::string_view, json::error_code&) { return true; }
  bool on_bool(bool, json::error_code&) { return true; }
  bool on_null(json::error_code&) { return true; }
  bool on_comment_part(json::string_view, json::error_code&) { return true; }
  bool on_comment(json::string_view, json::error_code&) { return true; }

 private:
  std::string key_;
  std::vector<std::set<std::string>> open_objects_;
  std::optional<std::string> double_key_;
};

Result<void> refuse_double_keys(std::string_view text, const json::parse_options& options) {
  json::basic_parser<DoubleKeyFinder> parser(options);
  json::error_code error;
  parser.write_some(/*more=*/false, text.data(), text.size(), error);
  if (error == json::error::too_deep) {
    return fail(Code::Invalid, "JSON: nested deeper than {} levels", options.max_depth);
  }
  if (error) return fail(Code::Invalid, "JSON: {}", error.message());
  const auto& key = parser.handler().double_key();
  if (key) return fail(Code::Invalid, "JSON: an object has the key {} twice", quoted(*key));
  return {};
}

std::string_view view(const json::string& text) { return {text.data(), text.size()}; }

}  // namespace

Result<json::value> parse_strict_json(std::string_view text, JsonBounds bounds) {
  if (text.size() > bounds.max_bytes) {
    return fail(Code::Exhausted, "JSON: {} bytes, at most {} are read", text.size(),
                bounds.max_bytes);
  }
  json::parse_options options;
  options.max_depth = bounds.max_depth;
  options.allow_comments = bounds.form == JsonForm::WithComments;
  options.allow_trailing_commas = bounds.form == JsonForm::WithComments;
  TRY_VOID(refuse_double_keys(text, options));
  json::error_code error;
  json::value value = json::parse(json::string_view(text.data(), text.size()), error, {}, options);
  if (error) return fail(Code::Invalid, "JSON: {}", error.message());
  return value;
}

Result<JsonFields> JsonFields::of(const json::value& value, std::string what) {
  const json::object* object = value.if_object();
  if (object == nullptr) return fail(Code::Invalid, "{}: must be an object", what);
  return JsonFields(*object, std::move(what));
}

const json::value* JsonFields::find(std::string_view name) {
  asked_for_.insert(name);
  return object_->if_contains(json::string_view(name.data(), name.size()));
}

Result<const json::value*> JsonFields::required(std::string_view name) {
  const json::value* value = find(name);
  if (value == nullptr) return fail(Code::Invalid, "{}: '{}' is missing", what_, name);
  return value;
}

Result<std::string_view> JsonFields::text(std::string_view name) {
  TRY(const json::value* value, required(name));
  return json_text(*value, fmt::format("{}: '{}'", what_, name));
}

Result<std::uint64_t> JsonFields::integer(std::string_view name) {
  TRY(const json::value* value, required(name));
  return json_integer(*value, fmt::format("{}: '{}'", what_, name));
}

Result<const json::array*> JsonFields::array(std::string_view name) {
  TRY(const json::value* value, required(name));
  const json::array* array = value->if_array();
  if (array == nullptr) return fail(Code::Invalid, "{}: '{}' must be a list", what_, name);
  return array;
}

Result<const json::object*> JsonFields::object(std::string_view name) {
  TRY(const json::value* value, required(name));
  const json::object* object = value->if_object();
  if (object == nullptr) return fail(Code::Invalid, "{}: '{}' must be an object", what_, name);
  return object;
}

Result<bool> JsonFields::boolean(std::string_view name) {
  TRY(const json::value* value, required(name));
  const bool* boolean = value->if_bool();
  if (boolean == nullptr) return fail(Code::Invalid, "{}: '{}' must be a boolean", what_, name);
  return *boolean;
}

Result<void> JsonFields::finish() const {
  for (const json::key_value_pair& field : *object_) {
    const std::string_view name(field.key().data(), field.key().size());
    if (!asked_for_.contains(name)) {
      return fail(Code::Invalid, "{}: unknown field {}", what_, quoted(name));
    }
  }
  return {};
}

Result<std::string_view> json_text(const json::value& value, std::string_view what) {
  const json::string* text = value.if_string();
  if (text == nullptr) return fail(Code::Invalid, "{} must be a string", what);
  return view(*text);
}

Result<std::uint64_t> json_integer(const json::value& value, std::string_view what) {
  if (const std::uint64_t* large = value.if_uint64()) return *large;
  const std::int64_t* number = value.if_int64();
  if (number == nullptr || *number < 0) {
    return fail(Code::Invalid, "{} must be a whole number, not negative", what);
  }
  return static_cast<std::uint64_t>(*number);
}

}  // namespace glovebox
