// Where sessions are remembered, so that a service that was stopped or killed finds them again.
//
// SQLite in WAL mode, one connection, which belongs to one thread of its own. Writes are queued and
// go in together: what many sessions write at the same time costs one transaction. With
// synchronous=NORMAL a write that has returned survives the death of the process; a crash of the
// whole machine may lose the last ones, and with them at most sessions whose boxes died anyway.
//
// Nothing of a box is written here but what this service itself says of it. Secrets are not
// (session_json.h).
#pragma once

#include "base/result.h"
#include "session/store/run_journal.h"
#include "session/store/session_json.h"

#include <boost/asio/awaitable.hpp>

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

struct sqlite3;

namespace glovebox::session {

struct StoredSession {
  SessionRecord record;
  std::vector<RunRecord> runs;  // the last of them, oldest first
};

class Store {
 public:
  static constexpr int kSchemaVersion = 1;
  // So many runs of a session are remembered.
  static constexpr std::uint64_t kRemembered = 100;
  // Writes that wait. Who would make them more waits too, on its thread: the disk is too slow.
  static constexpr std::size_t kMaxQueued = 100'000;

  // Makes the file if it is not there. Code::Unsupported when a newer version wrote it,
  // Code::Invalid when it is no such file or is damaged, Code::Denied when another process has it
  // open.
  static Result<std::unique_ptr<Store>> open(const std::string& path);
  Store(const Store&) = delete;
  Store& operator=(const Store&) = delete;
  ~Store();  // writes what is queued

  // Everything, oldest first. For the start of a service; blocks.
  Result<std::vector<StoredSession>> load();
  // Ids of layers that a former version kept although their session is forgotten; later ones have
  // a mark (workspace/layer/kept.h). Blocks.
  Result<std::vector<std::string>> load_kept_layers();

  // These return when it is written.
  boost::asio::awaitable<Result<void>> put(SessionRecord record);
  boost::asio::awaitable<Result<void>> remove(std::string session);
  // These return at once, and are written in the order of the calls.
  void put_later(const SessionRecord& record);
  void put_run_later(const std::string& session, const RunRecord& run, std::uint64_t runs);
  // Before a client is told that a run is over: a service that is killed then counts it, although
  // put_run_later() follows with many others.
  void note_run(const NotedRun& noted);
  // Around put_run_later() of all that was noted so far.
  class Batch {
   public:
    explicit Batch(Store& store) : store_(store), has_turned_(store.journal_->turn()) {}
    Batch(const Batch&) = delete;
    Batch& operator=(const Batch&) = delete;
    ~Batch() {
      if (has_turned_) store_.drop_journal_later();
    }

   private:
    Store& store_;
    bool has_turned_;
  };
  // Returns when everything that was asked for before is written, with the first problem that a
  // later one had since the last flush().
  boost::asio::awaitable<Result<void>> flush();

 private:
  using Write = std::function<Result<void>(sqlite3*)>;
  using Done = std::function<void(const Result<void>&)>;
  struct Job {
    Write write;
    Done done;  // called on the writer's thread; may be empty
  };
  struct Close {
    void operator()(sqlite3* database) const;
  };

  Store(std::unique_ptr<sqlite3, Close> database, std::unique_ptr<RunJournal> journal);
  void drop_journal_later();
  void queue(Write write, Done done);
  void write_all();
  void write_together(std::vector<Job>& jobs);
  boost::asio::awaitable<Result<void>> queue_and_wait(Write write);

  std::unique_ptr<sqlite3, Close> database_;  // the writer's, once that runs
  std::unique_ptr<RunJournal> journal_;
  std::mutex mutex_;  // of what is below
  std::condition_variable changed_;
  std::vector<Job> queued_;
  std::optional<Error> problem_;
  bool is_ending_ = false;
  std::thread writer_;
};

}  // namespace glovebox::session
