// What workspaces cost: a diff next to a walk over as many files, a commit next to cp and fsync,
// and files put into a session and read from it next to a pipe and to tar.

#include "base/file.h"
#include "session/box/file_job.h"
#include "session/manager/session_manager.h"
#include "support/managed.h"

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace glovebox::bench {
namespace {

namespace asio = boost::asio;
namespace fs = std::filesystem;
using namespace glovebox::session;

constexpr int kOriginal = 50'000;
constexpr int kUpper = 100'000;
constexpr int kCommitted = 1'000;
constexpr int kSmall = 10'000;
constexpr std::size_t kLarge = std::size_t{512} << 20;
constexpr std::size_t kPiece = std::size_t{256} << 10;

// `count` small files, a hundred to a directory.
Result<void> make_files(const fs::path& root, int count) {
  for (int i = 0; i < count; ++i) {
    const fs::path directory = root / std::to_string(i / 100);
    if (i % 100 == 0) fs::create_directories(directory);
    std::ofstream(directory / std::to_string(i)) << "content of file " << i << '\n';
  }
  return fs::exists(root) ? Result<void>() : fail(Code::Os, "{} is not there", root.string());
}

Result<void> walk(const fs::path& root) {
  for (const auto& entry : fs::recursive_directory_iterator(root)) {
    struct statx known{};
    if (::statx(AT_FDCWD, entry.path().c_str(), AT_SYMLINK_NOFOLLOW, STATX_BASIC_STATS, &known) !=
        0) {
      return fail_os(errno, "statx {}", entry.path().string());
    }
  }
  return {};
}

struct Place {
  Managed* bench;
  std::string id;
  std::shared_ptr<LiveSession> live;

  static Result<Place> make(Managed& bench) {
    TRY(const SessionInfo info, bench.await(bench.manager().create(bench.request())));
    TRY(std::shared_ptr<LiveSession> live, bench.manager().attach(info.id));
    return Place{&bench, info.id, std::move(live)};
  }
  Result<void> run(const std::string& code) const {
    RunRequest request;
    request.code = code;
    Ignored output;
    TRY(const RunResult result, bench->await(live->run(std::move(request), output)));
    return result.code == 0 ? Result<void>() : fail(Code::Os, "{} failed", code);
  }
  Result<void> diff(std::size_t expected) const {
    TRY(const DiffBody body, bench->await(bench->manager().diff(id, {}, DiffForm::Json)));
    if (body.changes >= expected) return {};
    return fail(Code::Os, "the diff has {} changes", body.changes);
  }
  Result<void> remove() const {
    TRY_VOID(bench->await(bench->manager().remove(id, LayerFate::Remove)));
    return {};
  }
};

constexpr const char* kMakeMany =
    "for d in $(seq 1000); do mkdir -p upper/$d; cd upper/$d; "
    "for f in $(seq 100); do echo $f > $f; done; cd ../..; done";

Result<void> measure_diffs(Managed& bench) {
  const fs::path work = bench.place() / "work";
  TRY_VOID(make_files(work / "tree", kOriginal));
  TRY_VOID(make_files(bench.place() / "like-upper", kUpper));
  TRY(const Place few, Place::make(bench));
  TRY_VOID(few.run("for i in $(seq 0 500 49500); do echo more >> tree/$((i / 100))/$i; done"));
  TRY(const Place many, Place::make(bench));
  TRY_VOID(many.run(kMakeMany));
  const std::string small = "diff of 100 changes in 50,000 files";
  const std::string large = "diff of an upper of 100,000 files";
  const std::string walked = "statx of 100,000 files";
  std::vector<Row> rows{
      {small, [&] { return few.diff(100); }},
      {"statx of 50,000 files", [&] { return walk(work / "tree"); }},
      {large, [&] { return many.diff(kUpper); }},
      {walked, [&] { return walk(bench.place() / "like-upper"); }},
  };
  TRY_VOID(run_rounds(rows, 10));
  print_table(rows, {walked});
  print_figure(small, percentile(rows.front().us, 0.5) / 1000, "ms", at_most(20));
  print_ratio(rows, large, walked, at_most(2));
  TRY_VOID(few.remove());
  return many.remove();
}

Result<void> sync_files(const fs::path& root) {
  for (const auto& entry : fs::recursive_directory_iterator(root)) {
    if (!entry.is_regular_file()) continue;
    const UniqueFd file(::open(entry.path().c_str(), O_RDONLY | O_CLOEXEC));
    if (::fsync(file.get()) != 0) return fail_os(errno, "fsync {}", entry.path().string());
  }
  return {};
}

// What is committed is written anew before each commit, which is not part of it.
Result<void> measure_commits(Managed& bench) {
  TRY_VOID(make_files(bench.place() / "source", kCommitted));
  int round = 0;
  std::optional<Place> place;
  const auto prepare = [&]() -> Result<void> {
    if (place) TRY_VOID(place->remove());
    TRY(place, Place::make(bench));
    const std::string name = "new-" + std::to_string(++round);
    return place->run("mkdir " + name + "; cd " + name +
                      "; for i in $(seq 1000); do echo $i > $i; done");
  };
  const auto commit = [&]() -> Result<void> {
    TRY(const workspace::CommitResult result,
        bench.await(bench.manager().commit(place->id, CommitRequest{})));
    if (!result.is_refused() && result.applied.size() > kCommitted) return {};
    return fail(Code::Os, "the commit took {} changes over", result.applied.size());
  };
  const auto copy = [&]() -> Result<void> {
    const std::string target = bench.place() / ("copy-" + std::to_string(round));
    TRY_VOID(spawn_and_wait({"/usr/bin/cp", "-a", bench.place() / "source", target}));
    return sync_files(target);
  };
  const std::string committed = "commit of 1,000 files";
  const std::string copied = "cp -a of 1,000 files, and fsync of each";
  std::vector<Row> rows{{"(write)", prepare}, {committed, commit}, {copied, copy}};
  TRY_VOID(run_rounds(rows, 10));
  std::erase_if(rows, [](const Row& row) { return row.name == "(write)"; });
  print_table(rows, {copied});
  print_ratio(rows, committed, copied, at_most(3));
  return place->remove();
}

asio::awaitable<Result<void>> put(LiveSession& live, guest::StartJob job, UniqueFd from) {
  auto started = co_await live.start_job(std::move(job));
  if (!started) co_return unexpected(started.error());
  std::vector<char> buffer(kPiece);
  for (;;) {
    const ssize_t got = ::read(from.get(), buffer.data(), buffer.size());
    if (got < 0) co_return fail_os(errno, "read");
    if (got == 0) break;
    auto taken = co_await (*started)->write({buffer.data(), static_cast<std::size_t>(got)});
    if (!taken) co_return taken;
  }
  auto over = co_await (*started)->finish();
  co_return over ? Result<void>() : unexpected(over.error());
}

asio::awaitable<Result<void>> get(LiveSession& live, guest::StartJob job, std::size_t expected) {
  auto started = co_await live.start_job(std::move(job));
  if (!started) co_return unexpected(started.error());
  auto entry = co_await (*started)->read_entry();
  if (!entry) co_return unexpected(entry.error());
  std::vector<char> buffer(kPiece);
  std::size_t total = 0;
  for (;;) {
    auto got = co_await (*started)->read(buffer);
    if (!got) co_return unexpected(got.error());
    if (*got == 0) break;
    total += *got;
  }
  auto over = co_await (*started)->finish();
  if (!over) co_return unexpected(over.error());
  co_return total == expected ? Result<void>() : fail(Code::Os, "read {} bytes", total);
}

guest::StartJob job_of(guest::JobKind kind, std::string path) {
  guest::StartJob job;
  job.kind = kind;
  job.path = std::move(path);
  if (kind == guest::JobKind::Unpack) job.flags = guest::kParents;
  return job;
}

UniqueFd open_to_read(const fs::path& path) {
  return UniqueFd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
}

// The same bytes through a pipe, from or to a cat.
Result<void> through_pipe(const std::string& command, const char* way, const fs::path& from) {
  FILE* pipe = ::popen(command.c_str(), way);
  if (pipe == nullptr) return fail_os(errno, "popen");
  const UniqueFd file = open_to_read(from);
  std::vector<char> buffer(kPiece);
  const bool reads = *way == 'r';
  for (;;) {
    const ssize_t got = ::read(reads ? ::fileno(pipe) : file.get(), buffer.data(), buffer.size());
    if (got <= 0) break;
    if (!reads) {
      TRY_VOID(
          write_all(BorrowedFd(::fileno(pipe)), {buffer.data(), static_cast<std::size_t>(got)}));
    }
  }
  return ::pclose(pipe) == 0 ? Result<void>() : fail(Code::Os, "{} failed", command);
}

Result<void> measure_files(Managed& bench) {
  const fs::path content = bench.place() / "content";
  const fs::path archive = bench.place() / "small.tar";
  TRY_VOID(
      spawn_and_wait({"/usr/bin/sh", "-c",
                      "head -c " + std::to_string(kLarge) + " /dev/zero > " + content.string()}));
  TRY_VOID(make_files(bench.place() / "small", kSmall));
  TRY_VOID(spawn_and_wait({"/usr/bin/tar", "-C", bench.place() / "small", "-cf", archive, "."}));
  fs::copy_file(archive, bench.place() / "work/small.tar");
  TRY(const Place place, Place::make(bench));
  int round = 0;
  const std::string copy = bench.place() / "copy-of-content";
  const std::string put_name = "write of 512 MiB";
  const std::string put_pipe = "cat > file behind a pipe, 512 MiB";
  const std::string get_name = "read of 512 MiB";
  const std::string get_pipe = "cat file behind a pipe, 512 MiB";
  const std::string unpack = "10,000 files put as tar";
  const std::string tar = "tar of them in the same box";
  std::vector<Row> rows{
      {put_name,
       [&] {
         return bench.await(
             put(*place.live, job_of(guest::JobKind::Write, "big"), open_to_read(content)));
       }},
      {put_pipe, [&] { return through_pipe("cat > " + copy, "we", content); }},
      {get_name,
       [&] { return bench.await(get(*place.live, job_of(guest::JobKind::Read, "big"), kLarge)); }},
      {get_pipe, [&] { return through_pipe("cat " + copy, "re", content); }},
      {unpack,
       [&] {
         return bench.await(put(*place.live,
                                job_of(guest::JobKind::Unpack, "put-" + std::to_string(++round)),
                                open_to_read(archive)));
       }},
      {tar,
       [&] {
         const std::string target = "tar-" + std::to_string(round);
         return place.run("mkdir " + target + " && tar -C " + target + " -xf small.tar");
       }},
  };
  TRY_VOID(run_rounds(rows, 5));
  print_table(rows, {});
  print_ratio(rows, put_pipe, put_name, at_least(0.8));
  print_ratio(rows, get_pipe, get_name, at_least(0.8));
  print_ratio(rows, unpack, tar, at_most(2));
  return place.remove();
}

Result<void> measure() {
  (void)std::printf("%s; uid %u\n", host_line().c_str(), ::getuid());
  TRY(const std::unique_ptr<Managed> bench, Managed::open());
  TRY_VOID(measure_files(*bench));
  TRY_VOID(measure_diffs(*bench));
  return measure_commits(*bench);
}

}  // namespace
}  // namespace glovebox::bench

int main() {
  const auto done = glovebox::bench::measure();
  if (done) return 0;
  (void)std::fprintf(stderr, "bench_workspace: %s\n", done.error().message.c_str());
  return 1;
}
