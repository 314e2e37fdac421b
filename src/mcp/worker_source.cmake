# cmake -DINPUT=worker.py -DOUTPUT=worker_source.cpp -P worker_source.cmake
# Writes the C++ file that defines glovebox::mcp::python_worker_source().
file(READ "${INPUT}" text)
string(FIND "${text}" ")worker\"" clash)
if(NOT clash EQUAL -1)
  message(FATAL_ERROR "${INPUT}: contains the end of a raw string")
endif()
file(WRITE "${OUTPUT}" "// Made by worker_source.cmake from src/python/repl/worker.py.
#include \"mcp/repl/worker.h\"

namespace glovebox::mcp {

std::string_view python_worker_source() {
  return R\"worker(${text})worker\";
}

}  // namespace glovebox::mcp
")
