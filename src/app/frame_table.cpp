// A static program registers all its unwind tables before main, and the first exception then sorts
// them: 7 ms for this one, which --help, --version and every refused option would pay. The linker
// leaves a sorted table in the program (--eh-frame-hdr), which the unwinder finds by itself if
// nothing is registered; so nothing is. The linker puts these in the place of libgcc's functions
// (--wrap in CMakeLists.txt).

// NOLINTBEGIN(bugprone-reserved-identifier,readability-identifier-naming): the linker's names
extern "C" void __wrap___register_frame_info(const void*, void*);
extern "C" void* __wrap___deregister_frame_info(const void*);

void __wrap___register_frame_info(const void* /*tables*/, void* /*object*/) {}

void* __wrap___deregister_frame_info(const void* /*tables*/) { return nullptr; }
// NOLINTEND(bugprone-reserved-identifier,readability-identifier-naming)
