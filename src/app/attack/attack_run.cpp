#include "app/attack/attack_run.h"

#include "base/file.h"

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <optional>

#include <fcntl.h>
#include <grp.h>
#include <poll.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

namespace glovebox::app {
namespace {

namespace fs = std::filesystem;
using Words = std::vector<std::string>;

constexpr std::chrono::seconds kPatience{60};
constexpr std::size_t kMostOutput = std::size_t{1} << 20;
// What the probe and the shell's conventions keep apart from errnos.
constexpr int kUsage = 119, kLimit = 124, kRefused = 125, kNotFound = 127, kSignal = 128;

struct Ended {
  int code = -1;
  bool timed_out = false;
  std::string output;
};

Words split(std::string_view text) {
  Words words;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(' '), text.size());
    if (end > 0) words.emplace_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return words;
}

// What a box is started with. A descriptor that its caller forgot to close is left open on purpose.
struct Streams {
  int input;
  int output;
  int forgotten;
};

// Between fork and exec.
[[noreturn]] void become(const Setting& setting, Streams given, char* const argv[],
                         char* const envp[]) {
  constexpr int kForgotten = 3;
  const auto [input, output, forgotten] = given;
  ::syscall(SYS_close_range, 3U, ~0U, 4U);  // CLOSE_RANGE_CLOEXEC
  if (forgotten >= 0 && ::dup2(forgotten, kForgotten) != kForgotten) ::_exit(kRefused);
  if (forgotten == kForgotten) ::fcntl(kForgotten, F_SETFD, 0);
  const bool streams = ::dup2(input, 0) == 0 && ::dup2(output, 1) == 1 && ::dup2(output, 2) == 2;
  const bool lowered = ::geteuid() != 0 || setting.ids.uid == 0 ||
                       (::setgroups(0, nullptr) == 0 &&
                        ::setresgid(setting.ids.gid, setting.ids.gid, setting.ids.gid) == 0 &&
                        ::setresuid(setting.ids.uid, setting.ids.uid, setting.ids.uid) == 0);
  if (streams && lowered && ::chdir("/") == 0) ::execve(argv[0], argv, envp);
  ::_exit(kRefused);
}

std::string read_until_end(BorrowedFd pipe, BorrowedFd process, bool& timed_out) {
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  std::string output;
  char piece[4096];
  while (true) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
        deadline - std::chrono::steady_clock::now());
    timed_out = left.count() <= 0;
    if (timed_out) return output;
    pollfd waits[2] = {{pipe.get(), POLLIN, 0}, {process.get(), POLLIN, 0}};
    if (::poll(waits, 2, static_cast<int>(left.count())) < 0 && errno != EINTR) return output;
    const ssize_t count = ::read(pipe.get(), piece, sizeof(piece));
    if (count > 0 && output.size() < kMostOutput) {
      output.append(piece, static_cast<std::size_t>(count));
    } else if (count == 0 || (waits[1].revents != 0 && count < 0)) {
      return output;
    }
  }
}

Result<Ended> run_words(const Setting& setting, const Words& words, const Words& variables,
                        BorrowedFd input, BorrowedFd forgotten = BorrowedFd(-1)) {
  int pipe[2];
  if (::pipe2(pipe, O_CLOEXEC | O_NONBLOCK) != 0) return fail_os(errno, "make a pipe");
  const UniqueFd reader(pipe[0]);
  UniqueFd writer(pipe[1]);
  std::vector<char*> argv, envp;
  for (const std::string& word : words) argv.push_back(const_cast<char*>(word.c_str()));
  for (const std::string& each : variables) envp.push_back(const_cast<char*>(each.c_str()));
  argv.push_back(nullptr);
  envp.push_back(nullptr);
  ::fcntl(writer.get(), F_SETFL, 0);
  const pid_t pid = ::fork();
  if (pid < 0) return fail_os(errno, "start a box");
  if (pid == 0) {
    become(setting, {input.get(), writer.get(), forgotten.get()}, argv.data(), envp.data());
  }
  writer.reset();
  const UniqueFd process(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0U)));
  Ended ended;
  ended.output = read_until_end(reader, process, ended.timed_out);
  if (ended.timed_out) ::kill(pid, SIGKILL);
  int status = 0;
  while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  ended.code = WIFEXITED(status) ? WEXITSTATUS(status) : kSignal + WTERMSIG(status);
  return ended;
}

