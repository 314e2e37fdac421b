// Reads and writes the fields of a frame: fixed-width little-endian numbers, and byte strings and
// lists of them with a 32-bit count in front.
//
// Both are visitors over the same list of fields (protocol.h), so that what one writes is by
// construction what the other reads. The reader never trusts a count: it is compared with the bytes
// that are there before anything is allocated. A failure sticks, and the values read after it are
// empty, so that only the end need be checked.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace glovebox::guest {

// More items in one list are refused; a frame's size bounds the bytes.
inline constexpr std::size_t kMaxListItems = 4096;

class FieldWriter {
 public:
  explicit FieldWriter(std::string& bytes) : bytes_(bytes) {}

  void operator()(std::uint8_t value) { number(value); }
  void operator()(std::uint16_t value) { number(value); }
  void operator()(std::uint32_t value) { number(value); }
  void operator()(std::uint64_t value) { number(value); }
  void operator()(std::string_view text);
  void operator()(const std::vector<std::string>& list);
  template <class Enum>
    requires std::is_enum_v<Enum>
  void operator()(Enum value) {
    number(static_cast<std::uint8_t>(value));
  }

 private:
  template <class Number>
  void number(Number value) {
    for (std::size_t i = 0; i < sizeof(Number); ++i) {
      bytes_.push_back(static_cast<char>((std::uint64_t{value} >> (8 * i)) & 0xff));
    }
  }

  std::string& bytes_;
};

class FieldReader {
 public:
  explicit FieldReader(std::string_view bytes) : rest_(bytes) {}

  void operator()(std::uint8_t& value) { number(value); }
  void operator()(std::uint16_t& value) { number(value); }
  void operator()(std::uint32_t& value) { number(value); }
  void operator()(std::uint64_t& value) { number(value); }
  void operator()(std::string& text);
  void operator()(std::vector<std::string>& list);
  // An enumeration names its greatest member in last_of(Enum); its first is 0 and none is missing.
  template <class Enum>
    requires std::is_enum_v<Enum>
  void operator()(Enum& value) {
    std::uint8_t byte = 0;
    number(byte);
    if (byte > static_cast<std::uint8_t>(last_of(Enum{}))) failed_ = true;
    if (!failed_) value = static_cast<Enum>(byte);
  }

  bool failed() const { return failed_; }
  // Everything was there, and nothing is left.
  bool complete() const { return !failed_ && rest_.empty(); }
  std::string_view rest() const { return rest_; }

 private:
  std::string_view take(std::size_t size);

  template <class Number>
  void number(Number& value) {
    const std::string_view bytes = take(sizeof(Number));
    if (failed_) return;
    std::uint64_t sum = 0;
    for (std::size_t i = 0; i < sizeof(Number); ++i) {
      sum |= std::uint64_t{static_cast<unsigned char>(bytes[i])} << (8 * i);
    }
    value = static_cast<Number>(sum);
  }

  std::string_view rest_;
  bool failed_ = false;
};

}  // namespace glovebox::guest
