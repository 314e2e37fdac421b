#include "serve/sse.h"

#include "base/utf8.h"
#include "http/date.h"

#include <fmt/format.h>

#include <cstdint>
#include <cstring>

namespace glovebox::serve {
namespace {

constexpr std::uint64_t kOnes = 0x0101010101010101;
constexpr std::uint64_t kHighBits = 0x8080808080808080;
constexpr std::size_t kWord = sizeof(std::uint64_t);

// Bytes that can be copied as they are.
constexpr bool is_plain(unsigned char c) { return c >= 0x20 && c < 0x80 && c != '"' && c != '\\'; }

// Zero only if eight bytes are plain. May be something else for a word that is fine.
std::uint64_t others_in(const char* bytes) {
  std::uint64_t word = 0;
  std::memcpy(&word, bytes, kWord);
  const auto has_zero = [](std::uint64_t value) { return (value - kOnes) & ~value & kHighBits; };
  const std::uint64_t below_space = (word - kOnes * 0x20) & ~word & kHighBits;
  return (word & kHighBits) | below_space | has_zero(word ^ (kOnes * '"')) |
         has_zero(word ^ (kOnes * '\\'));
}

// Where the first byte is that is not plain, from `start` on.
std::size_t end_of_plain(std::string_view text, std::size_t start) {
  std::size_t at = start;
  const char* const bytes = text.data();
  while (at + 4 * kWord <= text.size() &&
         (others_in(bytes + at) | others_in(bytes + at + kWord) |
          others_in(bytes + at + 2 * kWord) | others_in(bytes + at + 3 * kWord)) == 0) {
    at += 4 * kWord;
  }
  while (at + kWord <= text.size() && others_in(bytes + at) == 0) at += kWord;
  // The last word may begin in what was seen before.
  if (at - start >= kWord && text.size() - at < kWord &&
      others_in(bytes + text.size() - kWord) == 0) {
    return text.size();
  }
  while (at < text.size() && is_plain(static_cast<unsigned char>(text[at]))) ++at;
  return at;
}

unsigned char byte_at(std::string_view text, std::size_t i) {
  return static_cast<unsigned char>(text[i]);
}

void append_escape(std::string& out, unsigned char c) {
  switch (c) {
    case '"': out += "\\\""; return;
    case '\\': out += "\\\\"; return;
    case '\n': out += "\\n"; return;
    case '\r': out += "\\r"; return;
    case '\t': out += "\\t"; return;
    default: fmt::format_to(std::back_inserter(out), "\\u{:04x}", c);
  }
}

// Where `text` can be cut without cutting a character: the last start of one that is not whole.
std::size_t whole_characters(std::string_view text) {
  for (std::size_t back = 1; back <= 3 && back <= text.size(); ++back) {
    const unsigned char c = byte_at(text, text.size() - back);
    if (c < 0x80) break;
    if (c >= 0xC0) {
      const std::size_t length = c >= 0xF0 ? 4 : c >= 0xE0 ? 3 : 2;
      return back < length ? text.size() - back : text.size();
    }
  }
  return text.size();
}

std::string_view name_of(guest::Stream stream) {
  return stream == guest::Stream::Error ? "stderr" : "stdout";
}

}  // namespace

void append_json_text(std::string& out, std::string_view text) {
  std::size_t i = 0;
  while (i < text.size()) {
    const std::size_t end = end_of_plain(text, i);
    out.append(text, i, end - i);
    i = end;
    if (i == text.size()) break;
    const unsigned char c = byte_at(text, i);
    if (c < 0x80) {
      append_escape(out, c);
      ++i;
      continue;
    }
    const std::size_t length = utf8_length(text.substr(i));
    if (length == 0) {
      out += kReplacement;
      ++i;
    } else {
      out.append(text, i, length);
      i += length;
    }
  }
}

void EventWriter::begin(std::string_view type) {
  if (form_ == EventForm::Standard) {
    fmt::format_to(std::back_inserter(pending_), "id: {}\nevent: {}\ndata: ", next_id_, type);
  }
  ++next_id_;
  pending_ += "{\"type\":\"";
  pending_ += type;
  pending_ += '"';
}

// The time is that of the call that the caller made, and formatted once for all its events.
void EventWriter::end() { pending_ += time_text_; }

void EventWriter::set_time() { time_text_ = fmt::format(",\"timestamp\":{}", unix_milliseconds()); }

void EventWriter::line(std::string_view type, std::string_view text) {
  begin(type);
  pending_ += ",\"text\":\"";
  append_json_text(pending_, text);
  pending_ += '"';
  end();
  pending_ += "}\n\n";
}

void EventWriter::take_lines(std::string_view type, std::string& rest, std::string_view bytes) {
  // The same around every line: output comes by the hundred megabytes.
  const std::string head = fmt::format("{{\"type\":\"{}\",\"text\":\"", type);
  const std::string tail = fmt::format("\"{}}}\n\n", time_text_);
  const auto add_line = [&](std::string_view text) {
    pending_ += head;
    append_json_text(pending_, text);
    pending_ += tail;
  };
  while (!bytes.empty()) {
    const void* found = std::memchr(bytes.data(), '\n', bytes.size());
    const std::size_t length =
        found == nullptr ? bytes.size()
                         : static_cast<std::size_t>(static_cast<const char*>(found) - bytes.data());
    std::string_view text = bytes.substr(0, length);
    bytes.remove_prefix(found == nullptr ? length : length + 1);
    if (found == nullptr || !rest.empty()) {
      rest += text;
      text = rest;
    }
    if (found == nullptr) {
      if (rest.size() >= kLongestLine) {
        const std::size_t whole = whole_characters(rest);
        add_line(std::string_view(rest).substr(0, whole));
        rest.erase(0, whole);
      }
      return;
    }
    if (text.ends_with('\r')) text.remove_suffix(1);
    if (!text.empty()) add_line(text);
    rest.clear();
  }
}

void EventWriter::piece(std::string_view type, std::string& rest, std::string_view bytes) {
  rest += bytes;
  const std::size_t whole = whole_characters(rest);
  if (whole > 0) line(type, std::string_view(rest).substr(0, whole));
  rest.erase(0, whole);
}

void EventWriter::add(guest::Stream stream, std::string_view bytes) {
  std::string& rest = stream == guest::Stream::Error ? rest_of_error_ : rest_of_output_;
  set_time();
  if (form_ == EventForm::Lines) {
    take_lines(name_of(stream), rest, bytes);
  } else {
    piece(name_of(stream), rest, bytes);
  }
}

void EventWriter::flush() {
  set_time();
  if (!rest_of_output_.empty()) line("stdout", rest_of_output_);
  if (!rest_of_error_.empty()) line("stderr", rest_of_error_);
  rest_of_output_.clear();
  rest_of_error_.clear();
}

void EventWriter::init(std::string_view run) {
  set_time();
  line("init", run);
}

void EventWriter::complete() {
  flush();
  begin("execution_complete");
  end();
  pending_ += "}\n\n";
}

void EventWriter::error(std::string_view text, std::string_view ename, std::string_view evalue) {
  flush();
  begin("error");
  pending_ += ",\"text\":\"";
  append_json_text(pending_, text);
  pending_ += '"';
  end();
  pending_ += ",\"error\":{\"ename\":\"";
  append_json_text(pending_, ename);
  pending_ += "\",\"evalue\":\"";
  append_json_text(pending_, evalue);
  pending_ += "\",\"traceback\":null}}\n\n";
}

}  // namespace glovebox::serve
