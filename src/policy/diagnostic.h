// What is wrong with a policy document: where, what, and what to do about it.
//
// A compiler of policies reports everything it finds, not the first thing, so its failures are a
// list. Each entry is one line of text whatever a document holds: foreign text is quoted.
#pragma once

#include <compare>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace glovebox::policy {

// A place in a document. Lines and columns count from 1, columns in bytes; line 0 is the document
// as a whole.
struct Where {
  std::string file;
  std::size_t line = 0;
  std::size_t column = 0;

  friend std::strong_ordering operator<=>(const Where&, const Where&) = default;
};

struct Diagnostic {
  Where where;
  std::string what;  // "unknown key 'conect'"
  std::string hint;  // "did you mean 'connect'?", or empty

  friend std::strong_ordering operator<=>(const Diagnostic&, const Diagnostic&) = default;
};

using Diagnostics = std::vector<Diagnostic>;

// More than this are counted, not listed: a hostile document must not become a larger report.
inline constexpr std::size_t kMaxDiagnostics = 100;

// "policies/x.yaml:12:5", or only the file where there is no line.
std::string to_text(const Where& where);
// "policies/x.yaml:12:5: unknown key 'conect'; did you mean 'connect'?"
std::string to_text(const Diagnostic& diagnostic);
// One line each, in the order of the document; of more than kMaxDiagnostics the last line says how
// many there are.
std::string to_text(const Diagnostics& diagnostics);

// A list of one problem with the file as a whole.
Diagnostics about_file(std::string_view file, std::string what, std::string hint = {});

// The word that `text` was probably meant to be: the closest by edits (a swap of neighbours counts
// as one), within a third of its length. Empty when none is close.
std::string_view find_nearest(std::string_view text, std::span<const std::string_view> words);

// "did you mean 'connect'?", or else `otherwise`.
std::string nearest_hint(std::string_view text, std::span<const std::string_view> words,
                         std::string otherwise = {});

}  // namespace glovebox::policy
