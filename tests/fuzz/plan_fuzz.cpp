// libFuzzer target for the plan decoder: clang++-19 -fsanitize=fuzzer,address.
#include "fuzz/plan_properties.h"

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

extern "C" std::size_t LLVMFuzzerMutate(std::uint8_t* data, std::size_t size, std::size_t max_size);

// A block with the wrong mark or length is refused at once, and nothing behind that check would
// ever be tried: most mutations get these three right again.
extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size,
                                               std::size_t max_size, unsigned seed) {
  using glovebox::plan::FlatHeader;
  const std::size_t mutated = LLVMFuzzerMutate(data, size, max_size);
  constexpr unsigned kLeftWrong = 16;  // one in so many
  if (mutated < sizeof(FlatHeader) || seed % kLeftWrong == 0) return mutated;
  FlatHeader header;
  std::memcpy(&header, data, sizeof(header));
  header.magic = glovebox::plan::kFlatMagic;
  header.version = glovebox::plan::kFlatVersion;
  header.size = static_cast<std::uint32_t>(mutated);
  std::memcpy(data, &header, sizeof(header));
  return mutated;
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string broken =
      glovebox::plan::broken_property(std::as_bytes(std::span<const std::uint8_t>(data, size)));
  if (!broken.empty()) {
    std::fprintf(stderr, "%s\n", broken.c_str());
    std::abort();
  }
  return 0;
}
