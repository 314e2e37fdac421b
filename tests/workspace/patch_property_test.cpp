// Random trees and random edits in a real overlay: what the diff prints makes, of a copy of the
// original, the files and links that the box has, by git-apply(1) and by patch(1).
//
// A patch knows no directories, and of permissions the owner's execute bit; so that is what is
// compared.
#include "workspace/fixture.h"

#include <algorithm>
#include <random>
#include <set>

#include <sys/stat.h>
#include <unistd.h>

namespace glovebox::workspace::test {
namespace {

// What the patch must hold for the program that applies it. patch(1) takes no binary files, no
// newline in a name, and nothing where a directory becomes something else or comes in its place.
enum class Applier { Git, Patch };

std::string files_of(const fs::path& root) {
  std::map<std::string, std::string> found;
  for (const auto& entry : fs::recursive_directory_iterator(root)) {
    const std::string name = entry.path().lexically_relative(root).string();
    if (entry.is_symlink()) {
      found[name] = "link to " + fs::read_symlink(entry.path()).string();
    } else if (entry.is_regular_file()) {
      const bool is_program =
          (entry.status().permissions() & fs::perms::owner_exec) != fs::perms::none;
      found[name] = (is_program ? "program " : "file ") + read_text(entry.path());
    }
  }
  std::string text;
  for (const auto& [name, what] : found) text += fmt::format("[{}] {}\n", name, what);
  return text;
}

// As in a checkout: a patch cannot say that such a directory goes, and one that is in the way of a
// file stays there.
void remove_empty_directories(const fs::path& root) {
  for (const auto& entry : fs::directory_iterator(root)) {
    if (entry.is_symlink() || !entry.is_directory()) continue;
    remove_empty_directories(entry.path());
    if (fs::is_empty(entry.path())) fs::remove(entry.path());
  }
}

class Editor {
 public:
  Editor(Applier applier, unsigned seed) : applier_(applier), random_(seed) {}

  void plant(const fs::path& root) {
    for (int i = 0; i < 25; ++i) {
      const fs::path place = fresh(root);
      if (place.empty()) continue;
      const std::size_t kind = pick(10);
      if (kind < 2) {
        fs::create_directory(place);
      } else if (kind == 2) {
        fs::create_symlink(target(), place);
      } else {
        write_file(place, content());
        if (pick(4) == 0) ::chmod(place.c_str(), 0755);
      }
    }
    for (const auto& entry : fs::recursive_directory_iterator(root)) {
      planted_.insert(entry.path().lexically_relative(root));
    }
  }

  void edit(const fs::path& root) {
    for (int i = 0; i < 15; ++i) edit_once(root);
  }

 private:
  std::size_t pick(std::size_t bound) { return random_() % bound; }

  std::string name() {
    static const std::vector<std::string> kNames{
        "plain",      "two words", "gr\u00fcn", "\u65e5\u672c", "tab\tname",    "quo\"te",
        "back\\lash", " lead",     "trail ",    "-dash",        "#hash",        "@@ -1 +1 @@",
        "\xff\xfe",   "x.txt",     "--- a",     "diff --git",   "new\nline",    "b",
        "\u202ertl",  "rename to", "dev null",  "'single'",     "a\x1b[31mred", "C:\\x"};
    std::string chosen = kNames[pick(kNames.size())];
    if (applier_ == Applier::Patch && chosen == "new\nline") chosen = "old line";
    return chosen;
  }

  std::string target() { return pick(2) == 0 ? "nowhere" : "two words/\u00fc"; }

  std::string content() {
    const std::size_t kind = pick(applier_ == Applier::Git ? 8 : 6);
    if (kind == 0) return "";
    if (kind > 5) {
      std::string bytes(pick(5000) + 1, '\0');
      for (char& byte : bytes) byte = static_cast<char>(pick(256));
      return bytes + '\0';
    }
    static const std::vector<std::string> kLines{"one",
                                                 "two words",
                                                 "",
                                                 "--- a/x",
                                                 "+++ b/x",
                                                 "\ttab",
                                                 "cr\r",
                                                 "@@ -1 ",
                                                 "# a remark",
                                                 "\xff",
                                                 "diff --git a/x b/x",
                                                 "last one ",
                                                 "-minus",
                                                 "+plus"};
    std::string text;
    for (std::size_t i = pick(30) + 1; i > 0; --i) text += kLines[pick(kLines.size())] + "\n";
    text += fmt::format("{}", random_());
    return kind == 1 ? text : text + "\n";
  }

  struct Names {
    std::vector<fs::path> directories;
    std::vector<fs::path> files;
    std::vector<fs::path> links;
  };
  static Names names(const fs::path& root) {
    Names found;
    found.directories.push_back(root);
    for (const auto& entry : fs::recursive_directory_iterator(root)) {
      if (entry.is_symlink()) {
        found.links.push_back(entry.path());
      } else {
        (entry.is_directory() ? found.directories : found.files).push_back(entry.path());
      }
    }
    // A directory's order is the filesystem's; a seed must mean the same everywhere.
    for (auto* list : {&found.directories, &found.files, &found.links}) {
      std::ranges::sort(*list);
    }
    return found;
  }

  fs::path fresh(const fs::path& root) {
    const Names known = names(root);
    const fs::path place = known.directories[pick(known.directories.size())] / name();
    // It may be a directory where there was a file, or the other way round.
    const bool was_there = planted_.contains(place.lexically_relative(root));
    if (applier_ == Applier::Patch && was_there) return {};
    return fs::symlink_status(place).type() == fs::file_type::not_found ? place : fs::path();
  }

