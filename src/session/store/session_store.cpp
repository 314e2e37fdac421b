#include "session/store/session_store.h"

#include "async/co_try.h"
#include "session/store/database.h"

#include <boost/asio/async_result.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <algorithm>
#include <future>
#include <span>

namespace glovebox::session {
namespace {

namespace asio = boost::asio;

// "Glov", so that a file of another program is not taken for ours.
constexpr std::int64_t kApplicationId = 0x476c6f76;

constexpr const char* kSchema =
    "CREATE TABLE sessions (id TEXT PRIMARY KEY, created_ns INTEGER NOT NULL,"
    " document TEXT NOT NULL, last_run_ns INTEGER NOT NULL, runs INTEGER NOT NULL) WITHOUT ROWID;"
    "CREATE TABLE runs (session TEXT NOT NULL, number INTEGER NOT NULL, kind INTEGER NOT NULL,"
    " began_ns INTEGER NOT NULL, ended_ns INTEGER, code INTEGER NOT NULL,"
    " timed_out INTEGER NOT NULL, canceled INTEGER NOT NULL, output_bytes INTEGER NOT NULL,"
    " problem TEXT NOT NULL, PRIMARY KEY (session, number)) WITHOUT ROWID;"
    "CREATE TABLE kept_layers (id TEXT PRIMARY KEY) WITHOUT ROWID;"
    "PRAGMA application_id = 1198288758;"
    "PRAGMA user_version = 1;";

std::int64_t ns(WallTime time) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(time.time_since_epoch()).count();
}
WallTime from_ns(std::int64_t value) { return WallTime(std::chrono::nanoseconds(value)); }

Result<std::int64_t> pragma(sqlite3* database, const char* sql) {
  TRY(Statement statement, Statement::prepare(database, sql));
  TRY(const bool has_row, statement.step());
  return has_row ? statement.number(0) : 0;
}

Result<void> check_schema(sqlite3* database) {
  TRY(const std::int64_t version, pragma(database, "PRAGMA user_version"));
  TRY(const std::int64_t application, pragma(database, "PRAGMA application_id"));
  TRY(const std::int64_t tables, pragma(database, "SELECT count(*) FROM sqlite_master"));
  if (tables == 0 && version == 0) {
    TRY_VOID(run_sql(database, "BEGIN"));
    TRY_VOID(run_sql(database, kSchema));
    return run_sql(database, "COMMIT");
  }
  if (application != kApplicationId) return fail(Code::Invalid, "this is no store of sessions");
  if (version != Store::kSchemaVersion) {
    return fail(Code::Unsupported, "the store has version {}, and this program knows {}", version,
                Store::kSchemaVersion);
  }
  TRY(Statement check, Statement::prepare(database, "PRAGMA quick_check(1)"));
  TRY(const bool has_row, check.step());
  if (has_row && check.text(0) != "ok") {
    return fail(Code::Invalid, "the store is damaged: {}", check.text(0));
  }
  return {};
}

Result<void> write_record(sqlite3* database, const SessionRecord& record,
                          const std::string& document) {
  TRY(Statement statement,
      Statement::prepare(database, "INSERT OR REPLACE INTO sessions VALUES (?, ?, ?, ?, ?)"));
  statement.bind(1, record.info.id)
      .bind(2, ns(record.info.created_at))
      .bind(3, document)
      .bind(4, ns(record.info.last_run_at))
      .bind(5, static_cast<std::int64_t>(record.info.runs));
  TRY_VOID(statement.step());
  return {};
}

Result<void> write_run(sqlite3* database, const std::string& session, const RunRecord& run,
                       std::uint64_t runs) {
  TRY(Statement statement,
      Statement::prepare(database,
                         "INSERT OR REPLACE INTO runs VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"));
  const WallTime ended = run.ended_at.value_or(run.began_at);
  statement.bind(1, session)
      .bind(2, static_cast<std::int64_t>(run.number))
      .bind(3, static_cast<std::int64_t>(run.kind))
      .bind(4, ns(run.began_at))
      .bind(5, ns(ended))
      .bind(6, std::int64_t{run.code})
      .bind(7, std::int64_t{run.timed_out})
      .bind(8, std::int64_t{run.canceled})
      .bind(9, static_cast<std::int64_t>(run.output_bytes))
      .bind(10, run.problem);
  TRY_VOID(statement.step());
  TRY(Statement update,
      Statement::prepare(database, "UPDATE sessions SET last_run_ns = ?, runs = ? WHERE id = ?"));
  update.bind(1, ns(ended)).bind(2, static_cast<std::int64_t>(runs)).bind(3, session);
  TRY_VOID(update.step());
  if (run.number <= Store::kRemembered) return {};
  TRY(Statement forget,
      Statement::prepare(database, "DELETE FROM runs WHERE session = ? AND number <= ?"));
  forget.bind(1, session).bind(2, static_cast<std::int64_t>(run.number - Store::kRemembered));
  TRY_VOID(forget.step());
  return {};
}

Result<void> erase_session(sqlite3* database, const std::string& session) {
  for (const char* sql :
       {"DELETE FROM sessions WHERE id = ?", "DELETE FROM runs WHERE session = ?"}) {
    TRY(Statement statement, Statement::prepare(database, sql));
    statement.bind(1, session);
    TRY_VOID(statement.step());
  }
  return {};
}

// What a service that was killed had not written. The order of the lines says nothing.
Result<void> replay(sqlite3* database, const std::vector<NotedRun>& noted) {
  if (noted.empty()) return {};
  TRY_VOID(run_sql(database, "BEGIN IMMEDIATE"));
  for (const NotedRun& one : noted) {
    TRY(Statement look,
        Statement::prepare(database, "SELECT last_run_ns, runs FROM sessions WHERE id = ?"));
    look.bind(1, one.session);
    TRY(const bool is_known, look.step());
    if (!is_known) continue;  // it was deleted since
    const WallTime last = from_ns(look.number(0));
    const auto runs = static_cast<std::uint64_t>(look.number(1));
    TRY_VOID(write_run(database, one.session, one.run, std::max(runs, one.runs)));
    if (last <= one.run.ended_at.value_or(one.run.began_at)) continue;
    TRY(Statement update,
        Statement::prepare(database, "UPDATE sessions SET last_run_ns = ? WHERE id = ?"));
    update.bind(1, ns(last)).bind(2, one.session);
    TRY_VOID(update.step());
  }
  return run_sql(database, "COMMIT");
}

Result<std::vector<RunRecord>> load_runs(sqlite3* database, const std::string& session) {
  TRY(Statement statement,
      Statement::prepare(database, "SELECT * FROM runs WHERE session = ? ORDER BY number"));
  statement.bind(1, session);
  std::vector<RunRecord> runs;
  while (true) {
    TRY(const bool has_row, statement.step());
    if (!has_row) return runs;
    RunRecord run;
    run.number = static_cast<std::uint64_t>(statement.number(1));
    run.kind = statement.number(2) == 0 ? RunRecord::Kind::Foreground : RunRecord::Kind::Background;
    run.began_at = from_ns(statement.number(3));
    run.ended_at = from_ns(statement.number(4));
    run.code = static_cast<int>(statement.number(5));
    run.timed_out = statement.number(6) != 0;
    run.canceled = statement.number(7) != 0;
    run.output_bytes = static_cast<std::uint64_t>(statement.number(8));
    run.problem = statement.text(9);
    runs.push_back(std::move(run));
  }
}

}  // namespace

