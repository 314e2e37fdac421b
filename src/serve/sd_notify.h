// Tells systemd how the service does, over the socket that it names.
#pragma once

#include "base/result.h"

#include <string_view>

namespace glovebox::serve {

// Sends "READY=1" and the like to $NOTIFY_SOCKET. Nothing happens without the variable.
Result<void> notify_manager(std::string_view state);

}  // namespace glovebox::serve
