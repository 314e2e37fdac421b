// Both decoders of the agent's protocol, on any bytes. A frame that decodes must be canonical: it
// encodes to the bytes it came from.
//
//   ./glovebox_agent_protocol_fuzz -max_total_time=300 FOUND tests/fuzz/corpus/agent_protocol
#include "guest/protocol/entry.h"
#include "guest/protocol/protocol.h"

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  using namespace glovebox::guest;
  if (const auto request = decode_request(bytes); request && *encode(*request) != bytes) {
    std::abort();
  }
  if (const auto reply = decode_reply(bytes); reply && *encode(*reply) != bytes) std::abort();
  (void)frame_size(bytes);
  std::string_view rest = bytes;
  while (true) {
    const auto entry = take_entry(rest);
    if (!entry || !*entry) break;
  }
  return 0;
}
