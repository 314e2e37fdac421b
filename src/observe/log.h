// Lines of JSON: the service's log on standard error, and the audit in a file of its own.
//
// A line is one write, so lines of several processes do not mix, and it is whole or, when the disk
// is full, missing. The audit says who did what to which session under which policy; it holds no
// secrets and no code. Whatever bytes a request brought, a line is valid JSON: what is no UTF-8
// becomes U+FFFD.
#pragma once

#include "base/result.h"
#include "base/unique_fd.h"

#include <boost/json/object.hpp>

#include <cstdint>
#include <string>
#include <string_view>

namespace glovebox::observe {

enum class LogLevel : std::uint8_t { Error, Info, Debug };

class Log {
 public:
  explicit Log(LogLevel most) : most_(most) {}

  void write(LogLevel level, std::string_view message, boost::json::object fields = {}) const;

 private:
  LogLevel most_;
};

class Audit {
 public:
  // Without a file nothing is recorded.
  Audit() = default;
  // Appends; made 0600.
  static Result<Audit> open(const std::string& path);

  // `act` is "create", "run", "deny", "commit", ... The time is added. False when the line could
  // not be written: the caller says so in the log.
  bool write(std::string_view act, boost::json::object fields);
  bool is_open() const { return static_cast<bool>(file_); }
  // Opens the file by its name again, after it was rotated.
  Result<void> reopen();

 private:
  std::string path_;
  UniqueFd file_;
};

}  // namespace glovebox::observe
