// What a connection through the broker costs, next to a direct one and to one through a proxy (by
// HTTP's CONNECT and by SOCKS 5, the ways of programs that honour proxy variables), what a box
// without grants pays, what a message costs that waits for the broker, and what a busy box costs
// its neighbour.
//
// Workers do the measuring: copies of this program, one outside, two in boxes that one broker
// serves, and one in a box without grants. Rounds are interleaved. Run as root or as an ordinary
// user.

#include "authority/terms.h"
#include "base/file.h"
#include "base/quantity.h"
#include "egress/broker.h"
#include "host/facts.h"
#include "host/resolve_authority.h"
#include "launch/child/init_message.h"
#include "launch/launcher_client.h"
#include "launch/packet.h"
#include "plan/make_plan.h"
#include "support/measure.h"

#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <iostream>
#include <sstream>
#include <thread>

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <spawn.h>
#include <sys/socket.h>
#include <unistd.h>

namespace glovebox::bench {
namespace {

using Clock = std::chrono::steady_clock;

constexpr const char* kHost = "127.50.0.1";
constexpr std::size_t kBlock = std::size_t{128} << 10;

sockaddr_in address(int port) {
  sockaddr_in where{};
  where.sin_family = AF_INET;
  where.sin_port = htons(static_cast<std::uint16_t>(port));
  ::inet_pton(AF_INET, kHost, &where.sin_addr);
  return where;
}

int dial(int port) {
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const sockaddr_in where = address(port);
  if (::connect(fd, reinterpret_cast<const sockaddr*>(&where), sizeof(where)) == 0) return fd;
  ::close(fd);
  return -1;
}

// An address that no grant of the workers has.
int dial_denied() {
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in where = address(80);
  where.sin_addr.s_addr = htonl(0xc0000201);  // 192.0.2.1
  (void)!::connect(fd, reinterpret_cast<const sockaddr*>(&where), sizeof(where));
  return fd;
}

double us_since(Clock::time_point start) {
  return std::chrono::duration<double, std::micro>(Clock::now() - start).count();
}

// ---- The other side: a server that takes what comes, and a proxy that passes it on.

int listen_somewhere(int* port) {
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in where = address(0);
  socklen_t length = sizeof(where);
  auto* generic = reinterpret_cast<sockaddr*>(&where);
  if (::bind(fd, generic, length) != 0 || ::listen(fd, 4096) != 0 ||
      ::getsockname(fd, generic, &length) != 0) {
    return -1;
  }
  *port = ntohs(where.sin_port);
  return fd;
}

void drain(int fd) {
  std::vector<char> block(kBlock);
  while (::read(fd, block.data(), block.size()) > 0) {
  }
  ::close(fd);
}

enum class Way : std::uint8_t { Direct, HttpProxy, SocksProxy };

constexpr std::string_view kHttpRequest =
    "CONNECT server.test:443 HTTP/1.1\r\nHost: server.test\r\n\r\n";
constexpr std::string_view kHttpAnswer = "HTTP/1.1 200 Connection established\r\n\r\n";
constexpr std::string_view kSocksGreeting("\x05\x01\x00", 3);
constexpr std::string_view kSocksMethod("\x05\x00", 2);
constexpr std::string_view kSocksRequest("\x05\x01\x00\x03\x0bserver.test\x01\xbb", 18);
constexpr std::string_view kSocksAnswer("\x05\x00\x00\x01\x7f\x32\x00\x01\x01\xbb", 10);

bool put(int fd, std::string_view text) {
  return ::send(fd, text.data(), text.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(text.size());
}

bool take(int fd, std::size_t size) {
  char buffer[128];
  return ::recv(fd, buffer, size, MSG_WAITALL) == static_cast<ssize_t>(size);
}

// What a client says to a proxy before it can speak to the server, and what it waits for.
bool ask_proxy(int fd, Way way) {
  if (way == Way::HttpProxy) return put(fd, kHttpRequest) && take(fd, kHttpAnswer.size());
  if (way == Way::Direct) return true;
  return put(fd, kSocksGreeting) && take(fd, kSocksMethod.size()) && put(fd, kSocksRequest) &&
         take(fd, kSocksAnswer.size());
}

// The proxy's side of it: -1 when the client went away.
int answer_client(int from, int target_port) {
  char first = 0;
  if (::recv(from, &first, 1, MSG_PEEK) != 1) return -1;
  const bool is_socks = first == kSocksGreeting.front();
  if (is_socks) {
    if (!take(from, kSocksGreeting.size()) || !put(from, kSocksMethod)) return -1;
  }
  if (!take(from, is_socks ? kSocksRequest.size() : kHttpRequest.size())) return -1;
  const int to = dial(target_port);
  if (to >= 0 && put(from, is_socks ? kSocksAnswer : kHttpAnswer)) return to;
  ::close(to);
  return -1;
}

void relay(int from, int target_port) {
  const int to = answer_client(from, target_port);
  if (to < 0) return void(::close(from));
  std::vector<char> block(kBlock);
  ssize_t size = 0;
  while ((size = ::read(from, block.data(), block.size())) > 0) {
    if (::write(to, block.data(), static_cast<std::size_t>(size)) != size) break;
  }
  ::close(to);
  ::close(from);
}

void serve_proxy(int listener, int target_port) {
  while (true) {
    const int fd = ::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
    if (fd >= 0) std::thread(relay, fd, target_port).detach();
  }
}

// Takes connections in batches, so that it does not run beside the one that is being timed.
void serve_quietly(int listener) {
  (void)::fcntl(listener, F_SETFL, O_NONBLOCK);
  while (true) {
    ::usleep(2000);
    for (int fd = 0; (fd = ::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC)) >= 0;) ::close(fd);
  }
}

// Prints its ports: one that takes bytes, a quiet one, and a proxy to each.
int serve() {
  std::array<int, 4> ports{};
  std::array<int, 4> listeners{};
  for (std::size_t i = 0; i < ports.size(); ++i) listeners.at(i) = listen_somewhere(&ports.at(i));
  std::printf("%d %d %d %d\n", ports[0], ports[1], ports[2], ports[3]);
  (void)std::fflush(stdout);
  std::thread(serve_quietly, listeners[1]).detach();
  std::thread(serve_proxy, listeners[2], ports[0]).detach();
  std::thread(serve_proxy, listeners[3], ports[1]).detach();
  while (true) {
    pollfd waits[2] = {{listeners[0], POLLIN, 0}, {0, POLLIN, 0}};
    if (::poll(waits, 2, -1) < 0 || waits[1].revents != 0) ::_exit(0);
    const int fd = ::accept4(listeners[0], nullptr, nullptr, SOCK_CLOEXEC);
    if (fd >= 0) std::thread(drain, fd).detach();
  }
}

// ---- Workers.

// One after the other, each timed from socket(2) on.
void time_connects(int port, int count, Way way) {
  for (int i = 0; i < count; ++i) {
    const auto start = Clock::now();
    const int fd = dial(port);
    (void)ask_proxy(fd, way);  // one that failed is seen in the transfers
    std::cout << us_since(start) << ' ';
    ::close(fd);
  }
  std::cout << '\n' << std::flush;
}

// MB/s of one long transfer.
void time_transfer(int port, int megabytes, Way way) {
  const int fd = dial(port);
  std::vector<char> block(kBlock);
  if (!ask_proxy(fd, way)) return void(std::cout << 0 << '\n' << std::flush);
  const auto start = Clock::now();
  const std::size_t blocks = static_cast<std::size_t>(megabytes) * (1U << 20) / kBlock;
  for (std::size_t i = 0; i < blocks; ++i) {
    if (::send(fd, block.data(), block.size(), MSG_NOSIGNAL) < 0) break;
  }
  ::shutdown(fd, SHUT_WR);
  (void)!::read(fd, block.data(), 1);
  std::cout << megabytes / (us_since(start) / 1e6) << '\n' << std::flush;
  ::close(fd);
}

// To a listener of the worker's own, on the loopback of where it lives.
void time_own(int count) {
  const int listener = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in where{};
  where.sin_family = AF_INET;
  where.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof(where);
  auto* generic = reinterpret_cast<sockaddr*>(&where);
  if (::bind(listener, generic, length) != 0 || ::listen(listener, 64) != 0 ||
      ::getsockname(listener, generic, &length) != 0) {
    return void(std::cout << '\n' << std::flush);
  }
  for (int i = 0; i < count; ++i) {
    const auto start = Clock::now();
    const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    (void)!::connect(fd, generic, length);
    std::cout << us_since(start) << ' ';
    ::close(fd);
    ::close(::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC));
  }
  std::cout << '\n' << std::flush;
  ::close(listener);
}

// A byte by sendmsg(2) over a pair of sockets of the worker's own.
void time_messages(int count, int flags) {
  int pair[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0) {
    return void(std::cout << '\n' << std::flush);
  }
  char byte = 'x';
  iovec part{&byte, 1};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  for (int i = 0; i < count; ++i) {
    const auto start = Clock::now();
    (void)!::sendmsg(pair[0], &message, flags);
    std::cout << us_since(start) << ' ';
    (void)!::read(pair[1], &byte, 1);
  }
  std::cout << '\n' << std::flush;
  ::close(pair[0]);
  ::close(pair[1]);
}

// Connects at a steady rate until told to stop by the end of standard input.
enum class Flood : std::uint8_t { Granted, Denied };
void flood(int port, int per_second, Flood kind) {
  const auto start = Clock::now();
  long done = 0;
  pollfd input{0, POLLIN, 0};
  while (::poll(&input, 1, 0) == 0) {
    const auto due = static_cast<long>(us_since(start) * per_second / 1e6);
    if (done >= due) {
      ::usleep(100);
      continue;
    }
    ::close(kind == Flood::Granted ? dial(port) : dial_denied());
    ++done;
  }
  std::string line;
  std::getline(std::cin, line);
  std::cout << static_cast<double>(done) / (us_since(start) / 1e6) << '\n' << std::flush;
}

int work() {
  std::string line;
  while (std::getline(std::cin, line)) {
    std::istringstream words(line);
    std::string act;
    int port = 0;
    int amount = 0;
    words >> act >> port >> amount;
    if (act == "connect") time_connects(port, amount, Way::Direct);
    if (act == "connect-http") time_connects(port, amount, Way::HttpProxy);
    if (act == "connect-socks") time_connects(port, amount, Way::SocksProxy);
    if (act == "transfer") time_transfer(port, amount, Way::Direct);
    if (act == "transfer-http") time_transfer(port, amount, Way::HttpProxy);
    if (act == "own") time_own(amount);
    if (act == "message") time_messages(amount, 0);
    if (act == "message-of-stream") time_messages(amount, MSG_NOSIGNAL);
    if (act == "flood") flood(port, amount, Flood::Granted);
    if (act == "flood-denied") flood(port, amount, Flood::Denied);
  }
  return 0;
}

// ---- The conductor.

class Worker {
 public:
  static Result<Worker> pipes(std::array<int, 2>& inside) {
    int in[2];
    int out[2];
    if (::pipe2(in, O_CLOEXEC) != 0 || ::pipe2(out, O_CLOEXEC) != 0) return fail_os(errno, "pipe");
    Worker worker;
    worker.in_ = UniqueFd(in[1]);
    worker.out_ = UniqueFd(out[0]);
    inside = {in[0], out[1]};
    return worker;
  }

