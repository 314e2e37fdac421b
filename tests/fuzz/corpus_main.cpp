// Runs the entry point of a fuzzer on every file of a corpus: the fuzzer as a plain test.
//
//   corpus_main DIRECTORY LEAST     fails when there are fewer than LEAST files
#include "base/file.h"

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  int count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(argv[1])) {
    const auto text = glovebox::read_file(entry.path().string(), std::size_t{1} << 20);
    if (!text) return 1;
    std::printf("%s\n", entry.path().c_str());
    (void)std::fflush(stdout);  // the last name is the one that broke it
    (void)LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(text->data()), text->size());
    ++count;
  }
  return count < std::atoi(argv[2]) ? 1 : 0;
}
