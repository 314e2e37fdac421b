// Repositories that are small on the disk and large for a reader.
#include "workspace/git/git_history.h"
#include "workspace/git_fixture.h"

#include <fcntl.h>

namespace glovebox::workspace::test {
namespace {

class GitBounds : public testing::Test {
 protected:
  GitBounds() {
    shell(temp_.path(), "git init -q -b main .");
    dir_ = UniqueFd(::open(temp_.path().c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  }

  std::string output(const std::string& command) const {
    shell(temp_.path(), command + " >.output");
    std::string text = read_text(temp_.path(".output"));
    if (!text.empty()) text.pop_back();
    return text;
  }
  GitStore store(std::uint64_t work) const {
    return {".git/objects", brought_, dir_, /*id_digits=*/40, work};
  }

  TempDir temp_;
  UniqueFd dir_;
  std::set<std::string> none_;
  Brought brought_{.paths = &none_};
};

TEST_F(GitBounds, LooseObjectsCountAsWork) {
  const ObjectId id = output("head -c 1000000 /dev/zero | git hash-object -w --stdin");
  GitStore bounded = store(2'500'000);
  EXPECT_TRUE(bounded.read(id));
  EXPECT_TRUE(bounded.read(id));
  EXPECT_EQ(bounded.read(id).error().code, Code::Exhausted);
}

// One that is broken at its end was inflated all the same.
TEST_F(GitBounds, BrokenLooseObjectsCountAsWork) {
  const ObjectId id = output("head -c 1000000 /dev/urandom | git hash-object -w --stdin");
  const fs::path file = temp_.path(".git/objects/" + id.substr(0, 2) + "/" + id.substr(2));
  std::string bytes = read_text(file);
  bytes.resize(bytes.size() - 8);
  fs::permissions(file, fs::perms::owner_all);
  write_file(file, bytes);
  GitStore bounded = store(kLargestGitObject + 1);
  EXPECT_EQ(bounded.read(id).error().code, Code::Invalid);
  EXPECT_EQ(bounded.read(id).error().code, Code::Exhausted);
}

// What is kept of trees is bounded by their entries, so two large ones are read again and again;
// how often is bounded as well.
TEST_F(GitBounds, EntriesOfTreesAreCountedWheneverTheyAreRead) {
  const auto commit = [&](int first) {
    const std::string blob(40, '1');
    return output("seq " + std::to_string(first) + " " + std::to_string(first + 300'000) +
                  " | awk '{printf \"100644 blob " + blob + "\\tf%07d\\n\", $1}'" +
                  " | git mktree --missing | xargs git commit-tree -m x");
  };
  const ObjectId one = commit(1);
  const ObjectId other = commit(2);
  GitStore objects = store(kMostPackWork);
  GitHistory history(objects, {});
  EXPECT_TRUE(history.find(one, "f0000002"));
  bool is_bounded = false;
  for (int i = 0; i < 10 && !is_bounded; ++i) {
    is_bounded = !history.find(other, "f0000002") || !history.find(one, "f0000002");
  }
  EXPECT_TRUE(is_bounded);
}

}  // namespace
}  // namespace glovebox::workspace::test
