#include "egress/kernel/peer_filters.h"

#include "egress/kernel/outside_socket.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include <linux/bpf.h>
#include <linux/filter.h>
#include <sys/socket.h>
#include <sys/syscall.h>

namespace glovebox::egress {
namespace {

using Program = std::vector<bpf_insn>;

constexpr std::int32_t kV4Source = SKF_NET_OFF + 12;
constexpr std::int32_t kV6Source = SKF_NET_OFF + 8;
constexpr std::int32_t kSourcePort = 0;
constexpr std::int32_t kTakeAll = -1;
constexpr std::int32_t kDrop = 0;

bpf_insn instruction(int code, std::uint8_t to, std::uint8_t from, std::int16_t jump,
                     std::int32_t value) {
  bpf_insn one{};
  one.code = static_cast<__u8>(code);
  one.dst_reg = to & 0xfU;
  one.src_reg = from & 0xfU;
  one.off = jump;
  one.imm = value;
  return one;
}

void finish_with(Program& program, std::int32_t verdict) {
  program.push_back(instruction(BPF_ALU | BPF_MOV | BPF_K, BPF_REG_0, 0, 0, verdict));
  program.push_back(instruction(BPF_JMP | BPF_EXIT, 0, 0, 0, 0));
}

// Goes on when the packet has that value there, drops it when not or when it is shorter.
void demand(Program& program, int size, std::int32_t offset, std::uint32_t value) {
  program.push_back(instruction(BPF_LD | BPF_ABS | size, 0, 0, 0, offset));
  program.push_back(
      instruction(BPF_JMP32 | BPF_JEQ | BPF_K, BPF_REG_0, 0, 2, static_cast<std::int32_t>(value)));
  finish_with(program, kDrop);
}

Program program_for(const Endpoint& peer) {
  Program program{instruction(BPF_ALU64 | BPF_MOV | BPF_X, BPF_REG_6, BPF_REG_1, 0, 0)};
  const auto& bytes = peer.address.bytes();
  const bool v4 = peer.address.family() == authority::Family::V4;
  for (std::size_t at = 0; at < (v4 ? 4U : 16U); at += 4) {
    std::uint32_t word = 0;
    std::memcpy(&word, bytes.data() + at, sizeof(word));
    demand(program, BPF_W, (v4 ? kV4Source : kV6Source) + static_cast<std::int32_t>(at),
           ntohl(word));
  }
  demand(program, BPF_H, kSourcePort, peer.port);
  finish_with(program, kTakeAll);
  return program;
}

UniqueFd load(const Program& program) {
  static constexpr char kLicense[] = "";
  bpf_attr request{};
  request.prog_type = BPF_PROG_TYPE_SOCKET_FILTER;
  request.insn_cnt = static_cast<__u32>(program.size());
  request.insns = reinterpret_cast<__u64>(program.data());
  request.license = reinterpret_cast<__u64>(kLicense);
  const long fd = ::syscall(SYS_bpf, BPF_PROG_LOAD, &request, sizeof(request));
  return UniqueFd(static_cast<int>(fd));
}

}  // namespace

bool PeerFilters::has_program(const Endpoint& peer) const {
  const auto found = std::ranges::find(known_, peer, &Known::peer);
  return found != known_.end() && found->program;
}

Result<void> PeerFilters::hear_only(BorrowedFd socket, const Endpoint& peer) {
  const auto found = std::ranges::find(known_, peer, &Known::peer);
  if (found == known_.end() || !found->program) return egress::hear_only(socket, peer);
  const int program = found->program.get();
  const int on = 1;
  if (::setsockopt(socket.get(), SOL_SOCKET, SO_ATTACH_BPF, &program, sizeof(program)) != 0 ||
      ::setsockopt(socket.get(), SOL_SOCKET, SO_LOCK_FILTER, &on, sizeof(on)) != 0) {
    return fail_os(errno, "put a packet filter on a socket");
  }
  return {};
}

void PeerFilters::remember(const Endpoint& peer) {
  const auto found = std::ranges::find(known_, peer, &Known::peer);
  if (found == known_.end()) {
    if (known_.size() >= kMost) known_.erase(known_.begin());
    known_.push_back({peer, {}});
    return;
  }
  if (found->program) return;
  const auto now = std::chrono::steady_clock::now();
  if (now < next_) return;
  next_ = now + kPause;
  found->program = load(program_for(peer));  // without it the next one is classic, too
}

}  // namespace glovebox::egress
