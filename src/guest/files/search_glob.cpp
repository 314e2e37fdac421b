#include "guest/files/search_glob.h"

namespace glovebox::guest {

Result<Glob> Glob::parse(std::string_view pattern, Case letters) {
  const bool whole_path =
      pattern.find('/') != std::string_view::npos || pattern.find("**") != std::string_view::npos;
  while (pattern.starts_with("./")) pattern.remove_prefix(2);
  const GlobSyntax syntax{.dialect = GlobDialect::Search,
                          .letters = letters == Case::Ignored ? GlobCase::Folded : GlobCase::Exact};
  auto parsed = GlobPattern::parse(pattern, syntax);
  if (!parsed) return fail(Code::Invalid, "the pattern: {}", parsed.error().message);
  Glob glob(*std::move(parsed));
  glob.whole_path_ = whole_path;
  return glob;
}

bool Glob::matches(std::string_view path) const {
  return pattern_.matches(whole_path_ ? path : path.substr(path.rfind('/') + 1));
}

}  // namespace glovebox::guest
