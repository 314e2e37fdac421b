// Sessions as files, and back.
#include "state/state_fixture.h"

#include "support/servers.h"

#include <fcntl.h>
#include <unistd.h>

namespace glovebox::session {
namespace {

class CheckpointTest : public StateTest {
 protected:
  Result<CheckpointFile> write(const std::string& id, const std::string& tenant = "") {
    CheckpointRequest request{.key = key_, .tenant = tenant};
    return await(manager_->checkpoint(id, std::move(request)));
  }
  Result<Restored> restore(const std::string& bytes, const checkpoint::Key& key,
                           const std::string& tenant = "") {
    UniqueFd file = *open_file(place_, O_RDWR | O_TMPFILE, 0600);
    EXPECT_TRUE(write_all(file, bytes));
    EXPECT_EQ(::lseek(file.get(), 0, SEEK_SET), 0);
    RestoreRequest request{.key = key, .tenant = tenant};
    return await(manager_->restore(std::move(file), std::move(request)));
  }
  std::string bytes_of(const Result<CheckpointFile>& file) {
    EXPECT_TRUE(file) << (file ? "" : file.error().message);
    return *read_fd(file->file, std::size_t{1} << 30);
  }

  const checkpoint::Key key_ = *checkpoint::make_key();
};

TEST_F(CheckpointTest, ASessionComesBackFromItsFile) {
  put_on_host(work_directory() + "/original", "original\n");
  put_on_host(work_directory() + "/doomed", "doomed\n");
  std::filesystem::create_directory(place("granted"));
  put_on_host(place("granted/file"), "granted\n");
  const test::TcpServer server("127.50.0.10", test::echo());
  BoxRequest asked;
  asked.name = "kept";
  asked.labels = {{"team", "a"}};
  asked.workspaces.push_back({work_directory()});
  asked.handed = granting({{"read", place("granted")}, {"connect", server.where()}});
  asked.env = {{"GREETING", "hello"}};
  const auto made = await(manager_->create(asked));
  ASSERT_TRUE(made) << made.error().message;
  ASSERT_EQ(run(*made,
                "mkdir d; echo text > d/file; chmod 640 d/file; ln -s d/file link; rm doomed;"
                "echo more >> original; cd d; export COLOUR=blue")
                .code,
            0);
  const auto snapshot = await(manager_->snapshot(made->id));
  ASSERT_TRUE(snapshot) << snapshot.error().message;
  const auto file = write(made->id);
  ASSERT_TRUE(file) << file.error().message;
  EXPECT_EQ(file->state, (std::vector{StateKind::Config, StateKind::Files}));
  ASSERT_EQ(file->layers.size(), 1u);
  const std::string bytes = bytes_of(file);
  EXPECT_EQ(bytes.find("hello"), std::string::npos) << "values are sealed";
  ASSERT_TRUE(await(manager_->remove(made->id, LayerFate::Remove)));
  EXPECT_TRUE(layers().empty());

  const auto back = restore(bytes, key_);
  ASSERT_TRUE(back) << back.error().message;
  EXPECT_EQ(back->tag, file->tag);
  EXPECT_NE(back->info.id, made->id);
  EXPECT_TRUE(back->info.effective == made->effective);
  EXPECT_EQ(run(back->info,
                "pwd; cat file ../link ../original; ls ..; stat -c %a file;"
                "echo $COLOUR $GREETING; cat " +
                    place("granted/file"))
                .output,
            work_directory() +
                "/d\ntext\ntext\noriginal\nmore\nd\nlink\noriginal\n640\nblue hello\n"
                "granted\n");
  EXPECT_EQ(run(back->info, "{ echo ping >&3; read -r l <&3; echo $l; } 3<>/dev/tcp/127.50.0.10/" +
                                server.port())
                .output,
            "ping\n");
  const auto again = await(manager_->snapshot(back->info.id));
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_TRUE(again->spec == snapshot->spec);
  EXPECT_TRUE(again->policy == snapshot->policy);
  EXPECT_EQ(again->shell->cwd, snapshot->shell->cwd);
  const auto committed = await(manager_->commit(back->info.id, {}));
  ASSERT_TRUE(committed) << committed.error().message;
  EXPECT_FALSE(committed->is_refused());
  EXPECT_EQ(on_host("original"), "original\nmore\n");
  EXPECT_EQ(on_host("doomed"), "(none)");
}

TEST_F(CheckpointTest, AStackOfForksBecomesOneLayer) {
  const SessionInfo parent = make_session();
  ASSERT_EQ(run(parent, "echo one > one; mkdir d; echo x > d/x").code, 0);
  const auto child = fork(parent, 1).front();
  ASSERT_EQ(run(child, "echo two > two; rm d/x").code, 0);
  const auto back = restore(bytes_of(write(child.id)), key_);
  ASSERT_TRUE(back) << back.error().message;
  EXPECT_TRUE(back->info.workspaces.front().below.empty());
  EXPECT_EQ(run(back->info, "cat one two; ls d").output, "one\ntwo\n");
  const auto between = await(manager_->diff_between(child.id, back->info.id, {}, DiffForm::Json));
  ASSERT_TRUE(between) << between.error().message;
  EXPECT_EQ(between->changes, 0u);
}

TEST_F(CheckpointTest, WhatIsWrongWithAFileIsSaidAndNothingIsLeft) {
  const SessionInfo made = make_session();
  ASSERT_EQ(run(made, "head -c 3000000 /dev/urandom > noise; echo text > file").code, 0);
  const std::string bytes = bytes_of(write(made.id, "team-a"));
  const std::size_t sessions = manager_->list().size();
  const std::size_t layer_count = layers().size();
  const auto expect_refused = [&](const std::string& what, const Result<Restored>& result,
                                  Code code) {
    ASSERT_FALSE(result) << what;
    EXPECT_EQ(result.error().code, code) << what << ": " << result.error().message;
    EXPECT_EQ(manager_->list().size(), sessions) << what;
    EXPECT_EQ(layers().size(), layer_count) << what;
  };
  expect_refused("another key", restore(bytes, *checkpoint::make_key(), "team-a"), Code::Denied);
  expect_refused("another tenant", restore(bytes, key_, "team-b"), Code::Denied);
  expect_refused("no tenant", restore(bytes, key_), Code::Denied);
  expect_refused("nothing", restore("", key_, "team-a"), Code::Invalid);
  for (const std::size_t cut : {std::size_t{1}, std::size_t{100}, bytes.size() / 2}) {
    expect_refused("cut", restore(bytes.substr(0, bytes.size() - cut), key_, "team-a"),
                   Code::Invalid);
  }
  for (std::size_t at = 200; at < bytes.size(); at += bytes.size() / 7) {
    std::string changed = bytes;
    changed[at] = static_cast<char>(changed[at] ^ 1);
    expect_refused("a changed bit", restore(changed, key_, "team-a"), Code::Invalid);
  }
  std::string newer = bytes;
  newer[8] = 9;
  expect_refused("a newer version", restore(newer, key_, "team-a"), Code::Unsupported);
  expect_refused("more", restore(bytes + "x", key_, "team-a"), Code::Invalid);
  EXPECT_TRUE(restore(bytes, key_, "team-a"));
}

TEST_F(CheckpointTest, WhatIsMissingOnTheHostRefusesByName) {
  std::filesystem::create_directory(place("granted"));
  BoxRequest asked;
  asked.workspaces.push_back({work_directory()});
  asked.handed = granting({{"read", place("granted")}});
  const auto made = await(manager_->create(asked));
  ASSERT_TRUE(made) << made.error().message;
  const std::string bytes = bytes_of(write(made->id));
  std::filesystem::remove(place("granted"));
  const std::size_t layer_count = layers().size();
  const auto refused = restore(bytes, key_);
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message.find(place("granted")), std::string::npos);
  EXPECT_EQ(layers().size(), layer_count);
}

TEST_F(CheckpointTest, WhoRestoresMayCutDownAndRefuse) {
  const SessionInfo made = make_session();
  const std::string bytes = bytes_of(write(made.id));
  const auto with = [&](std::function<Result<void>(BoxRequest&)> review) {
    UniqueFd file = *open_file(place_, O_RDWR | O_TMPFILE, 0600);
    EXPECT_TRUE(write_all(file, bytes));
    (void)::lseek(file.get(), 0, SEEK_SET);
    RestoreRequest request{.key = key_, .tenant = "", .review = std::move(review)};
    return await(manager_->restore(std::move(file), std::move(request)));
  };
  EXPECT_EQ(with([](BoxRequest&) -> Result<void> { return fail(Code::Denied, "not here"); })
                .error()
                .message,
            "not here");
  const auto renamed = with([](BoxRequest& request) -> Result<void> {
    request.labels["owner"] = "me";
    return {};
  });
  ASSERT_TRUE(renamed) << renamed.error().message;
  EXPECT_EQ(renamed->info.effective.labels.at("owner"), "me");
}

class FullCheckpointTest : public CheckpointTest {
 protected:
  static constexpr std::uint64_t kMost = 10'000'000;
  ManagerSettings settings() const override {
    ManagerSettings settings = CheckpointTest::settings();
    settings.most_layer_bytes = kMost;
    settings.sweep_period =
        std::chrono::hours(1);  // the sweeper does not look at the disk meanwhile
    return settings;
  }
};

TEST_F(FullCheckpointTest, NoMoreIsRestoredThanThereIsRoomForOneAfterAnother) {
  const SessionInfo made = make_session();
  ASSERT_EQ(run(made, "head -c 2000000 /dev/urandom > file").code, 0);
  const std::string bytes = bytes_of(write(made.id));
  std::size_t count = 0;
  std::optional<Error> refused;
  while (!refused && count < 10) {
    const auto restored = restore(bytes, key_);
    if (restored) ++count;
    if (!restored) refused = restored.error();
  }
  ASSERT_TRUE(refused);
  EXPECT_EQ(refused->code, Code::Exhausted);
  EXPECT_EQ(count, 3u) << "beside the session that it was taken of";
  EXPECT_EQ(layers().size(), count + 1) << "nothing is left of what did not fit";
  EXPECT_LE(*await(manager_->layer_bytes()), kMost);
  // When there is no room at all, that is no bound of zero.
  ASSERT_TRUE(manager_->layer_usage().take(kMost - manager_->layer_usage().bytes()));
  EXPECT_TRUE(manager_->layer_usage().is_full());
  EXPECT_EQ(restore(bytes, key_).error().code, Code::Exhausted);
}

TEST_F(CheckpointTest, NoMoreIsRestoredThanItsBudgetSays) {
  const SessionInfo made = make_session();
  ASSERT_EQ(run(made, "head -c 1000000 /dev/zero > file").code, 0);
  const std::string bytes = bytes_of(write(made.id));
  const std::size_t layer_count = layers().size();
  const auto with = [&](const std::string& most) {
    UniqueFd file = *open_file(place_, O_RDWR | O_TMPFILE, 0600);
    EXPECT_TRUE(write_all(file, bytes));
    (void)::lseek(file.get(), 0, SEEK_SET);
    RestoreRequest request{.key = key_, .tenant = ""};
    request.review = [most](BoxRequest& asked) -> Result<void> {
      asked.handed = asked.handed.unite(granting({{"disk", most}}));
      asked.waived.insert(
          "limit.disk");  // at the write; what comes at once is bounded all the same
      return {};
    };
    return await(manager_->restore(std::move(file), std::move(request)));
  };
  const auto refused = with("999999");
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::Exhausted) << refused.error().message;
  EXPECT_EQ(layers().size(), layer_count) << "nothing is left of it";
  const auto fits = with("1100000");
  ASSERT_TRUE(fits) << fits.error().message;
}

