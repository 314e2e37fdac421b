// What the state of sessions costs: forks of a session with 10,000 changed files, a recycle next to
// a start, and how fast a checkpoint is written and restored next to cp of the same bytes.

#include "base/file.h"
#include "session/manager/session_manager.h"
#include "support/managed.h"

#include <boost/asio/co_spawn.hpp>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <random>

#include <fcntl.h>
#include <unistd.h>

namespace glovebox::bench {
namespace {

namespace asio = boost::asio;
using Clock = std::chrono::steady_clock;
using namespace glovebox::session;

constexpr int kFiles = 10'000;
constexpr std::size_t kChildren = 8;
constexpr std::size_t kMebibytes = 512;

double ms_since(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

Result<SessionInfo> start(Managed& bench) {
  return bench.await(bench.manager().create(bench.request()));
}

Result<void> run_code(Managed& bench, const SessionInfo& info, const std::string& code) {
  TRY(const std::shared_ptr<LiveSession> live, bench.manager().attach(info.id));
  RunRequest request;
  request.code = code;
  Ignored output;
  TRY(const RunResult result, bench.await(live->run(std::move(request), output)));
  return result.code == 0 ? Result<void>() : fail(Code::Os, "{} failed", code);
}

// Forks, starts and recycles in turn, so that what disturbs one disturbs all.
Result<void> measure_forks(Managed& bench) {
  TRY(const SessionInfo parent, start(bench));
  TRY_VOID(run_code(bench, parent,
                    "mkdir many; for d in $(seq 100); do mkdir many/$d; for f in $(seq " +
                        std::to_string(kFiles / 100) + "); do echo $f > many/$d/$f; done; done"));
  std::vector<double> forks, starts, recycles;
  for (int round = 0; round < 30; ++round) {
    // So that each fork has something to freeze.
    TRY_VOID(run_code(bench, parent, "echo x > touched"));
    ForkRequest request;
    request.count = kChildren;
    auto begin = Clock::now();
    auto children = bench.await(bench.manager().fork(parent.id, request));
    if (!children) return unexpected(children.error());
    forks.push_back(ms_since(begin) / kChildren);
    for (const SessionInfo& child : *children) {
      TRY_VOID(bench.await(bench.manager().remove(child.id, LayerFate::Remove)));
    }
    begin = Clock::now();
    TRY(const SessionInfo fresh, start(bench));
    starts.push_back(ms_since(begin));
    begin = Clock::now();
    TRY_VOID(bench.await(bench.manager().recycle(fresh.id, {})));
    recycles.push_back(ms_since(begin));
    TRY_VOID(bench.await(bench.manager().remove(fresh.id, LayerFate::Remove)));
  }
  const double started = percentile(starts, 0.5);
  print_figure("fork of a 10,000-file layer into 8, each", percentile(forks, 0.5), "ms",
               at_most(5));
  print_figure("start of a session", started, "ms");
  print_figure("recycle of a session", percentile(recycles, 0.5), "ms", at_most(started + 1));
  return {};
}

// Half of it is noise, half of it text.
Result<void> write_content(const std::filesystem::path& path) {
  std::ofstream out(path, std::ios::binary);
  std::mt19937_64 random(1);
  std::string noise(std::size_t{1} << 20, '\0');
  for (std::size_t i = 0; i < kMebibytes; ++i) {
    for (std::size_t at = 0; at < noise.size(); at += 8) {
      const std::uint64_t word = i % 2 == 0 ? random() : 0x6120676e69687420ULL + at % 4096;
      std::copy_n(reinterpret_cast<const char*>(&word), 8, noise.data() + at);
    }
    out << noise;
  }
  return out ? Result<void>() : fail(Code::Os, "{} cannot be written", path.string());
}

Result<void> measure_checkpoints(Managed& bench) {
  TRY_VOID(write_content(bench.place() / "work/content"));
  TRY(const SessionInfo info, start(bench));
  TRY_VOID(run_code(bench, info, "cp content copy"));
  TRY(const checkpoint::Key key, checkpoint::make_key());
  std::vector<double> writes, reads, copies;
  for (int round = 0; round < 5; ++round) {
    auto begin = Clock::now();
    CheckpointRequest request{.key = key, .tenant = ""};
    auto file = bench.await(bench.manager().checkpoint(info.id, std::move(request)));
    if (!file) return unexpected(file.error());
    writes.push_back(kMebibytes / ms_since(begin) * 1000);
    begin = Clock::now();
    RestoreRequest back{.key = key, .tenant = ""};
    auto restored = bench.await(bench.manager().restore(std::move(file->file), std::move(back)));
    if (!restored) return unexpected(restored.error());
    reads.push_back(kMebibytes / ms_since(begin) * 1000);
    TRY_VOID(bench.await(bench.manager().remove(restored->info.id, LayerFate::Remove)));
    begin = Clock::now();
    std::filesystem::copy_file(bench.place() / "work/content", bench.place() / "copy",
                               std::filesystem::copy_options::overwrite_existing);
    copies.push_back(kMebibytes / ms_since(begin) * 1000);
  }
  print_figure("checkpoint", percentile(writes, 0.5), "MiB/s", at_least(200));
  print_figure("restore", percentile(reads, 0.5), "MiB/s", at_least(200));
  print_figure("cp of the same bytes", percentile(copies, 0.5), "MiB/s");
  return {};
}

Result<void> measure() {
  (void)std::printf("%s\n", host_line().c_str());
  TRY(const std::unique_ptr<Managed> managed, Managed::open());
  Managed& bench = *managed;
  TRY_VOID(measure_forks(bench));
  return measure_checkpoints(bench);
}

}  // namespace
}  // namespace glovebox::bench

int main() {
  const auto done = glovebox::bench::measure();
  if (done) return 0;
  (void)std::fprintf(stderr, "bench_state: %s\n", done.error().message.c_str());
  return 1;
}
