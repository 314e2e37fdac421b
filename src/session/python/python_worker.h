// One interpreter process in a box: it carries frames between its cells and the supervisor.
//
// Everything that it sends is hostile: frames are bounded and checked (python_message.h), a frame
// for a cell that is not there is dropped, and one that no host sends ends the worker. The loop's
// thread only.
#pragma once

#include "async/event.h"
#include "python/channel/python_message.h"
#include "session/box/live_session.h"
#include "session/python/python_plan.h"

#include <boost/asio/steady_timer.hpp>

#include <deque>
#include <map>
#include <memory>
#include <string>

namespace glovebox::session {

// How an interpreter ended, as the box's agent tells it.
struct PythonExit {
  int code = 0;          // as a shell counts
  std::string sentence;  // when there is no code
};

// One cell as its worker sees it.
class PythonCell {
 public:
  virtual ~PythonCell() = default;
  // Does not wait: the worker's other cells are behind it. The head is the message's, or says why
  // it is none.
  virtual void take(PythonWord word, PythonMessage message, Result<PythonHead> head) = 0;
  virtual void take_stray(std::string_view text) = 0;
  // Whether code of the cell's may be running.
  virtual bool is_busy() const = 0;
  // The worker is gone, and the cell with it. Once.
  virtual void worker_over(const PythonExit& exit) = 0;
};

class PythonWorker : public std::enable_shared_from_this<PythonWorker> {
 public:
  static constexpr std::chrono::seconds kStartTimeout{60};
  // What may wait to be written into a worker's pipe. More is Code::Exhausted.
  static constexpr std::size_t kMaxOutbox = std::size_t{128} << 20;

  // Long messages are read on the pool, which outlives this; those behind one wait for it.
  PythonWorker(asio::io_context& loop, asio::thread_pool& pool, std::shared_ptr<LiveSession> box);

  // Starts the interpreter and waits until it is ready for its first cell.
  asio::awaitable<Result<void>> start(std::vector<std::string> command);

  void add(std::uint32_t number, std::weak_ptr<PythonCell> cell) {
    cells_[number] = std::move(cell);
  }
  void remove(std::uint32_t number) { cells_.erase(number); }
  std::size_t cell_count() const { return cells_.size(); }
  // The number of its next cell.
  std::uint32_t next_cell() { return ++last_cell_; }
  // Whether it has one cell in all its life: what that leaves behind in the process, no other
  // finds.
  bool holds_one() const { return most_cells_ == 1; }
  // Whether another cell may begin in it. Not in one that is being ended.
  bool takes_cells() const {
    return !is_over_ && !is_retired_ && cells_.size() < most_cells_ &&
           (!holds_one() || last_cell_ == 0);
  }
  // It takes no more cells; those that are there go on.
  void retire() { is_retired_ = true; }
  bool is_retired() const { return is_retired_; }

  // Does not wait: the frame goes out in its turn.
  Result<void> send(PythonOrder order, std::uint32_t cell, const PythonMessage& message);
  bool is_over() const { return is_over_; }
  const std::shared_ptr<LiveSession>& box() const { return box_; }
  asio::thread_pool& pool() const { return pool_; }
  const std::string& version() const { return version_; }
  // Ends the interpreter; worker_over() follows.
  void kill();
  // It ends, or has to be killed, because of this cell. The first one counts.
  void blame(std::uint32_t cell);
  // The cell whose fault the end is, if that is known: the one that was blamed, or the only one of
  // which code may have been running.
  const std::optional<std::uint32_t>& culprit() const { return culprit_; }

 private:
  class Reader;

  static asio::awaitable<void> follow(std::shared_ptr<PythonWorker> self);
  static asio::awaitable<void> write(std::shared_ptr<PythonWorker> self);
  asio::awaitable<Result<void>> take(std::string_view bytes);
  Result<void> take_frame(PythonFrame frame, Result<PythonHead> head);
  void take_stray(std::string_view text);
  Result<void> take_ready(Result<PythonHead> head);
  std::optional<std::uint32_t> only_suspect() const;
  void finish(const PythonExit& exit);

  asio::io_context& loop_;
  asio::thread_pool& pool_;
  std::shared_ptr<LiveSession> box_;
  std::shared_ptr<LiveRun> run_;
  Wakeup started_;
  asio::steady_timer patience_;
  PythonFrameReader frames_;
  std::deque<std::string> outbox_;
  std::size_t outbox_bytes_ = 0;
  std::map<std::uint32_t, std::weak_ptr<PythonCell>> cells_;
  std::optional<std::uint32_t> culprit_;
  std::uint32_t most_cells_ = 1;
  std::uint32_t last_cell_ = 0;
  std::string version_;
  std::string first_words_;
  bool is_writing_ = false;
  bool is_ready_ = false;
  bool is_retired_ = false;
  bool is_over_ = false;
};

}  // namespace glovebox::session
