// How failure travels: Result<T>, Error and the TRY macros.
//
// A function that can fail returns Result<T>. The error says what was tried, on what, and (where
// there is one) the remedy, so that whoever prints it need not add anything. A function that
// returns an error does not log it.
#pragma once

#include <fmt/format.h>
#include <tl/expected.hpp>

#include <string>
#include <utility>

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

std::string_view to_text(Code code);

// A tl::expected that must be looked at: g++ and clang warn when one is dropped.
template <class T, class E = Error>
class [[nodiscard]] Result : public tl::expected<T, E> {
 public:
  using tl::expected<T, E>::expected;
  Result(tl::expected<T, E> other) : tl::expected<T, E>(std::move(other)) {}
};

using tl::unexpected;

// fail(Code::Invalid, "{}: not an absolute path", path)
template <class... Args>
tl::unexpected<Error> fail(Code code, fmt::format_string<Args...> text, Args&&... args) {
  return tl::unexpected<Error>(Error{code, 0, fmt::format(text, std::forward<Args>(args)...)});
}

// fail_os(ENOENT, "open {}", path) reads "open /x: No such file or directory (ENOENT)".
tl::unexpected<Error> fail_os_text(int os_errno, std::string act);
template <class... Args>
tl::unexpected<Error> fail_os(int os_errno, fmt::format_string<Args...> act, Args&&... args) {
  return fail_os_text(os_errno, fmt::format(act, std::forward<Args>(args)...));
}

// "No such file or directory (ENOENT)".
std::string errno_text(int os_errno);

// A broken invariant of ours. Caught where a session ends and in main, nowhere else.
struct Bug {
  std::string message;
};
[[noreturn]] void throw_bug(const char* file, int line, const char* condition);

}  // namespace glovebox

#define GLOVEBOX_CHECK(condition)                                            \
  do {                                                                       \
    if (!(condition)) ::glovebox::throw_bug(__FILE__, __LINE__, #condition); \
  } while (false)

#define GLOVEBOX_CAT_(a, b) a##b
#define GLOVEBOX_CAT(a, b) GLOVEBOX_CAT_(a, b)
#define GLOVEBOX_TRY_(holder, give_up, lhs, ...)                    \
  auto holder = (__VA_ARGS__);                                      \
  if (!holder) give_up ::tl::unexpected(std::move(holder).error()); \
  lhs = *std::move(holder)

// TRY(UniqueFd fd, open_file(path)); returns the error from the enclosing function.
#define TRY(lhs, ...) GLOVEBOX_TRY_(GLOVEBOX_CAT(try_, __COUNTER__), return, lhs, __VA_ARGS__)
// TRY_VOID(seal(fd)); for a Result<void>.
#define TRY_VOID(...)                                                                \
  do {                                                                               \
    auto glovebox_tried = (__VA_ARGS__);                                             \
    if (!glovebox_tried) return ::tl::unexpected(std::move(glovebox_tried).error()); \
  } while (false)
