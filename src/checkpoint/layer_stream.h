// A layer's content into a checkpoint and out of it.
//
// What a layer stands on is written as one with it: whoever restores it has a single layer that
// shows the same. Owners are not written, because a box has one user, whose files all of them are;
// nor are set-id bits, file capabilities, devices and sockets. Names of one file become files of
// their own.
#pragma once

#include "checkpoint/records.h"

#include "workspace/layer.h"

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

// To whom what is restored belongs on disk.
struct LayerOwner {
  std::optional<uid_t> uid{};
  std::optional<gid_t> gid{};
};

// Puts entries and their data into the empty directory `upper` until a record comes that is
// neither, and returns its kind. No name of the checkpoint is resolved through a link or out of
// `upper`.
Result<RecordKind> read_layer(RecordReader& in, BorrowedFd upper, workspace::MarkPrefix prefix,
                              const LayerOwner& owner);

}  // namespace glovebox::checkpoint
