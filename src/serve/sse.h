// What a run prints, as a stream of events.
//
// Two forms. Lines: one JSON object for each line of output, followed by two line feeds and without
// any field name, as the published clients of this API read it; empty lines are left out. Standard:
// `id:`, `event:` and `data:` fields as browsers read them, with the output as it comes, in pieces.
//
// Output is the box's and hostile: whatever bytes come, an event is one line of valid JSON.
#pragma once

#include "guest/protocol/protocol.h"

#include <cstdint>
#include <string>
#include <string_view>

namespace glovebox::serve {

enum class EventForm : std::uint8_t { Lines, Standard };

// A longer line becomes several events. Clients stop reading at a few MiB.
inline constexpr std::size_t kLongestLine = 512 << 10;

class EventWriter {
 public:
  explicit EventWriter(EventForm form) : form_(form) {}

  // Turns output into events; what is not a whole line yet is kept.
  void add(guest::Stream stream, std::string_view bytes);
  // The last lines, even without their line feed.
  void flush();
  void complete();
  // The first event of a stream that can be resumed: which run it is.
  void init(std::string_view run);
  // `evalue` is what clients take for the exit code if it is a number.
  void error(std::string_view text, std::string_view ename, std::string_view evalue);

  // Events that wait to be sent. The caller sends and clears it.
  std::string& pending() { return pending_; }

 private:
  void line(std::string_view type, std::string_view text);
  void piece(std::string_view type, std::string& rest, std::string_view bytes);
  void begin(std::string_view type);
  void end();
  void set_time();
  void take_lines(std::string_view type, std::string& rest, std::string_view bytes);

  EventForm form_;
  std::string pending_;
  std::string time_text_;
  std::string rest_of_output_;
  std::string rest_of_error_;
  std::uint64_t next_id_ = 1;
};

// Appends `text` as the inside of a JSON string. What is no UTF-8 becomes U+FFFD.
void append_json_text(std::string& out, std::string_view text);

}  // namespace glovebox::serve
