// The completion scripts, run by the shells that they are for.
#include "support/box_test.h"

#include <filesystem>
#include <sstream>

namespace glovebox::test {
namespace {

constexpr const char* kBash = "/bin/bash";

// Runs the script in a shell of its own, and prints what it offers, a line each. COMP_WORDBREAKS is
// the value of every interactive shell.
constexpr const char* kAskBash = R"script(
COMP_WORDBREAKS=$' \t\n"\'><=;|&(:'
source "$1"
shift
COMP_WORDS=("$@")
COMP_CWORD=$(($# - 1))
_glovebox
((${#COMPREPLY[@]} == 0)) || printf '%s\n' "${COMPREPLY[@]}"
)script";

class Completion : public BoxTest {
 protected:
  // What `glovebox completion SHELL` prints, in a file.
  std::string script_of(const std::string& shell) {
    const Outcome printed = glovebox({"completion", shell});
    EXPECT_THAT(printed, ended_with(0));
    EXPECT_EQ(printed.err, "");
    return make_file("completion." + shell, printed.out);
  }

  Outcome execute(const Words& argv, const Settings& settings = {}) {
    Running running(argv, settings, caller(), "");
    return running.finish();
  }

  // The offers for the last of these words, as Bash has split the line.
  Words offers(const Words& words) {
    if (script_.empty()) script_ = script_of("bash");
    Settings settings;
    settings.environment.emplace_back("COLOUR_OF_THE_TEST=blue");
    settings.environment.push_back("GLOVEBOX_STATE=" + scratch() + "/.state");
    settings.directory = scratch();
    Words argv{kBash, "--norc", "-u", "-c", kAskBash, "bash", script_, installation().glovebox()};
    argv.insert(argv.end(), words.begin(), words.end());
    const Outcome outcome = execute(argv, settings);
    EXPECT_THAT(outcome, ended_with(0));
    EXPECT_EQ(outcome.err, "");
    return lines_of(outcome.out);
  }

  static Words lines_of(const std::string& text) {
    Words lines;
    std::istringstream stream(text);
    for (std::string line; std::getline(stream, line);) lines.push_back(line);
    return lines;
  }

  // The long options and commands that a help text lists.
  static Words listed(const std::string& help, char first) {
    Words found;
    for (const std::string& line : lines_of(help)) {
      const std::size_t indent = line.find_first_not_of(' ');
      // Descriptions stand far to the right, headings at the left.
      if (indent == std::string::npos || indent < 2 || indent > 8) continue;
      if ((line[indent] == '-') != (first == '-')) continue;
      const std::size_t at = first == '-' ? line.find("--", indent) : indent;
      if (at == std::string::npos) continue;
      found.push_back(line.substr(at, line.find_first_of(" ,", at) - at));
    }
    return found;
  }

 private:
  std::string script_;
};

using testing::Contains;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::IsSupersetOf;
using testing::Not;
using testing::UnorderedElementsAre;

TEST_P(Completion, OffersTheCommandsThatHelpLists) {
  const Words offered = offers({""});
  EXPECT_THAT(offered, IsSupersetOf({"run", "explain", "policy", "doctor", "completion"}));
  for (const std::string& command : listed(glovebox({"--help"}).out, 'a')) {
    EXPECT_THAT(offered, Contains(command));
  }
  EXPECT_THAT(offers({"expl"}), ElementsAre("explain"));
  EXPECT_THAT(offers({"policy", ""}),
              UnorderedElementsAre("check", "show", "explain", "diff", "list"));
  EXPECT_THAT(offers({"no-such-command", ""}), IsEmpty());
}

TEST_P(Completion, OffersTheOptionsThatHelpLists) {
  const std::vector<Words> commands{
      {"run"},    {"explain"}, {"diff"},           {"commit"},
      {"layers"}, {"doctor"},  {"policy", "show"}, {"policy", "explain"}};
  for (const Words& command : commands) {
    Words help = command;
    help.emplace_back("--help");
    Words asked = command;
    asked.emplace_back("--");
    const Words offered = offers(asked);
    const Words known = listed(glovebox(help).out, '-');
    EXPECT_GE(known.size(), 2U) << command.front();
    EXPECT_THAT(offered, IsSupersetOf(known)) << command.front();
  }
  EXPECT_THAT(offers({"run", "--mem"}), ElementsAre("--memory"));
}

TEST_P(Completion, OffersClosedSetsOfValues) {
  EXPECT_THAT(offers({"run", "--backend", ""}), ElementsAre("process", "cell", "microvm"));
  EXPECT_THAT(offers({"attack", "--backend", "p"}), ElementsAre("process", "parked", "python"));
  EXPECT_THAT(offers({"attack", "--peer", ""}), ElementsAre("bwrap", "none"));
  EXPECT_THAT(offers({"run", "--waive", "limit.m"}), ElementsAre("limit.memory"));
  EXPECT_THAT(offers({"policy", "show", "--format", "j"}), ElementsAre("json"));
  EXPECT_THAT(offers({"completion", ""}), UnorderedElementsAre("bash", "zsh", "fish"));
  EXPECT_THAT(offers({"run", "--policy", "py"}), ElementsAre("python"));
  EXPECT_THAT(offers({"policy", "diff", "agent", "py"}), ElementsAre("python"));
  EXPECT_THAT(offers({"run", "--allow", "me"}), ElementsAre("memory="));
  EXPECT_THAT(offers({"run", "--allow", "clo"}), ElementsAre("clock"));
  EXPECT_THAT(offers({"run", "--env", "COLOUR_OF"}), ElementsAre("COLOUR_OF_THE_TEST"));
  EXPECT_THAT(offers({"diff", "la"}), ElementsAre("last"));
  // What the gate calls its rules is in a file; one name is enough to see that they are read.
  EXPECT_THAT(offers({"commit", "--accept-rule", ""}), Not(IsEmpty()));
}

TEST_P(Completion, OffersPathsWherePathsAreExpected) {
  make_file("data.csv", "");
  make_directory("data dir");
  EXPECT_THAT(offers({"run", "--read", "data"}), UnorderedElementsAre("data.csv", "data dir"));
  EXPECT_THAT(offers({"run", "--cwd", "data"}), ElementsAre("data dir"));
  EXPECT_THAT(offers({"run", "-w", "data"}), ElementsAre("data dir"));
  EXPECT_THAT(offers({"policy", "check", "data.csv", "data.c"}), ElementsAre("data.csv"));
  EXPECT_THAT(offers({"run", "--memory", ""}), IsEmpty());
}

// Bash hands "--format=json" and "dir:ro" over in pieces.
TEST_P(Completion, UnderstandsWordsThatBashSplits) {
  make_file("data.csv", "");
  EXPECT_THAT(offers({"policy", "show", "--format", "=", "y"}), ElementsAre("yaml"));
  EXPECT_THAT(offers({"policy", "show", "--format", "="}),
              UnorderedElementsAre("yaml", "json", "normal"));
  EXPECT_THAT(offers({"run", "-w", "dir", ":", "r"}), UnorderedElementsAre("ro", "rw"));
  EXPECT_THAT(offers({"run", "--workspace", "=", "dir", ":", "o"}), ElementsAre("overlay"));
  EXPECT_THAT(offers({"run", "--allow", "read", "=", "data"}), ElementsAre("data.csv"));
  // The value of one option is not the beginning of the next word.
  EXPECT_THAT(offers({"run", "-w", "dir", ":", "ro", "--back"}), ElementsAre("--backend"));
}

TEST_P(Completion, CompletesCommandsAfterTheDashes) {
  make_file("data.csv", "");
  EXPECT_THAT(offers({"run", "--read", "x", "--", "sha256su"}), Contains("sha256sum"));
  EXPECT_THAT(offers({"run", "--", "cat", "da"}), ElementsAre("data.csv"));
  EXPECT_THAT(offers({"run", "--", "cat", "--backen"}), IsEmpty()) << "these are the command's";
}

TEST_P(Completion, OffersLayersThatExist) {
  const std::string tree = make_tree("tree");
  EXPECT_THAT(offers({"undo", ""}), ElementsAre("last"));
  ASSERT_THAT(run({"-q", "-w", tree}, {"/bin/touch", "new"}), ended_with(0));
  const std::string listed = glovebox({"layers"}).out;
  const std::string id = listed.substr(0, listed.find(' '));
  ASSERT_NE(id, "");
  EXPECT_THAT(offers({"undo", ""}), UnorderedElementsAre("last", id));
  EXPECT_THAT(offers({"layers", "--remove", ""}), ElementsAre(id));
}

TEST_P(Completion, ShellsAreNamed) {
  EXPECT_THAT(glovebox({"completion"}), refused_to_start(""));
  EXPECT_THAT(glovebox({"completion", "csh"}), refused_to_start("bash"));
}

// The other shells need not be here. Where they are, they read their script without complaint.
TEST_P(Completion, OtherShellsAcceptTheirScripts) {
  for (const char* shell : {"zsh", "fish"}) {
    const std::string script = script_of(shell);
    EXPECT_GT(read_text(script).size(), 4000U);
    const std::string program = std::string("/usr/bin/") + shell;
    if (!std::filesystem::exists(program)) continue;
    const Outcome outcome = execute({program, "-n", script});
    EXPECT_THAT(outcome, ended_with(0)) << shell;
    EXPECT_EQ(outcome.err, "") << shell;
  }
}

BOX_TEST_TIERS(Completion);

}  // namespace
}  // namespace glovebox::test
