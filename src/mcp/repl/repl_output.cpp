#include "mcp/repl/repl_output.h"

#include "mcp/repl/base64.h"

#include <boost/json/object.hpp>

#include <algorithm>

namespace glovebox::mcp {
namespace {

namespace json = boost::json;

// More bytes than any inline reply needs: four for each character.
constexpr std::size_t kKeptBytes = kSpillChars * 4;
// So much of a request is kept before it gets a bundle.
constexpr std::size_t kUnwrittenBytes = std::size_t{64} << 10;
constexpr std::size_t kProgressBytes = 200;
constexpr std::string_view kErrorMark = "stderr: ";
constexpr std::string_view kReplacement = "\xef\xbf\xbd";

bool is_continuation(char byte) { return (static_cast<unsigned char>(byte) & 0xc0) == 0x80; }

// The length of the character that begins here: 0 when it is none, more than there is when it is
// cut.
std::size_t char_length(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char first = byte(0);
  if (first < 0x80) return 1;
  if (first < 0xc2 || first > 0xf4) return 0;
  const std::size_t length = first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
  if (text.size() > 1) {
    const unsigned char second = byte(1);
    // Overlong forms, surrogates, and what is past the last code point.
    if ((first == 0xe0 && second < 0xa0) || (first == 0xed && second > 0x9f) ||
        (first == 0xf0 && second < 0x90) || (first == 0xf4 && second > 0x8f)) {
      return 0;
    }
  }
  for (std::size_t i = 1; i < length && i < text.size(); ++i) {
    if (!is_continuation(text[i])) return 0;
  }
  return length;
}

// The first bytes of `text` that are at most `chars` characters.
std::string_view first_chars(std::string_view text, std::size_t chars) {
  std::size_t i = 0;
  while (i < text.size()) {
    if (!is_continuation(text[i]) && chars-- == 0) break;
    ++i;
  }
  return text.substr(0, i);
}

std::string_view last_chars(std::string_view text, std::size_t chars) {
  std::size_t i = text.size();
  while (i > 0 && chars > 0) {
    --i;
    if (!is_continuation(text[i])) --chars;
  }
  return text.substr(i);
}

json::object image_item(std::string_view png) {
  return {{"type", "image"}, {"data", base64(png)}, {"mimeType", "image/png"}};
}

}  // namespace

json::object text_item(std::string_view text) { return {{"type", "text"}, {"text", text}}; }

std::size_t count_chars(std::string_view text) {
  return static_cast<std::size_t>(
      std::ranges::count_if(text, [](char byte) { return !is_continuation(byte); }));
}

std::string Utf8Cleaner::feed(std::string_view bytes) {
  held_ += bytes;
  std::string clean;
  clean.reserve(held_.size());
  std::string_view rest = held_;
  while (!rest.empty()) {
    const std::size_t length = char_length(rest);
    if (length > rest.size()) break;
    if (length == 0) {
      clean += kReplacement;
      rest.remove_prefix(1);
      continue;
    }
    clean += rest.substr(0, length);
    rest.remove_prefix(length);
  }
  held_ = std::string(rest);
  return clean;
}

std::string Utf8Cleaner::finish() {
  if (held_.empty()) return {};
  held_.clear();
  return std::string(kReplacement);
}

void OutputLog::add_text(TextStream stream, std::string_view bytes) {
  if (bytes.empty()) return;
  if (last_ != stream) seal();
  const bool is_error = stream == TextStream::Error;
  std::string text = (is_error ? error_ : output_).feed(bytes);
  if (text.empty()) return;
  if (last_ != stream) {
    last_ = stream;
    if (!pager_ && !is_large_) items_.push_back({false, {}});
    if (is_error) text.insert(0, kErrorMark);
  }
  add_rendered(text);
}

// Characters that were cut by the end of a stream's turn.
void OutputLog::seal() {
  if (!last_) return;
  const std::string text = (*last_ == TextStream::Error ? error_ : output_).finish();
  if (!text.empty()) add_rendered(text);
}

void OutputLog::add_rendered(std::string_view text) {
  chars_ += count_chars(text);
  newlines_ += static_cast<std::size_t>(std::ranges::count(text, '\n'));
  if (head_.size() < kKeptBytes) head_ += text.substr(0, kKeptBytes - head_.size());
  tail_ += text;
  if (tail_.size() > 2 * kKeptBytes) {
    std::size_t cut = tail_.size() - kKeptBytes;
    while (cut < tail_.size() && is_continuation(tail_[cut])) ++cut;
    tail_.erase(0, cut);
  }
  if (form_.large == OutputForm::Large::Pages) return add_to_pages(text);
  if (!is_large_) {
    if (items_.empty() || items_.back().is_image) items_.push_back({false, {}});
    items_.back().data += text;
    is_large_ = chars_ > kSpillChars;
    if (is_large_) std::erase_if(items_, [](const Item& each) { return !each.is_image; });
  }
  if (bundle_) {
    bundle_->append(text);
  } else if (!has_no_store_) {
    unwritten_ += text;
    if (unwritten_.size() > kUnwrittenBytes) spill();
  }
}

// Up to a page is kept as it is; from then on the pager has everything.
void OutputLog::add_to_pages(std::string_view text) {
  if (pager_) return pager_->add_text(text);
  if (items_.empty() || items_.back().is_image) items_.push_back({false, {}});
  items_.back().data += text;
  if (chars_ > form_.page_chars) begin_pages();
}

void OutputLog::begin_pages() {
  pager_.emplace(form_.page_chars);
  for (Item& item : items_) {
    if (item.is_image) {
      pager_->add_image(std::move(item.data));
    } else {
      pager_->add_text(item.data);
    }
  }
  items_.clear();
}

void OutputLog::add_image(std::string png) {
  seal();
  last_.reset();
  if (pager_) return pager_->add_image(std::move(png));
  ++images_;
  items_.push_back({true, std::move(png)});
  if (form_.large == OutputForm::Large::Pages) {
    if (images_ > kImagesPerPage) begin_pages();
    return;
  }
  if (images_ < kSpillImages) return;
  spill();
  // All are in the bundle, those from before it too. A reply shows the first and the last.
  const std::size_t kept =
      static_cast<std::size_t>(std::ranges::count(items_, true, &Item::is_image));
  std::size_t seen = 0;
  std::erase_if(items_, [&](const Item& each) {
    if (!each.is_image) return false;
    const bool is_first = seen++ == 0;
    const bool is_last = seen == kept;
    // An empty path means over the quota, which the bundle tells by itself.
    if (bundle_ && (images_ == kSpillImages || is_last)) (void)bundle_->add_image(each.data);
    return !is_first && !is_last;
  });
}

// Without a place for bundles what is kept is shown inline.
void OutputLog::spill() {
  if (bundle_ || has_no_store_) return;
  auto made = store_->make();
  if (!made) {
    has_no_store_ = true;
    unwritten_.clear();
    return;
  }
  bundle_ = *std::move(made);
  bundle_->append(unwritten_);
  unwritten_ = {};
}

std::string OutputLog::last_line() const {
  std::string_view text = tail_;
  while (text.ends_with('\n')) text.remove_suffix(1);
  const std::size_t newline = text.rfind('\n');
  if (newline != std::string_view::npos) text.remove_prefix(newline + 1);
  return std::string(first_chars(text, kProgressBytes));
}

void OutputLog::begin_request() {
  json::array told = take_segment();
  before_.insert(before_.end(), told.begin(), told.end());
  bundle_.reset();
  unwritten_.clear();
  has_no_store_ = false;
}

json::array OutputLog::take() {
  json::array told = std::move(before_);
  before_ = {};
  json::array segment = take_segment();
  told.insert(told.end(), segment.begin(), segment.end());
  return told;
}

json::array OutputLog::take_segment() {
  seal();
  json::array told;
  if (pager_) {
    if (!pager_->is_at_end()) told = pager_->next_page();
    forget_segment();
    return told;
  }
  if (is_large_) {
    spill();
    told.push_back(text_item(preview()));
  }
  for (const Item& each : items_) {
    if (!each.data.empty()) {
      told.push_back(each.is_image ? image_item(each.data) : text_item(each.data));
    }
  }
  if (images_ >= kSpillImages && bundle_) {
    told.push_back(text_item(
        fmt::format("...[middle truncated; first and last images shown inline; ordered output "
                    "bundle index: {}{}]...",
                    bundle_->directory(), bundle_->is_cut() ? "; later content omitted" : "")));
  }
  forget_segment();
  return told;
}

void OutputLog::forget_segment() {
  items_.clear();
  images_ = 0;
  head_.clear();
  tail_.clear();
  chars_ = newlines_ = 0;
  is_large_ = false;
  last_.reset();
}

// The beginning and the end, in whole lines, with the path of the whole between them.
std::string OutputLog::preview() const {
  const std::string_view head = first_chars(head_, kInlineChars * 2 / 3);
  const std::string_view tail = last_chars(tail_, kInlineChars / 3);
  const std::size_t head_end = head.rfind('\n');
  const std::size_t tail_start = tail.find('\n');
  const std::size_t lines = newlines_ + (tail_.ends_with('\n') ? 0 : 1);
  if (lines < 3 || head_end == std::string_view::npos || tail_start + 1 >= tail.size()) {
    return preview_by_chars();
  }
  const std::string_view first = head.substr(0, head_end + 1);
  const std::string_view last = tail.substr(tail_start + 1);
  const auto count = [](std::string_view text) {
    return static_cast<std::size_t>(std::ranges::count(text, '\n')) +
           (text.ends_with('\n') ? 0 : 1);
  };
  const std::string where = bundle_ ? fmt::format("; full output: {}", bundle_->transcript()) : "";
  return fmt::format("{}...[middle truncated; shown lines 1-{} and {}-{} of {} total{}{}]...\n{}",
                     first, count(first), lines - count(last) + 1, lines, lines, where,
                     bundle_ && bundle_->is_cut() ? "; later content omitted" : "", last);
}

std::string OutputLog::preview_by_chars() const {
  const std::string_view head = first_chars(head_, kInlineChars * 2 / 3);
  const std::string_view tail = last_chars(tail_, kInlineChars / 3);
  const std::size_t shown = count_chars(head);
  const std::size_t left = count_chars(tail);
  const std::string where = bundle_ ? fmt::format("; full output: {}", bundle_->transcript()) : "";
  return fmt::format("{}\n...[middle truncated; shown chars 1-{} and {}-{} of {} total{}{}]...\n{}",
                     head, shown, chars_ - left + 1, chars_, chars_, where,
                     bundle_ && bundle_->is_cut() ? "; later content omitted" : "", tail);
}

}  // namespace glovebox::mcp
