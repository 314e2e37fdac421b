// The supervisor's end against agents that lie.
#include "guest/agent/agent_link.h"

#include "base/file.h"
#include "guest/agent/agent_test_support.h"

#include <gtest/gtest.h>

#include <array>
#include <fstream>
#include <random>
#include <string>
#include <vector>

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

namespace glovebox::guest {
namespace {

// A link that believes it speaks to an agent, and the socket at which the agent would be.
class Liar {
 public:
  explicit Liar(Transport transport = Transport::Packets) {
    std::array<int, 2> pair{};
    const int type = transport == Transport::Packets ? SOCK_SEQPACKET : SOCK_STREAM;
    if (::socketpair(AF_UNIX, type | SOCK_CLOEXEC, 0, pair.data()) != 0) std::abort();
    link.emplace(UniqueFd(pair[0]), transport);
    wire.emplace(UniqueFd(pair[1]), transport);
  }

  void say(Id id, Reply reply, std::vector<UniqueFd> fds = {}) {
    const auto count = static_cast<std::uint16_t>(fds.size());
    ASSERT_TRUE(wire->send(*encode(Frame<Reply>{id, count, std::move(reply)}), std::move(fds)));
  }
  // Greeted and ready, with one run for the shell asked for: id 1.
  void get_ready(StartRun run = {}) {
    ASSERT_TRUE(link->greet(Hello{}));
    say(kSessionId, Ready{});
    ASSERT_TRUE(link->on_ready());
    ASSERT_EQ(link->start_run(std::move(run)).value(), 1U);
  }
  bool believes() { return link->on_ready().has_value(); }

  std::optional<AgentLink> link;
  std::optional<Wire> wire;
};

std::vector<UniqueFd> pipes_for_run() {
  std::vector<UniqueFd> fds;
  for (int i = 0; i < 2; ++i) {
    auto pipe = open_pipe();
    fds.push_back(std::move(pipe->read));
  }
  return fds;
}

TEST(AgentLink, HonestRunFromStartToEnd) {
  Liar agent;
  agent.get_ready();
  agent.say(1, RunStarted{}, pipes_for_run());
  agent.say(1, RunEnded{EndKind::Exited, 0, ShellState::Kept});
  const auto events = agent.link->on_ready();
  ASSERT_TRUE(events) << events.error().message;
  ASSERT_EQ(events->size(), 2U);
  EXPECT_TRUE(std::holds_alternative<RunBegun>((*events)[0]));
  EXPECT_EQ(agent.link->under_way(), 0U);
}

TEST(AgentLink, PipesAreOpenedAgainSoThatTheBoxCannotMakeThemWait) {
  Liar agent;
  agent.get_ready();
  auto fds = pipes_for_run();
  const int kept = ::fcntl(fds[0].get(), F_DUPFD_CLOEXEC, 0);
  agent.say(1, RunStarted{}, std::move(fds));
  auto events = agent.link->on_ready();
  ASSERT_TRUE(events);
  const auto& begun = std::get<RunBegun>(events->front());
  EXPECT_EQ(::fcntl(kept, F_SETFL, 0), 0);
  EXPECT_NE(::fcntl(begun.output.get(), F_GETFL) & O_NONBLOCK, 0);
  ::close(kept);
}

TEST(AgentLink, FirstWordMustBeReadyAndOnlyOnce) {
  Liar early;
  early.say(kSessionId, Ready{});
  EXPECT_FALSE(early.believes()) << "ready before it was greeted";
  Liar other;
  ASSERT_TRUE(other.link->greet(Hello{}));
  other.say(1, RunStarted{});
  EXPECT_FALSE(other.believes());
  Liar version;
  ASSERT_TRUE(version.link->greet(Hello{}));
  version.say(kSessionId, Ready{2, ShellKind::Bash});
  EXPECT_FALSE(version.believes());
  Liar twice;
  twice.get_ready();
  twice.say(kSessionId, Ready{});
  EXPECT_FALSE(twice.believes());
}

TEST(AgentLink, AnswersWithoutAQuestionAreErrors) {
  const std::vector<std::pair<Id, Reply>> lies = {
      {2, RunStarted{}},
      {0, RunStarted{}},
      {1, RunEnded{EndKind::Exited, 0, ShellState::Kept}},  // not started yet
      {1, JobEnded{}},
      {7, JobEnded{}},
      {7, Refused{}},
      {1, Refused{99, 0, "unknown code"}},
      {1, Output{Stream::Output, "x"}},
      {1, OutputEnd{Stream::Output}},
      {1, Credit{Stream::Input, 1}},
  };
  for (const auto& [id, lie] : lies) {
    Liar agent;
    agent.get_ready();
    agent.say(id, lie);
    EXPECT_FALSE(agent.believes()) << lie.index() << " for " << id;
    EXPECT_FALSE(agent.believes()) << "an error is for good";
    EXPECT_FALSE(agent.link->shut_down());
  }
}

TEST(AgentLink, ImpossibleEndsAreErrors) {
  for (const RunEnded& lie : {RunEnded{EndKind::Exited, 256, ShellState::Kept},
                              RunEnded{EndKind::Signaled, 0, ShellState::Fresh},
                              RunEnded{EndKind::Signaled, 65, ShellState::Fresh},
                              RunEnded{EndKind::Exited, 0, ShellState::None}}) {
    Liar agent;
    agent.get_ready();
    agent.say(1, RunStarted{}, pipes_for_run());
    ASSERT_TRUE(agent.believes());
    agent.say(1, lie);
    EXPECT_FALSE(agent.believes());
  }
}

TEST(AgentLink, DescriptorsMustBeTheRightPipes) {
  const auto one = [](UniqueFd first) {
    auto fds = pipes_for_run();
    fds[0] = std::move(first);
    return fds;
  };
  std::vector<std::vector<UniqueFd>> lies;
  lies.emplace_back();
  lies.push_back(pipes_for_run());
  lies.back().pop_back();
  lies.push_back(pipes_for_run());
  lies.back().push_back(std::move(open_pipe()->read));
  lies.push_back(one(std::move(open_pipe()->write)));
  lies.push_back(one(*open_file("/dev/zero", O_RDONLY)));
  lies.push_back(one(*open_file("/etc/passwd", O_RDONLY)));
  lies.push_back(one(*open_file("/", O_RDONLY | O_DIRECTORY)));
  lies.push_back(one(UniqueFd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0))));
  for (auto& fds : lies) {
    Liar agent;
    agent.get_ready();
    agent.say(1, RunStarted{}, std::move(fds));
    EXPECT_FALSE(agent.believes());
  }
  Liar announced;
  announced.get_ready();
  ASSERT_TRUE(announced.wire->send(*encode(Frame<Reply>{1, 2, RunStarted{}})));
  EXPECT_FALSE(announced.believes()) << "announced and not sent";
}

