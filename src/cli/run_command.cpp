#include "base/file.h"
#include "base/pipe.h"
#include "base/quantity.h"
#include "cli/commands.h"
#include "cli/last_run.h"
#include "cli/layers.h"
#include "cli/report.h"
#include "cli/run_network.h"
#include "cli/standard_streams.h"
#include "host/facts.h"
#include "launch/launcher.h"
#include "launch/supervise.h"
#include "plan/flat_plan.h"

#include <algorithm>
#include <cerrno>
#include <csignal>

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>

namespace glovebox::app {
namespace {

// Signals that are passed on to the command. One that the caller has had ignored stays ignored.
constexpr int kPassedOn[] = {SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2, SIGWINCH};

struct Outcome {
  plan::LaunchPlan plan;
  launch::ExitReport report;
  std::vector<RunLayer> layers;
  std::unique_ptr<RunNetwork> network;  // when the plan has one
};

// Where the report goes: opened first, on the host's tree, so that a wrong path is a refusal.
Result<UniqueFd> open_report(const std::string& where) {
  if (where.empty()) return UniqueFd();
  if (where == "-") {
    UniqueFd copy(::fcntl(2, F_DUPFD_CLOEXEC, 3));
    if (!copy) return fail_os(errno, "--report -");
    return copy;
  }
  // An earlier box may have put a link there, or a pipe without a reader. Links to the caller's
  // own descriptors are none of its.
  const bool is_own = where.starts_with("/dev/fd/") || where.starts_with("/dev/std");
  const int follow = is_own ? 0 : O_NOFOLLOW;
  auto file = open_file(where, O_WRONLY | O_CREAT | O_NONBLOCK | follow, 0644);
  if (!file) return fail(Code::Invalid, "--report {}", file.error().message);
  struct stat facts{};
  if (::fstat(file->get(), &facts) != 0 || ::fcntl(file->get(), F_SETFL, 0) != 0 ||
      (S_ISREG(facts.st_mode) && ::ftruncate(file->get(), 0) != 0)) {
    return fail_os(errno, "--report {}", where);
  }
  return file;
}

Result<UniqueFd> take_signals() {
  sigset_t passed;
  sigemptyset(&passed);
  for (const int number : kPassedOn) {
    struct sigaction current{};
    if (::sigaction(number, nullptr, &current) == 0 && current.sa_handler == SIG_IGN) continue;
    sigaddset(&passed, number);
  }
  if (::sigprocmask(SIG_BLOCK, &passed, nullptr) != 0) return fail_os(errno, "block signals");
  UniqueFd fd(::signalfd(-1, &passed, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!fd) return fail_os(errno, "signalfd");
  return fd;
}

// Boxes start with default signal handling, whatever the caller had ignored.
void reset_ignored_signals() {
  for (const int number : {SIGPIPE, SIGCHLD, SIGTSTP, SIGTTIN, SIGTTOU, SIGXFSZ, SIGALRM}) {
    ::signal(number, SIG_DFL);
  }
}

// The box dies with us, and we with our parent, unless asked otherwise. The parent may have died
// before we asked.
Result<void> die_with_parent(pid_t parent) {
  if (::prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) != 0) return fail_os(errno, "set parent death");
  if (::getppid() != parent) return fail(Code::Os, "the parent process is gone");
  return {};
}

// What the box wrote into memory, to the layers that it belongs to; and whether the command failed
// for want of room there.
void take_layers(Outcome& outcome) {
  const std::vector<std::string> places = plan::handed_layers(outcome.plan);
  for (std::size_t i = 0; i < outcome.report.layers.size() && i < places.size(); ++i) {
    for (RunLayer& layer : outcome.layers) {
      if (layer.use_memory(places[i], outcome.report.layers[i])) break;
    }
  }
  const bool ended_badly = !outcome.report.limit && outcome.report.exit_code != 0;
  if (ended_badly && std::ranges::any_of(outcome.layers, &RunLayer::is_full)) {
    outcome.report.limit = launch::LimitKind::Disk;
  }
}

// Root counts on a limit of the memory, and is told when there is none. An ordinary user has one
// only where a cgroup was delegated; the report says it.
void say_what_is_missing(const plan::LaunchPlan& plan) {
  if (plan.tier != host::Tier::Root) return;
  for (const plan::Guarantee& missing : plan.not_enforced) {
    // A closed standard error is the caller's.
    (void)write_all(BorrowedFd(2),
                    fmt::format("glovebox: not enforced here: {}: {}\n", missing.name, missing.by));
  }
}

Result<Outcome> launch_and_wait(const RunOptions& options, const UniqueFd& report_file) {
  const pid_t parent = ::getppid();
  TRY(session::BoxRequest request, to_request(options));
  TRY(request.terminal, find_terminal());
  TRY(const auto preparer, open_preparer());
  TRY(session::Prepared prepared, preparer->prepare(request));
  TRY(const host::HostFacts facts, preparer->facts());

  Outcome outcome;
  outcome.plan = std::move(prepared.plan);
  const bool counting = report_file || outcome.plan.watch.output_bytes;
  TRY(Connection connection, connect_streams(counting ? Counting::On : Counting::Off));
  for (session::HeldLayer& held : prepared.layers) {
    TRY(RunLayer layer, RunLayer::begin(std::move(held), options.command));
    outcome.layers.push_back(std::move(layer));
  }
  if (!options.quiet) say_what_is_missing(outcome.plan);
  const std::vector<std::byte> bytes = plan::encode(outcome.plan);
  TRY(const plan::PlanView view, plan::PlanView::decode(bytes));

  if (outcome.plan.network) {
    TRY(outcome.network, RunNetwork::open(*outcome.plan.network));
  }
  reset_ignored_signals();
  TRY(const UniqueFd signals, take_signals());
  TRY(SocketPair status, open_socket_pair(SOCK_SEQPACKET));
  TRY(launch::Launcher launcher, launch::Launcher::enter(facts, launch::Launcher::Life::OneBox));
  launcher.hide_arguments(options.argc, options.argv);
  TRY(launch::Box box,
      launcher.start(view, {connection.for_box, status.theirs.get(), status.ours.get()}));
  for (RunLayer& layer : outcome.layers) layer.keep();
  status.theirs.reset();
  connection.owned.clear();
  if (!options.outlive_parent) TRY_VOID(die_with_parent(parent));
  ::signal(SIGPIPE, SIG_IGN);

  const RawTerminal raw;
  outcome.report = launch::supervise(std::move(box), std::move(status.ours), outcome.plan,
                                     std::move(connection.streams), signals.get(),
                                     report_file ? launch::Detail::Full : launch::Detail::Brief,
                                     outcome.network.get());
  if (outcome.network) outcome.network->close();
  take_layers(outcome);
  return outcome;
}

std::string limit_sentence(const Outcome& outcome, launch::LimitKind limit) {
  using std::chrono::nanoseconds;
  const plan::Watch& watch = outcome.plan.watch;
  const plan::CgroupPlan& cgroup = outcome.plan.cgroup;
  switch (limit) {
    case launch::LimitKind::Wall:
      return fmt::format("wall: it ran for {}",
                         duration_to_text(watch.wall.value_or(nanoseconds(0))));
    case launch::LimitKind::Memory:
      return fmt::format("memory: it needed more than {}",
                         bytes_to_text(cgroup.memory_bytes.value_or(0)));
    case launch::LimitKind::Pids:
      return fmt::format("pids: it wanted more than {} processes and threads",
                         cgroup.pids.value_or(0));
    case launch::LimitKind::Cpu:
      return fmt::format("cpu: it used {} of CPU time",
                         duration_to_text(watch.cpu_time.value_or(nanoseconds(0))));
    case launch::LimitKind::Output:
      return fmt::format("output: it wrote more than {}",
                         bytes_to_text(watch.output_bytes.value_or(0)));
    case launch::LimitKind::Disk: return "disk: there is no room left for what it writes";
  }
  return "unknown";
}

void say_how_it_ended(const Outcome& outcome) {
  std::string line;
  if (outcome.report.limit) {
    const bool by_itself = outcome.report.reason != launch::EndReason::Limit;
    line = fmt::format("glovebox: {}: {}\n", by_itself ? "limit reached" : "ended by limit",
                       limit_sentence(outcome, *outcome.report.limit));
  } else if (!outcome.report.problem.empty()) {
    line = fmt::format("glovebox: {}\n", outcome.report.problem);
  }
  (void)write_all(BorrowedFd(2), line);  // a closed standard error changes no exit code
}

// Where a run has no layer there is no `last` any more: an older one is not what it changed.
void remember_places(const RunOptions& options, const std::vector<RunLayer>& layers,
                     LastRun::Outcome outcome) {
  std::vector<std::string> places = handed_in_places(options).value_or(std::vector<std::string>());
  if (places.empty()) {
    if (const auto here = current_directory()) places.push_back(*here);
  }
  std::erase_if(places, [&](const std::string& place) {
    return std::ranges::find(layers, place, &RunLayer::origin) != layers.end();
  });
  for (const std::string& place : places) {
    const auto remembered = remember_without_layer(place, outcome, options.command);
    if (!remembered) (void)refuse(remembered.error());  // said; the run itself was as it was
  }
}

// A run that went well and whose changes cannot be told is no success.
int close_layers(std::vector<RunLayer>& layers, const RunOptions& options, int code) {
  for (RunLayer& layer : layers) {
    const auto changes = layer.finish();
    if (!changes) {
      (void)refuse(changes.error());
      code = code == 0 ? kRefusedExit : code;
    } else if (!options.quiet) {
      (void)write_all(BorrowedFd(2), *changes);  // a closed stderr is the caller's
    }
  }
  return code;
}

}  // namespace

int refuse_run(const RunOptions& options, const Error& why) {
  remember_places(options, {}, LastRun::Outcome::Refused);
  return refuse(why);
}

int run_command(const RunOptions& options) {
  const auto filled = fill_closed_streams();
  if (!filled) return refuse_run(options, filled.error());
  const auto report_file = open_report(options.report);
  if (!report_file) return refuse_run(options, report_file.error());

  auto outcome = launch_and_wait(options, *report_file);
  int code = kRefusedExit;
  std::string json;
  if (outcome) {
    say_how_it_ended(*outcome);
    code = outcome->report.exit_code;
    if (outcome->network && !options.quiet) {
      // A closed standard error changes no exit code.
      (void)write_all(BorrowedFd(2), outcome->network->denials_text());
    }
    code = close_layers(outcome->layers, options, code);
    remember_places(options, outcome->layers, LastRun::Outcome::ChangedNothing);
    if (*report_file) {
      json = report_json(outcome->plan, outcome->report,
                         outcome->network ? &outcome->network->ledger() : nullptr);
    }
  } else {
    code = refuse_run(options, outcome.error());
    if (*report_file) json = refusal_json(options.command, outcome.error().message);
  }
  if (!*report_file) return code;
  const auto written = write_all(*report_file, json);
  return written ? code : refuse(written.error());
}

}  // namespace glovebox::app
