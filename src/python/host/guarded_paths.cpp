#include "python/host/guarded_paths.h"

#include "python/host/value.h"

#include <climits>

#include <cerrno>
#include <cstdlib>

#include <fcntl.h>
#include <unistd.h>

namespace glovebox::pyhost {
namespace {

// Surrogates, which UTF-8 has no place for, come as ED A0 80 to ED BF BF. U+DC80 to U+DCFF stand
// for single bytes in paths (PEP 383); no other stands for anything.
std::optional<std::string> without_surrogates(std::string_view bytes) {
  std::string plain;
  for (std::size_t at = 0; at < bytes.size(); ++at) {
    const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(bytes[at + i]); };
    if (byte(0) != 0xed || bytes.size() - at < 3 || byte(1) < 0xa0) {
      plain += bytes[at];
      continue;
    }
    const unsigned low = ((byte(1) & 0x1fU) << 6U) | (byte(2) & 0x3fU);  // of 0xD800
    if (low < 0x480 || low > 0x4ff) return std::nullopt;
    plain += static_cast<char>(low & 0xffU);
    at += 2;
  }
  return plain;
}

// Whether a path is plain and leads where it says: it exists, and no part of it is a link.
bool is_straight(const std::string& path) {
  if (!path.starts_with('/') || path.find("/.") != std::string::npos ||
      path.find("//") != std::string::npos || path.find('\0') != std::string::npos ||
      path.ends_with('/')) {
    return false;
  }
  const int fd = ::open(path.c_str(), O_PATH | O_CLOEXEC);
  if (fd < 0) return false;
  // What is opened has the name that was asked for, so no link was on the way.
  const bool is_named_so = base_of(fd) == path;
  ::close(fd);
  return is_named_so;
}

}  // namespace

std::optional<std::string> path_text(PyObject* path) {
  if (PyBytes_Check(path)) {
    return std::string(PyBytes_AsString(path), static_cast<std::size_t>(PyBytes_Size(path)));
  }
  if (!PyUnicode_Check(path)) return std::nullopt;
  const SavedError saved;
  // Of the handlers of errors only some are never looked up by name, and this is one.
  const Ref bytes(PyUnicode_AsEncodedString(path, "utf-8", "surrogatepass"));
  if (!bytes) {
    PyErr_Clear();
    return std::nullopt;
  }
  const std::string_view text(PyBytes_AsString(bytes.get()),
                              static_cast<std::size_t>(PyBytes_Size(bytes.get())));
  return text.find('\xed') == std::string_view::npos ? std::string(text) : without_surrogates(text);
}

std::optional<std::string> resolve(const std::string& path) {
  if (is_straight(path)) return path;
  std::string given = path.substr(0, path.find('\0'));
  std::string rest;
  while (true) {
    char buffer[PATH_MAX];
    if (::realpath(given.empty() ? "." : given.c_str(), buffer) != nullptr) {
      const std::string found = buffer;
      return rest.empty() ? found : (found == "/" ? "" : found) + rest;
    }
    // The kernel may know where a path leads that is too long or too deep for this.
    if (errno != ENOENT && errno != ENOTDIR) return std::nullopt;
    const std::size_t slash = given.rfind('/');
    const std::string last = slash == std::string::npos ? given : given.substr(slash + 1);
    if (last == ".." || given.empty() || given == "." || given == "/") return std::nullopt;
    if (!last.empty() && last != ".") rest.insert(0, "/" + last);
    given = slash == std::string::npos ? "." : slash == 0 ? "/" : given.substr(0, slash);
    if (rest.size() > PATH_MAX) return std::nullopt;
  }
}

std::optional<std::string> base_of(int dir_fd) {
  char buffer[PATH_MAX];
  // A cell's thread has descriptors of its own.
  const std::string link = "/proc/thread-self/fd/" + std::to_string(dir_fd);
  const ssize_t size = ::readlink(link.c_str(), buffer, sizeof(buffer));
  if (size <= 0 || size == sizeof(buffer) || buffer[0] != '/') return std::nullopt;
  return std::string(buffer, static_cast<std::size_t>(size));
}

bool is_inside_process(std::string_view path) {
  if (!path.starts_with("/proc/")) return false;
  for (std::size_t at = path.find('/', 6); at != std::string_view::npos;) {
    const std::size_t end = path.find('/', at + 1);
    const std::string_view part = path.substr(at + 1, end - at - 1);
    if (part == "mem" || part == "fd" || part == "map_files" || part == "root" || part == "cwd") {
      return true;
    }
    at = end;
  }
  return false;
}

bool has_utf8_paths() {
  PyObject* ask = PySys_GetObject("getfilesystemencoding");
  const Ref name(ask == nullptr ? nullptr : PyObject_CallObject(ask, nullptr));
  return name && PyUnicode_Check(name.get()) && to_utf8(name.get()) == "utf-8";
}

}  // namespace glovebox::pyhost
