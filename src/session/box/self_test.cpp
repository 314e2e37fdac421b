#include "session/box/self_test.h"

#include "async/co_try.h"
#include "base/file.h"
#include "base/unique_fd.h"

#include <array>
#include <cerrno>
#include <cstddef>

#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

namespace glovebox::session {
namespace {

constexpr std::chrono::seconds kPatience{10};
constexpr std::size_t kMostOutput = 4096;

// What the probe must have spoken of; one that it left out is not proved.
constexpr auto kProved = std::to_array<std::string_view>(
    {"identity", "capabilities", "no-new-privileges", "network", "ipc", "processes", "filesystem",
     "syscalls", "keyrings", "files-passed"});

// Things outside that would notice a box that is open.
class Canaries {
 public:
  static Result<Canaries> put_up(const std::string& directory) {
    Canaries canaries;
    canaries.secret_ = fmt::format("{}/canary-{}-{}", directory, ::getpid(), ++count_);
    canaries.abstract_ = fmt::format("glovebox-canary-{}-{}", ::getpid(), count_);
    TRY(const UniqueFd file, open_file(canaries.secret_, O_WRONLY | O_CREAT | O_EXCL, 0644));
    TRY_VOID(canaries.listen_tcp());
    TRY_VOID(canaries.listen_abstract());
    return canaries;
  }

  Canaries(Canaries&&) = default;
  Canaries& operator=(Canaries&&) = delete;
  ~Canaries() {
    if (!secret_.empty()) (void)::unlink(secret_.c_str());
  }

  [[nodiscard]] std::vector<std::string> words() const {
    return {secret_, std::to_string(port_), abstract_, std::to_string(::getpid())};
  }

  // Whether a connection came.
  [[nodiscard]] bool is_touched() const { return has_caller(tcp_) || has_caller(unix_); }

 private:
  Canaries() = default;

  static bool has_caller(const UniqueFd& listener) {
    const UniqueFd caller(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
    return static_cast<bool>(caller) || errno != EAGAIN;
  }

  Result<void> listen_tcp() {
    tcp_ = UniqueFd(::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(address);
    auto* name = reinterpret_cast<sockaddr*>(&address);
    if (::bind(tcp_.get(), name, size) != 0 || ::listen(tcp_.get(), 4) != 0 ||
        ::getsockname(tcp_.get(), name, &size) != 0) {
      return fail_os(errno, "put up a canary on loopback");
    }
    port_ = ntohs(address.sin_port);
    return {};
  }

  Result<void> listen_abstract() {
    unix_ = UniqueFd(::socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    abstract_.copy(address.sun_path + 1, sizeof(address.sun_path) - 1);
    const auto size =
        static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + abstract_.size());
    if (::bind(unix_.get(), reinterpret_cast<const sockaddr*>(&address), size) != 0 ||
        ::listen(unix_.get(), 4) != 0) {
      return fail_os(errno, "put up an abstract canary");
    }
    return {};
  }

  static inline std::uint64_t count_ = 0;  // on the loop's thread alone
  std::string secret_, abstract_;
  UniqueFd tcp_, unix_;
  int port_ = 0;
};

class Collect final : public OutputReader {
 public:
  asio::awaitable<Result<void>> take(guest::Stream stream, std::string_view bytes) override {
    if (stream == guest::Stream::Output && text_.size() + bytes.size() <= kMostOutput)
      text_ += bytes;
    co_return Result<void>();
  }
  [[nodiscard]] const std::string& text() const { return text_; }

 private:
  std::string text_;
};

bool has_line(const std::string& text, std::string_view state, std::string_view name) {
  const std::string line = fmt::format("prove: {} {}\n", state, name);
  return text.starts_with(line) || text.find("\n" + line) != std::string::npos;
}

}  // namespace

asio::awaitable<Result<std::vector<std::string>>> run_self_test(LiveSession& session,
                                                                std::string directory) {
  CO_TRY(const Canaries canaries, Canaries::put_up(directory));
  RunRequest request;
  request.argv = {kProbeInside, "prove"};
  for (std::string& word : canaries.words()) request.argv.push_back(std::move(word));
  request.timeout = kPatience;
  Collect output;
  CO_TRY(const RunResult result, co_await session.run(request, output));
  std::vector<std::string> proved;
  for (const std::string_view name : kProved) {
    if (!has_line(output.text(), "held", name)) {
      co_return fail(Code::Denied, "the session could not be proved: '{}' does not hold", name);
    }
    proved.emplace_back(name);
  }
  if (result.code != 0 || canaries.is_touched()) {
    co_return fail(Code::Denied, "the session could not be proved: something outside was reached");
  }
  co_return proved;
}

}  // namespace glovebox::session
