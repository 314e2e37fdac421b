// Class 28: POSIX shared memory, System V IPC and message queues as meeting places of two boxes, or
// of a box and the host.
// Tried: each is made outside and looked for inside, made in one box and looked for in another.
// Canary: objects of the host, which stay.
#include "support/box_test.h"

#include <filesystem>

#include <fcntl.h>
#include <mqueue.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <unistd.h>

namespace glovebox::test {
namespace {

class SharedIpc : public BoxTest {};

TEST_P(SharedIpc, SharedMemoryOfTheHostIsAbsent) {
  const std::string name = "/glovebox-test-" + std::to_string(getpid());
  const UniqueFd outside(shm_open(name.c_str(), O_RDWR | O_CREAT, 0666));
  ASSERT_TRUE(outside);
  EXPECT_THAT(probe({}, {"shm_find", name}), ended_with(ENOENT));
  EXPECT_THAT(probe({}, {"shm_make", name}), ended_with(0)) << "the name is free inside";
  shm_unlink(name.c_str());
}

TEST_P(SharedIpc, SystemVOfTheHostIsAbsent) {
  const key_t key = 0x610b0000 + getpid() % 0x10000;
  const int outside = shmget(key, 4096, IPC_CREAT | IPC_EXCL | 0666);
  ASSERT_GE(outside, 0);
  const Words granted{"--allow", "syscalls=sysv-ipc"};
  EXPECT_THAT(probe(granted, {"sysv_find", std::to_string(key)}), ended_with(ENOENT));
  EXPECT_THAT(probe(granted, {"sysv_make", std::to_string(key)}), ended_with(0));
  EXPECT_THAT(probe({}, {"sysv_make", std::to_string(key)}), ended_with(ENOSYS)) << "not granted";
  EXPECT_EQ(shmctl(outside, IPC_RMID, nullptr), 0) << "it is still ours";
}

TEST_P(SharedIpc, MessageQueuesOfTheHostAreAbsent) {
  const std::string name = "/glovebox-test-" + std::to_string(getpid());
  mq_attr attributes{};
  attributes.mq_maxmsg = 1;
  attributes.mq_msgsize = 16;
  const mqd_t outside = mq_open(name.c_str(), O_RDWR | O_CREAT | O_EXCL, 0666, &attributes);
  ASSERT_GE(outside, 0);
  EXPECT_THAT(probe({"--allow", "syscalls=mqueue"}, {"mqueue_find", name}),
              refused_with(Errnos{ENOENT, EACCES}));
  EXPECT_THAT(probe({}, {"mqueue_find", name}), ended_with(ENOSYS)) << "not granted";
  mq_close(outside);
  EXPECT_EQ(mq_unlink(name.c_str()), 0);
}

TEST_P(SharedIpc, TwoBoxesDoNotMeet) {
  const std::string make = probe_path() + " shm_make /meet && " + probe_path() +
                           " sysv_make 77 && echo made && exec sleep 1000";
  const Words granted{"--allow", "syscalls=sysv-ipc"};
  Running first =
      start({"--read", installation().probe_directory(), "--allow", "syscalls=sysv-ipc"},
            {"/bin/sh", "-c", make});
  ASSERT_TRUE(first.wait_for("made"));
  EXPECT_THAT(probe({}, {"shm_find", "/meet"}), ended_with(ENOENT));
  EXPECT_THAT(probe(granted, {"sysv_find", "77"}), ended_with(ENOENT));
  kill(first);
  first.finish();
}

BOX_TEST_TIERS(SharedIpc);

}  // namespace
}  // namespace glovebox::test
