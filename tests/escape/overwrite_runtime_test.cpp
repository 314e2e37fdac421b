// Class 1: overwriting the program that starts boxes, through /proc/self/exe (CVE-2019-5736).
// Tried: opening the executable behind PID 1 and behind the box's own launcher for writing, and a
// script whose interpreter is /proc/self/exe, which would make the launcher execute itself inside.
// Canary: the bytes of the installed glovebox.
#include "support/box_test.h"

#include <sys/stat.h>

namespace glovebox::test {
namespace {

class OverwriteRuntime : public BoxTest {
 protected:
  void SetUp() override {
    BoxTest::SetUp();
    before_ = read_text(installation().glovebox());
  }
  void TearDown() override {
    EXPECT_TRUE(read_text(installation().glovebox()) == before_) << "the program was overwritten";
    BoxTest::TearDown();
  }

 private:
  std::string before_;
};

TEST_P(OverwriteRuntime, InitsExecutableCannotBeOpened) {
  EXPECT_THAT(probe({}, {"exe_write", "1"}), refused_with(Errnos{EACCES, EPERM, EROFS, ETXTBSY}));
  EXPECT_THAT(probe({}, {"exe_read", "1"}), refused_with(Errnos{EACCES, EPERM}));
  EXPECT_THAT(probe({}, {"exe_read", "self"}), ended_with(0));
}

TEST_P(OverwriteRuntime, OwnExecutableFromAReadOnlyGrantCannotBeWritten) {
  EXPECT_THAT(probe({}, {"exe_write", "self"}), refused_with(Errnos{ETXTBSY, EROFS, EACCES}));
}

TEST_P(OverwriteRuntime, ScriptThatExecutesTheLauncherGetsNowhere) {
  const std::string work = make_directory("work");
  make_file("work/again", "#!/proc/self/exe\n", 0755);
  make_file("work/first", "#!/proc/1/exe\n", 0755);
  for (const char* script : {"/again", "/first"}) {
    const Outcome outcome = run({"-w", work + ":rw"}, {work + script});
    EXPECT_FALSE(outcome.timed_out) << script;
    EXPECT_NE(outcome.code, 0) << script;
  }
}

TEST_P(OverwriteRuntime, LibrariesOfTheSystemCannotBeReplaced) {
  // The variant that plants code in a library which the runtime loads later.
  for (const char* path :
       {"/lib/x86_64-linux-gnu/libc.so.6", "/usr/lib/os-release", "/etc/ld.so.cache"}) {
    EXPECT_THAT(probe({}, {"open_write", path}), refused_with(Errnos{EROFS, EACCES, ENOENT}))
        << path;
  }
}

BOX_TEST_TIERS(OverwriteRuntime);

}  // namespace
}  // namespace glovebox::test
