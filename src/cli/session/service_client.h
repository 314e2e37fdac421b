// Which service the command line talks to, and how one comes to be there.
#pragma once

#include "base/result.h"
#include "client/http_client.h"

#include <string>

namespace glovebox::app {

// $GLOVEBOX_HOST, with the token in $GLOVEBOX_TOKEN or in the file that $GLOVEBOX_TOKEN_FILE names;
// else the caller's own service, on a socket in the state directory (layers.h).
Result<ServiceAddress> service_address();

enum class IfMissing { Fail, Start };

// Connects. The caller's own service is started when it is not there and `missing` says so: it
// lives on in the background and ends itself some seconds after its last session.
Result<HttpClient> open_service(IfMissing missing);

}  // namespace glovebox::app
