#include "attack/canaries.h"

#include "base/file.h"
#include "guest/shell/process_tree.h"

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <filesystem>

#include <fcntl.h>
#include <mqueue.h>
#include <poll.h>
#include <pty.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

namespace glovebox::app {
namespace {

namespace fs = std::filesystem;

constexpr mode_t kBookMode = 0644;
const std::string kBookText(4096, 'p');
const std::string kOldText = "old\n";

Result<void> write_owned(const std::string& path, std::string_view text, mode_t mode, Ids owner) {
  TRY(const UniqueFd file, open_file(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, mode));
  TRY_VOID(write_all(file, text));
  if (::fchmod(file.get(), mode) != 0 || ::fchown(file.get(), owner.uid, owner.gid) != 0) {
    return fail_os(errno, "{}", path);
  }
  return {};
}

Result<void> make_owned(const std::string& path, mode_t mode, Ids owner) {
  if (::mkdir(path.c_str(), mode) != 0 || ::chown(path.c_str(), owner.uid, owner.gid) != 0) {
    return fail_os(errno, "{}", path);
  }
  return {};
}

// With a link to the secret's directory, as an earlier box may have left it.
Result<void> fill_work(const std::string& work, Ids owner) {
  const std::string planted = work + "/planted";
  if (::symlink((work + "/../private").c_str(), planted.c_str()) != 0 ||
      ::lchown(planted.c_str(), owner.uid, owner.gid) != 0) {
    return fail_os(errno, "{}", planted);
  }
  TRY_VOID(make_owned(work + "/.githooks", 0755, owner));
  TRY_VOID(make_owned(work + "/app", 0755, owner));
  TRY_VOID(write_owned(work + "/app/.npmrc", "ignore-scripts=true\n", 0644, owner));
  return write_owned(work + "/old", kOldText, 0644, owner);
}

Result<UniqueFd> bind_unix(const std::string& name, int type) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::size_t length = std::min(name.size(), sizeof(address.sun_path) - 1);
  name.copy(address.sun_path, length);
  UniqueFd fd(::socket(AF_UNIX, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + length);
  if (!fd || ::bind(fd.get(), reinterpret_cast<sockaddr*>(&address), size) != 0 ||
      (type == SOCK_STREAM && ::listen(fd.get(), 8) != 0)) {
    return fail_os(errno, "make a socket to be attacked");
  }
  return fd;
}

bool is_readable(BorrowedFd fd) {
  pollfd one{fd.get(), POLLIN, 0};
  return ::poll(&one, 1, 0) > 0 && (one.revents & POLLIN) != 0;
}

// An overlay's own directory can be closed to its owner; what is closed cannot be removed.
void remove_tree(const std::string& path) {
  std::error_code ignored;  // what cannot be opened cannot be removed either, and shows below
  for (fs::recursive_directory_iterator each(path, ignored), end; !ignored && each != end;
       each.increment(ignored)) {
    if (each->is_directory(ignored) && !each->is_symlink(ignored)) {
      fs::permissions(each->path(), fs::perms::owner_all, ignored);
      ignored.clear();
    }
  }
  fs::remove_all(path, ignored);
}

// Everything in it. The directory itself stays the one that a session was handed.
void empty_directory(const std::string& path) {
  std::vector<fs::path> entries;
  std::error_code ignored;  // what stays is found by who looks at the directory next
  for (const auto& entry : fs::directory_iterator(path, ignored)) entries.push_back(entry.path());
  for (const fs::path& each : entries) remove_tree(each);
}

// Short enough for the name of a process.
Result<std::string> random_name(std::string_view start) {
  unsigned char bytes[4];
  if (::getrandom(bytes, sizeof(bytes), 0) != sizeof(bytes)) return fail_os(errno, "getrandom");
  return fmt::format("{}{:02x}{:02x}{:02x}{:02x}", start, bytes[0], bytes[1], bytes[2], bytes[3]);
}

// Another box's System V key, beside the host's own.
int near_key() { return ::getpid() + (1 << 24); }

bool is_same(const struct stat& before, const struct stat& after) {
  return before.st_ino == after.st_ino && before.st_size == after.st_size &&
         before.st_mode == after.st_mode && before.st_mtim.tv_sec == after.st_mtim.tv_sec &&
         before.st_mtim.tv_nsec == after.st_mtim.tv_nsec &&
         before.st_ctim.tv_nsec == after.st_ctim.tv_nsec;
}

}  // namespace

Result<Canaries> Canaries::make(Ids owner) {
  Canaries canaries;
  canaries.owner_ = owner;
  TRY(canaries.token_, random_name("gbname"));
  TRY(canaries.secret_, random_name("gbhost"));
  TRY(canaries.near_secret_, random_name("gbnear"));
  char name[] = "/tmp/glovebox-attack-XXXXXX";
  if (::mkdtemp(name) == nullptr) return fail_os(errno, "make a directory for canaries");
  canaries.directory_ = name;
  if (::chmod(name, 0755) != 0) return fail_os(errno, "{}", name);
  TRY_VOID(canaries.make_files(owner));
  TRY(NetCanaries net, NetCanaries::make());
  canaries.net_ = std::make_unique<NetCanaries>(std::move(net));
  TRY_VOID(canaries.make_sockets(owner));
  TRY_VOID(canaries.make_shared());
  TRY_VOID(canaries.make_victim(owner));
  return canaries;
}

Canaries::Canaries(Canaries&& other) noexcept
    : directory_(std::exchange(other.directory_, "")),
      token_(std::move(other.token_)),
      secret_(std::move(other.secret_)),
      near_secret_(std::move(other.near_secret_)),
      owner_(other.owner_),
      sysv_(std::exchange(other.sysv_, -1)),
      victim_(std::exchange(other.victim_, 0)),
      named_(std::move(other.named_)),
      abstract_(std::move(other.abstract_)),
      abstract_datagram_(std::move(other.abstract_datagram_)),
      terminal_(std::move(other.terminal_)),
      terminal_master_(std::move(other.terminal_master_)),
      net_(std::move(other.net_)),
      neighbour_(std::move(other.neighbour_)),
      watched_(std::move(other.watched_)) {}

Canaries::~Canaries() {
  neighbour_.reset();
  if (victim_ > 0) {
    ::kill(victim_, SIGKILL);
    ::waitpid(victim_, nullptr, 0);
  }
  if (sysv_ >= 0) ::shmctl(sysv_, IPC_RMID, nullptr);
  if (directory_.empty()) return;
  ::shm_unlink(("/" + token_).c_str());
  ::mq_unlink(("/" + token_).c_str());
  remove_tree(directory_);
}

Result<void> Canaries::make_files(Ids owner) {
  TRY_VOID(make_owned(state(), 0700, owner));
  TRY_VOID(make_owned(directory_ + "/private", 0755, owner));
  TRY_VOID(write_owned(directory_ + "/private/secret", secret_ + "\n", 0644, owner));
  constexpr std::string_view kEmpty = "version: 1\nnet: {connect: [], resolve: []}\n";
  TRY_VOID(write_owned(directory_ + "/empty.yaml", kEmpty, 0644, owner));
  TRY_VOID(write_owned(book(), kBookText, kBookMode, owner));
  TRY_VOID(make_owned(work(), 0755, owner));
  return fill_work(work(), owner);
}

Result<void> Canaries::make_sockets(Ids owner) {
  const std::string path = directory_ + "/private/socket";
  TRY(named_, bind_unix(path, SOCK_STREAM));
  if (::chown(path.c_str(), owner.uid, owner.gid) != 0) return fail_os(errno, "{}", path);
  TRY_VOID(put_service());
  const std::string zero(1, '\0');
  TRY(abstract_, bind_unix(zero + token_, SOCK_STREAM));
  TRY(abstract_datagram_, bind_unix(zero + token_ + "d", SOCK_DGRAM));
  int master = -1, slave = -1;
  if (::openpty(&master, &slave, nullptr, nullptr, nullptr) != 0) {
    return fail_os(errno, "make a terminal to be attacked");
  }
  terminal_master_ = UniqueFd(master);
  terminal_ = UniqueFd(slave);
  ::fcntl(master, F_SETFD, FD_CLOEXEC);
  ::fcntl(slave, F_SETFD, FD_CLOEXEC);
  // Every key is there at once.
  termios modes{};
  if (::tcgetattr(slave, &modes) == 0) {
    ::cfmakeraw(&modes);
    ::tcsetattr(slave, TCSANOW, &modes);
  }
  if (::fchown(slave, owner.uid, owner.gid) != 0) return fail_os(errno, "a terminal");
  return {};
}

// The same socket, under a name in the workspace.
Result<void> Canaries::put_service() const {
  const std::string path = work() + "/service";
  if (::link((directory_ + "/private/socket").c_str(), path.c_str()) != 0) {
    return fail_os(errno, "{}", path);
  }
  return {};
}

Result<void> Canaries::make_shared() {
  const UniqueFd memory(::shm_open(("/" + token_).c_str(), O_RDWR | O_CREAT | O_EXCL, 0666));
  if (!memory) return fail_os(errno, "make shared memory to be attacked");
  const mqd_t queue =
      ::mq_open(("/" + token_).c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666, nullptr);
  if (queue != -1) ::mq_close(queue);  // a kernel without queues has none to find
  sysv_ = ::shmget(static_cast<key_t>(::getpid()), 4096, IPC_CREAT | IPC_EXCL | 0666);
  if (sysv_ < 0) return fail_os(errno, "make System V memory to be attacked");
  return {};
}

Result<void> Canaries::make_victim(Ids owner) {
  const pid_t self = ::getpid();
  victim_ = ::fork();
  if (victim_ < 0) return fail_os(errno, "make a process to be attacked");
  if (victim_ > 0) return {};
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  ::prctl(PR_SET_NAME, secret_.c_str());
  const bool lowered = ::geteuid() != 0 || (::setresgid(owner.gid, owner.gid, owner.gid) == 0 &&
                                            ::setresuid(owner.uid, owner.uid, owner.uid) == 0);
  if (!lowered || ::getppid() != self) ::_exit(1);
  while (true) ::pause();
}

std::string Canaries::word(std::string_view word) const {
  const std::pair<std::string_view, std::string> places[] = {
      {"@secret", directory_ + "/private/secret"},
      {"@book", book()},
      {"@work", work()},
      {"@socket", directory_ + "/private/socket"},
      {"@abstract", token_},
      {"@port", std::to_string(net_->host_port())},
      {"@open", std::to_string(net_->granted_port())},
      {"@other", std::to_string(net_->other_port())},
      {"@dns", std::to_string(net_->resolver_port())},
      {"@nearkey", std::to_string(near_key())},
      {"@near", "near-" + token_},
      {"@empty", directory_ + "/empty.yaml"},
      {"@state", state()},
      {"@victim", std::to_string(victim_)},
      {"@shm", "/" + token_},
      {"@sysv", std::to_string(::getpid())},
      {"@queue", "/" + token_},
  };
  std::string filled(word);
  for (const auto& [name, value] : places) {
    for (std::size_t at = 0; (at = filled.find(name, at)) != std::string::npos;) {
      filled.replace(at, name.size(), value);
      at += value.size();
    }
  }
  return filled;
}

std::string Canaries::touched_files() const {
  const auto text = read_file(book());
  if (!text || *text != kBookText) return "a file that may only be read has changed";
  struct stat facts{};
  if (::stat(book().c_str(), &facts) != 0 || (facts.st_mode & 07777) != kBookMode) {
    return "the mode of a file that may only be read has changed";
  }
  const auto secret = read_file(directory_ + "/private/secret");
  if (!secret || *secret != secret_ + "\n") return "a secret has changed";
  std::error_code problem;
  for (const auto& entry : fs::directory_iterator(work(), problem)) {
    const std::string name = entry.path().filename();
    if (::lstat(entry.path().c_str(), &facts) != 0) continue;
    if ((facts.st_mode & (S_ISUID | S_ISGID)) != 0) return "a setuid file was left: " + name;
    if (S_ISCHR(facts.st_mode) || S_ISBLK(facts.st_mode)) return "a device was left: " + name;
    if (name.starts_with("core")) return "a core dump was left: " + name;
  }
  return "";
}

Result<void> Canaries::watch(const std::string& path) {
  Watched one{path};
  if (::stat(path.c_str(), &one.facts) != 0) return fail_os(errno, "{}", path);
  watched_.push_back(std::move(one));
  return {};
}

void Canaries::end_neighbour() { neighbour_.reset(); }

Result<void> Canaries::set_neighbour(Command command) {
  for (const std::string& word :
       {std::string("keep_secret"), word("@near"), near_secret_, word("@nearkey")}) {
    command.words.push_back(word);
  }
  TRY(Background box, Background::start(command));
  TRY_VOID(box.await("keeping", std::chrono::seconds(20)));
  neighbour_.emplace(std::move(box));
  return {};
}

bool Canaries::is_work_untouched() const {
  const auto old = read_file(work() + "/old");
  return old && *old == kOldText;
}

std::string Canaries::touched_sockets() const {
  const std::pair<const UniqueFd&, const char*> listeners[] = {
      {named_, "a socket of the host was reached by its path"},
      {abstract_, "an abstract socket of the host was reached"},
      {abstract_datagram_, "an abstract socket of the host was sent to"},
      {terminal_, "keys were pushed into the caller's terminal"},
  };
  for (const auto& [fd, what] : listeners) {
    if (is_readable(fd)) return what;
  }
  return "";
}

// A signal that was sent takes a moment to end or stop the process, which sleeps otherwise.
bool Canaries::is_victim_hit() const {
  constexpr int kMostLooks = 5000;
  for (int look = 0; look < kMostLooks; ++look) {
    if (::waitpid(victim_, nullptr, WNOHANG | WUNTRACED) != 0) return true;
    const auto line = read_file(fmt::format("/proc/{}/stat", victim_));
    const auto process = line ? guest::parse_stat(*line) : std::nullopt;
    if (process && process->state == 'S') return false;
    (void)::poll(nullptr, 0, 1);
  }
  return true;
}

std::string Canaries::touched() {
  std::string what = touched_files();
  if (what.empty()) what = touched_sockets();
  if (what.empty()) what = net_->touched();
  if (what.empty() && neighbour_ && neighbour_->has_said("visited")) {
    what = "another box was reached";
  }
  if (what.empty() && neighbour_ && neighbour_->is_over()) what = "another box was ended";
  for (const Watched& each : watched_) {
    struct stat facts{};
    if (::stat(each.path.c_str(), &facts) != 0 || !is_same(each.facts, facts)) {
      what = "a program of the host was changed: " + each.path;
    }
  }
  if (what.empty() && is_victim_hit()) what = "a process of the host was ended or stopped";
  empty_directory(work());
  const bool is_back = fill_work(work(), owner_).has_value() && put_service().has_value();
  if (!is_back && what.empty()) what = "the workspace cannot be put back";
  return what;
}

}  // namespace glovebox::app
