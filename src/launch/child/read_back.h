// Looking whether what a step asked for is there.
//
// A call that answers 0 has not always done something: a filter around the launcher, or a tracer,
// can answer in the kernel's place. So what a wall rests on is asked for again, by another call
// than the one that made it. Each function returns false with errno kNotInForce when the kernel
// shows something else than what was asked for, or when the question itself is not answered.
#pragma once

#include "launch/child/context.h"

#include <cerrno>
#include <cstdint>

namespace glovebox::launch {

// "Invalid exchange": no call of a launch ends with it.
inline constexpr int kNotInForce = EBADE;

inline bool not_in_force() noexcept {
  errno = kNotInForce;
  return false;
}

// Which mount and which filesystem a path leads to. Zeros when the kernel does not say.
struct MountPlace {
  std::uint64_t mount = 0;
  std::uint64_t device = 0;
};
MountPlace find_mount(int dir, const char* path, unsigned flags) noexcept;
MountPlace find_mount(int tree) noexcept;

// That the tree is what one sees at a path.
bool is_attached(int tree, int dir, const char* path) noexcept;

// That this process has no descriptor above `last`. Needs room for one more.
bool has_files_up_to(int last) noexcept;

// The inode of a namespace of this process ("net"), or 0.
std::uint64_t namespace_inode(const char* name) noexcept;

// That a wall of the finished box stands.
bool verify_wall(const ChildContext& context, std::uint64_t wall) noexcept;

}  // namespace glovebox::launch
