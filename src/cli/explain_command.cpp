#include "base/file.h"
#include "cli/commands.h"
#include "cli/layers.h"

#include <cstdio>

namespace glovebox::app {
namespace {

Result<std::string> explanation(const RunOptions& options) {
  TRY(const session::BoxRequest request, to_request(options));
  TRY(const auto preparer, open_preparer());
  TRY(const plan::LaunchPlan plan, preparer->explain(request));
  return plan::to_text(plan);
}

}  // namespace

int refuse(const Error& error) {
  // Nothing to do about a standard error that cannot be written.
  (void)write_all(BorrowedFd(2), fmt::format("glovebox: {}\n", error.message));
  return kRefusedExit;
}

int explain_command(const RunOptions& options) {
  const auto text = explanation(options);
  if (!text) return refuse(text.error());
  const auto written = write_all(BorrowedFd(1), *text);
  return written ? 0 : refuse(written.error());
}

}  // namespace glovebox::app
