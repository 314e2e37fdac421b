// What of ioctl(2) and prctl(2) every box has. Each is hundreds of interfaces behind one number, so
// the filter knows the requests by name and refuses the others: with ENOTTY and EINVAL, which is
// what a file or a kernel says that does not know a request.
#pragma once

#include <cstdint>
#include <span>

namespace glovebox::plan {

std::span<const std::uint64_t> allowed_ioctls();
std::span<const std::uint64_t> refused_ioctls();  // EPERM, whatever is granted
std::span<const std::uint64_t> allowed_prctls();
std::span<const std::uint64_t> refused_prctls();  // EPERM, whatever is granted

}  // namespace glovebox::plan
