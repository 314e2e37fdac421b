// Looks through the descriptors of this very process.
#include "egress/kernel/fd_references.h"

#include <gtest/gtest.h>

#include <vector>

#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

namespace glovebox::egress {
namespace {

struct Watched {
  UniqueFd socket{::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};

  ino_t inode() const {
    struct stat info{};
    EXPECT_EQ(::fstat(socket.get(), &info), 0);
    return info.st_ino;
  }
  UniqueFd make_epoll(std::uint64_t data) const {
    UniqueFd epoll(::epoll_create1(EPOLL_CLOEXEC));
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.u64 = data;
    EXPECT_EQ(::epoll_ctl(epoll.get(), EPOLL_CTL_ADD, socket.get(), &event), 0);
    return epoll;
  }
};

TEST(FindReferences, FindsCopiesAndEpolls) {
  const Watched watched;
  const UniqueFd copy(::fcntl(watched.socket.get(), F_DUPFD, 0));
  const UniqueFd epoll = watched.make_epoll(0x1122334455667788);
  const References found = find_references(::gettid(), watched.inode());
  const std::vector<Descriptor> numbers{{watched.socket.get(), true}, {copy.get(), false}};
  EXPECT_EQ(found.numbers, numbers);
  ASSERT_EQ(found.entries.size(), 1U);
  EXPECT_EQ(found.entries[0].epoll, epoll.get());
  EXPECT_EQ(found.entries[0].watched, watched.socket.get());
  EXPECT_EQ(found.entries[0].data, 0x1122334455667788U);
}

TEST(FindReferences, LooksIntoSoManyEpollsAndNoMore) {
  const Watched watched;
  std::vector<UniqueFd> epolls;
  for (std::uint64_t i = 0; i < 3 * kMostEpolls; ++i) epolls.push_back(watched.make_epoll(i));
  const References found = find_references(::gettid(), watched.inode());
  EXPECT_LE(found.entries.size(), kMostEpolls);
  EXPECT_GT(found.entries.size(), 0U);
}

}  // namespace
}  // namespace glovebox::egress