TEST(AgentLink, CreditIsABound) {
  Liar agent(Transport::Stream);
  agent.get_ready();
  agent.say(1, RunStarted{});
  ASSERT_TRUE(agent.believes());
  for (std::uint64_t sent = 0; sent < kInitialCredit; sent += kMaxChunk) {
    agent.say(1, Output{Stream::Output, std::string(kMaxChunk, 'x')});
    ASSERT_TRUE(agent.believes());
  }
  agent.say(1, Output{Stream::Output, "x"});
  EXPECT_FALSE(agent.believes());
}

TEST(AgentLink, JobAnswersMustFitTheJob) {
  StartJob info;
  info.path = "x";
  StartJob hash = info;
  hash.kind = JobKind::Hash;
  for (const auto& [job, detail] :
       std::vector<std::pair<StartJob, std::string>>{{info, ""},
                                                     {info, "x"},
                                                     {info, encode_entry({}) + "x"},
                                                     {hash, ""},
                                                     {hash, std::string(64, 'X')}}) {
    Liar agent;
    agent.get_ready();
    ASSERT_EQ(agent.link->start_job(job).value(), 2U);
    JobEnded ended;
    ended.detail = detail;
    agent.say(2, ended);
    EXPECT_FALSE(agent.believes()) << detail;
  }
}

TEST(AgentLink, AWholeRunIsBelievedOnce) {
  Liar agent;
  agent.get_ready();
  const RunDone done{{EndKind::Exited, 0, ShellState::Kept}, "out", "error"};
  agent.say(1, done);
  const auto events = agent.link->on_ready();
  ASSERT_TRUE(events);
  const auto& whole = std::get<RunWhole>(events->front());
  EXPECT_EQ(whole.output, "out");
  EXPECT_EQ(whole.error, "error");
  EXPECT_EQ(agent.link->under_way(), 0U);
  EXPECT_EQ(agent.link->start_run({}).value(), 2U);  // the shell is free again
  agent.say(1, done);
  EXPECT_FALSE(agent.believes());
}

