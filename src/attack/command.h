// Programs that `glovebox attack` starts: boxes, services, tools. Each runs for the user of its
// tier, with an environment of its own and no descriptors but those it is given.
#pragma once

#include "base/result.h"
#include "base/unique_fd.h"

#include <chrono>
#include <string>
#include <string_view>
#include <vector>

#include <sys/types.h>

namespace glovebox::app {

struct Ids {
  uid_t uid = 0;
  gid_t gid = 0;
};

using Words = std::vector<std::string>;

// By spaces; empty words are left out.
Words split_words(std::string_view text);

// Things outside that want attention while a program runs, such as a server that answers.
class Attendant {
 public:
  virtual ~Attendant() = default;
  virtual std::vector<int> descriptors() const = 0;
  virtual void attend() = 0;
};

struct Command {
  Words words{};
  Words variables{};
  Ids ids{};
  BorrowedFd input{-1};  // none: /dev/null. A terminal becomes the program's own
  std::string directory = "/";
  BorrowedFd forgotten{-1};  // a descriptor that the caller forgot to close
  // Calls that this kernel is made to lack: "landlock", "namespaces", "mounts", "seccomp".
  std::string_view without{};
  Attendant* attendant = nullptr;
  std::chrono::seconds patience{60};
};

struct Ended {
  int code = -1;  // as a shell says it
  bool timed_out = false;
  std::string output{};  // standard output and error, bounded
};

// To its end, or to the end of the patience.
Result<Ended> run_program(const Command& command);

// A program that goes on until this object ends, or its caller does.
class Background {
 public:
  static Result<Background> start(const Command& command);
  Background(Background&& other) noexcept;
  Background& operator=(Background&&) = delete;
  ~Background();

  // Reads until the program has said it; Code::Os with what it did say when it does not.
  Result<void> await(std::string_view text, std::chrono::seconds patience);
  // The next line that it says, without its end. Nothing else is kept of what is read so.
  Result<std::string> next_line(std::chrono::seconds patience);
  // Whether it has said that by now.
  bool has_said(std::string_view text);
  bool is_over() const;
  // Waits until it is over by itself; the destructor ends it otherwise.
  void await_end(std::chrono::seconds patience) const;

 private:
  Background(pid_t pid, UniqueFd process, UniqueFd output)
      : pid_(pid), process_(std::move(process)), output_(std::move(output)) {}
  bool read_some();

  pid_t pid_;
  UniqueFd process_, output_;
  std::string said_;
};

}  // namespace glovebox::app
