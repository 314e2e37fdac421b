#include "launch/launcher_client.h"

#include "base/file.h"
#include "base/pidfd.h"
#include "base/pipe.h"
#include "launch/launcher_protocol.h"
#include "launch/packet.h"
#include "plan/flat_plan.h"

#include <cerrno>
#include <csignal>
#include <cstring>

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/socket.h>

namespace glovebox::launch {
namespace {

constexpr int kLauncherFd = 3;
constexpr int kPatienceMs = 5000;

struct Reply {
  ReplyPacket head{};
  std::string sentence;
  std::vector<UniqueFd> fds;
};

Result<Reply> receive_reply(BorrowedFd socket) {
  std::byte buffer[sizeof(ReplyPacket) + kMaxSentence];
  TRY(PacketView packet, receive_packet_into(socket, buffer));
  if (packet.bytes.size() < sizeof(ReplyPacket)) {
    return fail(Code::Os, "the launcher process is gone");
  }
  Reply reply;
  std::memcpy(&reply.head, packet.bytes.data(), sizeof(ReplyPacket));
  reply.sentence.assign(reinterpret_cast<const char*>(packet.bytes.data()) + sizeof(ReplyPacket),
                        packet.bytes.size() - sizeof(ReplyPacket));
  reply.fds = std::move(packet.fds);
  return reply;
}

RemoteEnd to_end(const ReplyPacket& reply) {
  const auto known = [](std::uint64_t value) -> std::optional<std::uint64_t> {
    if (value == kUnknown) return std::nullopt;
    return value;
  };
  RemoteEnd end{std::nullopt, known(reply.cpu_ns), known(reply.peak_memory_bytes)};
  if (reply.limit != 0) end.limit = static_cast<LimitKind>(reply.limit - 1);
  return end;
}

Result<UniqueFd> sealed(std::span<const std::byte> bytes) {
  UniqueFd memory(::memfd_create("glovebox-plan", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!memory) return fail_os(errno, "memfd_create");
  TRY_VOID(write_all(memory, {reinterpret_cast<const char*>(bytes.data()), bytes.size()}));
  if (::fcntl(memory.get(), F_ADD_SEALS,
              F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) {
    return fail_os(errno, "seal the plan");
  }
  return memory;
}

}  // namespace

Result<LauncherClient> LauncherClient::start(const std::string& program) {
  TRY(SocketPair pair, open_socket_pair(SOCK_SEQPACKET));
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_adddup2(&actions, pair.theirs.get(), kLauncherFd);
  char* argv[] = {const_cast<char*>(program.c_str()), nullptr};
  pid_t pid = 0;
  const int problem = ::posix_spawn(&pid, program.c_str(), &actions, nullptr, argv, environ);
  ::posix_spawn_file_actions_destroy(&actions);
  if (problem != 0) return fail_os(problem, "start {}", program);
  auto process = open_pidfd(pid);
  return LauncherClient(std::move(pair.ours), process ? *std::move(process) : UniqueFd(), pid);
}

LauncherClient::~LauncherClient() {
  if (!process_) return;
  // It ends by itself when its socket closes, and puts its cgroups away; a stuck one is killed.
  socket_.reset();
  pollfd wait{process_.get(), POLLIN, 0};
  if (::poll(&wait, 1, kPatienceMs) <= 0) (void)kill_process(process_);
  (void)reap_process(process_);
}

Result<void> LauncherClient::send_start(const plan::LaunchPlan& plan,
                                        const std::array<int, 3>& stdio, int status,
                                        std::uint64_t id, std::uint32_t keep_parked) {
  const std::vector<std::byte> bytes = plan::encode(plan);
  StartPacket request{};
  request.version = kWireVersion;
  request.plan_is_inline = bytes.size() <= kMaxInlinePlan ? 1 : 0;
  request.id = id;
  request.keep_parked = keep_parked;
  std::vector<int> fds{status};
  for (std::size_t i = 0; i < stdio.size(); ++i) {
    if (stdio.at(i) < 0) {
      request.terminal_mask |= 1U << i;
    } else {
      fds.push_back(stdio.at(i));
    }
  }
  std::vector<std::span<const std::byte>> parts{bytes_of(request)};
  UniqueFd memory;
  if (request.plan_is_inline != 0) {
    parts.emplace_back(bytes);
  } else {
    TRY(memory, sealed(bytes));
    fds.push_back(memory.get());
  }
  return send_packet(socket_, parts, fds);
}

Result<RemoteBox> LauncherClient::ask_for_box(const plan::LaunchPlan& plan,
                                              const std::array<int, 3>& stdio,
                                              std::uint32_t keep_parked) {
  TRY(SocketPair pair, open_socket_pair(SOCK_SEQPACKET));
  RemoteBox box;
  box.id = ++next_id_;
  box.status = std::move(pair.ours);
  TRY_VOID(send_start(plan, stdio, pair.theirs.get(), box.id, keep_parked));
  return box;
}

Result<BoxNews> LauncherClient::receive_news() {
  TRY(Reply reply, receive_reply(socket_));
  const std::uint64_t id = reply.head.id;
  if (reply.head.kind != ReplyKind::Failed) {
    parked_ = {static_cast<std::uint32_t>(reply.head.parked), reply.head.refills};
  }
  if (reply.head.kind == ReplyKind::Ended) return BoxEnded{id, to_end(reply.head)};
  if (reply.head.kind == ReplyKind::Failed) {
    return BoxFailed{
        id, Error{static_cast<Code>(reply.head.code), reply.head.os_errno, reply.sentence}};
  }
  if (reply.fds.size() != 1) return fail(Code::Os, "the launcher sent no handle of the box");
  return BoxStarted{id, std::move(reply.fds.front()), reply.head.was_parked != 0,
                    std::move(reply.sentence)};
}

Result<RemoteBox> LauncherClient::start_box(const plan::LaunchPlan& plan,
                                            const std::array<int, 3>& stdio,
                                            std::uint32_t keep_parked) {
  TRY(RemoteBox box, ask_for_box(plan, stdio, keep_parked));
  while (true) {
    TRY(BoxNews news, receive_news());
    if (const auto* ended = std::get_if<BoxEnded>(&news)) {
      ended_.emplace(ended->id, ended->end);
      continue;
    }
    if (const auto* failed = std::get_if<BoxFailed>(&news); failed && failed->id == box.id) {
      return tl::unexpected(failed->error);
    }
    auto* started = std::get_if<BoxStarted>(&news);
    if (!started || started->id != box.id) {
      return fail(Code::Os, "the launcher answered out of turn");
    }
    box.init = std::move(started->init);
    box.cgroup = std::move(started->cgroup);
    box.was_parked = started->was_parked;
    return box;
  }
}

Result<RemoteEnd> LauncherClient::await_end(std::uint64_t id) {
  while (true) {
    if (const auto found = ended_.find(id); found != ended_.end()) {
      RemoteEnd end = found->second;
      ended_.erase(found);
      return end;
    }
    TRY(const BoxNews news, receive_news());
    const auto* ended = std::get_if<BoxEnded>(&news);
    if (ended == nullptr) return fail(Code::Os, "the launcher answered out of turn");
    ended_.emplace(ended->id, ended->end);
  }
}

}  // namespace glovebox::launch
