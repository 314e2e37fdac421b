# glovebox_archive(VARIABLE NAME): another project's library. As a static archive, because the command is linked
# without shared libraries; as a shared one in what is shared itself (targets with the property GLOVEBOX_SHARED).
function(glovebox_archive variable name)
  find_library(${variable}_ARCHIVE lib${name}.a REQUIRED)
  # In the cache: a folder also names what a folder above it has looked for.
  set(${variable} "$<IF:$<BOOL:$<TARGET_PROPERTY:GLOVEBOX_SHARED>>,${name},${${variable}_ARCHIVE}>" CACHE INTERNAL "")
endfunction()
