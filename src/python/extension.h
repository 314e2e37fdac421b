// The Python host's extension module as bytes: a shared object that the command carries.
#pragma once

#include <string_view>

namespace glovebox::guest {

std::string_view python_extension();

}  // namespace glovebox::guest
