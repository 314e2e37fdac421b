// The JSON reader of the product.
//
// Refused besides bad syntax: text over the bound, nesting over the bound, and an object that has
// the same key twice. Parsers disagree on which of two counts, so a document with both would mean
// one thing to a reviewer's tool and another to us.
#pragma once

#include "base/result.h"

#include <boost/json.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>

namespace glovebox {

enum class JsonForm : std::uint8_t {
  Plain,
  WithComments,  // and with commas at the end of a list, as editors write their settings
};

struct JsonBounds {
  std::size_t max_bytes = std::size_t{4} << 20;
  std::size_t max_depth = 8;
  JsonForm form = JsonForm::Plain;
};
// For text whose length was bounded where it was received or written.
inline constexpr JsonBounds kAnyLength{.max_bytes = SIZE_MAX, .max_depth = 32};

Result<boost::json::value> parse_strict_json(std::string_view text, JsonBounds bounds = {});

// Reads the fields of one object by name and type, and refuses those that were not asked for.
//
//   TRY(JsonFields fields, JsonFields::of(value, "rule"));
//   TRY(std::string_view path, fields.text("path"));
//   TRY_VOID(fields.finish());
//
// The object must outlive the reader. Every message starts with `what`.
class JsonFields {
 public:
  static Result<JsonFields> of(const boost::json::value& value, std::string what);

  // A field that must be there and have the type. Integers are exact: 443.0 is none.
  Result<std::string_view> text(std::string_view name);
  Result<std::uint64_t> integer(std::string_view name);
  Result<const boost::json::array*> array(std::string_view name);
  Result<const boost::json::object*> object(std::string_view name);
  Result<bool> boolean(std::string_view name);

  // A field that may be absent.
  const boost::json::value* find(std::string_view name);

  Result<void> finish() const;

 private:
  JsonFields(const boost::json::object& object, std::string what)
      : object_(&object), what_(std::move(what)) {}

  Result<const boost::json::value*> required(std::string_view name);

  const boost::json::object* object_;
  std::string what_;
  std::set<std::string_view> asked_for_;
};

// A value that must be a string or an integer, for the elements of arrays.
Result<std::string_view> json_text(const boost::json::value& value, std::string_view what);
Result<std::uint64_t> json_integer(const boost::json::value& value, std::string_view what);

}  // namespace glovebox
