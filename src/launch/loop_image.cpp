#include "launch/loop_image.h"

#include "base/file.h"
#include "launch/child/sys.h"

#include <cerrno>
#include <filesystem>
#include <optional>

#include <fcntl.h>
#include <linux/loop.h>
#include <linux/mount.h>
#include <sys/file.h>
#include <sys/ioctl.h>

namespace glovebox::launch {
namespace {

constexpr const char* kControl = "/dev/loop-control";
constexpr int kAttempts = 16;  // another process may take the device that was free

std::string device_path(int number) { return fmt::format("/dev/loop{}", number); }

struct Device {
  UniqueFd fd;
  std::string path;
};

bool is_of(const UniqueFd& device, const struct stat& image) {
  loop_info64 info{};
  return ::ioctl(device.get(), LOOP_GET_STATUS64, &info) == 0 && info.lo_inode == image.st_ino &&
         info.lo_device == image.st_dev;
}

// The device that has this image already. An open descriptor keeps it from being cleared.
std::optional<Device> find_device(const struct stat& image) {
  std::error_code problem;
  std::filesystem::directory_iterator list("/sys/block", problem);
  if (problem) return std::nullopt;
  for (const auto& entry : list) {
    const std::string name = entry.path().filename();
    if (!name.starts_with("loop")) continue;
    if (!std::filesystem::exists(entry.path() / "loop", problem)) continue;  // free
    auto fd = open_file("/dev/" + name, O_RDWR);
    if (fd && is_of(*fd, image)) return Device{*std::move(fd), "/dev/" + name};
  }
  return std::nullopt;
}

Result<Device> make_device(BorrowedFd image) {
  TRY(const UniqueFd control, open_file(kControl, O_RDWR));
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    const int number = ::ioctl(control.get(), LOOP_CTL_GET_FREE);
    if (number < 0) return fail_os(errno, "find a free loop device");
    TRY(UniqueFd fd, open_file(device_path(number), O_RDWR));
    loop_config config{};
    config.fd = static_cast<std::uint32_t>(image.get());
    config.info.lo_flags = LO_FLAGS_AUTOCLEAR;
    if (::ioctl(fd.get(), LOOP_CONFIGURE, &config) == 0) {
      return Device{std::move(fd), device_path(number)};
    }
    if (errno != EBUSY) return fail_os(errno, "use {} for an image", device_path(number));
  }
  return fail(Code::Exhausted, "no loop device is free");
}

Result<UniqueFd> mount_device(const std::string& device) {
  const UniqueFd fs(sys::fsopen("ext4"));
  if (!fs) return fail_os(errno, "mount an image: no ext4");
  if (!sys::fsconfig_string(fs.get(), "source", device.c_str()) ||
      !sys::fsconfig_string(fs.get(), "errors", "remount-ro") || !sys::fsconfig_create(fs.get())) {
    return fail_os(errno, "mount the image of {}", device);
  }
  UniqueFd mount(sys::fsmount(fs.get(), MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV));
  if (!mount) return fail_os(errno, "mount the image of {}", device);
  return mount;
}

}  // namespace

Result<UniqueFd> open_image(const std::string& path) {
  UniqueFd image(
      sys::openat2(AT_FDCWD, path.c_str(), O_RDWR, RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS));
  if (!image) return fail_os(errno, "open {}", path);
  return image;
}

Result<UniqueFd> mount_image(BorrowedFd image) {
  struct stat info{};
  if (::fstat(image.get(), &info) != 0) return fail_os(errno, "an image");
  if (!S_ISREG(info.st_mode)) return fail(Code::Invalid, "an image is a file");
  // One at a time, so that two do not each make a device. Gone with the descriptor.
  if (::flock(image.get(), LOCK_EX) != 0) return fail_os(errno, "lock an image");
  std::optional<Device> device = find_device(info);
  if (!device) {
    TRY(device, make_device(image));
  }
  auto mount = mount_device(device->path);
  (void)::flock(image.get(), LOCK_UN);  // a lock of a descriptor that is open: cannot fail
  return mount;
}

bool has_loop_devices() { return ::access(kControl, R_OK | W_OK) == 0; }

}  // namespace glovebox::launch
