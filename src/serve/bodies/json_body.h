// Reading JSON bodies: bounded, typed, and saying what is wrong with all of it.
#pragma once

#include "http/message.h"

#include <boost/json/value.hpp>

#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace glovebox::serve {

// 400 INVALID_REQUEST_BODY for what is no JSON, is nested deeper than `depth`, or has a key twice.
Result<boost::json::value, ApiError> parse_json(std::string_view text, std::size_t depth);

// What to do with a member that was not asked for.
enum class Unknown : std::uint8_t { Refuse, Ignore };

// Collects what is wrong, so that a client learns all of it at once.
class BodyProblems {
 public:
  template <class... Args>
  void add(fmt::format_string<Args...> text, Args&&... args) {
    if (!text_.empty()) text_ += "; ";
    text_ += fmt::format(text, std::forward<Args>(args)...);
  }
  bool any() const { return !text_.empty(); }
  Result<void, ApiError> check() const;

 private:
  std::string text_;
};

// Takes members of an object. null stands for a member that is not there.
class ObjectReader {
 public:
  // `where` is what problems call it: "" for the body itself, "workspace.".
  ObjectReader(const boost::json::value& value, std::string where, BodyProblems& problems,
               Unknown unknown);
  ~ObjectReader();
  ObjectReader(const ObjectReader&) = delete;
  ObjectReader& operator=(const ObjectReader&) = delete;

  const boost::json::value* find(std::string_view name);
  std::optional<std::string> text(std::string_view name);
  std::optional<bool> flag(std::string_view name);
  std::optional<std::int64_t> number(std::string_view name, std::int64_t least, std::int64_t most);
  std::vector<std::string> texts(std::string_view name);
  // Pairs of names and texts.
  std::vector<Field> text_map(std::string_view name);
  void each(std::string_view name,
            const std::function<void(const boost::json::value&, const std::string&)>& take);

  // For a value that was found and is not what it should be.
  void wrong(std::string_view name, std::string_view wanted);

  const std::string& where() const { return where_; }

 private:
  const boost::json::object* object_ = nullptr;
  std::string where_;
  BodyProblems& problems_;
  Unknown unknown_;
  std::set<std::string, std::less<>> known_;
};

}  // namespace glovebox::serve
