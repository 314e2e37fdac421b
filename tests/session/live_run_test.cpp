// Runs in live sessions: shells, streams, ends, cancelling.
#include "fixture.h"

#include "async/co_try.h"

#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>

namespace glovebox::session {
namespace {

using std::chrono::milliseconds;

using LiveRunTest = ManagerTest;

RunRequest shell(std::string code) {
  RunRequest request;
  request.code = std::move(code);
  return request;
}

TEST_F(LiveRunTest, TheShellKeepsItsState) {
  const SessionInfo info = make_session();
  EXPECT_EQ(run(info, "cd /tmp; x=1; f() { echo called $x; }; export Y=2").code, 0);
  EXPECT_EQ(run(info, "pwd; f; sh -c 'echo $Y'").output, "/tmp\ncalled 1\n2\n");
}

TEST_F(LiveRunTest, RunsStartInTheFirstWorkspace) {
  EXPECT_EQ(run(make_session(), "pwd").output, work_directory() + "\n");
}

TEST_F(LiveRunTest, StreamsAreApartOrInOrder) {
  const SessionInfo info = make_session();
  RunRequest request = shell("for i in 1 2 3; do echo out$i; echo err$i >&2; done");
  const Told apart = run(info, request);
  EXPECT_EQ(apart.output, "out1\nout2\nout3\n");
  EXPECT_EQ(apart.error, "err1\nerr2\nerr3\n");
  request.error_output = ErrorOutput::Merged;
  const std::string merged = "out1\nerr1\nout2\nerr2\nout3\nerr3\n";
  EXPECT_EQ(run(info, request).output, merged);
  request.shell = RunShell::Own;
  EXPECT_EQ(run(info, request).output, merged);
  EXPECT_EQ(run(info, "echo on; echo e >&2").error, "e\n") << "the shell is as before";
}

TEST_F(LiveRunTest, EndsAreTold) {
  const SessionInfo info = make_session();
  EXPECT_EQ(run(info, "exit 7").code, 7);
  EXPECT_EQ(run(info, "false").code, 1);
  EXPECT_EQ(run(info, "sh -c 'kill -9 $$'").code, 137);
  EXPECT_EQ(run(info, "echo still").output, "still\n");
}

TEST_F(LiveRunTest, ALotOfOutputComesWhole) {
  const SessionInfo info = make_session();
  EXPECT_EQ(run(info, "seq 1 60000").output.size(), 348'894u);
  EXPECT_EQ(run(info, "head -c 30000000 /dev/zero").output.size(), 30'000'000u);
}

TEST_F(LiveRunTest, ATimeoutEndsTheRunAndNotTheSession) {
  const SessionInfo info = make_session();
  RunRequest slow = shell("sleep 1000");
  slow.timeout = milliseconds(100);
  const Told told = run(info, slow);
  EXPECT_TRUE(told.timed_out);
  EXPECT_NE(told.code, 0);
  EXPECT_EQ(run(info, "echo on").output, "on\n");
}

TEST_F(LiveRunTest, ATimeoutEndsARunThatPrintsForEver) {
  const SessionInfo info = make_session();
  RunRequest loud = shell("yes");
  loud.timeout = milliseconds(100);
  EXPECT_TRUE(run(info, loud).timed_out);
  EXPECT_EQ(run(info, "echo on").output, "on\n");
}

TEST_F(LiveRunTest, ATimeoutEndsATreeThatIgnoresSignals) {
  const SessionInfo info = make_session();
  RunRequest deaf = shell("trap '' INT TERM; (trap '' INT TERM; sleep 1000); sleep 1000");
  deaf.timeout = milliseconds(50);
  EXPECT_TRUE(run(info, deaf).timed_out);
  EXPECT_EQ(run(info, "ps -e | grep -c sleep").output, "0\n");
}

// Reads the first piece and says that it has had enough.
class Refuse final : public OutputReader {
 public:
  asio::awaitable<Result<void>> take(guest::Stream /*stream*/, std::string_view /*b*/) override {
    co_return fail(Code::Os, "nobody reads");
  }
};

TEST_F(LiveRunTest, AReaderThatGivesUpEndsTheRunAndNotTheSession) {
  const SessionInfo info = make_session();
  Refuse refuse;
  const auto session = attach(info);
  const auto result = await(session->run(shell("yes"), refuse));
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().message, "nobody reads");
  EXPECT_EQ(run(info, "echo on").output, "on\n") << "its turn came when the run was over";
  EXPECT_EQ(session->under_way(), 0u);
}

TEST_F(LiveRunTest, CancellingTheCoroutineEndsTheRun) {
  const SessionInfo info = make_session();
  const auto session = attach(info);
  for (const char* code : {"sleep 1000", "yes", "while :; do :; done"}) {
    asio::cancellation_signal cancel;
    bool is_done = false;
    Collect collect;
    asio::co_spawn(
        loop_, session->run(shell(code), collect),
        asio::bind_cancellation_slot(
            cancel.slot(), [&](std::exception_ptr, Result<RunResult>) { is_done = true; }));
    run_until([&] { return session->under_way() > 0; });
    asio::steady_timer timer(loop_, milliseconds(30));
    timer.async_wait([&](const boost::system::error_code& problem) {
      if (!problem) cancel.emit(asio::cancellation_type::terminal);
    });
    run_until([&] { return is_done; });
    EXPECT_EQ(run(info, "echo on").output, "on\n") << code;
  }
  EXPECT_EQ(session->under_way(), 0u);
}

TEST_F(LiveRunTest, RunsOfOneShellWaitForEachOtherInOrder) {
  const SessionInfo info = make_session();
  const auto session = attach(info);
  std::vector<int> order;
  std::size_t done = 0;
  for (int i = 0; i < 20; ++i) {
    asio::co_spawn(loop_, run_and_tell(session, shell("sleep 0.01; n=$((n+1)); echo $n")),
                   [&, i](std::exception_ptr, const Told& told) {
                     ++done;
                     order.push_back(std::stoi(told.output));
                     EXPECT_EQ(order.back(), i + 1);
                   });
  }
  run_until([&] { return done == 20; });
  EXPECT_TRUE(std::ranges::is_sorted(order));
}

TEST_F(LiveRunTest, ABusyShellRefusesThoseWhoDoNotWait) {
  const SessionInfo info = make_session();
  const auto session = attach(info);
  bool is_done = false;
  asio::co_spawn(loop_, run_and_tell(session, shell("read x < /dev/null; sleep 0.3")),
                 [&](std::exception_ptr, const Told&) { is_done = true; });
  run_until([&] { return session->under_way() == 1; });
  RunRequest hasty = shell("echo no");
  hasty.when_busy = WhenBusy::Refuse;
  Collect collect;
  const auto refused = await(session->run(hasty, collect));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::Exhausted);
  RunRequest own = shell("echo beside");
  own.shell = RunShell::Own;
  EXPECT_EQ(run(info, own).output, "beside\n") << "a shell of its own does not wait";
  EXPECT_FALSE(is_done);
  run_until([&] { return is_done; });
}

asio::awaitable<Result<std::string>> talk(std::shared_ptr<LiveSession> session, RunRequest request,
                                          std::string input) {
  CO_TRY(const std::shared_ptr<LiveRun> live, co_await session->start(std::move(request)));
  CO_TRY_VOID(co_await live->write_input(input));
  live->end_input();
  Collect collect;
  CO_TRY(const RunResult result, co_await live->follow(collect));
  co_return collect.output + std::to_string(result.code);
}

TEST_F(LiveRunTest, InputIsStreamed) {
  const SessionInfo info = make_session();
  RunRequest request = shell("wc -c");
  request.input = guest::RunInput::Streamed;
  const auto told = await(talk(attach(info), request, std::string(60'000, 'x')));
  ASSERT_TRUE(told) << told.error().message;
  EXPECT_EQ(*told, "60000\n0");
  request.code = {};
  request.argv = {"/usr/bin/tr", "a-z", "A-Z"};
  EXPECT_EQ(*await(talk(attach(info), request, "hello")), "HELLO0");
}

asio::awaitable<Result<std::string>> use_terminal(std::shared_ptr<LiveSession> session) {
  RunRequest request;
  request.code = "stty size; read x; stty size; tty > /dev/null && echo tty $x";
  request.shell = RunShell::Own;
  request.terminal = plan::TerminalSize{30, 100};
  CO_TRY(const std::shared_ptr<LiveRun> live, co_await session->start(std::move(request)));
  CO_TRY_VOID(live->resize({40, 120}));
  CO_TRY_VOID(co_await live->write_input("word\n"));
  Collect collect;
  CO_TRY_VOID(co_await live->follow(collect));
  co_return collect.output;
}

TEST_F(LiveRunTest, ATerminalCanBeResized) {
  const auto told = await(use_terminal(attach(make_session())));
  ASSERT_TRUE(told) << told.error().message;
  EXPECT_NE(told->find("40 120"), std::string::npos) << *told;
  EXPECT_NE(told->find("tty word"), std::string::npos) << *told;
}

// Takes its time with every piece.
class Slow final : public OutputReader {
 public:
  explicit Slow(asio::io_context& loop) : timer_(loop) {}
  asio::awaitable<Result<void>> take(guest::Stream /*stream*/, std::string_view bytes) override {
    taken += bytes.size();
    timer_.expires_after(std::chrono::milliseconds(2));
    co_await timer_.async_wait(asio::use_awaitable);
    co_return Result<void>();
  }
  std::size_t taken = 0;

 private:
  asio::steady_timer timer_;
};

TEST_F(LiveRunTest, ASlowReaderKeepsMemoryFlat) {
  const SessionInfo info = make_session();
  const auto session = attach(info);
  Slow slow(loop_);
  (void)run(info, "head -c 1000000 /dev/zero");
  const std::size_t before = resident_bytes();
  const auto result = await(session->run(shell("head -c 20000000 /dev/zero"), slow));
  ASSERT_TRUE(result);
  EXPECT_EQ(slow.taken, 20'000'000u);
  EXPECT_LT(resident_bytes(), before + (std::size_t{4} << 20));
}

TEST_F(LiveRunTest, BackgroundRunsKeepTheirOutputOutside) {
  const SessionInfo info = make_session();
  const auto session = attach(info);
  const auto started = await(session->start_background(shell("echo one; echo two >&2; exit 3")));
  ASSERT_TRUE(started) << started.error().message;
  EXPECT_TRUE(started->running);
  run_until([&] { return !session->background(started->run_id)->running; });
  const auto status = session->background(started->run_id);
  EXPECT_EQ(status->exit_code, 3);
  EXPECT_EQ(status->error, "");
  EXPECT_TRUE(status->finished_at);
  const auto log = session->background_log(started->run_id, 0, 1000);
  ASSERT_TRUE(log);
  EXPECT_EQ(log->bytes, "one\ntwo\n");
  EXPECT_EQ(log->next, 8u);
  EXPECT_EQ(session->background_log(started->run_id, 4, 2)->bytes, "tw");
  EXPECT_EQ(session->background_log(started->run_id, 100, 2)->next, 8u);
  EXPECT_FALSE(session->background("no-such-run"));
  EXPECT_EQ(run(info, "ls -A").output, "") << "nothing of it is in the workspace";
}

TEST_F(LiveRunTest, ABackgroundRunKeepsTheLastOfALongLog) {
  const auto session = attach(make_session());
  const auto started =
      await(session->start_background(shell("head -c 20000000 /dev/zero; echo end")));
  ASSERT_TRUE(started);
  run_until([&] { return !session->background(started->run_id)->running; });
  EXPECT_EQ(session->background(started->run_id)->output_bytes, 20'000'004u);
  const auto log = session->background_log(started->run_id, 0, std::size_t{64} << 20);
  ASSERT_TRUE(log);
  EXPECT_EQ(log->bytes.size(), Spool::kCapacity);
  EXPECT_EQ(log->skipped, 20'000'004u - Spool::kCapacity);
  EXPECT_EQ(log->next, 20'000'004u);
  EXPECT_TRUE(log->bytes.ends_with("end\n"));
}

TEST_F(LiveRunTest, ABackgroundRunCanBeKilledAndEndsWithTheSession) {
  const SessionInfo info = make_session();
  const auto session = attach(info);
  const auto first = await(session->start_background(shell("sleep 1000")));
  const auto second = await(session->start_background(shell("sleep 1000")));
  ASSERT_TRUE(first && second);
  EXPECT_TRUE(session->kill_background(first->run_id));
  run_until([&] { return !session->background(first->run_id)->running; });
  EXPECT_NE(session->background(first->run_id)->exit_code, 0);
  ASSERT_TRUE(await(manager_->end(info.id)));
  run_until([&] { return !session->background(second->run_id)->running; });
  EXPECT_EQ(session->background(second->run_id)->error, "session terminated");
  EXPECT_FALSE(session->background(second->run_id)->exit_code);
}

asio::awaitable<Result<std::string>> read_back(std::shared_ptr<LiveSession> session,
                                               std::string path) {
  guest::StartJob job;
  job.kind = guest::JobKind::Read;
  job.path = std::move(path);
  CO_TRY(const auto live, co_await session->start_job(job));
  CO_TRY(const guest::Entry entry, co_await live->read_entry());
  std::string text;
  std::vector<char> buffer(10'000);
  while (true) {
    CO_TRY(const std::size_t size, co_await live->read(buffer));
    if (size == 0) break;
    text.append(buffer.data(), size);
  }
  CO_TRY_VOID(co_await live->finish());
  EXPECT_EQ(entry.size, text.size());
  co_return text;
}

asio::awaitable<Result<void>> write_file(std::shared_ptr<LiveSession> session, std::string path,
                                         std::string text, bool is_finished) {
  guest::StartJob job;
  job.kind = guest::JobKind::Write;
  job.path = std::move(path);
  CO_TRY(const auto live, co_await session->start_job(job));
  CO_TRY_VOID(co_await live->write(text));
  if (is_finished) CO_TRY_VOID(co_await live->finish());
  co_return Result<void>();
}

TEST_F(LiveRunTest, FilesGoInAndOutAsStreams) {
  const SessionInfo info = make_session();
  const auto session = attach(info);
  std::string text;
  for (int i = 0; i < 300'000; ++i) text += std::to_string(i) + "\n";
  ASSERT_TRUE(await(write_file(session, "numbers", text, true)));
  EXPECT_EQ(run(info, "wc -l < numbers").output, "300000\n");
  const auto back = await(read_back(session, work_directory() + "/numbers"));
  ASSERT_TRUE(back) << back.error().message;
  EXPECT_TRUE(*back == text);
  const auto missing = await(read_back(session, "missing"));
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().os_errno, ENOENT) << missing.error().message;
  EXPECT_FALSE(std::filesystem::exists(work_directory() + "/numbers")) << "it is in the layer";
}

TEST_F(LiveRunTest, AnUploadThatIsGivenUpLeavesWhatWasThere) {
  const SessionInfo info = make_session();
  const auto session = attach(info);
  ASSERT_TRUE(await(write_file(session, "kept", "old", true)));
  for (int i = 0; i < 20; ++i) {
    ASSERT_TRUE(await(write_file(session, "kept", "half of something new", false)));
  }
  run_until([&] { return session->under_way() == 0; });
  EXPECT_EQ(run(info, "cat kept; ls -A").output, "oldkept\n");
}

TEST_F(LiveRunTest, EntriesAreListed) {
  const SessionInfo info = make_session();
  const auto session = attach(info);
  (void)run(info, "mkdir d; touch d/a d/b d/c");
  guest::StartJob job;
  job.kind = guest::JobKind::List;
  job.path = "d";
  job.limit = 1;
  const auto entries = await(session->entries(job, 10));
  ASSERT_TRUE(entries) << entries.error().message;
  EXPECT_EQ(entries->size(), 3u);
  EXPECT_EQ(await(session->entries(job, 2)).error().code, Code::Exhausted);
}

}  // namespace
}  // namespace glovebox::session
