#include "plan/make_plan.h"
#include "plan/parts.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <map>
#include <set>
#include <span>
#include <utility>

#include <linux/mount.h>

namespace glovebox::plan {
namespace {

constexpr std::uint64_t kSealed = MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV;
constexpr std::uint64_t kDeviceNode = MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC;
constexpr std::array<const char*, 6> kDevices{"null", "zero", "full", "random", "urandom", "tty"};

constexpr std::size_t kUsualSteps = 32;  // a guess of what to make room for

constexpr std::uint64_t place(Place where) { return static_cast<std::uint64_t>(where); }

// Collects the directories and files that must exist in the private tmpfs as mount points.
class Scratch {
 public:
  explicit Scratch(std::size_t regions) { steps_.reserve(kUsualSteps + 2 * regions); }

  void directory(const std::string& path, std::uint64_t mode) {
    if (made_.insert(path).second) {
      steps_.push_back({Op::MakeDirectory, place(Place::Scratch), mode, path});
    }
  }
  void file(const std::string& path, std::uint64_t mode) {
    if (made_.insert(path).second) {
      steps_.push_back({Op::MakeFile, place(Place::Scratch), mode, path});
    }
  }
  // With directories on the way.
  void text_file(const std::string& path, const std::string& text) {
    for (std::size_t at = path.find('/'); at != std::string::npos; at = path.find('/', at + 1)) {
      directory(path.substr(0, at), 0755);
    }
    if (made_.insert(path).second) {
      steps_.push_back({Op::WriteFile, place(Place::Scratch), 0444, path, text});
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
  // What was asked for until now is what every box has.
  void end_of_usual() {
    usual_steps_ = steps_.size();
    usual_tops_ = tops_.size();
  }
  std::size_t usual_steps() const { return usual_steps_; }
  std::size_t usual_tops() const { return usual_tops_; }
  std::size_t size() const { return steps_.size(); }
  std::vector<Step> take_steps() { return std::exchange(steps_, {}); }
  const std::vector<std::string>& tops() const { return tops_; }

 private:
  std::set<std::string> made_;
  std::vector<Step> steps_;
  std::vector<std::string> tops_;
  std::size_t usual_steps_ = 0;
  std::size_t usual_tops_ = 0;
};

using RegionMap = std::map<std::string_view, const Region*>;  // by path

// The region that a place lies in, above its own.
const Region* find_outer(const RegionMap& regions, std::string_view path) {
  for (std::size_t slash = path.rfind('/'); slash != 0 && slash != std::string_view::npos;
       slash = path.rfind('/', slash - 1)) {
    const auto found = regions.find(path.substr(0, slash));
    if (found != regions.end()) return found->second;
  }
  return nullptr;
}

// Makes a chain of directories below `from`, and at its end a place to attach the region on.
void make_place(const Region& region, const std::string& from, const std::string& below,
                std::uint64_t mode, Scratch& scratch) {
  // `below` begins with a slash.
  const std::string whole = from.empty() ? below.substr(1) : from + below;
  for (std::size_t end = from.size(); end != std::string::npos;) {
    end = whole.find('/', end + 1);
    const bool last = end == std::string::npos;
    if (last && region.at.kind != host::PathKind::Directory) {
      scratch.file(whole, 0600);
    } else if (from.empty() && whole.find('/') == end) {
      scratch.top(whole.substr(0, end), 0755);
    } else {
      scratch.directory(whole.substr(0, end), last ? 0755 : mode);
    }
  }
}

std::string cover_name(std::size_t index) { return fmt::format("covers/{}", index); }
std::string stage_name(std::size_t index) { return fmt::format("layers/{}", index); }

// Makes sure that there is something to attach the region on: it is there already in the read-only
// system or in a tree attached before, or it is made in the private tmpfs, inside the cover that it
// shows through or at the top.
void plan_mount_point(const Region& region, const RegionMap& regions,
                      const std::map<const Region*, std::size_t>& covers,
                      const host::HostFacts& facts, Scratch& scratch) {
  const std::string& path = region.at.path;
  const Region* outer = find_outer(regions, path);
  if (outer != nullptr) {
    const auto cover = covers.find(outer);
    if (cover == covers.end()) return;
    make_place(region, cover_name(cover->second), path.substr(outer->at.path.size()), 0111,
               scratch);
    return;
  }
  if (region.at.inode == 0 || is_system(facts, path)) return;
  make_place(region, "", path, 0755, scratch);
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

// Without a limit of the request's own, what the places for its trees take is rounded up: boxes
// that differ in their trees alone then begin alike (launch/parked.h).
std::uint64_t count_inodes(const Limits& limits, std::uint64_t bytes, const Scratch& scratch) {
  const std::uint64_t own = scratch.size() + 1;
  if (limits.inodes) return *limits.inodes + own;
  constexpr std::uint64_t kStep = 64;
  return std::clamp<std::uint64_t>(bytes / 4096, 1024, 1U << 20) +
         (own + kStep - 1) / kStep * kStep;
}

void attach_tops(std::span<const std::string> tops, std::vector<Step>& box) {
  for (const std::string& top : tops) box.push_back({Op::AttachScratch, 0, 0, top, top});
}

// What every box has of its own, and then what this one's trees need.
void plan_box(const Limits& limits, const host::HostFacts& facts, Scratch& scratch, View& view) {
  const std::uint64_t bytes = limits.disk_bytes.value_or(kDefaultDiskBytes);
  // Its root is attached where the first of its directories then covers it.
  view.box.push_back(
      {Op::MountScratch, bytes, count_inodes(limits, bytes, scratch), scratch.tops().front()});
  std::vector<Step> steps = scratch.take_steps();
  const std::span own = std::span(steps).subspan(scratch.usual_steps());
  const std::span tops = std::span(scratch.tops()).subspan(scratch.usual_tops());
  std::ranges::move(std::span(steps).first(scratch.usual_steps()), std::back_inserter(view.box));
  attach_tops(std::span(scratch.tops()).first(scratch.usual_tops()), view.box);
  view.box.push_back({Op::MountProc});
  view.box.push_back(plan_proc_covers(facts));
  for (const auto& [count, limit] : {std::pair{"max_inotify_instances", facts.inotify_instances},
                                     std::pair{"max_inotify_watches", facts.inotify_watches}}) {
    if (limit != 0) view.box.push_back({Op::CapNamespace, limit / kShare, 0, count});
  }
  view.box.push_back({Op::MountTerminals});
  std::ranges::move(own, std::back_inserter(view.box));
  attach_tops(tops, view.box);
}

// A cover's number is its name in the private tmpfs.
std::map<const Region*, std::size_t> number_covers(const std::vector<Region>& regions) {
  std::map<const Region*, std::size_t> covers;
  for (const Region& region : regions) {
    if (region.rights.none()) covers.emplace(&region, covers.size());
  }
  return covers;
}

// An empty place that cannot be read; one that something shows through can be passed.
void make_cover(const Region& region, std::size_t index, const std::set<const Region*>& passable,
                Scratch& scratch) {
  scratch.directory("covers", 0700);
  if (region.at.kind == host::PathKind::Directory) {
    scratch.directory(cover_name(index), passable.contains(&region) ? 0111 : 0);
  } else {
    scratch.file(cover_name(index), 0);
  }
}

void attach_overlay(const Region& region, const std::string& stage, View& view) {
  const std::string target = region.at.path.substr(1);
  const host::PathFacts& source = region.source ? *region.source : region.at;
  const std::uint64_t parts = (region.frozen.size() << 1U) | (region.layer ? 1U : 0U);
  view.box.push_back({Op::MountOverlay, view.trees.size(), parts, target, stage});
  view.trees.push_back({source, Rights{.read = true, .exec = true}, region.ownership});
  if (region.upper == Upper::Handed || region.upper == Upper::Image) {
    view.box.push_back({Op::HandOutLayer, 0, 0, stage, target});
  }
  if (region.layer) {
    const TreeKind kind = region.upper == Upper::Image ? TreeKind::Image : TreeKind::Host;
    view.trees.push_back(
        {*region.layer, Rights{.read = true, .write = true, .exec = true}, region.ownership, kind});
  }
  for (const host::PathFacts& frozen : region.frozen) {
    view.trees.push_back({frozen, Rights{.read = true, .exec = true}, region.ownership});
  }
}

void plan_regions(const std::vector<Region>& regions,
                  const std::map<const Region*, std::size_t>& covers, View& view) {
  const Region* layered = nullptr;
  std::size_t overlays = 0;
  for (const Region& region : regions) {
    const std::string target = region.at.path.substr(1);
    const host::PathFacts& source = region.source ? *region.source : region.at;
    for (const std::string& path : region.pinned) {
      view.box.push_back({Op::PinDirectory, 0, 0, path.substr(1)});
    }
    if (const auto cover = covers.find(&region); cover != covers.end()) {
      // Inside an overlay a file has numbers of the overlay's own.
      const bool known = !layered || !host::is_within(region.at.path, layered->at.path);
      view.box.push_back({Op::AttachCover, known ? region.at.device : 0,
                          known ? region.at.inode : 0, cover_name(cover->second), target});
    } else if (region.upper != Upper::None) {
      if (layered == nullptr || !host::is_within(region.at.path, layered->at.path)) {
        layered = &region;
      }
      attach_overlay(region, stage_name(overlays++), view);
    } else {
      view.box.push_back(
          {Op::AttachTree, view.trees.size(), mount_attributes(region.rights), target});
      view.trees.push_back({source, region.rights, region.ownership});
    }
  }
}

// Where the parts of each overlay are put before it is mounted.
void make_stages(const std::vector<Region>& regions, Scratch& scratch) {
  std::size_t overlays = 0;
  for (const Region& region : regions) {
    if (region.upper == Upper::None) continue;
    const std::string stage = stage_name(overlays++);
    scratch.directory("layers", 0700);
    scratch.directory(stage, 0700);
    scratch.directory(stage + "/below", 0700);
    scratch.directory(stage + "/layer", 0700);
    for (std::size_t i = 0; i < region.frozen.size(); ++i) {
      scratch.directory(fmt::format("{}/{}", stage, i), 0700);
    }
    if (region.layer) continue;
    scratch.directory(stage + "/layer/upper", 0755);
    scratch.directory(stage + "/layer/work", 0700);
  }
}

Result<std::string> working_directory(const SandboxSpec& spec) {
  if (!spec.cwd) {
    const bool home =
        spec.workspaces.empty() || spec.workspaces.front().at.kind != host::PathKind::Directory;
    return home ? std::string(kHomeInside) : spec.workspaces.front().path_inside();
  }
  if (spec.cwd->empty() || spec.cwd->front() != '/' || spec.cwd->find('\0') != std::string::npos) {
    return fail(Code::Invalid, "--cwd '{}' is not an absolute path inside the box", *spec.cwd);
  }
  return *spec.cwd;
}

}  // namespace

Result<View> plan_view(const SandboxSpec& spec, const Lowered& lowered,
                       const host::HostFacts& facts) {
  if (!is_system(facts, "/usr")) return fail(Code::Unsupported, "this host has no /usr directory");
  const std::vector<Region>& regions = lowered.regions;
  const auto covers = number_covers(regions);
  RegionMap by_path;
  std::set<const Region*> passable;
  for (const Region& region : regions) {
    if (const Region* outer = find_outer(by_path, region.at.path)) passable.insert(outer);
    by_path.emplace(region.at.path, &region);
  }

  const auto handed = std::ranges::count(regions, Upper::Handed, &Region::upper) +
                      std::ranges::count(regions, Upper::Image, &Region::upper);
  if (static_cast<std::size_t>(handed) > kMaxHandedLayers) {
    return fail(Code::Exhausted, "more than {} layers with a budget", kMaxHandedLayers);
  }
  Scratch scratch(regions.size());
  scratch.top("tmp", 01777);
  scratch.top("run", 0755);
  scratch.directory("run/shm", 01777);
  scratch.top("home", 0755);
  scratch.directory("home/box", 0700);
  scratch.directory("nothing", 0700);
  scratch.file(kEmptyFile, 0);
  scratch.directory(kEmptyDirectory, 0);
  scratch.end_of_usual();
  make_stages(regions, scratch);
  for (const auto& [region, index] : covers) make_cover(*region, index, passable, scratch);
  for (const Region& region : regions) {
    plan_mount_point(region, by_path, covers, facts, scratch);
  }
  if (std::find(scratch.tops().begin(), scratch.tops().end(), "var") != scratch.tops().end()) {
    scratch.link("var/tmp", "/tmp");
    scratch.link("var/run", "/run");
  }

  NameFiles names;
  if (lowered.network && lowered.network->resolves) names = plan_name_files(spec, facts);
  for (const NameFiles::File& file : names.files) scratch.text_file(file.path, file.text);

  View view;
  view.base.reserve(2 * kUsualSteps);
  view.box.reserve(2 * kUsualSteps + scratch.size() + 3 * regions.size());
  plan_base(facts, scratch, view.base);
  plan_box(lowered.limits, facts, scratch, view);
  plan_regions(regions, covers, view);
  view.box.insert(view.box.end(), names.covers.begin(), names.covers.end());
  TRY(view.cwd, working_directory(spec));
  return view;
}

}  // namespace glovebox::plan
