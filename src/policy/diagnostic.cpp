#include "policy/diagnostic.h"

#include "base/plain_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace glovebox::policy {
namespace {

constexpr std::size_t kLongestWord = 64;  // no word of ours is longer, and distances cost n * m

// Edits from `left` to `right`: inserting, dropping, replacing a byte, swapping two neighbours.
std::size_t distance(std::string_view left, std::string_view right) {
  std::vector<std::vector<std::size_t>> rows(left.size() + 1,
                                             std::vector<std::size_t>(right.size() + 1));
  for (std::size_t i = 0; i <= left.size(); ++i) rows[i][0] = i;
  for (std::size_t j = 0; j <= right.size(); ++j) rows[0][j] = j;
  for (std::size_t i = 1; i <= left.size(); ++i) {
    for (std::size_t j = 1; j <= right.size(); ++j) {
      const std::size_t change = left[i - 1] == right[j - 1] ? 0 : 1;
      rows[i][j] = std::min({rows[i - 1][j] + 1, rows[i][j - 1] + 1, rows[i - 1][j - 1] + change});
      const bool swapped =
          i > 1 && j > 1 && left[i - 1] == right[j - 2] && left[i - 2] == right[j - 1];
      if (swapped) rows[i][j] = std::min(rows[i][j], rows[i - 2][j - 2] + 1);
    }
  }
  return rows[left.size()][right.size()];
}

// "mem" for "memory": a beginning of at least three letters is as good as one edit.
std::size_t farness(std::string_view text, std::string_view word) {
  const std::size_t edits = distance(text, word);
  return text.size() >= 3 && word.starts_with(text) ? std::min<std::size_t>(edits, 1) : edits;
}

}  // namespace

std::string to_text(const Where& where) {
  std::string file = one_line(where.file);
  if (where.line == 0) return file;
  return fmt::format("{}:{}:{}", file, where.line, where.column);
}

std::string to_text(const Diagnostic& diagnostic) {
  std::string text = fmt::format("{}: {}", to_text(diagnostic.where), diagnostic.what);
  if (!diagnostic.hint.empty()) text += "; " + diagnostic.hint;
  return one_line(text);
}

std::string to_text(const Diagnostics& diagnostics) {
  std::string text;
  const std::size_t shown = std::min(diagnostics.size(), kMaxDiagnostics);
  for (std::size_t i = 0; i < shown; ++i) text += to_text(diagnostics[i]) + "\n";
  if (shown < diagnostics.size()) text += fmt::format("and {} more\n", diagnostics.size() - shown);
  return text;
}

Diagnostics about_file(std::string_view file, std::string what, std::string hint) {
  return {{{std::string(file), 0, 0}, std::move(what), std::move(hint)}};
}

std::string_view find_nearest(std::string_view text, std::span<const std::string_view> words) {
  if (text.empty() || text.size() > kLongestWord) return {};
  const std::size_t bound = std::max<std::size_t>(1, text.size() / 3);
  std::string_view nearest;
  std::size_t least = bound + 1;
  for (const std::string_view word : words) {
    if (word.size() > kLongestWord) continue;
    const std::size_t far = farness(text, word);
    if (far >= least) continue;
    nearest = word;
    least = far;
  }
  return nearest;
}

std::string nearest_hint(std::string_view text, std::span<const std::string_view> words,
                         std::string otherwise) {
  const std::string_view nearest = find_nearest(text, words);
  if (nearest.empty()) return otherwise;
  return fmt::format("did you mean '{}'?", nearest);
}

}  // namespace glovebox::policy
