#include "mcp/repl/pager.h"

#include "mcp/repl/base64.h"
#include "mcp/repl/repl_output.h"

#include <boost/json/object.hpp>
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>

namespace glovebox::mcp {
namespace {

namespace json = boost::json;

constexpr std::size_t kImageChars = 800;
constexpr std::size_t kMostPages = 20;  // that one command shows
constexpr std::size_t kMostListed = 1'000;
constexpr std::size_t kMostContext = 50;
constexpr std::size_t kMostLineChars = 200;  // of a line in a list
constexpr std::size_t kNowhere = std::u32string::npos;
constexpr std::string_view kHelp =
    "an empty input: the next page\n"
    ":next [N]  :skip N  :a (all that is left)  :goto PAGE  :seek OFFSET|PERCENT%|line N\n"
    ":range START END  :tail [N|8k|20l]\n"
    ":/TEXT  :n [N]  :p [N] (next and previous match)\n"
    ":where [-i] TEXT  :matches [-i] [-n N|all] [-C N] [TEXT]  :hits [-i] [-C N] [--count N] TEXT\n"
    ":q (end)  :help\n"
    "Anything else goes to the session.\n";

std::u32string decode(std::string_view text) {
  std::u32string decoded;
  decoded.reserve(text.size());
  while (!text.empty()) {
    const auto first = static_cast<unsigned char>(text[0]);
    const std::size_t length = first < 0x80 ? 1 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
    char32_t value = length == 1 ? first : first & (0xffU >> (length + 1));
    for (std::size_t i = 1; i < length && i < text.size(); ++i) {
      value = (value << 6) | (static_cast<unsigned char>(text[i]) & 0x3fU);
    }
    decoded += value;
    text.remove_prefix(std::min(length, text.size()));
  }
  return decoded;
}

std::string encode(std::u32string_view text) {
  std::string encoded;
  encoded.reserve(text.size());
  for (const char32_t each : text) {
    if (each < 0x80) {
      encoded += static_cast<char>(each);
      continue;
    }
    const int more = each < 0x800 ? 1 : each < 0x10000 ? 2 : 3;
    const char32_t mark = more == 1 ? 0xc0 : more == 2 ? 0xe0 : 0xf0;
    encoded += static_cast<char>(mark | (each >> (6 * more)));
    for (int i = more - 1; i >= 0; --i) {
      encoded += static_cast<char>(0x80 | ((each >> (6 * i)) & 0x3f));
    }
  }
  return encoded;
}

char32_t folded(char32_t each) { return each >= U'A' && each <= U'Z' ? each - U'A' + U'a' : each; }

std::string_view trimmed(std::string_view text) {
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t\r\n") - first + 1);
}

std::string_view take_word(std::string_view& text) {
  text = trimmed(text);
  const std::size_t end = std::min(text.find_first_of(" \t"), text.size());
  const std::string_view word = text.substr(0, end);
  text = trimmed(text.substr(end));
  return word;
}

std::optional<std::size_t> to_number(std::string_view text) {
  std::size_t number = 0;
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (problem != std::errc() || end != text.data() + text.size() || text.empty()) return {};
  return number;
}

json::array only_text(std::string_view text) {
  json::array items;
  items.push_back(text_item(text));
  return items;
}

}  // namespace

void Pager::add_text(std::string_view text) {
  text_ += decode(text);
  // Now and then, because it moves all that is kept.
  if (text_.size() > 2 * kPagerChars) trim();
}

void Pager::trim() {
  if (text_.size() <= kPagerChars) return;
  const std::size_t dropped = text_.size() - kPagerChars;
  text_.erase(0, dropped);
  is_cut_ = true;
  const auto moved = [&](std::size_t at) { return at > dropped ? at - dropped : 0; };
  at_ = moved(at_);
  if (match_ != kNowhere) match_ = moved(match_);
  for (auto& [from, to] : seen_) {
    from = moved(from);
    to = moved(to);
  }
  std::erase_if(seen_, [](const auto& range) { return range.first == range.second; });
  while (!images_.empty() && images_.front().at < dropped) {
    image_bytes_ -= images_.front().png.size();
    images_.pop_front();
  }
  for (Image& image : images_) image.at -= dropped;
}

// Two images never stand at the same place, so that a page can end between them.
void Pager::add_image(std::string png) {
  if (!images_.empty() && images_.back().at == text_.size()) text_ += U'\n';
  image_bytes_ += png.size();
  images_.push_back({text_.size(), std::move(png)});
  while (image_bytes_ > kPagerImageBytes) {
    image_bytes_ -= images_.front().png.size();
    images_.pop_front();
    is_cut_ = true;
  }
}

// Whether an image stands between the two. One right at the beginning was shown at the end of what
// came before, when that was the end of everything.
bool Pager::belongs(const Image& image, std::size_t from, std::size_t to) const {
  if (image.at < from || (image.at == from && image.is_shown)) return false;
  return image.at < to || (image.at == to && to == text_.size());
}

// A page ends with a line if it can, before a third image, and counts an image as some text.
std::size_t Pager::page_end(std::size_t from) const {
  std::size_t room = page_;
  std::size_t images = 0;
  std::size_t limit = text_.size();
  for (const Image& image : images_) {
    if (!belongs(image, from, text_.size())) continue;
    if (image.at > from + room) break;
    if (++images > kImagesPerPage) {
      limit = std::max(image.at, from + 1);
      break;
    }
    room -= std::min(room, kImageChars);
  }
  std::size_t end = std::min(limit, from + std::max<std::size_t>(room, kLeastPageChars));
  if (end >= text_.size()) return text_.size();
  const std::size_t newline = text_.rfind(U'\n', end - 1);
  if (newline != kNowhere && newline >= from) end = newline + 1;
  return std::max(end, from + 1);
}

std::size_t Pager::line_start(std::size_t at) const {
  if (at == 0) return 0;
  const std::size_t newline = text_.rfind(U'\n', at - 1);
  return newline == kNowhere ? 0 : newline + 1;
}

std::size_t Pager::line_end(std::size_t at) const {
  return std::min(text_.find(U'\n', at), text_.size());
}

std::size_t Pager::line_number(std::size_t at) const {
  const auto end = text_.begin() + static_cast<std::ptrdiff_t>(std::min(at, text_.size()));
  return static_cast<std::size_t>(std::count(text_.begin(), end, U'\n')) + 1;
}

std::size_t Pager::start_of_line(std::size_t number) const {
  std::size_t at = 0;
  for (std::size_t line = 1; line < number; ++line) {
    const std::size_t newline = text_.find(U'\n', at);
    if (newline == kNowhere) return text_.size();
    at = newline + 1;
  }
  return at;
}

void Pager::mark_seen(std::size_t from, std::size_t to) {
  if (from < to) seen_.emplace_back(from, to);
  std::ranges::sort(seen_);
  std::vector<std::pair<std::size_t, std::size_t>> joined;
  for (const auto& range : seen_) {
    if (joined.empty() || range.first > joined.back().second) {
      joined.push_back(range);
    } else {
      joined.back().second = std::max(joined.back().second, range.second);
    }
  }
  seen_ = std::move(joined);
}

std::size_t Pager::seen_until(std::size_t at) const {
  for (const auto& [from, to] : seen_) {
    if (at >= from && at < to) return to;
  }
  return at;
}

std::size_t Pager::next_seen(std::size_t at) const {
  for (const auto& [from, to] : seen_) {
    if (from >= at) return from;
  }
  return text_.size();
}

void Pager::append_items(std::size_t from, std::size_t to, json::array& items) {
  const auto append_text = [&](std::size_t begin, std::size_t end) {
    if (begin < end) {
      items.push_back(text_item(encode(std::u32string_view(text_).substr(begin, end - begin))));
    }
  };
  for (Image& image : images_) {
    if (!belongs(image, from, to)) continue;
    image.is_shown = true;
    append_text(from, image.at);
    from = image.at;
    items.push_back(
        json::object{{"type", "image"}, {"data", base64(image.png)}, {"mimeType", "image/png"}});
  }
  append_text(from, to);
}

std::string Pager::footer(std::size_t from, std::size_t to) const {
  const std::size_t total = text_.size();
  const double percent =
      total == 0 ? 100 : 100.0 * static_cast<double>(to) / static_cast<double>(total);
  const std::string where = fmt::format("{:.1f}%, @{}..{}/{}", percent, from, to, total);
  if (to >= total) return fmt::format("(END, {})", where);
  return fmt::format("--More-- ({}p, {})", (total - to + page_ - 1) / page_, where);
}

json::array Pager::show(std::size_t from, std::size_t to) {
  json::array items;
  if (is_cut_ && !is_started_) {
    items.push_back(text_item("[repl] output truncated (older output dropped)\n"));
  }
  append_items(from, to, items);
  items.push_back(text_item(footer(from, to)));
  mark_seen(from, to);
  at_ = to;
  is_started_ = true;
  return items;
}

json::array Pager::show_unseen(std::size_t from, std::size_t to) {
  to = std::min(to, from + kMostPages * page_);
  json::array items;
  for (std::size_t at = from; at < to;) {
    const std::size_t seen = std::min(seen_until(at), to);
    if (seen > at) {
      items.push_back(text_item(fmt::format("...[shown before: @{}..{}]...\n", at, seen)));
      at = seen;
      continue;
    }
    const std::size_t end = std::min(next_seen(at), to);
    append_items(at, end, items);
    at = end;
  }
  items.push_back(text_item(footer(from, to)));
  mark_seen(from, to);
  at_ = to;
  is_started_ = true;
  return items;
}

json::array Pager::next_page() {
  trim();
  return show_page(std::min(at_, text_.size()));
}

std::vector<std::size_t> Pager::find_all(const Pattern& pattern) const {
  std::vector<std::size_t> found;
  if (pattern.text.empty()) return found;
  const auto same = [&](char32_t left, char32_t right) {
    return pattern.ignores_case ? folded(left) == folded(right) : left == right;
  };
  auto at = text_.begin();
  while (found.size() < kPagerChars) {
    at = std::search(at, text_.end(), pattern.text.begin(), pattern.text.end(), same);
    if (at == text_.end()) break;
    found.push_back(static_cast<std::size_t>(at - text_.begin()));
    at += static_cast<std::ptrdiff_t>(pattern.text.size());
  }
  return found;
}

json::array Pager::command(std::string_view words) {
  trim();
  std::string_view rest = words;
  if (words.starts_with('/')) return search("/", words.substr(1));
  const std::string_view name = take_word(rest);
  if (name == "q" || name == "quit") {
    has_quit_ = true;
    return only_text("");
  }
  if (name == "help" || name == "h") return only_text(kHelp);
  if (name == "where") return where(rest);
  if (name == "matches" || name == "hits") return list_matches(rest, name);
  if (name == "n" || name == "p") return search(name, rest);
  return move(name, rest);
}

json::array Pager::move(std::string_view name, std::string_view rest) {
  if (name == "next" || name.empty()) {
    const std::size_t pages = std::clamp<std::size_t>(to_number(rest).value_or(1), 1, kMostPages);
    std::size_t end = at_;
    for (std::size_t i = 0; i < pages && end < text_.size(); ++i) end = page_end(end);
    return show(at_, std::max(end, at_));
  }
  if (name == "skip") {
    for (std::size_t i = 0; i < to_number(rest).value_or(1) && at_ < text_.size(); ++i) {
      at_ = page_end(at_);
    }
    return next_page();
  }
  if (name == "a") return show_unseen(at_, text_.size());
  if (name == "goto") {
    std::size_t at = 0;
    for (std::size_t page = 1; page < to_number(rest).value_or(1) && at < text_.size(); ++page) {
      at = page_end(at);
    }
    return show_page(at);
  }
  if (name == "range") {
    const auto from = to_number(take_word(rest));
    const auto to = to_number(take_word(rest));
    if (!from || !to || *from > *to) return only_text("[pager] :range START END\n");
    return show_unseen(std::min(*from, text_.size()), std::min(*to, text_.size()));
  }
  if (name == "seek") return seek(rest);
  if (name == "tail") return tail(rest);
  return only_text(fmt::format("[pager] there is no command :{}\n{}", name, kHelp));
}

json::array Pager::seek(std::string_view rest) {
  const std::string_view word = take_word(rest);
  std::optional<std::size_t> at;
  if (word == "line") {
    if (const auto number = to_number(rest)) at = start_of_line(*number);
  } else if (word.ends_with('%')) {
    const auto percent = to_number(word.substr(0, word.size() - 1));
    if (percent && *percent <= 100) at = line_start(text_.size() * *percent / 100);
  } else {
    at = to_number(word);
  }
  if (!at) return only_text("[pager] :seek OFFSET, :seek PERCENT% or :seek line N\n");
  return show_page(std::min(*at, text_.size()));
}

json::array Pager::tail(std::string_view rest) {
  std::string_view word = take_word(rest);
  const char unit = word.empty() ? ' ' : word.back();
  if (unit == 'k' || unit == 'l') word.remove_suffix(1);
  const std::size_t amount = to_number(word).value_or(page_);
  if (unit != 'l') {
    const std::size_t chars =
        amount > kPagerChars ? kPagerChars : amount * (unit == 'k' ? 1024 : 1);
    return show_unseen(text_.size() - std::min(chars, text_.size()), text_.size());
  }
  std::size_t from = text_.size();
  if (from > 0 && text_.back() == U'\n') --from;
  for (std::size_t line = 0; line < amount && from > 0; ++line)
    from = line_start(from) == 0 ? 0 : line_start(from) - 1;
  if (from > 0) ++from;
  return show_unseen(from, text_.size());
}

json::array Pager::search(std::string_view name, std::string_view rest) {
  if (name == "/") {
    if (!trimmed(rest).empty()) pattern_ = {decode(rest), false};
    match_ = kNowhere;
    return go_to_match(1, /*is_forward=*/true);
  }
  return go_to_match(to_number(trimmed(rest)).value_or(1), name == "n");
}

json::array Pager::go_to_match(std::size_t steps, bool is_forward) {
  const std::vector<std::size_t> found = find_all(pattern_);
  if (found.empty()) return only_text("[pager] no match\n");
  steps = std::max<std::size_t>(steps, 1);
  const std::size_t from = match_ == kNowhere ? (at_ == text_.size() ? 0 : at_) : match_;
  std::size_t index = 0;
  if (is_forward) {
    const auto first = match_ == kNowhere ? std::ranges::lower_bound(found, from)
                                          : std::ranges::upper_bound(found, from);
    index = static_cast<std::size_t>(first - found.begin()) + steps - 1;
    if (index >= found.size()) return only_text("[pager] no further match\n");
  } else {
    const auto first = std::ranges::lower_bound(found, from);
    const auto before = static_cast<std::size_t>(first - found.begin());
    if (steps > before) return only_text("[pager] no earlier match\n");
    index = before - steps;
  }
  match_ = found[index];
  return show_page(line_start(match_));
}

json::array Pager::where(std::string_view rest) const {
  const Listing listing = read_listing(rest);
  const std::vector<std::size_t> found = find_all(listing.pattern);
  if (found.empty()) return only_text("[pager] no match\n");
  std::string text = fmt::format("[pager] {} matches:", found.size());
  for (std::size_t i = 0; i < std::min<std::size_t>(found.size(), 20); ++i) {
    text += fmt::format(" @{} (line {})", found[i], line_number(found[i]));
  }
  return only_text(text + (found.size() > 20 ? " ...\n" : "\n"));
}

Pager::Listing Pager::read_listing(std::string_view rest) const {
  Listing listing;
  listing.pattern = pattern_;
  for (;;) {
    const std::string_view before = rest;
    const std::string_view word = take_word(rest);
    if (word == "-i") {
      listing.pattern.ignores_case = true;
    } else if (word == "-n" || word == "--count") {
      const std::string_view amount = take_word(rest);
      listing.most = amount == "all" ? kMostListed : to_number(amount).value_or(0);
    } else if (word == "-C") {
      listing.context = to_number(take_word(rest)).value_or(0);
    } else {
      const std::string_view text = trimmed(before);
      if (!text.empty()) listing.pattern.text = decode(text);
      break;
    }
  }
  listing.most = std::min(listing.most, kMostListed);
  listing.context = std::min(listing.context, kMostContext);
  return listing;
}

// Lines with a match, each once, with the lines around it.
json::array Pager::list_matches(std::string_view rest, std::string_view name) const {
  const Listing listing = read_listing(rest);
  const std::vector<std::size_t> found = find_all(listing.pattern);
  if (found.empty()) return only_text("[pager] no match\n");
  std::string text;
  std::size_t lines = 0;
  std::size_t last = kNowhere;
  for (const std::size_t at : found) {
    const std::size_t start = line_start(at);
    if (start == last) continue;
    if (lines++ == listing.most) break;
    last = start;
    std::size_t from = start;
    std::size_t to = line_end(at);
    for (std::size_t i = 0; i < listing.context && from > 0; ++i) from = line_start(from - 1);
    for (std::size_t i = 0; i < listing.context && to < text_.size(); ++i) to = line_end(to + 1);
    const std::size_t shown = std::min(to - from, kMostLineChars * (2 * listing.context + 1));
    text +=
        fmt::format("{}@{}: {}\n", name == "hits" ? fmt::format("line {} ", line_number(at)) : "",
                    at, encode(std::u32string_view(text_).substr(from, shown)));
  }
  return only_text(fmt::format("{}[pager] {} matches\n", text, found.size()));
}

}  // namespace glovebox::mcp
