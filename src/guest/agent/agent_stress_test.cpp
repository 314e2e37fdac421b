// Much of everything: output, runs, stuck readers. And what it costs.
#include "base/file.h"
#include "guest/agent/agent_test_support.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <string>
#include <thread>
#include <vector>

#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

namespace glovebox::guest {
namespace {

using ::testing::EndsWith;
using ::testing::StartsWith;

TEST(AgentStress, SixtyThousandLinesInOrder) {
  TestAgent agent;
  const RunResult result = agent.run("for ((i = 1; i <= 60000; ++i)); do echo \"line $i\"; done");
  std::string expected;
  for (int i = 1; i <= 60'000; ++i) expected += "line " + std::to_string(i) + "\n";
  EXPECT_TRUE(result.output == expected);
}

TEST(AgentStress, OneGibibyteOfOutputPassesWithoutTheAgent) {
  TestAgent agent;
  StartRun run;
  run.code = "head -c 1073741824 /dev/zero";
  const auto id = agent.link().start_run(run);
  ASSERT_TRUE(id);
  UniqueFd output;
  UniqueFd error;
  std::size_t got = 0;
  bool over = false;
  std::vector<char> buffer(1 << 20);
  while (!over) {
    std::array<pollfd, 2> waits{{{agent.link().fd().get(), POLLIN, 0}, {output.get(), POLLIN, 0}}};
    ASSERT_GT(::poll(waits.data(), waits.size(), 20'000), 0);
    auto events = agent.link().on_ready();
    ASSERT_TRUE(events);
    for (AgentEvent& event : *events) {
      if (auto* begun = std::get_if<RunBegun>(&event)) {
        output = std::move(begun->output);
        error = std::move(begun->error);
      }
      over = over || std::holds_alternative<RunOver>(event);
    }
    ssize_t size = 0;
    while (output && (size = ::read(output.get(), buffer.data(), buffer.size())) > 0) {
      got += static_cast<std::size_t>(size);
    }
  }
  EXPECT_EQ(got, std::size_t{1} << 30);
  EXPECT_LT(agent.memory_kib("VmHWM:"), 30'000U + kSanitizerKib);
}

TEST(AgentStress, AStuckReaderStopsTheWriterAndMemoryStaysFlat) {
  TestAgent agent;
  StartRun run;
  run.code = "yes";
  const auto id = agent.link().start_run(run);
  ASSERT_TRUE(id);
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  auto events = agent.link().on_ready();
  ASSERT_TRUE(events);
  ASSERT_FALSE(events->empty());
  const std::size_t before = agent.memory_kib("VmRSS:");
  std::this_thread::sleep_for(std::chrono::milliseconds(500));
  EXPECT_LE(agent.memory_kib("VmRSS:"), before + 64 + kSanitizerKib);
  // The output is not read, and the run can still be ended.
  ASSERT_TRUE(agent.link().kill_run(*id, std::chrono::milliseconds(2000)));
  bool over = false;
  for (int i = 0; i < 300 && !over; ++i) {
    pollfd wait{agent.link().fd().get(), POLLIN, 0};
    ::poll(&wait, 1, 20);
    const auto more = agent.link().on_ready();
    ASSERT_TRUE(more);
    for (const AgentEvent& event : *more) over = over || std::holds_alternative<RunOver>(event);
  }
  EXPECT_TRUE(over);
  EXPECT_EQ(agent.run("echo usable").output, "usable\n");
}

TEST(AgentStress, AThousandRunsInOneShellLeaveNoGrowth) {
  TestAgent agent;
  for (int i = 0; i < 20; ++i) agent.run("true");
  // The agent makes the next run's pipes after it has told the end of the last.
  const auto settled_descriptors = [&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    return agent.open_descriptors();
  };
  const std::size_t descriptors = settled_descriptors();
  const std::size_t memory = agent.memory_kib("VmRSS:");
  const std::vector<pid_t> before = agent.children_of(agent.pid());
  for (int i = 0; i < 1000; ++i) {
    const RunResult result = agent.run("n=$((n + 1)); echo $n");
    ASSERT_EQ(result.output, std::to_string(i + 1) + "\n");
  }
  // Two sets of pipes are kept, or made when they are needed.
  EXPECT_LE(settled_descriptors(), descriptors + 4);
  EXPECT_LE(agent.memory_kib("VmRSS:"), memory + 256 + kSanitizerKib);
  EXPECT_EQ(agent.children_of(agent.pid()), before);
  // Into a file: beside a pipeline the shell would still be closing ends of its pipes.
  const std::string count = "ls /proc/$$/fd >../scratch/fds; wc -l <../scratch/fds";
  EXPECT_EQ(agent.run(count).output, agent.run(count).output);
}

TEST(AgentStress, ManyRunsOfEveryKindAtOnce) {
  TestAgent agent;
  std::vector<Id> ids;
  for (int i = 0; i < 40; ++i) {
    StartRun run;
    run.mode = i % 2 == 0 ? RunMode::Fresh : RunMode::Exec;
    if (run.mode == RunMode::Fresh) {
      run.code = "seq 1 2000; exit " + std::to_string(i);
    } else {
      run.argv = {"sh", "-c", "seq 1 2000; exit " + std::to_string(i)};
    }
    ids.push_back(agent.start(run));
  }
  for (int i = 0; i < 40; ++i) {
    const RunResult result = agent.finish(ids[static_cast<std::size_t>(i)]);
    EXPECT_EQ(result.end.value, static_cast<std::uint32_t>(i));
    EXPECT_THAT(result.output, EndsWith("\n2000\n"));
  }
  EXPECT_EQ(agent.children_of(agent.pid()).size(), 1U) << "only the shell is left";
}

TEST(AgentStress, TooManyRunsAreRefusedAndTheSessionGoesOn) {
  TestAgent agent;
  std::vector<Id> ids;
  StartRun run;
  run.mode = RunMode::Exec;
  run.argv = {"sleep", "100"};
  for (std::size_t i = 0; i < kMaxRuns; ++i) ids.push_back(agent.start(run));
  EXPECT_FALSE(agent.link().start_run(run));
  for (const Id id : ids) EXPECT_TRUE(agent.link().kill_run(id, std::chrono::milliseconds(500)));
  for (const Id id : ids) agent.finish(id);
  EXPECT_EQ(agent.run("echo fine").output, "fine\n");
}

// The least that a session could do: bash at the end of two pipes, with the status as a line.
class BareShell {
 public:
  BareShell() {
    auto in = open_pipe();
    auto out = open_pipe();
    pid_ = ::fork();
    if (pid_ == 0) {
      ::dup2(in->read.get(), 0);
      ::dup2(out->write.get(), 1);
      ::execl("/bin/bash", "bash", "--norc", "--noprofile", nullptr);
      ::_exit(127);
    }
    in_ = std::move(in->write);
    out_ = std::move(out->read);
  }
  ~BareShell() {
    in_.reset();
    ::waitpid(pid_, nullptr, 0);
  }
  void run(std::string_view code) {
    const std::string lines = fmt::format("{}\necho MARK $?\n", code);
    ASSERT_TRUE(write_all(in_, lines));
    std::string heard;
    std::array<char, 256> buffer;
    while (heard.find("MARK 0\n") == std::string::npos) {
      const ssize_t size = ::read(out_.get(), buffer.data(), buffer.size());
      ASSERT_GT(size, 0);
      heard.append(buffer.data(), static_cast<std::size_t>(size));
    }
  }

 private:
  pid_t pid_ = -1;
  UniqueFd in_;
  UniqueFd out_;
};

template <class Act>
double micros_of(Act act) {
  const auto before = std::chrono::steady_clock::now();
  act();
  return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - before)
      .count();
}

double median(std::vector<double>& values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

// Figures, not limits: printed with each run of the tests, side by side because the machine is
// never the same twice.
TEST(AgentStress, FiguresOfAnIdleAgentAndOfARoundTrip) {
  TestAgent agent;
  BareShell bare;
  for (int i = 0; i < 200; ++i) agent.run("x=1");
  std::vector<double> ours;
  std::vector<double> floor;
  std::vector<double> programs;
  for (int i = 0; i < 1000; ++i) {
    ours.push_back(micros_of([&] { agent.run("echo hi"); }));
    floor.push_back(micros_of([&] { bare.run("echo hi"); }));
    if (i % 10 == 0) programs.push_back(micros_of([&] { agent.exec({"/bin/true"}); }));
  }
  std::printf(
      "builtin run %.0f us, bare pipe to bash %.0f us, /bin/true %.0f us (medians); "
      "agent RSS %zu KiB\n",
      median(ours), median(floor), median(programs), agent.memory_kib("VmRSS:"));
  EXPECT_LT(median(ours), 20'000);
}

}  // namespace
}  // namespace glovebox::guest
