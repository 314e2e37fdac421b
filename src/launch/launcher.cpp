#include "launch/launcher.h"

#include "base/file.h"
#include "base/pidfd.h"
#include "base/pipe.h"
#include "launch/child/context.h"
#include "launch/child/init_message.h"
#include "launch/child/read_back.h"
#include "launch/child/sys.h"
#include "launch/id_mapped.h"
#include "launch/loop_image.h"
#include "launch/namespaces.h"
#include "launch/packet.h"
#include "launch/stopwatch.h"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>

#include <fcntl.h>
#include <grp.h>
#include <linux/mount.h>
#include <linux/sched.h>
#include <linux/securebits.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>

namespace glovebox::launch {
namespace {

constexpr const char* kRemedy = "run 'glovebox doctor' to see what this host allows";
constexpr std::uint64_t kNamespaces =
    CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWIPC | CLONE_NEWUTS;
#ifndef CLONE_CLEAR_SIGHAND
constexpr std::uint64_t kClearSignalHandlers = 0x100000000ULL;
#else
constexpr std::uint64_t kClearSignalHandlers = CLONE_CLEAR_SIGHAND;
#endif
#ifndef CLONE_INTO_CGROUP
constexpr std::uint64_t kIntoCgroup = 0x200000000ULL;
#else
constexpr std::uint64_t kIntoCgroup = CLONE_INTO_CGROUP;
#endif

// Boxes inherit the launcher's session keyring. A named one is shared by all launchers of a user,
// so that many runs do not use up the user's key quota; boxes cannot call the keyring at all.
Result<void> join_own_keyring() {
  constexpr int kJoinSessionKeyring = 1;  // KEYCTL_JOIN_SESSION_KEYRING
  const long serial = ::syscall(SYS_keyctl, kJoinSessionKeyring, "_glovebox");
  if (serial > 0 || (serial < 0 && errno == ENOSYS)) return {};
  if (serial == 0) return fail_not_in_force("join a session keyring of the launcher's own");
  return fail_os(errno, "join a session keyring of the launcher's own");
}

// Without this, what is mounted in a copy of the host's mounts could appear on the host.
Result<void> expect_no_shared_mounts() {
  constexpr std::size_t kMostMountBytes = 64U << 20;
  TRY(const std::string mounts, read_file("/proc/self/mountinfo", kMostMountBytes));
  if (mounts.find(" shared:") == std::string::npos) return {};
  return fail_not_in_force("cut the mounts off from the host");
}

bool is_for_agent(const plan::PlanView& plan) {
  return plan.header().resident == static_cast<std::uint32_t>(plan::Resident::Agent);
}

bool wants_loopback(const plan::PlanView& plan) {
  return std::ranges::any_of(plan.early(), [](const plan::FlatStep& step) {
    return static_cast<plan::Op>(step.op) == plan::Op::BeginNetwork && step.a != 0;
  });
}

// Whether a parked box has room for this plan.
bool hands_out_layers(const plan::PlanView& plan) {
  return std::ranges::any_of(plan.box(), [](const plan::FlatStep& step) {
    return static_cast<plan::Op>(step.op) == plan::Op::HandOutLayer;
  });
}

bool fits_hand_out(const plan::PlanView& plan) {
  if (hands_out_layers(plan)) return false;
  const std::size_t texts = plan.argv().size() + plan.envp().size() + plan.candidates().size() + 3;
  return plan.header().has_terminal == 0 && plan.bytes().size() <= kMaxHandedBytes &&
         texts <= kMaxHandedTexts && plan.trees().size() <= kMaxHandedTrees;
}

std::vector<char*> pointers(const plan::PlanView& plan, std::span<const std::uint32_t> texts) {
  std::vector<char*> list;
  list.reserve(texts.size() + 1);
  for (const std::uint32_t offset : texts) list.push_back(const_cast<char*>(plan.text(offset)));
  list.push_back(nullptr);
  return list;
}

// As root, the ids that the box's process is born with. Undone by the destructor, whatever happens.
class BornAs {
 public:
  static Result<BornAs> become(std::uint32_t id) {
    if (::syscall(SYS_setresgid, id, id, 0) != 0) return fail_os(errno, "take gid {}", id);
    if (::syscall(SYS_setresuid, id, id, 0) != 0) {
      const int os_errno = errno;
      if (::syscall(SYS_setresgid, 0, 0, 0) != 0) std::abort();
      return fail_os(os_errno,
                     "take uid {} (is it mapped in this container? see GLOVEBOX_UID_RANGE)", id);
    }
    BornAs born;
    // A change of identity makes a process undumpable and its /proc files root's; the box's first
    // process must write its own id maps there. It becomes undumpable again right after.
    if (::prctl(PR_SET_DUMPABLE, 1, 0, 0, 0) != 0) return fail_os(errno, "set dumpable");
    return born;
  }
  BornAs(BornAs&& other) noexcept : active_(std::exchange(other.active_, false)) {}
  BornAs& operator=(BornAs&&) = delete;
  ~BornAs() {
    if (!active_) return;
    // Back to root by the saved id. Going on as another user would be worse than ending.
    if (::syscall(SYS_setresuid, 0, 0, 0) != 0 || ::syscall(SYS_setresgid, 0, 0, 0) != 0) {
      std::abort();
    }
  }

