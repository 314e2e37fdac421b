// The public interface, used as a program outside of this repository would: through its header and
// the shared library alone.
#include <glovebox/glovebox.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <thread>

#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

namespace {

namespace fs = std::filesystem;
using glovebox::Code;
using glovebox::Command;
using testing::Contains;
using testing::ElementsAre;
using testing::Field;
using testing::HasSubstr;
using testing::IsEmpty;

// Not below /tmp, which is private to every box.
class Library : public testing::Test {
 protected:
  Library() {
    std::string place = "/var/tmp/glovebox-library-test-XXXXXX";
    if (::mkdtemp(place.data()) == nullptr) std::abort();
    place_ = place;
    fs::create_directories(project());
    put(project() / "numbers", "3\n1\n2\n");
    put(place_ / "secret", "top secret\n");
  }
  ~Library() override { fs::remove_all(place_); }

  fs::path project() const { return place_ / "project"; }
  fs::path secret() const { return place_ / "secret"; }

  static void put(const fs::path& path, std::string_view text) { std::ofstream(path) << text; }
  static std::string text_of(const fs::path& path) {
    std::ifstream file(path);
    std::ostringstream text;
    text << file.rdbuf();
    return text.str();
  }

  glovebox::Request request() const { return {.workspaces = {{project()}}}; }
  static glovebox::Supervisor open() {
    auto supervisor = glovebox::Supervisor::open();
    if (!supervisor) throw std::runtime_error(supervisor.error().message);
    return *std::move(supervisor);
  }
  static glovebox::Session start(glovebox::Supervisor& supervisor, const glovebox::Request& what) {
    auto session = supervisor.start(what);
    if (!session) throw std::runtime_error(session.error().message);
    return *std::move(session);
  }
  static glovebox::Ran run(glovebox::Session& session, const std::string& code) {
    auto ran = session.run(Command::shell(code));
    if (!ran) throw std::runtime_error(ran.error().message);
    return *std::move(ran);
  }

