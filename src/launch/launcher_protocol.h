// What a launcher process and its client say to each other, over one SOCK_SEQPACKET pair.
//
// The client trusts the launcher as much as itself; the launcher serves one client and dies with
// it. Still every packet is checked for size and kind: a mistake here would be made with
// privileges.
//
//   Start    client -> launcher   StartPacket, then the plan's bytes when they are few; with these
//                                 descriptors: status socket, stdin, stdout, stderr (those that are
//                                 not the box's own terminal), and a sealed memfd with the plan
//                                 when it is large
//   Started  launcher -> client   ReplyPacket, then the name of the box's cgroup; with the pidfd of
//                                 the box's init
//   Failed   launcher -> client   ReplyPacket, then the sentence
//   Ended    launcher -> client   ReplyPacket with usage; the box's processes and cgroup are gone
#pragma once

#include <cstdint>
#include <type_traits>

namespace glovebox::launch {

inline constexpr std::uint32_t kWireVersion = 2;
inline constexpr std::size_t kMaxInlinePlan = 96U << 10;
inline constexpr std::size_t kMaxSentence = 2048;
inline constexpr std::size_t kMaxDescriptors = 16;
inline constexpr std::size_t kMaxSentDescriptors = 80;  // to a box: with the trees of its plan

struct StartPacket {
  std::uint32_t version;
  std::uint32_t plan_is_inline;
  std::uint64_t id;
  std::uint32_t terminal_mask;  // bit n: stream n is the box's own terminal
  std::uint32_t keep_parked;    // how many boxes like this one may be kept ready
};

enum class ReplyKind : std::uint32_t { Started = 1, Failed, Ended };

inline constexpr std::uint64_t kUnknown = ~std::uint64_t{0};

struct ReplyPacket {
  ReplyKind kind;
  std::uint32_t code;  // Failed: Code
  std::uint64_t id;
  std::int32_t os_errno;
  std::int32_t pid;
  std::uint32_t limit;       // Ended: LimitKind + 1 when a limit of the cgroup ended it
  std::uint32_t was_parked;  // Started: 1 when the box was begun before it was asked for
  std::uint64_t cpu_ns;
  std::uint64_t peak_memory_bytes;
  std::uint64_t parked;   // boxes that wait now, of all shapes
  std::uint64_t refills;  // boxes that were ever parked
};
static_assert(std::has_unique_object_representations_v<StartPacket>);
static_assert(std::has_unique_object_representations_v<ReplyPacket>);

}  // namespace glovebox::launch
