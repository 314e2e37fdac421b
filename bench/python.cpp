// Python sessions through the C++ interface: from nothing to the first result beside bubblewrap
// with a bare interpreter, round trips, messages and bytes in a second, what the guard costs, and
// the memory of sessions that do nothing.

#include "authority/terms.h"
#include "base/file.h"
#include "session/manager/session_manager.h"
#include "session/python/python_host.h"
#include "support/managed.h"

#include <boost/asio/co_spawn.hpp>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <sstream>

#include <unistd.h>

namespace glovebox::bench {
namespace {

namespace asio = boost::asio;
using Clock = std::chrono::steady_clock;
using namespace glovebox::session;

constexpr const char* kSession = "session, created to first result";
constexpr const char* kCell = "cell, created to first result";
constexpr const char* kBubblewrap = "bwrap + python3 -I -S -c pass";

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

BoxRequest request(Backend backend, const std::vector<std::string>& terms) {
  BoxRequest request;
  request.python = PythonRequest{"python3", {"json"}};
  request.backend = backend;
  std::vector<authority::Capability> granted;
  for (const std::string& term : terms) granted.push_back(*authority::parse_term(term));
  request.handed = *authority::AuthoritySet::granting(granted);
  return request;
}

PythonMessage exec_message(std::uint64_t id, const std::string& source) {
  return text_message({{"op", "exec"}, {"id", id}, {"source", source}});
}

// A session with its channel.
struct Box {
  Managed* bench;
  std::string id;
  std::shared_ptr<PythonHost> host;
  std::uint64_t operations = 0;

