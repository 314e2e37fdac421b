// What comes to a session while it gets a fresh box or is forked: it is deleted, something is taken
// from it, its box ends. The moments are the steps that the manager tells of, or a review that
// waits on its thread, so that nothing here is up to luck.
#include "state/state_fixture.h"

#include "support/servers.h"

#include <atomic>
#include <future>

namespace glovebox::session {
namespace {

class MeanwhileTest : public StateTest {
 protected:
  ManagerSettings settings() const override {
    ManagerSettings settings = StateTest::settings();
    settings.on_step = [this](std::string_view step) {
      if (step != when_) return;
      when_.clear();
      then_();
    };
    return settings;
  }
  // Does something in the middle of what comes next.
  void at(std::string step, std::function<void()> then) {
    when_ = std::move(step);
    then_ = std::move(then);
  }

  // Begins something that goes on with the loop.
  template <class T>
  std::shared_ptr<std::optional<T>> begin(asio::awaitable<T> work) {
    auto value = std::make_shared<std::optional<T>>();
    asio::co_spawn(loop_, std::move(work), [value](std::exception_ptr thrown, T result) {
      if (!thrown) value->emplace(std::move(result));
    });
    return value;
  }

  SessionInfo make_with_network() {
    BoxRequest asked;
    asked.workspaces.push_back({work_directory()});
    asked.handed = granting({{"connect", server_.where()}, {"pids", "64"}});
    const auto made = await(manager_->create(asked));
    EXPECT_TRUE(made) << (made ? "" : made.error().message);
    EXPECT_EQ(run(*made, "echo past > file").code, 0);
    return *made;
  }
  Result<NarrowedBox> take_network(const SessionInfo& from) {
    SessionNarrowing narrowing;
    narrowing.network = authority::AuthoritySet();
    return manager_->narrow_session(from.id, narrowing);
  }
  static SessionChange new_name() {
    SessionChange change;
    change.name = "another";
    return change;
  }
  bool has_network(const SessionInfo& info) {
    return run(info, "{ echo ping >&3; read -r line <&3; } 3<>/dev/tcp/127.50.0.9/" +
                         server_.port() + " 2>/dev/null")
               .code == 0;
  }
  void expect_gone(const std::string& id) {
    EXPECT_EQ(manager_->get(id).error().code, Code::NotFound);
    EXPECT_TRUE(layers().empty()) << "a layer that no session names";
    await(manager_->stop(LayerFate::Keep));
    close_manager();
    open_manager();
    EXPECT_TRUE(manager_->list().empty()) << "it has come back";
  }

  mutable std::string when_;
  std::function<void()> then_;
  const test::TcpServer server_{"127.50.0.9", test::echo()};
};

// A review of a recycle that waits until it is told to go on.
class Held {
 public:
  Review review() {
    return [this](BoxRequest&) -> Result<void> {
      has_begun_ = true;
      opened_.wait();
      return {};
    };
  }
  bool has_begun() const { return has_begun_; }
  void go_on() { gate_.set_value(); }

