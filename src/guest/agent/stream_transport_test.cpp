// The same agent over a byte stream: output in frames, as far as there is credit.
#include "guest/agent/agent_test_support.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <thread>

namespace glovebox::guest {
namespace {

using ::testing::EndsWith;

class StreamTransport : public ::testing::Test {
 protected:
  StreamTransport() : agent_(options()) {}
  static TestAgent::Options options() {
    TestAgent::Options options;
    options.transport = Transport::Stream;
    return options;
  }
  TestAgent agent_;
};

TEST_F(StreamTransport, RunsWorkAsOverPackets) {
  EXPECT_EQ(to_text(agent_.run("echo out; echo err >&2; x=1; exit 4")),
            "4 fresh out=[out\n] err=[err\n]");
  EXPECT_EQ(to_text(agent_.run("echo on")), "0 kept out=[on\n] err=[]");
  EXPECT_EQ(to_text(agent_.exec({"echo", "program"})), "0 out=[program\n] err=[]");
}

TEST_F(StreamTransport, AllOutputComesBeforeTheEnd) {
  const RunResult result = agent_.run("seq 1 200000");
  EXPECT_EQ(result.output.size(), 1'288'895U);
  EXPECT_THAT(result.output, EndsWith("\n200000\n"));
}

TEST_F(StreamTransport, InputIsStreamedWithinItsCredit) {
  StartRun run;
  run.code = "cat | wc -c";
  run.input = RunInput::Streamed;
  EXPECT_EQ(agent_.run(run, std::string(3'000'000, 'x')).output, "3000000\n");
  EXPECT_EQ(agent_.run(run, "").output, "0\n");
}

TEST_F(StreamTransport, MoreInputThanCreditIsRefusedHere) {
  StartRun run;
  run.code = "sleep 0.2";
  run.input = RunInput::Streamed;
  const Id id = agent_.start(run);
  ASSERT_TRUE(agent_.serve_until([&] { return agent_.watched(id).begun; }));
  const auto refused = agent_.link().write_input(id, std::string(kInitialCredit + 1, 'x'));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::Exhausted);
  EXPECT_EQ(agent_.finish(id).end.value, 0U);
}

TEST_F(StreamTransport, WithoutCreditNothingMoreIsSentAndMemoryStays) {
  StartRun run;
  run.code = "yes | head -c 50000000";
  const auto id = agent_.link().start_run(run);
  ASSERT_TRUE(id);
  std::size_t got = 0;
  for (int i = 0; i < 50; ++i) {
    auto events = agent_.link().on_ready();
    ASSERT_TRUE(events);
    for (const AgentEvent& event : *events) {
      if (const auto* output = std::get_if<AgentOutput>(&event)) got += output->bytes.size();
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  EXPECT_EQ(got, kInitialCredit);
  EXPECT_LT(agent_.memory_kib("VmRSS:"), 20'000U + kSanitizerKib);
}

TEST_F(StreamTransport, TerminalsWork) {
  StartRun run;
  run.mode = RunMode::Fresh;
  run.io = RunIo::Terminal;
  run.rows = 5;
  run.columns = 6;
  run.code = "stty size; read x; echo [$x]";
  const Id id = agent_.start(run);
  ASSERT_TRUE(agent_.serve_until([&] { return agent_.watched(id).begun; }));
  EXPECT_TRUE(agent_.link().write_input(id, "typed\n"));
  // The kernel hands on what was written to a terminal by and by, also after its writer has ended.
  ASSERT_TRUE(agent_.serve_until(
      [&] { return agent_.watched(id).over && agent_.watched(id).output_ended; }));
  const RunResult result = agent_.finish(id);
  EXPECT_THAT(result.output, ::testing::HasSubstr("5 6\r\n"));
  EXPECT_THAT(result.output, EndsWith("[typed]\r\n"));
}

TEST_F(StreamTransport, LateOutputOfABackgroundJobKeepsItsStream) {
  StartRun run;
  run.code = "(sleep 0.2; echo late) & echo early";
  const Id id = agent_.start(run);
  ASSERT_TRUE(agent_.serve_until([&] { return agent_.watched(id).over; }));
  EXPECT_EQ(agent_.watched(id).result.output, "early\n");
  ASSERT_TRUE(agent_.serve_until([&] { return agent_.watched(id).output_ended; }));
  EXPECT_EQ(agent_.watched(id).result.output, "early\nlate\n");
}

}  // namespace
}  // namespace glovebox::guest
