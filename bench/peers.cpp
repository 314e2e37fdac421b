// What it costs to start a command in a box, next to the tools that people would use instead.
//
// Every tool gets what comes nearest to our box: all namespaces it knows, a read-only system, no
// network. What it does not do is said beside its row; the table compares time, not protection. A
// tool that is not installed, or does not run here, is named with what it said.

#include "support/bubblewrap.h"
#include "support/measure.h"

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include <fcntl.h>
#include <unistd.h>

namespace glovebox::bench {
namespace {

constexpr const char* kCommand = "/usr/bin/true";

struct Peer {
  std::string name;
  std::string says;  // what it does not do
  std::vector<std::string> argv;
};

// A bundle for crun: the namespaces and the view that the others get.
constexpr const char* kBundle = R"({
 "ociVersion": "1.0.0",
 "process": {"user": {"uid": 0, "gid": 0}, "args": ["/usr/bin/true"], "env": ["PATH=/usr/bin"],
             "cwd": "/", "capabilities": {}, "noNewPrivileges": true},
 "root": {"path": "rootfs"},
 "mounts": [
  {"destination": "/proc", "type": "proc", "source": "proc"},
  {"destination": "/dev", "type": "tmpfs", "source": "tmpfs"},
  {"destination": "/tmp", "type": "tmpfs", "source": "tmpfs"},
  {"destination": "/usr", "type": "bind", "source": "/usr", "options": ["rbind", "ro"]},
  {"destination": "/lib", "type": "bind", "source": "/lib", "options": ["rbind", "ro"]},
  {"destination": "/lib64", "type": "bind", "source": "/lib64", "options": ["rbind", "ro"]}],
 "linux": {
  "namespaces": [{"type": "pid"}, {"type": "network"}, {"type": "ipc"}, {"type": "uts"},
                 {"type": "mount"}, {"type": "user"}],
  "uidMappings": [{"containerID": 0, "hostID": 0, "size": 1}],
  "gidMappings": [{"containerID": 0, "hostID": 0, "size": 1}]}
})";

Result<std::string> make_bundle() {
  char place[] = "/tmp/glovebox-bench-XXXXXX";
  if (::mkdtemp(place) == nullptr) return fail_os(errno, "make {}", place);
  std::filesystem::create_directory(std::string(place) + "/rootfs");
  std::ofstream config(std::string(place) + "/config.json");
  config << kBundle;
  if (!config) return fail(Code::Os, "write {}/config.json", place);
  return place;
}

std::vector<Peer> all_peers(int filter, const std::string& bundle) {
  std::vector<Peer> peers{
      {"glovebox run",
       "everything, limits included",
       {beside_me("glovebox"), "run", "--", kCommand}},
      {"bubblewrap", "no filter, no limits, no Landlock", bubblewrap(kNoFilter, {kCommand})},
      {"bubblewrap with a filter", "no limits, no Landlock", bubblewrap(filter, {kCommand})},
      {"unshare",
       "namespaces alone: the whole disk is there",
       {"/usr/bin/unshare", "--user", "--map-root-user", "--mount", "--pid", "--fork", "--net",
        "--ipc", "--uts", "--cgroup", kCommand}},
      {"crun",
       "no limits, no filter asked for",
       {"/usr/bin/crun", "--root", bundle + "/state", "--cgroup-manager=disabled", "run", "-b",
        bundle, "glovebox-bench"}},
      {"firejail",
       "a private home on the system of the host; setuid root",
       {"/usr/bin/firejail", "--quiet", "--noprofile", "--net=none", "--private", "--", kCommand}},
      {"runsc do",
       "a kernel of its own; the host's disk is readable",
       {"/usr/bin/runsc", "--rootless", "--network=none", "--platform=ptrace", "--ignore-cgroups",
        "do", kCommand}},
  };
  if (const char* srt = std::getenv("GLOVEBOX_BENCH_SRT"); srt != nullptr) {
    peers.push_back({"sandbox-runtime", "the whole disk is readable", {srt, kCommand}});
  }
  return peers;
}

// Whether it runs here at all; what it printed otherwise.
Result<void> try_once(const Peer& peer) {
  if (::access(peer.argv.front().c_str(), X_OK) != 0) return fail(Code::NotFound, "not installed");
  std::string line;
  for (const std::string& word : peer.argv) line += "'" + word + "' ";
  FILE* pipe = ::popen((line + "2>&1").c_str(), "re");
  if (pipe == nullptr) return fail_os(errno, "popen");
  std::array<char, 300> said{};
  const std::size_t size = ::fread(said.data(), 1, said.size(), pipe);
  if (::pclose(pipe) == 0) return {};
  std::string text(said.data(), size);
  while (!text.empty() && text.back() == '\n') text.pop_back();
  return fail(Code::Os, "does not run here: {}", text);
}

Result<void> run(int rounds) {
  TRY(const UniqueFd filter, bubblewrap_filter());
  TRY(const std::string bundle, make_bundle());
  std::vector<Row> rows{{"vfork+exec", [] { return spawn_and_wait({kCommand}); }}};
  std::vector<std::string> notes;
  for (const Peer& peer : all_peers(filter.get(), bundle)) {
    (void)::lseek(filter.get(), 0, SEEK_SET);
    const auto runs = try_once(peer);
    notes.push_back(fmt::format("{}: {}", peer.name, runs ? peer.says : runs.error().message));
    if (!runs) continue;
    rows.push_back({peer.name, [argv = peer.argv, &filter] {
                      (void)::lseek(filter.get(), 0, SEEK_SET);
                      return spawn_and_wait(argv);
                    }});
  }
  TRY_VOID(run_rounds(rows, rounds));
  std::printf("%s; uid %u; %d interleaved rounds of %s, until the exit status is known\n",
              host_line().c_str(), ::getuid(), rounds, kCommand);
  print_table(rows, {"vfork+exec", "bubblewrap with a filter"});
  std::puts("");
  for (const std::string& note : notes) print_note(note);
  std::filesystem::remove_all(bundle);
  return {};
}

}  // namespace
}  // namespace glovebox::bench

int main(int argc, char** argv) {
  return glovebox::bench::bench_main(argc, argv, "bench_peers", 30, glovebox::bench::run);
}
