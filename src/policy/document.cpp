#include "policy/document.h"

#include "base/plain_text.h"

#include <fmt/format.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/mark.h>
#include <yaml-cpp/parser.h>

#include <algorithm>
#include <array>
#include <exception>
#include <map>
#include <span>
#include <sstream>
#include <unordered_set>
#include <utility>

namespace glovebox::policy {
namespace {

// Thrown out of the parser's callbacks, which have no other way to stop it; never leaves this file.
struct Stop {
  std::size_t line;
  std::size_t column;
  std::string what;
  std::string hint;
};

std::size_t from_one(int count) { return count < 0 ? 0 : static_cast<std::size_t>(count) + 1; }

[[noreturn]] void stop(const DocumentNode& node, std::string what, std::string hint = {}) {
  throw Stop{node.line, node.column, std::move(what), std::move(hint)};
}

std::size_t count_nodes(const DocumentNode& node) {
  std::size_t count = 1;
  for (const DocumentNode& key : node.keys) count += count_nodes(key);
  for (const DocumentNode& item : node.items) count += count_nodes(item);
  return count;
}

std::size_t height_of(const DocumentNode& node) {
  std::size_t tallest = 0;
  for (const DocumentNode& item : node.items) tallest = std::max(tallest, height_of(item));
  return tallest + 1;
}

// Builds the tree from the parser's events. yaml-cpp's own tree is not used: it keeps the first of
// two equal keys, follows aliases without a bound, and recurses as deep as the document says.
class TreeBuilder final : public YAML::EventHandler {
 public:
  DocumentNode take() { return std::move(root_); }
  bool has_document() const { return documents_ > 0; }

  void OnDocumentStart(const YAML::Mark& mark) override {
    if (++documents_ > 1)
      stop(node_at(mark), "a second document", "a file holds one policy document");
  }
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    finish(node_at(mark), anchor);
  }
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    DocumentNode here = node_at(mark);
    const auto named = anchors_.find(anchor);
    if (named == anchors_.end()) {
      stop(here, "an alias to what it is itself part of", "write the value out");
    }
    if (height_of(named->second) + open_.size() > kMaxDocumentDepth) stop_for_depth(here);
    count(here, count_nodes(named->second));
    attach(named->second, here);
  }
  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& value) override {
    DocumentNode node = node_at(mark);
    refuse_tag(node, tag);
    node.kind = NodeKind::Scalar;
    // The parser says "!" for a scalar in quotes or blocks and "?" for a plain one.
    node.style = tag == "!" ? ScalarStyle::Quoted : ScalarStyle::Plain;
    node.text = value;
    finish(std::move(node), anchor);
  }
  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    begin(mark, tag, anchor, NodeKind::Sequence);
  }
  void OnSequenceEnd() override { end(); }
  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    begin(mark, tag, anchor, NodeKind::Mapping);
  }
  void OnMapEnd() override { end(); }

 private:
  // A list or mapping whose end has not come. `seen` are the keys of a mapping.
  struct Open {
    DocumentNode node;
    YAML::anchor_t anchor;
    std::unordered_set<std::string> seen;
  };

  static DocumentNode node_at(const YAML::Mark& mark) {
    DocumentNode node;
    node.line = from_one(mark.line);
    node.column = from_one(mark.column);
    return node;
  }

  // An empty node in the same place.
  static DocumentNode place_of(const DocumentNode& node) {
    DocumentNode place;
    place.line = node.line;
    place.column = node.column;
    return place;
  }

  static void refuse_tag(const DocumentNode& node, const std::string& tag) {
    if (tag.empty() || tag == "?" || tag == "!") return;
    stop(node, fmt::format("the tag {}", quoted(tag)),
         "a policy has no tags; put text into quotes instead");
  }

  [[noreturn]] static void stop_for_depth(const DocumentNode& node) {
    stop(node, fmt::format("nested deeper than {} levels", kMaxDocumentDepth));
  }

  void count(const DocumentNode& node, std::size_t nodes) {
    count_ += nodes;
    if (count_ > kMaxDocumentNodes) {
      stop(node, fmt::format("more than {} nodes, with what aliases repeat", kMaxDocumentNodes));
    }
  }

  void begin(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor, NodeKind kind) {
    DocumentNode node = node_at(mark);
    refuse_tag(node, tag);
    count(node, 1);
    node.kind = kind;
    if (open_.size() >= kMaxDocumentDepth) stop_for_depth(node);
    if (wants_key()) stop(node, "a key that is no text", "write the key as one word");
    open_.push_back({std::move(node), anchor, {}});
  }

  void end() {
    Open done = std::move(open_.back());
    open_.pop_back();
    keep(done.anchor, done.node);
    const DocumentNode here = place_of(done.node);
    attach(std::move(done.node), here);
  }

  void finish(DocumentNode node, YAML::anchor_t anchor) {
    count(node, 1);
    keep(anchor, node);
    const DocumentNode here = place_of(node);
    attach(std::move(node), here);
  }

  // Keeps a copy for aliases to come. Anchors may be nested, so the copies count too.
  void keep(YAML::anchor_t anchor, const DocumentNode& node) {
    if (anchor == 0) return;
    count(node, count_nodes(node));
    anchors_.insert_or_assign(anchor, node);
  }

  bool wants_key() const {
    if (open_.empty() || open_.back().node.kind != NodeKind::Mapping) return false;
    return open_.back().node.keys.size() == open_.back().node.items.size();
  }

  void attach(DocumentNode node, const DocumentNode& here) {
    if (open_.empty()) {
      root_ = std::move(node);
    } else if (wants_key()) {
      add_key(std::move(node), here);
    } else {
      open_.back().node.items.push_back(std::move(node));
    }
  }

  void add_key(DocumentNode key, const DocumentNode& here) {
    if (key.kind != NodeKind::Scalar)
      stop(here, "a key that is no text", "write the key as one word");
    if (key.text == "<<" && key.style == ScalarStyle::Plain) {
      stop(here, "a merge key", "name the other sandbox with 'extends'");
    }
    if (!open_.back().seen.insert(key.text).second) {
      stop(here, fmt::format("the key {} is given twice", quoted(key.text)),
           "readers differ on which one counts; keep one");
    }
    open_.back().node.keys.push_back(std::move(key));
  }

  DocumentNode root_;
  std::vector<Open> open_;
  std::map<YAML::anchor_t, DocumentNode> anchors_;
  std::size_t count_ = 0;
  int documents_ = 0;
};

