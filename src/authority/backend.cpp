#include "authority/backend.h"

#include <algorithm>

namespace glovebox {

std::string_view to_text(Backend backend) {
  return kBackendNames.at(static_cast<std::size_t>(backend));
}

Result<Backend> parse_backend(std::string_view text) {
  const auto found = std::ranges::find(kBackendNames, text);
  if (found == kBackendNames.end()) {
    return fail(Code::Invalid, "'{}' is not a backend: process, cell or microvm", text);
  }
  return static_cast<Backend>(found - kBackendNames.begin());
}

}  // namespace glovebox
