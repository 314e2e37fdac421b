// A box that has the broker wait, or work, in its place. What is checked is that the broker goes on
// answering: where it does not, a run takes as long as the test's patience.
#include "support/box_test.h"
#include "support/servers.h"

#include <ctime>
#include <thread>

namespace glovebox::test {
namespace {

class Holds : public BoxTest {
 protected:
  void SetUp() override {
    BoxTest::SetUp();
    tree_ = make_directory("tree");
  }
  static std::chrono::nanoseconds processor_time_of(pid_t process) {
    clockid_t clock{};
    timespec time{};
    EXPECT_EQ(clock_getcpuclockid(process, &clock), 0);
    EXPECT_EQ(clock_gettime(clock, &time), 0);
    return std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec);
  }
  static Settings patient() {
    Settings settings;
    settings.patience = std::chrono::seconds(120);
    return settings;
  }

  std::string tree_;
};

TEST_P(Holds, ASocketThatIsMadeToBlockMeanwhile) {
  EXPECT_THAT(probe({"--write", tree_}, {"hold_by_unix", tree_ + "/own", "3"}, patient()),
              ended_with(0));
}

TEST_P(Holds, AConnectThatIsEndedAndBlocks) {
  EXPECT_THAT(probe({"--write", tree_}, {"hold_by_tcp"}, patient()), ended_with(0));
  const TcpServer server("127.50.0.1", echo());
  EXPECT_THAT(probe({"--allow", "connect=" + server.where()}, {"hold_by_tcp"}, patient()),
              ended_with(0));
}

TEST_P(Holds, AConnectionThatLingers) {
  const TcpServer server("127.50.0.1", echo());
  EXPECT_THAT(probe({"--allow", "connect=" + server.where()},
                    {"hold_by_linger", "127.50.0.1", server.port()}, patient()),
              ended_with(0));
}

TEST_P(Holds, AWaitForRoomEndsInTime) {
  EXPECT_THAT(probe({"--write", tree_}, {"wait_for_room", tree_ + "/own"}, patient()),
              ended_with(EAGAIN));
}

// The broker of a run is its own process. What a call uses is followed by a rest of three times as
// long (egress/call_backoff.h). A busy host lets the broker have less than that, never more.
TEST_P(Holds, CallsThatWaitCostTheirBox) {
  constexpr std::chrono::milliseconds kWatched{2000};
  Running box = start_probe({"--write", tree_}, {"wait_by_a_long_way", tree_, "48"}, patient());
  ASSERT_TRUE(box.wait_for("waiting"));
  const auto before = processor_time_of(box.pid());
  std::this_thread::sleep_for(kWatched);
  const auto used = processor_time_of(box.pid()) - before;
  box.type("\n");
  EXPECT_THAT(box.finish(), ended_with(0));
  EXPECT_LT(used, kWatched / 3);
}

BOX_TEST_TIERS(Holds);

}  // namespace
}  // namespace glovebox::test
