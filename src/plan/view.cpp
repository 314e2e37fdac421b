#include "plan/make_plan.h"
#include "plan/parts.h"

#include <algorithm>
#include <array>
#include <map>
#include <set>

#include <linux/mount.h>

namespace glovebox::plan {
namespace {

constexpr std::uint64_t kSealed = MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV;
constexpr std::uint64_t kDeviceNode = MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC;
constexpr std::uint64_t kWritable = MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV;
constexpr std::array<const char*, 6> kDevices{"null", "zero", "full", "random", "urandom", "tty"};
// These are made fresh for each box; nothing of the host may be put there.
constexpr std::array<std::string_view, 3> kOwnTrees{"proc", "dev", "sys"};

constexpr std::uint64_t place(Place where) { return static_cast<std::uint64_t>(where); }

bool is_system(const host::HostFacts& facts, const std::string& top) {
  return std::any_of(facts.system.begin(), facts.system.end(),
                     [&](const host::SystemEntry& entry) { return entry.name == top; });
}

// Collects the directories and files that must exist in the private tmpfs as mount points.
class Scratch {
 public:
  void directory(const std::string& path, std::uint64_t mode) {
    if (made_.insert(path).second) {
      steps_.push_back({Op::MakeDirectory, place(Place::Scratch), mode, path});
    }
  }
  void file(const std::string& path) {
    if (made_.insert(path).second) {
      steps_.push_back({Op::MakeFile, place(Place::Scratch), 0600, path});
    }
  }
  void link(const std::string& path, const std::string& target) {
    if (made_.insert(path).second) {
      steps_.push_back({Op::MakeLink, place(Place::Scratch), 0, path, target});
    }
  }
  void top(const std::string& name, std::uint64_t mode) {
    directory(name, mode);
    if (std::find(tops_.begin(), tops_.end(), name) == tops_.end()) tops_.push_back(name);
  }
  const std::vector<Step>& steps() const { return steps_; }
  const std::vector<std::string>& tops() const { return tops_; }

