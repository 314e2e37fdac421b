#include "base/glob.h"

#include "base/utf8.h"

#include <algorithm>
#include <string>

namespace glovebox {
namespace {

constexpr std::string_view kAnyDepth = "**";
constexpr char32_t kNoCharacter = 0x110000;  // and up: bytes that are no UTF-8

// Takes one unit off the front of a string that is not empty.
char32_t take_unit(std::string_view& text, GlobUnit unit) {
  const auto lead = static_cast<unsigned char>(text.front());
  const std::size_t length =
      unit == GlobUnit::Byte || lead < 0x80 ? std::size_t{0} : utf8_length(text);
  char32_t value = lead;
  if (unit == GlobUnit::Character && lead >= 0x80) {
    value = length == 0 ? kNoCharacter + lead : lead & (0x7fU >> length);
  }
  for (std::size_t i = 1; i < length; ++i) {
    value = value << 6U | (static_cast<unsigned char>(text[i]) & 0x3fU);
  }
  text.remove_prefix(std::max<std::size_t>(length, 1));
  return value;
}

char32_t lower(char32_t unit) { return unit >= U'A' && unit <= U'Z' ? unit + 32 : unit; }
char32_t upper(char32_t unit) { return unit >= U'a' && unit <= U'z' ? unit - 32 : unit; }

}  // namespace

// Turns the units of a pattern into tokens.
class GlobPattern::Reader {
 public:
  Reader(std::string_view pattern, GlobSyntax syntax) : dialect_(syntax.dialect) {
    while (!pattern.empty()) text_ += take_unit(pattern, syntax.unit);
  }

  Result<std::vector<Token>> read() {
    while (at_ < text_.size()) TRY_VOID(read_one());
    return std::move(tokens_);
  }

 private:
  using Kind = Token::Kind;

  bool has_escapes() const {
    return dialect_ == GlobDialect::Search || dialect_ == GlobDialect::Ripgrep;
  }

  Result<void> read_one() {
    const bool at_component = at_component_;
    const char32_t unit = text_[at_++];
    at_component_ = unit == U'/';
    if (unit == U'*') {
      read_stars(at_component);
    } else if (unit == U'?') {
      tokens_.push_back({.kind = Kind::NoneOf});
    } else if (unit == U'[' && dialect_ != GlobDialect::Stars) {
      return read_class();
    } else if (unit == U'\\' && has_escapes()) {
      if (at_ == text_.size()) return fail(Code::Invalid, "it ends in a backslash");
      tokens_.push_back({.letter = text_[at_++]});
    } else {
      tokens_.push_back({.letter = unit});
    }
    return {};
  }

  // From behind the first star.
  void read_stars(bool at_component) {
    const std::size_t end = std::min(text_.find_first_not_of(U'*', at_), text_.size());
    const bool is_single = end == at_;
    if (is_single || dialect_ != GlobDialect::Search) {
      tokens_.push_back({.kind = Kind::Run});
    } else if (at_component && end == at_ + 1 && end < text_.size() && text_[end] == U'/') {
      tokens_.push_back({.kind = Kind::Directories});
      at_ = end + 1;
      at_component_ = true;
      return;
    } else {
      tokens_.push_back({.kind = Kind::Everything});
    }
    at_ = end;
  }

  // From behind the bracket.
  Result<void> read_class() {
    Token token{.kind = Kind::OneOf};
    std::size_t next = at_;
    const bool has_caret = dialect_ != GlobDialect::Classes;
    if (next < text_.size() && (text_[next] == U'!' || (has_caret && text_[next] == U'^'))) {
      token.kind = Kind::NoneOf;
      ++next;
    }
    const std::size_t first = next;
    while (next < text_.size() && (text_[next] != U']' || next == first)) {
      TRY(const Token::Range range, read_range(next));
      token.ranges.push_back(range);
    }
    const bool is_open = next >= text_.size();
    if (is_open && dialect_ != GlobDialect::Ripgrep) return fail(Code::Invalid, "'[' without ']'");
    if (is_open) token = {.letter = U'['};
    if (!is_open) at_ = next + 1;
    tokens_.push_back(std::move(token));
    return {};
  }

  Result<Token::Range> read_range(std::size_t& next) const {
    const bool is_escape = dialect_ == GlobDialect::Search && text_[next] == U'\\';
    if (is_escape && next + 1 < text_.size()) ++next;
    const char32_t low = text_[next++];
    const bool is_range = next + 1 < text_.size() && text_[next] == U'-' && text_[next + 1] != U']';
    if (!is_range) return Token::Range{low, low};
    const char32_t high = text_[next + 1];
    next += 2;
    if (high < low && dialect_ == GlobDialect::Ripgrep) {
      return fail(Code::Invalid, "a range ends before it begins");
    }
    return Token::Range{low, high};
  }

