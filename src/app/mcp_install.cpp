#include "app/mcp_install.h"

namespace glovebox::app {

Result<void> install_mcp(const InstallRequest& /*request*/) {
  return fail(Code::Unsupported, "mcp install is not in this build");
}

}  // namespace glovebox::app
