// The journal as text: one line for each step, fields separated by spaces, paths and values
// encoded.
#include "base/quantity.h"
#include "workspace/layer/journal.h"
#include "workspace/tree/printable.h"

#include <charconv>

namespace glovebox::workspace {
namespace {

constexpr std::string_view kStepsHead = "glovebox commit steps 1";
constexpr std::string_view kOutcomesHead = "glovebox commit outcomes 1";
constexpr std::string_view kIntentHead = "glovebox commit intent 1";

// Reads the fields of one line.
class Line {
 public:
  explicit Line(std::string_view text) : rest_(text) {}

  Result<std::string_view> word() {
    if (rest_.empty()) return fail(Code::Invalid, "the journal is broken: a field is missing");
    const std::size_t end = std::min(rest_.find(' '), rest_.size());
    const std::string_view found = rest_.substr(0, end);
    rest_.remove_prefix(std::min(end + 1, rest_.size()));
    return found;
  }

  template <class Number>
  Result<Number> number() {
    TRY(const std::string_view text, word());
    Number value{};
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size()) {
      return fail(Code::Invalid, "the journal is broken: not a number");
    }
    return value;
  }

  Result<std::string> bytes() {
    TRY(const std::string_view text, word());
    return decode_bytes(text);
  }

  Result<void> finish() const {
    if (rest_.empty()) return {};
    return fail(Code::Invalid, "the journal is broken: a field too many");
  }

 private:
  std::string_view rest_;
};

// The last line says how many there are, so that a cut file is seen.
std::string close_lines(const std::string& lines, std::size_t count) {
  return lines + fmt::format("end {}\n", count);
}

Result<std::vector<std::string_view>> open_lines(std::string_view text, std::string_view head) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    if (end == std::string_view::npos) return fail(Code::Invalid, "the journal is cut");
    lines.push_back(text.substr(0, end));
    text.remove_prefix(end + 1);
  }
  if (lines.size() < 2 || lines.front() != head ||
      lines.back() != fmt::format("end {}", lines.size() - 2)) {
    return fail(Code::Invalid, "the journal is cut or of another kind");
  }
  lines.erase(lines.begin());
  lines.pop_back();
  return lines;
}

std::string encode_node(const Node& node) {
  return fmt::format("{} {} {} {} {} {} {} {} {}", static_cast<unsigned>(node.type), node.mode,
                     node.uid, node.gid, node.size, node.device, node.inode, node.modified,
                     node.changed);
}

Result<Node> decode_node(Line& line) {
  Node node;
  TRY(const unsigned type, line.number<unsigned>());
  if (type > static_cast<unsigned>(NodeType::BlockDevice)) {
    return fail(Code::Invalid, "the journal is broken: an unknown type");
  }
  node.type = static_cast<NodeType>(type);
  TRY(node.mode, line.number<unsigned>());
  TRY(node.uid, line.number<uid_t>());
  TRY(node.gid, line.number<gid_t>());
  TRY(node.size, line.number<std::uint64_t>());
  TRY(node.device, line.number<std::uint64_t>());
  TRY(node.inode, line.number<std::uint64_t>());
  TRY(node.modified, line.number<std::int64_t>());
  TRY(node.changed, line.number<std::int64_t>());
  return node;
}

std::string encode_xattrs(const Xattrs& xattrs) {
  std::string out = fmt::format("{}", xattrs.size());
  for (const auto& [name, value] : xattrs) {
    // "=" in front, because an empty value would be an empty field.
    out += fmt::format(" {} ={}", encode_bytes(name), encode_bytes(value));
  }
  return out;
}

Result<Xattrs> decode_xattrs(Line& line) {
  Xattrs xattrs;
  TRY(const std::size_t count, line.number<std::size_t>());
  for (std::size_t i = 0; i < count; ++i) {
    TRY(std::string name, line.bytes());
    TRY(const std::string_view value, line.word());
    if (!value.starts_with('=')) return fail(Code::Invalid, "the journal is broken: no value");
    TRY(std::string bytes, decode_bytes(value.substr(1)));
    xattrs.insert_or_assign(std::move(name), std::move(bytes));
  }
  return xattrs;
}

Result<Step> decode_step(Line line) {
  Step step;
  TRY(const unsigned kind, line.number<unsigned>());
  TRY(const unsigned scope, line.number<unsigned>());
  if (kind > static_cast<unsigned>(StepKind::SetAttributes) || scope > 1) {
    return fail(Code::Invalid, "the journal is broken: an unknown step");
  }
  step.kind = static_cast<StepKind>(kind);
  step.scope = static_cast<Scope>(scope);
  TRY(step.staged_inode, line.number<std::uint64_t>());
  TRY(step.mode_after, line.number<unsigned>());
  TRY(step.before, decode_node(line));
  TRY(step.xattrs_before, decode_xattrs(line));
  TRY(step.xattrs_after, decode_xattrs(line));
  TRY(step.path, line.bytes());
  TRY_VOID(line.finish());
  return step;
}

}  // namespace

std::string encode_intent(const Intent& intent) {
  const std::string undoes = intent.undoes ? fmt::format("{}", *intent.undoes) : "none";
  return close_lines(fmt::format("{}\n{} {}\n", kIntentHead, encode_bytes(intent.staging), undoes),
                     1);
}

Result<Intent> decode_intent(std::string_view text) {
  TRY(const auto lines, open_lines(text, kIntentHead));
  if (lines.size() != 1) return fail(Code::Invalid, "the journal is broken: one intent expected");
  Line line(lines[0]);
  Intent intent;
  TRY(intent.staging, line.bytes());
  TRY(const std::string_view undoes, line.word());
  if (undoes != "none") {
    TRY(const std::uint64_t number, parse_count(undoes));
    intent.undoes = static_cast<std::size_t>(number);
  }
  TRY_VOID(line.finish());
  return intent;
}

std::string encode_steps(const std::vector<Step>& steps) {
  std::string out = fmt::format("{}\n", kStepsHead);
  for (const Step& step : steps) {
    out += fmt::format("{} {} {} {} {} {} {} {}\n", static_cast<unsigned>(step.kind),
                       static_cast<unsigned>(step.scope), step.staged_inode, step.mode_after,
                       encode_node(step.before), encode_xattrs(step.xattrs_before),
                       encode_xattrs(step.xattrs_after), encode_bytes(step.path));
  }
  return close_lines(out, steps.size());
}

Result<std::vector<Step>> decode_steps(std::string_view text) {
  TRY(const auto lines, open_lines(text, kStepsHead));
  std::vector<Step> steps;
  steps.reserve(lines.size());
  for (const std::string_view line : lines) {
    TRY(Step step, decode_step(Line(line)));
    steps.push_back(std::move(step));
  }
  return steps;
}

std::string encode_outcomes(const Outcomes& outcomes) {
  std::string out = fmt::format("{}\n", kOutcomesHead);
  for (const Node& node : outcomes) out += encode_node(node) + "\n";
  return close_lines(out, outcomes.size());
}

Result<Outcomes> decode_outcomes(std::string_view text) {
  TRY(const auto lines, open_lines(text, kOutcomesHead));
  Outcomes outcomes;
  outcomes.reserve(lines.size());
  for (const std::string_view text_line : lines) {
    Line line(text_line);
    TRY(const Node node, decode_node(line));
    TRY_VOID(line.finish());
    outcomes.push_back(node);
  }
  return outcomes;
}

}  // namespace glovebox::workspace
