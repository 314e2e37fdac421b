// What a session prints, on its way into replies.
//
// Text is shown inline while there is little of it. More goes to a bundle: a directory outside the
// box with the whole transcript and the images, of which the reply shows the beginning, the end and
// the path. Memory stays bounded however much is printed: past a few kilobytes only the beginning
// and the end are kept here.
#pragma once

#include "base/result.h"
#include "base/unique_fd.h"
#include "mcp/repl/pager.h"

#include <boost/json/array.hpp>

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace glovebox::mcp {

// In characters: what a reply shows of too much, and how much is too much.
inline constexpr std::size_t kInlineChars = 3500;
inline constexpr std::size_t kSpillChars = kInlineChars * 5 / 4;
inline constexpr std::size_t kSpillImages = 5;

// Text from a box as valid UTF-8. Bytes that are none become U+FFFD; a character that is cut in two
// waits for its rest.
class Utf8Cleaner {
 public:
  std::string feed(std::string_view bytes);
  // What waits, sealed.
  std::string finish();

 private:
  std::string held_;
};

// How many characters a valid UTF-8 text has.
std::size_t count_chars(std::string_view text);

// The directory of one request's output.
class Bundle {
 public:
  static Result<Bundle> make(std::string directory, std::uint64_t most_bytes);

  // What is over the quota is left out, and the bundle says so.
  void append(std::string_view text);
  // The path of the written image; empty when it was left out.
  std::string add_image(std::string_view png);

  const std::string& directory() const { return directory_; }
  std::string transcript() const { return directory_ + "/transcript.txt"; }
  std::uint64_t bytes() const { return bytes_; }
  bool is_cut() const { return is_cut_; }

 private:
  Bundle(std::string directory, std::uint64_t most)
      : directory_(std::move(directory)), most_(most) {}
  bool take_room(std::size_t bytes);

  std::string directory_;
  std::uint64_t most_;
  UniqueFd transcript_;
  std::uint64_t bytes_ = 0;
  std::size_t images_ = 0;
  bool is_cut_ = false;
};

// All bundles of one server, below a private directory that is removed with it.
class BundleStore {
 public:
  struct Quotas {
    std::size_t count = 20;
    std::uint64_t bundle_bytes = std::uint64_t{1} << 30;
    std::uint64_t total_bytes = std::uint64_t{2} << 30;
  };
  explicit BundleStore(Quotas quotas) : quotas_(quotas) {}
  ~BundleStore();
  BundleStore(const BundleStore&) = delete;
  BundleStore& operator=(const BundleStore&) = delete;

  // Removes the oldest that is not written to when there are too many.
  Result<std::shared_ptr<Bundle>> make();

 private:
  void prune();

  Quotas quotas_;
  std::string root_;  // empty until the first bundle
  std::size_t made_ = 0;
  std::deque<std::shared_ptr<Bundle>> bundles_;
};

enum class TextStream : std::uint8_t { Output, Error };

// What becomes of more output than a reply shows.
struct OutputForm {
  enum class Large : std::uint8_t { Bundle, Pages };
  Large large = Large::Bundle;
  std::size_t page_chars = kPageChars;  // of a page, and so the most that is shown without one
};

class OutputLog {
 public:
  OutputLog(BundleStore& store, OutputForm form) : store_(&store), form_(form) {}

  void add_text(TextStream stream, std::string_view bytes);
  void add_image(std::string png);
  // The last line with something in it, for progress.
  std::string last_line() const;

  // A request begins: what was printed before it, and not told, goes first in the next reply and
  // is no part of the request's bundle.
  void begin_request();
  // The content items of everything that was not told yet, and forgets it.
  boost::json::array take();

  // The pager that shows the rest of what was printed; nothing when there is none.
  Pager* pager() { return pager_ && pager_->is_started() ? &*pager_ : nullptr; }
  void drop_pager() { pager_.reset(); }

 private:
  // Text or an image, in the order of printing.
  struct Item {
    bool is_image = false;
    std::string data;
  };

  void add_rendered(std::string_view text);
  void add_to_pages(std::string_view text);
  void begin_pages();
  void forget_segment();
  void seal();
  void spill();
  boost::json::array take_segment();
  std::string preview() const;
  std::string preview_by_chars() const;

  BundleStore* store_;
  OutputForm form_;
  std::optional<Pager> pager_;
  Utf8Cleaner output_;
  Utf8Cleaner error_;
  std::optional<TextStream> last_;
  boost::json::array before_;  // of what was printed before the request
  std::vector<Item> items_;    // text is dropped from here when there is too much
  std::size_t images_ = 0;
  std::string head_;
  std::string tail_;
  std::size_t chars_ = 0;
  std::size_t newlines_ = 0;
  bool is_large_ = false;
  std::string unwritten_;  // of the request, until it has a bundle
  std::shared_ptr<Bundle> bundle_;
  bool has_no_store_ = false;
};

boost::json::object text_item(std::string_view text);

}  // namespace glovebox::mcp
