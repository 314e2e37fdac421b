#include "session/manager/manager_parts.h"

#include "base/file.h"
#include "session/manager/operations.h"
#include "session/python/python_plan.h"
#include "workspace/tree/private_files.h"

#include <cerrno>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <thread>

#include <fcntl.h>
#include <sys/file.h>

namespace glovebox::session {
namespace {

constexpr std::chrono::seconds kLockPatience{5};
constexpr std::chrono::milliseconds kLockLook{10};

// Two services on one directory would each take the other's sessions for leftovers.
Result<UniqueFd> lock_state(const std::string& directory) {
  TRY(const UniqueFd dir, workspace::open_private_directory(directory));
  TRY(UniqueFd lock, open_file_at(dir, "lock", O_RDWR | O_CREAT | O_NOFOLLOW, 0600));
  // A service that was killed a moment ago may have left a child that has not become the launcher
  // yet, and has the lock until then.
  const auto give_up = std::chrono::steady_clock::now() + kLockPatience;
  while (::flock(lock.get(), LOCK_EX | LOCK_NB) != 0) {
    if (std::chrono::steady_clock::now() > give_up) {
      return fail(Code::Denied, "{}: another service uses this directory", directory);
    }
    std::this_thread::sleep_for(kLockLook);
  }
  return lock;
}

Result<std::unique_ptr<Preparer>> open_preparer(const ManagerSettings& settings) {
  const std::string& state = settings.state_directory;
  PreparerSettings preparing;
  preparing.layer_root = state + "/layers";
  for (const std::string& path : settings.hidden) preparing.hidden.push_back({path});
  preparing.hidden.push_back({state});
  std::vector<std::string> later = settings.hidden_later;
  if (!settings.secrets_directory.empty()) later.push_back(settings.secrets_directory);
  for (std::string& path : later) {
    preparing.hidden.push_back({std::move(path), WhenMissing::Wait});
  }
  preparing.secrets = settings.secrets_directory;
  preparing.policies = settings.policies;
  preparing.default_idle = settings.default_idle;
  preparing.interpreter_roots = settings.interpreter_roots;
  preparing.probe = std::filesystem::path(settings.launcher).parent_path() / "glovebox-probe";
  TRY(preparing.python_extension, write_python_extension(state + "/python"));
  TRY(auto preparer, Preparer::open(std::move(preparing)));
  TRY_VOID(preparer->layer_root());
  return preparer;
}

BoxCallbacks box_callbacks(ManagerParts& parts) {
  BoxCallbacks callbacks;
  callbacks.on_end = [&parts](const std::string& id, const SessionEnd& end) {
    note_end(parts, id, end);
  };
  callbacks.on_run = [&parts](const std::string& id, const RunRecord& run) {
    parts.registry.note_run(id, run);
  };
  callbacks.on_denied = [&parts](const std::string& id, const egress::Denied& denied,
                                 std::uint64_t times) { note_denied(parts, id, denied, times); };
  return callbacks;
}

}  // namespace

ManagerParts::ManagerParts(asio::io_context& loop, ManagerSettings settings)
    : common(loop, std::move(settings)),
      registry(common),
      layers(common, registry),
      boxes(common, box_callbacks(*this)),
      python(std::make_shared<PythonCells>(
          common, registry, boxes,
          [this](const std::string& id, const SessionEnd& end) { note_end(*this, id, end); })),
      sweeper(common, registry, layers, *python, [this](EntryPointer entry, LayerFate fate) {
        return remove_idle(*this, std::move(entry), fate);
      }) {}

ManagerParts::~ManagerParts() {
  common.is_stopping = true;
  sweeper.stop();
  common.tasks.finish();
  registry.events().close();
  common.pool.join();
  restore_pool.join();
  registry.write_runs();
}

Result<void> ManagerParts::open() {
  // A run that stops reading its input, or a launcher that is gone, is an error, not a signal.
  (void)std::signal(SIGPIPE, SIG_IGN);
  TRY(lock, lock_state(common.settings.state_directory));
  common.spool_directory = common.settings.state_directory + "/spool";
  TRY_VOID(workspace::open_private_directory(common.spool_directory));
  TRY(common.preparer, open_preparer(common.settings));
  TRY_VOID(registry.open());
  TRY_VOID(layers.open());
  TRY_VOID(boxes.open());
  sweeper.start();
  return {};
}

}  // namespace glovebox::session
