#include "launch/exec_problem.h"

#include "base/result.h"

#include <cerrno>

namespace glovebox::launch {
namespace {

constexpr int kNotFound = 127;
constexpr int kNotExecutable = 126;
constexpr int kRefused = 125;

std::string shown(std::string_view interpreter) {
  if (interpreter.empty()) return "the program's loader (see 'file')";
  std::string text;
  for (const char c : interpreter) text += c > ' ' && c < '\x7f' ? c : '?';
  return text;
}

}  // namespace

ExecSentence exec_sentence(ExecProblem problem, int os_errno, std::string_view command,
                           std::string_view interpreter) {
  switch (problem) {
    case ExecProblem::NotFound:
      return {kNotFound,
              fmt::format("{}: no such command in the box (hand a program's directory in "
                          "with --read, or name it by its full path)",
                          command)};
    case ExecProblem::NotAllowed:
      return {kNotExecutable, fmt::format("{}: found, but it may not be executed: {}", command,
                                          errno_text(os_errno))};
    case ExecProblem::InterpreterMissing:
      return {kNotExecutable,
              fmt::format("{}: the file is there, but the interpreter that it names is not in the "
                          "box: {}",
                          command, shown(interpreter))};
    case ExecProblem::OtherArchitecture:
      return {kNotExecutable,
              fmt::format("{}: a program for another processor architecture", command)};
    case ExecProblem::NotAProgram:
      return {kNotExecutable,
              fmt::format("{}: neither a program nor a script with a #! line", command)};
    case ExecProblem::None:
    case ExecProblem::Other: break;
  }
  if (os_errno == E2BIG) {
    return {
        kNotExecutable,
        fmt::format("{}: the arguments and environment are larger than the kernel takes", command)};
  }
  return {kRefused, fmt::format("start {}: {}", command, errno_text(os_errno))};
}

}  // namespace glovebox::launch
