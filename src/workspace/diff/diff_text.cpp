// A unified diff that git-apply(1) and patch(1) take, and its statistics.
//
// Both programs skip lines that belong to no patch, so what a patch has no words for is told in
// lines that begin with '#': directories, special files, extended attributes, permissions beyond
// the execute bit, changes that are refused.
#include "base/file.h"
#include "workspace/diff/diff.h"
#include "workspace/diff/diff_lines.h"
#include "workspace/git/git_binary.h"
#include "workspace/tree/printable.h"

#include <algorithm>
#include <array>

namespace glovebox::workspace {
namespace {

constexpr std::size_t kContext = 3;
constexpr std::size_t kBinaryProbe = 8000;
constexpr std::string_view kNowhere = "/dev/null";

// How the two sides of a change can be shown. Of two sides, the later word counts.
enum class Form : std::uint8_t {
  Lines,
  Whole,   // as bytes, for they are no text or too much of it
  Hidden,  // too large, or gone or grown since the comparison
};

struct Side {
  std::string content;
  Form form = Form::Lines;
};

struct Sides {
  std::string before;
  std::string after;
  Form form = Form::Lines;
};

// One side: a file's content, a link's target, or nothing.
Side read_side(BorrowedFd root, const std::string& path, const Node& node,
               const std::string& target) {
  if (node.is(NodeType::Symlink)) return {target};
  if (!node.is(NodeType::File)) return {};
  if (node.size > kLargestPatchedFile) return {.content = {}, .form = Form::Hidden};
  const auto fd = open_regular_beneath(root, path);
  auto text = fd ? read_fd(*fd, kLargestPatchedFile) : Result<std::string>(unexpected(fd.error()));
  if (!text) return {.content = {}, .form = Form::Hidden};
  const std::string_view head = std::string_view(*text).substr(0, kBinaryProbe);
  const bool is_text =
      text->size() <= kLargestTextFile && head.find('\0') == std::string_view::npos;
  return {.content = *std::move(text), .form = is_text ? Form::Lines : Form::Whole};
}

Sides read_sides(const Change& change, const Uppers& uppers, const Uppers& before) {
  const std::string& from = change.kind == ChangeKind::Renamed ? change.from : change.path;
  Side old_side =
      read_side(before.at(change.level_before), from, change.before, change.target_before);
  Side new_side =
      read_side(uppers.at(change.level), change.path, change.after, change.target_after);
  const Form form = std::max(old_side.form, new_side.form);
  return {std::move(old_side.content), std::move(new_side.content), form};
}

bool is_plain(const Node& node) { return node.is(NodeType::File) || node.is(NodeType::Symlink); }

bool has_text(const Change& change) {
  if (change.kind == ChangeKind::Modified) return change.aspects.content || change.aspects.type;
  return change.kind == ChangeKind::Added
             ? is_plain(change.after)
             : change.kind == ChangeKind::Deleted && is_plain(change.before);
}

// Git's six digits. Of a file's permissions git knows whether its owner may execute it.
std::string git_mode(const Node& node) {
  if (node.is(NodeType::Symlink)) return "120000";
  return (node.mode & 0100U) != 0 ? "100755" : "100644";
}

// One that a patch says in two parts: another type at the same name, and a file that moves into or
// out of a directory of its own name, for which patch(1) has no order of steps.
bool is_twofold(const Change& change) {
  if (change.kind == ChangeKind::Modified) return change.aspects.type;
  return change.kind == ChangeKind::Renamed &&
         (is_below(change.path, change.from) || is_below(change.from, change.path));
}

Change removal_of(const Change& change) {
  Change half{.kind = ChangeKind::Deleted, .path = change.path, .before = change.before};
  if (change.kind == ChangeKind::Renamed) half.path = change.from;
  half.target_before = change.target_before;
  half.level_before = change.level_before;
  return half;
}

Change addition_of(const Change& change) {
  Change half{.kind = ChangeKind::Added, .path = change.path, .after = change.after};
  half.target_after = change.target_after;
  half.level = change.level;
  return half;
}

// Lines about a change for which a patch has no words.
std::string remarks_on(const Change& change) {
  const std::string path = quoted_path(change.path);
  if (change.kind == ChangeKind::Refused) {
    return fmt::format("# refused {}: {}\n", path, printable(change.problem));
  }
  if (change.kind == ChangeKind::Deleted) {
    if (is_plain(change.before)) return {};
    return fmt::format("# deleted {} {}\n", to_text(change.before.type), path);
  }
  const unsigned mode = change.after.mode;
  if (change.kind == ChangeKind::Added) {
    if (!is_plain(change.after)) {
      return fmt::format("# new {} {}, mode {:04o}\n", to_text(change.after.type), path, mode);
    }
    constexpr std::array kUsual{0644U, 0664U, 0755U, 0775U};
    const bool is_usual = std::ranges::find(kUsual, mode) != kUsual.end();
    if (is_usual || change.after.is(NodeType::Symlink)) return {};
    return fmt::format("# mode of {}: {:04o}\n", path, mode);
  }
  std::string out;
  if (change.aspects.mode) {
    out += fmt::format("# mode of {}: {:04o}, was {:04o}\n", path, mode, change.before.mode);
  }
  if (change.aspects.xattrs) out += fmt::format("# attributes of {} differ\n", path);
  return out;
}

// Writes the diff of one change, which is not twofold.
class Writer {
 public:
  Writer(const Change& change, Reader reader, const Sink& sink)
      : change_(change), reader_(reader), sink_(sink) {}

