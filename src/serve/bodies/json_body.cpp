#include "serve/bodies/json_body.h"

#include "base/strict_json.h"

namespace glovebox::serve {
namespace {

constexpr std::string_view kInvalidBody = "INVALID_REQUEST_BODY";

}  // namespace

Result<boost::json::value, ApiError> parse_json(std::string_view text, std::size_t depth) {
  // How long a body may be was decided when it was read.
  auto value = parse_strict_json(text, {.max_bytes = text.size(), .max_depth = depth});
  if (!value) return refuse(400, kInvalidBody, "the body is refused: {}", value.error().message);
  return *std::move(value);
}

Result<void, ApiError> BodyProblems::check() const {
  if (text_.empty()) return {};
  return refuse(400, kInvalidBody, "{}", text_);
}

ObjectReader::ObjectReader(const boost::json::value& value, std::string where,
                           BodyProblems& problems, Unknown unknown)
    : object_(value.if_object()), where_(std::move(where)), problems_(problems), unknown_(unknown) {
  if (object_ != nullptr) return;
  if (where_.empty()) {
    problems_.add("the body is a JSON object");
  } else {
    problems_.add("'{}' is an object", where_.substr(0, where_.size() - 1));
  }
}

ObjectReader::~ObjectReader() {
  if (object_ == nullptr || unknown_ == Unknown::Ignore) return;
  for (const auto& [name, value] : *object_) {
    const std::string_view key(name.data(), name.size());
    if (!known_.contains(key)) problems_.add("there is no field '{}{}'", where_, key);
  }
}

const boost::json::value* ObjectReader::find(std::string_view name) {
  known_.emplace(name);
  if (object_ == nullptr) return nullptr;
  const boost::json::value* value = object_->if_contains(name);
  return value == nullptr || value->is_null() ? nullptr : value;
}

void ObjectReader::wrong(std::string_view name, std::string_view wanted) {
  problems_.add("'{}{}' is {}", where_, name, wanted);
}

std::optional<std::string> ObjectReader::text(std::string_view name) {
  const boost::json::value* value = find(name);
  if (value == nullptr) return std::nullopt;
  const boost::json::string* string = value->if_string();
  if (string == nullptr) {
    wrong(name, "a text");
    return std::nullopt;
  }
  return std::string(string->data(), string->size());
}

std::optional<bool> ObjectReader::flag(std::string_view name) {
  const boost::json::value* value = find(name);
  if (value == nullptr) return std::nullopt;
  if (const bool* flag = value->if_bool()) return *flag;
  wrong(name, "true or false");
  return std::nullopt;
}

std::optional<std::int64_t> ObjectReader::number(std::string_view name, std::int64_t least,
                                                 std::int64_t most) {
  const boost::json::value* value = find(name);
  if (value == nullptr) return std::nullopt;
  boost::json::error_code no_number;
  const auto number = value->to_number<std::int64_t>(no_number);
  if (!no_number && number >= least && number <= most) return number;
  wrong(name, fmt::format("a whole number from {} to {}", least, most));
  return std::nullopt;
}

void ObjectReader::each(
    std::string_view name,
    const std::function<void(const boost::json::value&, const std::string&)>& take) {
  const boost::json::value* value = find(name);
  if (value == nullptr) return;
  const boost::json::array* array = value->if_array();
  if (array == nullptr) return wrong(name, "a list");
  for (std::size_t i = 0; i < array->size(); ++i) {
    take((*array)[i], fmt::format("{}{}[{}]", where_, name, i));
  }
}

std::vector<std::string> ObjectReader::texts(std::string_view name) {
  std::vector<std::string> values;
  each(name, [&](const boost::json::value& element, const std::string& where) {
    if (const boost::json::string* text = element.if_string()) {
      values.emplace_back(text->data(), text->size());
    } else {
      problems_.add("'{}' is a text", where);
    }
  });
  return values;
}

std::vector<Field> ObjectReader::text_map(std::string_view name) {
  std::vector<Field> values;
  const boost::json::value* value = find(name);
  if (value == nullptr) return values;
  const boost::json::object* object = value->if_object();
  if (object == nullptr) {
    wrong(name, "an object of texts");
    return values;
  }
  for (const auto& [key, element] : *object) {
    if (const boost::json::string* text = element.if_string()) {
      values.push_back({std::string(key), std::string(text->data(), text->size())});
    } else {
      problems_.add("'{}{}.{}' is a text", where_, name, std::string_view(key.data(), key.size()));
    }
  }
  return values;
}

}  // namespace glovebox::serve
