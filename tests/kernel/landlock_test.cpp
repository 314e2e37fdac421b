// The second wall. Each act here passes mounts, modes and the filter, so that only Landlock can
// have refused it.
#include "support/box_test.h"

#include <fcntl.h>

namespace glovebox::test {
namespace {

class Landlock : public BoxTest {
 protected:
  void SetUp() override {
    NEEDS(Feature::Landlock);
    BoxTest::SetUp();
  }
};

TEST_P(Landlock, FileHandedInForReadingCannotBeOpenedForWriting) {
  const std::string canary = make_file("canary", "as it was\n", 0666);
  const UniqueFd input(open(canary.c_str(), O_RDONLY | O_CLOEXEC));
  Settings settings;
  settings.in = input.get();
  EXPECT_THAT(probe({}, {"landlock_status"}, settings), ended_with(EACCES));
  EXPECT_THAT(probe({}, {"reopen", "0", "w"}, settings), ended_with(EACCES));
  EXPECT_EQ(read_text(canary), "as it was\n");
}

TEST_P(Landlock, FileHandedInForReadingCanBeRead) {
  const std::string canary = make_file("canary", "as it was\n", 0666);
  const UniqueFd input(open(canary.c_str(), O_RDONLY | O_CLOEXEC));
  Settings settings;
  settings.in = input.get();
  const Outcome outcome = probe({}, {"copy_stdin"}, settings);
  EXPECT_THAT(outcome, ended_with(0));
  EXPECT_THAT(outcome.out, testing::HasSubstr("as it was"));
}

TEST_P(Landlock, WithoutLoopbackTcpIsRefused) {
  NEEDS(Feature::LandlockTcp);
  EXPECT_THAT(probe({}, {"bind_tcp", "127.0.0.1", "4321"}), ended_with(0));
  EXPECT_THAT(probe({"--no-loopback"}, {"bind_tcp", "127.0.0.1", "4321"}), ended_with(EACCES));
  // Where the connect broker guards the host's sockets it makes the call, outside of Landlock, and
  // finds no network.
  EXPECT_THAT(probe({"--no-loopback"}, {"connect_tcp", "127.0.0.1", "4321"}),
              testing::AnyOf(ended_with(EACCES), ended_with(ENETUNREACH)));
}

TEST_P(Landlock, GivenUpByNameItStandsWhereTheHostHasIt) {
  const UniqueFd input(open(make_file("input", "x", 0666).c_str(), O_RDONLY | O_CLOEXEC));
  Settings settings;
  settings.in = input.get();
  EXPECT_THAT(probe({"--waive", "landlock"}, {"walls"}, settings), ended_with(0));
}

TEST_P(Landlock, GivenUpByNameItIsTheOnlyWallMissingWhereTheHostLacksIt) {
  const UniqueFd input(open(make_file("input", "x", 0666).c_str(), O_RDONLY | O_CLOEXEC));
  Settings settings;
  settings.in = input.get();
  settings.refused_syscalls = {444, 445, 446};  // landlock_*
  const Outcome outcome = probe({"--waive", "landlock"}, {"walls"}, settings);
  EXPECT_THAT(outcome, ended_with(EBADE));
  EXPECT_EQ(lines_after(outcome.out, "missing "), Words{"landlock"});
  ASSERT_TRUE(outcome.report.is_object());
  EXPECT_THAT(boost::json::serialize(outcome.report.at("waived")), testing::HasSubstr("landlock"));
}

BOX_TEST_TIERS(Landlock);

}  // namespace
}  // namespace glovebox::test