// The original is not the one that the layer is about: nothing of it is overwritten unseen.
TEST_F(CheckpointTest, OverAnotherOriginalWhatExistsThereIsAConflict) {
  put_on_host(work_directory() + "/file", "one\n");
  const SessionInfo made = make_session();
  ASSERT_EQ(run(made, "echo two > file; echo new > new").code, 0);
  const std::string bytes = bytes_of(write(made.id));
  std::filesystem::rename(work_directory(), place("moved"));
  std::filesystem::create_directory(work_directory());
  put_on_host(work_directory() + "/file", "somebody else's\n");
  const auto back = restore(bytes, key_);
  ASSERT_TRUE(back) << back.error().message;
  const auto all = await(manager_->commit(back->info.id, {}));
  ASSERT_TRUE(all) << all.error().message;
  ASSERT_EQ(all->conflicts.size(), 1u);
  EXPECT_EQ(all->conflicts.front().path, "file");
  CommitRequest some;
  some.selection.only = {"new"};
  ASSERT_FALSE(await(manager_->commit(back->info.id, some))->is_refused());
  EXPECT_EQ(on_host("new"), "new\n");
}

TEST_F(CheckpointTest, MemoryIsRefusedByNameAndUseIsTold) {
  const SessionInfo made = make_session();
  CheckpointRequest request{.key = key_, .tenant = ""};
  request.state.push_back(StateKind::Memory);
  const auto refused = await(manager_->checkpoint(made.id, std::move(request)));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::Unsupported);
  EXPECT_NE(refused.error().message.find("Landlock"), std::string::npos);
  const auto file = write(made.id);
  ASSERT_TRUE(file);
  EXPECT_EQ(file->used, *manager_->usage(made.id));
  ASSERT_EQ(run(made, "true").code, 0);
  EXPECT_NE(file->used, *manager_->usage(made.id));
}

TEST_F(CheckpointTest, ALargeLayerNeedsNoMemory) {
  const SessionInfo made = make_session();
  ASSERT_EQ(run(made, "head -c 200000000 /dev/zero | tr '\\0' 'x' > large").code, 0);
  const std::size_t before = resident_bytes();
  const auto file = write(made.id);
  ASSERT_TRUE(file) << file.error().message;
  EXPECT_LT(resident_bytes(), before + (std::size_t{64} << 20));
  RestoreRequest request{.key = key_, .tenant = ""};
  UniqueFd copy(::dup(file->file.get()));
  const auto back = await(manager_->restore(std::move(copy), std::move(request)));
  ASSERT_TRUE(back) << back.error().message;
  EXPECT_LT(resident_bytes(), before + (std::size_t{64} << 20));
  EXPECT_EQ(run(back->info, "stat -c %s large").output, "200000000\n");
}

}  // namespace
}  // namespace glovebox::session
