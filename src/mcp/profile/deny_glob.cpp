#include "mcp/profile/deny_glob.h"

#include "authority/paths.h"
#include "base/plain_text.h"
#include "host/path_facts.h"

#include <algorithm>
#include <optional>

namespace glovebox::mcp {
namespace {

using policy::EntryKind;

constexpr std::string_view kAnyDepth = "**";
constexpr std::string_view kWildcards = "*?[";
constexpr std::size_t kMaxPattern = 4'096;

// The end of a bracket's class that begins at `at`; `at` itself when it is none.
std::size_t skip_class(std::string_view text, std::size_t at) {
  std::size_t end = at + 1;
  if (end < text.size() && (text[end] == '!' || text[end] == '^')) ++end;
  end = text.find(']', end + 1);
  return end == std::string_view::npos ? at : end;
}

// The parts of the first braces of a pattern: what stands before them, the choices, what follows.
struct Braces {
  std::string_view before;
  std::vector<std::string_view> choices;
  std::string_view after;
};

Result<std::optional<Braces>> find_braces(std::string_view text) {
  Braces found;
  std::size_t depth = 0;
  std::size_t begin = 0;
  for (std::size_t at = 0; at < text.size(); ++at) {
    const char letter = text[at];
    if (letter == '\\') {
      ++at;
    } else if (letter == '[') {
      at = skip_class(text, at);
    } else if (letter == '{') {
      if (depth++ == 0) {
        found.before = text.substr(0, at);
        begin = at + 1;
      }
    } else if (letter == '}' && depth == 0) {
      return fail(Code::Invalid, "a '}}' without '{{'");
    } else if (depth == 1 && (letter == ',' || letter == '}')) {
      found.choices.push_back(text.substr(begin, at - begin));
      begin = at + 1;
      if (letter == ',') continue;
      found.after = text.substr(begin);
      return std::optional(std::move(found));
    } else if (letter == '}') {
      --depth;
    }
  }
  if (depth > 0) return fail(Code::Invalid, "a '{{' without '}}'");
  return std::optional<Braces>();
}

Result<std::vector<std::string>> without_braces(std::string_view pattern) {
  std::vector<std::string> done;
  std::vector<std::string> left{std::string(pattern)};
  while (!left.empty()) {
    const std::string text = std::move(left.back());
    left.pop_back();
    TRY(const std::optional<Braces> braces, find_braces(text));
    if (!braces) {
      done.push_back(text);
    } else {
      for (const std::string_view choice : braces->choices) {
        left.push_back(fmt::format("{}{}{}", braces->before, choice, braces->after));
      }
    }
    if (done.size() + left.size() > DenyGlob::kMaxAlternatives) {
      return fail(Code::Exhausted, "its braces stand for more than {} patterns",
                  DenyGlob::kMaxAlternatives);
    }
  }
  return done;
}

// The longest of the places that the pattern begins with, by component.
std::string_view literal_beginning(std::string_view pattern, std::span<const std::string> places) {
  std::string_view longest;
  for (const std::string& place : places) {
    if (host::is_within(pattern, place) && place.size() > longest.size()) {
      longest = pattern.substr(0, place.size());
    }
  }
  return longest == "/" ? std::string_view() : longest;
}

Result<void> check_spelling(std::string_view pattern) {
  if (!pattern.starts_with('/')) return fail(Code::Invalid, "it is not absolute");
  if (pattern.size() > kMaxPattern) return fail(Code::Exhausted, "it is too long");
  if (pattern.find('\0') != std::string_view::npos) return fail(Code::Invalid, "it holds a NUL");
  for (const std::string_view part : split_names(pattern)) {
    if (part == "..") return fail(Code::Invalid, "'..' is not taken");
  }
  return {};
}

// What ripgrep reads in another way than component by component.
Result<void> check_suffix(std::string_view suffix) {
  constexpr std::string_view kBlank = " \t\r\n\v\f";
  if (kBlank.find(suffix.back()) != std::string_view::npos) {
    return fail(Code::Unsupported, "it ends in a space, which ripgrep cuts off");
  }
  for (std::size_t at = 0; at < suffix.size(); ++at) {
    if (suffix[at] == '\\') {
      ++at;
    } else if (suffix[at] == '[') {
      const std::size_t end = skip_class(suffix, at);
      if (suffix.substr(at, end - at).find('/') != std::string_view::npos) {
        return fail(Code::Unsupported, "it has a '/' in brackets");
      }
      at = end;
    }
  }
  return {};
}

Error refusal(std::string_view pattern, Error problem) {
  problem.message =
      fmt::format("cannot enforce deny glob {}: {}", quoted(pattern), problem.message);
  return problem;
}

}  // namespace

Result<DenyGlob::Alternative> DenyGlob::read_alternative(std::string_view text, GlobUnit unit) {
  Alternative alternative;
  std::vector<std::string_view> parts = split_names(text);
  // Without a slash it is about names, wherever they are.
  if (parts.size() == 1 && parts[0] != kAnyDepth) parts.insert(parts.begin(), kAnyDepth);
  while (!parts.empty() && parts.back() == kAnyDepth) {
    alternative.is_contents = true;
    parts.pop_back();
  }
  TRY(alternative.path, GlobPath::parse(parts, {.dialect = GlobDialect::Ripgrep, .unit = unit}));
  if (alternative.path.size() > kMaxComponents) {
    return fail(Code::Exhausted, "it has more than {} components", kMaxComponents);
  }
  return alternative;
}

Result<DenyGlob> DenyGlob::parse(std::string_view pattern, std::span<const std::string> places) {
  DenyGlob glob;
  const auto read = [&]() -> Result<void> {
    TRY_VOID(check_spelling(pattern));
    const std::string_view literal = literal_beginning(pattern, places);
    glob.root_ = literal;
    std::string suffix;
    for (const std::string_view part : split_names(pattern.substr(literal.size()))) {
      const bool is_static = part.find_first_of(kWildcards) == std::string_view::npos;
      std::string& end = suffix.empty() && is_static ? glob.root_ : suffix;
      end.append("/").append(part);
    }
    if (glob.root_.empty()) return fail(Code::Unsupported, "it begins at the root directory");
    if (suffix.empty()) return {};
    TRY_VOID(check_suffix(suffix));
    TRY(const std::vector<std::string> texts, without_braces(suffix));
    for (const std::string& text : texts) {
      for (const GlobUnit unit : {GlobUnit::Byte, GlobUnit::Character}) {
        TRY(Alternative alternative, read_alternative(text, unit));
        glob.alternatives_.push_back(std::move(alternative));
      }
    }
    return {};
  };
  auto done = read();
  if (!done) return tl::unexpected(refusal(pattern, std::move(done).error()));
  return glob;
}

bool DenyGlob::matches_one(const Alternative& alternative, std::string_view below, EntryKind kind) {
  if (alternative.is_contents && kind != EntryKind::Directory) return false;
  return alternative.path.match(split_names(below)).whole;
}

bool DenyGlob::matches(std::string_view below, EntryKind kind) const {
  return std::ranges::any_of(alternatives_, [&](const Alternative& alternative) {
    return matches_one(alternative, below, kind);
  });
}

namespace {

class Search {
 public:
  Search(const DenyGlob& glob, const std::string& root, std::span<const std::string> kept,
         policy::Lister& lister)
      : glob_(glob), root_(root), kept_(kept), lister_(lister) {}

