// What the service costs, against the smallest HTTP server of the same library on the same machine.
//
//   bench_serve [rounds]
//   bench_serve load [clients] [seconds]   many clients create, run and delete; counts what goes
//   wrong
//   bench_serve transfers [times]          only files in and out
//   bench_serve cycles [clients] [seconds] only create, run and delete, and what each takes
//
// Starts `glovebox serve` (beside this program) on a unix socket, and in a thread a server that
// answers every request with "hello". Prints ratios within one run.
#include "base/file.h"
#include "support/hello_server.h"
#include "support/http_client.h"
#include "support/measure.h"
#include "support/relay.h"

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <mutex>
#include <thread>

#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

namespace glovebox::bench {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::uint64_t kTransfer = std::uint64_t{256} << 20;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

struct Setup {
  std::string directory;
  std::string service_socket;
  std::string hello_socket;
  pid_t service = -1;
};

Result<pid_t> start_service(const Setup& setup) {
  const std::string self = std::filesystem::read_symlink("/proc/self/exe").parent_path();
  const std::string program = self + "/glovebox";
  const std::string state = setup.directory + "/state";
  const char* argv[] = {program.c_str(), "serve",       "--socket", setup.service_socket.c_str(),
                        "--state",       state.c_str(), nullptr};
  pid_t pid = -1;
  const int problem = ::posix_spawn(&pid, program.c_str(), nullptr, nullptr,
                                    const_cast<char* const*>(argv), environ);
  if (problem != 0) return fail_os(problem, "start {}", program);
  for (int i = 0; i < 1'000; ++i) {
    if (Client(setup.service_socket).is_connected()) return pid;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return fail(Code::Os, "the service does not answer");
}

Result<std::string> create(Client& client, const std::string& workspace) {
  TRY(const std::string answer,
      client.ask("POST", "/v1/isolated/session",
                 fmt::format(R"({{"workspace":{{"path":"{}"}}}})", workspace)));
  const std::size_t at = answer.find("\"session_id\":\"");
  if (at == std::string::npos) return fail(Code::Os, "create: {}", answer);
  return "/v1/isolated/session/" + answer.substr(at + 14, 36);
}

Result<void> run(Client& client, const std::string& session) {
  TRY(const std::string answer, client.ask("POST", session + "/run", R"({"code":":"})"));
  if (answer.find("execution_complete") == std::string::npos)
    return fail(Code::Os, "run: {}", answer);
  return {};
}

// Does `act` on `count` connections of their own for a while; returns how often a second.
double rate(int count, double seconds,
            const std::function<void(int, const std::atomic<bool>&, std::atomic<long>&)>& act) {
  std::atomic<bool> stop = false;
  std::atomic<long> done = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < count; ++i) {
    threads.emplace_back([&, i] { act(i, stop, done); });
  }
  const auto start = Clock::now();
  std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
  const double result = static_cast<double>(done.load()) / seconds_since(start);
  stop = true;
  for (std::thread& thread : threads) thread.join();
  return result;
}

Result<void> measure_round_trips(const Setup& setup, int rounds) {
  Client hello(setup.hello_socket);
  Client service(setup.service_socket);
  TRY(const std::string session, create(service, setup.directory + "/work"));
  std::vector<Row> rows;
  rows.push_back({.name = "hello of the library", .once = [&]() -> Result<void> {
                    TRY_VOID(hello.ask("GET", "/", ""));
                    return {};
                  }});
  rows.push_back({.name = "GET /ping", .once = [&]() -> Result<void> {
                    TRY_VOID(service.ask("GET", "/ping", ""));
                    return {};
                  }});
  // The service, the agent and the shell: no run takes less.
  TRY(Relay relay, Relay::start(3));
  rows.push_back({.name = "a byte through three processes and back",
                  .once = [&] { return relay.there_and_back(); }});
  rows.push_back({.name = "run of ':'", .once = [&] { return run(service, session); }});
  TRY_VOID(run_rounds(rows, rounds));
  print_table(rows, {"hello of the library"});
  print_ratio(rows, "run of ':'", "hello of the library", at_most(3));
  TRY_VOID(service.ask("DELETE", session, ""));
  return {};
}

// How long each part of a session's life takes its client.
struct CycleTimes {
  std::vector<double> create, run, remove, whole;  // microseconds

