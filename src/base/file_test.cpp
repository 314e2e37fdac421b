#include "base/file.h"

#include <gtest/gtest.h>

#include <cerrno>

#include <fcntl.h>
#include <sys/mman.h>

namespace glovebox {
namespace {

TEST(File, ReadsWholeOrRefuses) {
  const UniqueFd fd(memfd_create("text", MFD_CLOEXEC));
  ASSERT_TRUE(fd);
  ASSERT_TRUE(write_all(fd, "0123456789"));
  const std::string path = fmt::format("/proc/self/fd/{}", fd.get());
  EXPECT_EQ(*read_file(path), "0123456789");
  EXPECT_EQ(read_file(path, /*limit=*/5).error().code, Code::Exhausted);
}

TEST(File, MissingFilesAreNamed) {
  const auto result = read_file("/nonexistent/file");
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().os_errno, ENOENT);
  EXPECT_NE(result.error().message.find("/nonexistent/file"), std::string::npos);
}

TEST(File, OpensCloseOnExec) {
  const auto fd = open_file("/dev/null", O_RDONLY);
  ASSERT_TRUE(fd);
  EXPECT_NE(fcntl(fd->get(), F_GETFD) & FD_CLOEXEC, 0);
}

}  // namespace
}  // namespace glovebox