  Result<void> tell(const std::string& line) const { return write_all(in_, line + "\n"); }
  Result<std::vector<double>> hear() {
    char c = 0;
    std::string line;
    while (::read(out_.get(), &c, 1) == 1 && c != '\n') line += c;
    std::istringstream words(line);
    std::vector<double> values;
    for (double value = 0; words >> value;) values.push_back(value);
    if (values.empty()) return fail(Code::Os, "a worker said nothing");
    return values;
  }
  Result<std::vector<double>> ask(const std::string& line) {
    TRY_VOID(tell(line));
    return hear();
  }

 private:
  UniqueFd in_, out_;
};

std::string myself() { return std::filesystem::read_symlink("/proc/self/exe"); }

Result<Worker> start_outside(const char* role) {
  std::array<int, 2> inside{};
  TRY(Worker worker, Worker::pipes(inside));
  posix_spawn_file_actions_t files;
  ::posix_spawn_file_actions_init(&files);
  ::posix_spawn_file_actions_adddup2(&files, inside[0], 0);
  ::posix_spawn_file_actions_adddup2(&files, inside[1], 1);
  const std::string program = myself();
  char* argv[] = {const_cast<char*>(program.c_str()), const_cast<char*>(role), nullptr};
  pid_t pid = 0;
  const int error = ::posix_spawn(&pid, program.c_str(), &files, nullptr, argv, environ);
  ::posix_spawn_file_actions_destroy(&files);
  ::close(inside[0]);
  ::close(inside[1]);
  if (error != 0) return fail_os(error, "start a worker");
  return worker;
}

Result<plan::LaunchPlan> plan_for_worker(std::vector<std::string> terms) {
  plan::SandboxSpec spec;
  spec.command = {myself(), "--worker"};
  terms.push_back("read=" + myself());
  std::vector<authority::Rule> rules;
  for (const std::string& term : terms) {
    TRY(authority::Capability capability, authority::parse_term(term));
    rules.push_back({authority::Effect::Allow, std::move(capability)});
  }
  TRY(const authority::AuthoritySet set, authority::AuthoritySet::from_rules(rules));
  TRY(host::ResolvedAuthority resolved, host::resolve_paths(set));
  spec.authority = resolved.set;
  spec.paths = resolved.paths;
  TRY(const host::HostFacts facts, host::read_facts());
  return plan::make_plan(spec, facts);
}

struct BoxWorker {
  Worker worker;
  launch::RemoteBox box;
};

Result<BoxWorker> start_in_box(launch::LauncherClient& launcher, egress::Broker& broker,
                               const plan::LaunchPlan& plan) {
  std::array<int, 2> inside{};
  TRY(Worker worker, Worker::pipes(inside));
  TRY(launch::RemoteBox box, launcher.start_box(plan, {inside[0], inside[1], 2}));
  ::close(inside[0]);
  ::close(inside[1]);
  if (!plan.network) return BoxWorker{std::move(worker), std::move(box)};
  TRY(launch::Packet packet, launch::receive_packet(box.status, sizeof(launch::Message)));
  TRY(launch::NetworkFiles files, launch::network_files(std::move(packet.fds), *plan.network));
  TRY(const egress::BoxId id, broker.add(*plan.network, [](const egress::Event&) {}));
  TRY_VOID(broker.start(id, std::move(files)));
  return BoxWorker{std::move(worker), std::move(box)};
}

void append(std::vector<double>& all, const std::vector<double>& more) {
  all.insert(all.end(), more.begin(), more.end());
}

struct Ports {
  int server, quiet, proxy, quiet_proxy;
};

Result<void> measure(int rounds, Worker& outside, Worker& first, const Ports& ports) {
  std::vector<double> direct, brokered, proxied, socks, direct_mb, brokered_mb, proxied_mb;
  for (int i = 0; i < rounds; ++i) {
    TRY(const auto a, outside.ask(fmt::format("connect {} 200", ports.quiet)));
    TRY(const auto b, first.ask(fmt::format("connect {} 200", ports.quiet)));
    TRY(const auto c, outside.ask(fmt::format("connect-http {} 200", ports.quiet_proxy)));
    TRY(const auto s, outside.ask(fmt::format("connect-socks {} 200", ports.quiet_proxy)));
    append(direct, a);
    append(brokered, b);
    append(proxied, c);
    append(socks, s);
    TRY(const auto d, outside.ask(fmt::format("transfer {} 512", ports.server)));
    TRY(const auto e, first.ask(fmt::format("transfer {} 512", ports.server)));
    TRY(const auto f, outside.ask(fmt::format("transfer-http {} 512", ports.proxy)));
    append(direct_mb, d);
    append(brokered_mb, e);
    append(proxied_mb, f);
  }
  const double base = percentile(direct, 0.5);
  print_table({{"connect, direct", {}, direct},
               {"connect, through the broker", {}, brokered},
               {"connect, through a proxy (HTTP CONNECT)", {}, proxied},
               {"connect, through a proxy (SOCKS 5)", {}, socks}},
              {"connect, direct"});
  print_figure("connect through the broker, beyond a direct one", percentile(brokered, 0.5) - base,
               "us", at_most(60));
  const double base_mb = percentile(direct_mb, 0.5);
  for (const auto& [name, values] : {std::pair("transfer, direct", &direct_mb),
                                     {"transfer, through the broker", &brokered_mb},
                                     {"transfer, through a proxy", &proxied_mb}}) {
    const double p50 = percentile(*values, 0.5);
    std::printf("%-44s p50 %8.0f MB/s %35.1f %%\n", name, p50, 100 * p50 / base_mb);
  }
  print_figure("transfer through the broker, of a direct one",
               100 * percentile(brokered_mb, 0.5) / base_mb, "%", at_least(97));
  print_figure("transfer through a proxy, of a direct one",
               100 * percentile(proxied_mb, 0.5) / base_mb, "%");
  return {};
}

struct Question {
  const char* name;
  Worker& worker;
  const char* question;
  std::vector<double> us{};
};

// Asks in turn, so that what disturbs one disturbs all, and compares with the first.
Result<void> compare(int rounds, std::vector<Question> all) {
  for (int i = 0; i < rounds; ++i) {
    for (Question& each : all) {
      TRY(const auto answer, each.worker.ask(each.question));
      append(each.us, answer);
    }
  }
  std::vector<Row> rows;
  for (const Question& each : all) rows.push_back({each.name, {}, each.us});
  print_table(rows, {all.front().name});
  return {};
}

// What connecting to one's own loopback costs: a box without grants has no broker to ask.
Result<void> measure_own(int rounds, Worker& outside, Worker& plain, Worker& granted) {
  return compare(rounds, {{"own loopback, outside", outside, "own 0 200"},
                          {"own loopback, box without grants", plain, "own 0 200"},
                          {"own loopback, box with a grant", granted, "own 0 200"}});
}

// What sending a message costs: in a box with a grant it waits, unless it says that it is of a
// stream.
Result<void> measure_messages(int rounds, Worker& plain, Worker& granted) {
  return compare(rounds, {{"sendmsg, box without grants", plain, "message 0 200"},
                          {"sendmsg, box with a grant", granted, "message 0 200"},
                          {"sendmsg with MSG_NOSIGNAL, box with a grant", granted,
                           "message-of-stream 0 200"}});
}

// What a second box's connects cost while the first one does `act` all the time.
Result<void> measure_beside(int rounds, const char* name, const char* act, Worker& first,
                            Worker& second, int port) {
  std::vector<double> quiet, beside, rates;
  for (int i = 0; i < rounds; ++i) {
    TRY(const auto a, second.ask(fmt::format("connect {} 200", port)));
    append(quiet, a);
    TRY_VOID(first.tell(fmt::format("{} {} 10000", act, port)));
    TRY(const auto b, second.ask(fmt::format("connect {} 200", port)));
    append(beside, b);
    TRY_VOID(first.tell("stop"));
    TRY(const auto rate, first.hear());
    append(rates, rate);
  }
  const double alone = percentile(quiet, 0.5);
  print_table({{"connect of a box alone", {}, quiet}, {name, {}, beside}},
              {"connect of a box alone"});
  std::printf("%-44s %.0f a second (10000 asked for)\n", "  which made", percentile(rates, 0.5));
  print_figure(std::string("connect of a box ") + name, percentile(beside, 0.5) / alone, "x",
               at_most(2));
  return {};
}

Result<void> run(int rounds) {
  TRY(Worker server, start_outside("--serve"));
  TRY(const std::vector<double> told, server.hear());
  TRY(Worker outside, start_outside("--worker"));
  const std::string launcher_path =
      std::filesystem::path(myself()).parent_path() / "glovebox-launcher";
  TRY(launch::LauncherClient launcher, launch::LauncherClient::start(launcher_path));
  TRY(egress::Broker broker, egress::Broker::open({}));
  const std::vector<std::string> grants{fmt::format("connect={}:*", kHost)};
  TRY(const plan::LaunchPlan plan, plan_for_worker(grants));
  TRY(const plan::LaunchPlan without, plan_for_worker({}));
  TRY(BoxWorker plain, start_in_box(launcher, broker, without));
  TRY(BoxWorker first, start_in_box(launcher, broker, plan));
  TRY(BoxWorker second, start_in_box(launcher, broker, plan));

  std::atomic<bool> over{false};
  std::thread loop([&] {
    while (!over) {
      pollfd ready{broker.fd().get(), POLLIN, 0};
      if (::poll(&ready, 1, 50) > 0) broker.on_ready();
    }
  });
  std::printf("%s; uid %u; %d interleaved rounds\n", host_line().c_str(), ::getuid(), rounds);
  const auto port_at = [&](std::size_t index) { return static_cast<int>(told.at(index)); };
  const Ports ports{port_at(0), port_at(1), port_at(2), port_at(3)};
  auto done = measure(rounds, outside, first.worker, ports);
  if (done) done = measure_own(rounds, outside, plain.worker, first.worker);
  if (done) done = measure_messages(rounds, plain.worker, first.worker);
  if (done) {
    done = measure_beside(rounds, "beside one that connects all the time", "flood", first.worker,
                          second.worker, ports.quiet);
  }
  if (done) {
    done = measure_beside(rounds, "beside one that is denied all the time", "flood-denied",
                          first.worker, second.worker, ports.quiet);
  }
  over = true;
  loop.join();
  return done;
}

}  // namespace
}  // namespace glovebox::bench

int main(int argc, char** argv) {
  const std::string_view word = argc > 1 ? argv[1] : "";
  if (word == "--worker") return glovebox::bench::work();
  if (word == "--serve") return glovebox::bench::serve();
  const auto rounds = argc > 1 ? glovebox::parse_count(word) : glovebox::Result<std::uint64_t>(10);
  if (!rounds || *rounds == 0 || *rounds > 10'000) {
    (void)std::fprintf(stderr, "usage: bench_egress [ROUNDS]\n");
    return 125;
  }
  const auto done = glovebox::bench::run(static_cast<int>(*rounds));
  if (done) return 0;
  (void)std::fprintf(stderr, "bench_egress: %s\n", done.error().message.c_str());
  return 1;
}