 private:
  std::atomic<bool> has_begun_ = false;
  std::promise<void> gate_;
  const std::shared_future<void> opened_ = gate_.get_future();
};

class ForkMeanwhileTest : public MeanwhileTest, public testing::WithParamInterface<const char*> {};

TEST_P(ForkMeanwhileTest, NoChildHasWhatItsParentHasLost) {
  const SessionInfo parent = make_with_network();
  bool is_narrowed = false;
  at(GetParam(), [&] { is_narrowed = take_network(parent).has_value(); });
  const auto refused = await(manager_->fork(parent.id, ForkRequest{.count = 3}));
  EXPECT_TRUE(is_narrowed);
  ASSERT_FALSE(refused) << "a child that came after it";
  EXPECT_EQ(refused.error().code, Code::Exhausted);
  EXPECT_EQ(manager_->list().size(), 1u) << "all of them, or none";
  EXPECT_FALSE(has_network(parent));
  const auto children = fork(parent, 1);
  ASSERT_EQ(children.size(), 1u);
  EXPECT_FALSE(has_network(children.front()));
}

INSTANTIATE_TEST_SUITE_P(Moments, ForkMeanwhileTest,
                         testing::Values("renew: written down", "create: layers are made",
                                         "create: the box is there"),
                         [](const auto& test) {
                           std::string name = test.param;
                           std::erase_if(name, [](char c) { return c == ' ' || c == ':'; });
                           return name;
                         });

TEST_F(MeanwhileTest, ANewNameDoesNotDisturbAFork) {
  const SessionInfo parent = make_with_network();
  at("create: layers are made", [&] { EXPECT_TRUE(manager_->change(parent.id, new_name())); });
  const auto children = fork(parent, 2);
  ASSERT_EQ(children.size(), 2u);
  EXPECT_TRUE(has_network(children.front()));
}

TEST_F(MeanwhileTest, BetweenTwoBoxesNothingIsChangedInVain) {
  const SessionInfo made = make_with_network();
  std::optional<Code> narrowed;
  std::optional<Code> changed;
  at("renew: the box is there", [&] {
    narrowed = take_network(made).error().code;
    changed = manager_->change(made.id, new_name()).error().code;
  });
  ASSERT_TRUE(await(manager_->recycle(made.id, {})));
  EXPECT_EQ(narrowed, Code::Exhausted);
  EXPECT_EQ(changed, Code::Exhausted);
  EXPECT_TRUE(has_network(made)) << "what was refused did not happen";
  EXPECT_TRUE(take_network(made));
  EXPECT_FALSE(has_network(made));
}

TEST_F(MeanwhileTest, WhoIsDeletedWhileItIsCheckedGetsNoFreshBox) {
  const SessionInfo made = make_session();
  ASSERT_EQ(run(made, "echo written > file").code, 0);
  Held held;
  RecycleRequest request;
  request.layers = Recycling::DropLayers;
  request.review = held.review();
  const auto renewed = begin(manager_->recycle(made.id, request));
  run_until([&] { return held.has_begun(); });
  const auto removed = begin(manager_->remove(made.id, LayerFate::Remove));
  run_until([&] { return manager_->list().empty(); });
  held.go_on();
  run_until([&] { return *renewed && *removed; });
  EXPECT_EQ((*renewed)->error().code, Code::NotFound);
  EXPECT_TRUE(**removed) << (*removed)->error().message;
  expect_gone(made.id);
}

class DeleteMeanwhileTest : public MeanwhileTest,
                            public testing::WithParamInterface<std::pair<const char*, Recycling>> {
};

TEST_P(DeleteMeanwhileTest, ADeleteWaitsForARecycleAndNothingIsLeft) {
  const SessionInfo made = make_session();
  ASSERT_EQ(run(made, "echo written > file").code, 0);
  std::shared_ptr<std::optional<Result<std::vector<KeptLayer>>>> removed;
  at(GetParam().first, [&] { removed = begin(manager_->remove(made.id, LayerFate::Remove)); });
  RecycleRequest request;
  request.layers = GetParam().second;
  const auto renewed = begin(manager_->recycle(made.id, request));
  run_until([&] { return removed && *removed && *renewed; });
  EXPECT_TRUE(**removed) << (*removed)->error().message;
  expect_gone(made.id);
}

INSTANTIATE_TEST_SUITE_P(
    Moments, DeleteMeanwhileTest,
    testing::Values(std::pair{"renew: the old box is gone", Recycling::KeepLayers},
                    std::pair{"renew: layers are made", Recycling::KeepLayers},
                    std::pair{"renew: layers are made", Recycling::DropLayers},
                    std::pair{"renew: the box is there", Recycling::DropLayers},
                    std::pair{"renew: written down", Recycling::DropLayers}));

TEST_F(MeanwhileTest, ADeletedParentLeavesItsChildrenWhatTheyStandOn) {
  const SessionInfo parent = make_with_network();
  std::shared_ptr<std::optional<Result<std::vector<KeptLayer>>>> removed;
  at("create: the box is there",
     [&] { removed = begin(manager_->remove(parent.id, LayerFate::Remove)); });
  const auto forked = begin(manager_->fork(parent.id, ForkRequest{.count = 2}));
  run_until([&] { return removed && *removed && *forked; });
  EXPECT_TRUE(**removed) << (*removed)->error().message;
  ASSERT_FALSE(**forked) << "the children of nobody";
  expect_gone(parent.id);
}

// The code that counts sessions is asked when it is known whether this is one more.
TEST_F(MeanwhileTest, RoomIsAskedForWhenTheBoxEndedOnTheWay) {
  const SessionInfo made = make_session();
  Held held;
  int asked = 0;
  RecycleRequest request;
  request.review = held.review();
  request.take_room = [&]() -> Result<void> {
    ++asked;
    return fail(Code::Exhausted, "no room for it");
  };
  const auto renewed = begin(manager_->recycle(made.id, request));
  run_until([&] { return held.has_begun(); });
  ASSERT_TRUE(await(manager_->end(made.id)));
  held.go_on();
  run_until([&] { return renewed->has_value(); });
  EXPECT_EQ(asked, 1);
  ASSERT_FALSE(**renewed);
  EXPECT_EQ((*renewed)->error().message, "no room for it");
  request.review = {};
  request.take_room = [&]() -> Result<void> {
    ++asked;
    return {};
  };
  ASSERT_TRUE(await(manager_->recycle(made.id, request)));
  EXPECT_EQ(asked, 2);
  ASSERT_TRUE(await(manager_->recycle(made.id, request)));
  EXPECT_EQ(asked, 2) << "one that is alive is none more";
}

}  // namespace
}  // namespace glovebox::session
