#include "library/output.h"

#include "base/result.h"

#include <exception>

namespace glovebox::library {

boost::asio::awaitable<Result<void>> ToSink::take(guest::Stream stream, std::string_view bytes) {
  if (!*sink_) co_return Result<void>();
  try {
    (*sink_)(stream == guest::Stream::Error ? Stream::Error : Stream::Output, bytes);
  } catch (const std::exception& problem) {
    co_return fail(Code::Invalid, "the output sink threw: {}", problem.what());
  } catch (...) {
    co_return fail(Code::Invalid, "the output sink threw");
  }
  co_return Result<void>();
}

boost::asio::awaitable<Result<void>> ToStrings::take(guest::Stream stream, std::string_view bytes) {
  std::string& into = stream == guest::Stream::Error ? ran_->error : ran_->output;
  if (bytes.size() > kMostOutput - into.size()) {
    co_return fail(Code::Exhausted, "more than {} bytes of output: take it with a sink",
                   kMostOutput);
  }
  into += bytes;
  co_return Result<void>();
}

}  // namespace glovebox::library
