// A service from its start to its end.
#pragma once

#include "base/result.h"
#include "serve/config.h"

#include <string>
#include <vector>

namespace glovebox::serve {

struct ServiceSetup {
  Config config;
  std::string launcher;                // the program glovebox-launcher
  std::vector<std::string> own_files;  // settings and the like, which no box may see
};

// What can be said about settings without starting: addresses, tokens, ceilings, policies.
Result<void> check_setup(const ServiceSetup& setup);

// Serves until SIGTERM or SIGINT, then drains. SIGHUP loads the policies again. Returns when
// everything has ended, or with the reason why it could not begin.
Result<void> run_service(const ServiceSetup& setup);

}  // namespace glovebox::serve
