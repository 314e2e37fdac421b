#include "session/store/session_store.h"

#include "base/file.h"
#include "session/store/database.h"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

namespace glovebox::session {
namespace {

namespace asio = boost::asio;

class StoreTest : public testing::Test {
 protected:
  StoreTest() {
    std::string name = "/tmp/glovebox-store-test-XXXXXX";
    if (::mkdtemp(name.data()) != nullptr) place_ = name;
    file_ = place_ / "sessions.db";
  }
  ~StoreTest() override { std::filesystem::remove_all(place_); }

  Result<void> await(asio::awaitable<Result<void>> work) {
    asio::io_context loop;
    Result<void> result;
    asio::co_spawn(loop, std::move(work), [&](const std::exception_ptr&, Result<void> value) {
      result = std::move(value);
    });
    loop.run();
    return result;
  }
  static SessionRecord record(const std::string& id) {
    SessionRecord record;
    record.info.id = id;
    return record;
  }

  std::filesystem::path place_;
  std::string file_;
};

TEST_F(StoreTest, RemembersSessionsAndTheirRuns) {
  {
    const auto store = Store::open(file_);
    ASSERT_TRUE(store) << store.error().message;
    ASSERT_TRUE(await((*store)->put(record("a"))));
    ASSERT_TRUE(await((*store)->put(record("b"))));
    for (std::uint64_t i = 1; i <= Store::kRemembered + 20; ++i) {
      RunRecord run;
      run.number = i;
      run.code = static_cast<int>(i % 7);
      run.problem = "p";
      (*store)->put_run_later("a", run, i);
    }
    ASSERT_TRUE(await((*store)->remove("b")));
  }
  const auto store = Store::open(file_);
  ASSERT_TRUE(store) << store.error().message;
  const auto sessions = (*store)->load();
  ASSERT_TRUE(sessions) << sessions.error().message;
  ASSERT_EQ(sessions->size(), 1u);
  EXPECT_EQ(sessions->front().record.info.id, "a");
  EXPECT_EQ(sessions->front().record.info.runs, Store::kRemembered + 20);
  ASSERT_EQ(sessions->front().runs.size(), Store::kRemembered) << "the oldest are forgotten";
  EXPECT_EQ(sessions->front().runs.front().number, 21u);
  EXPECT_EQ(sessions->front().runs.back().problem, "p");
  EXPECT_TRUE((*store)->load_kept_layers()->empty());
}

// A process that is killed writes nothing more: so does one whose store never gets the batch.
TEST_F(StoreTest, ARunThatWasNotedIsCountedAlthoughItsBatchNeverCame) {
  const auto at = [](int seconds) { return WallTime(std::chrono::seconds(seconds)); };
  {
    const auto store = Store::open(file_);
    ASSERT_TRUE(store) << store.error().message;
    ASSERT_TRUE(await((*store)->put(record("a"))));
    for (int i = 1; i <= 3; ++i) {
      RunRecord run;
      run.number = static_cast<std::uint64_t>(i);
      run.code = 10 + i;
      run.ended_at = at(i);
      run.problem = "a problem\nof two lines";
      (*store)->note_run({"a", run, run.number});
    }
    (*store)->note_run({"gone", RunRecord{}, 1});
  }
  std::ofstream(file_ + ".runs.1") << "a 9 0 1 1 0";  // cut in the middle
  for (int start = 0; start < 2; ++start) {
    const auto store = Store::open(file_);
    ASSERT_TRUE(store) << store.error().message;
    const auto sessions = (*store)->load();
    ASSERT_EQ(sessions->size(), 1u);
    EXPECT_EQ(sessions->front().record.info.runs, 3u);
    EXPECT_EQ(sessions->front().record.info.last_run_at, at(3));
    ASSERT_EQ(sessions->front().runs.size(), 3u);
    EXPECT_EQ(sessions->front().runs.back().code, 13);
    EXPECT_EQ(sessions->front().runs.back().problem, "a problem\nof two lines");
  }
}

TEST_F(StoreTest, TheJournalIsEmptyWhenTheBatchIsWritten) {
  const auto store = Store::open(file_);
  ASSERT_TRUE(store) << store.error().message;
  ASSERT_TRUE(await((*store)->put(record("a"))));
  for (std::uint64_t i = 1; i <= 1000; ++i) {
    RunRecord run;
    run.number = i;
    run.ended_at = WallTime(std::chrono::seconds(i));
    (*store)->note_run({"a", run, i});
    const Store::Batch batch(**store);
    (*store)->put_run_later("a", run, i);
  }
  ASSERT_TRUE(await((*store)->flush()));
  {
    const Store::Batch last(**store);
  }
  ASSERT_TRUE(await((*store)->flush()));
  EXPECT_EQ(
      std::filesystem::file_size(file_ + ".runs.0") + std::filesystem::file_size(file_ + ".runs.1"),
      0u);
}

TEST_F(StoreTest, ANewerVersionIsRefused) {
  {
    ASSERT_TRUE(Store::open(file_));
    sqlite3* database = nullptr;
    ASSERT_EQ(sqlite3_open(file_.c_str(), &database), SQLITE_OK);
    EXPECT_TRUE(run_sql(database, "PRAGMA user_version = 2"));
    sqlite3_close(database);
  }
  const auto opened = Store::open(file_);
  ASSERT_FALSE(opened);
  EXPECT_EQ(opened.error().code, Code::Unsupported) << opened.error().message;
}

TEST_F(StoreTest, AFileOfSomebodyElseIsRefused) {
  sqlite3* database = nullptr;
  ASSERT_EQ(sqlite3_open(file_.c_str(), &database), SQLITE_OK);
  EXPECT_TRUE(run_sql(database, "CREATE TABLE other (x); PRAGMA user_version = 1"));
  sqlite3_close(database);
  EXPECT_EQ(Store::open(file_).error().code, Code::Invalid);
}

TEST_F(StoreTest, ADamagedFileIsRefused) {
  {
    const auto store = Store::open(file_);
    for (int i = 0; i < 200; ++i) (*store)->put_later(record(std::to_string(i)));
  }
  const auto size = std::filesystem::file_size(file_);
  ASSERT_GT(size, 16'384u);
  std::fstream file(file_, std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(4096);
  file << std::string(static_cast<std::size_t>(size) - 8192, 'x');
  file.close();
  const auto opened = Store::open(file_);
  ASSERT_FALSE(opened);
  EXPECT_EQ(opened.error().code, Code::Invalid) << opened.error().message;
  EXPECT_NE(opened.error().message.find(file_), std::string::npos);
}

TEST_F(StoreTest, TwoDoNotShareAFile) {
  const auto first = Store::open(file_);
  ASSERT_TRUE(first);
  EXPECT_EQ(Store::open(file_).error().code, Code::Denied);
}

}  // namespace
}  // namespace glovebox::session
