// glovebox-probe: finds the probe by name, runs it, turns what it met into an exit code.
#include "probe.h"

#include <array>
#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace glovebox::probe {
namespace {

const char* current_name = "probe";

constexpr int kLargestErrno = 118;  // keeps kUsage and glovebox's own codes apart

std::array<std::span<const Probe>, 21> all_tables() {
  return {file_probes(),       mount_probes(),     namespace_probes(),    process_probes(),
          network_probes(),    syscall_probes(),   architecture_probes(), identity_probes(),
          descriptor_probes(), resource_probes(),  terminal_probes(),     ipc_probes(),
          exec_probes(),       wall_probes(),      egress_probes(),       proof_probes(),
          name_probes(),       neighbour_probes(), trap_probes(),         unix_probes(),
          hold_probes()};
}

const Probe* find_probe(std::string_view name) {
  for (const auto table : all_tables()) {
    for (const Probe& probe : table) {
      if (probe.name == name) return &probe;
    }
  }
  return nullptr;
}

// Several probes would do real damage where nothing refuses them: mount over /tmp, rename the host.
// So the program does not run at all as an administrator of the whole machine. A box that left a
// process with such power fails every test by this.
bool administers_the_host() {
  unsigned long long first = 1, outside = 1, count = 0, effective = 0;
  if (std::FILE* map = std::fopen("/proc/self/uid_map", "re")) {
    if (std::fscanf(map, "%llu %llu %llu", &first, &outside, &count) != 3) count = 0;
    std::fclose(map);
  }
  char line[256];
  if (std::FILE* status = std::fopen("/proc/self/status", "re")) {
    while (std::fgets(line, sizeof line, status) != nullptr) {
      if (std::sscanf(line, "CapEff: %llx", &effective) == 1) break;
    }
    std::fclose(status);
  }
  return first == 0 && outside == 0 && count == 0xffffffffULL && effective != 0;
}

int list_probes() {
  for (const auto table : all_tables()) {
    for (const Probe& probe : table) {
      std::printf("%-24.*s %.*s\n", static_cast<int>(probe.name.size()), probe.name.data(),
                  static_cast<int>(probe.tries.size()), probe.tries.data());
    }
  }
  return 0;
}

}  // namespace

void say(const char* format, ...) {
  va_list values;
  va_start(values, format);
  std::printf("%s: ", current_name);
  std::vprintf(format, values);
  std::printf("\n");
  std::fflush(stdout);
  va_end(values);
}

int met(long result) { return result < 0 ? errno : 0; }

const char* text(Args args, std::size_t index) {
  if (index < args.size()) return args[index];
  say("argument %zu is missing", index + 1);
  std::exit(kUsage);
}

const char* text_or(Args args, std::size_t index, const char* fallback) {
  return index < args.size() ? args[index] : fallback;
}

long number(Args args, std::size_t index) {
  char* end = nullptr;
  const char* digits = text(args, index);
  const long value = std::strtol(digits, &end, 0);
  if (*end == '\0' && end != digits) return value;
  say("'%s' is not a number", digits);
  std::exit(kUsage);
}

}  // namespace glovebox::probe

int main(int argc, char** argv) {
  using namespace glovebox::probe;
  if (argc == 2 && std::strcmp(argv[1], "--list") == 0) return list_probes();
  const Probe* probe = argc > 1 ? find_probe(argv[1]) : nullptr;
  if (probe == nullptr) {
    say("no probe named '%s'", argc > 1 ? argv[1] : "");
    return kUsage;
  }
  current_name = argv[1];
  if (administers_the_host()) {
    say("runs as an administrator of the host, not in a box; nothing was tried");
    return kUsage;
  }
  const auto all = std::span<char* const>(argv, static_cast<std::size_t>(argc));
  const int result = probe->run(all.subspan(2));
  const char* word = result == 0 ? "ok" : strerrorname_np(result);
  say("%s", word != nullptr ? word : "unnamed errno");
  return result > kLargestErrno && result != kUsage ? kLargestErrno : result;
}
