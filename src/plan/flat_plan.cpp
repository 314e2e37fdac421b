#include "plan/flat_plan.h"

#include <algorithm>
#include <cstring>

namespace glovebox::plan {
namespace {

constexpr std::size_t kAlignment = 8;
constexpr std::chrono::nanoseconds kNoTime{0};

class Writer {
 public:
  Writer() : bytes_(sizeof(FlatHeader)) {}

  std::uint32_t text(std::string_view words) {
    const std::size_t offset = strings_.size();
    strings_.append(words);
    strings_.push_back('\0');
    return static_cast<std::uint32_t>(offset);
  }

  template <class T>
  FlatSection section(const std::vector<T>& items) {
    bytes_.resize((bytes_.size() + kAlignment - 1) / kAlignment * kAlignment);
    const FlatSection where{static_cast<std::uint32_t>(bytes_.size()),
                            static_cast<std::uint32_t>(items.size())};
    if (items.empty()) return where;
    const std::size_t start = bytes_.size();
    bytes_.resize(start + items.size() * sizeof(T));
    std::memcpy(bytes_.data() + start, items.data(), items.size() * sizeof(T));
    return where;
  }

  std::vector<std::byte> finish(FlatHeader header) {
    header.strings = section(std::vector<char>(strings_.begin(), strings_.end()));
    header.size = static_cast<std::uint32_t>(bytes_.size());
    std::memcpy(bytes_.data(), &header, sizeof(header));
    return std::move(bytes_);
  }

