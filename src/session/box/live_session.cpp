#include "session/box/live_session.h"

#include "async/co_try.h"

#include <array>

namespace glovebox::session {
namespace {

constexpr std::size_t kEntriesRead = std::size_t{64} << 10;
// The most bytes of paths in one list. A box can make few files with very long paths.
constexpr std::size_t kMostPathBytes = std::size_t{16} << 20;

// Entries of one list, bounded by their number and by the bytes of their paths.
class EntryList {
 public:
  explicit EntryList(std::size_t most) : most_(most) {}

  Result<void> add(guest::Entry entry) {
    if (found_.size() >= most_) return fail(Code::Exhausted, "more than {} entries", most_);
    path_bytes_ += entry.path.size() + entry.target.size();
    if (path_bytes_ > kMostPathBytes) {
      return fail(Code::Exhausted, "the paths of the entries are longer than {} bytes together",
                  kMostPathBytes);
    }
    found_.push_back(std::move(entry));
    return {};
  }
  // Takes the whole records at the front of `bytes`.
  Result<void> take(std::string& bytes) {
    std::string_view rest = bytes;
    while (true) {
      TRY(std::optional<guest::Entry> entry, guest::take_entry(rest));
      if (!entry) break;
      TRY_VOID(add(*std::move(entry)));
    }
    bytes.erase(0, bytes.size() - rest.size());
    return {};
  }
  std::vector<guest::Entry> found() && { return std::move(found_); }

 private:
  const std::size_t most_;
  std::size_t path_bytes_ = 0;
  std::vector<guest::Entry> found_;
};

}  // namespace

asio::awaitable<Result<RunResult>> LiveSession::run(RunRequest request, OutputReader& reader) {
  CO_TRY(const std::shared_ptr<LiveRun> live, co_await start(std::move(request)));
  co_return co_await live->follow(reader);
}

void LiveSession::share_spools(const LiveSession& older) {
  if (spools_ == older.spools_) return;
  older.spools_->add_all(*spools_);
  spools_ = older.spools_;
}

asio::awaitable<Result<std::vector<guest::Entry>>> LiveSession::entries(guest::StartJob job,
                                                                        std::size_t most) {
  CO_TRY(const std::unique_ptr<FileJob> live, co_await start_job(std::move(job)));
  EntryList list(most);
  std::vector<char> buffer(kEntriesRead);
  std::string bytes;
  while (true) {
    CO_TRY(const std::size_t size, co_await live->read(buffer));
    if (size == 0) break;
    bytes.append(buffer.data(), size);
    CO_TRY_VOID(list.take(bytes));
  }
  CO_TRY_VOID(co_await live->finish());
  if (!bytes.empty()) co_return fail(Code::Os, "the agent cut a list of files short");
  co_return std::move(list).found();
}

}  // namespace glovebox::session
