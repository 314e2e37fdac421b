#include "plan/filter/filter_rules.h"

#include "plan/filter/filter_calls.h"
#include "plan/filter/filter_requests.h"

#include <algorithm>
#include <cerrno>
#include <span>
#include <utility>

#include <fcntl.h>
#include <linux/fs.h>
#include <linux/seccomp.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <sys/personality.h>
#include <sys/socket.h>
#include <sys/stat.h>

namespace glovebox::plan {
namespace {

ArgumentTest one_of(std::uint8_t argument, std::vector<std::uint64_t> values,
                    std::uint64_t mask = kLow32) {
  return {argument, mask, ArgumentTest::Relation::OneOf, std::move(values)};
}

ArgumentTest has_any(std::uint8_t argument, std::uint64_t flags) {
  return {argument, flags, ArgumentTest::Relation::NoneOf, {0}};
}

class RuleTable {
 public:
  explicit RuleTable(Architecture architecture) {
    rules_.architecture = architecture;
    rules_.unknown = Verdict::refuse(ENOSYS);
    rules_.syscalls.reserve(512);
  }

  void add(SyscallNumber syscall, std::vector<Clause> clauses, Verdict otherwise) {
    const int number =
        rules_.architecture == Architecture::X86_64 ? syscall.x86_64 : syscall.aarch64;
    if (number == kNoCall) return;
    rules_.syscalls.push_back(
        {syscall.name, static_cast<std::uint32_t>(number), std::move(clauses), otherwise});
  }

  void add(std::span<const SyscallNumber> syscalls, Verdict verdict) {
    for (const SyscallNumber& syscall : syscalls) add(syscall, {}, verdict);
  }

  FilterRules finish() && {
    std::ranges::sort(rules_.syscalls, {}, &SyscallRule::number);
    return std::move(rules_);
  }

