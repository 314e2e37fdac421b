// A launch plan as one block of bytes: what travels to the launcher, and what the code between
// clone and exec reads. No pointers, no allocation to read it.
//
// The reader checks everything once, before anything is started (counts, offsets, terminators,
// indexes, known operations). After that the steps can be obeyed without further questions.
#pragma once

#include "base/result.h"
#include "plan/launch_plan.h"

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <linux/filter.h>

namespace glovebox::plan {

inline constexpr std::uint32_t kFlatMagic = 0x58424c47;  // "GLBX"
inline constexpr std::uint32_t kFlatVersion = 7;
inline constexpr std::size_t kMaxFlatBytes = 64U << 20;
inline constexpr std::size_t kMaxSteps = 1U << 16;
inline constexpr std::size_t kMaxTrees = 2048;
inline constexpr std::size_t kMaxControllers = 8;

// Offsets of texts count from the start of the string section; every text ends with a NUL.
struct FlatStep {
  std::uint64_t a;
  std::uint64_t b;
  std::uint32_t op;
  std::uint32_t text;
  std::uint32_t other;
  std::uint32_t zero;
};

struct FlatTree {
  std::uint64_t device;
  std::uint64_t inode;
  std::uint64_t attributes;  // MOUNT_ATTR_*, set recursively
  std::uint32_t path;
  std::uint32_t owner;
  std::uint32_t group;
  std::uint32_t flags;  // kTree...
};
inline constexpr std::uint32_t kTreeKept = 1;   // owners are shown as they are
inline constexpr std::uint32_t kTreeImage = 2;  // what is in the image at that path

struct FlatController {
  std::uint32_t name;
  std::uint32_t parent;
};

struct FlatSection {
  std::uint32_t offset;  // from the start of the block
  std::uint32_t count;
};

struct FlatHeader {
  std::uint32_t magic;
  std::uint32_t version;
  std::uint32_t size;
  std::uint32_t tier;
  std::uint32_t uid;
  std::uint32_t gid;
  std::uint32_t cgroup_version;
  std::uint32_t has_terminal;
  std::uint32_t resident;
  std::uint32_t zero;
  std::uint64_t memory_bytes;  // 0: no limit
  std::uint64_t pids;
  std::uint64_t cpus_milli;
  std::uint64_t cpu_ns;  // CPU time of all processes together; 0: no limit
  FlatSection base;
  FlatSection box;
  FlatSection trees;
  FlatSection controllers;
  FlatSection filter;
  FlatSection argv;  // u32 text offsets
  FlatSection envp;
  FlatSection candidates;
  FlatSection strings;  // bytes
  FlatSection early;
};
static_assert(std::has_unique_object_representations_v<FlatHeader>);
static_assert(std::has_unique_object_representations_v<FlatStep>);
static_assert(std::has_unique_object_representations_v<FlatTree>);

std::vector<std::byte> encode(const LaunchPlan& plan);

// A block that has passed every check. Borrows the bytes.
class PlanView {
 public:
  static Result<PlanView> decode(std::span<const std::byte> bytes);

  std::span<const std::byte> bytes() const { return bytes_; }
  const FlatHeader& header() const { return *header_; }
  std::span<const FlatStep> early() const { return section<FlatStep>(header_->early); }
  std::span<const FlatStep> base() const { return section<FlatStep>(header_->base); }
  std::span<const FlatStep> box() const { return section<FlatStep>(header_->box); }
  std::span<const FlatTree> trees() const { return section<FlatTree>(header_->trees); }
  std::span<const FlatController> controllers() const {
    return section<FlatController>(header_->controllers);
  }
  std::span<const sock_filter> filter() const { return section<sock_filter>(header_->filter); }
  std::span<const std::uint32_t> argv() const { return section<std::uint32_t>(header_->argv); }
  std::span<const std::uint32_t> envp() const { return section<std::uint32_t>(header_->envp); }
  std::span<const std::uint32_t> candidates() const {
    return section<std::uint32_t>(header_->candidates);
  }
  const char* strings() const {
    return reinterpret_cast<const char*>(bytes_.data() + header_->strings.offset);
  }
  const char* text(std::uint32_t offset) const { return strings() + offset; }

  // Whether a base view that was built for the other plan serves this one.
  bool has_same_base(const PlanView& other) const;
  // Whether a cgroup that was made for the other plan has this one's controllers and limits.
  bool has_same_cgroup(const PlanView& other) const;

  // How many steps of the box can be done before its request: all, when none hands
  // something in, opens a terminal or waits for a moment; otherwise what every box has. They give
  // no authority.
  std::size_t parkable_steps() const;
  // Whether a box that was begun for the other plan, and parked after those steps, can go on as
  // this one: everything that it was made from is the same.
  bool has_same_shape(const PlanView& other) const;
  // A plan to remember and to begin other boxes with: what decides base, cgroup and shape, and
  // nothing of this one request: no command, no variable, no tree, none of the steps for them. A
  // box's init is a copy of the launcher, so whatever that remembers is in the memory of all.
  std::vector<std::byte> common_part() const;

 private:
  explicit PlanView(std::span<const std::byte> bytes)
      : bytes_(bytes), header_(reinterpret_cast<const FlatHeader*>(bytes.data())) {}

  template <class T>
  std::span<const T> section(const FlatSection& where) const {
    return {reinterpret_cast<const T*>(bytes_.data() + where.offset), where.count};
  }
  Result<void> check_sections() const;
  Result<void> check_texts() const;
  Result<void> check_steps() const;
  bool are_same(std::span<const FlatStep> steps, const PlanView& other,
                std::span<const FlatStep> others) const;

  std::span<const std::byte> bytes_;
  const FlatHeader* header_;
};

// One step as a value again, for messages.
Step unflatten(const PlanView& plan, const FlatStep& step);

}  // namespace glovebox::plan