// What a caller would grant, in the words of each sandbox.
Words glovebox_words(const Attack& attack, const Setting& setting, const Canaries& canaries) {
  Words words{setting.tool, "run", "-q", "--read", setting.probe};
  for (std::string& option : split(attack.options)) words.push_back(std::move(option));
  if (attack.judge == Judge::HeldBack) {
    words.insert(words.end(), {"-w", canaries.work()});
  } else if (setting.grants == Grants::Much) {
    words.insert(words.end(), {"-w", canaries.work() + ":rw", "--read", canaries.book()});
    for (const char* tree : {"/var/lib", "/opt", "/srv"}) {
      if (fs::is_directory(tree)) words.insert(words.end(), {"--read", tree});
    }
  }
  words.emplace_back("--");
  return words;
}

Words bubblewrap_words(const Setting& setting, const Canaries& canaries) {
  Words words{setting.tool,    "--unshare-all", "--die-with-parent",
              "--new-session", "--clearenv",    "--cap-drop",
              "ALL",           "--ro-bind",     "/usr",
              "/usr",          "--ro-bind",     "/etc",
              "/etc",          "--symlink",     "usr/bin",
              "/bin",          "--symlink",     "usr/lib",
              "/lib",          "--symlink",     "usr/lib64",
              "/lib64",        "--proc",        "/proc",
              "--dev",         "/dev",          "--tmpfs",
              "/tmp",          "--ro-bind",     setting.probe,
              setting.probe,   "--setenv",      "PATH",
              "/usr/bin"};
  if (setting.grants == Grants::Much) {
    words.insert(words.end(), {"--bind", canaries.work(), canaries.work(), "--ro-bind",
                               canaries.book(), canaries.book()});
    for (const char* tree : {"/var/lib", "/opt", "/srv"}) {
      if (fs::is_directory(tree)) words.insert(words.end(), {"--ro-bind", tree, tree});
    }
  }
  words.emplace_back("--");
  return words;
}

Words attack_words(const Attack& attack, const Setting& setting, const Canaries& canaries) {
  Words words;
  if (setting.sandbox == Sandbox::Glovebox) words = glovebox_words(attack, setting, canaries);
  if (setting.sandbox == Sandbox::Bubblewrap) words = bubblewrap_words(setting, canaries);
  if (attack.judge != Judge::NotStarted) words.push_back(setting.probe);
  for (const std::string& word : split(attack.words)) words.push_back(canaries.word(word));
  return words;
}

std::string met(int code) {
  if (code == 0) return "it succeeded";
  if (code > kSignal) return fmt::format("ended by signal {}", code - kSignal);
  if (code == kLimit) return "ended by a limit";
  const char* name = ::strerrorname_np(code);
  return name == nullptr ? fmt::format("exit code {}", code) : std::string(name);
}

Outcome judge(const Attack& attack, const Ended& ended) {
  const int code = ended.code;
  const auto verdict = [&](bool held) {
    return Outcome{held ? Verdict::Held : Verdict::Open, met(code)};
  };
  if (ended.timed_out) return {Verdict::NotProven, "it did not end"};
  if (attack.judge == Judge::NotStarted) return verdict(code == kNotFound);
  const bool ran = code != kUsage && (code < kRefused || code > kSignal);
  if (!ran) return {Verdict::NotProven, fmt::format("the probe did not run (exit code {})", code)};
  switch (attack.judge) {
    case Judge::Refused: return verdict(code != 0 && code != kLimit);
    case Judge::Checks:
      return {code == 0 ? Verdict::Held : Verdict::Open, code == 0 ? "nothing found" : met(code)};
    case Judge::Untouched:
    case Judge::HeldBack: return {Verdict::Held, met(code)};
    case Judge::Bounded: return verdict(code != 0);
    case Judge::NotStarted: break;
  }
  return {};
}

