#include "policy/load.h"

#include "base/file.h"
#include "base/plain_text.h"
#include "policy/templates.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cerrno>

#include <fcntl.h>
#include <sys/stat.h>

namespace glovebox::policy {
namespace {

bool names_a_file(std::string_view text) {
  return text.find('/') != std::string_view::npos || text.ends_with(".yaml") ||
         text.ends_with(".yml") || text.ends_with(".json");
}

// Only a regular file is read: opening a pipe would wait for its writer.
Result<std::string> read_policy_text(const std::string& path) {
  TRY(const UniqueFd fd, open_file(path, O_RDONLY | O_NONBLOCK));
  struct stat status{};
  if (::fstat(fd.get(), &status) != 0) return fail_os(errno, "look at {}", path);
  if (!S_ISREG(status.st_mode)) return fail(Code::Invalid, "not a regular file");
  return read_fd(fd, kMaxDocumentBytes);
}

Result<PolicyFile, Diagnostics> load_template(const std::string& name) {
  const Template* found = find_template(name);
  if (found != nullptr) return compile(found->text, fmt::format("policies/{}.yaml", name));
  const std::vector<std::string_view> names = template_names();
  return tl::unexpected(about_file(
      one_line(name), "there is no policy of that name",
      nearest_hint(name, names,
                   fmt::format("one of: {}; a file is named by a path, such as ./{}.yaml",
                               fmt::join(names, ", "), one_line(name)))));
}

}  // namespace

const Template* find_template(std::string_view name) {
  const std::span<const Template> all = templates();
  const auto found =
      std::find_if(all.begin(), all.end(), [&](const Template& each) { return each.name == name; });
  return found == all.end() ? nullptr : &*found;
}

std::vector<std::string_view> template_names() {
  std::vector<std::string_view> names;
  names.reserve(templates().size());
  for (const Template& each : templates()) names.push_back(each.name);
  return names;
}

Reference parse_reference(std::string_view text) {
  const std::size_t hash = text.rfind('#');
  const std::string_view source = text.substr(0, hash);
  const std::string_view sandbox =
      hash == std::string_view::npos ? std::string_view() : text.substr(hash + 1);
  return {names_a_file(source) ? Reference::Kind::File : Reference::Kind::Template,
          std::string(source), std::string(sandbox)};
}

Result<PolicyFile, Diagnostics> load_policy_file(const Reference& reference) {
  if (reference.kind == Reference::Kind::Template) return load_template(reference.source);
  auto text = read_policy_text(reference.source);
  if (!text) return tl::unexpected(about_file(reference.source, text.error().message));
  return compile(*text, reference.source);
}

Result<CompiledPolicy, Diagnostics> load_policy(std::string_view text) {
  const Reference reference = parse_reference(text);
  TRY(const PolicyFile file, load_policy_file(reference));
  return select_sandbox(file, reference.sandbox);
}

}  // namespace glovebox::policy