 private:
  std::vector<std::byte> bytes_;
  std::string strings_;
};

FlatSection write_steps(Writer& writer, const std::vector<Step>& steps) {
  std::vector<FlatStep> flat;
  flat.reserve(steps.size());
  for (const Step& step : steps) {
    flat.push_back({step.a, step.b, static_cast<std::uint32_t>(step.op), writer.text(step.text),
                    writer.text(step.other), 0});
  }
  return writer.section(flat);
}

FlatSection write_texts(Writer& writer, const std::vector<std::string>& texts) {
  std::vector<std::uint32_t> offsets;
  offsets.reserve(texts.size());
  for (const std::string& words : texts) offsets.push_back(writer.text(words));
  return writer.section(offsets);
}

FlatSection write_trees(Writer& writer, const std::vector<Tree>& trees) {
  std::vector<FlatTree> flat;
  flat.reserve(trees.size());
  for (const Tree& tree : trees) {
    flat.push_back({tree.source.device, tree.source.inode, mount_attributes(tree.rights),
                    writer.text(tree.source.path), tree.source.owner, tree.source.group,
                    (tree.ownership == Ownership::Kept ? kTreeKept : 0U) |
                        (tree.kind == TreeKind::Image ? kTreeImage : 0U)});
  }
  return writer.section(flat);
}

FlatSection write_controllers(Writer& writer, const std::vector<Controller>& controllers) {
  std::vector<FlatController> flat;
  flat.reserve(controllers.size());
  for (const Controller& controller : controllers) {
    flat.push_back({writer.text(controller.name), writer.text(controller.parent)});
  }
  return writer.section(flat);
}

// One case per operation and no default: the author of a new one decides.
bool is_parkable(Op op) {
  switch (op) {
    case Op::AttachTree:
    case Op::AttachCover:
    case Op::PinDirectory:
    case Op::MountOverlay:
    case Op::HandOutLayer:
    case Op::OpenTerminal:
    case Op::AwaitClock: return false;
    case Op::MountRoot:
    case Op::AttachHost:
    case Op::SealRoot:
    case Op::PivotRoot:
    case Op::MakeDirectory:
    case Op::MakeFile:
    case Op::MakeLink:
    case Op::WriteFile:
    case Op::BeginNetwork:
    case Op::MapIdentity:
    case Op::EnterNetwork:
    case Op::OpenResolver:
    case Op::MountScratch:
    case Op::AttachScratch:
    case Op::MountProc:
    case Op::MountTerminals:
    case Op::SetHostname:
    case Op::ChangeDirectory:
    case Op::SetLimit:
    case Op::CapLimit:
    case Op::LeaveHost:
    case Op::DropCapabilities:
    case Op::NoNewPrivileges:
    case Op::LandlockBegin:
    case Op::LandlockAllow:
    case Op::LandlockEnforce:
    case Op::InstallFilter:
    case Op::EnterCgroups:
    case Op::CloseFiles:
    case Op::VerifyWall:
    case Op::CoverProc:
    case Op::CapNamespace: return true;
  }
  return false;
}

tl::unexpected<Error> malformed(std::string_view what) {
  return fail(Code::Invalid, "malformed launch plan: {}", what);
}

}  // namespace

std::vector<std::byte> encode(const LaunchPlan& plan) {
  Writer writer;
  FlatHeader header{};
  header.magic = kFlatMagic;
  header.version = kFlatVersion;
  header.tier = static_cast<std::uint32_t>(plan.tier);
  header.uid = plan.uid;
  header.gid = plan.gid;
  header.cgroup_version = static_cast<std::uint32_t>(plan.cgroup.version);
  header.has_terminal = plan.has_terminal ? 1 : 0;
  header.resident = static_cast<std::uint32_t>(plan.resident);
  header.memory_bytes = plan.cgroup.memory_bytes.value_or(0);
  header.pids = plan.cgroup.pids ? *plan.cgroup.pids + plan.cgroup.own_pids : 0;
  header.cpus_milli = plan.cgroup.cpus_milli.value_or(0);
  header.cpu_ns = static_cast<std::uint64_t>(plan.watch.cpu_time.value_or(kNoTime).count());
  header.early = write_steps(writer, plan.early);
  header.base = write_steps(writer, plan.base);
  header.box = write_steps(writer, plan.box);
  header.trees = write_trees(writer, plan.trees);
  header.controllers = write_controllers(writer, plan.cgroup.controllers);
  header.filter = writer.section(plan.filter);
  header.argv = write_texts(writer, plan.argv);
  header.envp = write_texts(writer, plan.envp);
  header.candidates = write_texts(writer, plan.candidates);
  return writer.finish(header);
}

Result<PlanView> PlanView::decode(std::span<const std::byte> bytes) {
  if (bytes.size() < sizeof(FlatHeader) || bytes.size() > kMaxFlatBytes) return malformed("size");
  if (reinterpret_cast<std::uintptr_t>(bytes.data()) % kAlignment != 0) {
    return malformed("alignment");
  }
  PlanView view(bytes);
  if (view.header_->magic != kFlatMagic) return malformed("magic");
  if (view.header_->version != kFlatVersion) return malformed("version");
  if (view.header_->size != bytes.size()) return malformed("length");
  TRY_VOID(view.check_sections());
  TRY_VOID(view.check_texts());
  TRY_VOID(view.check_steps());
  return view;
}

Result<void> PlanView::check_sections() const {
  const auto fits = [&](const FlatSection& where, std::size_t item) {
    return where.offset % kAlignment == 0 && where.offset >= sizeof(FlatHeader) &&
           std::uint64_t{where.offset} + std::uint64_t{where.count} * item <= bytes_.size();
  };
  const FlatHeader& h = *header_;
  const bool all = fits(h.early, sizeof(FlatStep)) && fits(h.base, sizeof(FlatStep)) &&
                   fits(h.box, sizeof(FlatStep)) && fits(h.trees, sizeof(FlatTree)) &&
                   fits(h.controllers, sizeof(FlatController)) &&
                   fits(h.filter, sizeof(sock_filter)) && fits(h.argv, sizeof(std::uint32_t)) &&
                   fits(h.envp, sizeof(std::uint32_t)) &&
                   fits(h.candidates, sizeof(std::uint32_t)) && fits(h.strings, 1);
  if (!all) return malformed("section out of bounds");
  if (h.early.count > kMaxSteps || h.base.count > kMaxSteps || h.box.count > kMaxSteps) {
    return malformed("too many steps");
  }
  if (h.trees.count > kMaxTrees || h.controllers.count > kMaxControllers) {
    return malformed("too many trees or controllers");
  }
  if (h.resident > static_cast<std::uint32_t>(Resident::Agent) || h.zero != 0) {
    return malformed("resident");
  }
  const bool has_command = h.argv.count > 0 && h.candidates.count > 0;
  if (has_command != (h.resident == static_cast<std::uint32_t>(Resident::Command))) {
    return malformed("no command");
  }
  if (h.filter.count == 0 || h.filter.count > BPF_MAXINSNS) return malformed("filter");
  if (h.tier > static_cast<std::uint32_t>(host::Tier::User)) return malformed("tier");
  if (h.cgroup_version > static_cast<std::uint32_t>(host::CgroupVersion::V2)) {
    return malformed("cgroup version");
  }
  return {};
}

// Every offset points into the string section, and the section ends with a NUL: so every text ends
// within it.
Result<void> PlanView::check_texts() const {
  const std::uint32_t size = header_->strings.count;
  if (size == 0 || strings()[size - 1] != '\0') return malformed("strings");
  const auto inside = [&](std::uint32_t offset) { return offset < size; };
  for (const auto& list : {argv(), envp(), candidates()}) {
    for (const std::uint32_t offset : list) {
      if (!inside(offset)) return malformed("text offset");
    }
  }
  for (const FlatTree& tree : trees()) {
    if (!inside(tree.path) || text(tree.path)[0] != '/') return malformed("tree path");
    if ((tree.flags & ~(kTreeKept | kTreeImage)) != 0) return malformed("tree flags");
  }
  for (const FlatController& controller : controllers()) {
    if (!inside(controller.name) || !inside(controller.parent)) return malformed("controller");
  }
  for (const auto& list : {early(), base(), box()}) {
    for (const FlatStep& step : list) {
      if (!inside(step.text) || !inside(step.other)) return malformed("step text");
    }
  }
  return {};
}

Result<void> PlanView::check_steps() const {
  for (const auto& list : {early(), base(), box()}) {
    for (const FlatStep& step : list) {
      if (step.op == 0 || step.op > kLastOp || step.zero != 0) return malformed("unknown step");
      const auto op = static_cast<Op>(step.op);
      const std::uint64_t used = op == Op::AttachTree     ? 1
                                 : op == Op::MountOverlay ? 1 + (step.b & 1U) + (step.b >> 1U)
                                                          : 0;
      if (op == Op::MountOverlay && step.b >> 1U > kMaxFrozen) return malformed("frozen layers");
      if (op == Op::VerifyWall && (step.a == 0 || step.a > kLastWall)) return malformed("wall");
      if (used > 0 && (step.a >= header_->trees.count || header_->trees.count - step.a < used)) {
        return malformed("tree index");
      }
    }
  }
  return {};
}

bool PlanView::are_same(std::span<const FlatStep> steps, const PlanView& other,
                        std::span<const FlatStep> others) const {
  return std::ranges::equal(steps, others, [&](const FlatStep& x, const FlatStep& y) {
    return x.op == y.op && x.a == y.a && x.b == y.b &&
           std::strcmp(text(x.text), other.text(y.text)) == 0 &&
           std::strcmp(text(x.other), other.text(y.other)) == 0;
  });
}

bool PlanView::has_same_base(const PlanView& other) const {
  return are_same(base(), other, other.base());
}

std::size_t PlanView::parkable_steps() const {
  const auto is_own = [](const FlatStep& step) { return !is_parkable(static_cast<Op>(step.op)); };
  const auto first_own = std::ranges::find_if(box(), is_own);
  if (first_own == box().end()) return box().size();
  // What every box has ends with its terminals; then come the places for this one's trees.
  const auto usual = std::ranges::find(
      box().begin(), first_own, static_cast<std::uint32_t>(Op::MountTerminals), &FlatStep::op);
  return static_cast<std::size_t>((usual == first_own ? usual : usual + 1) - box().begin());
}

bool PlanView::has_same_cgroup(const PlanView& other) const {
  const FlatHeader& x = header();
  const FlatHeader& y = other.header();
  return x.cgroup_version == y.cgroup_version && x.memory_bytes == y.memory_bytes &&
         x.pids == y.pids && x.cpus_milli == y.cpus_milli &&
         std::ranges::equal(controllers(), other.controllers(),
                            [&](const FlatController& a, const FlatController& b) {
                              return std::strcmp(text(a.name), other.text(b.name)) == 0 &&
                                     std::strcmp(text(a.parent), other.text(b.parent)) == 0;
                            });
}

bool PlanView::has_same_shape(const PlanView& other) const {
  const FlatHeader& x = header();
  const FlatHeader& y = other.header();
  const std::size_t steps = parkable_steps();
  if (x.tier != y.tier || x.uid != y.uid || x.gid != y.gid || x.resident != y.resident ||
      x.has_terminal != y.has_terminal || steps != other.parkable_steps()) {
    return false;
  }
  const bool same_filter =
      std::ranges::equal(filter(), other.filter(), [](const sock_filter& a, const sock_filter& b) {
        return a.code == b.code && a.jt == b.jt && a.jf == b.jf && a.k == b.k;
      });
  return same_filter && has_same_cgroup(other) && are_same(early(), other, other.early()) &&
         has_same_base(other) && are_same(box().first(steps), other, other.box().first(steps));
}

std::vector<std::byte> PlanView::common_part() const {
  std::vector<std::byte> copy(bytes_.size());
  FlatHeader header = *header_;
  const auto keep = [&]<class T>(std::span<const T> items, std::uint32_t offset) {
    std::ranges::copy(std::as_bytes(items), copy.begin() + offset);
  };
  const auto keep_text = [&](std::uint32_t offset) {
    const char* words = text(offset);
    keep(std::span<const char>(words, std::strlen(words)), header.strings.offset + offset);
  };
  const std::span<const FlatStep> steps = box().first(parkable_steps());
  for (const auto& list : {early(), base(), steps}) {
    for (const FlatStep& step : list) {
      keep_text(step.text);
      keep_text(step.other);
    }
  }
  for (const FlatController& controller : controllers()) {
    keep_text(controller.name);
    keep_text(controller.parent);
  }
  keep(early(), header.early.offset);
  keep(base(), header.base.offset);
  keep(steps, header.box.offset);
  keep(controllers(), header.controllers.offset);
  keep(filter(), header.filter.offset);
  header.box.count = static_cast<std::uint32_t>(steps.size());
  header.trees.count = 0;
  header.envp.count = 0;
  // A box for a command has one, though it will not be run: an empty word.
  header.argv.count = std::min(header.argv.count, 1U);
  header.candidates.count = std::min(header.candidates.count, 1U);
  keep(std::span<const FlatHeader>(&header, 1), 0);
  return copy;
}

Step unflatten(const PlanView& plan, const FlatStep& step) {
  return {static_cast<Op>(step.op), step.a, step.b, plan.text(step.text), plan.text(step.other)};
}

}  // namespace glovebox::plan
