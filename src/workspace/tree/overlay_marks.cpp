#include "workspace/tree/overlay_marks.h"

#include "workspace/tree/printable.h"

#include <algorithm>

namespace glovebox::workspace {
namespace {

constexpr std::string_view kUser = "user.overlay.";
constexpr std::string_view kTrusted = "trusted.overlay.";
constexpr std::string_view kEscaped = "overlay.";

// The marks that mean nothing to us and that the kernel writes by itself.
bool is_harmless(std::string_view mark) {
  return mark == "origin" || mark == "impure" || mark == "uuid" || mark == "nlink";
}

class MarkReader {
 public:
  MarkReader(BorrowedFd dir, const std::string& name, const Node& node, MarkPrefix prefix,
             Within within)
      : dir_(dir), name_(name), node_(node), prefix_(prefix), within_(within) {}

  Result<Marks> read() {
    // The inode of whiteouts is the kernel's own and shared between them; it carries nothing else.
    if (node_.is(NodeType::CharDevice) && node_.device_number == 0) {
      marks_.is_whiteout = true;
      return std::move(marks_);
    }
    TRY(const auto attributes, list_xattrs(dir_, name_));
    for (const std::string& attribute : attributes) TRY_VOID(read_one(attribute));
    return std::move(marks_);
  }

 private:
  Result<void> read_one(const std::string& attribute) {
    const std::string_view own = to_text(prefix_);
    const std::string_view other = prefix_ == MarkPrefix::User ? kTrusted : kUser;
    if (attribute.starts_with(own)) {
      const std::string_view mark = std::string_view(attribute).substr(own.size());
      if (!mark.starts_with(kEscaped)) return read_mark(attribute, mark);
      forge(attribute, "an overlay mark that was set inside the box");
      return {};
    }
    if (attribute.starts_with(other)) {
      forge(attribute, "an overlay mark of another kind of mount");
    } else if (attribute.starts_with("user.")) {
      marks_.own.push_back(attribute);
    } else if (attribute == "security.capability") {
      marks_.has_capability = true;
    }
    return {};
  }

  Result<void> read_mark(const std::string& attribute, std::string_view mark) {
    if (mark == "origin") marks_.is_copied_up = true;
    if (is_harmless(mark)) return {};
    if (mark == "opaque" && node_.is(NodeType::Directory)) return read_opaque(attribute);
    if (mark == "whiteout" && within_ == Within::XwhiteoutDirectory && node_.is(NodeType::File) &&
        node_.size == 0) {
      marks_.is_whiteout = true;
      return {};
    }
    forge(attribute, "a mark that these mounts never make here");
    return {};
  }

  Result<void> read_opaque(const std::string& attribute) {
    TRY(const auto value, find_xattr(dir_, name_, attribute));
    if (value == "y") {
      marks_.is_opaque = true;
    } else if (value == "x") {
      marks_.has_xwhiteouts = true;
    } else {
      forge(attribute, "an unknown value");
    }
    return {};
  }

  void forge(const std::string& attribute, std::string_view why) {
    if (marks_.forged.empty()) marks_.forged = fmt::format("{}: {}", printable(attribute), why);
  }

  BorrowedFd dir_;
  const std::string& name_;
  const Node& node_;
  MarkPrefix prefix_;
  Within within_;
  Marks marks_;
};

}  // namespace

std::string_view to_text(MarkPrefix prefix) {
  return prefix == MarkPrefix::User ? kUser : kTrusted;
}

Result<Marks> read_marks(BorrowedFd dir, const std::string& name, const Node& node,
                         MarkPrefix prefix, Within within) {
  return MarkReader(dir, name, node, prefix, within).read();
}

Result<Xattrs> read_own_xattrs(BorrowedFd dir, const std::string& name, const Marks& marks) {
  Xattrs found;
  for (const std::string& attribute : marks.own) {
    TRY(auto value, find_xattr(dir, name, attribute));
    if (value) found.emplace(attribute, *std::move(value));
  }
  return found;
}

Result<Xattrs> read_plain_xattrs(BorrowedFd dir, const std::string& name) {
  Xattrs found;
  TRY(const auto attributes, list_xattrs(dir, name));
  for (const std::string& attribute : attributes) {
    if (!attribute.starts_with("user.") || attribute.starts_with(kUser)) continue;
    TRY(auto value, find_xattr(dir, name, attribute));
    if (value) found.emplace(attribute, *std::move(value));
  }
  return found;
}

}  // namespace glovebox::workspace
