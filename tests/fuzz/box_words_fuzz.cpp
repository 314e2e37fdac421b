// What a box says beside the frames of its agent, and what is read back from a file: the state of
// its shell, messages of its interpreter, questions for names, tar archives, snapshots, sets of
// capabilities. The first byte chooses. None may crash, and what is understood means the same when
// it is written down and read again.
//
//   ./glovebox_box_words_fuzz -max_total_time=300 FOUND tests/fuzz/corpus/box_words
#include "authority/json_codec.h"
#include "base/tar.h"
#include "egress/dns/dns_message.h"
#include "python/channel/python_message.h"
#include "session/state/shell_state.h"
#include "session/state/snapshot.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <span>
#include <string>
#include <string_view>

namespace {

using namespace glovebox;

void check(bool holds) {
  if (!holds) std::abort();
}

void read_shell(std::string_view text) {
  const auto state = session::parse_shell_state(text);
  if (!state) return;
  std::size_t total = 0;
  for (const plan::EnvEntry& entry : state->env) {
    check(!entry.name.empty() && entry.name.find('=') == std::string::npos);
    total += entry.name.size() + entry.value.size();
  }
  check(total <= session::kMaxShellBytes);
}

void read_python(std::string_view text) {
  for (const auto form :
       {session::PythonMessage::Form::Text, session::PythonMessage::Form::Binary}) {
    session::PythonMessage message;
    message.form = form;
    message.bytes = text;
    const auto head = session::read_head(message);
    if (!head || form == session::PythonMessage::Form::Binary) continue;
    const auto again = session::read_head(session::text_message(head->members));
    check(again && again->members == head->members);
  }
  session::PythonFrameReader frames;
  frames.feed(text);
  while (true) {
    const auto frame = frames.next();
    if (!frame || !*frame) break;
  }
}

void read_question(std::string_view text) {
  const auto bytes = std::as_bytes(std::span(text));
  const egress::ReadQuestion read = egress::read_question(bytes);
  if (!read.question) return;
  egress::Answer answer;
  answer.ttl_seconds = 1;
  const auto reply = egress::encode_answer(*read.question, answer, egress::kMaxDatagram);
  check(reply.size() <= egress::kMaxDatagram && reply.size() >= 12);
}

void read_tar(std::string_view text) {
  TarBlock block{};
  std::memcpy(block.data(), text.data(), std::min(text.size(), block.size()));
  (void)parse_tar_header(block);
  TarOverrides overrides;
  (void)parse_pax(text, overrides);
  const auto path = clean_member_path(text);
  if (!path) return;
  check(!path->starts_with('/') && *path != ".." && !path->starts_with("../"));
  check(path->find("/../") == std::string::npos && !path->ends_with("/.."));
}

void read_snapshot(std::string_view text) {
  const auto snapshot = session::decode_snapshot(text);
  if (!snapshot) return;
  const auto written = session::encode_snapshot(*snapshot);
  if (!written) return;
  const auto again = session::decode_snapshot(*written);
  check(again && *again == *snapshot);
}

void read_capabilities(std::string_view text) {
  if (const auto one = authority::decode_capability(text)) {
    const auto again = authority::decode_capability(authority::encode_capability(*one));
    check(again && *again == *one);
  }
  const auto set = authority::decode_set(text);
  if (!set) return;
  const auto written = authority::encode_set(*set);
  if (!written) return;
  const auto again = authority::decode_set(*written);
  check(again && *authority::encode_set(*again) == *written);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string_view rest(reinterpret_cast<const char*>(data) + 1, size - 1);
  switch (data[0] % 6) {
    case 0: read_shell(rest); break;
    case 1: read_python(rest); break;
    case 2: read_question(rest); break;
    case 3: read_tar(rest); break;
    case 4: read_snapshot(rest); break;
    default: read_capabilities(rest); break;
  }
  return 0;
}