void Store::Close::operator()(sqlite3* database) const { sqlite3_close(database); }

Store::Store(std::unique_ptr<sqlite3, Close> database, std::unique_ptr<RunJournal> journal)
    : database_(std::move(database)),
      journal_(std::move(journal)),
      writer_([this] { write_all(); }) {}

Result<std::unique_ptr<Store>> Store::open(const std::string& path) {
  sqlite3* opened = nullptr;
  const int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX;
  const int result = sqlite3_open_v2(path.c_str(), &opened, flags, nullptr);
  std::unique_ptr<sqlite3, Close> database(opened);
  const auto named = [&path](Error error) {
    error.message = fmt::format("{}: {}", path, error.message);
    return unexpected(std::move(error));
  };
  if (result != SQLITE_OK) return named(fail_sql(opened, "open the session store").value());
  // Exclusive: no other process reads or writes it while we do, and no shared memory file is
  // needed.
  const auto set = run_sql(opened,
                           "PRAGMA locking_mode = EXCLUSIVE; PRAGMA journal_mode = WAL;"
                           "PRAGMA synchronous = NORMAL; PRAGMA temp_store = MEMORY;");
  if (!set) return named(set.error());
  const auto checked = check_schema(opened);
  if (!checked) return named(checked.error());
  TRY(std::unique_ptr<RunJournal> journal, RunJournal::open(path + ".runs"));
  TRY(const std::vector<NotedRun> noted, journal->read());
  const auto replayed = replay(opened, noted);
  if (!replayed) return named(replayed.error());
  TRY_VOID(journal->clear());
  return std::unique_ptr<Store>(new Store(std::move(database), std::move(journal)));
}

Store::~Store() {
  {
    const std::scoped_lock lock(mutex_);
    is_ending_ = true;
  }
  changed_.notify_all();
  writer_.join();
}

void Store::queue(Write write, Done done) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return queued_.size() < kMaxQueued; });
  queued_.push_back({std::move(write), std::move(done)});
  lock.unlock();
  changed_.notify_all();
}

void Store::write_all() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return !queued_.empty() || is_ending_; });
    if (queued_.empty()) return;
    std::vector<Job> jobs = std::exchange(queued_, {});
    lock.unlock();
    changed_.notify_all();
    write_together(jobs);
    lock.lock();
  }
}

