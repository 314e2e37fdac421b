// How failure travels out of the library: Result<T> and Error.
//
// A function that can fail returns a Result. The error says what was tried, on what, and (where
// there is one) the remedy, so that code that prints it need not add anything.
#pragma once

#include <tl/expected.hpp>

#include <string>
#include <string_view>
#include <utility>

#define GLOVEBOX_API __attribute__((visibility("default")))

namespace glovebox {

// Closed on purpose: every face maps these to its own status in one table.
enum class Code {
  Invalid,      // the request is malformed
  Denied,       // the request is understood and not allowed
  Unsupported,  // this host or build cannot do it, so it is refused rather than weakened
  NotFound,     // what the request names is not there
  Exhausted,    // a bound was reached
  Os,           // a system call, a disk or a peer failed
};

struct Error {
  Code code = Code::Os;
  int os_errno = 0;  // set with Code::Os
  std::string message;

  friend bool operator==(const Error&, const Error&) = default;
};

// "invalid", "denied", ...
GLOVEBOX_API std::string_view to_text(Code code);

// A tl::expected that must be looked at: g++ and clang warn when one is dropped.
template <class T, class E = Error>
class [[nodiscard]] Result : public tl::expected<T, E> {
 public:
  using tl::expected<T, E>::expected;
  Result(tl::expected<T, E> other) : tl::expected<T, E>(std::move(other)) {}
};

}  // namespace glovebox
