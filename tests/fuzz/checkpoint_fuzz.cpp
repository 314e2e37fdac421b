// Bytes that are taken for a checkpoint: as a file, and as the inside of one that was sealed with
// the right key.
#include "fuzz/checkpoint_properties.h"

#include <cstdint>
#include <cstdlib>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace glovebox::checkpoint;
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  if (!broken_property(bytes).empty()) std::abort();
  if (!broken_property(sealed(bytes)).empty()) std::abort();
  return 0;
}
