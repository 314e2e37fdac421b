// schema/openapi.yaml, built into the program.
#pragma once

#include <string_view>

namespace glovebox::serve {

std::string_view openapi_document();

}  // namespace glovebox::serve
