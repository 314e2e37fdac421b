#include "launch/child/context.h"
#include "launch/child/read_back.h"
#include "launch/child/sys.h"

#include <sys/prctl.h>
#include <sys/utsname.h>

namespace glovebox::launch {
namespace {

using plan::FlatStep;
using plan::Op;
using plan::Place;

int place_fd(const ChildContext& context, const FlatStep& step) noexcept {
  return static_cast<Place>(step.a) == Place::Scratch ? context.scratch_fd : context.root_fd;
}

bool make_file(int dir, const char* path, mode_t mode) noexcept {
  const int fd = ::openat(dir, path, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC | O_NOFOLLOW, mode);
  sys::close_quietly(fd);
  return fd >= 0;
}

bool write_file(int dir, const char* path, mode_t mode, const char* text) noexcept {
  const int fd = ::openat(dir, path, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC | O_NOFOLLOW, mode);
  if (fd < 0) return false;
  const std::size_t size = __builtin_strlen(text);
  const bool done = ::write(fd, text, size) == static_cast<ssize_t>(size);
  sys::close_quietly(fd);
  return done;
}

// No magic link: /proc/self/fd leads to what the launch itself has open.
bool change_directory(const char* path) noexcept {
  const int place = sys::openat2(AT_FDCWD, path, O_PATH | O_DIRECTORY, RESOLVE_NO_MAGICLINKS);
  if (place < 0) return false;
  const bool done = ::fchdir(place) == 0;
  sys::close_quietly(place);
  return done;
}

bool set_hostname(const char* name) noexcept {
  if (::sethostname(name, __builtin_strlen(name)) != 0) return false;
  utsname names{};
  if (::syscall(SYS_uname, &names) != 0) return false;
  std::size_t same = 0;
  while (name[same] != '\0' && names.nodename[same] == name[same]) ++same;
  return names.nodename[same] == name[same] || not_in_force();
}

bool set_no_new_privileges() noexcept {
  if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return false;
  return ::prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1 || not_in_force();
}

}  // namespace

// One case per operation and no default: the compiler names an operation that is missing.
bool run_step(ChildContext& context, const FlatStep& step) noexcept {
  const char* text = context.strings + step.text;
  const char* other = context.strings + step.other;
  switch (static_cast<Op>(step.op)) {
    case Op::MountRoot: return mount_root(context);
    case Op::AttachHost: return attach_host(context, text, other, step.a);
    case Op::SealRoot: return seal_root(context);
    case Op::PivotRoot: return pivot_into_root(context);
    case Op::MakeDirectory:
      return ::mkdirat(place_fd(context, step), text, static_cast<mode_t>(step.b)) == 0;
    case Op::MakeFile: return make_file(place_fd(context, step), text, static_cast<mode_t>(step.b));
    case Op::MakeLink: return ::symlinkat(other, place_fd(context, step), text) == 0;
    case Op::WriteFile:
      return write_file(place_fd(context, step), text, static_cast<mode_t>(step.b), other);
    case Op::MapIdentity: return map_identity(context, step.a, step.b);
    case Op::BeginNetwork: return begin_network(context, step.a);
    case Op::EnterNetwork: return enter_network(context);
    case Op::OpenResolver: return open_resolver(context);
    case Op::MountScratch: return mount_scratch(context, step.a, step.b, text);
    case Op::AttachScratch: return attach_scratch(context, text, other);
    case Op::MountProc: return mount_proc();
    case Op::MountTerminals: return mount_terminals();
    case Op::CoverProc: return cover_proc(context, text, other);
    case Op::CapNamespace: return cap_namespace(text, step.a);
    case Op::AttachCover: return attach_cover(context, step);
    case Op::AttachTree: return attach_tree(context, step.a, step.b, text);
    case Op::PinDirectory: return pin_directory(text);
    case Op::MountOverlay: return mount_overlay(context, step);
    case Op::HandOutLayer: return hand_out_layer(context, text);
    case Op::SetHostname: return set_hostname(text);
    case Op::ChangeDirectory: return change_directory(text);
    case Op::SetLimit: return set_limit(step.a, step.b);
    case Op::CapLimit: return cap_limit(step.a, step.b);
    case Op::OpenTerminal: return open_terminal(context, step.a, step.b);
    case Op::LeaveHost: return leave_host(context);
    case Op::DropCapabilities: return drop_capabilities();
    case Op::NoNewPrivileges: return set_no_new_privileges();
    case Op::LandlockBegin: return landlock_begin(context, step.a, step.b);
    case Op::LandlockAllow: return landlock_allow(context, text, step.a);
    case Op::LandlockEnforce: return landlock_enforce(context);
    case Op::InstallFilter: return install_filter(context, step.a);
    case Op::EnterCgroups: return enter_cgroups(context);
    case Op::AwaitClock: return await_clock(step.a);
    case Op::CloseFiles: return close_files(context);
    case Op::VerifyWall: return verify_wall(context, step.a);
  }
  errno = EINVAL;
  return false;
}

}  // namespace glovebox::launch
