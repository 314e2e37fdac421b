// Questions for names as the box asks them, and the answers (RFC 1035). Pure: bytes in, bytes out.
//
// The bytes come from the box. Nothing of a question is passed on: the name is read, checked, and
// asked anew in a message of the resolver's own. Only what a resolver library sends is understood:
// one question, no compression, one of the ordinary classes.
#pragma once

#include "authority/network.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace glovebox::egress {

inline constexpr std::uint16_t kTypeA = 1;
inline constexpr std::uint16_t kTypeAaaa = 28;
// Over UDP without extensions. More goes over TCP.
inline constexpr std::size_t kMaxDatagram = 512;

enum class DnsStatus : std::uint8_t {
  Ok = 0,
  BadQuestion = 1,
  Failed = 2,
  NoSuchName = 3,
  NotSupported = 4,
};

struct Question {
  std::uint16_t id = 0;
  bool recursion = false;
  std::string name;  // lower case, without the final dot; bytes that no host name has are kept
  std::uint16_t type = 0;
  std::vector<std::byte> raw;  // the question section as it came, to be repeated in the answer
};

struct ReadQuestion {
  // Without a question: answer with `status`, or not at all when there is no header to answer.
  std::optional<Question> question;
  DnsStatus status = DnsStatus::BadQuestion;
  std::optional<std::uint16_t> id;
};
ReadQuestion read_question(std::span<const std::byte> message);

struct Answer {
  DnsStatus status = DnsStatus::Ok;
  std::vector<authority::IpNetwork> addresses;  // of the family asked for
  std::uint32_t ttl_seconds = 0;
};
// At most `limit` bytes. What does not fit is left out, and the message says that it was cut.
std::vector<std::byte> encode_answer(const Question& question, const Answer& answer,
                                     std::size_t limit);
// For a message that has no question to repeat.
std::vector<std::byte> encode_refusal(std::uint16_t id, DnsStatus status);

}  // namespace glovebox::egress
