// The frames between an interpreter in its box and the supervisor: every kind, the header's layout
// and every bound that both sides keep. The extension module (python/host) and the supervisor
// (python/channel, session/python, mcp/repl) include this file; the REPL's worker, which is Python
// (python/repl/worker.py), is told what it needs when it starts (mcp/repl/python_repl_worker.cpp).
//
// A frame is a header of twelve bytes and a payload. Numbers are little-endian.
//
//   0  u32  size of the payload
//   4  u8   kind: an Order to the interpreter, a Word or ReplWord from it
//   5  u8   form of the payload
//   6  u16  0
//   8  u32  the cell's number; 0 of an interpreter that has one cell, and in the REPL
//
// What comes out of a box is hostile: code of the interpreter can write into the pipes too. A
// header that no side sends, and a size over its kind's bound, end the interpreter before anything
// is reserved for the payload.
#pragma once

#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace glovebox::python {

// The largest payload, and so the largest message with its bytes.
inline constexpr std::size_t kMaxMessage = std::size_t{64} << 20;
// How deep a value is nested at most, in its message.
inline constexpr std::size_t kMaxDepth = 64;
// The JSON of a request, which need not be taken for the next one to come. Large values are
// bytes, which are bounded by the message alone.
inline constexpr std::size_t kMaxRequestJson = std::size_t{1} << 20;
// How much a cell may have sent that no client has taken yet. An interpreter waits then; the
// supervisor ends one that does not.
inline constexpr std::size_t kMaxKept = 4096;
inline constexpr std::size_t kMaxKeptBytes = std::size_t{80} << 20;
// The most cells of one interpreter process, whatever it says of itself.
inline constexpr std::uint32_t kMaxCells = 1000;
// The status that an interpreter process ends with when its CPU time is used up.
inline constexpr int kCpuEndStatus = 113;
// Of the REPL's words.
inline constexpr std::size_t kMaxReplText = std::size_t{64} << 10;
inline constexpr std::size_t kMaxReplImage = std::size_t{8} << 20;
inline constexpr std::size_t kMaxReplOver = 64;

// A payload is JSON, or with Binary the length of the JSON (u32), the JSON, and the bytes that it
// refers to. Payloads of the REPL, of Cancel and of Room are what their kind says, as Text.
enum class Form : std::uint8_t { Text, Binary };

// To the interpreter. The REPL's worker takes Operation, Post, Cancel and End.
enum class Order : std::uint8_t {
  Begin = 1,      // a cell starts, with its authority
  Operation = 2,  // exec, call, define, stats; in the REPL the code of a cell
  Post = 3,       // a value for recv(); in the REPL a string for standard input
  Reply = 4,      // the answer to a request
  Cancel = 5,     // the operation with the id in the payload (u64); in the REPL an interrupt
  End = 6,        // the cell ends
  Room = 7,       // how many of the cell's messages and bytes were taken, in all (u64 each)
};

// From the interpreter.
enum class Word : std::uint8_t {
  Ready = 1,    // it takes Begin
  Answer = 2,   // result or error of an operation
  Post = 3,     // a value of post()
  Request = 4,  // something for the supervisor to do
  Event = 5,    // log, metric, output, denial
  Over = 6,     // a cell has ended
  Opened = 7,   // a cell of a worker has its authority and takes operations
};

// From the REPL's worker.
enum class ReplWord : std::uint8_t {
  Ready = 1,       // it takes a cell, and everything that the last one printed was sent
  Over = 6,        // "exit N" or "signal N"
  Output = 8,      // standard output
  Error = 9,       // error output
  Image = 10,      // PNG
  InputWait = 11,  // it waits for standard input; the payload is the prompt
  Bye = 12,        // it ends by its own wish
};

// The most bytes of a payload of this kind; nothing when there is no such kind.
template <typename Kind>
constexpr std::optional<std::size_t> find_bound(std::uint8_t kind);

template <>
constexpr std::optional<std::size_t> find_bound<Word>(std::uint8_t kind) {
  const bool is_known = kind >= static_cast<std::uint8_t>(Word::Ready) &&
                        kind <= static_cast<std::uint8_t>(Word::Opened);
  return is_known ? std::optional(kMaxMessage) : std::nullopt;
}

