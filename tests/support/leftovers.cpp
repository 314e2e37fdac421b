#include "support/leftovers.h"

#include "support/installation.h"

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <stdexcept>

#include <poll.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

namespace glovebox::test {
namespace {

namespace fs = std::filesystem;

std::set<std::string> read_mounts() {
  std::set<std::string> lines;
  std::ifstream file("/proc/self/mountinfo");
  for (std::string line; std::getline(file, line);) lines.insert(line);
  return lines;
}

// The box's cgroups carry the pid of their glovebox. One of a glovebox that runs, and not for this
// test, belongs to another program.
bool is_of_another_run(const std::string& name) {
  int owner = 0;
  if (sscanf(name.c_str(), "glovebox-%d-", &owner) != 1 || kill(owner, 0) != 0) return false;
  const std::vector<pid_t> ours = descendants_of(getpid());
  return std::find(ours.begin(), ours.end(), owner) == ours.end();
}

// A directory called "glovebox" may stay as the common parent; what is made in it for a box, or
// beside it, may not.
std::set<std::string> find_cgroups() {
  std::set<std::string> found;
  std::error_code ignored;  // directories come and go while we look
  const auto options = fs::directory_options::skip_permission_denied;
  for (auto it = fs::recursive_directory_iterator("/sys/fs/cgroup", options, ignored);
       it != fs::recursive_directory_iterator(); it.increment(ignored)) {
    if (!it->is_directory(ignored)) continue;
    const std::string path = it->path();
    const std::string name = it->path().filename();
    if (path.find("glovebox") == std::string::npos || name == "glovebox") continue;
    if (!is_of_another_run(name)) found.insert(path);
  }
  return found;
}

// Files that a box or the product under test could have made: named for the product, or owned by
// the ordinary user of the tests or by an id that the product gives to boxes.
bool concerns_us(const fs::path& path) {
  if (path.filename().string().starts_with("glovebox-test-")) return false;
  // There the product makes nothing under its own name, and tests that run beside this one do.
  const bool is_of_tests = path.filename().string().starts_with("glovebox-");
  if (path.parent_path() == "/var/tmp" && is_of_tests) return false;
  if (path.filename() != "glovebox" && path.string().find("glovebox") != std::string::npos) {
    return true;
  }
  struct stat info{};
  if (lstat(path.c_str(), &info) != 0) return false;
  return info.st_uid == kUserIds.uid || info.st_uid >= kFirstBoxUid;
}

std::set<std::string> find_files() {
  std::set<std::string> found;
  for (const char* dir : {"/tmp", "/var/tmp", "/dev/shm", "/run", "/run/glovebox"}) {
    std::error_code ignored;
    for (const auto& entry : fs::directory_iterator(dir, ignored)) {
      if (concerns_us(entry.path())) found.insert(entry.path());
    }
  }
  return found;
}

// Waits for every child that is left, own or adopted. Returns those that do not end.
std::vector<std::string> processes_left(Clock::time_point deadline) {
  std::vector<std::string> left;
  for (const pid_t pid : descendants_of(getpid())) {
    const UniqueFd pidfd = open_pidfd(pid);
    if (pidfd && !ends_before(pidfd, deadline)) {
      std::ifstream comm("/proc/" + std::to_string(pid) + "/comm");
      std::string name;
      std::getline(comm, name);
      left.push_back("process " + std::to_string(pid) + " " + name);
    }
    (void)waitpid(pid, nullptr, WNOHANG);  // not ours to reap, or not yet: both are fine
  }
  return left;
}

template <class Look>
std::set<std::string> still_there(const std::set<std::string>& before, Look look,
                                  Clock::time_point deadline) {
  std::set<std::string> fresh;
  const auto keep_fresh = [&](const std::set<std::string>& seen) {
    for (const std::string& item : seen) {
      if (!before.contains(item)) fresh.insert(item);
    }
  };
  keep_fresh(look());
  while (!fresh.empty() && Clock::now() < deadline) {
    poll(nullptr, 0, 5);  // the kernel offers no event for "this directory is gone" on cgroupfs
    const std::set<std::string> now = look();
    std::erase_if(fresh, [&](const std::string& item) { return !now.contains(item); });
  }
  return fresh;
}

bool holds_programs(const std::string& place) {
  for (const char* variable : {"GLOVEBOX_BINARY", "GLOVEBOX_PROBE"}) {
    const char* path = std::getenv(variable);
    if (path != nullptr && std::string_view(path).starts_with(place + "/")) return true;
  }
  return false;
}

}  // namespace

OwnPlaces::OwnPlaces() {
  if (geteuid() != 0) return;
  if (unshare(CLONE_NEWNS) != 0 ||
      mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) {
    throw std::runtime_error("cannot make a mount namespace");
  }
  for (const std::string place : {"/tmp", "/dev/shm"}) {
    if (holds_programs(place)) continue;
    std::string own = place + "/glovebox-test-place-XXXXXX";
    if (mkdtemp(own.data()) == nullptr) throw std::runtime_error("mkdtemp failed");
    fs::permissions(own, fs::perms(01777));
    if (mount(own.c_str(), place.c_str(), nullptr, MS_BIND, nullptr) != 0) {
      throw std::runtime_error("cannot cover " + place);
    }
    covered_.emplace_back(place, own);
  }
}

OwnPlaces::~OwnPlaces() {
  for (const auto& [place, own] : covered_) {
    umount2(place.c_str(), MNT_DETACH);
    std::error_code ignored;  // at the end of the program there is no caller to tell
    fs::remove_all(own, ignored);
  }
}

void adopt_orphans() {
  if (prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0) {
    throw std::runtime_error("cannot become a subreaper");
  }
}

Snapshot take_snapshot() { return {read_mounts(), find_cgroups(), find_files()}; }

std::vector<std::string> left_since(const Snapshot& before, Clock::time_point deadline) {
  std::vector<std::string> left = processes_left(deadline);
  for (const auto& line : still_there(before.mounts, read_mounts, deadline)) {
    left.push_back("mount " + line);
  }
  for (const auto& path : still_there(before.cgroups, find_cgroups, deadline)) {
    left.push_back("cgroup " + path);
  }
  for (const auto& path : still_there(before.files, find_files, deadline)) {
    left.push_back("file " + path);
  }
  return left;
}

}  // namespace glovebox::test
