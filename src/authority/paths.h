// Paths as a grant names them.
#pragma once

#include "base/result.h"

#include <compare>
#include <cstddef>
#include <string>
#include <string_view>

namespace glovebox::authority {

// An absolute path in its one spelling: "/", or components joined by single slashes.
//
// parse() drops what cannot change the meaning (a doubled or trailing slash, a "." component) and
// refuses what can: a relative path, and "..", because "/a/link/.." is "/a" only when link is no
// symlink, which cannot be known without looking at a disk. Text must be UTF-8 without control
// characters, so that it survives JSON and a terminal unchanged.
//
// There are no patterns here: '*' and '?' are refused, since "deny /srv/*.key" taken by the letter
// would deny nothing.
//
// A path says nothing about what is there. A grant on it reaches the thing itself and, if that is
// a directory, everything beneath; so a grant on a single file needs no form of its own.
class AbsolutePath {
 public:
  static constexpr std::size_t kMaxBytes = 4095;          // PATH_MAX without its terminator
  static constexpr std::size_t kMaxComponentBytes = 255;  // NAME_MAX

  static Result<AbsolutePath> parse(std::string_view text);

  const std::string& text() const { return text_; }

  // By component: "/a" contains "/a" and "/a/b", and never "/ab".
  bool contains(const AbsolutePath& other) const;

  friend std::strong_ordering operator<=>(const AbsolutePath&, const AbsolutePath&) = default;

 private:
  explicit AbsolutePath(std::string text) : text_(std::move(text)) {}

  std::string text_;
};

}  // namespace glovebox::authority