// All in one transaction. When one of them fails, each is tried alone, so that it fails alone.
void Store::write_together(std::vector<Job>& jobs) {
  const auto transact = [this](std::span<Job> some) -> Result<void> {
    TRY_VOID(run_sql(database_.get(), "BEGIN IMMEDIATE"));
    for (const Job& job : some) {
      auto written = job.write(database_.get());
      if (written) continue;
      (void)run_sql(database_.get(), "ROLLBACK");  // the first problem is the one to tell
      return written;
    }
    auto committed = run_sql(database_.get(), "COMMIT");
    if (!committed) (void)run_sql(database_.get(), "ROLLBACK");
    return committed;
  };
  const bool is_done = jobs.size() > 1 && transact(jobs).has_value();
  for (Job& job : jobs) {
    const Result<void> written = is_done ? Result<void>() : transact({&job, 1});
    if (!written && !job.done) {
      const std::scoped_lock lock(mutex_);
      if (!problem_) problem_ = written.error();
    }
    if (job.done) job.done(written);
  }
}

Result<std::vector<StoredSession>> Store::load() {
  auto promise = std::make_shared<std::promise<Result<std::vector<StoredSession>>>>();
  auto answer = promise->get_future();
  const auto read = [](sqlite3* database) -> Result<std::vector<StoredSession>> {
    TRY(Statement statement,
        Statement::prepare(database,
                           "SELECT id, document, last_run_ns, runs FROM sessions ORDER BY "
                           "created_ns, id"));
    std::vector<StoredSession> sessions;
    while (true) {
      TRY(const bool has_row, statement.step());
      if (!has_row) return sessions;
      StoredSession session;
      TRY(session.record, decode_record(statement.text(1)));
      session.record.info.last_run_at = from_ns(statement.number(2));
      session.record.info.runs = static_cast<std::uint64_t>(statement.number(3));
      session.record.usage.runs = session.record.info.runs;
      TRY(session.runs, load_runs(database, statement.text(0)));
      sessions.push_back(std::move(session));
    }
  };
  queue(
      [promise, read](sqlite3* database) {
        promise->set_value(read(database));
        return Result<void>();
      },
      {});
  return answer.get();
}

Result<std::vector<std::string>> Store::load_kept_layers() {
  auto promise = std::make_shared<std::promise<Result<std::vector<std::string>>>>();
  auto answer = promise->get_future();
  const auto read = [](sqlite3* database) -> Result<std::vector<std::string>> {
    TRY(Statement statement, Statement::prepare(database, "SELECT id FROM kept_layers"));
    std::vector<std::string> ids;
    while (true) {
      TRY(const bool has_row, statement.step());
      if (!has_row) return ids;
      ids.push_back(statement.text(0));
    }
  };
  queue(
      [promise, read](sqlite3* database) {
        promise->set_value(read(database));
        return Result<void>();
      },
      {});
  return answer.get();
}

asio::awaitable<Result<void>> Store::queue_and_wait(Write write) {
  const auto loop = co_await asio::this_coro::executor;
  const auto outcome = std::make_shared<Result<void>>();
  const auto begin = [&](auto handler) {
    auto guard = asio::make_work_guard(loop);
    // A std::function must be copyable, and a handler is not.
    auto held = std::make_shared<decltype(handler)>(std::move(handler));
    queue(std::move(write), [outcome, guard, held](const Result<void>& written) {
      *outcome = written;
      asio::post(guard.get_executor(), std::move(*held));
    });
  };
  co_await asio::async_initiate<const asio::use_awaitable_t<>&, void()>(begin, asio::use_awaitable);
  co_return *outcome;
}

asio::awaitable<Result<void>> Store::put(SessionRecord record) {
  CO_TRY(std::string document, encode_record(record));
  Write write = [record = std::move(record), text = std::move(document)](sqlite3* database) {
    return write_record(database, record, text);
  };
  co_return co_await queue_and_wait(std::move(write));
}

asio::awaitable<Result<void>> Store::remove(std::string session) {
  Write write = [session = std::move(session)](sqlite3* database) {
    return erase_session(database, session);
  };
  co_return co_await queue_and_wait(std::move(write));
}

void Store::put_later(const SessionRecord& record) {
  queue(
      [record](sqlite3* database) -> Result<void> {
        TRY(const std::string document, encode_record(record));
        return write_record(database, record, document);
      },
      {});
}

void Store::put_run_later(const std::string& session, const RunRecord& run, std::uint64_t runs) {
  queue([session, run, runs](sqlite3* database) { return write_run(database, session, run, runs); },
        {});
}

void Store::note_run(const NotedRun& noted) {
  // Without it the next batch has the run; only a service that is killed before that forgets it.
  (void)journal_->add(noted);
}

void Store::drop_journal_later() {
  queue(
      [this](sqlite3* /*database*/) {
        journal_->drop();
        return Result<void>();
      },
      {});
}

asio::awaitable<Result<void>> Store::flush() {
  Write nothing = [](sqlite3* /*database*/) { return Result<void>(); };
  auto written = co_await queue_and_wait(std::move(nothing));
  const std::scoped_lock lock(mutex_);
  if (written && problem_) co_return unexpected(*std::exchange(problem_, std::nullopt));
  co_return written;
}

}  // namespace glovebox::session
