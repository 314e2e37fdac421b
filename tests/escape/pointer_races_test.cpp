// Class 20: a supervisor that decides a system call by memory which another thread changes in the
// meantime (seccomp_unotify(2)). Nothing in a box is decided that way: files are decided by mounts
// and Landlock, where the kernel resolves the path once.
// Tried: one process flips a link between an allowed file and a secret one 10^5 times while others
// open it, for reading and for writing; a process asks for a notification descriptor of its own.
// Canary: the secret is never printed, and stays as it was.
#include "support/box_test.h"

#include <filesystem>

namespace glovebox::test {
namespace {

class PointerRaces : public BoxTest {};

TEST_P(PointerRaces, FlippedPathsNeverLeadOut) {
  const std::string secret = make_file("secret", "outside-canary\n", 0666);
  const std::string work = make_directory("work");
  make_file("work/allowed", "inside\n");
  // Both sides run for a fixed number of turns; the reader counts what it got.
  const std::string race =
      "my ($w, $s) = @ARGV; if (my $k = fork) { my %seen; for (1..20000) {"
      "  if (open(my $f, '<', \"$w/flip\")) { my $l = <$f>; $seen{$l // ''}++ }"
      "  if (open(my $f, '+<', \"$w/flip\")) { $seen{write}++ } }"
      "  kill 9, $k; wait; print join(',', sort keys %seen), \"\\n\" }"
      "else { while (1) { symlink(\"$w/allowed\", \"$w/t\"); rename(\"$w/t\", \"$w/flip\");"
      "  symlink($s, \"$w/t\"); rename(\"$w/t\", \"$w/flip\");"
      "  symlink('/proc/1/root' . $s, \"$w/t\"); rename(\"$w/t\", \"$w/flip\") } }";
  const Outcome outcome = run({"-w", work + ":rw"}, {"/usr/bin/perl", "-e", race, work, secret});
  EXPECT_THAT(outcome, ended_with(0));
  EXPECT_THAT(outcome.out, testing::HasSubstr("inside")) << "the race did not run";
  EXPECT_THAT(outcome.out, testing::Not(testing::HasSubstr("outside-canary")));
  EXPECT_EQ(read_text(secret), "outside-canary\n");
}

TEST_P(PointerRaces, NoNotificationDescriptorOfTheirOwn) {
  EXPECT_THAT(probe({}, {"seccomp_listener"}), ended_with(EPERM));
  EXPECT_THAT(probe({}, {"seccomp_mode"}), ended_with(0));
}

BOX_TEST_TIERS(PointerRaces);

}  // namespace
}  // namespace glovebox::test
