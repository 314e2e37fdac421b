// How failure travels: Result<T> and Error, which are the library's own (glovebox/error.h), ways to
// make them, and the TRY macros. A function that returns an error does not log it.
#pragma once

#include "glovebox/error.h"

#include <fmt/format.h>

#include <string>
#include <utility>

namespace glovebox {

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
