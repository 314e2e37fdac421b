#include "launch/launcher_server.h"

#include "base/file.h"
#include "base/pidfd.h"
#include "launch/launcher_protocol.h"
#include "launch/packet.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysinfo.h>

namespace glovebox::launch {
namespace {

// Version 1 does not tell when a fork is refused, and nothing tells of CPU time that was used up.
constexpr std::chrono::milliseconds kLimitCheck{200};
constexpr std::chrono::nanoseconds kShortestCpuCheck = std::chrono::milliseconds(10);
constexpr int kQuietMs = 2;
constexpr std::size_t kMaxBoxes = 10'000;
constexpr int kSeals = F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
constexpr std::uint64_t kClientToken = 0;  // boxes have tokens from 2 on
constexpr std::uint64_t kParkedToken = 1;

enum class Source : std::uint64_t { Process = 0, Memory = 1 };

std::uint64_t token(std::uint64_t id, Source source) {
  return (id + 1) * 2 + static_cast<std::uint64_t>(source);
}

// A plan too large for a packet, from a sealed memfd, which cannot be changed any more.
Result<std::vector<std::byte>> read_sealed(const UniqueFd& memory) {
  const int seals = ::fcntl(memory.get(), F_GET_SEALS);
  if (seals < 0 || (seals & kSeals) != kSeals) return fail(Code::Invalid, "the plan is not sealed");
  struct stat info{};
  if (::fstat(memory.get(), &info) != 0) return fail_os(errno, "the plan");
  const auto size = static_cast<std::size_t>(info.st_size);
  if (size == 0 || size > plan::kMaxFlatBytes) return fail(Code::Invalid, "the plan's size");
  std::vector<std::byte> bytes(size);
  std::size_t done = 0;
  while (done < size) {
    const ssize_t n =
        ::pread(memory.get(), bytes.data() + done, size - done, static_cast<off_t>(done));
    if (n <= 0) return fail_os(n < 0 ? errno : EIO, "read the plan");
    done += static_cast<std::size_t>(n);
  }
  return bytes;
}

}  // namespace

LauncherServer::LauncherServer(Launcher launcher, UniqueFd client)
    : launcher_(std::move(launcher)),
      client_(std::move(client)),
      request_((sizeof(StartPacket) + kMaxInlinePlan) / sizeof(std::uint64_t)) {}

LauncherServer::~LauncherServer() {
  for (const auto& [id, running] : running_) running.box.kill();
  while (!running_.empty()) end_box(running_.begin()->first);
}

Result<void> LauncherServer::run() {
  TRY(ready_, Epoll::open());
  TRY_VOID(ready_.add(client_, EPOLLIN, kClientToken));
  TRY_VOID(ready_.add(launcher_.parked_fd(), EPOLLIN, kParkedToken));
  int patience = kQuietMs;
  while (true) {
    // What can be made ahead of need is made while nothing else happens: beside a box that is just
    // starting it would take a core from it. Once it is quiet, one thing after the other, looking
    // for requests in between.
    TRY(const Served first, serve_ready(patience));
    if (first == Served::Gone) return {};
    patience = kQuietMs;
    if (first == Served::Something) {
      (void)check_due_limits();
      continue;
    }
    TRY_VOID(watch_new_boxes());
    if (launcher_.stock_up()) {
      patience = 0;
      continue;
    }
    TRY(const Served second, serve_ready(check_due_limits()));
    if (second == Served::Gone) return {};
  }
}

Result<LauncherServer::Served> LauncherServer::serve_ready(int timeout_ms) {
  std::array<epoll_event, 64> room;
  TRY(const std::span<const epoll_event> ready, ready_.wait(room, timeout_ms));
  for (const epoll_event& event : ready) {
    const std::uint64_t which = event.data.u64;
    if (which == kClientToken) {
      TRY(const bool open, serve_request());
      if (!open) return Served::Gone;
      continue;
    }
    if (which == kParkedToken) {
      launcher_.reap_parked();
      continue;
    }
    const std::uint64_t id = which / 2 - 1;
    const auto found = running_.find(id);
    if (found == running_.end()) continue;
    if (which == token(id, Source::Process)) {
      end_box(id);
    } else {
      check_limits(found->second);
    }
  }
  return ready.empty() ? Served::Nothing : Served::Something;
}

Result<bool> LauncherServer::serve_request() {
  const auto received = receive_packet_into(client_, std::as_writable_bytes(std::span(request_)));
  if (!received && received.error().os_errno == ECONNRESET) return false;
  if (!received) return tl::unexpected(received.error());
  const PacketView& packet = *received;
  if (packet.bytes.empty()) return false;
  std::uint64_t id = 0;
  auto box = start(packet, id);
  // Boxes that are begun from here on are copies of this process.
  ::explicit_bzero(request_.data(), packet.bytes.size());
  if (!box) {
    TRY_VOID(reply_failed(id, box.error()));
    return true;
  }
  ReplyPacket reply{};
  reply.kind = ReplyKind::Started;
  reply.id = id;
  reply.pid = box->pid;
  reply.was_parked = box->was_parked ? 1 : 0;
  add_counts(reply);
  const std::string name = box->cgroup.name();
  const std::span<const std::byte> parts[] = {bytes_of(reply), std::as_bytes(std::span(name))};
  const int pidfd = box->init.get();
  TRY_VOID(send_packet(client_, parts, {&pidfd, 1}));
  running_.emplace(id, Running{*std::move(box), 0, Clock::now()});
  unwatched_.push_back(id);
  TRY_VOID(ready_.add(running_.at(id).box.init, EPOLLIN, token(id, Source::Process)));
  return true;
}

void LauncherServer::add_counts(ReplyPacket& reply) const {
  const ParkedCounts counts = launcher_.parked_counts();
  reply.parked = counts.parked;
  reply.refills = counts.refills;
}

// Setting up the watch of a box's limits waits until there is nothing else to do, a few
// milliseconds at the most: a box that has ended by then never needed one.
Result<void> LauncherServer::watch_new_boxes() {
  for (const std::uint64_t id : unwatched_) {
    if (running_.contains(id)) TRY_VOID(watch_box(id));
  }
  unwatched_.clear();
  return {};
}

Result<Box> LauncherServer::start(const PacketView& packet, std::uint64_t& id) {
  StartPacket request{};
  if (packet.bytes.size() < sizeof(request)) return fail(Code::Invalid, "a short request");
  std::memcpy(&request, packet.bytes.data(), sizeof(request));
  id = request.id;
  if (request.version != kWireVersion || request.terminal_mask > 7) {
    return fail(Code::Invalid, "a request of an unknown form");
  }
  if (running_.size() >= kMaxBoxes || running_.contains(id)) {
    return fail(Code::Exhausted, "too many boxes, or the same id twice");
  }
  StartFiles files;
  std::size_t next = 0;
  const auto take = [&]() -> int {
    return next < packet.fds.size() ? packet.fds[next++].get() : -1;
  };
  files.keep_parked = request.keep_parked;
  files.status = take();
  for (std::size_t i = 0; i < 3; ++i) {
    files.stdio.at(i) = (request.terminal_mask & (1U << i)) != 0 ? -1 : take();
    const bool missing = files.stdio.at(i) < 0 && (request.terminal_mask & (1U << i)) == 0;
    if (missing) return fail(Code::Invalid, "a request without its descriptors");
  }
  static_assert(sizeof(request) % alignof(plan::FlatHeader) == 0);
  std::span<const std::byte> bytes = packet.bytes.subspan(sizeof(request));
  std::vector<std::byte> large;
  if (request.plan_is_inline == 0) {
    if (next >= packet.fds.size()) return fail(Code::Invalid, "a request without its plan");
    TRY(large, read_sealed(packet.fds[next++]));
    bytes = large;
  }
  if (files.status < 0 || next != packet.fds.size()) {
    return fail(Code::Invalid, "a request with other descriptors than it names");
  }
  auto box = start_decoded(bytes, files);
  if (!large.empty()) ::explicit_bzero(large.data(), large.size());
  return box;
}

Result<Box> LauncherServer::start_decoded(std::span<const std::byte> bytes,
                                          const StartFiles& files) {
  TRY(const plan::PlanView view, plan::PlanView::decode(bytes));
  return launcher_.start(view, files);
}

Result<void> LauncherServer::watch_box(std::uint64_t id) {
  Running& running = running_.at(id);
  TRY_VOID(running.box.cgroup.watch());
  check_limits(running);
  const BorrowedFd memory(running.box.cgroup.memory_event_fd());
  if (memory.get() < 0) return {};
  return ready_.add(memory, EPOLLIN | EPOLLPRI, token(id, Source::Memory));
}

void LauncherServer::check_limits(Running& running) {
  const CgroupCounts counts = running.box.cgroup.counts(Cgroup::Usage::Skip);
  if (counts.out_of_memory) return end_by(running, LimitKind::Memory);
  if (counts.pids_refused) return end_by(running, LimitKind::Pids);
  if (running.box.cpu_limit_ns != 0) check_cpu(running);
}

// A limit that can no longer be watched is not kept: the box ends then, too.
void LauncherServer::check_cpu(Running& running) {
  const std::uint64_t limit = running.box.cpu_limit_ns;
  const std::optional<std::uint64_t> used = running.box.cgroup.cpu_ns();
  if (!used || *used >= limit) return end_by(running, LimitKind::Cpu);
  // All cores busy use what is left no sooner than this.
  const std::chrono::nanoseconds left(static_cast<std::int64_t>(limit - *used));
  running.next_cpu = Clock::now() + std::max(left / ::get_nprocs(), kShortestCpuCheck);
}

void LauncherServer::end_by(Running& running, LimitKind limit) {
  running.limit = static_cast<std::uint32_t>(limit) + 1;
  running.box.kill();
}

int LauncherServer::check_due_limits() {
  if (running_.empty()) return -1;
  const Clock::time_point now = Clock::now();
  const bool is_all = now >= next_check_;
  if (is_all) next_check_ = now + kLimitCheck;
  Clock::time_point next = next_check_;
  for (auto& [id, running] : running_) {
    if (running.limit != 0) continue;
    const bool has_cpu = running.box.cpu_limit_ns != 0;
    if (is_all || (has_cpu && now >= running.next_cpu)) check_limits(running);
    if (has_cpu && running.limit == 0) next = std::min(next, running.next_cpu);
  }
  const auto wait = std::chrono::ceil<std::chrono::milliseconds>(next - now).count();
  return static_cast<int>(std::max<std::int64_t>(wait, 1));
}

void LauncherServer::end_box(std::uint64_t id) {
  const auto found = running_.find(id);
  Running& running = found->second;
  (void)reap_process(running.box.init);  // it has ended, or has been killed and is waited for
  if (running.limit == 0) check_limits(running);
  const CgroupCounts counts = running.box.cgroup.counts(Cgroup::Usage::Read);
  // Closing a descriptor ends the watch only when no other process has it too, and the client has
  // the pidfd of each box.
  ready_.remove(running.box.init);
  ready_.remove(BorrowedFd(running.box.cgroup.memory_event_fd()));
  ReplyPacket reply{};
  reply.kind = ReplyKind::Ended;
  reply.id = id;
  reply.limit = running.limit;
  add_counts(reply);
  reply.cpu_ns = counts.cpu_ns.value_or(kUnknown);
  reply.peak_memory_bytes = counts.peak_memory_bytes.value_or(kUnknown);
  running_.erase(found);  // removes the cgroup and gives the uid back
  const std::span<const std::byte> part = bytes_of(reply);
  (void)send_packet(client_, {&part, 1}, {});  // a client that is gone is noticed by the next read
}

Result<void> LauncherServer::reply_failed(std::uint64_t id, const Error& error) {
  ReplyPacket reply{};
  reply.kind = ReplyKind::Failed;
  reply.id = id;
  reply.code = static_cast<std::uint32_t>(error.code);
  reply.os_errno = error.os_errno;
  const std::string sentence = error.message.substr(0, kMaxSentence);
  const std::span<const std::byte> parts[] = {bytes_of(reply), std::as_bytes(std::span(sentence))};
  return send_packet(client_, parts, {});
}

}  // namespace glovebox::launch
