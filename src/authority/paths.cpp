#include "authority/paths.h"

#include "base/plain_text.h"

#include <algorithm>

namespace glovebox::authority {
namespace {

Result<void> check_component(std::string_view component, std::string_view whole) {
  if (component == "..") {
    return fail(Code::Invalid, "path {}: '..' is not allowed (write the path it leads to)",
                quoted(whole));
  }
  if (component.size() > AbsolutePath::kMaxComponentBytes) {
    return fail(Code::Invalid, "path {}: a component is longer than {} bytes", quoted(whole),
                AbsolutePath::kMaxComponentBytes);
  }
  return {};
}

}  // namespace

Result<AbsolutePath> AbsolutePath::parse(std::string_view text) {
  if (text.empty() || text.front() != '/') {
    return fail(Code::Invalid, "path {}: not absolute (start it with '/')", quoted(text));
  }
  if (text.size() > kMaxBytes) {
    return fail(Code::Invalid, "path {}: longer than {} bytes", quoted(text), kMaxBytes);
  }
  if (!is_plain_text(text)) {
    return fail(Code::Invalid, "path {}: must be UTF-8 without control characters", quoted(text));
  }
  if (text.find_first_of("*?") != std::string_view::npos) {
    return fail(Code::Invalid, "path {}: no pattern is taken here (a path reaches all beneath it)",
                quoted(text));
  }
  std::string normal;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t slash = std::min(text.find('/', at), text.size());
    const std::string_view component = text.substr(at, slash - at);
    at = slash + 1;
    if (component.empty() || component == ".") continue;
    TRY_VOID(check_component(component, text));
    normal.append("/").append(component);
  }
  return AbsolutePath(normal.empty() ? "/" : std::move(normal));
}

bool AbsolutePath::contains(const AbsolutePath& other) const {
  if (text_ == "/") return true;
  if (!other.text_.starts_with(text_)) return false;
  return other.text_.size() == text_.size() || other.text_[text_.size()] == '/';
}

}  // namespace glovebox::authority
