// Where the output of a command goes: to the caller's sink, or into strings with a bound.
#pragma once

#include "glovebox/glovebox.h"
#include "session/box/live_session.h"

namespace glovebox::library {

class ToSink final : public session::OutputReader {
 public:
  explicit ToSink(const OutputSink& sink) : sink_(&sink) {}
  boost::asio::awaitable<Result<void>> take(guest::Stream stream, std::string_view bytes) override;

 private:
  const OutputSink* sink_;
};

class ToStrings final : public session::OutputReader {
 public:
  explicit ToStrings(Ran& ran) : ran_(&ran) {}
  boost::asio::awaitable<Result<void>> take(guest::Stream stream, std::string_view bytes) override;

 private:
  Ran* ran_;
};

}  // namespace glovebox::library
