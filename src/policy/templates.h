// The policies that come with the product, built into the program from policies/, so that the
// static command needs no files beside it. CMakeLists.txt lists them.
#pragma once

#include <span>
#include <string_view>
#include <vector>

namespace glovebox::policy {

struct Template {
  std::string_view name;  // "python"; the file is policies/python.yaml
  std::string_view text;
};

// Sorted by name. Defined in a file that the build makes (embed_templates.cmake).
std::span<const Template> templates();

const Template* find_template(std::string_view name);
std::vector<std::string_view> template_names();

}  // namespace glovebox::policy
