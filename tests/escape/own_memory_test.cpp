// Class 15: /proc/self/mem writes through page protections (FOLL_FORCE). Into a private mapping
// that changes only the process's own copy; into a shared read-only mapping it must not reach the
// file. Tried: both, on a file of a read-only grant and on a file of the system. Canary: the files'
// bytes outside.
#include "support/box_test.h"

namespace glovebox::test {
namespace {

class OwnMemory : public BoxTest {};

TEST_P(OwnMemory, SharedReadOnlyMappingsDoNotReachTheFile) {
  const std::string book = make_directory("book");
  const std::string page = make_file("book/page", std::string(4096, 'p'));
  const Outcome outcome = probe({"--read", book}, {"proc_self_mem", page});
  EXPECT_THAT(outcome, refused_with(Errnos{EIO, EACCES, EPERM, EROFS, EFAULT}));
  EXPECT_EQ(read_text(page), std::string(4096, 'p'));
}

TEST_P(OwnMemory, PrivateMappingsStayPrivate) {
  const std::string book = make_directory("book");
  const std::string page = make_file("book/page", std::string(4096, 'p'));
  // Whether a process may overwrite its own private copy is the kernel's business.
  const Outcome outcome = probe({"--read", book}, {"proc_self_mem", page, "private"});
  EXPECT_FALSE(outcome.timed_out);
  EXPECT_LT(outcome.code, 124);
  EXPECT_EQ(read_text(page), std::string(4096, 'p'));
}

TEST_P(OwnMemory, SystemFilesStayAsTheyAre) {
  const std::string before = read_text("/etc/passwd");
  (void)probe({}, {"proc_self_mem", "/etc/passwd"});  // any answer will do; the file tells
  (void)probe({}, {"proc_self_mem", "/etc/passwd", "private"});
  EXPECT_EQ(read_text("/etc/passwd"), before);
}

TEST_P(OwnMemory, WritableGrantsCanBeMappedAndWritten) {
  const std::string desk = make_directory("desk");
  make_file("desk/page", std::string(16, 'p'));
  EXPECT_THAT(probe({"--write", desk}, {"write", desk + "/page", "changed"}), ended_with(0));
  EXPECT_EQ(read_text(desk + "/page"), "changed" + std::string(9, 'p'));
}

BOX_TEST_TIERS(OwnMemory);

}  // namespace
}  // namespace glovebox::test
