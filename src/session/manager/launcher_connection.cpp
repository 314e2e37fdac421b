#include "session/manager/launcher_connection.h"

#include "async/co_try.h"
#include "base/file.h"
#include "base/pidfd.h"

#include <cerrno>

#include <fcntl.h>

namespace glovebox::session {
namespace {

// A launcher works on one request at a time. A second one waits in its socket, so that it has no
// pause; more would only fill the socket.
constexpr std::size_t kRequestsAhead = 2;

void kill_init(const UniqueFd& init) {
  // One that has ended already is no failure.
  if (init) (void)kill_process(init);
}

}  // namespace

LauncherConnection::LauncherConnection(asio::io_context& loop, std::string program,
                                       std::uint32_t keep_parked, Callbacks callbacks)
    : loop_(loop),
      program_(std::move(program)),
      keep_parked_(keep_parked),
      callbacks_(std::move(callbacks)),
      turns_(std::make_shared<Semaphore>(loop, kRequestsAhead, "the launcher")) {}

LauncherConnection::~LauncherConnection() {
  if (line_) line_->release();
}

Result<void> LauncherConnection::start() {
  if (client_) return {};
  if (!null_) {
    TRY(null_, open_file("/dev/null", O_RDWR));
  }
  TRY(launch::LauncherClient client, launch::LauncherClient::start(program_));
  client_.emplace(std::move(client));
  line_.emplace(loop_, client_->fd().get());
  ++starts_;
  watch();
  return {};
}

void LauncherConnection::watch() {
  line_->async_wait(asio::posix::descriptor_base::wait_read,
                    [this, there = std::weak_ptr<bool>(is_there_),
                     launcher = starts_](const boost::system::error_code& problem) {
                      if (problem || there.expired() || launcher != starts_ || !client_) return;
                      on_news();
                      if (client_ && launcher == starts_) watch();
                    });
}

void LauncherConnection::on_news() {
  auto news = client_->receive_news();
  if (!news) return lose();
  std::visit([this](auto& one) { take(one); }, *news);
}

void LauncherConnection::take(launch::BoxStarted& started) {
  running_.emplace(started.id, true);
  if (keep_parked_ > 0) ++(started.was_parked ? pool_stats_.hits : pool_stats_.misses);
  const auto found = pending_.find(started.id);
  if (found == pending_.end()) return kill_init(started.init);  // no caller waits for it any more
  found->second->init = std::move(started.init);
  found->second->cgroup = std::move(started.cgroup);
  found->second->is_answered = true;
  found->second->wakeup.notify();
  pending_.erase(found);
}

void LauncherConnection::take(launch::BoxFailed& failed) {
  const auto found = pending_.find(failed.id);
  if (found == pending_.end()) return;
  found->second->problem = std::move(failed.error);
  found->second->is_answered = true;
  found->second->wakeup.notify();
  pending_.erase(found);
}

void LauncherConnection::take(launch::BoxEnded& ended) {
  running_.erase(ended.id);
  callbacks_.on_box_ended(global(ended.id), ended.end);
}

bool LauncherConnection::is_running(std::uint64_t box) const {
  return box >> 40U == starts_ && running_.contains(box - global(0));
}

PoolStats LauncherConnection::pool_stats() const {
  PoolStats use = pool_stats_;
  if (!client_) return use;
  use.refills += client_->parked().refills;
  use.parked = client_->parked().parked;
  return use;
}

void LauncherConnection::lose() {
  pool_stats_.refills = pool_stats().refills;
  line_->release();
  line_.reset();
  client_.reset();
  for (const auto& [id, pending] : std::exchange(pending_, {})) {
    pending->problem = Error{Code::Os, EPIPE, "the launcher process is gone"};
    pending->is_answered = true;
    pending->wakeup.notify();
  }
  std::vector<std::uint64_t> boxes;
  for (const auto& [id, there] : std::exchange(running_, {})) boxes.push_back(global(id));
  callbacks_.on_gone(boxes);
}

asio::awaitable<Result<launch::RemoteBox>> LauncherConnection::start_box(
    std::shared_ptr<const plan::LaunchPlan> plan) {
  CO_TRY(const auto turn, co_await turns_->take(WhenBusy::Wait));
  CO_TRY_VOID(start());
  const int null = null_.get();
  const std::array<int, 3> stdio{null, null, null};
  auto asked = client_->ask_for_box(*plan, stdio, keep_parked_);
  if (!asked) {
    lose();
    co_return unexpected(std::move(asked).error());
  }
  const auto pending = std::make_shared<Pending>(loop_);
  const std::uint64_t id = asked->id;
  const std::uint64_t launcher = starts_;
  pending_.emplace(id, pending);
  // However this ends: a box that was started and is not handed out is killed.
  struct Care {
    LauncherConnection& line;
    std::weak_ptr<bool> line_is_there;
    std::shared_ptr<Pending> pending;
    std::uint64_t id;
    std::uint64_t launcher;
    ~Care() {
      kill_init(pending->init);
      if (!line_is_there.expired() && line.starts_ == launcher) line.pending_.erase(id);
    }
  };
  const Care care{*this, is_there_, pending, id, launcher};
  while (!pending->is_answered) {
    const Woken woken = co_await pending->wakeup.wait();
    if (woken == Woken::Canceled) {
      co_return unexpected(Error{Code::Os, ECANCELED, "the start of the box was canceled"});
    }
  }
  if (pending->problem) co_return unexpected(*pending->problem);
  launch::RemoteBox box = *std::move(asked);
  box.init = std::move(pending->init);
  box.cgroup = std::move(pending->cgroup);
  box.id = (launcher << 40U) | id;
  co_return box;
}

}  // namespace glovebox::session