  Result<void> write(const Sides& sides) {
    TRY_VOID(sink_(remarks_on(change_)));
    const std::string extended = extended_header();
    // The same on both sides: it changed since the comparison. A header alone is no patch.
    const bool is_same = sides.form != Form::Hidden && sides.before == sides.after;
    if (extended.empty() && (is_same || !has_text(change_))) return {};
    const std::string& from = change_.kind == ChangeKind::Renamed ? change_.from : change_.path;
    TRY_VOID(sink_(
        fmt::format("diff --git {} {}\n{}", name("a/", from), name("b/", change_.path), extended)));
    if (!has_text(change_)) return {};
    return sides.form == Form::Lines ? write_lines_of(sides) : write_whole(sides);
  }

 private:
  static std::string name(std::string_view side, std::string_view path) {
    return quoted_path(fmt::format("{}{}", side, path));
  }
  std::string name_before() const {
    return change_.before.exists() ? name("a/", change_.path) : std::string(kNowhere);
  }
  std::string name_after() const {
    return change_.after.exists() ? name("b/", change_.path) : std::string(kNowhere);
  }

  std::string extended_header() const {
    switch (change_.kind) {
      case ChangeKind::Added:
        if (!is_plain(change_.after)) return {};
        return fmt::format("new file mode {}\n", git_mode(change_.after));
      case ChangeKind::Deleted:
        if (!is_plain(change_.before)) return {};
        return fmt::format("deleted file mode {}\n", git_mode(change_.before));
      case ChangeKind::Renamed:
        return mode_header() + fmt::format("similarity index 100%\nrename from {}\nrename to {}\n",
                                           quoted_path(change_.from), quoted_path(change_.path));
      case ChangeKind::Modified: return mode_header();
      case ChangeKind::Refused: break;
    }
    return {};
  }

  std::string mode_header() const {
    const bool is_file = change_.before.is(NodeType::File) && change_.after.is(NodeType::File);
    if (!is_file || git_mode(change_.before) == git_mode(change_.after)) return {};
    return fmt::format("old mode {}\nnew mode {}\n", git_mode(change_.before),
                       git_mode(change_.after));
  }

