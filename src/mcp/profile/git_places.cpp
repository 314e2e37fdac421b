#include "mcp/profile/git_places.h"

#include <optional>
#include <string_view>

namespace glovebox::mcp {
namespace {

std::string_view without_line_end(std::string_view text) {
  while (text.ends_with('\n') || text.ends_with('\r')) text.remove_suffix(1);
  return text;
}

std::string below(const std::string& directory, std::string_view path) {
  return path.starts_with('/') ? std::string(path) : fmt::format("{}/{}", directory, path);
}

}  // namespace

Result<std::vector<std::string>> find_git_places(const std::string& dot_git, const HostView& host) {
  constexpr std::string_view kWord = "gitdir: ";
  std::vector<std::string> places;
  std::string git_directory = dot_git;
  TRY(const std::optional<std::string> file, host.read_small_file(dot_git));
  if (file) {
    const std::string_view line = without_line_end(*file);
    // Any other file is an error for git, which then runs nothing of it.
    if (!line.starts_with(kWord) || line.size() == kWord.size()) return places;
    const std::string directory = dot_git.substr(0, dot_git.rfind('/'));
    git_directory = below(directory, line.substr(kWord.size()));
    places.push_back(git_directory);
  }
  TRY(const std::optional<std::string> common, host.read_small_file(git_directory + "/commondir"));
  if (common && !without_line_end(*common).empty()) {
    places.push_back(below(git_directory, without_line_end(*common)));
  }
  return places;
}

}  // namespace glovebox::mcp
