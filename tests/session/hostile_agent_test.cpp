// A box whose PID 1 has been taken over says what no agent says. Its session ends, and
// nothing else: not the other sessions, not the service.
//
// The program is its own launcher: started with a mark in its environment, it serves as one whose
// agents misbehave when a session's environment asks for it.
#include "fixture.h"

#include "guest/agent/agent.h"
#include "guest/protocol/protocol.h"
#include "host/facts.h"
#include "launch/launcher.h"
#include "launch/launcher_server.h"

#include <csignal>
#include <cstdlib>
#include <cstring>
#include <random>

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

namespace glovebox::session {
namespace {

constexpr const char* kMark = "GLOVEBOX_TEST_AS_LAUNCHER";
constexpr std::string_view kVariable = "HOSTILE=";

// ---- inside the box

void send_bytes(int socket, std::string_view bytes) {
  (void)!::send(socket, bytes.data(), bytes.size(), MSG_NOSIGNAL);
}

std::string frame(std::uint16_t type, std::uint64_t id, std::string_view payload,
                  std::uint16_t descriptors = 0) {
  std::string bytes(guest::kHeaderSize, '\0');
  const auto length = static_cast<std::uint32_t>(payload.size());
  std::memcpy(bytes.data(), "GBA\1", 4);
  std::memcpy(bytes.data() + 4, &type, 2);
  std::memcpy(bytes.data() + 6, &descriptors, 2);
  std::memcpy(bytes.data() + 8, &length, 4);
  std::memcpy(bytes.data() + 12, &id, 8);
  return bytes.append(payload);
}

constexpr std::uint16_t kReady = 65;
constexpr std::uint16_t kRunStarted = 66;
constexpr std::uint16_t kRunEnded = 67;
constexpr std::uint16_t kJobEnded = 68;
constexpr std::uint16_t kOutput = 70;

std::string noise(std::size_t size) {
  std::mt19937 random(static_cast<unsigned>(size));
  std::string bytes(size, '\0');
  for (char& byte : bytes) byte = static_cast<char>(random());
  return bytes;
}

void send_with_many_descriptors(int socket) {
  const std::string bytes = frame(kRunStarted, 1, "", 3);
  iovec part{const_cast<char*>(bytes.data()), bytes.size()};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int) * 64)] = {};
  msghdr packet{};
  packet.msg_iov = &part;
  packet.msg_iovlen = 1;
  packet.msg_control = control;
  packet.msg_controllen = sizeof(control);
  cmsghdr* header = CMSG_FIRSTHDR(&packet);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(sizeof(int) * 64);
  int fds[64];
  for (int& fd : fds) fd = socket;
  std::memcpy(CMSG_DATA(header), fds, sizeof(fds));
  (void)!::sendmsg(socket, &packet, MSG_NOSIGNAL);
}

std::string ready() {
  const std::uint32_t version = guest::kProtocolVersion;
  std::string payload(reinterpret_cast<const char*>(&version), sizeof(version));
  return frame(kReady, 0, payload + '\1');
}