 private:
  fs::path place_;
};

TEST_F(Library, RunsACommandWithItsOutputAndItsCode) {
  auto supervisor = open();
  const auto ran = supervisor.run({}, Command::shell("echo out; echo err >&2; exit 7"));
  ASSERT_TRUE(ran.has_value()) << ran.error().message;
  EXPECT_EQ(ran->code, 7);
  EXPECT_EQ(ran->output, "out\n");
  EXPECT_EQ(ran->error, "err\n");
}

TEST_F(Library, ASessionRemembersItsShell) {
  auto supervisor = open();
  auto session = start(supervisor, request());
  run(session, "cd /tmp; export GREETING=hello");
  EXPECT_EQ(run(session, "echo $GREETING from $(pwd)").output, "hello from /tmp\n");
  const auto program = session.run(Command::program({"/usr/bin/printenv", "WORD"}));
  ASSERT_TRUE(program.has_value());
  EXPECT_EQ(program->code, 1);
  Command with_word = Command::program({"/usr/bin/printenv", "WORD"});
  with_word.env = {{"WORD", "given"}};
  EXPECT_EQ(session.run(with_word)->output, "given\n");
}

TEST_F(Library, WhatIsNotHandedInIsNotThere) {
  auto supervisor = open();
  auto without = start(supervisor, request());
  EXPECT_NE(run(without, "cat " + secret().string()).code, 0);
  auto handed = request();
  handed.allow = {"read=" + secret().string()};
  auto with = start(supervisor, handed);
  EXPECT_EQ(run(with, "cat " + secret().string()).output, "top secret\n");
  EXPECT_NE(run(with, "echo x > " + secret().string()).code, 0);
  EXPECT_EQ(text_of(secret()), "top secret\n");
}

TEST_F(Library, ADenialWinsOverWhatIsAllowed) {
  auto supervisor = open();
  auto handed = request();
  handed.allow = {"read=" + project().parent_path().string()};
  handed.deny = {"read=" + secret().string()};
  auto session = start(supervisor, handed);
  EXPECT_EQ(run(session, "cat " + (project() / "numbers").string()).output, "3\n1\n2\n");
  EXPECT_EQ(run(session, "cat " + secret().string()).output, "");
}

TEST_F(Library, ChangesWaitForACommitWhichCanBeTakenBack) {
  auto supervisor = open();
  auto session = start(supervisor, request());
  run(session, "sort numbers > sorted");
  EXPECT_FALSE(fs::exists(project() / "sorted"));
  const auto changes = session.changes();
  ASSERT_TRUE(changes.has_value()) << changes.error().message;
  EXPECT_THAT(*changes, ElementsAre(Field(&glovebox::Change::path, "sorted")));
  EXPECT_EQ(changes->front().kind, "added");
  EXPECT_THAT(session.diff().value_or(""), HasSubstr("+++ b/sorted"));
  EXPECT_EQ(session.diff(3).error().code, Code::Exhausted);

  const auto committed = session.commit();
  ASSERT_TRUE(committed.has_value()) << committed.error().message;
  EXPECT_FALSE(committed->is_refused());
  EXPECT_EQ(text_of(project() / "sorted"), "1\n2\n3\n");
  ASSERT_TRUE(session.undo().has_value());
  EXPECT_FALSE(fs::exists(project() / "sorted"));
}

TEST_F(Library, ACommitHoldsBackWhatWouldRunOnTheHost) {
  auto supervisor = open();
  auto session = start(supervisor, request());
  run(session, "echo 'rm -rf ~' > .envrc; echo fine > note");
  const auto held = session.commit();
  ASSERT_TRUE(held.has_value());
  EXPECT_TRUE(held->is_refused());
  EXPECT_THAT(held->held, Contains(HasSubstr(".envrc")));
  EXPECT_THAT(held->applied, IsEmpty());
  EXPECT_FALSE(fs::exists(project() / "note"));

  EXPECT_FALSE(session.commit({.reject = {".envrc"}})->is_refused());
  EXPECT_TRUE(fs::exists(project() / "note"));
  EXPECT_FALSE(fs::exists(project() / ".envrc"));
  EXPECT_FALSE(session.commit({.accept = {".envrc"}})->is_refused());
  EXPECT_TRUE(fs::exists(project() / ".envrc"));
}

TEST_F(Library, FilesGoInAndOut) {
  auto supervisor = open();
  auto session = start(supervisor, request());
  const std::string bytes(300'000, '\0');
  ASSERT_TRUE(session.write_file("deep/er/file", bytes).has_value());
  EXPECT_EQ(run(session, "stat -c %s deep/er/file").output, "300000\n");
  EXPECT_EQ(session.read_file("deep/er/file").value_or(""), bytes);
  EXPECT_EQ(session.read_file("deep/er/file", bytes.size() - 1).error().code, Code::Exhausted);
  EXPECT_EQ(session.read_file("missing").error().code, Code::NotFound);
  EXPECT_FALSE(session.write_file("/usr/bin/new", "x").has_value());
}

// A link of the box's leads nowhere outside of it.
TEST_F(Library, ALinkInABoxIsFollowedInTheBox) {
  auto supervisor = open();
  auto session = start(supervisor, request());
  run(session, "ln -s " + secret().string() + " link");
  EXPECT_FALSE(session.read_file("link").has_value());
}

TEST_F(Library, ForksBeginWhereTheirParentIs) {
  auto supervisor = open();
  auto session = start(supervisor, request());
  run(session, "export N=5; echo parent > file");
  auto children = session.fork(2);
  ASSERT_TRUE(children.has_value()) << children.error().message;
  ASSERT_EQ(children->size(), 2U);
  EXPECT_EQ(run(children->front(), "echo $N; cat file; echo child > file").output, "5\nparent\n");
  EXPECT_EQ(run(children->back(), "cat file").output, "parent\n");
  EXPECT_EQ(run(session, "cat file").output, "parent\n");
}

TEST_F(Library, ARecycledSessionBeginsAgain) {
  auto supervisor = open();
  auto session = start(supervisor, request());
  run(session, "X=1; echo x > new");
  ASSERT_TRUE(session.recycle().has_value());
  EXPECT_EQ(run(session, "echo \"[$X]\"; ls").output, "[]\nnumbers\n");
}

TEST_F(Library, ATimeoutEndsACommandAndNotItsSession) {
  auto supervisor = open();
  auto session = start(supervisor, request());
  Command slow = Command::shell("sleep 600");
  slow.timeout = std::chrono::milliseconds(50);
  const auto ended = session.run(slow);
  ASSERT_TRUE(ended.has_value()) << ended.error().message;
  EXPECT_TRUE(ended->timed_out);
  EXPECT_EQ(run(session, "echo still here").output, "still here\n");
}

TEST_F(Library, OutputHasABoundUnlessASinkTakesIt) {
  auto supervisor = open();
  auto session = start(supervisor, request());
  const std::string code = "head -c 20000000 /dev/zero";
  EXPECT_EQ(session.run(Command::shell(code)).error().code, Code::Exhausted);
  std::size_t seen = 0;
  const auto ended =
      session.run(Command::shell(code), [&](glovebox::Stream stream, std::string_view bytes) {
        if (stream == glovebox::Stream::Output) seen += bytes.size();
      });
  ASSERT_TRUE(ended.has_value()) << ended.error().message;
  EXPECT_EQ(seen, 20'000'000U);
}

TEST_F(Library, ASinkThatThrowsOrCallsTheLibraryIsAnError) {
  auto supervisor = open();
  auto session = start(supervisor, request());
  const auto thrown = session.run(Command::shell("echo x"), [](glovebox::Stream, std::string_view) {
    throw std::runtime_error("no more");
  });
  ASSERT_FALSE(thrown.has_value());
  EXPECT_THAT(thrown.error().message, HasSubstr("no more"));
  std::optional<Code> inner;
  (void)session.run(Command::shell("echo x"), [&](glovebox::Stream, std::string_view) {
    inner = session.read_file("numbers").error().code;
  });
  EXPECT_EQ(inner, Code::Invalid);
}

TEST_F(Library, ThreadsUseOneSupervisorAtTheSameTime) {
  auto supervisor = open();
  std::atomic<int> right = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&, i] {
      auto session = supervisor.start(request());
      if (!session) return;
      for (int round = 0; round < 5; ++round) {
        const std::string number = std::to_string(i * 10 + round);
        const auto ran = session->run(Command::shell("echo " + number));
        if (ran && ran->output == number + "\n") ++right;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(right, 20);
}

TEST_F(Library, RefusesWhatItDoesNotUnderstandBeforeAnythingRuns) {
  auto supervisor = open();
  auto wrong = request();
  wrong.allow = {"raed=/srv"};
  EXPECT_EQ(supervisor.start(wrong).error().code, Code::Invalid);
  EXPECT_THAT(supervisor.check(wrong).error().message, HasSubstr("raed"));
  EXPECT_TRUE(supervisor.check(request()).has_value());
  auto both = request();
  both.policy = "readonly";
  both.policy_document = "version: 1\n";
  EXPECT_EQ(supervisor.start(both).error().code, Code::Invalid);
  auto missing = request();
  missing.allow = {"read=/nonexistent/place"};
  EXPECT_FALSE(supervisor.start(missing).has_value());
  EXPECT_FALSE(glovebox::Supervisor::open({.launcher = "/nonexistent"}).has_value());
}

TEST_F(Library, PoliciesAndModesHold) {
  auto supervisor = open();
  auto read_only = request();
  read_only.workspaces.front().mode = glovebox::Mode::ReadOnly;
  auto session = start(supervisor, read_only);
  EXPECT_NE(run(session, "touch x").code, 0);
  auto direct = request();
  direct.workspaces.front().mode = glovebox::Mode::ReadWrite;
  auto writing = start(supervisor, direct);
  run(writing, "echo now > direct");
  EXPECT_EQ(text_of(project() / "direct"), "now\n");
  auto policy = request();
  policy.workspaces.clear();
  policy.policy_document = "version: 1\nfs:\n  read:\n    - " + secret().string() + "\n";
  auto by_policy = start(supervisor, policy);
  EXPECT_EQ(run(by_policy, "cat " + secret().string()).output, "top secret\n");
}

TEST_F(Library, ASessionSaysAndShowsWhatHoldsIt) {
  auto supervisor = open();
  auto proved = request();
  proved.prove = true;
  auto session = start(supervisor, proved);
  const auto enforced = session.enforced();
  ASSERT_TRUE(enforced.has_value());
  EXPECT_THAT(*enforced, Contains(Field(&glovebox::Guarantee::name, "network")));
  EXPECT_THAT(*enforced, Contains(Field(&glovebox::Guarantee::name, "syscalls")));
}

// The box's init has the box's host name in no place that is seen from here, so a process of the
// box is found by a file that it holds open.
TEST_F(Library, ABoxEndsWithItsHandle) {
  auto supervisor = open();
  auto direct = request();
  direct.workspaces.front().mode = glovebox::Mode::ReadWrite;
  std::string pipe = project() / "alive";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0666), 0);
  ASSERT_EQ(::chmod(pipe.c_str(), 0666), 0);
  std::optional<glovebox::Session> session(start(supervisor, direct));
  std::thread reader([&] {
    std::ifstream end(pipe);  // opens when the box does, and ends when no process holds it any more
    std::string line;
    while (std::getline(end, line)) {
    }
  });
  // Opened in the foreground, so that both ends are open when this is done.
  run(*session, "exec 9> alive; sleep 600 >&9 &");
  session.reset();
  reader.join();
  SUCCEED() << "the last writer is gone";
}

TEST_F(Library, AHandleThatWasMovedSaysSo) {
  auto first = open();
  auto second = std::move(first);
  EXPECT_EQ(first.start(request()).error().code, Code::NotFound);  // NOLINT: that is what is tried
  EXPECT_EQ(first.check(request()).error().code, Code::NotFound);  // NOLINT
  EXPECT_TRUE(second.check(request()).has_value());
}

TEST_F(Library, HandlesOfAClosedSupervisorSaySo) {
  std::optional<glovebox::Supervisor> supervisor(open());
  auto session = start(*supervisor, request());
  supervisor.reset();
  EXPECT_EQ(session.run(Command::shell("true")).error().code, Code::NotFound);
  EXPECT_EQ(session.end().error().code, Code::NotFound);
  EXPECT_EQ(session.run(Command::shell("true")).error().code, Code::NotFound);
}

// Closing while another thread waits for a command gives that thread an error, and nothing hangs.
TEST_F(Library, ClosingEndsWhatIsUnderWay) {
  std::optional<glovebox::Supervisor> supervisor(open());
  auto session = start(*supervisor, request());
  std::atomic<bool> began = false;
  std::thread waiter([&] {
    const auto ended = session.run(Command::shell("echo go; sleep 600"),
                                   [&](glovebox::Stream, std::string_view) { began = true; });
    EXPECT_FALSE(ended.has_value());
  });
  while (!began) std::this_thread::yield();
  supervisor.reset();
  waiter.join();
}

TEST_F(Library, AForkedChildHasNoPartInIt) {
  std::optional<glovebox::Supervisor> supervisor(open());
  std::optional<glovebox::Session> session(start(*supervisor, request()));
  const pid_t child = ::fork();
  if (child == 0) {
    const bool refused = session->run(Command::shell("true")).error().code == Code::Invalid;
    session.reset();
    supervisor.reset();
    ::_exit(refused ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(run(*session, "echo still here").output, "still here\n");
}

TEST_F(Library, AStateDirectoryOfItsOwnGoesWithTheSupervisor) {
  const auto ours = [] {
    std::set<std::string> found;
    for (const auto& entry : fs::directory_iterator("/var/tmp")) {
      struct stat known{};
      if (::stat(entry.path().c_str(), &known) == 0 && known.st_uid == ::getuid() &&
          entry.path().filename().string().starts_with("glovebox-library-") &&
          !entry.path().filename().string().starts_with("glovebox-library-test-")) {
        found.insert(entry.path());
      }
    }
    return found;
  };
  const auto before = ours();  // a program that was killed leaves its own
  {
    auto supervisor = open();
    auto session = start(supervisor, request());
    run(session, "echo x > y");
    EXPECT_EQ(ours().size(), before.size() + 1);
  }
  EXPECT_EQ(ours(), before);
}

TEST_F(Library, AStateDirectoryIsUsedByOneAtATime) {
  const std::string state = project().parent_path() / "state";
  auto first = glovebox::Supervisor::open({.state_directory = state});
  ASSERT_TRUE(first.has_value()) << first.error().message;
  // It waits a while for one that is about to end, and then says who has it.
  EXPECT_FALSE(glovebox::Supervisor::open({.state_directory = state}).has_value());
}

}  // namespace