  Result<std::vector<std::string>> run() {
    TRY(const std::optional<EntryKind> kind, lister_.look_at(root_));
    if (!kind) return std::move(matches_);
    TRY_VOID(arrive({"", glob_.matches("", *kind)}, *kind));
    while (!places_.empty()) {
      const Place place = std::move(places_.back());
      places_.pop_back();
      TRY_VOID(visit(place));
    }
    return std::move(matches_);
  }

 private:
  struct Place {
    std::string below;       // relative to the root
    bool is_denied = false;  // it matches, or lies in something that does
  };

  std::string path_of(const Place& place) const {
    return place.below.empty() ? root_ : fmt::format("{}/{}", root_, place.below);
  }

  Result<void> visit(const Place& place) {
    TRY(const std::vector<policy::DirectoryEntry> entries,
        lister_.list(path_of(place), kMaxGlobEntries - looked_at_));
    looked_at_ += entries.size();
    for (const policy::DirectoryEntry& entry : entries) {
      if (entry.kind == EntryKind::Symlink) continue;
      Place next{place.below.empty() ? entry.name : fmt::format("{}/{}", place.below, entry.name)};
      next.is_denied = place.is_denied || glob_.matches(next.below, entry.kind);
      TRY_VOID(arrive(std::move(next), entry.kind));
    }
    return {};
  }

  Result<void> arrive(Place place, EntryKind kind) {
    const std::string path = path_of(place);
    const bool stays =
        kind == EntryKind::Directory && std::ranges::any_of(kept_, [&](const std::string& each) {
          return host::is_within(each, path);
        });
    if (place.is_denied && !stays) return add(path);
    if (kind == EntryKind::Directory) places_.push_back(std::move(place));
    return {};
  }

  Result<void> add(const std::string& path) {
    if (!authority::AbsolutePath::parse(path)) {
      return fail(Code::Unsupported, "it matches {}, which no rule can name (rename the file)",
                  quoted(path));
    }
    if (matches_.size() == kMaxGlobMatches) {
      return fail(Code::Exhausted, "it matches more than {} paths (deny a directory instead)",
                  kMaxGlobMatches);
    }
    matches_.push_back(path);
    return {};
  }

  const DenyGlob& glob_;
  const std::string& root_;
  std::span<const std::string> kept_;
  policy::Lister& lister_;
  std::vector<Place> places_;
  std::vector<std::string> matches_;
  std::size_t looked_at_ = 0;
};

}  // namespace

Result<std::vector<std::string>> find_matches(const DenyGlob& glob,
                                              const std::string& resolved_root,
                                              std::span<const std::string> kept,
                                              policy::Lister& lister) {
  return Search(glob, resolved_root, kept, lister).run();
}

}  // namespace glovebox::mcp
