// The product under test, copied to where every user can reach it. The checkout may live in a
// directory that ordinary users cannot enter, and a test as an ordinary user needs both programs.
#pragma once

#include "support/process.h"

#include <string>

namespace glovebox::test {

// The ordinary user of the tests, when the test program itself runs as root.
inline constexpr Ids kUserIds{65533, 65533};
// Where the product's range of outside uids begins.
inline constexpr uid_t kFirstBoxUid = 1'900'000'000;

// A directory /tmp/glovebox-test-XXXXXX, mode 0755, made at the start of the program and removed
// at its end:
//   bin/glovebox            the command, from $GLOVEBOX_BINARY
//   probe/glovebox-probe    the probe, from $GLOVEBOX_PROBE; this file is granted to boxes
//   scratch-N/              one for each test
class Installation {
 public:
  Installation();
  ~Installation();
  Installation(const Installation&) = delete;
  Installation& operator=(const Installation&) = delete;

  const std::string& directory() const { return directory_; }
  std::string glovebox() const { return directory_ + "/bin/glovebox"; }
  std::string probe_directory() const { return directory_ + "/probe"; }
  std::string probe() const { return directory_ + "/probe/glovebox-probe"; }
  // A fresh directory that belongs to `owner`, mode 0755.
  std::string make_scratch(Ids owner);

 private:
  std::string directory_;
  int scratch_count_ = 0;
};

// The one of this program. main() makes it and hands it to the fixtures through this.
Installation& installation();
void set_installation(Installation* made);

}  // namespace glovebox::test