TEST(AgentLink, AWholeRunThatDoesNotFitIsNotBelieved) {
  StartRun joined;
  joined.io = RunIo::Joined;
  StartRun fed;
  fed.input = RunInput::Streamed;
  const RunEnded kept{EndKind::Exited, 0, ShellState::Kept};
  const std::vector<std::pair<StartRun, RunDone>> lies = {
      {joined, {kept, "", "error output that was not asked for"}},
      {fed, {kept, "", ""}},
      {{}, {{EndKind::Exited, 256, ShellState::Kept}, "", ""}},
      {{}, {{EndKind::Exited, 0, ShellState::None}, "", ""}}};
  for (const auto& [asked, done] : lies) {
    Liar agent;
    agent.get_ready(asked);
    agent.say(1, done);
    EXPECT_FALSE(agent.believes());
  }
  Liar begun;
  begun.get_ready();
  begun.say(1, RunStarted{}, pipes_for_run());
  begun.say(1, RunDone{kept, "", ""});
  EXPECT_FALSE(begun.believes());
  Liar stream(Transport::Stream);
  stream.get_ready();
  stream.say(1, RunDone{kept, "", ""});
  EXPECT_FALSE(stream.believes());
  Liar stranger;
  stranger.get_ready();
  stranger.say(7, RunDone{kept, "", ""});
  EXPECT_FALSE(stranger.believes());
}

TEST(AgentLink, WordsOfTheBoxAreMadeSafeToShow) {
  Liar agent;
  agent.get_ready();
  agent.say(1, Refused{0, 0, "\x1b]0;title\x07" + std::string(10'000, 'x')});
  const auto events = agent.link->on_ready();
  ASSERT_TRUE(events);
  const auto& refused = std::get<RequestRefused>(events->front());
  EXPECT_EQ(refused.error.message.find('\x1b'), std::string::npos);
  EXPECT_LE(refused.error.message.size(), 2048U);
}

TEST(AgentLink, AnAgentThatDoesNotReadIsABoundedQueue) {
  Liar agent;
  agent.get_ready();
  StartJob job;
  job.path = std::string(4000, 'x');
  Result<Id> started = Id{0};
  int count = 0;
  for (; count < 100'000 && started; ++count) {
    started = agent.link->start_job(job);
  }
  EXPECT_FALSE(started);
  EXPECT_LT(count, 1000);
}

TEST(AgentLink, ClosingIsTheLastEvent) {
  Liar agent;
  agent.get_ready();
  agent.wire.reset();
  const auto events = agent.link->on_ready();
  ASSERT_TRUE(events);
  EXPECT_TRUE(std::holds_alternative<AgentGone>(events->back()));
}

std::size_t resident_kib() {
  std::ifstream file("/proc/self/statm");
  std::size_t total = 0;
  std::size_t resident = 0;
  file >> total >> resident;
  return resident * 4;
}

// A hostile agent: frames that were good once, changed at random, and pure noise.
TEST(AgentLink, MutatedFramesEndTheSessionAndNothingElse) {
  std::mt19937 random(1);  // NOLINT: the same lies every time
  const std::vector<Reply> replies = {Ready{1, ShellKind::Bash},
                                      RunStarted{},
                                      RunEnded{EndKind::Exited, 1, ShellState::Kept},
                                      JobEnded{1, 5, "m", 2, "d"},
                                      Refused{1, 2, "m"},
                                      Output{Stream::Output, "text"},
                                      OutputEnd{Stream::Error},
                                      Credit{Stream::Input, 9},
                                      RunDone{{EndKind::Exited, 0, ShellState::Kept}, "o", "e"}};
  std::size_t errors = 0;
  const std::size_t before = resident_kib();
  for (int i = 0; i < 5'000; ++i) {
    Liar agent(i % 2 == 0 ? Transport::Packets : Transport::Stream);
    agent.get_ready();
    for (int n = 0; n < 8; ++n) {
      std::string bytes =
          *encode(Frame<Reply>{random() % 3, 0, replies[random() % replies.size()]});
      if (random() % 2 == 0) bytes[random() % bytes.size()] = static_cast<char>(random());
      if (random() % 8 == 0) bytes = std::string(random() % 300 + 1, static_cast<char>(random()));
      if (!agent.wire->send(bytes)) break;
    }
    if (!agent.believes()) ++errors;
  }
  EXPECT_GT(errors, 4'000U);
  EXPECT_LT(resident_kib(), before + 40'000 + kSanitizerKib);
}

TEST(AgentLink, EndlessNoiseOnAStreamCostsOneFrame) {
  Liar agent(Transport::Stream);
  agent.get_ready();
  const std::string half =
      encode(Frame<Reply>{1, 0, Output{Stream::Output, std::string(30'000, 'x')}})
          ->substr(0, 20'000);
  ASSERT_TRUE(agent.wire->send(half));
  for (int i = 0; i < 100; ++i) {
    const auto events = agent.link->on_ready();
    ASSERT_TRUE(events);
    EXPECT_TRUE(events->empty());
  }
}

}  // namespace
}  // namespace glovebox::guest
