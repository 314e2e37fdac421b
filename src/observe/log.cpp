#include "observe/log.h"

#include "base/file.h"
#include "base/utf8.h"

#include <boost/json/serialize.hpp>

#include <array>
#include <chrono>
#include <ctime>

#include <fcntl.h>
#include <unistd.h>

namespace glovebox::observe {
namespace {

std::string time_text() {
  std::timespec now{};
  (void)::clock_gettime(CLOCK_REALTIME, &now);  // cannot fail for this clock
  std::tm parts{};
  (void)::gmtime_r(&now.tv_sec, &parts);
  return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:06}Z", parts.tm_year + 1900,
                     parts.tm_mon + 1, parts.tm_mday, parts.tm_hour, parts.tm_min, parts.tm_sec,
                     now.tv_nsec / 1'000);
}

std::string line_of(std::string_view key, std::string_view value, boost::json::object fields,
                    std::string_view level) {
  boost::json::object line;
  line["time"] = time_text();
  if (!level.empty()) line["level"] = level;
  line[key] = value;
  for (auto& [name, field] : fields) line[name] = std::move(field);
  return to_valid_utf8(boost::json::serialize(line)) + "\n";
}

}  // namespace

void Log::write(LogLevel level, std::string_view message, boost::json::object fields) const {
  constexpr std::array<std::string_view, 3> kNames = {"error", "info", "debug"};
  if (level > most_) return;
  const std::string line =
      line_of("message", message, std::move(fields), kNames.at(static_cast<std::size_t>(level)));
  (void)write_all(BorrowedFd(STDERR_FILENO), line);  // there is no other place to complain to
}

Result<Audit> Audit::open(const std::string& path) {
  Audit audit;
  audit.path_ = path;
  TRY_VOID(audit.reopen());
  return audit;
}

Result<void> Audit::reopen() {
  if (path_.empty()) return {};
  TRY(file_, open_file(path_, O_WRONLY | O_APPEND | O_CREAT | O_NOFOLLOW, 0600));
  return {};
}

bool Audit::write(std::string_view act, boost::json::object fields) {
  if (!file_) return true;
  const std::string line = line_of("act", act, std::move(fields), "");
  const ssize_t written = ::write(file_.get(), line.data(), line.size());
  return written == static_cast<ssize_t>(line.size());
}

}  // namespace glovebox::observe
