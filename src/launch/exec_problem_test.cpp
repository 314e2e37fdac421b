#include "launch/exec_problem.h"

#include <gtest/gtest.h>

#include <cerrno>

namespace glovebox::launch {
namespace {

TEST(ExecProblem, ExitCodesAreTheShells) {
  EXPECT_EQ(exec_sentence(ExecProblem::NotFound, ENOENT, "x", "").exit_code, 127);
  EXPECT_EQ(exec_sentence(ExecProblem::NotAllowed, EACCES, "x", "").exit_code, 126);
  EXPECT_EQ(exec_sentence(ExecProblem::InterpreterMissing, ENOENT, "x", "").exit_code, 126);
  EXPECT_EQ(exec_sentence(ExecProblem::OtherArchitecture, ENOEXEC, "x", "").exit_code, 126);
  EXPECT_EQ(exec_sentence(ExecProblem::Other, EMFILE, "x", "").exit_code, 125);
}

TEST(ExecProblem, SentencesNameTheCommand) {
  const ExecSentence sentence =
      exec_sentence(ExecProblem::InterpreterMissing, ENOENT, "./run.py", "/no/python\x1b[2J");
  EXPECT_NE(sentence.text.find("./run.py"), std::string::npos);
  EXPECT_NE(sentence.text.find("/no/python?[2J"), std::string::npos);
}

}  // namespace
}  // namespace glovebox::launch
