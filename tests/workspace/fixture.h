// A workspace, its layer, and edits through a real overlay mount.
#pragma once

#include "workspace/commit/commit.h"
#include "workspace/diff/diff.h"
#include "workspace/layer/layer.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <functional>
#include <map>
#include <string>

namespace glovebox::workspace::test {

namespace fs = std::filesystem;

// Where the test's files are. Memory makes syncs cheap; the disk makes them real.
enum class Ground { Disk, Memory };

// A directory that is gone with its owner.
class TempDir {
 public:
  explicit TempDir(Ground ground = Ground::Memory);
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;
  ~TempDir();
  fs::path path(const std::string& below = "") const { return path_ / below; }

 private:
  fs::path path_;
};

void write_file(const fs::path& path, const std::string& text);
std::string read_text(const fs::path& path);
void set_user_xattr(const fs::path& path, const std::string& name, const std::string& value);
void make_whiteout(const fs::path& path);

// Every name below `root` with type, mode, and content or target. Comparable and printable.
using Tree = std::map<std::string, std::string>;
Tree read_tree(const fs::path& root);
// The same with the modification times of files.
Tree read_tree_with_times(const fs::path& root);

// Waits until the coarse clock has ticked, so that what was made is older than what comes.
void wait_for_tick();

class WorkspaceTest : public testing::Test {
 protected:
  explicit WorkspaceTest(Ground ground = Ground::Memory, std::string name = "origin")
      : temp_(ground), name_(std::move(name)) {}

  void SetUp() override;
  // Makes the layer. What is in origin() now is the base.
  void begin(MarkPrefix prefix = MarkPrefix::User);

  // Goes on in a layer of its own over the one that there was, which is frozen by it.
  void freeze();

  fs::path origin() const { return temp_.path(name_); }
  fs::path upper() const { return layer_->upper_path(); }
  Layer& layer() { return *layer_; }
  LayerRoot& root() { return *root_; }
  const TempDir& temp() const { return temp_; }

  // Runs `edit` in a child that has the overlay mounted; the argument is its mount point.
  void in_overlay(const std::function<void(const fs::path&)>& edit);

  std::vector<Change> changes();
  CommitResult commit_all(const Selection& selection = {}, const GateRules& rules = {});
  UndoResult undo_last();

 private:
  TempDir temp_;
  std::string name_;  // of the workspace
  std::optional<LayerRoot> root_;
  std::optional<Layer> layer_;
};

// "added a", "modified b (content)": one line for each change.
std::vector<std::string> to_lines(const std::vector<Change>& changes);

}  // namespace glovebox::workspace::test
