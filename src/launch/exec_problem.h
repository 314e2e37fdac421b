// Why a command could not be executed, in a sentence, with the exit code shells use for it.
#pragma once

#include "launch/child/init_message.h"

#include <string>
#include <string_view>

namespace glovebox::launch {

struct ExecSentence {
  int exit_code = 125;
  std::string text;
};

// `interpreter` comes from a file in the box: what is not plain text in it is not shown.
ExecSentence exec_sentence(ExecProblem problem, int os_errno, std::string_view command,
                           std::string_view interpreter);

}  // namespace glovebox::launch
