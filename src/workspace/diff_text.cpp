#include "base/file.h"
#include "workspace/diff.h"
#include "workspace/diff_lines.h"
#include "workspace/text.h"

#include <algorithm>
#include <array>

namespace glovebox::workspace {
namespace {

constexpr std::size_t kContext = 3;
constexpr std::size_t kBinaryProbe = 8000;
constexpr std::string_view kNowhere = "/dev/null";

// The two sides of one change as text; `is_shown` is false when they are not to be shown.
struct Texts {
  std::string before;
  std::string after;
  bool is_shown = true;
};

// One side: a file's content, a link's target, or nothing.
Result<std::string> read_side(BorrowedFd root, const std::string& path, const Node& node,
                              const std::string& target, bool& is_shown) {
  if (node.is(NodeType::Symlink)) return target;
  if (!node.is(NodeType::File)) return std::string();
  if (node.size > kLargestTextFile) {
    is_shown = false;
    return std::string();
  }
  const auto fd = open_regular_beneath(root, path);
  auto text = fd ? read_fd(*fd, kLargestTextFile) : Result<std::string>(unexpected(fd.error()));
  if (!text) {
    is_shown = false;  // gone, or grown, since the comparison
    return std::string();
  }
  const std::string_view head = std::string_view(*text).substr(0, kBinaryProbe);
  if (head.find('\0') != std::string_view::npos) is_shown = false;
  return text;
}

Result<Texts> read_texts(const Change& change, const Uppers& uppers, const Uppers& before) {
  Texts texts;
  const std::string& from = change.kind == ChangeKind::Renamed ? change.from : change.path;
  TRY(texts.before, read_side(before.at(change.level_before), from, change.before,
                              change.target_before, texts.is_shown));
  TRY(texts.after, read_side(uppers.at(change.level), change.path, change.after,
                             change.target_after, texts.is_shown));
  return texts;
}

bool has_text(const Change& change) {
  const auto is_text = [](const Node& node) {
    return node.is(NodeType::File) || node.is(NodeType::Symlink);
  };
  if (change.kind == ChangeKind::Modified) return change.aspects.content || change.aspects.type;
  return change.kind == ChangeKind::Added
             ? is_text(change.after)
             : change.kind == ChangeKind::Deleted && is_text(change.before);
}

// Git's six digits: type and permissions.
std::string git_mode(const Node& node) {
  const unsigned type = node.is(NodeType::Symlink) ? 0120000U : 0100000U;
  return fmt::format("{:06o}", type | (node.is(NodeType::Symlink) ? 0U : node.mode));
}

// Writes the diff of one change.
class Writer {
 public:
  Writer(const Change& change, Reader reader, const Sink& sink)
      : change_(change), reader_(reader), sink_(sink) {}

  Result<void> write(const Texts& texts) {
    TRY_VOID(sink_(header()));
    if (!has_text(change_)) return {};
    const std::string before = change_.before.exists() ? name("a/", change_.path) : nowhere();
    const std::string after = change_.after.exists() ? name("b/", change_.path) : nowhere();
    if (!texts.is_shown)
      return sink_(fmt::format("Binary files {} and {} differ\n", before, after));
    const auto old_lines = split_lines(texts.before);
    const auto new_lines = split_lines(texts.after);
    const auto edits = diff_lines(old_lines, new_lines);
    if (edits.empty()) return {};
    TRY_VOID(sink_(fmt::format("--- {}\n+++ {}\n", before, after)));
    for (std::size_t first = 0; first < edits.size();) {
      std::size_t last = first;
      while (last + 1 < edits.size() &&
             edits[last + 1].before_begin - edits[last].before_end <= 2 * kContext) {
        ++last;
      }
      TRY_VOID(write_hunk(old_lines, new_lines, edits, first, last));
      first = last + 1;
    }
    return {};
  }

 private:
  static std::string nowhere() { return std::string(kNowhere); }
  static std::string name(std::string_view side, std::string_view path) {
    return quoted_path(fmt::format("{}{}", side, path));
  }

  std::string header() const {
    const std::string& from = change_.kind == ChangeKind::Renamed ? change_.from : change_.path;
    std::string out = fmt::format("diff --git {} {}\n", name("a/", from), name("b/", change_.path));
    switch (change_.kind) {
      case ChangeKind::Added: return out + added_header();
      case ChangeKind::Deleted: return out + deleted_header();
      case ChangeKind::Refused: return out + fmt::format("refused: {}\n", change_.problem);
      case ChangeKind::Renamed:
        return out + mode_header() +
               fmt::format("similarity index 100%\nrename from {}\nrename to {}\n",
                           quoted_path(change_.from), quoted_path(change_.path));
      case ChangeKind::Modified: break;
    }
    out += mode_header();
    if (change_.aspects.xattrs) out += "attributes differ\n";
    return out;
  }