template <>
constexpr std::optional<std::size_t> find_bound<ReplWord>(std::uint8_t kind) {
  switch (ReplWord{kind}) {
    case ReplWord::Output:
    case ReplWord::Error:
    case ReplWord::InputWait: return kMaxReplText;
    case ReplWord::Image: return kMaxReplImage;
    case ReplWord::Ready:
    case ReplWord::Bye: return 0;
    case ReplWord::Over: return kMaxReplOver;
  }
  return std::nullopt;
}

// Little-endian, at the beginning of `bytes`, which has as many.
template <std::unsigned_integral Number>
constexpr Number get_number(std::string_view bytes) {
  Number number = 0;
  for (std::size_t i = sizeof(Number); i > 0; --i) {
    number = static_cast<Number>(number << 8 | static_cast<unsigned char>(bytes[i - 1]));
  }
  return number;
}

template <std::unsigned_integral Number>
constexpr void put_number(char* at, Number number) {
  for (std::size_t i = 0; i < sizeof(Number); ++i) at[i] = static_cast<char>(number >> (8 * i));
}

struct FrameHeader {
  std::uint32_t size = 0;
  std::uint8_t kind = 0;
  Form form = Form::Text;
  std::uint32_t cell = 0;
  friend bool operator==(const FrameHeader&, const FrameHeader&) = default;
};
inline constexpr std::size_t kHeaderSize = 12;

constexpr std::array<char, kHeaderSize> encode_header(const FrameHeader& header) {
  std::array<char, kHeaderSize> bytes{};
  put_number(bytes.data(), header.size);
  bytes[4] = static_cast<char>(header.kind);
  bytes[5] = static_cast<char>(header.form);
  put_number(bytes.data() + 8, header.cell);
  return bytes;
}

// Nothing for a header that no side sends. `bytes` has at least kHeaderSize.
constexpr std::optional<FrameHeader> decode_header(std::string_view bytes) {
  FrameHeader header{get_number<std::uint32_t>(bytes), static_cast<std::uint8_t>(bytes[4]),
                     static_cast<Form>(bytes[5]), get_number<std::uint32_t>(bytes.substr(8))};
  const bool is_plain = bytes[6] == 0 && bytes[7] == 0;
  const bool has_form = header.form == Form::Text || header.form == Form::Binary;
  if (!is_plain || !has_form || header.size > kMaxMessage) return std::nullopt;
  return header;
}

// A message as its two parts. Nothing for one that is too large, or whose JSON is cut short.
struct MessageParts {
  std::string_view json;
  std::string_view blobs;
};
inline constexpr std::size_t kJsonLengthSize = sizeof(std::uint32_t);

constexpr std::optional<MessageParts> split_message(std::string_view bytes, Form form) {
  if (bytes.size() > kMaxMessage) return std::nullopt;
  if (form == Form::Text) return MessageParts{bytes, {}};
  if (bytes.size() < kJsonLengthSize) return std::nullopt;
  const std::size_t size = get_number<std::uint32_t>(bytes);
  const std::string_view rest = bytes.substr(kJsonLengthSize);
  if (size > rest.size()) return std::nullopt;
  return MessageParts{rest.substr(0, size), rest.substr(size)};
}

// The payloads of Cancel (the operation's id) and Room (messages and bytes).
template <std::size_t N>
std::string encode_numbers(const std::array<std::uint64_t, N>& numbers) {
  std::string payload(N * sizeof(std::uint64_t), '\0');
  for (std::size_t i = 0; i < N; ++i)
    put_number(payload.data() + i * sizeof(numbers[i]), numbers[i]);
  return payload;
}

template <std::size_t N>
std::optional<std::array<std::uint64_t, N>> decode_numbers(std::string_view payload) {
  std::array<std::uint64_t, N> numbers{};
  if (payload.size() != sizeof(numbers)) return std::nullopt;
  for (std::size_t i = 0; i < N; ++i) {
    numbers[i] = get_number<std::uint64_t>(payload.substr(i * sizeof(numbers[i])));
  }
  return numbers;
}

// The beginning of a text, at most so many bytes, without half a character at its end.
inline std::string cut_text(std::string_view utf8, std::size_t most) {
  if (utf8.size() <= most) return std::string(utf8);
  while (most > 0 && (static_cast<unsigned char>(utf8[most]) & 0xc0) == 0x80) --most;
  return std::string(utf8.substr(0, most));
}

}  // namespace glovebox::python
