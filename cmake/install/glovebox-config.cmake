# find_package(glovebox) gives glovebox::glovebox.
include("${CMAKE_CURRENT_LIST_DIR}/glovebox-targets.cmake")
