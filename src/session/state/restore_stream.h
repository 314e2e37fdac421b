// A checkpoint on its way to be a session: read once, from its beginning to its end.
#pragma once

#include "checkpoint/layer_stream.h"
#include "session/prepare/prepare.h"
#include "session/state/state_requests.h"

#include <functional>
#include <map>
#include <memory>
#include <string>

namespace glovebox::session {

// What the original of a layer was, when the checkpoint was written.
struct LayerBase {
  std::string workspace;
  workspace::Base base;
};

// With a mark of the machine: on another one an inode's number means another file.
Result<std::string> encode_bases(const std::vector<LayerBase>& bases);
// Those that were written on this machine; of the others there is nothing to be said here.
Result<std::map<std::string, workspace::Base>> decode_bases(std::string_view text);

class RestoreStream {
 public:
  // Opens the file and reads everything that stands before the layers.
  static Result<std::shared_ptr<RestoreStream>> open(UniqueFd file, const checkpoint::Key& key,
                                                     const std::string& tenant);
  // Asked for room on the disk before anything is written into a layer.
  using TakeRoom = std::function<Result<void>(std::uint64_t bytes)>;
  void bound(TakeRoom take_room) { take_room_ = std::move(take_room); }

  const Snapshot& snapshot() const { return snapshot_; }
  const std::string& tag() const { return reader_->tag(); }
  // How a session's layers are filled from it: in the order of its workspaces, each once. They hold
  // on to the stream.
  static LayerSources sources(const std::shared_ptr<RestoreStream>& stream);
  // Everything was read, and was what was written.
  Result<void> finish();

 private:
  explicit RestoreStream(UniqueFd file) : file_(std::move(file)) {}
  Result<void> begin(const checkpoint::Key& key, const std::string& tenant);
  Result<std::string> expect_text(checkpoint::RecordKind kind);
  Result<void> fill(const std::string& workspace, BorrowedFd upper);

  UniqueFd file_;
  std::unique_ptr<checkpoint::SealedReader> reader_;
  std::unique_ptr<checkpoint::RecordReader> records_;
  checkpoint::RecordKind next_ = checkpoint::RecordKind::End;
  Snapshot snapshot_;
  std::map<std::string, workspace::Base> bases_;
  TakeRoom take_room_;
};

}  // namespace glovebox::session
