// The edges at which a client's bytes come in: multipart bodies, JSON orders, ranges, queries, and
// what becomes of a run's output. None may crash, and a multipart body means the same in whatever
// pieces it comes.
//
//   ./glovebox_http_fuzz -max_total_time=300 FOUND tests/fuzz/corpus/http
#include "http/url.h"
#include "serve/bodies/create_body.h"
#include "serve/bodies/file_paths.h"
#include "serve/bodies/file_ranges.h"
#include "serve/bodies/multipart.h"
#include "serve/sse.h"

#include <boost/json/parse.hpp>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

namespace {

using namespace glovebox;
using namespace glovebox::serve;

// Everything that a body says, as one text; "!" at the end when it was refused.
std::string read_body(std::string_view bytes, std::size_t step) {
  MultipartReader reader("b");
  std::string told;
  for (;;) {
    auto event = reader.next();
    if (!event) return told + "!";
    if (const auto* begin = std::get_if<PartBegin>(&*event)) {
      told += "<" + begin->name + "|" + begin->filename.value_or("-") + ">";
    } else if (const auto* data = std::get_if<PartData>(&*event)) {
      told += data->bytes;
    } else if (std::holds_alternative<PartEnd>(*event)) {
      told += "</>";
    } else if (std::holds_alternative<BodyEnd>(*event)) {
      return told;
    } else {
      if (bytes.empty()) reader.end_input();
      reader.feed(bytes.substr(0, step));
      bytes.remove_prefix(std::min(step, bytes.size()));
    }
  }
}

void check_events(std::string_view bytes) {
  EventWriter writer(EventForm::Lines);
  writer.add(guest::Stream::Output, bytes);
  writer.complete();
  std::string_view sent = writer.pending();
  while (!sent.empty()) {
    const std::size_t end = sent.find("\n\n");
    boost::system::error_code problem;
    (void)boost::json::parse(sent.substr(0, end), problem);
    if (end == std::string_view::npos || problem) std::abort();
    sent.remove_prefix(end + 2);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const std::string whole = read_body(bytes, size + 1);
  // A refusal may come earlier in small pieces, but never with other parts before it.
  const std::string pieces = read_body(bytes, 3);
  if (whole.ends_with('!') != pieces.ends_with('!')) std::abort();
  if (!whole.ends_with('!') && whole != pieces) std::abort();
  (void)multipart_boundary(bytes);
  (void)parse_range(bytes, 1'000);
  (void)parse_query(bytes);
  (void)normal_path(bytes);
  check_events(bytes);
  if (const auto body = parse_json(bytes, 32)) (void)read_create_order(*body, Unknown::Refuse);
  return 0;
}