  static std::string changed_lines(const std::string& text, std::size_t at) {
    return text.substr(0, at) + "changed\nhere\n" + text.substr(std::min(text.size(), at + 9));
  }

  void edit_file(const fs::path& root, const fs::path& file) {
    const fs::path place = fresh(root);
    switch (pick(8)) {
      case 0: write_file(file, read_text(file) + content()); break;
      case 1: {
        const std::string text = read_text(file);
        write_file(file, changed_lines(text, pick(text.size() + 1)));
        break;
      }
      case 2: fs::remove(file); break;
      case 3:
        if (!place.empty()) fs::rename(file, place);
        break;
      case 4: ::chmod(file.c_str(), pick(2) == 0 ? 0755 : 0640); break;
      case 5:
        fs::remove(file);
        fs::create_symlink(target(), file);
        break;
      case 6: write_file(file, content()); break;
      default: replace_by_directory(file); break;
    }
  }

  void replace_by_directory(const fs::path& file) {
    if (applier_ == Applier::Patch) return;
    const std::string text = read_text(file);
    fs::remove(file);
    fs::create_directory(file);
    write_file(file / name(), pick(2) == 0 ? text : content());
  }

  void edit_directory(const fs::path& directory) {
    fs::remove_all(directory);
    if (applier_ == Applier::Patch) return;
    const std::size_t kind = pick(3);
    if (kind == 0) write_file(directory, content());
    if (kind == 1) fs::create_symlink(target(), directory);
  }

  void edit_link(const fs::path& link) {
    fs::remove(link);
    const std::size_t kind = pick(3);
    if (kind == 0) fs::create_symlink("elsewhere", link);
    if (kind == 1) write_file(link, content());
  }

  void add(const fs::path& root) {
    const fs::path place = fresh(root);
    if (place.empty()) return;
    const std::size_t kind = pick(4);
    if (kind == 0) {
      fs::create_symlink(target(), place);
      return;
    }
    if (kind == 1) fs::create_directories(place / name());
    const fs::path file = kind == 1 ? place / name() / name() : place;
    if (kind == 1) fs::create_directories(file.parent_path());
    write_file(file, content());
    if (pick(3) == 0) ::chmod(file.c_str(), 0755);
  }

  void edit_once(const fs::path& root) {
    const Names known = names(root);
    const std::size_t kind = pick(10);
    if (kind < 6 && !known.files.empty()) {
      edit_file(root, known.files[pick(known.files.size())]);
    } else if (kind == 6 && known.directories.size() > 1) {
      edit_directory(known.directories[1 + pick(known.directories.size() - 1)]);
    } else if (kind == 7 && !known.links.empty()) {
      edit_link(known.links[pick(known.links.size())]);
    } else {
      add(root);
    }
  }

  Applier applier_;
  std::mt19937 random_;
  std::set<fs::path> planted_;
};

struct Case {
  Applier applier;
  unsigned seed;
};

class PatchProperty : public WorkspaceTest, public testing::WithParamInterface<Case> {
 protected:
  std::string unified() {
    std::string out;
    const auto written =
        write_unified(changes(), *layer().open_upper(), *layer().open_original(), Reader::Program,
                      [&](std::string_view piece) -> Result<void> {
                        out += piece;
                        return {};
                      });
    EXPECT_TRUE(written);
    return out;
  }
};

TEST_P(PatchProperty, AppliedToACopyItGivesTheFilesOfTheBox) {
  const bool is_git = GetParam().applier == Applier::Git;
  const char* program = is_git ? "/usr/bin/git" : "/usr/bin/patch";
  ASSERT_EQ(::access(program, X_OK), 0) << program << " is not installed";
  Editor editor(GetParam().applier, GetParam().seed);
  editor.plant(origin());
  const fs::path copy = temp().path("copy");
  const fs::path wanted = temp().path("wanted");
  constexpr auto kCopy = fs::copy_options::recursive | fs::copy_options::copy_symlinks;
  fs::copy(origin(), copy, kCopy);
  remove_empty_directories(copy);
  begin();
  in_overlay([&](const fs::path& merged) {
    editor.edit(merged);
    fs::copy(merged, wanted, kCopy);
  });
  const std::string patch = unified();
  if (patch.find("diff --git") == std::string::npos) GTEST_SKIP() << "no file was changed";
  write_file(temp().path("patch"), patch);
  const std::string apply = is_git ? "GIT_DIR=/nonexistent git apply --whitespace=nowarn ../patch"
                                   : "patch -p1 --batch --quiet <../patch";
  const std::string command = fmt::format("cd {} && {}", copy.string(), apply);
  ASSERT_EQ(std::system(command.c_str()), 0) << patch;
  EXPECT_EQ(files_of(copy), files_of(wanted)) << patch;
}

std::vector<Case> cases() {
  std::vector<Case> all;
  for (unsigned seed = 1; seed <= 60; ++seed) {
    all.push_back({Applier::Git, seed});
    all.push_back({Applier::Patch, seed});
  }
  return all;
}

INSTANTIATE_TEST_SUITE_P(Seeds, PatchProperty, testing::ValuesIn(cases()), [](const auto& test) {
  return fmt::format("{}_{}", test.param.applier == Applier::Git ? "git" : "patch",
                     test.param.seed);
});

}  // namespace
}  // namespace glovebox::workspace::test
