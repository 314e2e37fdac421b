// What a request does when what it needs is busy.
#pragma once

#include <cstdint>

namespace glovebox::session {

enum class WhenBusy : std::uint8_t {
  Wait,    // in the order of arrival
  Refuse,  // Code::Exhausted at once
};

}  // namespace glovebox::session
