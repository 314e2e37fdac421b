// A filter around the product itself, as a container or a tracer has one.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace glovebox::test {

// A call that is answered with 0 and not made; with an argument, only when that is the first.
struct AnsweredCall {
  int number;
  std::optional<std::uint32_t> first_argument{};
};

// For this process and all it starts: the refused calls do not exist, the answered ones do nothing.
// False with errno set.
bool install_outer_filter(const std::vector<int>& refused,
                          const std::vector<AnsweredCall>& answered);

}  // namespace glovebox::test
