// What a box leaves behind for others to fall into: files that programs of the host obey, links,
// forged marks of overlays, names that speak to terminals, scripts that overwrite their runtime.
#include "probe.h"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string>

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

namespace glovebox::probe {
namespace {

int make_parents(const std::string& path) {
  for (std::size_t at = path.find('/', 1); at != std::string::npos; at = path.find('/', at + 1)) {
    if (mkdir(path.substr(0, at).c_str(), 0755) == 0) continue;
    struct stat info{};
    if (stat(path.substr(0, at).c_str(), &info) != 0) return errno;
  }
  return 0;
}

// Contents that a program would act on.
std::string trap_for(const std::string& path) {
  if (path.ends_with("config")) {
    return "[core]\n\tfsmonitor = touch /tmp/owned\n\thooksPath = hooks\n\tsshCommand = touch x\n"
           "[diff]\n\texternal = touch /tmp/owned\n[filter \"x\"]\n\tclean = touch /tmp/owned\n";
  }
  if (path.ends_with("attributes")) return "* filter=x diff=x\n";
  if (path.ends_with(".json")) return "{\"hooks\": {\"run\": \"touch /tmp/owned\"}}\n";
  return "#!/bin/sh\ntouch /tmp/owned\n";
}

// DIR FILE...: makes each FILE below DIR, executable, with its directories.
int make_traps(Args args) {
  const std::string base = text(args, 0);
  for (std::size_t i = 1; i < args.size(); ++i) {
    const std::string path = base + "/" + args[i];
    if (const int error = make_parents(path)) return error;
    const int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0755);
    if (fd < 0) return errno;
    const std::string content = trap_for(path);
    if (write(fd, content.data(), content.size()) < 0) return errno;
    close(fd);
  }
  return 0;
}

// Objects of git, as it writes them: a commit whose tree has .github/workflows/ci.yml.
struct GitFile {
  const char* name;
  const char* hex;
};
constexpr GitFile kCommit[] = {
    {"b8/3836ed8c80558d4e40ea4ac5d69f4405334799",
     "78da4bcac94f52b064c8cfb35228282dcee002002b6704fa"},
    {"62/06d2544f91c3a22d7c0b520be2e0522ecea5bc",
     "78da2b294a4d553036613034303033315148ced4abcccd61d86161f6b6a721b4d7cfe195d7d16bf3"
     "5d588ddd67020020030f2c"},
    {"20/07d6a0c6dfceeba4d005d67b2b28d6edf9d694",
     "78da2b294a4d553036633031000285f2fca2ecb49cfcf2628624b64b21fe130f2fd2ade10ee27ef4"
     "2048efdcd23d00415f1091"},
    {"03/22209c23e9b5c6e83276f16514f0ad6c0a0de1",
     "78da2b294a4d553036613031000205bdf4cc928cd2240605f66b0b8edd3ff77ac905d66bd5da1ad7"
     "defebc3605003586123b"},
    {"d3/99a87fbbf926f4c28c410e4ce519d5f6b610a0",
     "78da5dcc3d0a80300c4061e79e22bb4b9afe6841bc4b4c53742805a9e0f11547dff80d4f5aad4787"
     "e4877eaa023a22c224e4346d41a2ce8ea6586c0cd617e41c0519b35ac357dfdb090c0baf6061c437"
     "23dfacebdfcd6d1e06091c25"},
};
constexpr const char* kCommitId = "d399a87fbbf926f4c28c410e4ce519d5f6b610a0\n";

int write_whole(const std::string& path, const std::string& content) {
  if (const int error = make_parents(path)) return error;
  const int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
  if (fd < 0) return errno;
  const bool is_whole = write(fd, content.data(), content.size()) == ssize_t(content.size());
  close(fd);
  return is_whole ? 0 : EIO;
}

std::string bytes_of(const std::string& hex) {
  std::string bytes;
  for (std::size_t i = 0; i < hex.size(); i += 2) {
    bytes += static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16));
  }
  return bytes;
}

// DIR: a repository below DIR with a branch at that commit, and no file of the commit beside it.
int commit_workflow(Args args) {
  const std::string git = std::string(text(args, 0)) + "/.git/";
  for (const GitFile& file : kCommit) {
    if (const int error = write_whole(git + "objects/" + file.name, bytes_of(file.hex))) {
      return error;
    }
  }
  if (const int error = write_whole(git + "HEAD", "ref: refs/heads/main\n")) return error;
  return write_whole(git + "refs/heads/main", kCommitId);
}

// An index of git (version 2) with one entry, `old`, that is assumed to be unchanged: what becomes
// of that file git does not show.
constexpr const char* kHidingIndex =
    "444952430000000200000001000000000000000000000000000000000000000000000000000081a4000000000000"
    "000000000000b83836ed8c80558d4e40ea4ac5d69f440533479980036f6c64000000000000004a9ced49ba3fcf26"
    "39d20a6daf196a1317933720";

// DIR: a repository below DIR with that index.
int hide_in_index(Args args) {
  const std::string git = std::string(text(args, 0)) + "/.git/";
  if (const int error = write_whole(git + "HEAD", "ref: refs/heads/main\n")) return error;
  return write_whole(git + "index", bytes_of(kHidingIndex));
}

