// Random edits, once through a real overlay and a commit, once on a plain copy: the same tree.
#include "workspace/fixture.h"

#include <random>

#include <sys/stat.h>
#include <unistd.h>

namespace glovebox::workspace::test {
namespace {

// One edit. Chosen on the plain copy, then done in both places.
struct Op {
  enum Kind { Write, Append, Remove, MakeDirectory, Rename, Mode, Link, Replace, Truncate } kind;
  std::string path;
  std::string other;  // Rename: to; Link: target; Write, Append: text
  unsigned mode = 0;
};

void copy_over(const fs::path& from, const fs::path& to) {
  fs::copy(from, to, fs::copy_options::recursive | fs::copy_options::copy_symlinks);
}

// As mv(1): a directory of the original cannot be renamed in an overlay and is copied.
void move(const fs::path& from, const fs::path& to) {
  if (::rename(from.c_str(), to.c_str()) == 0) return;
  fs::remove_all(to);
  copy_over(from, to);
  fs::remove_all(from);
}

void apply(const fs::path& root, const Op& op) {
  const fs::path path = root / op.path;
  switch (op.kind) {
    case Op::Write: write_file(path, op.other); break;
    case Op::Append: write_file(path, read_text(path) + op.other); break;
    case Op::Remove: fs::remove_all(path); break;
    case Op::MakeDirectory: fs::create_directory(path); break;
    case Op::Rename: move(path, root / op.other); break;
    case Op::Mode: ::chmod(path.c_str(), op.mode); break;
    case Op::Link:
      fs::remove_all(path);
      fs::create_symlink(op.other, path);
      break;
    case Op::Replace:  // as editors save: another file is moved over it
      write_file(path.string() + "~", op.other);
      ::rename((path.string() + "~").c_str(), path.c_str());
      break;
    case Op::Truncate: fs::resize_file(path, 0); break;
  }
}

class Editor {
 public:
  Editor(fs::path root, unsigned seed) : root_(std::move(root)), random_(seed) {}

  std::vector<Op> edit(int count) {
    std::vector<Op> ops;
    while (count-- > 0) {
      const auto op = choose();
      if (!op) continue;
      apply(root_, *op);
      ops.push_back(*op);
    }
    return ops;
  }

 private:
  std::size_t pick(std::size_t bound) { return random_() % bound; }

  struct Names {
    std::vector<std::string> directories{""};
    std::vector<std::string> files;
    std::vector<std::string> all;
  };
  Names names() const {
    Names found;
    for (const auto& entry : fs::recursive_directory_iterator(root_)) {
      const std::string name = entry.path().lexically_relative(root_).string();
      found.all.push_back(name);
      if (entry.is_symlink()) continue;
      (entry.is_directory() ? found.directories : found.files).push_back(name);
    }
    return found;
  }

  std::string fresh(const Names& known) {
    const std::string& dir = known.directories[pick(known.directories.size())];
    return join_path(dir, fmt::format("n{}", pick(12)));
  }

  std::optional<Op> choose() {
    Names known = names();
    const bool has_files = !known.files.empty();
    const std::string text = fmt::format("text {}\n", random_());
    const std::string file = has_files ? known.files[pick(known.files.size())] : "";
    const std::string any = known.all.empty() ? "" : known.all[pick(known.all.size())];
    const std::string place = fresh(known);
    const bool is_free = fs::symlink_status(root_ / place).type() == fs::file_type::not_found;
    switch (pick(10)) {
      case 0: return is_free ? std::optional(Op{Op::Write, place, text}) : std::nullopt;
      case 1: return has_files ? std::optional(Op{Op::Append, file, text}) : std::nullopt;
      case 2: return any.empty() ? std::nullopt : std::optional(Op{Op::Remove, any, ""});
      case 3: return is_free ? std::optional(Op{Op::MakeDirectory, place, ""}) : std::nullopt;
      case 4: {
        const bool is_inside = place == any || is_below(place, any);
        if (any.empty() || is_inside || !is_free) return std::nullopt;
        return Op{Op::Rename, any, place};
      }
      case 5: {
        const bool is_directory = pick(2) == 0 && known.directories.size() > 1;
        const std::string& target = is_directory ? known.directories[1] : file;
        if (target.empty()) return std::nullopt;
        return Op{Op::Mode, target, "",
                  is_directory ? 0750U : 0600U + static_cast<unsigned>(pick(64))};
      }
      case 6: {
        if (any.empty() && !is_free) return std::nullopt;
        return Op{Op::Link, is_free ? place : any, fmt::format("target{}", pick(3))};
      }
      case 7: return has_files ? std::optional(Op{Op::Replace, file, text}) : std::nullopt;
      case 8: return has_files ? std::optional(Op{Op::Truncate, file, ""}) : std::nullopt;
      default:  // a file over a file
        if (known.files.size() < 2) return std::nullopt;
        return Op{Op::Rename, file, known.files[pick(known.files.size())]};
    }
  }

