// Prints what diffs and commits cost, beside what they are compared with, from one run. Trees are
// in memory, so that the walks are measured and not the disk; commits are on the disk.
#include "workspace/fixture.h"

#include <chrono>
#include <cstdio>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace glovebox::workspace::test {
namespace {

using Clock = std::chrono::steady_clock;

// The median of five runs, in milliseconds.
double time_of(const std::function<void()>& act) {
  std::vector<double> all;
  for (int i = 0; i < 5; ++i) {
    const auto start = Clock::now();
    act();
    all.push_back(std::chrono::duration<double, std::milli>(Clock::now() - start).count());
  }
  std::sort(all.begin(), all.end());
  return all[2];
}

void walk(int parent, const char* name, std::size_t& count) {
  const UniqueFd dir(::openat(parent, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  const auto entries = list_directory(dir);
  for (const Entry& entry : *entries) {
    const auto node = look(dir, entry.name);
    ++count;
    if (node->is(NodeType::Directory)) walk(dir.get(), entry.name.c_str(), count);
  }
}

void fill(const fs::path& root, int directories, int files, const std::string& text) {
  for (int i = 0; i < directories; ++i) {
    const fs::path dir = root / fmt::format("dir{}", i);
    fs::create_directory(dir);
    for (int j = 0; j < files; ++j) write_file(dir / fmt::format("file{}", j), text);
  }
}

struct Bench {
  Bench(Ground ground, int directories, int files) : temp(ground) {
    fs::create_directory(temp.path("origin"));
    fill(temp.path("origin"), directories, files, "original content of a file\n");
    wait_for_tick();
    root = open_layer_root(temp.path("layers")).value();
    layer.emplace(make_layer(*root, {.origin = temp.path("origin")}).value());
  }
  fs::path upper() const { return layer->upper_path(); }
  std::size_t compare_now() const {
    return diff(*layer, *layer->open_upper(), *layer->open_original())->size();
  }

  TempDir temp;
  std::optional<LayerRoot> root;
  std::optional<Layer> layer;
};

void few_changes() {
  const Bench bench(Ground::Memory, 1000, 50);
  fill(bench.upper(), 100, 1, "changed by the box\n");
  std::size_t found = 0;
  const double ms = time_of([&] { found = bench.compare_now(); });
  std::printf("diff of %zu changes in a workspace of 50,000 files: %.2f ms\n", found, ms);
}

void large_upper() {
  const Bench bench(Ground::Memory, 0, 0);
  fill(bench.upper(), 1000, 100, "new\n");
  std::size_t count = 0;
  std::size_t found = 0;
  const double plain = time_of([&] {
    count = 0;
    walk(AT_FDCWD, bench.upper().c_str(), count);
  });
  const double ours = time_of([&] { found = bench.compare_now(); });
  std::printf("diff of an upper of %zu: %.0f ms, a walk with statx %.0f ms: %.2f times\n", found,
              ours, plain, ours / plain);
}

void large_upper_over_original() {
  const Bench bench(Ground::Memory, 1000, 100);
  fill(bench.upper(), 1000, 100, "new\n");
  std::size_t count = 0;
  std::size_t found = 0;
  const double plain = time_of([&] {
    count = 0;
    walk(AT_FDCWD, bench.upper().c_str(), count);
  });
  const double ours = time_of([&] { found = bench.compare_now(); });
  std::printf("the same with every file in the original, too: %zu, %.0f ms: %.2f times\n", found,
              ours, ours / plain);
}

void thousand_files() {
  std::vector<double> ours;
  std::vector<double> theirs;
  for (int round = 0; round < 5; ++round) {
    Bench bench(Ground::Disk, 10, 100);
    fill(bench.upper(), 10, 100, std::string(4000, 'x'));
    const std::string copy =
        fmt::format("cp -a {} {} && find {} -type f -exec sync {{}} +", bench.upper().string(),
                    bench.temp.path("copy").string(), bench.temp.path("copy").string());
    ::sync();
    auto start = Clock::now();
    if (std::system(copy.c_str()) != 0) std::abort();
    theirs.push_back(std::chrono::duration<double, std::milli>(Clock::now() - start).count());
    ::sync();
    start = Clock::now();
    const auto original = bench.layer->open_original();
    const auto result = commit(*bench.layer, *original, {});
    ours.push_back(std::chrono::duration<double, std::milli>(Clock::now() - start).count());
    if (!result || result->is_refused() || result->applied.size() != 1000) std::abort();
  }
  std::sort(ours.begin(), ours.end());
  std::sort(theirs.begin(), theirs.end());
  std::printf("commit of 1,000 files of 4 kB: %.0f ms, cp -a with fsync %.0f ms: %.2f times\n",
              ours[2], theirs[2], ours[2] / theirs[2]);
}

}  // namespace
}  // namespace glovebox::workspace::test

int main() {
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  using namespace glovebox::workspace::test;
  few_changes();
  large_upper();
  large_upper_over_original();
  thousand_files();
}