  Box(Managed& of, std::string name, std::shared_ptr<PythonHost> channel)
      : bench(&of), id(std::move(name)), host(std::move(channel)) {}
  static Result<Box> make(Managed& bench, const BoxRequest& order) {
    TRY(const SessionInfo info, bench.await(bench.manager().create(order)));
    TRY(auto host, bench.manager().python(info.id));
    TRY_VOID(host->attach());
    return Box(bench, info.id, std::move(host));
  }
  // Until the answer; the messages before it are counted.
  Result<std::size_t> exec(const std::string& source) {
    TRY_VOID(bench->await(host->take_from_client(exec_message(++operations, source))));
    std::size_t posts = 0;
    while (true) {
      TRY(const PythonMessage message, bench->await(host->next()));
      if (message.bytes.find("\"ev\":\"error\"") != std::string::npos) {
        return fail(Code::Os, "{}", message.bytes.substr(0, 300));
      }
      if (message.bytes.find("\"ev\":\"result\"") < 20) return posts;
      ++posts;
    }
  }
  Result<void> remove() {
    TRY_VOID(bench->await(bench->manager().remove(id, LayerFate::Remove)));
    return {};
  }
};

Result<Box> first_result(Managed& bench, Backend backend) {
  TRY(Box box, Box::make(bench, request(backend, {})));
  TRY_VOID(box.exec("post(1)"));
  return box;
}

// Timed until the first result is there. Ending the session, and the time without a request in
// which the next one is made ahead, come after each and are not part of it.
Result<void> compare_starts(Managed& bench, int rounds) {
  const std::vector<std::string> other = {
      "/usr/bin/bwrap",   "--ro-bind", "/",  "/",  "--unshare-all", "--die-with-parent",
      "/usr/bin/python3", "-I",        "-S", "-c", "pass"};
  std::optional<Box> made;
  const auto start = [&](Backend backend) -> Result<void> {
    TRY(made, first_result(bench, backend));
    return {};
  };
  const Row pause{"(nobody asks)", [&]() -> Result<void> {
                    if (made) TRY_VOID(made->remove());
                    made.reset();
                    bench.idle(std::chrono::milliseconds(250));
                    return {};
                  }};
  std::vector<Row> rows{{kSession, [&] { return start(Backend::Process); }},  pause,
                        {kCell, [&] { return start(Backend::Cell); }},        pause,
                        {kBubblewrap, [&] { return spawn_and_wait(other); }}, pause};
  TRY_VOID(run_rounds(rows, rounds));
  std::erase_if(rows, [&](const Row& row) { return row.name == pause.name; });
  print_table(rows, {kBubblewrap});
  print_ratio(rows, kSession, kBubblewrap, at_most(0.20));
  print_ratio(rows, kCell, kBubblewrap, at_most(0.20));
  return {};
}

Result<void> measure_messages(Managed& bench) {
  TRY(Box box, Box::make(bench, request(Backend::Process, {})));
  std::vector<Row> rows{{"exec post(1), to its answer", [&]() -> Result<void> {
                           TRY_VOID(box.exec("post(1)"));
                           return {};
                         }}};
  TRY_VOID(run_rounds(rows, 2000));
  print_table(rows, {});
  print_figure("exec, post and answer through the C++ interface", percentile(rows.front().us, 0.5),
               "us", at_most(150));
  auto start = Clock::now();
  TRY(const std::size_t posts, box.exec("for i in range(50000): post(i)"));
  print_figure("messages from one session", static_cast<double>(posts) / seconds_since(start), "/s",
               at_least(10'000));
  start = Clock::now();
  TRY(const std::size_t large, box.exec("x = b'x' * (1 << 20)\nfor i in range(400): post(x)"));
  print_figure("bytes in values of 1 MiB", static_cast<double>(large) / seconds_since(start),
               "MiB/s", at_least(300));
  return box.remove();
}

class Text final : public OutputReader {
 public:
  asio::awaitable<Result<void>> take(guest::Stream /*stream*/, std::string_view bytes) override {
    text += bytes;
    co_return Result<void>();
  }
  std::string text;
};

// Seconds of a loop, and of opening a file once; the best of all rounds.
struct GuardTimes {
  double loop = 1e9;
  double open = 1e9;
  void add(const std::string& text) {
    double one = 0;
    double two = 0;
    char comma = 0;
    std::istringstream(text) >> one >> comma >> two;
    loop = std::min(loop, one);
    open = std::min(open, two);
  }
};

constexpr const char* kGuarded =
    "import time\ndef f(n):\n    a = 0\n    d = {}\n    for i in range(n):\n        a += i * 3 % "
    "7\n"
    "        d[i & 255] = str(a)\n    return len(d)\n"
    "f(1000)\nt = time.perf_counter()\nf(1000000)\nout = time.perf_counter() - t\n"
    "t = time.perf_counter()\nfor i in range(20000): open('/usr/lib/os-release').close()\n"
    "opens = (time.perf_counter() - t) / 20000\n";

// The same code, timed from inside: in a session, in a bare interpreter in the same box, which
// tells what the guard costs, and in one without a box, which tells what everything does.
Result<void> measure_guard(Managed& bench) {
  const std::string file = "/tmp/glovebox-bench-guard";
  GuardTimes outside;
  GuardTimes inside;
  GuardTimes held;
  TRY(Box box,
      Box::make(bench, request(Backend::Process, {"import=time", "read=/usr/lib/os-release"})));
  TRY(const std::shared_ptr<LiveSession> live, bench.manager().attach(box.id));
  for (int round = 0; round < 7; ++round) {
    TRY_VOID(spawn_and_wait(
        {"/usr/bin/python3", "-I", "-S", "-c",
         std::string(kGuarded) + "open('" + file + "', 'w').write(f'{out},{opens}')"}));
    TRY(const std::string text, read_file(file));
    outside.add(text);
    RunRequest bare;
    bare.argv = {"/usr/bin/python3", "-I", "-S", "-c",
                 std::string(kGuarded) + "print(f'{out},{opens}')"};
    Text printed;
    TRY_VOID(bench.await(live->run(std::move(bare), printed)));
    inside.add(printed.text);
    TRY_VOID(bench.await(box.host->take_from_client(
        exec_message(++box.operations, std::string(kGuarded) + "post([out, opens])"))));
    TRY(const PythonMessage post, bench.await(box.host->next()));
    TRY(const PythonMessage answer, bench.await(box.host->next()));
    const std::size_t values = post.bytes.find('[');
    if (values == std::string::npos) return fail(Code::Os, "{}", post.bytes.substr(0, 400));
    held.add(post.bytes.substr(values + 1));
  }
  (void)::unlink(file.c_str());  // in /tmp, and ours
  print_figure("guard on a loop in Python", (held.loop / inside.loop - 1) * 100, "%", at_most(5));
  print_figure("guard on opening a file", (held.open - inside.open) * 1e6, "us", at_most(2));
  print_figure("opening a file in the box, unguarded", inside.open * 1e6, "us");
  print_figure("opening a file without a box", outside.open * 1e6, "us");
  return box.remove();
}

// Private memory of all interpreters of this benchmark, in KiB.
Result<std::pair<std::uint64_t, std::size_t>> private_memory(const std::string& place) {
  std::uint64_t sum = 0;
  std::size_t count = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    const auto command = read_file(entry.path() / "cmdline");
    if (!command || command->find(place) == std::string::npos ||
        command->find("glovebox_host") == std::string::npos) {
      continue;
    }
    const auto map = read_file(entry.path() / "smaps_rollup");
    if (!map) continue;
    std::istringstream lines(*map);
    for (std::string line; std::getline(lines, line);) {
      if (line.starts_with("Private_")) sum += std::strtoull(line.c_str() + 14, nullptr, 10);
    }
    ++count;
  }
  return std::pair{sum, count};
}

Result<void> measure_memory(Managed& bench, int sessions) {
  std::vector<Box> boxes;
  for (int i = 0; i < sessions; ++i) {
    TRY(Box box, Box::make(bench, request(Backend::Process, {})));
    TRY_VOID(box.exec("post(1)"));
    boxes.push_back(std::move(box));
  }
  TRY(const auto memory, private_memory("glovebox-bench-"));
  print_figure(fmt::format("private memory of {} interpreters, each", memory.second),
               static_cast<double>(memory.first) / 1024 / static_cast<double>(memory.second), "MiB",
               at_most(6));
  for (Box& box : boxes) TRY_VOID(box.remove());
  return {};
}

Result<void> run(int argc, char** argv) {
  const int rounds = argc > 1 ? std::atoi(argv[1]) : 100;
  const int sessions = argc > 2 ? std::atoi(argv[2]) : 200;
  std::printf("%s\n", host_line().c_str());
  TRY(const std::unique_ptr<Managed> bench, Managed::open());
  TRY_VOID(compare_starts(*bench, rounds));
  if (sessions == 0) return {};
  TRY_VOID(measure_messages(*bench));
  TRY_VOID(measure_guard(*bench));
  return measure_memory(*bench, sessions);
}

}  // namespace
}  // namespace glovebox::bench

int main(int argc, char** argv) {
  const auto done = glovebox::bench::run(argc, argv);
  if (done) return 0;
  std::fprintf(stderr, "bench_python: %s\n", done.error().message.c_str());
  return 1;
}
