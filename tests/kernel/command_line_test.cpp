// Exit codes, and what happens to requests that make no sense.
#include "support/box_test.h"

#include <array>
#include <filesystem>

namespace glovebox::test {
namespace {

class CommandLine : public BoxTest {};

TEST_P(CommandLine, ExitCodeIsTheCommands) {
  for (const int code : {0, 1, 2, 42, 123, 124, 125, 126, 127, 128, 200, 255}) {
    const Outcome outcome = run({}, {"/bin/sh", "-c", "exit " + std::to_string(code)});
    EXPECT_THAT(outcome, ended_with(code));
    EXPECT_EQ(outcome.reason(), "exited");
    EXPECT_EQ(outcome.err, "");
  }
}

TEST_P(CommandLine, SignalsAreTheShellsNumbers) {
  for (const int number : {SIGHUP, SIGINT, SIGABRT, SIGKILL, SIGSEGV, SIGPIPE, SIGTERM}) {
    const Outcome outcome = probe({}, {"signal_self", std::to_string(number)});
    EXPECT_THAT(outcome, ended_with(128 + number));
    EXPECT_EQ(outcome.reason(), "signaled");
    EXPECT_EQ(outcome.report.at("exit").at("signal").to_number<int>(), number);
  }
}

TEST_P(CommandLine, CommandIsFoundOnThePath) {
  EXPECT_THAT(run({}, {"true"}), ended_with(0));
  EXPECT_THAT(run({}, {"false"}), ended_with(1));
}

TEST_P(CommandLine, MissingCommandIsRefused) {
  EXPECT_THAT(glovebox({"run"}), refused_to_start(""));
  EXPECT_THAT(glovebox({"run", "--"}), refused_to_start(""));
  EXPECT_THAT(run({}, {""}), testing::AnyOf(refused_to_start(""), ended_with(127)));
}

TEST_P(CommandLine, UnknownOptionsAreRefused) {
  EXPECT_THAT(run({"--no-such-option"}, {"true"}), refused_to_start("no-such-option"));
  EXPECT_THAT(run({"-Z"}, {"true"}), refused_to_start(""));
  EXPECT_THAT(run({"--memory"}, {"true"}), refused_to_start(""));
  EXPECT_THAT(glovebox({"no-such-verb"}), refused_to_start(""));
}

TEST_P(CommandLine, UnfinishedWordsAreNotGuessed) {
  EXPECT_THAT(run({"--work", scratch()}, {"true"}), refused_to_start(""));
  EXPECT_THAT(run({"--mem", "64MiB"}, {"true"}), refused_to_start(""));
}

TEST_P(CommandLine, OtherBackendsAreNotAvailable) {
  EXPECT_THAT(run({"--backend", "process"}, {"true"}), ended_with(0));
  EXPECT_THAT(run({"--backend", "cell"}, {"true"}), refused_to_start("not available"));
  EXPECT_THAT(run({"--backend", "microvm"}, {"true"}), refused_to_start("not available"));
  EXPECT_THAT(run({"--backend", "chroot"}, {"true"}), refused_to_start(""));
}

TEST_P(CommandLine, DanglingPathsAreRefused) {
  for (const char* option : {"--workspace", "--read", "--write"}) {
    EXPECT_THAT(run({option, scratch() + "/missing"}, {"true"}), refused_to_start("missing"))
        << option;
    EXPECT_THAT(run({option, ""}, {"true"}), refused_to_start("")) << option;
  }
  std::filesystem::create_symlink(scratch() + "/missing", scratch() + "/dangling");
  EXPECT_THAT(run({"--read", scratch() + "/dangling"}, {"true"}), refused_to_start("dangling"));
  std::filesystem::create_symlink(scratch() + "/loop", scratch() + "/loop");
  EXPECT_THAT(run({"--read", scratch() + "/loop"}, {"true"}), refused_to_start("loop"));
}

TEST_P(CommandLine, RelativePathsAreTakenFromTheCallersDirectory) {
  const std::string tree = make_tree("tree");
  Settings settings;
  settings.directory = scratch();
  for (const char* option : {"--workspace", "--read", "--write"}) {
    EXPECT_EQ(run({option, "tree"}, {"/bin/cat", tree + "/old"}, settings).out, "old text\n")
        << option;
    EXPECT_THAT(run({option, "tree/missing"}, {"true"}, settings), refused_to_start("missing"))
        << option;
  }
  EXPECT_THAT(run({"--cwd", "tree"}, {"true"}, settings), refused_to_start("absolute"));
}

TEST_P(CommandLine, HostsOwnTreesCannotBeHandedIn) {
  for (const char* path : {"/", "/proc", "/sys", "/dev", "/proc/1/root"}) {
    EXPECT_THAT(run({"--read", path}, {"true"}), refused_to_start("")) << path;
    EXPECT_THAT(run({"--write", path}, {"true"}), refused_to_start("")) << path;
    EXPECT_THAT(run({"--workspace", path}, {"true"}), refused_to_start("")) << path;
  }
}

// What lies above a place of the box's own would hide it.
TEST_P(CommandLine, ADirectoryAboveTheBoxsOwnHomeIsRefusedBySentence) {
  const std::string tree = make_tree("tree");
  for (const Words& options : {Words{"-w", "/home"}, Words{"-w", "/home:ro"},
                               Words{"--read", "/home"}, Words{"--bind", tree + ":/home"}}) {
    EXPECT_THAT(run(options, {"true"}), refused_to_start("/home/box in it is the box's own"))
        << options.back();
  }
  EXPECT_THAT(run({"--bind", tree + ":/home/box"}, {"/bin/cat", "/home/box/old"}), ended_with(0));
  EXPECT_THAT(run({"--bind", tree + ":/home/me"}, {"/bin/cat", "/home/me/old"}), ended_with(0));
}

// Each starts, or is refused with a sentence: none fails half way.
TEST_P(CommandLine, EveryPlaceOfTheHostIsTakenOrRefusedByASentence) {
  for (const char* path : {"/", "/home", "/root", "/tmp", "/run", "/usr", "/etc", "/var", "/opt"}) {
    for (const char* mode : {"", ":ro", ":rw", ":discard"}) {
      const Outcome outcome = run({"-q", "-w", std::string(path) + mode}, {"true"});
      const bool is_fine = outcome.code == 0 || outcome.code == 125;
      EXPECT_TRUE(is_fine) << path << mode << ": " << outcome.err;
      EXPECT_THAT(outcome.err, testing::Not(testing::HasSubstr("step"))) << path << mode;
    }
  }
}

TEST_P(CommandLine, WorkspaceModesAreWords) {
  const std::string tree = make_tree("tree");
  EXPECT_THAT(run({"--workspace", tree + ":ro"}, {"true"}), ended_with(0));
  EXPECT_THAT(run({"--workspace", tree + ":rw"}, {"true"}), ended_with(0));
  EXPECT_THAT(run({"-w", tree}, {"true"}), ended_with(0));
  EXPECT_THAT(run({"--workspace", tree + ":rwx"}, {"true"}), refused_to_start(""));
  EXPECT_THAT(run({"--workspace", tree + "/old"}, {"true"}), refused_to_start("directory"));
}

TEST_P(CommandLine, HostNamesAreChecked) {
  EXPECT_THAT(run({"--hostname", std::string(65, 'a')}, {"true"}), refused_to_start(""));
  EXPECT_THAT(run({"--hostname", "two words"}, {"true"}), refused_to_start(""));
  EXPECT_THAT(run({"--hostname", ""}, {"true"}), refused_to_start(""));
  EXPECT_THAT(run({"--hostname", std::string(64, 'a')}, {"true"}), ended_with(0));
}

TEST_P(CommandLine, WorkingDirectoryMustExist) {
  EXPECT_THAT(run({"--cwd", "/usr"}, {"/bin/pwd"}).out, "/usr\n");
  EXPECT_THAT(run({"--cwd", "/no/such/place"}, {"true"}), refused_to_start("/no/such/place"));
  EXPECT_THAT(run({"--cwd", "/etc/passwd"}, {"true"}), refused_to_start("/etc/passwd"));
}

TEST_P(CommandLine, CommandThatIsNotThere) {
  const Outcome by_name = run({}, {"no-such-command-anywhere"});
  EXPECT_THAT(by_name, ended_with(127));
  EXPECT_THAT(by_name.err, testing::StartsWith("glovebox: "));
  EXPECT_THAT(by_name.err, testing::HasSubstr("no-such-command-anywhere"));
  EXPECT_THAT(run({}, {"/no/such/command"}), ended_with(127));
  EXPECT_THAT(run({}, {"./no-such-command"}), ended_with(127));
}

TEST_P(CommandLine, CommandThatIsNotExecutable) {
  const std::string work = make_directory("work");
  make_file("work/plain", "#!/bin/sh\necho hi\n", 0644);
  make_file("work/script", "#!/bin/sh\necho hi\n", 0755);
  EXPECT_THAT(run({"-w", work + ":rw"}, {work + "/plain"}), ended_with(126));
  EXPECT_THAT(run({"-w", work + ":rw"}, {work}), ended_with(126)) << "a directory";
  const Outcome script = run({"-w", work + ":rw"}, {"./script"});
  EXPECT_THAT(script, ended_with(0));
  EXPECT_EQ(script.out, "hi\n");
}

TEST_P(CommandLine, InterpreterThatIsNotThereIsNamed) {
  const std::string work = make_directory("work");
  make_file("work/script", "#!/no/such/interpreter -x\n", 0755);
  const Outcome outcome = run({"-w", work + ":rw"}, {work + "/script"});
  EXPECT_THAT(outcome, ended_with(126));
  EXPECT_THAT(outcome.err, testing::HasSubstr("/no/such/interpreter"));
}

// The first bytes of a program for `machine`, enough for the kernel to decline it.
std::string foreign_elf(unsigned char machine) {
  std::array<char, 128> bytes{'\x7f', 'E', 'L', 'F', 2, 1, 1};
  bytes[16] = 2;  // ET_EXEC
  bytes[18] = static_cast<char>(machine);
  bytes[20] = 1;
  bytes[52] = 64;  // e_ehsize
  bytes[54] = 56;  // e_phentsize
  return {bytes.data(), bytes.size()};
}

TEST_P(CommandLine, ProgramOfAnotherArchitectureIsSaid) {
  const std::string work = make_directory("work");
  make_file("work/arm", foreign_elf(183), 0755);
  make_file("work/garbage", "\x01\x02\x03\x04", 0755);
  const Outcome outcome = run({"-w", work + ":rw"}, {work + "/arm"});
  EXPECT_THAT(outcome, ended_with(126));
  EXPECT_THAT(outcome.err, testing::HasSubstr("architecture"));
  EXPECT_THAT(run({"-w", work + ":rw"}, {work + "/garbage"}), ended_with(126));
}

TEST_P(CommandLine, ManyArguments) {
  Words words{"arguments"};
  words.insert(words.end(), 100'000, "x");
  const Outcome outcome = probe({}, words);
  EXPECT_THAT(outcome, testing::AnyOf(ended_with(0), refused_to_start("arguments")));
  if (outcome.code == 0) {
    EXPECT_EQ(lines_after(outcome.out, "argc "), Words{"100000"});
  }
}

TEST_P(CommandLine, WordsAfterTheCommandAreItsOwn) {
  const Words words{"arguments", "--bind", "/", "/", "--backend", "cell", "--", "--help", "-w"};
  const Outcome outcome = probe({}, words);
  ASSERT_THAT(outcome, ended_with(0));
  EXPECT_EQ(lines_after(outcome.out, "arg "), Words(words.begin() + 1, words.end()));
}

TEST_P(CommandLine, OddBytesInArgumentsPass) {
  const std::string odd = "a\nb\tc\x01\xff'\"\\$(id)`id`;&|";
  const Outcome outcome = run({}, {"/usr/bin/printf", "%s", odd});
  EXPECT_THAT(outcome, ended_with(0));
  EXPECT_EQ(outcome.out, odd);
}

TEST_P(CommandLine, ReportThatCannotBeWrittenIsSaidBeforeTheRun) {
  const std::string work = make_directory("work");
  const Outcome outcome = glovebox({"run", "--report", "/no/such/dir/report", "-w", work + ":rw",
                                    "--", "/usr/bin/touch", work + "/ran"});
  EXPECT_THAT(outcome, refused_to_start("/no/such/dir/report"));
  EXPECT_FALSE(std::filesystem::exists(work + "/ran"));
}

TEST_P(CommandLine, HelpAndVersionWork) {
  EXPECT_THAT(glovebox({"--help"}), ended_with(0));
  EXPECT_THAT(glovebox({"run", "--help"}), ended_with(0));
  EXPECT_THAT(glovebox({"--version"}), ended_with(0));
}

TEST_P(CommandLine, ExplainRunsNothing) {
  const std::string work = make_directory("work");
  const Outcome outcome =
      glovebox({"explain", "-w", work + ":rw", "--", "/usr/bin/touch", work + "/ran"});
  EXPECT_THAT(outcome, ended_with(0));
  EXPECT_THAT(outcome.out, testing::HasSubstr(work));
  EXPECT_FALSE(std::filesystem::exists(work + "/ran"));
}

BOX_TEST_TIERS(CommandLine);

}  // namespace
}  // namespace glovebox::test
