# Warnings, hardening and sanitizers for everything we compile.
add_compile_options(-Wall -Wextra -Wshadow -Wconversion -Wnon-virtual-dtor -Wold-style-cast -Werror)
# Where g++ 12 inlines std::string it takes what cannot happen for possible. Sanitizers look at the same.
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  add_compile_options(-Wno-array-bounds -Wno-maybe-uninitialized -Wno-restrict -Wno-stringop-overflow
    -Wno-stringop-overread)
endif()
add_compile_definitions(_GNU_SOURCE)

if(GLOVEBOX_FUZZ)
  add_compile_options(-fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=all -O1
    -gline-tables-only -fno-omit-frame-pointer)
  add_link_options(-fsanitize=address,undefined)
elseif(GLOVEBOX_SANITIZE STREQUAL "thread")
  # Line tables are all that a report needs, and a fraction of the room.
  add_compile_options(-fsanitize=thread -O1 -gline-tables-only -fno-omit-frame-pointer)
  add_link_options(-fsanitize=thread)
elseif(GLOVEBOX_SANITIZE)
  add_compile_options(-fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer)
  add_link_options(-fsanitize=address,undefined)
else()
  add_compile_options(-fstack-protector-strong -ffunction-sections -fdata-sections)
  add_link_options(-Wl,--gc-sections)
  add_link_options(-Wl,-z,relro,-z,now)
  if(CMAKE_BUILD_TYPE STREQUAL "Release")
    add_compile_options(-U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=2)
  endif()
endif()
