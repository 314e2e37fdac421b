#include "support/outer_filter.h"

#include <cerrno>
#include <cstddef>

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>

namespace glovebox::test {
namespace {

using Program = std::vector<sock_filter>;

void load(Program& program, std::size_t offset) {
  program.push_back(BPF_STMT(BPF_LD | BPF_W | BPF_ABS, static_cast<std::uint32_t>(offset)));
}

// Goes on when the loaded value is this one, and skips `others` instructions when it is not.
void expect(Program& program, std::uint32_t value, std::uint8_t others) {
  program.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, 0, others));
}

void answer(Program& program, std::uint32_t action) {
  program.push_back(BPF_STMT(BPF_RET | BPF_K, action));
}

}  // namespace

bool install_outer_filter(const std::vector<int>& refused,
                          const std::vector<AnsweredCall>& answered) {
  Program program;
  load(program, offsetof(seccomp_data, nr));
  for (const int number : refused) {
    expect(program, static_cast<std::uint32_t>(number), 1);
    answer(program, SECCOMP_RET_ERRNO | ENOSYS);
  }
  for (const AnsweredCall& call : answered) {
    load(program, offsetof(seccomp_data, nr));
    expect(program, static_cast<std::uint32_t>(call.number), call.first_argument ? 3 : 1);
    if (call.first_argument) {
      load(program, offsetof(seccomp_data, args));
      expect(program, *call.first_argument, 1);
    }
    answer(program, SECCOMP_RET_ERRNO | 0U);
  }
  answer(program, SECCOMP_RET_ALLOW);
  sock_fprog filter{static_cast<unsigned short>(program.size()), program.data()};
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) == 0;
}

}  // namespace glovebox::test