 private:
  BornAs() = default;
  bool active_ = true;
};

}  // namespace

Result<Launcher> Launcher::enter(const host::HostFacts& facts, Life life) {
  Launcher launcher(facts.tier, life);
  TRY(launcher.namespaces_, own_namespaces());
  TRY_VOID(join_own_keyring());
  TRY(launcher.self_, open_pidfd(::getpid()));
  if (facts.tier == host::Tier::Root) {
    UidRange range;
    if (const char* text = ::getenv("GLOVEBOX_UID_RANGE")) {
      TRY(range, parse_uid_range(text));
    }
    TRY(launcher.leases_, UidLeases::open(range));
    if (::setgroups(0, nullptr) != 0) return fail_os(errno, "drop supplementary groups");
    if (::getgroups(0, nullptr) != 0) return fail_not_in_force("drop supplementary groups");
    // Capabilities stay through the changes of uid around each clone.
    if (::prctl(PR_SET_SECUREBITS, SECBIT_NO_SETUID_FIXUP, 0, 0, 0) != 0) {
      return fail_os(errno, "set securebits");
    }
  }
  launcher.own_uid_ = facts.uid;
  launcher.own_gid_ = facts.gid;
  if (life == Life::OneBox) return launcher;
  launcher.leftovers_.find(facts.cgroups);
  if (facts.tier == host::Tier::User) TRY_VOID(launcher.enter_user_namespace());
  TRY_VOID(launcher.enter_mount_namespace());
  TRY(launcher.null_, open_file("/dev/null", O_RDWR));
  TRY_VOID(launcher.parked_.open());
  return launcher;
}

void Launcher::hide_arguments(int argc, char** argv) {
  if (argc <= 0) return;
  // The kernel lays them out one after the other.
  char* end = argv[argc - 1] + std::strlen(argv[argc - 1]) + 1;
  title_ = {argv[0], static_cast<std::size_t>(end - argv[0])};
}

Result<void> Launcher::enter_user_namespace() {
  TRY_VOID(make_namespace(kUserNamespace));
  if (!write_id_maps(own_uid_, own_uid_, own_gid_, own_gid_)) {
    return fail_os(errno, "map the caller into a user namespace ({})", kRemedy);
  }
  return {};
}

// Mounts made on the host later still appear in the host's view (slave); nothing that is mounted
// here ever appears on the host.
Result<void> Launcher::enter_mount_namespace() {
  TRY_VOID(make_namespace(kMountNamespace));
  const sys::MountAttributes change{0, 0, MS_SLAVE, 0};
  if (!sys::mount_setattr(AT_FDCWD, "/", AT_RECURSIVE, change)) {
    return fail_os(errno, "cut the mounts off from the host");
  }
  TRY_VOID(expect_no_shared_mounts());
  TRY(host_view_, open_file("/proc/self/ns/mnt", O_RDONLY));
  return networks_.open();
}

// Where this process stands decides what a clone copies, so it is tracked, and a box is cloned from
// the finished base view or not at all (clone_box checks). After a move that failed half way the
// place is taken for unfinished, and the next move goes there again.
Result<void> Launcher::go_outside() {
  if (view_ == View::Host) return {};
  view_ = View::Unfinished;
  TRY_VOID(enter_namespace(host_view_, kMountNamespace));
  view_ = View::Host;
  return {};
}

Result<void> Launcher::go_inside() {
  if (view_ == View::Base) return {};
  view_ = View::Unfinished;
  TRY_VOID(enter_namespace(base_view_, kMountNamespace));
  view_ = View::Base;
  return {};
}

// Without the right to copy mounts out here (an ordinary user's launcher for one box), the box's
// first process opens the trees; their places stay empty.
Result<std::vector<UniqueFd>> Launcher::open_trees(const plan::PlanView& plan, std::uint32_t uid) {
  std::vector<UniqueFd> trees(plan.trees().size());
  if (trees.empty() || (tier_ == host::Tier::User && life_ == Life::OneBox)) return trees;
  TRY_VOID(go_outside());
  IdMaps maps(uid);
  for (std::size_t i = 0; i < trees.size(); ++i) {
    const plan::FlatTree& tree = plan.trees()[i];
    int userns = -1;
    if (tier_ == host::Tier::Root && (tree.flags & plan::kTreeKept) == 0) {
      TRY(const BorrowedFd map, maps.from(tree.owner, tree.group));
      userns = map.get();
    }
    if ((tree.flags & plan::kTreeImage) != 0) {
      TRY(trees[i], open_image_tree(plan.text(tree.path), tree, userns));
      continue;
    }
    trees[i] = UniqueFd(open_host_tree(plan.text(tree.path), tree, tree.attributes, userns));
    if (!trees[i]) return tl::unexpected(tree_error(plan.text(tree.path), errno));
  }
  return trees;
}

// What is in a filesystem image, as a detached tree like those of the host.
Result<UniqueFd> Launcher::open_image_tree(const char* path, const plan::FlatTree& tree,
                                           int userns) {
  TRY(const UniqueFd image, open_image(path));
  struct stat info{};
  if (::fstat(image.get(), &info) != 0) return fail_os(errno, "{}", path);
  if (info.st_dev != tree.device || info.st_ino != tree.inode) {
    return tl::unexpected(tree_error(path, ESTALE));
  }
  TRY(UniqueFd mount, mount_image(image));
  sys::MountAttributes change{tree.attributes, 0, 0, 0};
  if (userns >= 0) {
    change.set |= MOUNT_ATTR_IDMAP;
    change.userns_fd = static_cast<std::uint64_t>(userns);
  }
  if (!sys::mount_setattr(mount.get(), "", AT_EMPTY_PATH, change)) {
    return tl::unexpected(tree_error(path, errno));
  }
  return mount;
}

Result<void> Launcher::build_base(const plan::PlanView& plan) {
  if (base_plan_ && base_plan_->has_same_base(plan)) return go_inside();
  TRY_VOID(go_outside());
  base_plan_.reset();
  base_view_.reset();
  view_ = View::Unfinished;
  TRY_VOID(make_namespace(kMountNamespace));
  ChildContext context;
  context.strings = plan.strings();
  const mode_t mask = ::umask(0);
  for (const plan::FlatStep& step : plan.base()) {
    if (run_step(context, step)) continue;
    const int os_errno = errno;
    ::umask(mask);
    return tl::unexpected(step_error(plan::unflatten(plan, step), os_errno));
  }
  ::umask(mask);
  base_device_ = context.root_device;
  TRY(base_view_, open_file("/proc/self/ns/mnt", O_RDONLY));
  view_ = View::Base;
  base_bytes_ = plan.common_part();
  TRY(base_plan_, plan::PlanView::decode(base_bytes_));
  return {};
}

ChildContext Launcher::context_for(const plan::PlanView& plan, const StartFiles& files,
                                   const Box& box) const {
  const bool root = tier_ == host::Tier::Root;
  ChildContext context;
  context.early = plan.early();
  context.base = plan.base();
  context.base_is_built = life_ == Life::Serving;
  context.box = plan.box();
  context.strings = plan.strings();
  context.filter = plan.filter();
  context.trees = plan.trees();
  context.cgroup_fds = box.cgroup.join_fds();
  context.leave_fds = box.cgroup.leave_fds();
  context.cgroups_awaited = cgroup_comes_later(plan) ? plan.controllers().size() : 0;
  context.outside_uid = root ? box.uid.uid() : own_uid_;
  context.outside_gid = root ? box.uid.uid() : own_gid_;
  context.title = title_;
  context.agent = is_for_agent(plan) ? agent_ : nullptr;
  context.launcher_fd = self_.get();
  std::ranges::copy(namespaces_, context.outside_namespaces);
  context.root_device = base_device_;
  context.status_fd = files.status;
  context.order_fd = files.order;
  context.park_after = files.order >= 0 ? plan.parkable_steps() : 0;
  context.status_outside = files.status_outside;
  for (std::size_t i = 0; i < 3; ++i) context.stdio[i] = files.stdio.at(i);
  return context;
}

Result<void> Launcher::clone_box(const plan::PlanView& plan, const StartFiles& files,
                                 const std::vector<UniqueFd>& trees, Box& box) {
  GLOVEBOX_CHECK(life_ == Life::OneBox || view_ == View::Base);
  std::vector<int> tree_fds;
  tree_fds.reserve(trees.size());
  for (const UniqueFd& tree : trees) tree_fds.push_back(tree.get());
  const std::vector<char*> argv = pointers(plan, plan.argv());
  const std::vector<char*> envp = pointers(plan, plan.envp());
  const std::vector<char*> candidates = pointers(plan, plan.candidates());
  ChildContext context = context_for(plan, files, box);
  context.tree_fds = tree_fds;
  context.argv = argv.data();
  context.envp = envp.data();
  context.candidates = {const_cast<const char* const*>(candidates.data()), candidates.size() - 1};

  TRY_VOID(networks_.leave());
  // Pooled namespaces have loopback up.
  std::optional<NetworkPool::Resolver> resolver;
  if (wants_loopback(plan)) {
    TRY(resolver, networks_.enter());
  }
  context.network_is_given = resolver.has_value();
  for (std::size_t i = 0; resolver && i < kResolverFds; ++i) {
    context.resolver_fds[i] = resolver->at(i).get();
  }
  auto cloned = clone_process(context, box);
  if (!context.network_is_given) return cloned;
  auto left = networks_.leave();
  if (left) return cloned;
  if (cloned) box.kill_and_reap();
  return left;
}

Result<void> Launcher::clone_process(ChildContext& context, Box& box) {
  int pidfd = -1;
  clone_args args{};
  args.flags = kNamespaces | kClearSignalHandlers | CLONE_PIDFD;
  args.pidfd = reinterpret_cast<std::uint64_t>(&pidfd);
  args.exit_signal = SIGCHLD;
  if (box.cgroup.clone_into_fd() >= 0) {
    args.flags |= kIntoCgroup;
    args.cgroup = static_cast<std::uint64_t>(box.cgroup.clone_into_fd());
  }
  std::optional<BornAs> born;
  if (tier_ == host::Tier::Root) {
    TRY(BornAs as_box, BornAs::become(box.uid.uid()));
    born.emplace(std::move(as_box));
  }
  const long pid = clone_child(args);
  const int clone_errno = errno;
  if (pid == 0) run_box(context);
  born.reset();
  if (pid < 0 && clone_errno == kNotInForce) {
    return fail_not_in_force("clone the box into new namespaces");
  }
  if (pid < 0) return fail_os(clone_errno, "clone the box into new namespaces ({})", kRemedy);
  box.init = UniqueFd(pidfd);
  box.pid = static_cast<pid_t>(pid);
  return {};
}

// On version 1 the command joins its cgroups just before it executes, so a launcher that has none
// ready makes them while the box builds itself. On version 2 the box is cloned into its cgroup.
bool Launcher::cgroup_comes_later(const plan::PlanView& plan) const {
  return life_ == Life::OneBox && !plan.controllers().empty() &&
         plan.header().cgroup_version == static_cast<std::uint32_t>(host::CgroupVersion::V1);
}

Result<void> Launcher::send_cgroup(const plan::PlanView& plan, const StartFiles& files, Box& box) {
  TRY(box.cgroup, make_cgroup(plan));
  const Order order{kOrderJoin, 0};
  const std::span<const std::byte> part = bytes_of(order);
  std::vector<int> fds = box.cgroup.join_fds();
  fds.insert(fds.end(), box.cgroup.leave_fds().begin(), box.cgroup.leave_fds().end());
  auto sent = send_packet(BorrowedFd(files.status_outside), {&part, 1}, fds);
  // A box that has failed already has said why; its supervisor reads that.
  if (!sent && sent.error().os_errno == EPIPE) return {};
  return sent;
}

Result<Box> Launcher::start(const plan::PlanView& plan, const StartFiles& files) {
  if (plan.header().tier != static_cast<std::uint32_t>(tier_)) {
    return fail(Code::Invalid, "the plan was made for another kind of launcher");
  }
  if (is_for_agent(plan) && agent_ == nullptr) {
    return fail(Code::Unsupported, "this launcher has no session agent");
  }
  if (auto parked = find_parked(plan, files)) return *std::move(parked);
  Box box;
  box.cpu_limit_ns = plan.header().cpu_ns;
  Stopwatch watch(box.times);
  if (leases_) {
    TRY(box.uid, leases_->take());
  }
  if (!plan.controllers().empty() && !cgroup_comes_later(plan)) {
    TRY(box.cgroup, make_cgroup(plan));
    watch.lap("make-cgroup");
  }
  TRY(const std::vector<UniqueFd> trees, open_trees(plan, box.uid.uid()));
  watch.lap("open-trees");
  if (life_ == Life::Serving) {
    TRY_VOID(build_base(plan));
    watch.lap("base-view");
  }
  TRY_VOID(clone_box(plan, files, trees, box));
  watch.lap("clone");
  if (cgroup_comes_later(plan)) {
    TRY_VOID(send_cgroup(plan, files, box));
    watch.lap("make-cgroup (beside the box's own steps)");
  }
  return box;
}

Result<Cgroup> Launcher::make_cgroup(const plan::PlanView& plan) {
  if (life_ == Life::Serving) {
    if (auto ready = cgroups_.take(plan)) return *std::move(ready);
  }
  TRY_VOID(go_outside());
  return Cgroup::create(plan, ++serial_);
}

bool Launcher::stock_up() {
  leftovers_.remove();
  if (const plan::PlanView* plan = cgroups_.wanted()) {
    // What cannot be made ahead is made, or refused with its reason, when it is asked for.
    if (!go_outside()) return false;
    auto made = Cgroup::create(*plan, ++serial_);
    if (base_plan_ && !go_inside()) return false;
    if (made) {
      cgroups_.add(*std::move(made));
      return true;
    }
  }
  const auto added = networks_.add_one();
  if (added && *added) return true;
  const plan::PlanView* shape = parked_.wanted();
  if (shape == nullptr) return false;
  auto parked = park(*shape);
  if (parked) {
    parked_.add(*std::move(parked));
  } else {
    parked_.give_up();
  }
  return true;
}

// Everything of a start that comes before the request is known.
Result<ParkedBox> Launcher::park(const plan::PlanView& plan) {
  TRY(SocketPair pair, open_socket_pair(SOCK_SEQPACKET));
  ParkedBox parked;
  parked.order = std::move(pair.ours);
  if (leases_) {
    TRY(parked.box.uid, leases_->take());
  }
  if (!plan.controllers().empty()) {
    TRY(parked.box.cgroup, make_cgroup(plan));
  }
  TRY_VOID(build_base(plan));
  StartFiles files;
  files.stdio.fill(null_.get());
  files.status = pair.theirs.get();
  files.order = pair.theirs.get();
  TRY_VOID(clone_box(plan, files, {}, parked.box));
  parked.box.was_parked = true;
  return parked;
}

Result<Box> Launcher::hand_out(const plan::PlanView& plan, const StartFiles& files,
                               const std::vector<UniqueFd>& trees, ParkedBox parked) {
  std::vector<int> fds{files.status, files.stdio[0], files.stdio[1], files.stdio[2]};
  for (const UniqueFd& tree : trees) fds.push_back(tree.get());
  const HandOut head{kHandOutMagic, static_cast<std::uint32_t>(trees.size()), 0};
  const std::span<const std::byte> parts[] = {bytes_of(head), plan.bytes()};
  TRY_VOID(send_packet(parked.order, parts, fds));
  parked.box.cpu_limit_ns = plan.header().cpu_ns;
  return std::move(parked.box);
}

// A parked box that does not answer any more is put away, and another one tried. What is wrong with
// the request itself is said by the start that follows.
std::optional<Box> Launcher::find_parked(const plan::PlanView& plan, const StartFiles& files) {
  const bool has_streams = std::ranges::all_of(files.stdio, [](int fd) { return fd >= 0; });
  if (life_ != Life::Serving || files.keep_parked == 0 || !has_streams || !fits_hand_out(plan)) {
    return std::nullopt;
  }
  parked_.expect(plan, files.keep_parked);
  while (auto parked = parked_.take(plan)) {
    const auto trees = open_trees(plan, parked->box.uid.uid());
    if (!trees) {
      parked_.put_back(plan, *std::move(parked));
      return std::nullopt;
    }
    auto box = hand_out(plan, files, *trees, *std::move(parked));
    if (box) return *std::move(box);
  }
  return std::nullopt;
}

Error tree_error(std::string_view path, int os_errno) {
  if (os_errno == ESTALE) {
    return Error{Code::Denied, 0,
                 fmt::format("{} was replaced while the box was being started", path)};
  }
  if (os_errno == EINVAL) {
    return Error{
        Code::Unsupported, os_errno,
        fmt::format("{}: its filesystem (or one mounted below it) does not take idmapped "
                    "mounts, so its owner cannot be made the box's user (run as that owner "
                    "instead of root)",
                    path)};
  }
  return Error{Code::Os, os_errno, fmt::format("hand in {}: {}", path, errno_text(os_errno))};
}

Error step_error(const plan::Step& step, int os_errno) {
  if (os_errno == kNotInForce) {
    return Error{Code::Os, os_errno,
                 fmt::format("launch step '{}': the call was answered, but what it is for is not "
                             "there: something around glovebox (a filter, a tracer) answers in "
                             "the kernel's place ({})",
                             plan::to_text(step), kRemedy)};
  }
  if (step.op == plan::Op::ChangeDirectory && os_errno == EACCES) {
    return Error{Code::Denied, os_errno,
                 fmt::format("{}: the box cannot enter it, because its owner and mode keep the "
                             "box's user out (choose another directory with --cwd)",
                             step.text)};
  }
  return Error{
      Code::Os, os_errno,
      fmt::format("launch step '{}': {} ({})", plan::to_text(step), errno_text(os_errno), kRemedy)};
}

}  // namespace glovebox::launch
