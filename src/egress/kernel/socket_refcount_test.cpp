#include "egress/kernel/socket_refcount.h"

#include <gtest/gtest.h>

#include <fcntl.h>
#include <sys/socket.h>

namespace glovebox::egress {
namespace {

UniqueFd make_socket() { return UniqueFd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)); }

TEST(LastReference, TellsWhetherACopyIsLeft) {
  auto last = LastReference::open();
  ASSERT_TRUE(last);
  for (int i = 0; i < 100; ++i) {
    EXPECT_TRUE(last->close(make_socket()));
    UniqueFd socket = make_socket();
    const UniqueFd copy(::fcntl(socket.get(), F_DUPFD_CLOEXEC, 0));
    EXPECT_FALSE(last->close(std::move(socket)));
    EXPECT_TRUE(last->close(make_socket())) << "the copy of before is none of this one's";
  }
  EXPECT_FALSE(last->close(UniqueFd())) << "what cannot be told is no";
}

}  // namespace
}  // namespace glovebox::egress