// yaml-cpp reads bytes that are not UTF-8 as question marks, a NUL as a sign of UTF-16, and 0x04 as
// the end of the text, so none of them may reach it.
Result<void, Diagnostics> check_characters(std::string_view text, std::string_view file) {
  if (text.size() > kMaxDocumentBytes) {
    return tl::unexpected(about_file(file, fmt::format("larger than {} bytes", kMaxDocumentBytes)));
  }
  std::size_t line = 1;
  std::size_t start = 0;
  for (std::size_t at = 0; at < text.size(); ++at) {
    const auto byte = static_cast<unsigned char>(text[at]);
    const bool is_line_end = byte == '\r' && at + 1 < text.size() && text[at + 1] == '\n';
    if (byte == '\n') {
      ++line;
      start = at + 1;
    } else if ((byte < 0x20 && byte != '\t' && !is_line_end) || byte == 0x7f) {
      return tl::unexpected(Diagnostics{{{std::string(file), line, at - start + 1},
                                         fmt::format("the control character \\x{:02x}", byte),
                                         "write it as an escape in double quotes"}});
    }
  }
  if (!is_utf8(text)) return tl::unexpected(about_file(file, "the text is not UTF-8"));
  return {};
}

// yaml-cpp takes the end of the text for the end of a quotation when it follows a line break.
std::string_view without_blank_end(std::string_view text) {
  const std::size_t last = text.find_last_not_of(" \t\r\n");
  return text.substr(0, last == std::string_view::npos ? 0 : last + 1);
}

