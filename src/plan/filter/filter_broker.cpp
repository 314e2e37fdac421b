// The rules of a box whose calls about the network are answered from outside.
#include "plan/filter/filter_requests.h"
#include "plan/filter/filter_rules.h"

#include <cerrno>
#include <utility>

#include <sys/socket.h>

namespace glovebox::plan {
namespace {

ArgumentTest is_not_zero(std::uint8_t argument, std::uint64_t mask) {
  return {argument, mask, ArgumentTest::Relation::NoneOf, {0}};
}

ArgumentTest is_zero(std::uint8_t argument, std::uint64_t mask) {
  return {argument, mask, ArgumentTest::Relation::OneOf, {0}};
}

}  // namespace

void pass_to_broker(FilterRules& rules, std::span<const std::string_view> calls) {
  for (const std::string_view call : calls) rules.find(call)->otherwise = Verdict::notify();
  constexpr std::pair<std::string_view, std::uint8_t> kFlagsOf[] = {
      {"sendto", 3}, {"sendmsg", 2}, {"sendmmsg", 3}};
  for (const auto& [name, argument] : kFlagsOf) {
    rules.find(name)->clauses = {
        {{is_not_zero(argument, MSG_FASTOPEN)}, Verdict::refuse(EOPNOTSUPP)}};
  }
  constexpr std::uint8_t kAddressOfSendto = 4;
  rules.find("sendto")->clauses.push_back(
      {{is_not_zero(kAddressOfSendto, kAll64)}, Verdict::notify()});
  // The flag is about SIGPIPE, which a datagram never raises. A program that sets it writes to a
  // stream.
  for (const auto& [name, argument] : std::span(kFlagsOf).subspan(1)) {
    rules.find(name)->clauses.push_back({{is_zero(argument, MSG_NOSIGNAL)}, Verdict::notify()});
  }
}

void guard_unix_sockets(FilterRules& rules) {
  for (const std::string_view call : {"connect", "listen"}) {
    rules.find(call)->otherwise = Verdict::notify();
  }
  constexpr std::uint8_t kFamily = 0, kType = 1;
  constexpr std::uint64_t kTypeBits = 0xf;  // above them are SOCK_CLOEXEC and SOCK_NONBLOCK
  const Clause datagrams{{{kFamily, kLow32, ArgumentTest::Relation::OneOf, {AF_UNIX}},
                          {kType, kTypeBits, ArgumentTest::Relation::OneOf, {SOCK_DGRAM}}},
                         Verdict::notify()};
  for (const std::string_view call : {"socket", "socketpair"}) {
    auto& clauses = rules.find(call)->clauses;
    clauses.insert(clauses.begin(), datagrams);
  }
}

}  // namespace glovebox::plan
