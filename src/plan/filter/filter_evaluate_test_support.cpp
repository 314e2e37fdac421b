#include "plan/filter/filter_evaluate_test_support.h"

#include "base/result.h"

#include <cstring>

namespace glovebox::plan {
namespace {

std::uint32_t load_word(const seccomp_data& data, std::uint32_t offset) {
  GLOVEBOX_CHECK(offset % sizeof(std::uint32_t) == 0);
  GLOVEBOX_CHECK(offset <= sizeof(data) - sizeof(std::uint32_t));
  std::uint32_t word = 0;
  std::memcpy(&word, reinterpret_cast<const unsigned char*>(&data) + offset, sizeof(word));
  return word;
}

bool is_conditional_jump(std::uint16_t code) {
  switch (code) {
    case BPF_JMP | BPF_JEQ | BPF_K:
    case BPF_JMP | BPF_JGE | BPF_K:
    case BPF_JMP | BPF_JGT | BPF_K:
    case BPF_JMP | BPF_JSET | BPF_K: return true;
    default: return false;
  }
}

bool holds(std::uint16_t code, std::uint32_t accumulator, std::uint32_t k) {
  switch (BPF_OP(code)) {
    case BPF_JEQ: return accumulator == k;
    case BPF_JGE: return accumulator >= k;
    case BPF_JGT: return accumulator > k;
    default: return (accumulator & k) != 0;
  }
}

}  // namespace

FilterRun run_filter(std::span<const sock_filter> program, const seccomp_data& data) {
  std::uint32_t accumulator = 0;
  std::size_t steps = 0;
  // Every jump goes forward, so this ends; 64 bits keep a hostile distance from wrapping around.
  for (std::uint64_t at = 0;;) {
    GLOVEBOX_CHECK(at < program.size());
    const sock_filter& instruction = program[at];
    ++at;
    ++steps;
    if (is_conditional_jump(instruction.code)) {
      at += holds(instruction.code, accumulator, instruction.k) ? instruction.jt : instruction.jf;
      continue;
    }
    switch (instruction.code) {
      case BPF_RET | BPF_K: return {instruction.k, steps};
      case BPF_JMP | BPF_JA: at += instruction.k; break;
      case BPF_LD | BPF_W | BPF_ABS: accumulator = load_word(data, instruction.k); break;
      case BPF_ALU | BPF_AND | BPF_K: accumulator &= instruction.k; break;
      default: {
        const bool known_instruction = false;
        GLOVEBOX_CHECK(known_instruction);
      }
    }
  }
}

std::uint32_t evaluate_filter(std::span<const sock_filter> program, const seccomp_data& data) {
  return run_filter(program, data).action;
}

}  // namespace glovebox::plan
