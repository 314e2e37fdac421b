#include "library/files.h"

#include "async/co_try.h"
#include "base/file.h"
#include "session/box/file_job.h"

#include <cerrno>
#include <vector>

namespace glovebox::library {
namespace {

constexpr std::size_t kPiece = std::size_t{256} << 10;

guest::StartJob job_of(guest::JobKind kind, std::string path) {
  guest::StartJob job;
  job.kind = kind;
  job.path = std::move(path);
  return job;
}

// A file that is not there has a code of its own outside.
Error named(Error error) {
  if (error.os_errno == ENOENT) error.code = Code::NotFound;
  return error;
}

}  // namespace

boost::asio::awaitable<Result<std::string>> read_whole(std::shared_ptr<session::LiveSession> live,
                                                       std::string path, std::size_t most) {
  guest::StartJob job = job_of(guest::JobKind::Read, std::move(path));
  CO_TRY(const std::unique_ptr<session::FileJob> reading, co_await live->start_job(std::move(job)));
  const auto entry = co_await reading->read_entry();
  if (!entry) co_return unexpected(named(entry.error()));
  std::string text;
  std::vector<char> piece(kPiece);
  while (true) {
    CO_TRY(const std::size_t size, co_await reading->read(piece));
    if (size == 0) break;
    if (size > most - text.size()) {
      co_return fail(Code::Exhausted, "the file has more than {} bytes", most);
    }
    text.append(piece.data(), size);
  }
  CO_TRY_VOID(co_await reading->finish());
  co_return text;
}

boost::asio::awaitable<Result<void>> write_whole(std::shared_ptr<session::LiveSession> live,
                                                 std::string path, std::string_view bytes) {
  guest::StartJob job = job_of(guest::JobKind::Write, std::move(path));
  job.flags = guest::kParents;
  CO_TRY(const std::unique_ptr<session::FileJob> writing, co_await live->start_job(std::move(job)));
  while (!bytes.empty()) {
    const std::string_view piece = bytes.substr(0, kPiece);
    CO_TRY_VOID(co_await writing->write(piece));
    bytes.remove_prefix(piece.size());
  }
  CO_TRY_VOID(co_await writing->finish());
  co_return Result<void>();
}

Result<std::string> read_body(const session::DiffBody& body, std::size_t most) {
  if (body.size > most) return fail(Code::Exhausted, "the diff has more than {} bytes", most);
  return read_fd(body.file, most);
}

}  // namespace glovebox::library
