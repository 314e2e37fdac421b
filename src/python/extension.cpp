#include "python/extension.h"

#include <cstddef>

// The file is built before this one (CMakeLists.txt).
__asm__(
    ".pushsection .rodata\n"
    ".balign 16\n"
    "glovebox_python_extension_begin:\n"
    ".incbin \"" GLOVEBOX_PYTHON_EXTENSION
    "\"\n"
    "glovebox_python_extension_end:\n"
    ".byte 0\n"
    ".popsection\n");

extern "C" {
extern const char glovebox_python_extension_begin[];
extern const char glovebox_python_extension_end[];
}

namespace glovebox::guest {

std::string_view python_extension() {
  return {
      glovebox_python_extension_begin,
      static_cast<std::size_t>(glovebox_python_extension_end - glovebox_python_extension_begin)};
}

}  // namespace glovebox::guest
