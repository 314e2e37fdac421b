// A process inside swaps directories for links, over and over, while the files of the session are
// used from outside. What a link leads to is what it leads to in the box: nothing of the host's is
// ever read or changed.
#include "fixture.h"

#include "async/co_try.h"
#include "base/file.h"

#include <fstream>

namespace glovebox::session {
namespace {

constexpr int kCalls = 10'000;

class RaceTest : public ManagerTest {};

// One file job of each kind that takes a path, in turn; what it gives is thrown away.
asio::awaitable<Result<void>> use(std::shared_ptr<LiveSession> session, int number,
                                  std::string& seen) {
  using guest::JobKind;
  constexpr JobKind kKinds[] = {JobKind::Info, JobKind::Read,   JobKind::Write,
                                JobKind::Hash, JobKind::Remove, JobKind::MakeDirectory};
  guest::StartJob job;
  job.kind = kKinds[number % 6];
  job.path = number % 12 < 6 ? "swapped/canary" : "swapped/deep/canary";
  if (job.kind == JobKind::Write || job.kind == JobKind::MakeDirectory) job.flags = guest::kParents;
  if (job.kind != JobKind::Read && job.kind != JobKind::Write) {
    CO_TRY_VOID(co_await session->job(job));
    co_return Result<void>();
  }
  CO_TRY(const auto live, co_await session->start_job(job));
  if (job.kind == JobKind::Write) {
    const std::string_view text = "from outside\n";
    CO_TRY_VOID(co_await live->write(text));
  } else {
    CO_TRY_VOID(co_await live->read_entry());
    std::vector<char> buffer(1000);
    CO_TRY(const std::size_t size, co_await live->read(buffer));
    seen.append(buffer.data(), size);
  }
  CO_TRY_VOID(co_await live->finish());
  co_return Result<void>();
}

asio::awaitable<int> use_many_times(std::shared_ptr<LiveSession> session, std::string& seen) {
  int done = 0;
  for (int i = 0; i < kCalls; ++i) {
    const auto result = co_await use(session, i, seen);
    if (result) ++done;
  }
  co_return done;
}

TEST_F(RaceTest, SwappedLinksNeverLeadTheFileInterfaceOutOfTheBox) {
  const std::string outside = place_ / "outside";
  std::filesystem::create_directories(outside + "/deep");
  std::ofstream(outside + "/canary") << "of the host\n";
  std::ofstream(outside + "/deep/canary") << "of the host\n";
  const SessionInfo info = make_session();
  const auto session = attach(info);
  EXPECT_EQ(run(info, "mkdir -p real/deep; echo inside > real/canary").code, 0);
  RunRequest swapper;
  swapper.code = "while :; do ln -sfn " + outside +
                 " swapped; rm -f swapped; mkdir swapped; rm -rf swapped; "
                 "ln -sfn /proc/1/root" +
                 outside + " swapped; rm -rf swapped; ln -sfn real swapped; rm -rf swapped; done";
  const auto swapping = await(session->start_background(std::move(swapper)));
  ASSERT_TRUE(swapping) << swapping.error().message;
  std::string seen;
  const int done = await(use_many_times(session, seen));
  EXPECT_GT(done, 0);
  EXPECT_TRUE(session->background(swapping->run_id)->running) << "it swapped all the time";
  EXPECT_EQ(seen.find("of the host"), std::string::npos);
  EXPECT_EQ(*read_file(outside + "/canary"), "of the host\n");
  EXPECT_EQ(*read_file(outside + "/deep/canary"), "of the host\n");
  std::size_t names = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(outside)) {
    names += entry.exists() ? 1U : 0U;
  }
  EXPECT_EQ(names, 3u);
  EXPECT_TRUE(session->kill_background(swapping->run_id));
  EXPECT_EQ(run(info, "echo fine").output, "fine\n");
}

}  // namespace
}  // namespace glovebox::session
