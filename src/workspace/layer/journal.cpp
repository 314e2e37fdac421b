#include "workspace/layer/journal.h"

#include "base/file.h"
#include "base/quantity.h"
#include "workspace/tree/printable.h"
#include "workspace/tree/private_files.h"

#include <algorithm>
#include <cerrno>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

namespace glovebox::workspace {
namespace {

constexpr std::size_t kLargestJournal = std::size_t{1} << 30;

Result<UniqueFd> open_commits(const Layer& layer) {
  return open_file_at(layer.dir(), "commits", O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
}

// The first commit makes the directory, because most layers never see one. What is in it must be
// found after a crash, so its name is on the disk before anything else is.
Result<UniqueFd> make_commits(const Layer& layer) {
  if (::mkdirat(layer.dir().get(), "commits", 0700) == 0) {
    if (::fsync(layer.dir().get()) != 0) return fail_os(errno, "sync the layer");
  } else if (errno != EEXIST) {
    return fail_os(errno, "make commits");
  }
  return open_commits(layer);
}

Result<std::vector<std::size_t>> list_numbers(BorrowedFd commits) {
  TRY(const UniqueFd dir, open_directory(commits, "."));
  TRY(const auto entries, list_directory(dir));
  std::vector<std::size_t> numbers;
  for (const Entry& entry : entries) {
    const auto number = parse_count(entry.name);
    if (number) numbers.push_back(static_cast<std::size_t>(*number));
  }
  std::sort(numbers.begin(), numbers.end());
  return numbers;
}

}  // namespace

Result<CommitRecord> CommitRecord::make(const Layer& layer, std::optional<std::size_t> undoes) {
  TRY(UniqueFd commits, make_commits(layer));
  TRY(const auto numbers, list_numbers(commits));
  const std::size_t number = numbers.empty() ? 1 : numbers.back() + 1;
  const std::string name = fmt::format("{}", number);
  if (::mkdirat(commits.get(), name.c_str(), 0700) != 0)
    return fail_os(errno, "make commit {}", name);
  TRY(UniqueFd dir, open_directory(commits, name));
  const Intent intent{.staging = fmt::format(".glovebox-{}-{}", layer.facts().id, number),
                      .undoes = undoes};
  if (undoes) TRY_VOID(write_record(dir, "undoes", encode_intent(intent), Durability::Lazy));
  TRY_VOID(write_record(dir, "intent", encode_intent(intent), Durability::Synced));
  if (::fsync(commits.get()) != 0) return fail_os(errno, "sync the journal");
  return CommitRecord(std::move(commits), std::move(dir), number);
}

Result<CommitRecord> CommitRecord::open(const Layer& layer, std::size_t number) {
  TRY(UniqueFd commits, open_commits(layer));
  TRY(UniqueFd dir, open_directory(commits, fmt::format("{}", number)));
  return CommitRecord(std::move(commits), std::move(dir), number);
}

Result<bool> CommitRecord::has(const char* name) const {
  TRY(const Node node, look(dir_, name));
  return node.exists();
}

Result<void> CommitRecord::mark(const char* name, std::string_view text) const {
  return write_record(dir_, name, text, Durability::Synced);
}

Result<std::string> CommitRecord::read(const char* name) const {
  return read_file_at(dir_, name, kLargestJournal);
}

Result<void> CommitRecord::close() const {
  if (::unlinkat(dir_.get(), "intent", 0) != 0 && errno != ENOENT) {
    return fail_os(errno, "close commit {}", number_);
  }
  return {};
}

Result<void> CommitRecord::forget() const {
  TRY_VOID(close());  // first, so that a removal that is cut short is not taken for a decision
  return remove_tree(commits_, fmt::format("{}", number_));
}

Result<std::vector<std::size_t>> list_commits(const Layer& layer) {
  const auto commits = open_commits(layer);
  if (!commits && commits.error().os_errno == ENOENT) return std::vector<std::size_t>();
  if (!commits) return unexpected(commits.error());
  return list_numbers(*commits);
}

Result<bool> has_unfinished_commit(const Layer& layer) {
  TRY(const auto numbers, list_commits(layer));
  for (const std::size_t number : numbers) {
    TRY(const CommitRecord record, CommitRecord::open(layer, number));
    TRY(const bool is_open, record.has("intent"));
    if (is_open) return true;
  }
  return false;
}

Result<UniqueFd> lock_commits(const Layer& layer) {
  TRY(UniqueFd commits, make_commits(layer));
  if (::flock(commits.get(), LOCK_EX | LOCK_NB) != 0) {
    return fail(Code::Denied, "another commit of layer {} is running", layer.facts().id);
  }
  return commits;
}

}  // namespace glovebox::workspace