  static bool is_plain(const Node& node) {
    return node.is(NodeType::File) || node.is(NodeType::Symlink);
  }
  std::string added_header() const {
    if (is_plain(change_.after)) return fmt::format("new file mode {}\n", git_mode(change_.after));
    return fmt::format("new {} mode {:04o}\n", to_text(change_.after.type), change_.after.mode);
  }
  std::string deleted_header() const {
    if (is_plain(change_.before)) {
      return fmt::format("deleted file mode {}\n", git_mode(change_.before));
    }
    return fmt::format("deleted {}\n", to_text(change_.before.type));
  }
  std::string mode_header() const {
    if (change_.aspects.type && !(is_plain(change_.before) && is_plain(change_.after))) {
      return fmt::format("type {} becomes {}\n", to_text(change_.before.type),
                         to_text(change_.after.type));
    }
    if (!change_.aspects.mode && !change_.aspects.type) return {};
    return fmt::format("old mode {}\nnew mode {}\n", git_mode(change_.before),
                       git_mode(change_.after));
  }

  // A range as unified diffs have it: an empty one names the line before it.
  static std::string range(std::size_t begin, std::size_t end) {
    if (end - begin == 1) return fmt::format("{}", begin + 1);
    return fmt::format("{},{}", end == begin ? begin : begin + 1, end - begin);
  }

  Result<void> write_hunk(const std::vector<std::string_view>& before,
                          const std::vector<std::string_view>& after,
                          const std::vector<Edit>& edits, std::size_t first, std::size_t last) {
    const std::size_t lead = std::min(edits[first].before_begin, kContext);
    const std::size_t tail = std::min(before.size() - edits[last].before_end, kContext);
    TRY_VOID(sink_(fmt::format(
        "@@ -{} +{} @@\n", range(edits[first].before_begin - lead, edits[last].before_end + tail),
        range(edits[first].after_begin - lead, edits[last].after_end + tail))));
    std::size_t at = edits[first].before_begin - lead;
    for (std::size_t i = first; i <= last; ++i) {
      const Edit& edit = edits[i];
      TRY_VOID(write_lines(' ', before, at, edit.before_begin));
      TRY_VOID(write_lines('-', before, edit.before_begin, edit.before_end));
      TRY_VOID(write_lines('+', after, edit.after_begin, edit.after_end));
      at = edit.before_end;
    }
    return write_lines(' ', before, at, at + tail);
  }

  Result<void> write_lines(char sign, const std::vector<std::string_view>& lines, std::size_t begin,
                           std::size_t end) {
    std::string out;
    for (std::size_t i = begin; i < end; ++i) {
      std::string_view line = lines[i];
      const bool has_newline = line.ends_with('\n');
      if (has_newline) line.remove_suffix(1);
      out += sign;
      out += reader_ == Reader::Terminal ? printable_line(line) : std::string(line);
      out += has_newline ? "\n" : "\n\\ No newline at end of file\n";
    }
    return sink_(out);
  }

  const Change& change_;
  Reader reader_;
  const Sink& sink_;
};

struct Counts {
  std::size_t added = 0;
  std::size_t deleted = 0;
};

Counts count_lines(const Texts& texts) {
  const auto edits = diff_lines(split_lines(texts.before), split_lines(texts.after));
  Counts counts;
  for (const Edit& edit : edits) {
    counts.added += edit.after_end - edit.after_begin;
    counts.deleted += edit.before_end - edit.before_begin;
  }
  return counts;
}

Result<void> write_stat_line(const Change& change, const Texts& texts, Counts& sum,
                             const Sink& sink) {
  std::string what;
  if (change.kind == ChangeKind::Refused) {
    what = fmt::format("refused: {}", change.problem);
  } else if (has_text(change) && texts.is_shown) {
    const Counts counts = count_lines(texts);
    sum.added += counts.added;
    sum.deleted += counts.deleted;
    what = fmt::format("+{} -{}", counts.added, counts.deleted);
  } else if (has_text(change)) {
    what = fmt::format("binary, {} -> {} bytes", change.before.size, change.after.size);
  } else {
    what = change.kind == ChangeKind::Renamed ? "same content" : "no lines";
  }
  return sink(fmt::format(" {} | {}\n", to_text(change), what));
}

}  // namespace

Result<void> write_unified(const std::vector<Change>& changes, const Uppers& uppers,
                           const Uppers& before, Reader reader, const Sink& sink) {
  for (const Change& change : changes) {
    Texts texts;
    if (has_text(change)) {
      TRY(texts, read_texts(change, uppers, before));
    }
    TRY_VOID(Writer(change, reader, sink).write(texts));
  }
  return {};
}

Result<void> write_stat(const std::vector<Change>& changes, const Uppers& uppers,
                        const Uppers& before, const Sink& sink) {
  Counts sum;
  for (const Change& change : changes) {
    Texts texts;
    if (has_text(change)) {
      TRY(texts, read_texts(change, uppers, before));
    }
    TRY_VOID(write_stat_line(change, texts, sum, sink));
  }
  return sink(fmt::format(" {} changes, {} lines added, {} lines deleted\n", changes.size(),
                          sum.added, sum.deleted));
}

}  // namespace glovebox::workspace