  fs::path root_;
  std::mt19937 random_;
};

void plant(const fs::path& root) {
  for (const char* dir : {"a", "a/deep", "a/deep/er", "b", "c"}) fs::create_directory(root / dir);
  for (const char* file : {"one", "two", "a/x", "a/y", "a/deep/z", "a/deep/er/q", "b/p", "b/r"}) {
    write_file(root / file, fmt::format("original of {}\n", file));
  }
  fs::create_symlink("one", root / "link");
  ::chmod((root / "two").c_str(), 0755);
}

struct Case {
  MarkPrefix prefix;
  Ground ground;
  unsigned seed;
  std::size_t layers;  // on one another, each frozen by the next
};

class OverlayProperty : public WorkspaceTest, public testing::WithParamInterface<Case> {
 protected:
  OverlayProperty() : WorkspaceTest(GetParam().ground) {}
};

TEST_P(OverlayProperty, CommitEqualsTheSameEditsDonePlainly) {
  if (GetParam().prefix == MarkPrefix::Trusted && ::geteuid() != 0) {
    GTEST_SKIP() << "an overlay with trusted marks needs root";
  }
  plant(origin());
  const fs::path copy = temp().path("copy");
  fs::copy(origin(), copy, fs::copy_options::recursive | fs::copy_options::copy_symlinks);
  const Tree pristine = read_tree_with_times(origin());
  begin(GetParam().prefix);

  const std::vector<Op> ops = Editor(copy, GetParam().seed).edit(40);
  const std::size_t layers = GetParam().layers;
  for (std::size_t i = 0; i < layers; ++i) {
    if (i > 0) freeze();
    in_overlay([&](const fs::path& merged) {
      for (std::size_t k = ops.size() * i / layers; k < ops.size() * (i + 1) / layers; ++k) {
        apply(merged, ops[k]);
      }
    });
  }
  EXPECT_EQ(read_tree_with_times(origin()), pristine) << "the original was touched before a commit";

  const CommitResult result = commit_all();
  ASSERT_FALSE(result.is_refused())
      << (result.conflicts.empty() ? to_text(result.held.front())
                                   : to_text(result.conflicts.front()));
  EXPECT_EQ(read_tree(origin()), read_tree(copy));
  EXPECT_TRUE(changes().empty()) << to_text(changes().front());
  if (result.number == 0) return;

  EXPECT_TRUE(undo_last().conflicts.empty());
  EXPECT_EQ(read_tree_with_times(origin()), pristine);
  EXPECT_FALSE(commit_all().is_refused());
  EXPECT_EQ(read_tree(origin()), read_tree(copy));
}

std::vector<Case> cases() {
  std::vector<Case> all;
  for (unsigned seed = 1; seed <= 60; ++seed) {
    const MarkPrefix prefix = seed % 3 == 0 ? MarkPrefix::Trusted : MarkPrefix::User;
    all.push_back({prefix, seed % 10 == 0 ? Ground::Disk : Ground::Memory, seed, 1});
  }
  for (unsigned seed = 101; seed <= 160; ++seed) {
    const MarkPrefix prefix = seed % 3 == 0 ? MarkPrefix::Trusted : MarkPrefix::User;
    all.push_back({prefix, Ground::Memory, seed, 2 + seed % 4});
  }
  return all;
}

INSTANTIATE_TEST_SUITE_P(Seeds, OverlayProperty, testing::ValuesIn(cases()), [](const auto& test) {
  return fmt::format(
      "{}_{}_{}_layers_{}", test.param.prefix == MarkPrefix::User ? "user" : "trusted",
      test.param.ground == Ground::Disk ? "disk" : "memory", test.param.layers, test.param.seed);
});

}  // namespace
}  // namespace glovebox::workspace::test
