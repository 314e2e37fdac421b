// A layer's content into a checkpoint and out of it.
//
// What a layer stands on is written as one with it: a restore gives a single layer that
// shows the same. Owners are not written, because a box has one user, whose files all of them are;
// nor are set-id bits, file capabilities, devices and sockets. Names of one file become files of
// their own.
#pragma once

#include "checkpoint/records.h"
#include "workspace/layer/layer.h"

#include <functional>

namespace glovebox::checkpoint {

struct LayerContent {
  std::uint64_t entries = 0;
  std::uint64_t bytes = 0;
  friend bool operator==(const LayerContent&, const LayerContent&) = default;
};

// What is written: trees on one another, and the original below them. A whiteout is written where
// it hides something of the original: one that hid a name of a frozen layer alone has nothing to
// hide any more, and overlayfs would show it as a device.
struct LayerTrees {
  const workspace::Uppers& uppers;
  BorrowedFd original;
  workspace::MarkPrefix prefix = workspace::MarkPrefix::User;
};

// Everything in the trees, parents first. Constant memory but for the names of the directories on
// the way. What the box made unreadable is Code::Denied, with its path.
Result<LayerContent> write_layer(const LayerTrees& trees, RecordWriter& out);
// Counts without writing.
Result<LayerContent> measure_layer(const LayerTrees& trees);

// The most that is read back of a layer. The writer of the checkpoint had the key, and a few bytes
// of it can stand for many: what is not bounded here would be bounded by the disk alone.
struct LayerBounds {
  // What the checkpoint says of itself. A box that ran while it was written may have gone on
  // writing after it was counted: some more is let pass.
  LayerContent told;
  // Takes room on the disk, names included, before so many bytes more are written; or refuses. May
  // be empty: no bound.
  std::function<Result<void>(std::uint64_t bytes)> take_room{};
};

// What a layer that was counted as `told` may have come to while it was written out.
LayerContent most_of(const LayerContent& told);

// To whom what is restored belongs on disk.
struct LayerOwner {
  std::optional<uid_t> uid{};
  std::optional<gid_t> gid{};
};

// Puts entries and their data into the empty directory `upper` until a record comes that is
// neither, and returns its kind. No name of the checkpoint is resolved through a link or out of
// `upper`. Code::Exhausted when it is more than the bounds.
Result<RecordKind> read_layer(RecordReader& in, BorrowedFd upper, workspace::MarkPrefix prefix,
                              const LayerOwner& owner, const LayerBounds& bounds);

}  // namespace glovebox::checkpoint
