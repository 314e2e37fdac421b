// Large output, page by page.
//
// While a pager is active an empty input is the next page, and an input that begins with ':' is a
// command to it; both are answered without the session. Positions count characters. What is kept is
// bounded: of more, the oldest is dropped, and the pager says so.
//
// The text is the box's. It is shown and searched for plain words, never interpreted.
#pragma once

#include <boost/json/array.hpp>

#include <cstddef>
#include <deque>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace glovebox::mcp {

inline constexpr std::size_t kPageChars = 3500;
inline constexpr std::size_t kLeastPageChars = 64;
inline constexpr std::size_t kImagesPerPage = 2;
inline constexpr std::size_t kPagerChars = std::size_t{2} << 20;
inline constexpr std::size_t kPagerImageBytes = std::size_t{16} << 20;

class Pager {
 public:
  explicit Pager(std::size_t page_chars) : page_(page_chars) {}

  // More to show, at the end. Valid UTF-8.
  void add_text(std::string_view text);
  void add_image(std::string png);

  bool is_empty() const { return text_.empty() && images_.empty(); }
  // Whether a page was shown: from then on inputs are its own.
  bool is_started() const { return is_started_; }
  bool is_at_end() const { return at_ >= text_.size() && is_started_; }

  // The content items of the next page, with its footer.
  boost::json::array next_page();
  // The answer to a command, without its ':'. A command that is not known is told so.
  boost::json::array command(std::string_view words);
  // Whether the last command was the end of the pager.
  bool has_quit() const { return has_quit_; }

 private:
  struct Image {
    std::size_t at;
    std::string png;
    bool is_shown = false;
  };
  struct Pattern {
    std::u32string text;
    bool ignores_case = false;
  };
  struct Listing {
    Pattern pattern;
    std::size_t most = 20;
    std::size_t context = 0;
    bool is_known = true;
  };

  void trim();
  bool belongs(const Image& image, std::size_t from, std::size_t to) const;
  std::size_t page_end(std::size_t from) const;
  std::size_t line_start(std::size_t at) const;
  std::size_t line_end(std::size_t at) const;
  std::size_t line_number(std::size_t at) const;
  std::size_t start_of_line(std::size_t number) const;
  // From `from` to `to`, as content items, with the footer of the position behind it.
  boost::json::array show(std::size_t from, std::size_t to);
  // The same without what was shown before.
  boost::json::array show_unseen(std::size_t from, std::size_t to);
  boost::json::array show_page(std::size_t from) { return show(from, page_end(from)); }
  void append_items(std::size_t from, std::size_t to, boost::json::array& items);
  std::string footer(std::size_t from, std::size_t to) const;
  void mark_seen(std::size_t from, std::size_t to);
  std::size_t seen_until(std::size_t at) const;  // at itself when it was not shown
  std::size_t next_seen(std::size_t at) const;

  std::vector<std::size_t> find_all(const Pattern& pattern) const;
  boost::json::array move(std::string_view name, std::string_view rest);
  boost::json::array search(std::string_view name, std::string_view rest);
  boost::json::array go_to_match(std::size_t steps, bool is_forward);
  boost::json::array where(std::string_view rest) const;
  boost::json::array list_matches(std::string_view rest, std::string_view name) const;
  boost::json::array seek(std::string_view rest);
  boost::json::array tail(std::string_view rest);
  Listing read_listing(std::string_view rest) const;

  std::size_t page_;
  std::u32string text_;
  std::deque<Image> images_;
  std::size_t image_bytes_ = 0;
  std::size_t at_ = 0;  // what comes next
  std::vector<std::pair<std::size_t, std::size_t>> seen_;
  Pattern pattern_;
  std::size_t match_ = std::u32string::npos;  // where the last match was
  bool is_started_ = false;
  bool is_cut_ = false;
  bool has_quit_ = false;
};

}  // namespace glovebox::mcp
