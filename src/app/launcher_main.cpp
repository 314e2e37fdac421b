// glovebox-launcher: a launcher process for one client, on descriptor 3 (launch/launcher_server.h).

#include "guest/agent/agent.h"
#include "host/facts.h"
#include "launch/launcher.h"
#include "launch/launcher_server.h"
#include "launch/open_files.h"

#include <csignal>
#include <cstdio>
#include <exception>

#include <fcntl.h>
#include <sys/prctl.h>

namespace glovebox::app {
namespace {

constexpr int kClientFd = 3;

// PID 1 of a session's box: a copy of this process, inside all walls.
int be_agent(int socket) {
  guest::AgentOptions options;
  options.socket = UniqueFd(socket);
  return guest::run_agent(std::move(options));
}

Result<void> serve(int argc, char** argv) {
  if (::fcntl(kClientFd, F_SETFD, FD_CLOEXEC) != 0) {
    return fail(Code::Invalid,
                "glovebox-launcher is started by glovebox itself, with a socket on descriptor 3");
  }
  for (const int number : {SIGPIPE, SIGINT, SIGTERM, SIGHUP, SIGCHLD}) ::signal(number, SIG_DFL);
  TRY_VOID(launch::raise_open_files());
  TRY(const host::HostFacts facts, host::read_facts());
  TRY(launch::Launcher launcher, launch::Launcher::enter(facts, launch::Launcher::Life::Serving));
  launcher.hide_arguments(argc, argv);
  launcher.set_agent(be_agent);
  // After the last change of identity, which would clear it.
  if (::prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) != 0) return fail_os(errno, "set parent death");
  launch::LauncherServer server(std::move(launcher), UniqueFd(kClientFd));
  return server.run();
}

}  // namespace
}  // namespace glovebox::app

int main(int argc, char** argv) {
  try {
    const auto served = glovebox::app::serve(argc, argv);
    if (served) return 0;
    (void)std::fprintf(stderr, "glovebox-launcher: %s\n", served.error().message.c_str());
  } catch (const glovebox::Bug& bug) {
    (void)std::fprintf(stderr, "glovebox-launcher: a bug: %s\n", bug.message.c_str());
  } catch (const std::exception& problem) {
    (void)std::fprintf(stderr, "glovebox-launcher: a bug: %s\n", problem.what());
  }
  return 125;
}
