// A real agent in a box of the tests' own, and the supervisor's side of its line.
//
// The box has a pid namespace with its own /proc, an identity without power, no_new_privs and the
// product's system call filter, so that what passes here is not refused later. As root the identity
// is an unprivileged uid; as a user it is the user itself in a user namespace.
#pragma once

#include "base/unique_fd.h"
#include "guest/agent/agent_link.h"

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <sys/types.h>

namespace glovebox::guest {

// A sanitizer keeps what was freed and shadows the rest, so bounds on memory are wider under one.
#if defined(__SANITIZE_ADDRESS__)
inline constexpr std::size_t kSanitizerKib = std::size_t{1} << 20;
#else
inline constexpr std::size_t kSanitizerKib = 0;
#endif

struct RunResult {
  std::string output;
  std::string error;
  RunEnded end;
  std::optional<Error> refused;
};

// What a run did, in one line: "0 kept out=[hi\n] err=[]".
std::string to_text(const RunResult& result);

class TestAgent {
 public:
  struct Options {
    std::vector<std::string> shells = {"/bin/bash"};
    Transport transport = Transport::Packets;
    std::vector<std::string> env = {"PATH=/usr/bin:/bin", "HOME=/tmp", "BASE=base"};
  };

  explicit TestAgent(const Options& options);
  TestAgent() : TestAgent(Options()) {}
  ~TestAgent();
  TestAgent(const TestAgent&) = delete;
  TestAgent& operator=(const TestAgent&) = delete;

  AgentLink& link() { return *link_; }
  pid_t pid() const { return pid_; }
  ShellKind shell() const { return shell_; }
  // Inside and outside are the same path.
  std::string workspace() const { return root_ + "/work"; }
  std::string scratch() const { return root_ + "/scratch"; }
  std::string path_of(std::string_view name) const { return workspace() + "/" + std::string(name); }

  // Runs to the end and collects the output. Fails the test when it takes longer than `patience`.
  RunResult run(const StartRun& run, std::string_view input = {});
  RunResult run(std::string_view code);
  RunResult exec(std::vector<std::string> argv);

  // One at a time: starts, and goes on until something is true.
  Id start(StartRun run);
  RunResult finish(Id id);
  bool serve_until(const std::function<bool()>& done);
  // The state of a run under way.
  struct Watched {
    RunResult result;
    UniqueFd output;
    UniqueFd error;
    UniqueFd input;
    bool begun = false;
    bool over = false;
    bool came_whole = false;
    bool output_ended = false;
    bool error_ended = false;
  };
  Watched& watched(Id id) { return runs_[id]; }

  // A file job to its end. `data` goes in; what comes out is in `output`.
  struct JobResult {
    JobOver over;
    std::string output;
    std::vector<Entry> entries;
  };
  JobResult job(const StartJob& request, std::string_view data = {});

  // How many descriptors the agent has open, and its memory in KiB.
  std::size_t open_descriptors() const;
  std::size_t memory_kib(std::string_view field) const;
  // The first direct child of the agent: its shell.
  std::vector<pid_t> children_of(pid_t parent) const;

  std::chrono::seconds patience{20};

 private:
  void serve_once(int timeout_ms);
  void take(AgentEvent event);
  void drain(UniqueFd& fd, std::string& text, bool& ended);

  std::string root_;
  pid_t pid_ = -1;
  ShellKind shell_ = ShellKind::None;
  bool gone_ = false;
  std::unique_ptr<AgentLink> link_;
  std::map<Id, Watched> runs_;
  std::map<Id, JobResult> jobs_;
  std::map<Id, std::string> pending_input_;  // byte streams
};

}  // namespace glovebox::guest
