#include "workspace/diff/diff_lines.h"

#include <algorithm>
#include <unordered_map>

namespace glovebox::workspace {
namespace {

using Index = std::ptrdiff_t;

// A part of both texts: [a, a_end) of the one and [b, b_end) of the other.
struct Part {
  Index a;
  Index a_end;
  Index b;
  Index b_end;
};

struct Point {
  Index a;
  Index b;
};

// Lines as numbers, so that comparing them is one instruction.
class Differ {
 public:
  Differ(const std::vector<std::string_view>& before, const std::vector<std::string_view>& after) {
    std::unordered_map<std::string_view, int> numbers;
    const auto number_all = [&](const std::vector<std::string_view>& lines, std::vector<int>& out) {
      out.reserve(lines.size());
      for (const std::string_view line : lines) {
        out.push_back(numbers.emplace(line, static_cast<int>(numbers.size())).first->second);
      }
    };
    number_all(before, a_);
    number_all(after, b_);
    const std::size_t width = 2 * (std::min(a_.size() + b_.size(), 2 * kMostDiffRounds) + 2);
    forward_.resize(width);
    backward_.resize(width);
  }

  std::vector<Edit> run() {
    std::vector<Part> waiting{{0, size(a_), 0, size(b_)}};
    while (!waiting.empty()) {
      Part part = waiting.back();
      waiting.pop_back();
      trim(part);
      if (part.a == part.a_end || part.b == part.b_end) {
        emit(part);
        continue;
      }
      const Point middle = find_middle(part);
      // The left half is done first: edits come out in order.
      waiting.push_back({middle.a, part.a_end, middle.b, part.b_end});
      waiting.push_back({part.a, middle.a, part.b, middle.b});
    }
    return std::move(edits_);
  }

 private:
  static Index size(const std::vector<int>& lines) { return static_cast<Index>(lines.size()); }
  bool same(Index a, Index b) const {
    return a_[static_cast<std::size_t>(a)] == b_[static_cast<std::size_t>(b)];
  }

  void trim(Part& part) const {
    while (part.a < part.a_end && part.b < part.b_end && same(part.a, part.b)) {
      ++part.a;
      ++part.b;
    }
    while (part.a < part.a_end && part.b < part.b_end && same(part.a_end - 1, part.b_end - 1)) {
      --part.a_end;
      --part.b_end;
    }
  }

  void emit(const Part& part) {
    if (part.a == part.a_end && part.b == part.b_end) return;
    const Edit edit{static_cast<std::size_t>(part.a), static_cast<std::size_t>(part.a_end),
                    static_cast<std::size_t>(part.b), static_cast<std::size_t>(part.b_end)};
    if (!edits_.empty() && edits_.back().before_end == edit.before_begin &&
        edits_.back().after_end == edit.after_begin) {
      edits_.back().before_end = edit.before_end;
      edits_.back().after_end = edit.after_end;
      return;
    }
    edits_.push_back(edit);
  }

  // Index of diagonal k in the arrays that hold the furthest reach on it.
  std::size_t slot(Index k) const {
    const auto width = static_cast<Index>(forward_.size());
    return static_cast<std::size_t>((k % width + width) % width);
  }

  Point find_middle(const Part& part);
  bool step_forward(const Part& part, Index round, Point& middle);
  bool step_backward(const Part& part, Index round, Point& middle);
  Point furthest(const Part& part, Index rounds) const;

  std::vector<int> a_;
  std::vector<int> b_;
  // The furthest `a` reached on each diagonal (a - b, counted from the start of the part), from the
  // front, and the least from the back.
  std::vector<Index> forward_;
  std::vector<Index> backward_;
  std::vector<Edit> edits_;
};

Point Differ::find_middle(const Part& part) {
  const Index n = part.a_end - part.a;
  const Index m = part.b_end - part.b;
  const Index rounds = std::min((n + m + 1) / 2, static_cast<Index>(kMostDiffRounds));
  forward_[slot(1)] = 0;
  backward_[slot(n - m - 1)] = n;
  Point middle{};
  for (Index round = 0; round <= rounds; ++round) {
    if (step_forward(part, round, middle) || step_backward(part, round, middle)) return middle;
  }
  return furthest(part, rounds);
}

// One round from the front. True when it met the way from the back; `middle` is then a point on a
// shortest path.
bool Differ::step_forward(const Part& part, Index round, Point& middle) {
  const Index n = part.a_end - part.a;
  const Index m = part.b_end - part.b;
  const Index delta = n - m;
  for (Index k = -round; k <= round; k += 2) {
    const bool goes_down =
        k == -round || (k != round && forward_[slot(k - 1)] < forward_[slot(k + 1)]);
    Index x = goes_down ? forward_[slot(k + 1)] : forward_[slot(k - 1)] + 1;
    Index y = x - k;
    while (x >= 0 && y >= 0 && x < n && y < m && same(part.a + x, part.b + y)) {
      ++x;
      ++y;
    }
    forward_[slot(k)] = x;
    const bool can_meet = delta % 2 != 0 && k >= delta - (round - 1) && k <= delta + (round - 1);
    if (can_meet && x >= backward_[slot(k)]) {
      middle = {part.a + x, part.b + y};
      return true;
    }
  }
  return false;
}

bool Differ::step_backward(const Part& part, Index round, Point& middle) {
  const Index n = part.a_end - part.a;
  const Index m = part.b_end - part.b;
  const Index delta = n - m;
  for (Index k = delta - round; k <= delta + round; k += 2) {
    const bool goes_up = k == delta + round ||
                         (k != delta - round && backward_[slot(k - 1)] < backward_[slot(k + 1)]);
    Index x = goes_up ? backward_[slot(k - 1)] : backward_[slot(k + 1)] - 1;
    Index y = x - k;
    while (x > 0 && y > 0 && x <= n && y <= m && same(part.a + x - 1, part.b + y - 1)) {
      --x;
      --y;
    }
    backward_[slot(k)] = x;
    const bool can_meet = delta % 2 == 0 && k >= -round && k <= round;
    if (can_meet && x <= forward_[slot(k)]) {
      middle = {part.a + x, part.b + y};
      return true;
    }
  }
  return false;
}

// Given up: the point that the way from the front has carried furthest inside the part. It is never
// the start, because the first lines of a trimmed part differ and a round was taken.
Point Differ::furthest(const Part& part, Index rounds) const {
  const Index n = part.a_end - part.a;
  const Index m = part.b_end - part.b;
  Point best{part.a + std::min<Index>(1, n), part.b};
  Index best_sum = 1;
  for (Index k = -rounds; k <= rounds; k += 2) {
    const Index x = forward_[slot(k)];
    const Index y = x - k;
    const bool is_inside = x >= 0 && y >= 0 && x <= n && y <= m && x + y < n + m;
    if (!is_inside || x + y <= best_sum) continue;
    best = {part.a + x, part.b + y};
    best_sum = x + y;
  }
  return best;
}

}  // namespace

std::vector<std::string_view> split_lines(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    const std::size_t newline = text.find('\n');
    const std::size_t length = newline == std::string_view::npos ? text.size() : newline + 1;
    lines.push_back(text.substr(0, length));
    text.remove_prefix(length);
  }
  return lines;
}

std::vector<Edit> diff_lines(const std::vector<std::string_view>& before,
                             const std::vector<std::string_view>& after) {
  return Differ(before, after).run();
}

}  // namespace glovebox::workspace