 private:
  FilterRules rules_;
};

void add_process_rules(RuleTable& table) {
  // clone looks at the low half alone. Its lowest byte is the signal of the child's end, where
  // CLONE_NEWTIME would be no signal that exists.
  constexpr std::uint64_t kNewTime = 0x80;
  constexpr std::uint64_t kNewNamespaces = CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS |
                                           CLONE_NEWIPC | CLONE_NEWUSER | CLONE_NEWPID |
                                           CLONE_NEWNET | kNewTime;
  table.add({"clone", 56, 220}, {{{has_any(0, kNewNamespaces)}, Verdict::refuse(EPERM)}},
            Verdict::allow());

  // Threads may stop sharing what they share. All 64 bits are the flags here.
  constexpr std::uint64_t kOwnShare = CLONE_FILES | CLONE_FS | CLONE_SYSVSEM;
  table.add({"unshare", 272, 97}, {{{one_of(0, {0}, kAll64 & ~kOwnShare)}, Verdict::allow()}},
            Verdict::refuse(EPERM));

  // Debuggers turn off address randomisation for what they start, and old programs want a 2.6
  // kernel's name. The others (32-bit mode, page zero, readable means executable) weaken a process
  // that runs a hostile input, or lead to code that is hardly used.
  constexpr std::uint64_t kAsk = 0xffff'ffff;
  table.add({"personality", 135, 92},
            {{{one_of(0, {PER_LINUX, UNAME26, ADDR_NO_RANDOMIZE, kAsk})}, Verdict::allow()}},
            Verdict::refuse(EPERM));

  // A program may add filters, which can only refuse more. With a listener it could answer calls in
  // another's place, and there can be one listener only.
  table.add({"seccomp", 317, 277},
            {{{one_of(0, {SECCOMP_SET_MODE_FILTER}), has_any(1, SECCOMP_FILTER_FLAG_NEW_LISTENER)},
              Verdict::refuse(EPERM)}},
            Verdict::allow());

  // Belongs to the group "numa", which lets the caller place its own pages (bring_back).
  table.add({"move_pages", 279, 239}, {}, Verdict::refuse(ENOSYS));
}

std::vector<std::uint64_t> listed(std::span<const std::uint64_t> values) {
  return {values.begin(), values.end()};
}

void add_request_rules(RuleTable& table) {
  table.add({"ioctl", 16, 29},
            {{{one_of(1, listed(allowed_ioctls()))}, Verdict::allow()},
             {{one_of(1, listed(refused_ioctls()))}, Verdict::refuse(EPERM)}},
            Verdict::refuse(ENOTTY));
  table.add({"prctl", 157, 167},
            {{{one_of(0, listed(allowed_prctls()))}, Verdict::allow()},
             {{one_of(0, listed(refused_prctls()))}, Verdict::refuse(EPERM)}},
            Verdict::refuse(EINVAL));
}

void add_socket_rules(RuleTable& table) {
  constexpr std::uint8_t kFamily = 0, kType = 1, kProtocol = 2;
  constexpr std::uint64_t kTypeBits = 0xf;  // above them are SOCK_CLOEXEC and SOCK_NONBLOCK
  const ArgumentTest local = one_of(kFamily, {AF_UNIX});
  const ArgumentTest internet = one_of(kFamily, {AF_INET, AF_INET6});
  const ArgumentTest local_type =
      one_of(kType, {SOCK_STREAM, SOCK_DGRAM, SOCK_SEQPACKET}, kTypeBits);

  // Under SOCK_STREAM and SOCK_DGRAM are also SCTP, MPTCP, SMC, L2TP, UDP-Lite and ping. The kernel
  // loads modules for them on request, and few programs would miss them.
  table.add(
      {"socket", 41, 198},
      {{{local, local_type}, Verdict::allow()},
       {{internet, one_of(kType, {SOCK_STREAM}, kTypeBits), one_of(kProtocol, {0, IPPROTO_TCP})},
        Verdict::allow()},
       {{internet, one_of(kType, {SOCK_DGRAM}, kTypeBits), one_of(kProtocol, {0, IPPROTO_UDP})},
        Verdict::allow()},
       {{internet, one_of(kType, {SOCK_STREAM, SOCK_DGRAM}, kTypeBits)},
        Verdict::refuse(EPROTONOSUPPORT)},
       {{one_of(kFamily, {AF_UNIX, AF_INET, AF_INET6})}, Verdict::refuse(EPERM)}},
      Verdict::refuse(EAFNOSUPPORT));

  table.add({"socketpair", 53, 199},
            {{{local, local_type}, Verdict::allow()}, {{local}, Verdict::refuse(EPERM)}},
            Verdict::refuse(EAFNOSUPPORT));

  // TCP_ULP puts the kernel's TLS, another module with a history, under a socket. ENOENT is what a
  // kernel without it says.
  // The kernel's tables do not find a socket by its addresses once it is bound to a device: the
  // broker would take a connection for ended that is not. A box has no device to choose.
  table.add({"setsockopt", 54, 208},
            {{{one_of(1, {IPPROTO_TCP}), one_of(2, {TCP_ULP})}, Verdict::refuse(ENOENT)},
             {{one_of(1, {SOL_SOCKET}), one_of(2, {SO_BINDTODEVICE, SO_BINDTOIFINDEX})},
              Verdict::refuse(EPERM)}},
            Verdict::allow());
}

void add_file_rules(RuleTable& table) {
  // In the box set-user-ID means nothing (nosuid, no_new_privs). But a file in a workspace outlives
  // the box, belongs to the workspace's owner, and lies where any local user may run it. The kernel
  // clears the bits at the first write, but set-group-ID only of a file that its group may execute,
  // and an access list makes it one afterwards.
  constexpr std::uint64_t kSetId = S_ISUID | S_ISGID;
  const auto no_set_id = [](std::uint8_t argument) {
    return std::vector<Clause>{{{has_any(argument, kSetId)}, Verdict::refuse(EPERM)}};
  };
  constexpr std::uint64_t kMakes = O_CREAT | (O_TMPFILE & ~O_DIRECTORY);
  const auto no_set_id_made = [](std::uint8_t flags, std::uint8_t mode) {
    return std::vector<Clause>{
        {{has_any(flags, kMakes), has_any(mode, kSetId)}, Verdict::refuse(EPERM)}};
  };
  table.add({"open", 2, kNoCall}, no_set_id_made(1, 2), Verdict::allow());
  table.add({"openat", 257, 56}, no_set_id_made(2, 3), Verdict::allow());
  table.add({"creat", 85, kNoCall}, no_set_id(1), Verdict::allow());
  table.add({"chmod", 90, kNoCall}, no_set_id(1), Verdict::allow());
  table.add({"fchmod", 91, 52}, no_set_id(1), Verdict::allow());
  table.add({"fchmodat", 268, 53}, no_set_id(2), Verdict::allow());
  table.add({"fchmodat2", 452, 452}, no_set_id(2), Verdict::allow());

  // No devices, and no whiteouts either, which are devices 0:0 that anyone may make: one in an
  // upper layer hides a file below. A type of 0 means a regular file.
  const auto plain_node = [](std::uint8_t argument) {
    return std::vector<Clause>{
        {{one_of(argument, {0, S_IFREG, S_IFIFO, S_IFSOCK}, S_IFMT | kSetId)}, Verdict::allow()}};
  };
  table.add({"mknod", 133, kNoCall}, plain_node(1), Verdict::refuse(EPERM));
  table.add({"mknodat", 259, 33}, plain_node(2), Verdict::refuse(EPERM));
  // EINVAL is what a filesystem without whiteouts says.
  table.add({"renameat2", 316, 276}, {{{has_any(4, RENAME_WHITEOUT)}, Verdict::refuse(EINVAL)}},
            Verdict::allow());
}

}  // namespace

FilterRules default_filter_rules(Architecture architecture) {
  RuleTable table(architecture);
  table.add(allowed_calls(), Verdict::allow());
  table.add(refused_calls(), Verdict::refuse(EPERM));
  table.add(absent_calls(), Verdict::refuse(ENOSYS));
  for (const CallGroup& group : call_groups()) table.add(group.calls, Verdict::refuse(group.error));
  add_process_rules(table);
  add_socket_rules(table);
  add_file_rules(table);
  add_request_rules(table);
  return std::move(table).finish();
}

void bring_back(FilterRules& rules, std::string_view group) {
  const auto known = std::ranges::find(call_groups(), group, &CallGroup::name);
  if (known != call_groups().end()) {
    for (const SyscallNumber& call : known->calls) {
      if (SyscallRule* rule = rules.find(call.name)) rule->otherwise = Verdict::allow();
    }
  }
  // Pid 0 is the caller.
  if (group == "numa") {
    *rules.find("move_pages") = {"move_pages",
                                 rules.find("move_pages")->number,
                                 {{{one_of(0, {0})}, Verdict::allow()}},
                                 Verdict::refuse(EPERM)};
  }
  // The first clause lists what every box has; the second, what none has, stays.
  if (SyscallRule* rule = group == "ioctl" || group == "prctl" ? rules.find(group) : nullptr) {
    rule->clauses.erase(rule->clauses.begin());
    rule->otherwise = Verdict::allow();
  }
}

}  // namespace glovebox::plan
