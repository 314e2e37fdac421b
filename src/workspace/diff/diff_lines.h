// The difference between two texts, line by line: Myers' algorithm in linear space.
//
// The shortest script of insertions and deletions is found by searching from both ends for the
// middle of the path and dividing there, so memory grows with the number of lines and not with the
// number of differences. Texts from a box may be made to take quadratic time; therefore the search
// for one middle gives up after a bounded number of rounds and takes what reached furthest. The
// script is then longer than need be and still right.
#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

namespace glovebox::workspace {

// Rounds that the search for one middle may take.
inline constexpr std::size_t kMostDiffRounds = 512;

// Lines [before_begin, before_end) are replaced by lines [after_begin, after_end).
struct Edit {
  std::size_t before_begin = 0;
  std::size_t before_end = 0;
  std::size_t after_begin = 0;
  std::size_t after_end = 0;

  friend bool operator==(const Edit&, const Edit&) = default;
};

// Lines with their newline; the last may have none. Joined they are the text.
std::vector<std::string_view> split_lines(std::string_view text);

// Ascending, not touching each other.
std::vector<Edit> diff_lines(const std::vector<std::string_view>& before,
                             const std::vector<std::string_view>& after);

}  // namespace glovebox::workspace
