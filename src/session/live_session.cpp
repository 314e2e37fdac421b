#include "session/live_session.h"

#include "session/co_try.h"

#include <array>

namespace glovebox::session {
namespace {

constexpr std::size_t kEntriesRead = std::size_t{64} << 10;

}  // namespace

asio::awaitable<Result<RunResult>> LiveSession::run(RunRequest request, OutputReader& reader) {
  CO_TRY(const std::shared_ptr<LiveRun> live, co_await start(std::move(request)));
  co_return co_await live->follow(reader);
}

asio::awaitable<Result<std::vector<guest::Entry>>> LiveSession::entries(guest::StartJob job,
                                                                        std::size_t most) {
  CO_TRY(const std::unique_ptr<FileJob> live, co_await start_job(std::move(job)));
  std::vector<guest::Entry> found;
  std::vector<char> buffer(kEntriesRead);
  std::string bytes;
  while (true) {
    CO_TRY(const std::size_t size, co_await live->read(buffer));
    if (size == 0) break;
    bytes.append(buffer.data(), size);
    std::string_view rest = bytes;
    while (true) {
      CO_TRY(std::optional<guest::Entry> entry, guest::take_entry(rest));
      if (!entry) break;
      if (found.size() >= most) co_return fail(Code::Exhausted, "more than {} entries", most);
      found.push_back(*std::move(entry));
    }
    bytes.erase(0, bytes.size() - rest.size());
  }
  CO_TRY_VOID(co_await live->finish());
  if (!bytes.empty()) co_return fail(Code::Os, "the agent cut a list of files short");
  co_return found;
}

}  // namespace glovebox::session