// DIR: marks of an overlay as a box can forge them, on names that the original has and has not.
// 0 when all that can be made were; what the kernel refuses is said.
int forge_marks(Args args) {
  const std::string base = text(args, 0);
  const std::string fifo = base + "/fifo", hidden = base + "/.wh.old", marked = base + "/marked";
  if (mkfifo(fifo.c_str(), 0600) != 0) return errno;
  const int fd = open(hidden.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
  if (fd < 0) return errno;
  close(fd);
  if (mkdir(marked.c_str(), 0755) != 0) return errno;
  for (const char* name : {"user.overlay.opaque", "trusted.overlay.opaque", "user.overlay.whiteout",
                           "user.overlay.redirect", "user.overlay.metacopy"}) {
    const long result = setxattr(marked.c_str(), name, "y", 1, 0);
    say("%s: %s", name, result == 0 ? "set" : strerrorname_np(errno));
  }
  const std::string device = base + "/device";
  const long made = mknod(device.c_str(), S_IFCHR | 0666, makedev(0, 0));
  say("device: %s", made == 0 ? "made" : strerrorname_np(errno));
  return 0;
}

// DIR: files whose names speak to the terminal that shows them: a title, the clipboard, a new line
// that looks like a list's own, a deletion of what stands before.
int make_odd_names(Args args) {
  const std::string base = text(args, 0);
  for (const char* name : {"plain", "\x1b]0;owned\x07", "\x1b]52;c;b3duZWQ=\x07", "a\r\x1b[2Kok",
                           "b\nmodified old", "c\23331m", "d\x7f\x08"}) {
    const int fd = open((base + "/" + name).c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
    if (fd < 0) return errno;
    close(fd);
  }
  return 0;
}

// TARGET DIR: reads TARGET through a link to it, and through a link to its directory.
int read_through_links(Args args) {
  const std::string target = text(args, 0), base = text(args, 1);
  const std::string last = base + "/last", middle = base + "/middle";
  const std::size_t slash = target.rfind('/');
  if (symlink(target.c_str(), last.c_str()) != 0) return errno;
  if (symlink(target.substr(0, slash).c_str(), middle.c_str()) != 0) return errno;
  int error = 0;
  for (const std::string& path : {last, middle + target.substr(slash), "/proc/self/root" + target,
                                  "/proc/self/cwd/../../../.." + target}) {
    const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
      error = errno;
      continue;
    }
    char bytes[256];
    const ssize_t count = read(fd, bytes, sizeof bytes - 1);
    if (count > 0) say("read %.*s", static_cast<int>(count), bytes);
    return 0;
  }
  return error;
}

// What executed it is opened for writing, as the script would.
int exe_of_parent() {
  const std::string path = "/proc/" + std::to_string(getppid()) + "/exe";
  const int fd = open(path.c_str(), O_WRONLY | O_CLOEXEC);
  return fd < 0 ? errno : 0;
}

// DIR: executes a script whose interpreter is /proc/self/exe, which a runtime once was made to
// execute in its own place.
int script_of_runtime(Args args) {
  const std::string path = std::string(text(args, 0)) + "/runtime-script";
  const int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0755);
  if (fd < 0 || write(fd, "#!/proc/self/exe\n", 17) != 17) return errno;
  close(fd);
  char* words[] = {const_cast<char*>(path.c_str()), nullptr};
  const pid_t child = fork();
  if (child == 0) {
    execv(path.c_str(), words);
    _exit(errno);
  }
  int status = 0;
  if (waitpid(child, &status, 0) != child) return errno;
  say("ended with %d", WIFEXITED(status) ? WEXITSTATUS(status) : -1);
  return exe_of_parent();
}

// EBADE when a directory on the search path can be written to, so that a program could be planted.
int check_search_path(Args) {
  const char* path = std::getenv("PATH");
  if (path == nullptr) return 0;
  int problems = 0;
  for (std::string rest = path; !rest.empty();) {
    const std::size_t end = std::min(rest.find(':'), rest.size());
    const std::string place = rest.substr(0, end);
    rest.erase(0, std::min(end + 1, rest.size()));
    const std::string planted = place + "/glovebox-planted";
    const int fd = open(planted.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0755);
    if (place.empty() || place[0] != '/' || fd >= 0) ++problems;
    if (fd >= 0) unlink(planted.c_str());
  }
  const bool preloads =
      std::getenv("LD_PRELOAD") != nullptr || access("/etc/ld.so.preload", W_OK) == 0;
  return problems == 0 && !preloads ? 0 : EBADE;
}

// PATH OTHER TARGET COUNT: PATH is a file and a link to TARGET in turns, by exchanging names. Says
// when it has begun.
int swap_links(Args args) {
  const char* path = text(args, 0);
  const char* other = text(args, 1);
  const int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
  if (fd < 0 || write(fd, "mine\n", 5) != 5) return errno;
  close(fd);
  if (symlink(text(args, 2), other) != 0) return errno;
  say("swapping");
  for (long i = 0; i < number(args, 3); ++i) {
    if (renameat2(AT_FDCWD, path, AT_FDCWD, other, RENAME_EXCHANGE) != 0) return errno;
  }
  return 0;
}

constexpr Probe kProbes[] = {
    {"traps", make_traps, "DIR FILE...: makes files that programs of the host obey"},
    {"commit_workflow", commit_workflow, "DIR: makes a git commit of a file that is not there"},
    {"hide_in_index", hide_in_index, "DIR: has git not look at a file"},
    {"forge_marks", forge_marks, "DIR: forges what overlays mean something by"},
    {"odd_names", make_odd_names, "DIR: makes names that speak to terminals"},
    {"read_through_links", read_through_links, "TARGET DIR: reads through links and /proc"},
    {"script_of_runtime", script_of_runtime, "DIR: executes #!/proc/self/exe"},
    {"search_path", check_search_path, "checks that nothing can be planted on the search path"},
    {"swap_links", swap_links, "PATH OTHER TARGET COUNT: a file and a link in turns"},
};

}  // namespace

std::span<const Probe> trap_probes() { return kProbes; }

}  // namespace glovebox::probe
