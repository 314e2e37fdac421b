#include "session/state/shell_state.h"

#include "async/co_try.h"
#include "authority/names.h"

#include <algorithm>
#include <array>

namespace glovebox::session {
namespace {

// In a shell of its own, which begins with the directory and the variables of the session's.
constexpr const char* kQuestion = "printf '%s\\0' \"$PWD\"; exec /usr/bin/env -0";
constexpr std::chrono::seconds kPatience{10};
// What every shell sets for itself.
constexpr std::array<std::string_view, 4> kOwnNames{"PWD", "OLDPWD", "SHLVL", "_"};

class Bounded final : public OutputReader {
 public:
  asio::awaitable<Result<void>> take(guest::Stream stream, std::string_view bytes) override {
    if (stream == guest::Stream::Output) text.append(bytes);
    if (text.size() <= kMaxShellBytes) co_return Result<void>();
    co_return fail(Code::Exhausted, "the session's shell exports more than {} bytes",
                   kMaxShellBytes);
  }
  std::string text;
};

}  // namespace

Result<ShellState> parse_shell_state(std::string_view text) {
  ShellState state;
  bool is_first = true;
  while (!text.empty()) {
    const std::size_t end = text.find('\0');
    if (end == std::string_view::npos) return fail(Code::Invalid, "the shell's answer is cut off");
    const std::string_view item = text.substr(0, end);
    text.remove_prefix(end + 1);
    if (std::exchange(is_first, false)) {
      if (item.starts_with('/')) state.cwd = item;
      continue;
    }
    const std::size_t equals = item.find('=');
    if (equals == std::string_view::npos) continue;
    const std::string_view name = item.substr(0, equals);
    if (std::ranges::find(kOwnNames, name) != kOwnNames.end()) continue;
    if (!authority::EnvName::parse(name)) continue;  // such as an exported function
    state.env.push_back({std::string(name), std::string(item.substr(equals + 1))});
  }
  return state;
}

asio::awaitable<Result<ShellState>> read_shell_state(BoxSession& session) {
  RunRequest request;
  request.code = kQuestion;
  request.shell = RunShell::Own;
  request.timeout = kPatience;
  Bounded answer;
  CO_TRY(const RunResult result, co_await session.run_inner(std::move(request), answer));
  if (result.code != 0 || result.timed_out) {
    co_return fail(Code::Os, "the session's shell does not say what its state is");
  }
  co_return parse_shell_state(answer.text);
}

asio::awaitable<void> enter_directory(BoxSession& session, std::string cwd) {
  RunRequest request;
  request.code = ":";
  request.cwd = std::move(cwd);
  request.timeout = kPatience;
  Bounded answer;
  // A directory that is gone leaves the shell where sessions begin.
  (void)co_await session.run_inner(std::move(request), answer);
}

}  // namespace glovebox::session
