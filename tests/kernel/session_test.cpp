// Sessions in real boxes: the agent as PID 1, behind all walls.
#include "base/file.h"
#include "host/facts.h"
#include "plan/make_plan.h"
#include "session/box/blocking_session.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <optional>
#include <string>
#include <vector>

namespace glovebox::session {
namespace {

using std::chrono::milliseconds;

std::string launcher_program() {
  const char* path = std::getenv("GLOVEBOX_LAUNCHER");
  return path == nullptr ? "glovebox-launcher" : path;
}

class SessionTest : public testing::Test {
 protected:
  void SetUp() override {
    auto client = launch::LauncherClient::start(launcher_program());
    ASSERT_TRUE(client) << client.error().message;
    launcher_.emplace(*std::move(client));
    plan::SandboxSpec spec;
    spec.resident = plan::Resident::Agent;
    const auto plan = plan::make_plan(spec, *host::read_facts());
    ASSERT_TRUE(plan) << plan.error().message;
    auto session = Session::start(*launcher_, *plan, {});
    ASSERT_TRUE(session) << session.error().message;
    session_.emplace(*std::move(session));
  }

  struct Told {
    int code = -1;
    std::string out, err;
    guest::ShellState shell = guest::ShellState::None;
    bool timed_out = false;
  };
  Told tell(const RunRequest& request) {
    Told told;
    const auto result = session_->run(request, [&](guest::Stream stream, std::string_view bytes) {
      (stream == guest::Stream::Output ? told.out : told.err).append(bytes);
      return Result<void>();
    });
    EXPECT_TRUE(result) << (result ? "" : result.error().message);
    if (!result) return told;
    told.code = result->code;
    told.shell = result->shell;
    told.timed_out = result->timed_out;
    return told;
  }
  Told sh(const std::string& code) {
    RunRequest request;
    request.code = code;
    return tell(request);
  }

  std::optional<launch::LauncherClient> launcher_;
  std::optional<Session> session_;
};

TEST_F(SessionTest, TheShellKeepsDirectoryVariablesAndFunctions) {
  EXPECT_EQ(sh("cd /tmp; x=1; f() { echo called $x; }; export Y=2").code, 0);
  const Told told = sh("pwd; f; sh -c 'echo $Y'");
  EXPECT_EQ(told.out, "/tmp\ncalled 1\n2\n");
  EXPECT_EQ(told.shell, guest::ShellState::Kept);
}

TEST_F(SessionTest, EndsAreToldApartFromOutput) {
  EXPECT_EQ(sh("false").code, 1);
  EXPECT_EQ(sh("echo out; echo err >&2").out, "out\n");
  EXPECT_EQ(sh("echo out; echo err >&2").err, "err\n");
  EXPECT_EQ(sh("cat").out, "") << "the code is not the shell's input";
  const Told left = sh("exit 7");
  EXPECT_EQ(left.code, 7);
  EXPECT_EQ(left.shell, guest::ShellState::Fresh);
  EXPECT_EQ(sh("echo again").out, "again\n");
}

TEST_F(SessionTest, TheAgentIsBehindTheWalls) {
  const Told told =
      sh("grep -E '^(CapEff|CapBnd|NoNewPrivs|Seccomp):' /proc/1/status; cat /etc/shadow; "
         "touch /usr/x; echo $$ > /dev/null; ls -d /proc/[0-9]* | wc -l; cat /proc/1/cmdline");
  EXPECT_NE(told.out.find("CapEff:\t0000000000000000"), std::string::npos) << told.out;
  EXPECT_NE(told.out.find("CapBnd:\t0000000000000000"), std::string::npos);
  EXPECT_NE(told.out.find("NoNewPrivs:\t1"), std::string::npos);
  EXPECT_NE(told.out.find("Seccomp:\t2"), std::string::npos);
  EXPECT_NE(told.err.find("Permission denied"), std::string::npos) << told.err;
  EXPECT_NE(told.err.find("Read-only file system"), std::string::npos) << told.err;
}

TEST_F(SessionTest, TheBoxCannotEndItsAgent) {
  EXPECT_NE(sh("kill -9 1").code, 127);
  EXPECT_EQ(sh("echo still there").out, "still there\n");
}

TEST_F(SessionTest, ARunThatTakesTooLongIsEndedAndTheSessionStays) {
  RunRequest slow;
  slow.code = "sleep 1000";
  slow.timeout = milliseconds(200);
  const Told told = tell(slow);
  EXPECT_TRUE(told.timed_out);
  EXPECT_NE(told.code, 0);
  EXPECT_EQ(sh("echo on").out, "on\n");
}

TEST_F(SessionTest, ProgramsRunWithoutAShell) {
  RunRequest request;
  request.argv = {"/bin/echo", "a b", "c"};
  EXPECT_EQ(tell(request).out, "a b c\n");
}

TEST_F(SessionTest, LargeOutputComesWhole) { EXPECT_EQ(sh("seq 1 60000").out.size(), 348'894u); }

TEST_F(SessionTest, FilesGoInAndOutAsTheBoxSeesThem) {
  guest::StartJob write;
  write.kind = guest::JobKind::Write;
  write.path = "note.txt";
  const std::string text(200'000, 'x');
  const auto none = [](guest::Stream, std::string_view) { return Result<void>(); };
  ASSERT_TRUE(session_->job(write, text, none));
  EXPECT_EQ(sh("wc -c < note.txt").out, "200000\n");
  guest::StartJob read;
  read.kind = guest::JobKind::Read;
  read.path = "note.txt";
  std::string back;
  const auto done = session_->job(read, "", [&](guest::Stream, std::string_view bytes) {
    back.append(bytes);
    return Result<void>();
  });
  ASSERT_TRUE(done) << done.error().message;
  std::string_view content = back;
  const auto entry = guest::take_entry(content);
  ASSERT_TRUE(entry && *entry) << "what is known of the file comes first";
  EXPECT_EQ((*entry)->size, text.size());
  EXPECT_TRUE(content == text);
  read.path = "/etc/shadow";
  EXPECT_FALSE(session_->job(read, "", none));
}

TEST_F(SessionTest, StoppingLeavesNothing) {
  EXPECT_EQ(sh("sleep 1000 & echo started").out, "started\n");
  EXPECT_TRUE(session_->stop());
}

}  // namespace
}  // namespace glovebox::session
