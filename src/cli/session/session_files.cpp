// Files of a session, from the command line: `glovebox session put|get|ls`.
#include "base/file.h"
#include "base/strict_json.h"
#include "cli/session/service_client.h"
#include "cli/session/session_command.h"

#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <filesystem>

#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

namespace glovebox::app {
namespace {

namespace json = boost::json;
namespace fs = std::filesystem;

// A stream becomes a file first: an upload says how long it is.
Result<UniqueFd> open_source(const std::string& path) {
  if (path != "-") return open_file(path, O_RDONLY | O_CLOEXEC);
  TRY(UniqueFd copy, open_file("/tmp", O_RDWR | O_TMPFILE | O_CLOEXEC, 0600));
  std::string piece(std::size_t{256} << 10, '\0');
  while (true) {
    const ssize_t count = ::read(0, piece.data(), piece.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return fail_os(errno, "read standard input");
    if (count == 0) break;
    TRY_VOID(write_all(copy, std::string_view(piece.data(), static_cast<std::size_t>(count))));
  }
  if (::lseek(copy.get(), 0, SEEK_SET) != 0) return fail_os(errno, "rewind");
  return copy;
}

// The permission bits as the API writes them: octal digits, read as a decimal number.
unsigned octal_digits(mode_t mode) {
  return (mode >> 6 & 7U) * 100 + (mode >> 3 & 7U) * 10 + (mode & 7U);
}

constexpr std::string_view kBoundary = "glovebox-part-7d1f0c2a9b";

std::vector<BodyPart> upload_parts(const std::string& to, const UniqueFd& file,
                                   const struct stat& facts) {
  json::object metadata{{"path", to}};
  if (S_ISREG(facts.st_mode) && facts.st_nlink > 0) metadata["mode"] = octal_digits(facts.st_mode);
  BodyPart first;
  first.text = fmt::format(
      "--{0}\r\nContent-Disposition: form-data; name=\"metadata\"; filename=\"metadata\"\r\n"
      "Content-Type: application/json\r\n\r\n{1}\r\n"
      "--{0}\r\nContent-Disposition: form-data; name=\"file\"; filename=\"file\"\r\n"
      "Content-Type: application/octet-stream\r\n\r\n",
      kBoundary, json::serialize(metadata));
  first.file = file;
  first.size = static_cast<std::uint64_t>(facts.st_size);
  BodyPart last;
  last.text = fmt::format("\r\n--{}--\r\n", kBoundary);
  return {first, last};
}

std::string info_line(const json::object& entry) {
  const auto number = [&](const char* name) -> std::int64_t {
    const json::value* value = entry.if_contains(name);
    boost::system::error_code problem;
    return value == nullptr ? 0 : value->to_number<std::int64_t>(problem);
  };
  const auto text = [&](const char* name) -> std::string {
    const json::value* value = entry.if_contains(name);
    return value != nullptr && value->is_string() ? std::string(value->as_string()) : "";
  };
  std::string line = fmt::format("{:<9} {:>4} {:>12}  {}", text("type"), number("mode"),
                                 number("size"), text("path"));
  std::ranges::replace_if(
      line, [](char each) { return static_cast<unsigned char>(each) < 0x20 || each == 0x7f; }, '?');
  return line + "\n";
}

}  // namespace

Result<int> put_file(const SessionOptions& options) {
  TRY(const UniqueFd file, open_source(options.from));
  struct stat facts{};
  if (::fstat(file.get(), &facts) != 0) return fail_os(errno, "{}", options.from);
  if (!S_ISREG(facts.st_mode)) {
    return fail(Code::Invalid, "{} is not a regular file", options.from);
  }
  std::string to = options.to;
  if (to.empty()) to = fs::path(options.from).filename();
  if (to == "-") return fail(Code::Invalid, "name the file in the box: session put S - PATH");
  TRY(HttpClient service, open_service(IfMissing::Fail));
  TRY(const std::string id, find_session(service, options.session));
  const std::string type = fmt::format("multipart/form-data; boundary={}", kBoundary);
  TRY(const Reply reply,
      service.send({.method = "POST", .target = session_target(id, "/files/upload"), .type = type},
                   upload_parts(to, file, facts)));
  if (!reply.ok()) return tl::unexpected(refusal_of(reply));
  return 0;
}

// The file appears under its name when it is whole.
Result<int> get_file(const SessionOptions& options) {
  TRY(HttpClient service, open_service(IfMissing::Fail));
  TRY(const std::string id, find_session(service, options.session));
  const Call call{
      .target = session_target(id, "/files/download?path=") + escape_query(options.from),
      .accept = "*/*"};
  if (options.to == "-") {
    TRY(const Reply reply, service.stream(call, [](std::string_view bytes) {
      return write_all(BorrowedFd(1), bytes);
    }));
    if (!reply.ok()) return tl::unexpected(refusal_of(reply));
    return 0;
  }
  const std::string to =
      options.to.empty() ? fs::path(options.from).filename().string() : options.to;
  if (to.empty()) return fail(Code::Invalid, "{} names no file", options.from);
  const std::string part = fmt::format("{}.part-{}", to, ::getpid());
  TRY(const UniqueFd file, open_file(part, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644));
  const auto reply =
      service.stream(call, [&](std::string_view bytes) { return write_all(file, bytes); });
  const bool whole = reply && reply->ok();
  if (whole && ::rename(part.c_str(), to.c_str()) == 0) return 0;
  const int problem = errno;
  (void)::unlink(part.c_str());  // it is ours, and of no use
  if (!reply) return tl::unexpected(reply.error());
  return whole ? Result<int>(fail_os(problem, "{}", to)) : tl::unexpected(refusal_of(*reply));
}

Result<int> list_files(const SessionOptions& options) {
  TRY(HttpClient service, open_service(IfMissing::Fail));
  TRY(const std::string id, find_session(service, options.session));
  const std::string path = options.from.empty() ? "." : options.from;
  TRY(const Reply reply,
      service.call({.target = session_target(id, "/directories/list?path=") + escape_query(path) +
                              fmt::format("&depth={}", options.depth)}));
  if (!reply.ok()) return tl::unexpected(refusal_of(reply));
  if (options.json) {
    TRY_VOID(write_all(BorrowedFd(1), reply.body + "\n"));
    return 0;
  }
  const auto list = parse_strict_json(reply.body, kAnyLength);
  if (!list || !list->is_array()) return fail(Code::Os, "the service's answer is no list");
  std::string text;
  for (const json::value& entry : list->as_array()) {
    if (entry.is_object()) text += info_line(entry.as_object());
  }
  TRY_VOID(write_all(BorrowedFd(1), text));
  return 0;
}

}  // namespace glovebox::app
