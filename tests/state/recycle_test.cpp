// A fresh box for a session: the same authority, fresh processes, the layer kept or dropped.
#include "state/state_fixture.h"

#include "support/servers.h"

#include <future>

namespace glovebox::session {
namespace {

class RecycleTest : public StateTest {
 protected:
  // A session that holds one of each kind that a box can be asked about.
  BoxRequest rich_request() {
    std::filesystem::create_directory(place("granted"));
    std::filesystem::create_directory(place("secret"));
    put_on_host(place("granted/file"), "granted\n");
    put_on_host(place("secret/file"), "not yours\n");
    BoxRequest request;
    request.name = "rich";
    request.labels = {{"team", "a"}};
    request.workspaces.push_back({work_directory()});
    request.handed = granting({{"read", place("granted")},
                               {"env", "FIXED=yes"},
                               {"connect", server_.where()},
                               {"pids", "64"}});
    request.env = {{"GREETING", "hello"}};
    return request;
  }
  // What such a session can do and what it cannot, told by its box.
  std::string abilities(const SessionInfo& info) {
    return run(info, "cat " + place("granted/file") + "; cat " + place("secret/file") +
                         " 2>/dev/null || echo refused; echo $GREETING $FIXED;"
                         "{ echo ping >&3; read -r line <&3; echo $line; }"
                         " 3<>/dev/tcp/127.50.0.9/" +
                         server_.port() + "; touch " + place("granted/new") +
                         " 2>/dev/null || echo read-only")
        .output;
  }
  static constexpr const char* kAble = "granted\nrefused\nhello yes\nping\nread-only\n";