// A commit must leave out what the box made, and say so by its exit code.
Result<Outcome> judge_commit(const Attack& attack, const Setting& setting, const Words& variables,
                             const Canaries& canaries, BorrowedFd nothing) {
  TRY(const Ended ended, run_words(setting, {setting.tool, "commit", "last"}, variables, nothing));
  std::error_code problem;
  const bool there =
      fs::symlink_status(canaries.work() + "/" + std::string(attack.held), problem).type() !=
      fs::file_type::not_found;
  if (there) return Outcome{Verdict::Escaped, "it was taken over"};
  if (ended.code != 1) {
    return Outcome{Verdict::NotProven, fmt::format("commit ended with {}", ended.code)};
  }
  return Outcome{Verdict::Held, "held back by the commit gate"};
}

bool names(const Attack& attack, std::string_view place) {
  return attack.words.find(place) != std::string_view::npos;
}

}  // namespace

std::string_view to_text(Verdict verdict) {
  switch (verdict) {
    case Verdict::Held: return "held";
    case Verdict::Open: return "OPEN";
    case Verdict::Escaped: return "ESCAPED";
    case Verdict::NotProven: return "not proven";
  }
  return "";
}

std::string_view to_text(Grants grants) {
  return grants == Grants::Little ? "little granted" : "much granted";
}

bool applies(const Attack& attack, const Setting& setting) {
  if (attack.judge == Judge::HeldBack) {
    return setting.sandbox == Sandbox::Glovebox && setting.grants == Grants::Much;
  }
  if (setting.sandbox != Sandbox::Glovebox && attack.judge == Judge::NotStarted) return false;
  // Without a box this would be traffic to a machine that nobody has asked.
  if (setting.sandbox == Sandbox::None && attack.number == 42) return false;
  // Without limits of its own a peer would hand the bomb to the host.
  const bool bomb = attack.judge == Judge::Bounded || !attack.options.empty();
  if (setting.sandbox != Sandbox::Glovebox && bomb) return false;
  const bool needs_grant = names(attack, "@work") || names(attack, "@book");
  return !needs_grant || setting.grants == Grants::Much;
}

Result<Outcome> try_attack(const Attack& attack, const Setting& setting, Canaries& canaries) {
  const Words variables{"PATH=/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin",
                        "HOME=" + canaries.directory(), "GLOVEBOX_STATE=" + canaries.state(),
                        "CANARY_API_TOKEN=" + canaries.token()};
  TRY(const UniqueFd nothing, open_file("/dev/null", O_RDONLY | O_CLOEXEC));
  const bool on_terminal = attack.number == 10;
  const BorrowedFd input = on_terminal ? canaries.terminal() : BorrowedFd(nothing);
  TRY(const UniqueFd directory, open_file(canaries.directory(), O_RDONLY | O_DIRECTORY));
  const BorrowedFd forgotten = attack.number == 2 ? BorrowedFd(directory) : BorrowedFd(-1);
  TRY(const Ended ended,
      run_words(setting, attack_words(attack, setting, canaries), variables, input, forgotten));
  Outcome outcome = judge(attack, ended);
  if (attack.judge == Judge::HeldBack && outcome.verdict == Verdict::Held) {
    TRY(outcome, judge_commit(attack, setting, variables, canaries, nothing));
  }
  if (ended.output.find(canaries.token()) != std::string::npos &&
      attack.words.find("@abstract") == std::string_view::npos &&
      attack.words.find("@shm") == std::string_view::npos &&
      attack.words.find("@queue") == std::string_view::npos) {
    outcome = {Verdict::Escaped, "a secret of the host came out"};
  }
  if (const std::string touched = canaries.touched(); !touched.empty()) {
    outcome = {Verdict::Escaped, touched};
  }
  return outcome;
}

}  // namespace glovebox::app