  GlobDialect dialect_;
  std::u32string text_;
  std::size_t at_ = 0;
  bool at_component_ = true;
  std::vector<Token> tokens_;
};

Result<GlobPattern> GlobPattern::parse(std::string_view pattern, GlobSyntax syntax) {
  GlobPattern glob(syntax);
  TRY(glob.tokens_, Reader(pattern, syntax).read());
  return glob;
}

bool GlobPattern::is_in(const Token& token, char32_t unit) const {
  const auto holds = [&](char32_t each) {
    return std::ranges::any_of(token.ranges, [&](const Token::Range& range) {
      return range.first <= each && each <= range.last;
    });
  };
  if (holds(unit)) return true;
  return syntax_.letters == GlobCase::Folded && (holds(lower(unit)) || holds(upper(unit)));
}

bool GlobPattern::takes(const Token& token, char32_t unit) const {
  switch (token.kind) {
    case Token::Kind::Letter:
      return token.letter == unit ||
             (syntax_.letters == GlobCase::Folded && lower(token.letter) == lower(unit));
    case Token::Kind::OneOf: return is_in(token, unit);
    case Token::Kind::NoneOf: return unit != U'/' && !is_in(token, unit);
    case Token::Kind::Run: return unit != U'/';
    case Token::Kind::Everything:
    case Token::Kind::Directories: return true;
  }
  return false;
}

void GlobPattern::reach(std::vector<char>& places, std::size_t place, At at) const {
  while (places[place] == 0) {
    places[place] = 1;
    if (place == tokens_.size() || tokens_[place].kind < Token::Kind::Run) return;
    // Directories are left only between two components.
    if (tokens_[place].kind == Token::Kind::Directories && at == At::Within) return;
    ++place;
  }
}

// places[i]: the first i tokens match what was read so far.
bool GlobPattern::matches(std::string_view text) const {
  std::vector<char> places(tokens_.size() + 1, 0);
  std::vector<char> next(places.size());
  reach(places, 0, At::Component);
  while (!text.empty()) {
    const char32_t unit = take_unit(text, syntax_.unit);
    std::ranges::fill(next, 0);
    bool is_alive = false;
    for (std::size_t i = 0; i < tokens_.size(); ++i) {
      if (places[i] == 0 || !takes(tokens_[i], unit)) continue;
      const bool stays = tokens_[i].kind >= Token::Kind::Run;
      reach(next, stays ? i : i + 1, unit == U'/' ? At::Component : At::Within);
      is_alive = true;
    }
    if (!is_alive) return false;
    places.swap(next);
  }
  return places.back() != 0;
}

Result<GlobPath> GlobPath::parse(std::span<const std::string_view> parts, GlobSyntax syntax) {
  GlobPath path;
  for (const std::string_view part : parts) {
    if (part != kAnyDepth) {
      TRY(GlobPattern pattern, GlobPattern::parse(part, syntax));
      path.parts_.emplace_back(std::move(pattern));
    } else if (path.parts_.empty() || path.parts_.back()) {
      path.parts_.emplace_back(std::nullopt);
    }
  }
  return path;
}

// row[j]: the parts so far match the first j names. One row per part.
GlobPath::Matches GlobPath::match(std::span<const std::string_view> names) const {
  std::vector<char> row(names.size() + 1, 0);
  std::vector<char> next(row.size());
  row[0] = 1;
  for (const std::optional<GlobPattern>& part : parts_) {
    std::ranges::fill(next, 0);
    for (std::size_t j = 0; j < row.size(); ++j) {
      if (part) {
        if (j > 0 && row[j - 1] != 0) next[j] = part->matches(names[j - 1]) ? 1 : 0;
      } else {
        next[j] = row[j] != 0 || (j > 0 && next[j - 1] != 0) ? 1 : 0;
      }
    }
    row.swap(next);
  }
  return {row.back() != 0, std::ranges::find(row, 1) != row.end()};
}

std::vector<std::string_view> split_names(std::string_view path) {
  std::vector<std::string_view> names;
  for (std::size_t at = 0; at < path.size();) {
    const std::size_t slash = std::min(path.find('/', at), path.size());
    const std::string_view name = path.substr(at, slash - at);
    at = slash + 1;
    if (!name.empty() && name != ".") names.push_back(name);
  }
  return names;
}

}  // namespace glovebox