  const test::TcpServer server_{"127.50.0.9", test::echo()};
};

TEST_F(RecycleTest, EverythingButTheProcessesIsAsItWas) {
  const auto made = await(manager_->create(rich_request()));
  ASSERT_TRUE(made) << made.error().message;
  ASSERT_EQ(abilities(*made), kAble);
  ASSERT_EQ(run(*made, "echo kept > file; sleep 1000 & cd /tmp; X=1").code, 0);
  const auto before = await(manager_->snapshot(made->id));
  ASSERT_TRUE(before) << before.error().message;
  const auto renewed = await(manager_->recycle(made->id, {}));
  ASSERT_TRUE(renewed) << renewed.error().message;
  EXPECT_EQ(renewed->id, made->id);
  EXPECT_EQ(renewed->state, SessionState::Active);
  EXPECT_TRUE(renewed->effective == made->effective);
  EXPECT_EQ(renewed->workspaces, made->workspaces) << "the layer, too";
  EXPECT_EQ(renewed->created_at, made->created_at);
  EXPECT_EQ(abilities(*made), kAble);
  EXPECT_EQ(run(*made, "cat file; echo ${X-none}; pgrep sleep || echo gone").output,
            "kept\nnone\ngone\n");
  const auto after = await(manager_->snapshot(made->id));
  ASSERT_TRUE(after) << after.error().message;
  EXPECT_TRUE(after->spec == before->spec);
}

TEST_F(RecycleTest, TheLayerIsDroppedOnRequest) {
  const SessionInfo made = make_session();
  ASSERT_EQ(run(made, "echo dropped > file").code, 0);
  RecycleRequest request;
  request.layers = Recycling::DropLayers;
  const auto renewed = await(manager_->recycle(made.id, request));
  ASSERT_TRUE(renewed) << renewed.error().message;
  EXPECT_EQ(run(made, "cat file 2>/dev/null || echo none").output, "none\n");
  EXPECT_EQ(layers().size(), 1u) << "the old one is gone";
  EXPECT_NE(renewed->workspaces.front().layer_id, made.workspaces.front().layer_id);
}

TEST_F(RecycleTest, RunsAreCountedOnAndADeadSessionComesBack) {
  const SessionInfo made = make_session();
  ASSERT_EQ(run(made, "echo one > file").code, 0);
  ASSERT_TRUE(await(manager_->end(made.id)));
  EXPECT_EQ(manager_->get(made.id)->state, SessionState::Dead);
  ASSERT_TRUE(await(manager_->recycle(made.id, {})));
  EXPECT_EQ(manager_->get(made.id)->state, SessionState::Active);
  EXPECT_FALSE(manager_->get(made.id)->end);
  EXPECT_EQ(run(made, "cat file").output, "one\n");
  EXPECT_EQ(manager_->get(made.id)->runs, 2u);
  const auto report = manager_->report(made.id);
  ASSERT_EQ(report->recent_runs.size(), 2u);
  EXPECT_EQ(report->recent_runs.back().number, 2u);
}

TEST_F(RecycleTest, ASessionOfAFormerServiceComesBackWithTheValuesItIsGiven) {
  BoxRequest request;
  request.workspaces.push_back({work_directory()});
  request.env = {{"GREETING", "hello"}};
  const auto made = await(manager_->create(request));
  ASSERT_TRUE(made) << made.error().message;
  ASSERT_EQ(run(*made, "echo one > file").code, 0);
  await(manager_->stop(LayerFate::Keep));
  close_manager();
  open_manager();
  const auto without = await(manager_->recycle(made->id, {}));
  ASSERT_FALSE(without);
  EXPECT_EQ(without.error().code, Code::Unsupported);
  EXPECT_NE(without.error().message.find("GREETING"), std::string::npos) << "by name";
  EXPECT_EQ(await(manager_->snapshot(made->id)).error().code, Code::Unsupported);
  RecycleRequest with;
  with.env = {{"GREETING", "again"}};
  const auto renewed = await(manager_->recycle(made->id, with));
  ASSERT_TRUE(renewed) << renewed.error().message;
  EXPECT_EQ(run(*made, "cat file; echo $GREETING").output, "one\nagain\n");
}

// The checks of a recycle wait for the disk, and the session may lose something meanwhile.
TEST_F(RecycleTest, WhatIsTakenDuringTheChecksDoesNotComeBack) {
  const auto made = await(manager_->create(rich_request()));
  ASSERT_TRUE(made) << made.error().message;
  int reviews = 0;
  RecycleRequest request;
  request.review = [&](BoxRequest& asked) -> Result<void> {
    if (reviews++ > 0) {
      EXPECT_TRUE(asked.network_ceiling) << "asked again, of what is left";
      return {};
    }
    std::promise<bool> narrowed;
    asio::post(loop_, [&] {
      SessionNarrowing less;
      less.network = authority::AuthoritySet();
      narrowed.set_value(manager_->narrow_session(made->id, less).has_value());
    });
    EXPECT_TRUE(narrowed.get_future().get());
    return {};
  };
  const auto renewed = await(manager_->recycle(made->id, std::move(request)));
  ASSERT_TRUE(renewed) << renewed.error().message;
  EXPECT_EQ(reviews, 2);
  EXPECT_NE(run(*made, "exec 3<>/dev/tcp/127.50.0.9/" + server_.port()).code, 0);
}

TEST_F(RecycleTest, AReviewMayCutDownOrRefuse) {
  const auto made = await(manager_->create(rich_request()));
  ASSERT_TRUE(made) << made.error().message;
  RecycleRequest refusing;
  refusing.review = [](BoxRequest&) -> Result<void> { return fail(Code::Denied, "not now"); };
  const auto refused = await(manager_->recycle(made->id, std::move(refusing)));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().message, "not now");
  EXPECT_EQ(abilities(*made), kAble) << "nothing ended";
  ForkRequest forking;
  forking.review = [](BoxRequest&) -> Result<void> { return fail(Code::Denied, "nor this"); };
  EXPECT_EQ(await(manager_->fork(made->id, std::move(forking))).error().message, "nor this");
}

TEST_F(RecycleTest, WhatCannotBeMadeAgainIsRefusedBeforeAnythingEnds) {
  std::filesystem::create_directory(place("granted"));
  BoxRequest request;
  request.workspaces.push_back({work_directory()});
  request.handed = granting({{"read", place("granted")}});
  const auto made = await(manager_->create(request));
  ASSERT_TRUE(made) << made.error().message;
  ASSERT_EQ(run(*made, "X=alive").code, 0);
  std::filesystem::remove(place("granted"));
  const auto refused = await(manager_->recycle(made->id, {}));
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message.find(place("granted")), std::string::npos);
  EXPECT_FALSE(await(manager_->snapshot(made->id))) << "when it is made, not when it is used";
  EXPECT_EQ(run(*made, "echo $X").output, "alive\n");
}

}  // namespace
}  // namespace glovebox::session
