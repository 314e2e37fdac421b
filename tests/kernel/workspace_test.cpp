// Trees handed in: at their own path, as much as was granted, and with their owner kept.
#include "support/box_test.h"

#include <filesystem>

#include <sys/stat.h>
#include <unistd.h>

namespace glovebox::test {
namespace {

namespace fs = std::filesystem;

class Workspace : public BoxTest {
 protected:
  static struct stat facts_of(const std::string& path) {
    struct stat info{};
    EXPECT_EQ(lstat(path.c_str(), &info), 0) << path;
    return info;
  }
  // A tree somewhere else than below /tmp, removed with this object.
  struct Elsewhere {
    std::string path;
    Elsewhere(std::string where, Ids owner) : path(std::move(where)) {
      fs::create_directories(path);
      write_text(path + "/old", "old text\n");
      if (chown(path.c_str(), owner.uid, owner.gid) != 0 ||
          chown((path + "/old").c_str(), owner.uid, owner.gid) != 0) {
        throw std::runtime_error("cannot give away " + path);
      }
    }
    ~Elsewhere() { fs::remove_all(path); }
    Elsewhere(const Elsewhere&) = delete;
    Elsewhere& operator=(const Elsewhere&) = delete;
  };
};

TEST_P(Workspace, AppearsAtItsOwnPathAndIsTheWorkingDirectory) {
  const std::string work = make_tree("work");
  const Outcome outcome = run({"--workspace", work + ":rw"}, {"/bin/sh", "-c", "pwd; cat old"});
  EXPECT_THAT(outcome, ended_with(0));
  EXPECT_EQ(outcome.out, work + "\nold text\n");
}

TEST_P(Workspace, WithoutOneTheBoxStartsInAnEmptyHome) {
  const Outcome outcome = run({}, {"/bin/sh", "-c", "pwd; ls -A; touch x"});
  EXPECT_THAT(outcome, ended_with(0));
  EXPECT_EQ(outcome.out, "/home/box\n");
}

TEST_P(Workspace, WritesArriveAndKeepTheOwner) {
  const std::string work = make_tree("work");
  EXPECT_THAT(probe({"-w", work + ":rw"}, {"create", work + "/new", "made inside\n"}),
              ended_with(0));
  EXPECT_THAT(probe({"-w", work + ":rw"}, {"write", work + "/old"}), ended_with(0));
  EXPECT_THAT(probe({"-w", work + ":rw"}, {"mkdir", work + "/sub"}), ended_with(0));
  EXPECT_EQ(read_text(work + "/new"), "made inside\n");
  EXPECT_EQ(facts_of(work + "/new").st_uid, caller_ids().uid);
  EXPECT_EQ(facts_of(work + "/new").st_gid, caller_ids().gid);
  EXPECT_EQ(facts_of(work + "/sub").st_uid, caller_ids().uid);
}

TEST_P(Workspace, OwnerAppearsAsTheBoxsUser) {
  const std::string work = make_tree("work");
  const std::string id = as_root() ? "1000" : std::to_string(caller_ids().uid);
  EXPECT_THAT(lines_after(probe({"-w", work + ":rw"}, {"stat", work + "/old"}).out, "mode="),
              testing::ElementsAre(testing::HasSubstr("uid=" + id + " gid=" + id)));
}

TEST_P(Workspace, TreeOfAnotherUserIsUsableAsRoot) {
  ROOT_TIER_ONLY();
  const std::string work = make_tree("work");
  ASSERT_EQ(chown(work.c_str(), 12345, 23456), 0);
  ASSERT_EQ(chown((work + "/old").c_str(), 12345, 23456), 0);
  ASSERT_EQ(chmod((work + "/old").c_str(), 0600), 0);
  EXPECT_THAT(probe({"-w", work + ":rw"}, {"read", work + "/old"}), ended_with(0));
  EXPECT_THAT(probe({"-w", work + ":rw"}, {"create", work + "/new"}), ended_with(0));
  EXPECT_EQ(facts_of(work + "/new").st_uid, 12345U);
  EXPECT_EQ(facts_of(work + "/new").st_gid, 23456U);
}

TEST_P(Workspace, FilesOfOthersInTheTreeStayOutOfReach) {
  ROOT_TIER_ONLY();
  const std::string work = make_tree("work");
  const std::string secret = make_file("work/secret", "of somebody else\n", 0600);
  ASSERT_EQ(chown(secret.c_str(), 54321, 54321), 0);
  EXPECT_THAT(probe({"-w", work + ":rw"}, {"read", secret}), ended_with(EACCES));
  EXPECT_THAT(probe({"-w", work + ":rw"}, {"chmod", secret, "0666"}),
              refused_with(Errnos{EPERM, EOVERFLOW}));
  EXPECT_THAT(probe({"-w", work + ":rw"}, {"chown", work + "/old", "0"}),
              refused_with(Errnos{EPERM, EINVAL}));
  EXPECT_THAT(probe({"-w", work + ":rw"}, {"chown", work + "/old", "54321"}),
              refused_with(Errnos{EPERM, EINVAL}));
  EXPECT_EQ(facts_of(secret).st_uid, 54321U);
}

TEST_P(Workspace, OrdinaryUserGainsNothing) {
  USER_TIER_ONLY();
  NEEDS(Feature::Root);
  const std::string work = make_tree("work");
  ASSERT_EQ(chown((work + "/old").c_str(), 0, 0), 0);
  ASSERT_EQ(chmod((work + "/old").c_str(), 0644), 0);
  const std::string secret = make_file("work/secret", "root's\n", 0600);
  ASSERT_EQ(chown(secret.c_str(), 0, 0), 0);
  EXPECT_THAT(probe({"-w", work + ":rw"}, {"read", work + "/old"}), ended_with(0));
  EXPECT_THAT(probe({"-w", work + ":rw"}, {"write", work + "/old"}), ended_with(EACCES));
  EXPECT_THAT(probe({"-w", work + ":rw"}, {"read", secret}), ended_with(EACCES));
}

TEST_P(Workspace, ReadOnlyModeRefusesEveryChange) {
  const std::string work = make_tree("work");
  const Words options{"--workspace", work + ":ro"};
  EXPECT_THAT(probe(options, {"read", work + "/old"}), ended_with(0));
  EXPECT_THAT(probe(options, {"write", work + "/old"}), ended_with(EROFS));
  EXPECT_THAT(probe(options, {"create", work + "/new"}), ended_with(EROFS));
  EXPECT_THAT(probe(options, {"truncate", work + "/old"}), ended_with(EROFS));
  EXPECT_THAT(probe(options, {"chmod", work + "/old", "0600"}), ended_with(EROFS));
  EXPECT_THAT(probe(options, {"utimes", work + "/old"}), ended_with(EROFS));
  EXPECT_THAT(probe(options, {"setxattr", work + "/old"}), ended_with(EROFS));
  EXPECT_THAT(probe(options, {"unlink", work + "/old"}), refused_with(Errnos{EROFS, EACCES}));
  EXPECT_THAT(probe(options, {"mkdir", work + "/sub"}), refused_with(Errnos{EROFS, EACCES}));
  EXPECT_THAT(probe(options, {"rename", work + "/old", work + "/x"}),
              refused_with(Errnos{EROFS, EACCES}));
  EXPECT_EQ(read_text(work + "/old"), "old text\n");
}

TEST_P(Workspace, GrantsForReadingAndWriting) {
  const std::string book = make_tree("book"), desk = make_tree("desk"), other = make_tree("other");
  const Words options{"--read", book, "--write", desk};
  EXPECT_THAT(probe(options, {"read", book + "/old"}), ended_with(0));
  EXPECT_THAT(probe(options, {"write", book + "/old"}), ended_with(EROFS));
  EXPECT_THAT(probe(options, {"write", desk + "/old"}), ended_with(0));
  EXPECT_THAT(probe(options, {"create", desk + "/new"}), ended_with(0));
  EXPECT_THAT(probe(options, {"read", other + "/old"}), ended_with(ENOENT));
  EXPECT_EQ(facts_of(desk + "/new").st_uid, caller_ids().uid);
}

TEST_P(Workspace, SingleFilesCanBeGranted) {
  const std::string book = make_file("book", "to read\n"), desk = make_file("desk", "to write\n");
  const std::string beside = make_file("beside", "hidden\n");
  const Words options{"--read", book, "--write", desk};
  EXPECT_THAT(probe(options, {"read", book}), ended_with(0));
  EXPECT_THAT(probe(options, {"write", book}), ended_with(EROFS));
  EXPECT_THAT(probe(options, {"write", desk, "changed!\n"}), ended_with(0));
  EXPECT_THAT(probe(options, {"read", beside}), ended_with(ENOENT));
  EXPECT_THAT(probe(options, {"unlink", desk}), refused_with(Errnos{EBUSY, EACCES, EPERM, EROFS}));
  EXPECT_EQ(read_text(desk), "changed!\n");
  EXPECT_EQ(read_text(book), "to read\n");
}

TEST_P(Workspace, WritableInsideReadableInAnyOrder) {
  const std::string outer = make_tree("outer");
  const std::string inner = make_tree("outer/inner");
  for (const Words& options :
       {Words{"--read", outer, "--write", inner}, Words{"--write", inner, "--read", outer}}) {
    EXPECT_THAT(probe(options, {"write", inner + "/old"}), ended_with(0));
    EXPECT_THAT(probe(options, {"write", outer + "/old"}), ended_with(EROFS));
    EXPECT_THAT(probe(options, {"create", outer + "/new"}), refused_with(Errnos{EROFS, EACCES}));
  }
}

TEST_P(Workspace, GrantsAddUp) {
  const std::string outer = make_tree("outer");
  const std::string inner = make_tree("outer/inner");
  EXPECT_THAT(probe({"--write", outer, "--read", inner}, {"write", inner + "/old"}), ended_with(0));
}

TEST_P(Workspace, ReadableInsideWritableInAnyOrder) {
  const std::string outer = make_tree("outer");
  const std::string inner = make_tree("outer/inner");
  const std::string denial = "write=" + inner;
  for (const Words& options :
       {Words{"--write", outer, "--deny", denial}, Words{"--deny", denial, "--write", outer},
        Words{"-w", outer + ":rw", "--deny", denial}}) {
    EXPECT_THAT(probe(options, {"write", outer + "/old"}), ended_with(0));
    EXPECT_THAT(probe(options, {"read", inner + "/old"}), ended_with(0));
    EXPECT_THAT(probe(options, {"write", inner + "/old"}), ended_with(EROFS));
    EXPECT_THAT(probe(options, {"create", inner + "/new"}), refused_with(Errnos{EROFS, EACCES}));
    EXPECT_THAT(probe(options, {"rename", inner, outer + "/moved"}),
                refused_with(Errnos{EBUSY, EXDEV, EACCES}));
  }
}

TEST_P(Workspace, SymlinkedPathsAreResolvedOnce) {
  const std::string work = make_tree("real");
  const std::string link = scratch() + "/link";
  fs::create_symlink(work, link);
  const Outcome outcome = run({"--workspace", link + ":rw"}, {"/bin/sh", "-c", "pwd -P; cat old"});
  EXPECT_THAT(outcome, ended_with(0));
  EXPECT_EQ(outcome.out, work + "\nold text\n");
}

TEST_P(Workspace, LinksThatPointOutLeadNowhere) {
  const std::string canary = make_file("canary", "outside\n");
  const std::string work = make_tree("work");
  fs::create_symlink(canary, work + "/out");
  EXPECT_THAT(probe({"-w", work + ":rw"}, {"read", work + "/out"}), ended_with(ENOENT));
  EXPECT_THAT(probe({"-w", work + ":rw"}, {"read", work + "/../canary"}), ended_with(ENOENT));
}

TEST_P(Workspace, BelowTmpLeavesTmpPrivate) {
  const std::string work = make_tree("work");
  const std::string neighbour = make_file("neighbour", "outside\n");
  EXPECT_THAT(probe({"-w", work + ":rw"}, {"read", neighbour}), ended_with(ENOENT));
  const std::string path = own_name_in("/tmp");
  EXPECT_THAT(probe({"-w", work + ":rw"}, {"create", path}), ended_with(0));
  EXPECT_FALSE(fs::exists(path));
  EXPECT_THAT(probe({"-w", work + ":rw"}, {"create", scratch() + "/beside"}),
              testing::Not(ended_with(125)));
  EXPECT_FALSE(fs::exists(scratch() + "/beside"));
}

TEST_P(Workspace, WorksWhereverItLies) {
  NEEDS(Feature::Root);
  const std::string name = "/glovebox-test-" + std::to_string(getpid());
  for (const char* where : {"/srv", "/home", "/opt", "/var/tmp", "/var/lib", "/root", "", "/run"}) {
    const std::string top = std::string(where) + name;
    const Elsewhere tree(top + "/deep", caller_ids());
    // An ordinary user cannot enter /root, and so cannot hand anything of it in.
    if (!as_root() && std::string(where) == "/root") {
      EXPECT_THAT(run({"-w", tree.path + ":rw"}, {"true"}), refused_to_start(""));
      fs::remove_all(top);
      continue;
    }
    EXPECT_THAT(probe({"-w", tree.path + ":rw"}, {"write", tree.path + "/old", "changed!\n"}),
                ended_with(0))
        << where;
    EXPECT_EQ(read_text(tree.path + "/old"), "changed!\n") << where;
    EXPECT_THAT(probe({"-w", tree.path + ":rw"}, {"create", "/tmp/x"}), ended_with(0)) << where;
    fs::remove_all(top);
  }
}

TEST_P(Workspace, LongAndOddNamesWork) {
  for (const std::string& name :
       {std::string(200, 'n'), std::string("two words"), std::string("a:b"),
        std::string("quote\"'\\"), std::string("new\nline"), std::string("\xff\xfe")}) {
    const std::string work = make_tree(name);
    const Outcome outcome = run({"--workspace", work + ":rw"}, {"/bin/cat", "old"});
    EXPECT_THAT(outcome, ended_with(0)) << name;
    EXPECT_EQ(outcome.out, "old text\n") << name;
  }
}

TEST_P(Workspace, SystemDirectoriesInsideAreStillReadOnly) {
  const std::string work = make_tree("work");
  EXPECT_THAT(probe({"-w", work + ":rw"}, {"create", "/usr/new"}),
              refused_with(Errnos{EROFS, EACCES}));
  EXPECT_THAT(probe({"-w", work + ":rw"}, {"read", "/etc/shadow"}),
              refused_with(Errnos{EACCES, ENOENT}));
}

BOX_TEST_TIERS(Workspace);

}  // namespace
}  // namespace glovebox::test
