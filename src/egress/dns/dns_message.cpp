#include "egress/dns/dns_message.h"

#include <algorithm>

namespace glovebox::egress {
namespace {

constexpr std::size_t kHeader = 12;
constexpr std::size_t kMaxName = 253;
constexpr std::size_t kMaxLabel = 63;
constexpr std::uint16_t kClassInternet = 1;
constexpr std::uint16_t kIsAnswer = 0x8000;
constexpr std::uint16_t kOpcode = 0x7800;
constexpr std::uint16_t kCut = 0x0200;
constexpr std::uint16_t kRecursionWanted = 0x0100;
constexpr std::uint16_t kRecursionHad = 0x0080;

std::uint16_t number_at(std::span<const std::byte> bytes, std::size_t at) {
  return static_cast<std::uint16_t>(std::to_integer<unsigned>(bytes[at]) << 8U |
                                    std::to_integer<unsigned>(bytes[at + 1]));
}

void put(std::vector<std::byte>& out, std::uint16_t number) {
  out.push_back(static_cast<std::byte>(number >> 8U));
  out.push_back(static_cast<std::byte>(number & 0xffU));
}

char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

// The name that starts at `at`, which is moved behind it. A dot inside a label would make two
// labels of it once it is text, so such a name is none.
std::optional<std::string> read_name(std::span<const std::byte> bytes, std::size_t& at) {
  std::string name;
  while (at < bytes.size()) {
    const auto length = std::to_integer<std::size_t>(bytes[at++]);
    if (length == 0) return name;
    if (length > kMaxLabel || length > bytes.size() - at) return std::nullopt;
    if (!name.empty()) name += '.';
    for (std::size_t i = 0; i < length; ++i) {
      const char c = std::to_integer<char>(bytes[at + i]);
      if (c == '.' || c == '\0') return std::nullopt;
      name += lower(c);
    }
    at += length;
    if (name.size() > kMaxName) return std::nullopt;
  }
  return std::nullopt;
}

void put_header(std::vector<std::byte>& out, std::uint16_t id, std::uint16_t flags,
                std::uint16_t questions, std::uint16_t answers) {
  put(out, id);
  put(out, flags);
  put(out, questions);
  put(out, answers);
  put(out, 0);
  put(out, 0);
}

}  // namespace

ReadQuestion read_question(std::span<const std::byte> message) {
  ReadQuestion result;
  if (message.size() < kHeader) return result;
  const std::uint16_t flags = number_at(message, 2);
  if ((flags & kIsAnswer) != 0) return result;  // answering an answer would go round in circles
  result.id = number_at(message, 0);
  if ((flags & kOpcode) != 0) {
    result.status = DnsStatus::NotSupported;
    return result;
  }
  if (number_at(message, 4) != 1 || number_at(message, 6) != 0) return result;
  std::size_t at = kHeader;
  auto name = read_name(message, at);
  if (!name || message.size() - at < 4) return result;
  if (number_at(message, at + 2) != kClassInternet) {
    result.status = DnsStatus::NotSupported;
    return result;
  }
  Question question;
  question.id = *result.id;
  question.recursion = (flags & kRecursionWanted) != 0;
  question.name = *std::move(name);
  question.type = number_at(message, at);
  question.raw.assign(message.begin() + kHeader,
                      message.begin() + static_cast<std::ptrdiff_t>(at) + 4);
  result.question = std::move(question);
  result.status = DnsStatus::Ok;
  return result;
}

std::vector<std::byte> encode_answer(const Question& question, const Answer& answer,
                                     std::size_t limit) {
  constexpr std::uint16_t kPointerToName = 0xc000 | kHeader;
  constexpr std::size_t kRecordHead = 12;
  const bool v4 = question.type == kTypeA;
  const std::size_t address_bytes = v4 ? 4 : 16;
  const std::size_t room = limit - std::min(limit, kHeader + question.raw.size());
  const std::size_t count = std::min(answer.addresses.size(), room / (kRecordHead + address_bytes));
  auto flags = static_cast<std::uint16_t>(kIsAnswer | kRecursionHad |
                                          static_cast<std::uint16_t>(answer.status));
  if (question.recursion) flags |= kRecursionWanted;
  if (count < answer.addresses.size()) flags |= kCut;

  std::vector<std::byte> out;
  put_header(out, question.id, flags, 1, static_cast<std::uint16_t>(count));
  out.insert(out.end(), question.raw.begin(), question.raw.end());
  for (std::size_t i = 0; i < count; ++i) {
    put(out, kPointerToName);
    put(out, question.type);
    put(out, kClassInternet);
    put(out, static_cast<std::uint16_t>(answer.ttl_seconds >> 16U));
    put(out, static_cast<std::uint16_t>(answer.ttl_seconds & 0xffffU));
    put(out, static_cast<std::uint16_t>(address_bytes));
    for (std::size_t byte = 0; byte < address_bytes; ++byte) {
      out.push_back(static_cast<std::byte>(answer.addresses[i].bytes().at(byte)));
    }
  }
  return out;
}

std::vector<std::byte> encode_refusal(std::uint16_t id, DnsStatus status) {
  std::vector<std::byte> out;
  put_header(out, id, static_cast<std::uint16_t>(kIsAnswer | static_cast<std::uint16_t>(status)), 0,
             0);
  return out;
}

}  // namespace glovebox::egress
