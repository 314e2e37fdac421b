#include "cli/session/service_client.h"

#include "base/file.h"
#include "base/pidfd.h"
#include "cli/layers.h"

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>

#include <fcntl.h>
#include <poll.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

namespace glovebox::app {
namespace {

constexpr int kStartSeconds = 30;
// A service that was started by its first use ends when it was not needed for so long.
constexpr int kIdleSeconds = 10;

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

Result<std::string> read_token() {
  if (std::string token = variable("GLOVEBOX_TOKEN"); !token.empty()) return token;
  const std::string file = variable("GLOVEBOX_TOKEN_FILE");
  if (file.empty()) return std::string();
  TRY(std::string token, read_file(file));
  while (!token.empty() && (token.back() == '\n' || token.back() == '\r')) token.pop_back();
  return token;
}

struct OwnService {
  std::string state;
  std::string socket() const { return state + "/service.sock"; }
  std::string config() const { return state + "/service.toml"; }
  std::string log() const { return state + "/service.log"; }
  // Apart from the layers of `run`, which belong to no session.
  std::string sessions() const { return state + "/serve"; }
};

std::string quoted(const std::string& text) {
  std::string result = "\"";
  for (const char each : text) {
    if (each == '"' || each == '\\') result += '\\';
    result += each;
  }
  return result + "\"";
}

// The service acts for its caller alone, who may hand in whatever they can reach themselves.
std::string config_text(const OwnService& own) {
  return fmt::format(
      "# Written by 'glovebox session' at each start of the service.\n"
      "listen = []\n"
      "socket = {}\n"
      "state_directory = {}\n"
      "allowed_writable = [\"/\"]\n"
      "exit_when_idle_seconds = {}\n"
      "[sessions]\n"
      "run_timeout_seconds = 0\n",
      quoted(own.socket()), quoted(own.sessions()), kIdleSeconds);
}

Result<void> write_config(const OwnService& own) {
  const std::string fresh = own.config() + ".new";
  TRY(const UniqueFd file,
      open_file(fresh, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600));
  TRY_VOID(write_all(file, config_text(own)));
  if (::rename(fresh.c_str(), own.config().c_str()) != 0) return fail_os(errno, "{}", own.config());
  return {};
}

// A datagram socket on which the service says READY=1 (sd_notify(3)).
struct Readiness {
  UniqueFd socket;
  std::string name;
};

Result<Readiness> make_readiness() {
  Readiness readiness{UniqueFd(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0)), ""};
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  // An abstract name that the kernel chooses.
  if (!readiness.socket || ::bind(readiness.socket.get(), reinterpret_cast<sockaddr*>(&address),
                                  sizeof(address.sun_family)) != 0) {
    return fail_os(errno, "make a socket");
  }
  socklen_t size = sizeof(address);
  if (::getsockname(readiness.socket.get(), reinterpret_cast<sockaddr*>(&address), &size) != 0) {
    return fail_os(errno, "ask for a socket's name");
  }
  const std::size_t length = size - offsetof(sockaddr_un, sun_path);
  readiness.name = "@" + std::string(address.sun_path + 1, length - 1);
  return readiness;
}

// Between fork and exec, in a process of its own; only calls that are safe there.
[[noreturn]] void become_service(int log, char* const argv[], char* const envp[]) {
  ::setsid();
  const int nothing = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  if (nothing < 0 || ::dup2(nothing, 0) < 0 || ::dup2(log, 1) < 0 || ::dup2(log, 2) < 0) {
    ::_exit(125);
  }
  if (::chdir("/") != 0) ::_exit(125);
  ::syscall(SYS_close_range, 3U, ~0U, 4U);  // CLOSE_RANGE_CLOEXEC
  ::execve("/proc/self/exe", argv, envp);
  ::_exit(125);
}

Result<void> await_ready(const OwnService& own, const Readiness& readiness,
                         const UniqueFd& process) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(kStartSeconds);
  while (true) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
        deadline - std::chrono::steady_clock::now());
    if (left.count() <= 0) break;
    pollfd waits[2] = {{readiness.socket.get(), POLLIN, 0}, {process.get(), POLLIN, 0}};
    if (::poll(waits, 2, static_cast<int>(left.count())) < 0 && errno != EINTR) {
      return fail_os(errno, "wait for the service");
    }
    char message[512];
    const ssize_t size = ::recv(readiness.socket.get(), message, sizeof(message), MSG_DONTWAIT);
    if (size > 0 && std::string_view(message, static_cast<std::size_t>(size)).find("READY=1") !=
                        std::string_view::npos) {
      return {};
    }
    if ((waits[1].revents & POLLIN) != 0) break;
  }
  return fail(Code::Os, "the service did not start; {} says why", own.log());
}

Result<void> start_own(const OwnService& own) {
  TRY_VOID(write_config(own));
  TRY(const UniqueFd log,
      open_file(own.log(), O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600));
  TRY(const Readiness readiness, make_readiness());
  std::vector<std::string> words{"glovebox", "serve", "--config", own.config()};
  std::vector<std::string> variables{"NOTIFY_SOCKET=" + readiness.name};
  for (char** each = environ; *each != nullptr; ++each) {
    if (!std::string_view(*each).starts_with("NOTIFY_SOCKET=")) variables.emplace_back(*each);
  }
  std::vector<char*> argv, envp;
  for (std::string& word : words) argv.push_back(word.data());
  for (std::string& each : variables) envp.push_back(each.data());
  argv.push_back(nullptr);
  envp.push_back(nullptr);

  const pid_t pid = ::fork();
  if (pid < 0) return fail_os(errno, "start the service");
  if (pid == 0) become_service(log.get(), argv.data(), envp.data());
  TRY(const UniqueFd process, open_pidfd(pid));
  return await_ready(own, readiness, process);
}

// Only one caller at a time starts it.
Result<HttpClient> start_and_connect(const OwnService& own, const ServiceAddress& address) {
  std::error_code problem;
  std::filesystem::create_directories(own.state, problem);
  if (problem) return fail(Code::Os, "make {}: {}", own.state, problem.message());
  TRY(const UniqueFd lock,
      open_file(own.state + "/service.lock", O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (::flock(lock.get(), LOCK_EX) != 0) return fail_os(errno, "wait for the service's lock");
  auto client = HttpClient::connect(address);
  if (client || client.error().code != Code::NotFound) return client;
  TRY_VOID(start_own(own));
  return HttpClient::connect(address);
}

}  // namespace

Result<ServiceAddress> service_address() {
  const std::string host = variable("GLOVEBOX_HOST");
  if (host.empty()) {
    TRY(const std::string state, state_directory());
    ServiceAddress own;
    own.socket = OwnService{state}.socket();
    return own;
  }
  TRY(ServiceAddress address, parse_service_address(host));
  TRY(address.token, read_token());
  return address;
}

Result<HttpClient> open_service(IfMissing missing) {
  TRY(const ServiceAddress address, service_address());
  auto client = HttpClient::connect(address);
  if (client || client.error().code != Code::NotFound) return client;
  if (!variable("GLOVEBOX_HOST").empty()) return client;
  if (missing == IfMissing::Fail) {
    return fail(Code::NotFound,
                "no service is running, so there are no sessions: start one with 'glovebox session "
                "start' (what sessions left behind is listed by 'glovebox layers')");
  }
  TRY(const std::string state, state_directory());
  return start_and_connect(OwnService{state}, address);
}

}  // namespace glovebox::app
