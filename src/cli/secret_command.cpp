#include "cli/secret_command.h"

#include "authority/names.h"
#include "base/file.h"
#include "cli/commands.h"
#include "cli/layers.h"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <optional>
#include <vector>

#include <fcntl.h>
#include <sys/stat.h>
#include <termios.h>
#include <unistd.h>

namespace glovebox::app {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMostBytes = std::size_t{1} << 20;

// What is typed is not shown while this lives.
class NoEcho {
 public:
  NoEcho() {
    termios now{};
    if (::tcgetattr(0, &now) != 0) return;
    saved_ = now;
    now.c_lflag &= ~static_cast<tcflag_t>(ECHO);
    ::tcsetattr(0, TCSAFLUSH, &now);
  }
  ~NoEcho() {
    if (saved_) ::tcsetattr(0, TCSAFLUSH, &*saved_);
  }
  NoEcho(const NoEcho&) = delete;
  NoEcho& operator=(const NoEcho&) = delete;

 private:
  std::optional<termios> saved_;
};

// From a terminal one line without its end; from elsewhere every byte.
Result<std::string> read_value() {
  if (::isatty(0) != 1) return read_fd(BorrowedFd(0), kMostBytes);
  TRY_VOID(write_all(BorrowedFd(2), "value: "));
  std::string value;
  {
    const NoEcho quiet;
    for (char each = 0; ::read(0, &each, 1) == 1 && each != '\n';) value += each;
  }
  TRY_VOID(write_all(BorrowedFd(2), "\n"));
  return value;
}

Result<std::string> open_directory() {
  TRY(const std::string directory, secrets_directory());
  std::error_code problem;
  fs::create_directories(fs::path(directory).parent_path(), problem);
  if (::mkdir(directory.c_str(), 0700) != 0 && errno != EEXIST)
    return fail_os(errno, "{}", directory);
  return directory;
}

// The old value is there until the new one is whole.
Result<void> set(const std::string& name) {
  TRY(const std::string value, read_value());
  if (value.empty()) return fail(Code::Invalid, "an empty value is no secret");
  TRY(const std::string directory, open_directory());
  const std::string fresh = fmt::format("{}/.new-{}", directory, ::getpid());
  TRY(const UniqueFd file,
      open_file(fresh, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
  auto written = write_all(file, value);
  if (written && ::fsync(file.get()) != 0) written = fail_os(errno, "{}", fresh);
  if (written && ::rename(fresh.c_str(), (directory + "/" + name).c_str()) != 0) {
    written = fail_os(errno, "{}/{}", directory, name);
  }
  if (!written) (void)::unlink(fresh.c_str());  // it is ours, and of no use
  return written;
}

Result<void> list() {
  TRY(const std::string directory, secrets_directory());
  std::vector<std::string> names;
  std::error_code none;
  for (const auto& entry : fs::directory_iterator(directory, none)) {
    const std::string name = entry.path().filename();
    if (authority::SecretName::parse(name) && !name.starts_with('.')) names.push_back(name);
  }
  std::ranges::sort(names);
  std::string text;
  for (const std::string& name : names) text += name + "\n";
  return write_all(BorrowedFd(1), text);
}

Result<void> remove(const std::string& name) {
  TRY(const std::string directory, secrets_directory());
  if (::unlink((directory + "/" + name).c_str()) == 0) return {};
  if (errno == ENOENT) return fail(Code::NotFound, "there is no secret '{}'", name);
  return fail_os(errno, "{}/{}", directory, name);
}

Result<void> act(const SecretOptions& options) {
  if (options.act == SecretOptions::Act::List) return list();
  const auto name = authority::SecretName::parse(options.name);
  if (!name) return tl::unexpected(name.error());
  return options.act == SecretOptions::Act::Set ? set(options.name) : remove(options.name);
}

}  // namespace

void add_secret_options(CLI::App& app, SecretOptions& options) {
  app.require_subcommand(1);
  const auto add = [&](const char* word, const char* about, SecretOptions::Act act) {
    CLI::App* command = app.add_subcommand(word, about);
    command->callback([&options, act] { options.act = act; });
    return command;
  };
  add("set", "Keep a value, read from standard input, under NAME", SecretOptions::Act::Set)
      ->add_option("NAME", options.name, "What policies and --allow secret=NAME call it")
      ->required();
  add("list", "Print the names", SecretOptions::Act::List);
  add("rm", "Forget a secret", SecretOptions::Act::Remove)
      ->add_option("NAME", options.name, "Which")
      ->required();
}

int secret_command(const SecretOptions& options) {
  const auto done = act(options);
  return done ? 0 : refuse(done.error());
}

}  // namespace glovebox::app