// What each kind says once the first run is asked for.
void misbehave(int socket, std::string_view kind) {
  if (kind == "noise") send_bytes(socket, noise(1000));
  if (kind == "empty") send_bytes(socket, "x");
  if (kind == "large") send_bytes(socket, frame(kOutput, 1, noise(100'000)));
  if (kind == "length") send_bytes(socket, frame(kRunEnded, 1, "") + "more");
  if (kind == "type") send_bytes(socket, frame(999, 1, ""));
  if (kind == "request") send_bytes(socket, frame(1, 0, noise(30)));
  if (kind == "twice") send_bytes(socket, ready());
  if (kind == "stranger") send_bytes(socket, frame(kRunEnded, 77, std::string(6, '\0')));
  if (kind == "job") send_bytes(socket, frame(kJobEnded, 1, std::string(40, '\0')));
  if (kind == "stream") send_bytes(socket, frame(kOutput, 1, std::string("\1\4\0\0\0haha", 9)));
  if (kind == "pipes") send_bytes(socket, frame(kRunStarted, 1, "", 2));
  if (kind == "descriptors") send_with_many_descriptors(socket);
  if (kind == "end") ::_exit(0);
}

int be_hostile(int socket, std::string_view kind) {
  std::vector<char> buffer(guest::kMaxFrame);
  (void)!::recv(socket, buffer.data(), buffer.size(), 0);  // the greeting
  send_bytes(socket, kind == "greeting" ? noise(50) : ready());
  if (kind == "brief") ::shutdown(socket, SHUT_RDWR);
  while (::recv(socket, buffer.data(), buffer.size(), 0) > 0) {
    std::uint16_t type = 0;
    std::memcpy(&type, buffer.data() + 4, sizeof(type));
    constexpr std::uint16_t kStartRun = 3;
    if (type == kStartRun) misbehave(socket, kind);
  }
  ::pause();  // an agent that is told off does not go by itself
  return 0;
}

int be_some_agent(int socket) {
  std::vector<char> buffer(guest::kMaxFrame);
  const ssize_t size = ::recv(socket, buffer.data(), buffer.size(), MSG_PEEK);
  const std::string_view hello(buffer.data(), static_cast<std::size_t>(std::max<ssize_t>(size, 0)));
  if (const std::size_t at = hello.find(kVariable); at != std::string_view::npos) {
    std::uint32_t length = 0;  // of the text that the variable is in
    std::memcpy(&length, hello.data() + at - sizeof(length), sizeof(length));
    const std::string kind(hello.substr(at + kVariable.size(), length - kVariable.size()));
    return be_hostile(socket, kind);
  }
  guest::AgentOptions options;
  options.socket = UniqueFd(socket);
  return guest::run_agent(std::move(options));
}

int be_launcher() {
  const auto facts = host::read_facts();
  if (!facts || ::fcntl(3, F_SETFD, FD_CLOEXEC) != 0) return 2;
  auto launcher = launch::Launcher::enter(*facts, launch::Launcher::Life::Serving);
  if (!launcher) return 3;
  launcher->set_agent(be_some_agent);
  if (::prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) != 0) return 4;
  launch::LauncherServer server(*std::move(launcher), UniqueFd(3));
  return server.run() ? 0 : 5;
}

// ---- outside

class HostileAgentTest : public ManagerTest {
 protected:
  ManagerSettings settings() const override {
    ManagerSettings settings = ManagerTest::settings();
    settings.launcher = "/proc/self/exe";
    settings.start_timeout = std::chrono::milliseconds(2000);
    return settings;
  }
  Result<SessionInfo> hostile(const std::string& kind) {
    BoxRequest request;
    request.workspaces.push_back({work_directory()});
    request.env.push_back({"HOSTILE", kind});
    return await(manager_->create(std::move(request)));
  }
};

TEST_F(HostileAgentTest, EndsItsOwnSessionAndNoOther) {
  const SessionInfo neighbour = make_session();
  EXPECT_EQ(run(neighbour, "n=1; echo $n").output, "1\n");
  const std::size_t descriptors = count_descriptors();
  for (const char* kind : {"noise", "empty", "large", "length", "type", "request", "twice",
                           "stranger", "job", "stream", "pipes", "descriptors"}) {
    const auto made = hostile(kind);
    ASSERT_TRUE(made) << kind << ": " << made.error().message;
    EXPECT_NE(run(*made, "echo hello").problem, "") << kind;
    const auto found = manager_->get(made->id);
    ASSERT_TRUE(found->end) << kind;
    EXPECT_EQ(found->end->cause, EndCause::AgentBroke) << kind << ": " << found->end->sentence;
    EXPECT_EQ(run(neighbour, "echo $((n+=1))").problem, "") << kind;
    EXPECT_TRUE(await(manager_->diff(made->id, {}, DiffForm::Json))) << "its layer is kept";
    EXPECT_TRUE(await(manager_->remove(made->id, LayerFate::Remove))) << kind;
  }
  EXPECT_EQ(run(neighbour, "echo $n").output, "13\n");
  // What it sent along was closed. Layers are removed beside this, with descriptors of their own.
  run_until([&] { return count_descriptors() <= descriptors + 1; });
}

TEST_F(HostileAgentTest, OneThatEndsOrIsSilentOrNeverGreetsCostsItsSession) {
  const auto ended = hostile("end");
  ASSERT_TRUE(ended);
  EXPECT_NE(run(*ended, "echo hello").problem, "");
  EXPECT_EQ(manager_->get(ended->id)->end->cause, EndCause::AgentGone);

  const auto silent = hostile("silent");
  ASSERT_TRUE(silent);
  RunRequest request;
  request.code = "echo hello";
  request.timeout = std::chrono::milliseconds(100);
  const Told told = run(*silent, std::move(request));
  EXPECT_NE(told.problem, "");
  EXPECT_EQ(manager_->get(silent->id)->end->cause, EndCause::AgentBroke);

  const auto never = hostile("greeting");
  EXPECT_FALSE(never);
  EXPECT_EQ(run(make_session(), "echo fine").output, "fine\n");
}

// Its end is there before its caller has seen that it was ready.
TEST_F(HostileAgentTest, OneThatIsReadyAndOverInTheSameMomentKeepsNobodyWaiting) {
  for (int i = 0; i < 20; ++i) {
    const auto brief = hostile("brief");
    if (!brief) continue;
    run_until([&] { return manager_->get(brief->id)->end.has_value(); });
    EXPECT_EQ(manager_->get(brief->id)->end->cause, EndCause::AgentGone);
  }
  EXPECT_EQ(run(make_session(), "echo fine").output, "fine\n");
}

}  // namespace
}  // namespace glovebox::session

int main(int argc, char** argv) {
  using namespace glovebox::session;
  if (std::getenv(kMark) != nullptr) return be_launcher();
  ::setenv(kMark, "1", 1);
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
