#include "mcp/repl/repl_box.h"

#include "async/co_try.h"
#include "request/directories.h"

#include <array>
#include <cstdlib>

#include <unistd.h>

namespace glovebox::mcp {
namespace {

constexpr std::string_view kTemporary = "/tmp";

bool sees_the_host(const Profile& profile) { return profile.reach >= Reach::ReadAll; }

}  // namespace

BoxMaker::~BoxMaker() = default;

Result<void> BoxMaker::open() {
  if (manager_) return {};
  if (!state_) {
    TRY(state_, session::TemporaryState::make("/tmp/glovebox-mcp-"));
  }
  session::ManagerSettings settings;
  settings.launcher = settings_.launcher;
  settings.state_directory = state_->directory();
  settings.max_sessions = 32;
  if (settings_.checkpoints) settings.hidden.push_back(settings_.checkpoints->directory);
  if (!settings_.checkpoint_key_file.empty()) {
    settings.hidden.push_back(settings_.checkpoint_key_file);
  }
  if (!settings_.token_file.empty()) settings.hidden.push_back(settings_.token_file);
  if (!settings_.secrets.empty()) settings.hidden_later.push_back(settings_.secrets);
  TRY(manager_, session::SessionManager::open(loop_, std::move(settings)));
  manager_->observe([this](const session::SessionEvent& event) {
    if (event.kind != session::EventKind::Denied) return;
    if (denials_.size() == kKeptDenials) denials_.pop_front();
    denials_.push_back(event);
  });
  return {};
}

std::vector<std::string> BoxMaker::denials_of(const std::string& box) const {
  std::vector<std::string> told;
  for (const session::SessionEvent& event : denials_) {
    if (event.session == box) told.push_back(event.detail);
  }
  return told;
}

// The caller's variables stay out, except those that make programs work as they do outside.
void BoxMaker::add_variables(const Profile& profile, session::BoxRequest& request) const {
  request.env.push_back({"TMPDIR", std::string(kTemporary)});
  if (profile.network == Network::Off) {
    request.env.push_back({"CODEX_SANDBOX_NETWORK_DISABLED", "1"});
  }
  const std::string path = host_.variable("PATH");
  if (sees_the_host(profile) && !path.empty()) request.env.push_back({"PATH", path});
  for (const std::string& name : settings_.passed_env) {
    const char* value = std::getenv(name.c_str());
    if (value != nullptr) request.env.push_back({name, value});
  }
}

std::string BoxMaker::limit_memory(session::BoxRequest& request) const {
  constexpr std::uint64_t kMega = std::uint64_t{1} << 20;
  const std::uint64_t host = static_cast<std::uint64_t>(::sysconf(_SC_PHYS_PAGES)) *
                             static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  const std::uint64_t most = host / 4 * 3;
  const auto asked = request.handed.budget(authority::BudgetKind::Memory);
  if (asked && *asked <= most) return fmt::format("{0}MB limit={0}MB", *asked / kMega);
  const auto budget = authority::MemoryBudget::make(most);
  if (!budget) return "";
  const std::array<authority::Capability, 1> limit{*budget};
  if (auto set = authority::AuthoritySet::granting(limit)) {
    request.handed = request.handed.unite(*set);
    if (!asked) request.waived.insert("limit.memory");
  }
  return fmt::format("{0}MB limit={0}MB (75% of host {1}MB)", most / kMega, host / kMega);
}

Result<BoxMaker::Drafted> BoxMaker::draft(const Profile& profile) {
  TRY(BoxOrder order, make_order(profile, settings_.extra, host_));
  for (const std::string& root : order.missing_roots) {
    TRY_VOID(session::make_directories_for(root));
  }
  Drafted drafted;
  drafted.box = std::make_unique<Box>();
  for (const std::string& name : order.held_names) TRY_VOID(name_keeper_.add_name(name));
  TRY(drafted.box->held, Placeholders::make(order.held_names));
  drafted.box->covered = look_at_covered(order, host_);
  drafted.request = std::move(order.request);
  drafted.has_network = !order.network.empty();
  add_variables(profile, drafted.request);
  drafted.box->memory_limit = limit_memory(drafted.request);
  drafted.box->interpreters = python_candidates(settings_.python, profile.cwd, host_);
  drafted.box->profile = profile;
  if (settings_.writes == Writes::Direct) return drafted;
  for (session::WorkspaceRequest& place : drafted.request.workspaces) {
    if (place.mode == WorkspaceMode::Write) place.mode = WorkspaceMode::Overlay;
  }
  return drafted;
}

bool BoxMaker::has_sandbox(const Box& box, const Profile& profile) const {
  if (!(box.profile == profile)) return false;
  // What cannot be enforced any more is told when the next box is made.
  return is_still_covered(profile, settings_.extra, host_, box.covered).value_or(false);
}

Result<void> BoxMaker::attach(Box& box, const std::string& id) {
  box.id = id;
  TRY_VOID(name_keeper_.add_boxes());
  TRY(box.live, manager_->attach(id));
  return {};
}

asio::awaitable<Result<std::unique_ptr<Box>>> BoxMaker::make(Profile profile) {
  CO_TRY_VOID(open());
  CO_TRY(Drafted drafted, draft(profile));
  auto made = co_await manager_->create(drafted.request);
  if (!made && made.error().code == Code::Unsupported && drafted.has_network) {
    // Less than was allowed, and said so.
    Profile without = profile;
    without.network = Network::Off;
    CO_TRY(BoxOrder narrower, make_order(without, settings_.extra, host_));
    drafted.request.handed = std::move(narrower.request.handed);
    (void)limit_memory(drafted.request);  // the same as before
    drafted.box->lacks_network = true;
    made = co_await manager_->create(std::move(drafted.request));
  }
  if (!made) co_return tl::unexpected(std::move(made).error());
  CO_TRY_VOID(attach(*drafted.box, made->id));
  co_return std::move(drafted.box);
}

asio::awaitable<void> BoxMaker::end(std::unique_ptr<Box> box) {
  // A box that does not go in time is tried again by the manager.
  const auto removed = co_await manager_->remove(box->id, session::LayerFate::Remove);
  if (removed) box->held.release();
}

asio::awaitable<void> BoxMaker::stop() {
  if (manager_) co_await manager_->stop(session::LayerFate::Remove);
}

std::vector<std::string> python_candidates(const std::string& chosen, const std::string& cwd,
                                           const HostView& host) {
  if (!chosen.empty()) return {chosen};
  std::vector<std::string> candidates;
  const std::string home = host.home();
  for (std::string place = cwd; !place.empty(); place.resize(place.rfind('/'))) {
    for (const char* name : {"python", "python3"}) {
      std::string path = fmt::format("{}/.venv/bin/{}", place, name);
      if (host.look_at(path)) candidates.push_back(std::move(path));
    }
    if (place == home) break;
  }
  for (const char* name : {"python3", "python", "/usr/bin/python3"}) candidates.emplace_back(name);
  return candidates;
}

}  // namespace glovebox::mcp