Result<DocumentNode, Diagnostics> parse(std::string_view text, std::string_view file) {
  const auto refuse = [&](std::size_t line, std::size_t column, std::string what,
                          std::string hint) -> Result<DocumentNode, Diagnostics> {
    return tl::unexpected(
        Diagnostics{{{std::string(file), line, column}, std::move(what), std::move(hint)}});
  };
  try {
    std::istringstream stream{std::string(without_blank_end(text))};
    YAML::Parser parser(stream);
    TreeBuilder builder;
    while (parser.HandleNextDocument(builder)) {
    }
    if (!builder.has_document()) return refuse(0, 0, "the document is empty", "");
    return builder.take();
  } catch (const Stop& reason) {
    return refuse(reason.line, reason.column, reason.what, reason.hint);
  } catch (const YAML::Exception& problem) {
    return refuse(from_one(problem.mark.line), from_one(problem.mark.column),
                  fmt::format("not YAML: {}", one_line(problem.msg)), "");
  } catch (const std::exception& problem) {
    return refuse(0, 0, fmt::format("cannot be read: {}", one_line(problem.what())), "");
  }
}

bool is_one_of(std::string_view text, std::span<const std::string_view> words) {
  return std::find(words.begin(), words.end(), text) != words.end();
}

bool is_truth(std::string_view text) {
  constexpr std::array<std::string_view, 6> kWords{"true",  "True",  "TRUE",
                                                   "false", "False", "FALSE"};
  return is_one_of(text, kWords);
}

bool is_null(std::string_view text) {
  constexpr std::array<std::string_view, 5> kWords{"", "~", "null", "Null", "NULL"};
  return is_one_of(text, kWords);
}

// Numbers of YAML 1.2, taken widely: whatever starts like one and has only their characters.
// "10.0.0.1" is none, having two dots; "1e3", "0x1f" and "-.5" are.
bool is_number(std::string_view text) {
  if (text.empty()) return false;
  if (text.front() == '+' || text.front() == '-') text.remove_prefix(1);
  if (text == ".inf" || text == ".Inf" || text == ".INF") return true;
  if (text == ".nan" || text == ".NaN" || text == ".NAN") return true;
  const auto all_of = [](std::string_view part, std::string_view allowed) {
    return !part.empty() && part.find_first_not_of(allowed) == std::string_view::npos;
  };
  constexpr std::string_view kDigits = "0123456789";
  if (text.starts_with("0x")) return all_of(text.substr(2), "0123456789abcdefABCDEF");
  if (text.starts_with("0o")) return all_of(text.substr(2), kDigits);
  const std::size_t exponent = text.find_first_of("eE");
  if (exponent != std::string_view::npos) {
    std::string_view power = text.substr(exponent + 1);
    if (!power.empty() && (power.front() == '+' || power.front() == '-')) power.remove_prefix(1);
    if (!all_of(power, kDigits)) return false;
    text = text.substr(0, exponent);
  }
  return all_of(text, "0123456789.") && text != "." &&
         std::count(text.begin(), text.end(), '.') <= 1;
}

}  // namespace

const DocumentNode* DocumentNode::find(std::string_view key) const {
  for (std::size_t i = 0; i < keys.size(); ++i) {
    if (keys[i].text == key) return &items[i];
  }
  return nullptr;
}

bool DocumentNode::is_text() const {
  if (kind != NodeKind::Scalar) return false;
  return style == ScalarStyle::Quoted || !reads_as_other_than_text(text);
}

std::string_view DocumentNode::kind_text() const {
  switch (kind) {
    case NodeKind::Null: return "nothing";
    case NodeKind::Sequence: return "a list";
    case NodeKind::Mapping: return "a mapping";
    case NodeKind::Scalar: break;
  }
  if (is_text()) return "text";
  return is_truth(text) ? "a truth value" : "a number";
}

bool reads_as_other_than_text(std::string_view plain) {
  return is_null(plain) || is_truth(plain) || is_number(plain);
}

Result<DocumentNode, Diagnostics> read_document(std::string_view text, std::string_view file) {
  if (auto checked = check_characters(text, file); !checked) {
    return tl::unexpected(std::move(checked).error());
  }
  return parse(text, file);
}

}  // namespace glovebox::policy
