#include "session/store/run_journal.h"

#include "base/file.h"
#include "workspace/tree/printable.h"

#include <cerrno>
#include <charconv>
#include <optional>
#include <string_view>

#include <fcntl.h>
#include <unistd.h>

namespace glovebox::session {
namespace {

constexpr std::size_t kLargestJournal = std::size_t{256} << 20;

std::int64_t ns(WallTime time) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(time.time_since_epoch()).count();
}
WallTime from_ns(std::int64_t value) { return WallTime(std::chrono::nanoseconds(value)); }

// One line; its last word is "." so that a line that was cut is told from a whole one.
std::string encode(const NotedRun& noted) {
  const RunRecord& run = noted.run;
  return fmt::format("{} {} {} {} {} {} {} {} {} {} ={} .\n", noted.session, run.number,
                     static_cast<int>(run.kind), ns(run.began_at),
                     ns(run.ended_at.value_or(run.began_at)), run.code, int{run.timed_out},
                     int{run.canceled}, run.output_bytes, noted.runs,
                     workspace::encode_bytes(run.problem));
}

// Takes the words of a line one by one; after one that does not fit, nothing fits.
class Words {
 public:
  explicit Words(std::string_view line) : rest_(line) {}

  std::string_view next() {
    const std::size_t end = rest_.find(' ');
    const std::string_view word = rest_.substr(0, end);
    rest_.remove_prefix(end == std::string_view::npos ? rest_.size() : end + 1);
    return word;
  }
  template <class Number>
  Number number() {
    const std::string_view word = next();
    Number value{};
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
    if (error != std::errc() || end != word.data() + word.size()) is_broken_ = true;
    return value;
  }
  bool is_broken() const { return is_broken_; }

 private:
  std::string_view rest_;
  bool is_broken_ = false;
};

std::optional<NotedRun> decode(std::string_view line) {
  Words words(line);
  NotedRun noted;
  RunRecord& run = noted.run;
  noted.session = words.next();
  run.number = words.number<std::uint64_t>();
  run.kind = words.number<int>() == 0 ? RunRecord::Kind::Foreground : RunRecord::Kind::Background;
  run.began_at = from_ns(words.number<std::int64_t>());
  run.ended_at = from_ns(words.number<std::int64_t>());
  run.code = words.number<int>();
  run.timed_out = words.number<int>() != 0;
  run.canceled = words.number<int>() != 0;
  run.output_bytes = words.number<std::uint64_t>();
  noted.runs = words.number<std::uint64_t>();
  const std::string_view problem = words.next();
  if (words.is_broken() || !problem.starts_with('=') || words.next() != ".") return std::nullopt;
  auto decoded = workspace::decode_bytes(problem.substr(1));
  if (!decoded) return std::nullopt;
  run.problem = *std::move(decoded);
  return noted;
}

Result<void> empty(const UniqueFd& file) {
  if (::ftruncate(file.get(), 0) != 0) return fail_os(errno, "empty the journal of runs");
  return {};
}

}  // namespace

Result<std::unique_ptr<RunJournal>> RunJournal::open(const std::string& path) {
  auto journal = std::make_unique<RunJournal>();
  for (std::size_t i = 0; i < journal->files_.size(); ++i) {
    TRY(journal->files_.at(i),
        open_file(fmt::format("{}.{}", path, i),
                  O_RDWR | O_CREAT | O_APPEND | O_NOFOLLOW | O_CLOEXEC, 0600));
  }
  return journal;
}

Result<std::vector<NotedRun>> RunJournal::read() const {
  std::vector<NotedRun> runs;
  for (const UniqueFd& file : files_) {
    if (::lseek(file.get(), 0, SEEK_SET) != 0) return fail_os(errno, "read the journal of runs");
    TRY(const std::string text, read_fd(file, kLargestJournal));
    for (std::string_view rest = text; !rest.empty();) {
      const std::size_t end = std::min(rest.find('\n'), rest.size() - 1);
      const std::string_view line = rest.substr(0, end);
      rest.remove_prefix(end + 1);
      if (auto noted = decode(line)) runs.push_back(*std::move(noted));
    }
  }
  return runs;
}

Result<void> RunJournal::clear() {
  for (const UniqueFd& file : files_) TRY_VOID(empty(file));
  return {};
}

Result<void> RunJournal::add(const NotedRun& noted) {
  return write_all(files_.at(active_), encode(noted));
}

bool RunJournal::turn() {
  if (!other_is_empty_) return false;
  active_ = 1 - active_;
  other_is_empty_ = false;
  return true;
}

void RunJournal::drop() {
  const UniqueFd& other = files_.at(1 - active_);
  // One that stays full is written to the store once more by the next service, which is harmless.
  (void)empty(other);
  other_is_empty_ = true;
}

}  // namespace glovebox::session
