#include "workspace/git/git_refs.h"

#include "base/file.h"

#include <algorithm>
#include <cctype>
#include <set>

namespace glovebox::workspace {
namespace {

constexpr std::size_t kDeepestRef = 32;
constexpr std::size_t kLargestLooseRef = 4096;
constexpr std::size_t kMostLogged = 20'000;

auto broken(std::string_view what) { return fail(Code::Invalid, "git ref: {}", what); }

std::string_view take_line(std::string_view& text) {
  const std::size_t end = std::min(text.find('\n'), text.size());
  const std::string_view line = text.substr(0, end);
  text.remove_prefix(std::min(end + 1, text.size()));
  return line;
}

// Adds what is in the directory of refs called `name`.
void read_directory(BorrowedFd dir, const std::string& name, std::size_t depth, GitRefs& refs) {
  const auto entries = list_directory(dir);
  if (!entries || depth > kDeepestRef) return;
  for (const Entry& entry : *entries) {
    if (refs.size() >= kMostRefs) return;
    const std::string below = join_path(name, entry.name);
    if (const auto child = open_directory(dir, entry.name)) {
      read_directory(*child, below, depth + 1, refs);
      continue;
    }
    const auto file = open_regular(dir, entry.name);
    if (!file) continue;
    const auto text = read_fd(*file, kLargestLooseRef);
    if (!text) continue;
    const auto parsed = parse_ref_file(*text);
    if (parsed && parsed->ids.size() == 1) refs.insert_or_assign(below, parsed->ids.front());
  }
}

Result<std::string> read_beneath(BorrowedFd root, const std::string& path) {
  TRY(const UniqueFd file, open_regular_beneath(root, path));
  return read_fd(file, kLargestRefFile);
}

void read_head(BorrowedFd root, const std::string& dir, const std::string& name, GitRefs& refs) {
  const auto text = read_beneath(root, join_path(dir, name));
  if (!text) return;
  const auto parsed = parse_ref_file(*text);
  if (parsed && parsed->ids.size() == 1) refs.insert_or_assign(name, parsed->ids.front());
}

// "git checkout -" goes to what the last message of this kind names, if that is a whole id. git
// does not ask for the tab before a message.
void add_former_place(std::string_view line, std::set<ObjectId>& ids) {
  constexpr std::string_view kMoving = "checkout: moving from ";
  for (std::size_t at = line.find(kMoving); at != std::string_view::npos;
       at = line.find(kMoving, at + 1)) {
    const std::string_view from = line.substr(at + kMoving.size());
    std::string id(from.substr(0, from.find(' ')));
    std::ranges::transform(id, id.begin(), [](unsigned char c) { return std::tolower(c); });
    if (is_object_id(id) && !is_null_id(id)) ids.insert(std::move(id));
  }
}

Result<UniqueFd> open_listing(BorrowedFd root, const std::string& path) {
  TRY(const UniqueFd dir, open_directory_beneath(root, path));
  return open_directory(dir, ".");
}

}  // namespace

Result<GitRefs> parse_packed_refs(std::string_view text) {
  GitRefs refs;
  while (!text.empty()) {
    const std::string_view line = take_line(text);
    if (line.empty() || line.front() == '#') continue;
    if (line.front() == '^') {
      if (!is_object_id(line.substr(1))) return broken("an id that is none");
      continue;
    }
    const std::size_t space = line.find(' ');
    if (space == std::string_view::npos || !is_object_id(line.substr(0, space))) {
      return broken("a line of packed-refs that is none");
    }
    if (refs.size() == kMostRefs) return fail(Code::Exhausted, "too many refs");
    // Of two lines git takes the one that its search meets first, which is not to be foretold.
    const bool is_first =
        refs.emplace(std::string(line.substr(space + 1)), ObjectId(line.substr(0, space))).second;
    if (!is_first) return broken("packed-refs names a ref twice");
  }
  return refs;
}

Result<RefFile> parse_ref_file(std::string_view text) {
  RefFile file;
  if (text.starts_with("ref:")) {
    text.remove_prefix(4);
    std::string_view target = take_line(text);
    target.remove_prefix(std::min(target.find_first_not_of(" \t"), target.size()));
    file.target = target.substr(0, target.find_last_not_of(" \t\r") + 1);
    if (file.target.empty() || !text.empty()) return broken("a ref to nothing");
    return file;
  }
  while (!text.empty()) {
    const std::string_view line = take_line(text);
    const std::string_view id = line.substr(0, line.find_first_of(" \t\r"));
    if (!is_object_id(id)) return broken("a file of a ref that is none");
    if (file.ids.size() == kMostLogged) return fail(Code::Exhausted, "too many refs");
    file.ids.emplace_back(id);
  }
  return file;
}

bool begins_as_ref(std::string_view text) {
  constexpr std::size_t kShortest = 40;  // an id, in letters of any size
  const std::size_t digits = text.find_first_not_of("0123456789abcdefABCDEF");
  return text.starts_with("ref:") || std::min(digits, text.size()) >= kShortest;
}

Result<std::vector<ObjectId>> parse_reflog(std::string_view text) {
  std::set<ObjectId> ids;
  while (!text.empty()) {
    const std::string_view line = take_line(text);
    const std::size_t first = line.find(' ');
    if (first == std::string_view::npos) return broken("a line of a reflog that is none");
    const std::string_view rest = line.substr(first + 1);
    // The older one, too: git falls back on it where a log begins.
    for (const std::string_view id : {line.substr(0, first), rest.substr(0, rest.find(' '))}) {
      if (!is_object_id(id)) return broken("a line of a reflog that is none");
      if (!is_null_id(id)) ids.emplace(id);
    }
    add_former_place(rest, ids);
    if (ids.size() > kMostLogged) return fail(Code::Exhausted, "a reflog that is too long");
  }
  return std::vector<ObjectId>(ids.begin(), ids.end());
}

GitRefs read_refs(BorrowedFd root, const std::string& dir) {
  GitRefs refs;
  if (const auto text = read_beneath(root, join_path(dir, "packed-refs"))) {
    if (auto packed = parse_packed_refs(*text)) refs = *std::move(packed);
  }
  // A loose file counts more than a packed ref of the same name.
  if (const auto loose = open_listing(root, join_path(dir, "refs"))) {
    read_directory(*loose, "refs", 0, refs);
  }
  read_head(root, dir, "HEAD", refs);
  if (const auto worktrees = open_listing(root, join_path(dir, "worktrees"))) {
    const auto entries = list_directory(*worktrees);
    for (std::size_t i = 0; entries && i < entries->size(); ++i) {
      read_head(root, dir, fmt::format("worktrees/{}/HEAD", (*entries)[i].name), refs);
    }
  }
  return refs;
}

}  // namespace glovebox::workspace
