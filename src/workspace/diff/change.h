// One difference between a workspace's original and what a box made of it.
#pragma once

#include "workspace/tree/tree_fs.h"

#include <string>
#include <vector>

namespace glovebox::workspace {

enum class ChangeKind : std::uint8_t {
  Deleted,
  Added,
  Modified,  // the same name with other content, mode, attributes, link target or type
  Renamed,   // a deleted and an added file of the same content
  Refused,   // cannot be taken over: forged, unreadable, too deep, a mount point
};

std::string_view to_text(ChangeKind kind);

// What differs in a Modified one. A Renamed one has the same content by definition.
struct Aspects {
  bool content = false;
  bool mode = false;
  bool xattrs = false;
  bool type = false;

  bool any() const { return content || mode || xattrs || type; }
  friend bool operator==(const Aspects&, const Aspects&) = default;
};

struct Change {
  ChangeKind kind = ChangeKind::Refused;
  std::string path{};           // any bytes but NUL, relative, no ".." in it
  std::string from{};           // Renamed: the former path
  Node before{};                // in the original, as it is now
  Node after{};                 // in the box
  std::string target_before{};  // of a symlink
  std::string target_after{};
  Aspects aspects{};
  std::size_t level = 0;         // which of the box's trees has `after` (upper_stack.h)
  std::size_t level_before = 0;  // the same for `before`, between two branches
  // The box's file has a file capability. It is never taken over; in directories that only the box
  // has it is not even looked for.
  bool has_capability = false;
  std::string problem{};   // Refused: why
  std::string conflict{};  // why the original is no longer what the box began with, else empty

  friend bool operator==(const Change&, const Change&) = default;
};

// In tree order; at one path a deletion stands before what takes its place.
void sort_changes(std::vector<Change>& changes);

// "modified src/a.c (content, mode)", safe for a terminal.
std::string to_text(const Change& change);

}  // namespace glovebox::workspace
