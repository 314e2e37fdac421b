// A layer: the directory on the host in which the writes of one session land.
//
//   ROOT/ID/box/upper  what the overlay's upper directory is; everything in it is hostile
//   ROOT/ID/box/work   overlayfs needs it; empty of anything that is ours
//   ROOT/ID/image      instead of box/: a filesystem with both in it (image.h)
//   ROOT/ID/in-memory  instead of what is in box/upper: the upper lies in the memory of a box, and
//                      is read through a descriptor that the box's supervisor holds
//   ROOT/ID/layer.json what the layer belongs to
//   ROOT/ID/base.json  the original at the session's start (base.h), and `known`
//   ROOT/ID/commits/N/ journal and backups of the Nth commit (journal.h); made by the first
//
// A layer that others stand on (LayerFacts::below) is frozen by that: a session that goes on from
// it makes another on top. Nothing is copied or moved, and it goes when the last that stands on it
// has gone.
//
// ROOT and every layer are 0700 and belong to the user who started the session, so no box and no
// other user can name anything in them. A box reaches `upper` through its overlay mount and nothing
// else.
#pragma once

#include "workspace/layer/base.h"
#include "workspace/layer/quota.h"
#include "workspace/layer/upper_stack.h"
#include "workspace/tree/overlay_marks.h"

#include <chrono>
#include <functional>

namespace glovebox::workspace {

struct LayerFacts {
  std::string id{};          // sorts by time: 20261115-231251-042-9f3c21
  std::string origin{};      // absolute path of the original
  std::int64_t created = 0;  // ns since 1970
  MarkPrefix prefix = MarkPrefix::User;
  uid_t uid = 0;        // who made the layer
  uid_t upper_uid = 0;  // to whom `upper` belongs on disk
  gid_t upper_gid = 0;
  // Ids of the frozen layers that it stands on, the topmost first: no box writes to them any more,
  // and several layers may stand on the same.
  std::vector<std::string> below{};

  friend bool operator==(const LayerFacts&, const LayerFacts&) = default;
};

struct LayerRequest {
  std::string origin{};
  MarkPrefix prefix = MarkPrefix::User;
  // Owner of `upper` and `work`; nothing leaves them to the user who makes the layer.
  std::optional<uid_t> upper_uid{};
  std::optional<gid_t> upper_gid{};
  QuotaChoice quota{};
  // The layers that it stands on, the topmost first, and the moment that they all count from; or
  // none, and then that moment is the present.
  std::vector<std::string> below{};
  std::optional<Base> base{};
  // It counts as made later than this, ns since 1970, although the clock may have been set back.
  std::int64_t after = 0;
  // Puts something into `upper` before the layer is there: all of it is, or no layer.
  std::function<Result<void>(BorrowedFd upper)> fill{};
};

// An open layer. Move-only: it holds the layer's directory.
class Layer {
 public:
  Layer(UniqueFd dir, std::string path, LayerFacts facts, Base base, plan::LayerBacking backing)
      : dir_(std::move(dir)),
        path_(std::move(path)),
        facts_(std::move(facts)),
        base_(std::move(base)),
        backing_(backing) {}

  const LayerFacts& facts() const { return facts_; }
  const Base& base() const { return base_; }
  BorrowedFd dir() const { return dir_; }
  plan::LayerBacking backing() const { return backing_; }

  // For the mount. It belongs to the owner of `upper`, who need not be the layer's.
  std::string mount_path() const {
    return path_ + (backing_ == plan::LayerBacking::Image ? "/image" : "/box");
  }
  std::string upper_path() const { return mount_path() + "/upper"; }
  std::string work_path() const { return mount_path() + "/work"; }

  // Of a layer in memory: what the box handed out. Without it such a layer cannot be read.
  void use_memory(UniqueFd upper) {
    if (backing_ == plan::LayerBacking::Memory) memory_ = std::move(upper);
  }
  // Code::NotFound when the layer lay in memory and that is gone.
  Result<UniqueFd> open_upper() const;
  // The layer's directory has it all now (persist_memory_layer.h).
  Result<void> leave_memory();
  // That and the uppers of the layers below it.
  Result<Uppers> open_uppers() const;
  // Where the upper of a layer below it is.
  std::string frozen_path(const std::string& id) const;
  Result<UniqueFd> open_frozen(const std::string& id) const;
  // The original by its recorded path; Code::Denied when another directory is there now.
  Result<UniqueFd> open_original() const;

  // Replaces what is known about the original since the start.
  Result<void> save_known(KnownNodes known);

  // Keeps the layer from being collected as long as the descriptor lives.
  Result<UniqueFd> hold() const;

 private:
  UniqueFd dir_;
  std::string path_{};
  LayerFacts facts_;
  Base base_;
  plan::LayerBacking backing_;
  UniqueFd memory_;
};

// The private directory that holds all layers of one user. Made if it is not there.
struct LayerRoot {
  std::string path{};
  UniqueFd dir;
};
Result<LayerRoot> open_layer_root(const std::string& path);

Result<Layer> make_layer(const LayerRoot& root, const LayerRequest& request);
// By id. Code::NotFound when there is none.
Result<Layer> open_layer(const LayerRoot& root, std::string_view id);
// Newest first. Directories that are no finished layer are left out.
Result<std::vector<LayerFacts>> list_layers(const LayerRoot& root);
// When the newest one was made, ns since 1970, as told by the ids; 0 when there is none.
Result<std::int64_t> newest_layer_time(const LayerRoot& root);
// Takes a layer away at once: from here on it is not found by its id, and whatever comes next, it
// goes. What it holds is on the disk until remove_marked(), or until collect_layers() of a later
// process. Returns its id. Code::Denied while a process holds it or while a commit of it is
// unfinished.
Result<std::string> mark_removed(const LayerRoot& root, std::string_view id);
// Removes what is left of a layer that is marked as removed, which may take long. One that is gone
// is fine.
Result<void> remove_marked(const LayerRoot& root, std::string_view id);
// Both.
Result<void> remove_layer(const LayerRoot& root, std::string_view id);

struct Retention {
  std::chrono::seconds max_age = std::chrono::hours(24 * 14);
  std::size_t max_count = 50;
};

// Removes layers that are too old or too many, half-made ones, and the rest of removals that were
// interrupted. Layers that are held or have an unfinished commit stay. Of a layer that was begun
// since the machine started the age is told by a clock that cannot be set. Returns the removed ids.
Result<std::vector<std::string>> collect_layers(const LayerRoot& root, const Retention& keep);

}  // namespace glovebox::workspace
