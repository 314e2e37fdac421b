// Entry of the programs that test real boxes: makes the installation, adopts orphans, and turns an
// unexpected skip into a failure where that is asked for.
#include "support/features.h"
#include "support/installation.h"
#include "support/leftovers.h"

#include <gtest/gtest.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <memory>
#include <string>
#include <vector>

#include <sys/stat.h>

namespace glovebox::test {
namespace {

class SkipWatcher final : public testing::EmptyTestEventListener {
 public:
  void OnTestPartResult(const testing::TestPartResult& result) override {
    if (result.skipped() && !is_expected_skip(result.summary())) {
      unexpected_.emplace_back(result.summary());
    }
  }
  const std::vector<std::string>& unexpected() const { return unexpected_; }

 private:
  std::vector<std::string> unexpected_;
};

bool is_strict() {
  const char* value = std::getenv("GLOVEBOX_CI_STRICT");
  return value != nullptr && std::string(value) == "1";
}

int run_all() {
  umask(022);
  signal(SIGPIPE, SIG_IGN);  // a box may end before it has read its input; children get it back
  adopt_orphans();
  const OwnPlaces places;
  Installation made;
  set_installation(&made);
  auto watcher = std::make_unique<SkipWatcher>();
  const SkipWatcher& skips = *watcher;
  testing::UnitTest::GetInstance()->listeners().Append(watcher.release());  // gtest owns it
  const int result = RUN_ALL_TESTS();
  set_installation(nullptr);
  if (!is_strict() || skips.unexpected().empty()) return result;
  for (const std::string& reason : skips.unexpected()) {
    std::printf("skipped, and GLOVEBOX_CI_STRICT=1 does not allow that: %s\n", reason.c_str());
  }
  return 1;
}

}  // namespace
}  // namespace glovebox::test

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  if (testing::GTEST_FLAG(list_tests)) return RUN_ALL_TESTS();
  try {
    return glovebox::test::run_all();
  } catch (const std::exception& error) {
    std::printf("cannot run the tests: %s\n", error.what());
    return 1;
  }
}
