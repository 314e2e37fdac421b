// Filesystem images as detached mounts. As root.
//
// An image is mounted by a loop device that goes with its last use, and attached nowhere: who holds
// a descriptor of the mount, or of a file in it, keeps it there. Nothing is left to unmount when
// the processes that used it are killed.
//
// The same image is never mounted twice side by side (that would destroy it): the second user,
// in this process or another, finds the loop device of the first and gets the same filesystem.
#pragma once

#include "base/result.h"
#include "base/unique_fd.h"

#include <string>

namespace glovebox::launch {

// The image file, for reading and writing. No link on the way is followed.
Result<UniqueFd> open_image(const std::string& path);

// The ext4 in an image, as a detached mount without set-id and devices. The content is written by
// boxes only through a mount, so its structure is the kernel's own.
Result<UniqueFd> mount_image(BorrowedFd image);

// Whether this host has loop devices for us.
bool has_loop_devices();

}  // namespace glovebox::launch
