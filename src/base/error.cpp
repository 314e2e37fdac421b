#include "base/result.h"

#include <cstring>

namespace glovebox {

std::string_view to_text(Code code) {
  switch (code) {
    case Code::Invalid: return "invalid";
    case Code::Denied: return "denied";
    case Code::Unsupported: return "unsupported";
    case Code::NotFound: return "not_found";
    case Code::Exhausted: return "exhausted";
    case Code::Os: return "os";
  }
  return "unknown";
}

std::string errno_text(int os_errno) {
  const char* name = strerrorname_np(os_errno);
  const char* words = strerrordesc_np(os_errno);
  if (name == nullptr || words == nullptr) return fmt::format("error {}", os_errno);
  return fmt::format("{} ({})", words, name);
}

tl::unexpected<Error> fail_os_text(int os_errno, std::string act) {
  return tl::unexpected<Error>(
      Error{Code::Os, os_errno, fmt::format("{}: {}", act, errno_text(os_errno))});
}

void throw_bug(const char* file, int line, const char* condition) {
  throw Bug{fmt::format("{}:{}: broken invariant: {}", file, line, condition)};
}

}  // namespace glovebox
