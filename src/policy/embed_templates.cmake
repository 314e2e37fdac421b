# cmake -DOUTPUT=templates.cpp -P embed_templates.cmake -- a.yaml b.yaml ...
# Writes the C++ file that defines glovebox::policy::templates().
set(files "")
set(seen_dashes FALSE)
foreach(i RANGE ${CMAKE_ARGC})
  if(seen_dashes AND DEFINED CMAKE_ARGV${i})
    list(APPEND files "${CMAKE_ARGV${i}}")
  elseif("${CMAKE_ARGV${i}}" STREQUAL "--")
    set(seen_dashes TRUE)
  endif()
endforeach()
list(FILTER files EXCLUDE REGEX "^$")
list(SORT files)

set(entries "")
list(LENGTH files count)
foreach(file IN LISTS files)
  get_filename_component(name "${file}" NAME_WE)
  file(READ "${file}" text)
  string(FIND "${text}" ")policy\"" clash)
  if(NOT clash EQUAL -1)
    message(FATAL_ERROR "${file}: contains the end of a raw string")
  endif()
  string(APPEND entries "    {\"${name}\", R\"policy(${text})policy\"},\n")
endforeach()

file(WRITE "${OUTPUT}" "// Made by embed_templates.cmake from policies/.
#include \"policy/templates.h\"

#include <array>

namespace glovebox::policy {
namespace {

constexpr std::array<Template, ${count}> kTemplates{{
${entries}}};

}  // namespace

std::span<const Template> templates() { return kTemplates; }

}  // namespace glovebox::policy
")
