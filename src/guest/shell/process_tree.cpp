#include "guest/shell/process_tree.h"

#include "base/file.h"

#include <cerrno>
#include <charconv>
#include <map>
#include <memory>
#include <set>
#include <string>

#include <dirent.h>
#include <fcntl.h>
#include <time.h>
#include <unistd.h>

namespace glovebox::guest {
namespace {

template <class Number>
bool parse_whole(std::string_view word, Number& value) {
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
  return error == std::errc() && end == word.data() + word.size();
}

std::string_view take_word(std::string_view& line) {
  const std::size_t end = line.find(' ');
  const std::string_view word = line.substr(0, end);
  line.remove_prefix(end == std::string_view::npos ? line.size() : end + 1);
  return word;
}

}  // namespace

std::optional<ProcessInfo> parse_stat(std::string_view line) {
  ProcessInfo process;
  // "pid (name) state parent group session ...": the name ends at the last bracket of the line,
  // because what follows are numbers.
  const std::size_t open = line.find(" (");
  const std::size_t close = line.rfind(") ");
  if (open == std::string_view::npos || close == std::string_view::npos) return std::nullopt;
  if (!parse_whole(line.substr(0, open), process.pid)) return std::nullopt;
  line.remove_prefix(close + 2);
  const std::string_view state = take_word(line);
  if (state.size() != 1) return std::nullopt;
  process.state = state.front();
  constexpr int kStartTime = 22;  // as proc(5) counts the fields
  for (int field = 4; field <= kStartTime; ++field) {
    const std::string_view word = take_word(line);
    const bool good = field == 4            ? parse_whole(word, process.parent)
                      : field == 6          ? parse_whole(word, process.session)
                      : field == kStartTime ? parse_whole(word, process.start_ticks)
                                            : !word.empty();
    if (!good) return std::nullopt;
  }
  return process;
}

Result<std::vector<ProcessInfo>> list_processes() {
  const std::unique_ptr<DIR, int (*)(DIR*)> proc(::opendir("/proc"), ::closedir);
  if (proc == nullptr) return fail_os(errno, "open /proc");
  const BorrowedFd dir(::dirfd(proc.get()));
  std::vector<ProcessInfo> processes;
  while (const dirent* entry = ::readdir(proc.get())) {
    if (entry->d_name[0] < '1' || entry->d_name[0] > '9') continue;
    const auto line = read_file_at(dir, fmt::format("{}/stat", entry->d_name), 4096);
    if (!line) continue;  // it has ended meanwhile
    if (const auto process = parse_stat(*line)) processes.push_back(*process);
  }
  return processes;
}

std::vector<ProcessInfo> descendants_of(pid_t root, const std::vector<ProcessInfo>& among) {
  std::multimap<pid_t, const ProcessInfo*> by_parent;
  for (const ProcessInfo& process : among) by_parent.emplace(process.parent, &process);
  std::vector<ProcessInfo> found;
  std::set<pid_t> seen = {root};  // a snapshot taken in pieces can hold a ring
  std::vector<pid_t> parents = {root};
  while (!parents.empty()) {
    const auto [begin, end] = by_parent.equal_range(parents.back());
    parents.pop_back();
    for (auto child = begin; child != end; ++child) {
      if (!seen.insert(child->second->pid).second) continue;
      found.push_back(*child->second);
      parents.push_back(child->second->pid);
    }
  }
  return found;
}

std::uint64_t ticks_now() {
  timespec time{};
  ::clock_gettime(CLOCK_BOOTTIME, &time);
  const auto per_second = static_cast<std::uint64_t>(::sysconf(_SC_CLK_TCK));
  return static_cast<std::uint64_t>(time.tv_sec) * per_second +
         static_cast<std::uint64_t>(time.tv_nsec) * per_second / 1'000'000'000U;
}

}  // namespace glovebox::guest