  // A terminal has no use for the bytes. Without them git-apply refuses the whole patch, so that
  // nothing is left out unseen.
  Result<void> write_whole(const Sides& sides) {
    if (reader_ == Reader::Terminal || sides.form == Form::Hidden) {
      return sink_(fmt::format("Binary files {} and {} differ\n", name_before(), name_after()));
    }
    TRY_VOID(write_index(sides));
    TRY(const std::string patch, git_binary_patch(sides.before, sides.after));
    return sink_(patch);
  }

  Result<void> write_index(const Sides& sides) {
    const auto id = [](const Node& node, std::string_view content) {
      return node.exists() ? git_blob_id(content) : no_git_blob();
    };
    return sink_(fmt::format("index {}..{}{}\n", id(change_.before, sides.before),
                             id(change_.after, sides.after), is_moved_link() ? " 120000" : ""));
  }

  bool is_moved_link() const {
    return change_.kind == ChangeKind::Modified && change_.after.is(NodeType::Symlink);
  }

  // Without lines an empty file comes or goes, which patch(1) does not believe without the ids; and
  // of a link it must be told that it is one.
  Result<void> write_lines_of(const Sides& sides) {
    const auto old_lines = split_lines(sides.before);
    const auto new_lines = split_lines(sides.after);
    const auto edits = diff_lines(old_lines, new_lines);
    if (edits.empty() || is_moved_link()) TRY_VOID(write_index(sides));
    if (edits.empty()) return {};
    TRY_VOID(sink_(fmt::format("--- {}\n+++ {}\n", name_before(), name_after())));
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

Counts count_lines(const Sides& sides) {
  const auto edits = diff_lines(split_lines(sides.before), split_lines(sides.after));
  Counts counts;
  for (const Edit& edit : edits) {
    counts.added += edit.after_end - edit.after_begin;
    counts.deleted += edit.before_end - edit.before_begin;
  }
  return counts;
}

Result<void> write_stat_line(const Change& change, const Sides& sides, Counts& sum,
                             const Sink& sink) {
  std::string what;
  if (change.kind == ChangeKind::Refused) {
    what = fmt::format("refused: {}", change.problem);
  } else if (has_text(change) && sides.form == Form::Lines) {
    const Counts counts = count_lines(sides);
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

Result<void> write_one(const Change& change, const Uppers& uppers, const Uppers& before,
                       Reader reader, const Sink& sink) {
  const Sides sides = has_text(change) ? read_sides(change, uppers, before) : Sides{};
  return Writer(change, reader, sink).write(sides);
}

}  // namespace

// patch(1) goes step by step, so what is removed goes first: it makes room for what takes its
// place.
Result<void> write_unified(const std::vector<Change>& changes, const Uppers& uppers,
                           const Uppers& before, Reader reader, const Sink& sink) {
  for (const Change& change : changes) {
    if (change.kind == ChangeKind::Deleted) {
      TRY_VOID(write_one(change, uppers, before, reader, sink));
    } else if (is_twofold(change)) {
      TRY_VOID(write_one(removal_of(change), uppers, before, reader, sink));
    }
  }
  for (const Change& change : changes) {
    if (change.kind == ChangeKind::Deleted) continue;
    if (is_twofold(change)) {
      TRY_VOID(write_one(addition_of(change), uppers, before, reader, sink));
    } else {
      TRY_VOID(write_one(change, uppers, before, reader, sink));
    }
  }
  return {};
}

Result<void> write_stat(const std::vector<Change>& changes, const Uppers& uppers,
                        const Uppers& before, const Sink& sink) {
  Counts sum;
  for (const Change& change : changes) {
    const Sides sides = has_text(change) ? read_sides(change, uppers, before) : Sides{};
    TRY_VOID(write_stat_line(change, sides, sum, sink));
  }
  return sink(fmt::format(" {} changes, {} lines added, {} lines deleted\n", changes.size(),
                          sum.added, sum.deleted));
}

}  // namespace glovebox::workspace
