// Another process swaps directories for links while we read and write: nothing outside is touched
// or read.
#include "workspace/fixture.h"

#include <atomic>
#include <thread>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace glovebox::workspace::test {
namespace {

class Race : public WorkspaceTest {
 protected:
  void SetUp() override {
    WorkspaceTest::SetUp();
    fs::create_directories(temp().path("outside/sub"));
    write_file(temp().path("outside/secret"), "SECRET");
    write_file(temp().path("outside/f"), "SECRET");
    fs::create_directories(origin() / "d/sub");
    write_file(origin() / "d/f", "f\n");
  }

  // Makes `name` in `place` a directory, a link out, a directory... until told to stop.
  std::thread swapper(const fs::path& place) {
    return std::thread([this, place] {
      const std::string out = temp().path("outside").string();
      const fs::path name = place / "d";
      const fs::path aside = place / "d-aside";
      while (!stop_) {
        ::rename(name.c_str(), aside.c_str());
        (void)!::symlink(out.c_str(), name.c_str());
        ++swaps_;
        ::unlink(name.c_str());
        ::rename(aside.c_str(), name.c_str());
      }
    });
  }

  std::atomic<bool> stop_ = false;
  std::atomic<int> swaps_ = 0;
};

TEST_F(Race, SwapsInTheOriginalNeverLeadACommitOut) {
  begin();
  fs::create_directories(upper() / "d/sub");
  for (int i = 0; i < 20; ++i) {
    write_file(upper() / fmt::format("d/new{}", i), "box");
    write_file(upper() / fmt::format("d/sub/new{}", i), "box");
  }
  write_file(upper() / "d/f", "box");
  const Tree outside = read_tree(temp().path("outside"));
  std::thread thread = swapper(origin());
  int tries = 0;
  for (int round = 0; round < 400; ++round) {
    const auto original = layer().open_original();
    CommitOptions options;
    // Ignored: most end in a conflict or an error, some succeed; none may touch what is outside.
    (void)commit(layer(), *original, options);
    (void)undo(layer(), *original);
    ++tries;
    if (read_tree(temp().path("outside")) != outside) break;
  }
  stop_ = true;
  thread.join();
  EXPECT_EQ(read_tree(temp().path("outside")), outside) << "after " << tries << " tries";
  EXPECT_GT(swaps_, 100);
}

TEST_F(Race, SwapsInTheUpperNeverLeadAReadOut) {
  begin();
  fs::create_directories(upper() / "d/sub");
  write_file(upper() / "d/f", "box");
  std::thread thread = swapper(upper());
  for (int round = 0; round < 2000; ++round) {
    const auto upper_fd = layer().open_upper();
    const auto original = layer().open_original();
    const auto found = compare(layer(), *upper_fd, *original);
    if (!found) continue;
    std::string text;
    (void)write_unified(found->changes, *upper_fd, *original, Reader::Program,
                        [&](std::string_view piece) -> Result<void> {
                          text += piece;
                          return {};
                        });
    ASSERT_EQ(text.find("SECRET"), std::string::npos);
    if (round % 10 == 0) {
      (void)commit(layer(), *original, {});
      for (const auto& [name, what] : read_tree(origin())) {
        ASSERT_EQ(what.find("SECRET"), std::string::npos) << name;
      }
    }
  }
  stop_ = true;
  thread.join();
  EXPECT_GT(swaps_, 100);
}

}  // namespace
}  // namespace glovebox::workspace::test
