# Tests with real boxes run in two lanes, root's and the ordinary user's, one test at a time in each: what a test counts
# (descriptors, processes, shares of a user) is its own, and two cores are used. What a test does to the whole machine
# (a full disk, kills, a clock that jumps) runs alone instead, by RUN_SERIAL.
#   glovebox_lanes(serve.http.root root)   glovebox_lanes(kernel.stdio root user)
function(glovebox_lanes test)
  set_tests_properties(${test} PROPERTIES RESOURCE_LOCK "${ARGN}")
endfunction()