 private:
  std::set<std::string> made_;
  std::vector<Step> steps_;
  std::vector<std::string> tops_;
};

Result<void> check_grant(const Grant& grant) {
  const std::vector<std::string> parts = host::components(grant.path.path);
  if (parts.empty()) {
    return fail(Code::Denied,
                "the root directory cannot be handed into a box; name the directories it needs");
  }
  if (std::find(kOwnTrees.begin(), kOwnTrees.end(), parts.front()) != kOwnTrees.end()) {
    return fail(Code::Denied, "{}: /{} is made fresh for every box and cannot be handed in",
                grant.path.path, parts.front());
  }
  if (grant.path.kind != host::PathKind::Directory && grant.path.kind != host::PathKind::File) {
    return fail(Code::Denied, "{}: only directories and regular files can be handed in",
                grant.path.path);
  }
  return {};
}

// Workspace and grants by path, a path named twice with the greater access. std::map orders a tree
// before what is below it, which is the order in which they must be attached.
Result<std::map<std::string, Tree>> collect_trees(const SandboxSpec& spec) {
  if (spec.grants.size() > kMaxGrants) {
    return fail(Code::Invalid, "{} grants are more than {}", spec.grants.size(), kMaxGrants);
  }
  std::map<std::string, Tree> trees;
  std::vector<Grant> all = spec.grants;
  if (spec.workspace) {
    if (spec.workspace->path.kind != host::PathKind::Directory) {
      return fail(Code::Invalid, "{}: a workspace is a directory", spec.workspace->path.path);
    }
    all.push_back(*spec.workspace);
  }
  for (const Grant& grant : all) {
    TRY_VOID(check_grant(grant));
    const auto [known, fresh] = trees.try_emplace(grant.path.path, Tree{grant.path, grant.access});
    if (!fresh) known->second.access = std::max(known->second.access, grant.access);
  }
  return trees;
}

// Makes sure that there is something to attach the tree on: it is there already in the read-only
// system or in a tree attached before, or it is made in the private tmpfs.
void plan_mount_point(const Tree& tree, const std::map<std::string, Tree>& trees,
                      const host::HostFacts& facts, Scratch& scratch) {
  const std::vector<std::string> parts = host::components(tree.source.path);
  if (is_system(facts, parts.front())) return;
  std::string path;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (trees.contains("/" + path)) return;
    path += path.empty() ? parts[i] : "/" + parts[i];
    const bool last = i + 1 == parts.size();
    if (last && tree.source.kind == host::PathKind::File) {
      scratch.file(path);
    } else if (i == 0) {
      scratch.top(path, 0755);
    } else {
      scratch.directory(path, 0755);
    }
  }
}

void plan_base(const host::HostFacts& facts, const Scratch& scratch, std::vector<Step>& base) {
  const std::uint64_t root = place(Place::Root);
  base.push_back({Op::MountRoot});
  for (const host::SystemEntry& entry : facts.system) {
    if (!entry.link_target.empty()) {
      base.push_back({Op::MakeLink, root, 0, entry.name, entry.link_target});
      continue;
    }
    base.push_back({Op::MakeDirectory, root, 0755, entry.name});
    base.push_back({Op::AttachHost, kSealed, 0, "/" + entry.name, entry.name});
  }
  base.push_back({Op::MakeDirectory, root, 0755, "dev"});
  for (const char* device : kDevices) {
    const std::string path = fmt::format("dev/{}", device);
    base.push_back({Op::MakeFile, root, 0600, path});
    base.push_back({Op::AttachHost, kDeviceNode, 0, "/" + path, path});
  }
  base.push_back({Op::MakeDirectory, root, 0755, "dev/pts"});
  const std::array<std::array<const char*, 2>, 6> links{{{"dev/ptmx", "pts/ptmx"},
                                                         {"dev/shm", "/run/shm"},
                                                         {"dev/fd", "/proc/self/fd"},
                                                         {"dev/stdin", "/proc/self/fd/0"},
                                                         {"dev/stdout", "/proc/self/fd/1"},
                                                         {"dev/stderr", "/proc/self/fd/2"}}};
  for (const auto& [path, target] : links) base.push_back({Op::MakeLink, root, 0, path, target});
  // A user namespace may mount a proc only where one is fully visible already: the host's stands
  // here until the box's own covers it.
  base.push_back({Op::MakeDirectory, root, 0555, "proc"});
  base.push_back({Op::AttachHost, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC, 0,
                  "/proc", "proc"});
  base.push_back({Op::MakeDirectory, root, 0755, "var"});
  base.push_back({Op::MakeLink, root, 0, "var/tmp", "/tmp"});
  base.push_back({Op::MakeLink, root, 0, "var/run", "/run"});
  for (const std::string& top : scratch.tops()) {
    if (top != "var") base.push_back({Op::MakeDirectory, root, 0755, top});
  }
  base.push_back({Op::SealRoot});
  base.push_back({Op::PivotRoot});
}

void plan_box(const SandboxSpec& spec, const Scratch& scratch, View& view) {
  const std::uint64_t bytes = spec.limits.disk_bytes.value_or(kDefaultDiskBytes);
  const std::uint64_t inodes = std::clamp<std::uint64_t>(bytes / 4096, 1024, 1U << 20);
  // Its root is attached where the first of its directories then covers it.
  view.box.push_back({Op::MountScratch, bytes, inodes, scratch.tops().front()});
  view.box.insert(view.box.end(), scratch.steps().begin(), scratch.steps().end());
  for (const std::string& top : scratch.tops()) {
    view.box.push_back({Op::AttachScratch, 0, 0, top, top});
  }
  view.box.push_back({Op::MountProc});
  view.box.push_back({Op::MountTerminals});
  for (std::size_t i = 0; i < view.trees.size(); ++i) {
    const Tree& tree = view.trees[i];
    view.box.push_back({Op::AttachTree, i, tree.access == Access::Write ? kWritable : kSealed,
                        tree.source.path.substr(1)});
  }
}

Result<std::string> working_directory(const SandboxSpec& spec) {
  if (!spec.cwd) return spec.workspace ? spec.workspace->path.path : std::string(kHomeInside);
  if (spec.cwd->empty() || spec.cwd->front() != '/' || spec.cwd->find('\0') != std::string::npos) {
    return fail(Code::Invalid, "--cwd '{}' is not an absolute path inside the box", *spec.cwd);
  }
  return *spec.cwd;
}

}  // namespace

Result<View> plan_view(const SandboxSpec& spec, const host::HostFacts& facts) {
  if (!is_system(facts, "usr")) return fail(Code::Unsupported, "this host has no /usr directory");
  TRY(const auto trees, collect_trees(spec));

  Scratch scratch;
  scratch.top("tmp", 01777);
  scratch.top("run", 0755);
  scratch.directory("run/shm", 01777);
  scratch.top("home", 0755);
  scratch.directory("home/box", 0700);
  for (const auto& [path, tree] : trees) plan_mount_point(tree, trees, facts, scratch);
  if (std::find(scratch.tops().begin(), scratch.tops().end(), "var") != scratch.tops().end()) {
    scratch.link("var/tmp", "/tmp");
    scratch.link("var/run", "/run");
  }

  View view;
  for (const auto& [path, tree] : trees) view.trees.push_back(tree);
  view.scratch_tops = scratch.tops();
  plan_base(facts, scratch, view.base);
  plan_box(spec, scratch, view);
  TRY(view.cwd, working_directory(spec));
  return view;
}

}  // namespace glovebox::plan
