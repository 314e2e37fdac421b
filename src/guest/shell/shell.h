// The session's persistent shell: one process whose directory, variables and functions outlive the
// runs that change them.
//
// How it is driven is told in shell_text.h. The shell is a child of the agent, leads its own
// session and adopts the orphans of its tree, so that everything a run starts stays below it. It
// may end at any time, because code says `exit` or `exec`, or kills it: the owner of this object
// reaps it and starts another.
#pragma once

#include "base/result.h"
#include "base/unique_fd.h"
#include "guest/protocol/protocol.h"
#include "guest/shell/private_dir.h"
#include "guest/shell/process_tree.h"

#include <array>
#include <chrono>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include <sys/types.h>

namespace glovebox::guest {

// The pipes of one run, as far as the shell opens them by path.
struct ShellPipes {
  NamedPipe output;
  std::optional<NamedPipe> error;  // nothing: the output
  std::optional<NamedPipe> input;  // nothing: /dev/null

  const NamedPipe& of_errors() const { return error ? *error : output; }
};

class PersistentShell {
 public:
  // `dir` must outlive the shell.
  PersistentShell(PrivateDir& dir, std::vector<std::string> candidates,
                  std::vector<std::string> env, std::string cwd);

  // Starts the process. Code::NotFound when no candidate is there. Used again after ended().
  Result<void> start();
  ShellKind kind() const { return kind_; }
  const std::string& file() const { return file_; }
  bool is_running() const { return pid_ > 0; }
  pid_t pid() const { return pid_; }
  // Readable when a run may have ended.
  BorrowedFd marks() const { return marks_; }

  // Pipes for the next run that no other process has open. The shell lets go of a run's pipes when
  // it begins the next one, so two sets take turns: each is free again when it is needed. What is
  // not given back with keep_pipes() is made anew, by prepare() ahead of time.
  Result<ShellPipes> take_pipes(RunIo io, RunInput input);
  void keep_pipes(ShellPipes pipes);
  void prepare();

  // Has the shell execute one run. One at a time: until take_end() has told its end, or the process
  // has ended.
  Result<void> begin(const StartRun& run, std::string_view code, const std::string& cwd,
                     const ShellPipes& pipes);
  bool is_busy() const { return !nonce_.empty(); }
  // The exit status, once the run's own part is over.
  std::optional<std::uint32_t> take_end();
  // The same, after waiting for it, less than a second.
  std::optional<std::uint32_t> await_end(std::chrono::microseconds most);
  // The run's pipes are in the hands of others. Its end is to be followed by hush(): the shell lets
  // go of them, and until it has, what it prints is read.
  void let_go_of(const ShellPipes& pipes);
  void hush();
  // Whether the run's input was opened; as of the last take_end().
  bool input_opened() const { return input_opened_; }

  // As the key in a terminal: throws the shell back to its loop, at once or as soon as it has one.
  // What the run has started gets the signal by other hands.
  void interrupt();
  // While is_interrupted(), to be called now and then: see there.
  bool is_interrupted() const { return interrupted_ && is_busy(); }
  bool was_interrupted() const { return interrupted_; }  // in the last run
  void remind();
  void kill();
  // The process was reaped. The next start() makes another.
  void ended();

  // Takes note of what is still running below the shell between two runs, so that it is not taken
  // for a part of the next. Whether it is sure that there is nothing.
  bool note_older();
  // What the current run has started and has not ended, among all processes there are. Also after
  // the shell has died: what it was just starting then is found by its session.
  std::vector<ProcessInfo> run_processes(const std::vector<ProcessInfo>& all) const;

  // The path of a file that exports what the shell exports, as of now when the shell is free, else
  // as of the last time it was asked. Empty when it never was.
  std::string snapshot();
  // Where it is. Empty when that cannot be told.
  std::string directory() const;

 private:
  Result<void> start_file(const std::string& file);
  Result<void> tell(std::string_view lines);
  Result<NamedPipe> take_pipe(std::optional<NamedPipe>& kept, std::string_view name);
  static std::string name_of(char kind, std::size_t set);
  Result<void> make_nonce();
  void read_marks();
  void become_ready();
  void become_quiet();
  std::optional<std::uint32_t> wait_for_end();

  PrivateDir* dir_;
  std::vector<std::string> candidates_;
  std::vector<std::string> env_;
  std::string cwd_;

  ShellKind kind_ = ShellKind::None;
  std::string file_;
  pid_t pid_ = -1;
  pid_t session_ = -1;      // of the shell and what it starts, also when the shell has died
  UniqueFd control_;        // lines for the shell
  UniqueFd marks_;          // what it says at the end of runs
  std::string heard_;       // the beginning of a line on marks_
  std::string nonce_;       // of the current run
  std::string last_nonce_;  // of it, or of the one before
  std::optional<std::uint32_t> end_;
  bool ready_ = false;
  bool interrupt_when_ready_ = false;
  bool interrupted_ = false;
  bool input_opened_ = false;
  // Readers of the last runs' output, until the shell has let go of it.
  std::vector<UniqueFd> readers_;
  std::vector<UniqueFd> older_readers_;
  std::uint64_t run_start_ = 0;
  std::set<pid_t> older_;
  struct PipeSet {
    std::optional<NamedPipe> output;
    std::optional<NamedPipe> error;
  };
  std::array<PipeSet, 2> sets_;
  std::size_t set_ = 0;  // of the run that came last
  std::string snapshot_;
};

}  // namespace glovebox::guest
