#include "workspace/git/git_config.h"

#include <algorithm>
#include <cctype>

namespace glovebox::workspace {
namespace {

bool is_name_byte(char byte) {
  return std::isalnum(static_cast<unsigned char>(byte)) != 0 || byte == '-';
}

char lower(char byte) { return static_cast<char>(std::tolower(static_cast<unsigned char>(byte))); }

std::string lowered(std::string_view text) {
  std::string out(text);
  std::transform(out.begin(), out.end(), out.begin(), lower);
  return out;
}

class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {}

  Result<GitSettings> parse() {
    if (text_.starts_with("\xef\xbb\xbf")) text_.remove_prefix(3);
    for (;;) {
      skip_blank();
      if (at_end()) return std::move(settings_);
      if (peek() == '#' || peek() == ';') {
        skip_line();
      } else if (peek() == '[') {
        TRY_VOID(section());
      } else {
        TRY_VOID(setting());
      }
    }
  }

 private:
  bool at_end() const { return at_ >= text_.size(); }
  char peek() const { return at_end() ? '\n' : text_[at_]; }
  char take() { return at_end() ? '\n' : text_[at_++]; }

  void skip_blank() {
    while (!at_end() && std::isspace(static_cast<unsigned char>(peek())) != 0) ++at_;
  }
  void skip_spaces() {
    while (!at_end() && (peek() == ' ' || peek() == '\t' || peek() == '\r')) ++at_;
  }
  void skip_line() {
    while (!at_end() && take() != '\n') {
    }
  }
  auto broken(std::string_view what) const {
    return fail(Code::Invalid, "git configuration: {} at byte {}", what, at_);
  }

  // [section], [section.old-style] or [section "sub.section"]
  Result<void> section() {
    ++at_;
    section_.clear();
    while (!at_end() && (is_name_byte(peek()) || peek() == '.')) section_ += lower(take());
    if (section_.empty()) return broken("a section without a name");
    skip_spaces();
    if (peek() == '"') TRY_VOID(subsection());
    if (take() != ']') return broken("a section that does not end");
    return {};
  }

  Result<void> subsection() {
    ++at_;
    section_ += '.';
    for (;;) {
      char byte = take();
      if (byte == '"') return {};
      if (byte == '\\') byte = take();
      if (byte == '\n' || byte == '\0') return broken("a subsection that does not end");
      section_ += byte;
    }
  }

  Result<void> setting() {
    std::string name;
    while (!at_end() && is_name_byte(peek())) name += lower(take());
    if (name.empty() || section_.empty()) return broken("a line that is no setting");
    skip_spaces();
    std::string value = "true";  // a name alone is true
    if (peek() == '=') {
      ++at_;
      TRY(value, read_value());
    } else if (peek() != '\n' && peek() != '#' && peek() != ';') {
      return broken("a setting without '='");
    } else {
      skip_line();
    }
    settings_[section_ + "." + name].push_back(std::move(value));
    return {};
  }

  Result<char> escape() {
    const char byte = take();
    switch (byte) {
      case '\\':
      case '"': return byte;
      case 'n': return '\n';
      case 't': return '\t';
      case 'b': return '\b';
      default: return broken("an unknown escape");
    }
  }

  // Spaces at both ends do not count, unless they are quoted; a backslash joins the next line.
  Result<std::string> read_value() {
    skip_spaces();
    std::string value;
    std::size_t solid = 0;
    bool is_quoted = false;
    for (;;) {
      const char byte = take();
      if (byte == '\0') return broken("a zero byte");
      if (byte == '\n') break;
      if (byte == '\r' && peek() == '\n') continue;
      if (byte == '"') {
        is_quoted = !is_quoted;
        solid = value.size();
      } else if (byte == '\\' && peek() == '\n') {
        ++at_;
      } else if (byte == '\\') {
        TRY(const char escaped, escape());
        value += escaped;
        solid = value.size();
      } else if (!is_quoted && (byte == '#' || byte == ';')) {
        skip_line();
        break;
      } else {
        value += byte;
        if (is_quoted || (byte != ' ' && byte != '\t')) solid = value.size();
      }
    }
    if (is_quoted) return broken("a quote that does not end");
    value.resize(solid);
    return value;
  }

  std::string_view text_;
  std::size_t at_ = 0;
  std::string section_;
  GitSettings settings_;
};

bool matches_key(std::string_view name, std::string_view key) {
  const std::size_t first = name.find('.');
  const std::size_t last = name.rfind('.');
  const std::size_t key_first = key.find('.');
  const std::size_t key_last = key.rfind('.');
  if (name.substr(0, first) != key.substr(0, key_first)) return false;
  const auto last_key = key.substr(key_last + 1);
  if (last_key != "*" && name.substr(last + 1) != last_key) return false;
  if ((first == last) != (key_first == key_last)) return false;
  if (first == last) return true;
  const auto middle = key.substr(key_first + 1, key_last - key_first - 1);
  return middle == "*" || name.substr(first + 1, last - first - 1) == middle;
}

}  // namespace

Result<GitSettings> parse_git_config(std::string_view text) {
  if (text.size() > kLargestGitConfig) {
    return fail(Code::Exhausted, "git configuration: more than {} bytes", kLargestGitConfig);
  }
  return Parser(text).parse();
}

bool is_setting_of(std::string_view name, const std::vector<std::string>& keys) {
  const std::string small = lowered(name);
  return std::any_of(keys.begin(), keys.end(),
                     [&](const std::string& key) { return matches_key(small, lowered(key)); });
}

std::vector<std::string> differing_settings(const GitSettings& before, const GitSettings& after,
                                            const std::vector<std::string>& keys) {
  std::vector<std::string> names;
  for (const auto& [name, values] : after) {
    const auto old = before.find(name);
    const bool is_same = old != before.end() && old->second == values;
    if (!is_same && is_setting_of(name, keys)) names.push_back(name);
  }
  for (const auto& [name, values] : before) {
    if (!after.contains(name) && is_setting_of(name, keys)) names.push_back(name);
  }
  std::sort(names.begin(), names.end());
  return names;
}

std::vector<std::string> binding_lines(std::string_view text) {
  std::vector<std::string> found;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string line = lowered(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
    const std::size_t first = line.find_first_not_of(" \t\r");
    if (first == std::string::npos || line[first] == '#') continue;
    for (const std::string_view word : {"filter", "diff", "merge", "[attr]"}) {
      if (line.find(word) == std::string::npos) continue;
      found.push_back(line);
      break;
    }
  }
  return found;
}

}  // namespace glovebox::workspace
