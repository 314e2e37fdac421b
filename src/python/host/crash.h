// Which cell ended its worker: a fault on a cell's thread is told to the supervisor before the
// process dies of it.
//
// CPython has calls without a bound on their depth (hash() of a tuple in a tuple in a tuple, the
// end of a long chain of iterators), so plain Python code can end a process. All cells of it are
// lost then; which one is to blame and which begin anew is the supervisor's to decide, and this is
// how it hears of it. A cell with native code can lie here, and gains another cell's end by it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace glovebox::pyhost {

// Once, before the first cell. errno, or 0.
int watch_crashes();

// A place to handle a fault when the thread's own stack is full. Lives in the outermost frame of a
// cell's thread, which a stack that runs over does not reach.
class CrashStack {
 public:
  CrashStack();
  CrashStack(const CrashStack&) = delete;
  CrashStack& operator=(const CrashStack&) = delete;
  ~CrashStack();

  // Whose thread this is.
  static void set_cell(std::uint32_t number);

 private:
  static constexpr std::size_t kSize = std::size_t{32} << 10;
  alignas(16) std::array<std::byte, kSize> bytes_;
};

// The cell whose thread met a fault, until the process ends of it; 0 as long as there is none.
// Another thread tells of it and says so: then the process ends. It also ends when nothing is said.
std::uint32_t crashed_cell();
void crash_is_told();

}  // namespace glovebox::pyhost
