// Background runs of a BoxSession.
#include "async/co_try.h"
#include "async/task_group.h"
#include "base/uuid.h"
#include "session/box/box_run.h"

#include <algorithm>
#include <functional>

namespace glovebox::session {
namespace {

// The most background runs that one session remembers. Those that are over make room.
constexpr std::size_t kMaxRemembered = 256;

class SpoolReader final : public OutputReader {
 public:
  // `shelf` tells where the output is kept: a session's boxes come to share one.
  SpoolReader(std::shared_ptr<Spool> spool, std::function<SpoolShelf&()> shelf)
      : spool_(std::move(spool)), shelf_(std::move(shelf)) {}

  asio::awaitable<Result<void>> take(guest::Stream /*stream*/, std::string_view bytes) override {
    const std::uint64_t growth = spool_->growth(bytes.size());
    if (growth > 0) shelf_().make_room(growth);
    co_return spool_->append(bytes);
  }

 private:
  std::shared_ptr<Spool> spool_;
  std::function<SpoolShelf&()> shelf_;
};

}  // namespace

asio::awaitable<Result<BackgroundStatus>> BoxSession::start_background(RunRequest request) {
  if (background_.size() >= kMaxRemembered) {
    // The one that has been over for the longest time. One that runs is never over sooner.
    const auto oldest = std::ranges::min_element(background_, {}, [](const auto& entry) {
      return entry.second.status.finished_at.value_or(WallTime::max());
    });
    if (oldest->second.status.running) {
      co_return fail(Code::Exhausted, "{} background runs at a time", kMaxRemembered);
    }
    background_.erase(oldest);
  }
  const auto self = shared_from_this();
  if (request.argv.empty()) request.shell = RunShell::Own;
  request.input = guest::RunInput::Empty;
  request.error_output = ErrorOutput::Merged;
  request.terminal.reset();
  request.timeout.reset();
  CO_TRY(Spool spool, Spool::open(settings_.spool_directory));
  CO_TRY(std::string run_id, make_uuid());
  CO_TRY(std::shared_ptr<RunState> run,
         co_await begin_run(std::move(request), RunRecord::Kind::Background));
  Background& entry = background_[run_id];
  entry.status.run_id = run_id;
  entry.status.started_at = run->record.began_at;
  entry.run = run;
  entry.spool = std::make_shared<Spool>(std::move(spool));
  const BackgroundStatus status = entry.status;
  auto held = std::make_shared<BoxRun>(std::static_pointer_cast<BoxSession>(self), std::move(run));
  spawn_owning(loop_.get_executor(), follow_background(std::move(held), std::move(run_id)));
  co_return status;
}

asio::awaitable<void> BoxSession::follow_background(std::shared_ptr<LiveRun> run,
                                                    std::string run_id) {
  const std::shared_ptr<Spool> spool = background_.at(run_id).spool;
  spools().add(spool);
  SpoolReader reader(spool, [this]() -> SpoolShelf& { return spools(); });
  const auto result = co_await run->follow(reader);
  const auto found = background_.find(run_id);
  if (found == background_.end()) co_return;
  BackgroundStatus& status = found->second.status;
  status.running = false;
  status.finished_at = std::chrono::system_clock::now();
  status.output_bytes = spool->size();
  spool->finish(*status.finished_at);
  found->second.run.reset();
  if (result) {
    status.exit_code = result->code;
  } else {
    status.error = end_ ? "session terminated" : result.error().message;
  }
}

const BoxSession::Background* BoxSession::find_background(std::string_view run_id) const {
  const auto found = background_.find(run_id);
  return found == background_.end() ? nullptr : &found->second;
}

Result<BackgroundStatus> BoxSession::background(std::string_view run_id) const {
  const Background* found = find_background(run_id);
  if (found == nullptr) return fail(Code::NotFound, "there is no background run {}", run_id);
  BackgroundStatus status = found->status;
  status.output_bytes = found->spool->size();
  return status;
}

std::vector<BackgroundStatus> BoxSession::background_runs() const {
  std::vector<BackgroundStatus> all;
  all.reserve(background_.size());
  for (const auto& [id, entry] : background_) all.push_back(entry.status);
  return all;
}

Result<BackgroundLog> BoxSession::background_log(std::string_view run_id, std::uint64_t cursor,
                                                 std::size_t most) const {
  const Background* found = find_background(run_id);
  if (found == nullptr) return fail(Code::NotFound, "there is no background run {}", run_id);
  return found->spool->read(cursor, most);
}

Result<void> BoxSession::kill_background(std::string_view run_id) {
  const Background* found = find_background(run_id);
  if (found == nullptr) return fail(Code::NotFound, "there is no background run {}", run_id);
  if (found->run == nullptr || found->run->is_over()) return {};
  found->run->record.canceled = true;
  kill_run(found->run);
  return {};
}

}  // namespace glovebox::session
