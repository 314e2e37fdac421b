#include "session/manager/ending_cell.h"

#include <boost/asio/steady_timer.hpp>

#include <chrono>
#include <string_view>
#include <utility>

namespace glovebox::session {
namespace {

// How long a cell may take to end before its worker is killed, and the others begin anew; and after
// which time no other begins in that worker.
constexpr std::chrono::milliseconds kCellGrace{3000};
constexpr std::chrono::milliseconds kCellDoubt{200};

// Listens for the end of a cell that was told to end.
class EndingCell final : public PythonCell, public std::enable_shared_from_this<EndingCell> {
 public:
  EndingCell(asio::io_context& loop, std::shared_ptr<PythonWorker> worker, std::uint32_t number)
      : worker_(std::move(worker)), number_(number), timer_(loop) {}

  void begin() {
    worker_->add(number_, weak_from_this());
    // A worker that has ended has no cells.
    (void)worker_->send(PythonOrder::End, number_, {});
    timer_.expires_after(kCellDoubt);
    timer_.async_wait([self = shared_from_this()](const boost::system::error_code& problem) {
      if (!problem && !self->is_gone_) self->doubt();
    });
  }

  void take(PythonWord word, PythonMessage /*message*/, Result<PythonHead> /*head*/) override {
    if (word != PythonWord::Over) return;
    worker_->remove(number_);
    leave();
  }
  void take_stray(std::string_view /*text*/) override {}
  bool is_busy() const override { return true; }  // finalizers are code of its own
  void worker_over(const PythonExit& /*exit*/) override { leave(); }

 private:
  void leave() {
    is_gone_ = true;
    timer_.cancel();
  }

  // Who begins now should not begin in a worker that may be killed soon.
  void doubt() {
    worker_->retire();
    timer_.expires_after(kCellGrace - kCellDoubt);
    timer_.async_wait([self = shared_from_this()](const boost::system::error_code& problem) {
      if (problem || self->is_gone_) return;
      self->worker_->blame(self->number_);
      self->worker_->kill();
    });
  }

  std::shared_ptr<PythonWorker> worker_;
  std::uint32_t number_;
  asio::steady_timer timer_;
  bool is_gone_ = false;
};

}  // namespace

void end_cell(asio::io_context& loop, std::shared_ptr<PythonWorker> worker, std::uint32_t number) {
  std::make_shared<EndingCell>(loop, std::move(worker), number)->begin();
}

}  // namespace glovebox::session
