// A run of a BoxSession, as its caller holds it.
#pragma once

#include "session/box/box_session.h"

#include <memory>

namespace glovebox::session {

class BoxRun final : public LiveRun {
 public:
  BoxRun(std::shared_ptr<BoxSession> session, std::shared_ptr<RunState> run)
      : session_(std::move(session)), run_(std::move(run)) {}
  BoxRun(const BoxRun&) = delete;
  BoxRun& operator=(const BoxRun&) = delete;
  ~BoxRun() override { session_->abandon(run_); }

  std::uint64_t number() const override { return run_->record.number; }
  asio::awaitable<Result<RunResult>> follow(OutputReader& reader) override;
  asio::awaitable<Result<void>> write_input(std::string_view bytes) override;
  void end_input() override { run_->input.close(); }
  Result<void> resize(plan::TerminalSize size) override;
  Result<void> signal(int signal) override;
  void cancel() override;

 private:
  // What came with the end of a short run.
  asio::awaitable<Result<void>> pass_printed(OutputReader& reader);
  // Reads each stream once. Whether anything was there.
  asio::awaitable<Result<bool>> pass_output(OutputReader& reader, std::span<char> buffer);

  std::shared_ptr<BoxSession> session_;
  std::shared_ptr<RunState> run_;
};

}  // namespace glovebox::session
