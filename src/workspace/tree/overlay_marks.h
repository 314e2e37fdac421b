// What overlayfs writes into an upper directory besides files, read as the kernel writes it.
//
// A deleted name is a whiteout: a character device with number 0. A directory that hides the one
// below it has the attribute `opaque` = "y". (Newer kernels also know `opaque` = "x": in such a
// directory an empty file with the attribute `whiteout` is a whiteout.) Which prefix these
// attributes have is a property of the mount and so of the layer: `user.overlay.` when it was
// mounted with userxattr, else `trusted.overlay.`.
//
// What a box can do about it was tried on Linux 6.18, as root and in a user namespace:
//  - Setting user.overlay.NAME through a userxattr mount succeeds and is stored as
//    user.overlay.overlay.NAME (the kernel escapes it; the same holds for trusted.overlay. on the
//    other kind of mount). So an attribute with the layer's own prefix, unescaped, is the kernel's.
//  - mknod of a character device 0/0 is EPERM, renameat2 with RENAME_WHITEOUT is EINVAL, and
//    `.wh.NAME` is an ordinary file.
//  - origin and impure are hidden from the box, which can neither read nor remove them. In a user
//    namespace origin has no value: it says that a file was copied up, not from where.
// An older kernel that does not escape may let a box write such attributes. Therefore only what the
// kernel can have meant is obeyed, and our mounts never follow redirects or metacopy: these two, a
// mark in the wrong place or with an unknown name, every mark of the other prefix and every escaped
// one are forged, and the entry that has one is refused. (Escaped ones too: taken over without the
// escape, they would be obeyed by the next overlay that has the original below it.)
#pragma once

#include "workspace/tree/xattrs.h"

namespace glovebox::workspace {

enum class MarkPrefix : std::uint8_t { User, Trusted };

std::string_view to_text(MarkPrefix prefix);  // "user.overlay." or "trusted.overlay."

struct Marks {
  bool is_whiteout = false;
  bool is_opaque = false;          // hides what the original has here
  bool has_xwhiteouts = false;     // a directory: files with the attribute `whiteout` are whiteouts
  bool is_copied_up = false;       // began as a copy of a file of the original
  bool has_capability = false;     // security.capability is set
  std::string forged{};            // why the entry is refused, else empty
  std::vector<std::string> own{};  // names of user.* attributes that are the box's data
};

// What the directory that holds the entry says about it.
enum class Within : std::uint8_t { PlainDirectory, XwhiteoutDirectory };

Result<Marks> read_marks(BorrowedFd dir, const std::string& name, const Node& node,
                         MarkPrefix prefix, Within within);

// The box's own attributes with their values.
Result<Xattrs> read_own_xattrs(BorrowedFd dir, const std::string& name, const Marks& marks);
// Attributes of a file outside that compare with them: user.* without user.overlay.*.
Result<Xattrs> read_plain_xattrs(BorrowedFd dir, const std::string& name);

}  // namespace glovebox::workspace
