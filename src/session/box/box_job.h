// A file job of a BoxSession, as its caller holds it.
#pragma once

#include "session/box/box_session.h"

#include <memory>
#include <string>

namespace glovebox::session {

class BoxJob final : public FileJob {
 public:
  BoxJob(std::shared_ptr<BoxSession> session, std::shared_ptr<JobState> job);
  BoxJob(const BoxJob&) = delete;
  BoxJob& operator=(const BoxJob&) = delete;
  ~BoxJob() override;

  asio::awaitable<Result<std::size_t>> read(std::span<char> buffer) override;
  asio::awaitable<Result<guest::Entry>> read_entry() override;
  asio::awaitable<Result<void>> write(std::string_view bytes) override;
  asio::awaitable<Result<guest::JobOver>> finish() override;

 private:
  void give_up();

  std::shared_ptr<BoxSession> session_;
  std::shared_ptr<JobState> job_;
  std::string held_;  // read behind an entry, and not asked for yet
};

}  // namespace glovebox::session
