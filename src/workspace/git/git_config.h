// Reads git configuration files well enough to tell which settings differ.
//
// Not a replacement for git: values are compared, never used. What cannot be read is an error, and
// the gate holds the change.
#pragma once

#include "base/result.h"

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace glovebox::workspace {

inline constexpr std::size_t kLargestGitConfig = std::size_t{1} << 20;

// Values by name, in the file's order. A name is "section.key" or "section.subsection.key" with
// section and key in small letters and the subsection as written.
using GitSettings = std::map<std::string, std::vector<std::string>>;

Result<GitSettings> parse_git_config(std::string_view text);

// Whether a setting's name is one of `keys`. A key has "*" for a whole part: "filter.*.clean"
// stands for every subsection, whatever dots it holds; all letters compare without case.
bool is_setting_of(std::string_view name, const std::vector<std::string>& keys);

// The names in `keys` whose values differ between two files, sorted.
std::vector<std::string> differing_settings(const GitSettings& before, const GitSettings& after,
                                            const std::vector<std::string>& keys);

// The lines of a gitattributes file that bind a filter, diff or merge driver or define a macro.
std::vector<std::string> binding_lines(std::string_view text);

}  // namespace glovebox::workspace