  void add(const CycleTimes& other) {
    const auto append = [](auto& to, const auto& from) {
      to.insert(to.end(), from.begin(), from.end());
    };
    append(create, other.create);
    append(run, other.run);
    append(remove, other.remove);
    append(whole, other.whole);
  }
};

void live_and_die(const Setup& setup, const std::atomic<bool>& stop, std::atomic<long>& done,
                  CycleTimes& times) {
  Client client(setup.service_socket);
  while (!stop) {
    const auto start = Clock::now();
    const auto session = create(client, setup.directory + "/work");
    const double created = seconds_since(start);
    if (!session || !run(client, *session)) continue;
    const double ran = seconds_since(start);
    (void)client.ask("DELETE", *session, "");
    const double whole = seconds_since(start);
    times.create.push_back(created * 1e6);
    times.run.push_back((ran - created) * 1e6);
    times.remove.push_back((whole - ran) * 1e6);
    times.whole.push_back(whole * 1e6);
    ++done;
  }
}

void measure_cycles(const Setup& setup, int clients, int seconds) {
  CycleTimes all;
  std::mutex lock;
  const double whole = rate(clients, seconds, [&](int /*number*/, const auto& stop, auto& done) {
    CycleTimes mine;
    live_and_die(setup, stop, done, mine);
    const std::scoped_lock guard(lock);
    all.add(mine);
  });
  print_table({{"create, run and delete", {}, all.whole},
               {"create", {}, all.create},
               {"run", {}, all.run},
               {"delete", {}, all.remove}},
              {});
  print_figure(fmt::format("create, run, delete with an overlay, {} connections", clients), whole,
               "/s", at_least(300));
  print_figure("p99 of create, run and delete, of its p50",
               percentile(all.whole, 0.99) / percentile(all.whole, 0.5), "x", at_most(4));
}

void measure_rates(const Setup& setup) {
  const double runs = rate(32, 3, [&](int /*number*/, const auto& stop, auto& done) {
    Client client(setup.service_socket);
    const auto session = create(client, setup.directory + "/work");
    while (session && !stop) {
      if (run(client, *session)) ++done;
    }
    if (session) (void)client.ask("DELETE", *session, "");
  });
  print_figure("runs of ':', 32 connections, a session each", runs, "/s", at_least(2000));
  measure_cycles(setup, 8, 5);
}

double pipe_rate(const std::string& command) {
  const auto start = Clock::now();
  std::FILE* pipe = ::popen(command.c_str(), "re");
  std::vector<char> buffer(256 << 10);
  std::uint64_t total = 0;
  while (const std::size_t got = std::fread(buffer.data(), 1, buffer.size(), pipe)) total += got;
  (void)::pclose(pipe);
  return static_cast<double>(total) / seconds_since(start);
}

// The same bytes into a file of the same disk, through a pipe and another process.
double file_rate(const std::string& file, const std::string& content) {
  const auto start = Clock::now();
  std::FILE* pipe = ::popen(fmt::format("cat > {}", file).c_str(), "we");
  const bool is_written = write_all(BorrowedFd(::fileno(pipe)), content).has_value();
  const bool is_whole = ::pclose(pipe) == 0 && is_written;
  return is_whole ? static_cast<double>(content.size()) / seconds_since(start) : 0;
}

std::string post(const std::string& path, std::string_view body) {
  return fmt::format("POST {} HTTP/1.1\r\nContent-Length: {}\r\n\r\n{}", path, body.size(), body);
}

Result<void> measure_events(const Setup& setup) {
  Client client(setup.service_socket);
  TRY(const std::string session, create(client, setup.directory + "/work"));
  // Lines of 100 bytes from a file in memory, so that the program that prints costs nearly nothing.
  const std::string make =
      fmt::format("head -c {} /dev/zero | tr '\\\\0' a | fold -w 99 > /tmp/lines", kTransfer);
  TRY_VOID(client.ask("POST", session + "/run", fmt::format(R"({{"code":"{}"}})", make)));
  const auto start = Clock::now();
  TRY(const std::uint64_t events,
      client.ask_and_forget(post(session + "/run", R"({"code":"cat /tmp/lines"})")));
  const double sse = static_cast<double>(kTransfer) / seconds_since(start);
  const std::string lines = setup.directory + "/lines";
  const std::string fill =
      fmt::format("head -c {} /dev/zero | tr '\\0' a | fold -w 99 > {}", kTransfer, lines);
  if (std::system(fill.c_str()) != 0) return fail(Code::Os, "cannot fill {}", lines);
  const double pipe = pipe_rate("cat " + lines);
  std::printf(
      "output of a run as events: %.0f MiB/s (%.0f MiB on the wire); the same through a pipe: %.0f "
      "MiB/s\n",
      sse / (1 << 20), static_cast<double>(events) / (1 << 20), pipe / (1 << 20));
  print_figure("output of a run as events, of the same through a pipe", 100 * sse / pipe, "%",
               at_least(50));
  TRY_VOID(client.ask("DELETE", session, ""));
  return {};
}

Result<double> upload_rate(const Setup& setup, Client& client, const std::string& content) {
  TRY(const std::string session, create(client, setup.directory + "/work"));
  const std::string head =
      "--b\r\nContent-Disposition: form-data; name=\"metadata\"; "
      "filename=\"m\"\r\n\r\n{\"path\":\"big\"}\r\n"
      "--b\r\nContent-Disposition: form-data; name=\"file\"; filename=\"f\"\r\n\r\n";
  const std::string tail = "\r\n--b--\r\n";
  const auto start = Clock::now();
  TRY_VOID(write_all(
      client.fd(),
      fmt::format(
          "POST {}/files/upload HTTP/1.1\r\nContent-Type: multipart/form-data; boundary=b\r\n"
          "Content-Length: {}\r\n\r\n{}",
          session, head.size() + content.size() + tail.size(), head)));
  TRY_VOID(write_all(client.fd(), content));
  TRY_VOID(client.ask_and_forget(tail));
  if (client.status() != 200) return fail(Code::Os, "upload: {}", client.status());
  const double rate = static_cast<double>(content.size()) / seconds_since(start);
  TRY_VOID(client.ask("DELETE", session, ""));
  return rate;
}

Result<double> download_rate(const Setup& setup, Client& client) {
  TRY(const std::string session, create(client, setup.directory + "/work"));
  const std::string make = fmt::format(R"({{"code":"head -c {} /dev/zero > big"}})", kTransfer);
  TRY_VOID(client.ask("POST", session + "/run", make));
  const auto start = Clock::now();
  TRY(const std::uint64_t bytes, client.ask_and_forget(fmt::format(
                                     "GET {}/files/download?path=big HTTP/1.1\r\n\r\n", session)));
  const double rate = static_cast<double>(bytes) / seconds_since(start);
  TRY_VOID(client.ask("DELETE", session, ""));
  return rate;
}

// Each time in a session of its own, so that none finds what another left, and in turn with what
// they are compared to, so that what others do on the machine touches all of them.
Result<void> measure_transfers(const Setup& setup, int times) {
  Client client(setup.service_socket);
  const std::string content(kTransfer, 'x');
  std::vector<double> uploads, files, downloads;
  for (int i = 0; i < times; ++i) {
    const std::string file = fmt::format("{}/file{}", setup.directory, i);
    files.push_back(file_rate(file, content) / (1 << 20));
    std::filesystem::remove(file);
    TRY(const double upload, upload_rate(setup, client, content));
    uploads.push_back(upload / (1 << 20));
    TRY(const double download, download_rate(setup, client));
    downloads.push_back(download / (1 << 20));
  }
  const auto print = [&](const char* what, const std::vector<double>& rates) {
    const double p50 = percentile(rates, 0.5);
    std::printf("%s, %d times: p50 %.0f MiB/s, best %.0f MiB/s\n", what, times, p50,
                percentile(rates, 1));
    return p50;
  };
  print_figure("upload", print("upload", uploads), "MiB/s", at_least(400));
  print_figure("download", print("download", downloads), "MiB/s", at_least(400));
  print_figure("the same into a file through a pipe", print("pipe", files), "MiB/s");
  return {};
}

double now_us() {
  using Micro = std::chrono::duration<double, std::micro>;
  return Micro(std::chrono::system_clock::now().time_since_epoch()).count();
}

// From the moment at which a program in the box writes to the moment at which the client has it:
// what is printed is the time, and the box's clock is the host's.
Result<void> measure_first_bytes(const Setup& setup, int lines) {
  Client client(setup.service_socket);
  TRY(const std::string session, create(client, setup.directory + "/work"));
  Client reader(setup.service_socket);
  const std::string code = fmt::format(
      R"({{"code":"for ((i = 0; i < {}; i++)); do sleep 0.004; echo $EPOCHREALTIME; done"}})",
      lines);
  std::vector<double> us;
  constexpr std::string_view kText = "\"text\":\"";
  TRY_VOID(reader.stream(post(session + "/run", code), [&](std::string_view piece) {
    const double now = now_us();
    // One line in a piece, as a rule; of several the later ones waited for the first.
    const std::size_t at = piece.find(kText);
    if (at != std::string_view::npos) {
      us.push_back(
          now - 1e6 * std::strtod(std::string(piece.substr(at + kText.size())).c_str(), nullptr));
    }
    return piece.find("execution_complete") != std::string_view::npos;
  }));
  print_table({{"from write(2) in the box to the client", {}, us}}, {});
  print_figure("from write(2) in the box to the client", percentile(us, 0.5) / 1000, "ms",
               at_most(1));
  TRY_VOID(client.ask("DELETE", session, ""));
  return {};
}

void print_memory(const Setup& setup, const char* when) {
  const auto status = read_file(fmt::format("/proc/{}/status", setup.service));
  if (!status) return;
  const std::size_t at = status->find("VmRSS:");
  const double mib =
      static_cast<double>(std::strtoull(status->c_str() + at + 6, nullptr, 10)) / 1024;
  const bool idle = std::string_view(when) == "idle";
  print_figure(fmt::format("resident memory of the service, {}", when), mib, "MiB",
               idle ? std::optional(at_most(40)) : std::nullopt);
}

Result<void> measure(Setup& setup, int rounds) {
  std::printf("%s\n\n", host_line().c_str());
  TRY(setup.service, start_service(setup));
  print_memory(setup, "idle");
  TRY_VOID(measure_round_trips(setup, rounds));
  TRY_VOID(measure_first_bytes(setup, 300));
  measure_rates(setup);
  TRY_VOID(measure_events(setup));
  TRY_VOID(measure_transfers(setup, 7));
  print_memory(setup, "afterwards");
  return {};
}

Result<void> only_transfers(Setup& setup, int times) {
  TRY(setup.service, start_service(setup));
  return measure_transfers(setup, times);
}

Result<void> only_cycles(Setup& setup, int clients, int seconds) {
  TRY(setup.service, start_service(setup));
  measure_cycles(setup, clients, seconds);
  return {};
}

std::size_t open_descriptors(pid_t pid) {
  std::size_t count = 0;
  std::error_code gone;
  for (const auto& entry :
       std::filesystem::directory_iterator(fmt::format("/proc/{}/fd", pid), gone)) {
    count += entry.path().empty() ? 0 : 1;
  }
  return count;
}

// What one client met.
struct Met {
  std::atomic<long> whole = 0;
  std::atomic<long> busy = 0;    // 429, which is documented
  std::atomic<long> failed = 0;  // anything else
};

void use_sessions(const Setup& setup, const std::atomic<bool>& stop, Met& met) {
  Client client(setup.service_socket);
  while (!stop) {
    const auto session = create(client, setup.directory + "/work");
    if (!session) {
      ++(client.status() == 429 ? met.busy : met.failed);
      if (client.status() != 429) return;
      continue;
    }
    const bool ran = run(client, *session).has_value();
    const bool deleted = client.ask("DELETE", *session, "").has_value() && client.status() == 200;
    ++(ran && deleted ? met.whole : met.failed);
  }
}

Result<void> put_under_load(Setup& setup, int clients, int seconds) {
  TRY(setup.service, start_service(setup));
  const std::size_t before = open_descriptors(setup.service);
  print_memory(setup, "before");
  Met met;
  rate(clients, seconds,
       [&](int /*number*/, const auto& stop, auto& /*done*/) { use_sessions(setup, stop, met); });
  std::this_thread::sleep_for(std::chrono::seconds(2));
  std::printf(
      "%d clients, %d s: %ld sessions made, used and deleted (%.0f/s); %ld times 429; %ld "
      "failures\n",
      clients, seconds, met.whole.load(), static_cast<double>(met.whole) / seconds, met.busy.load(),
      met.failed.load());
  std::printf("descriptors of the service: %zu before, %zu after\n", before,
              open_descriptors(setup.service));
  print_memory(setup, "after");
  if (met.failed > 0) return fail(Code::Os, "{} failures", met.failed.load());
  return {};
}

int bench_main(const std::function<Result<void>(Setup&)>& act) {
  Setup setup;
  std::string pattern = "/var/tmp/glovebox-bench-XXXXXX";
  setup.directory = ::mkdtemp(pattern.data());
  std::filesystem::create_directory(setup.directory + "/work");
  std::filesystem::create_directory(setup.directory + "/run");
  setup.service_socket = setup.directory + "/run/service.sock";
  setup.hello_socket = setup.directory + "/run/hello.sock";
  const HelloServer hello(setup.hello_socket);
  const auto measured = act(setup);
  if (!measured) (void)std::fprintf(stderr, "bench_serve: %s\n", measured.error().message.c_str());
  if (setup.service > 0) {
    (void)::kill(setup.service, SIGTERM);
    (void)::waitpid(setup.service, nullptr, 0);
  }
  std::filesystem::remove_all(setup.directory);
  return measured ? 0 : 1;
}

}  // namespace
}  // namespace glovebox::bench

int main(int argc, char** argv) {
  using namespace glovebox::bench;
  const std::vector<std::string> words(argv + 1, argv + argc);
  const auto number = [&](std::size_t at, int otherwise) {
    return words.size() > at ? std::atoi(words[at].c_str()) : otherwise;
  };
  if (!words.empty() && words[0] == "load") {
    return bench_main(
        [&](Setup& setup) { return put_under_load(setup, number(1, 200), number(2, 60)); });
  }
  if (!words.empty() && words[0] == "transfers") {
    return bench_main([&](Setup& setup) { return only_transfers(setup, number(1, 5)); });
  }
  if (!words.empty() && words[0] == "cycles") {
    return bench_main([&](Setup& setup) { return only_cycles(setup, number(1, 8), number(2, 5)); });
  }
  return bench_main([&](Setup& setup) { return measure(setup, number(0, 2'000)); });
}
