#include "async/co_try.h"
#include "library/changes.h"
#include "library/files.h"
#include "library/output.h"
#include "library/runtime.h"
#include "library/to_request.h"

namespace glovebox {
namespace {

using library::Host;
using session::SessionManager;

constexpr std::size_t kMostListed = std::size_t{64} << 20;  // bytes of JSON

Error ended() { return {Code::NotFound, 0, "the session has ended"}; }

boost::asio::awaitable<Result<Ended>> perform(SessionManager& manager, std::string id,
                                              Command command, session::OutputReader& reader) {
  CO_TRY(const std::shared_ptr<session::LiveSession> live, manager.attach(id));
  session::RunRequest request = library::to_run(command);
  CO_TRY(const session::RunResult result, co_await live->run(std::move(request), reader));
  Ended end{result.code, result.timed_out};
  if (result.limit) end.limit = launch::to_text(*result.limit);
  co_return end;
}

std::vector<Change> to_changes(const std::vector<workspace::Change>& changes) {
  std::vector<Change> list;
  for (const workspace::Change& change : changes) {
    list.push_back({change.path, std::string(workspace::to_text(change.kind))});
  }
  return list;
}

Result<session::DiffBody> body_of(Host& host, const std::string& id, session::DiffForm form) {
  return host.call([&](SessionManager& manager) {
    session::LayerChoice first;
    return manager.diff(id, first, form);
  });
}

// No caller is left to hear of a problem; the SessionManager tries again.
void end_unheard(Session& session) noexcept {
  try {
    (void)session.end();
  } catch (const std::exception&) {
    return;  // no memory for the question; the supervisor's own end takes the box along
  }
}

}  // namespace

Session::Session(std::shared_ptr<Host> host, std::string id)
    : host_(std::move(host)), id_(std::move(id)) {}

Session::Session(Session&& other) noexcept = default;

Session& Session::operator=(Session&& other) noexcept {
  if (this != &other) {
    end_unheard(*this);
    host_ = std::move(other.host_);
    id_ = std::move(other.id_);
  }
  return *this;
}

Session::~Session() { end_unheard(*this); }

Result<Ended> Session::run(const Command& command, const OutputSink& sink) {
  if (!host_) return unexpected(ended());
  library::ToSink reader(sink);
  return host_->call(
      [&](SessionManager& manager) { return perform(manager, id_, command, reader); });
}

Result<Ran> Session::run(const Command& command) {
  if (!host_) return unexpected(ended());
  Ran ran;
  library::ToStrings reader(ran);
  TRY(static_cast<Ended&>(ran),
      host_->call([&](SessionManager& manager) { return perform(manager, id_, command, reader); }));
  return ran;
}

Result<std::string> Session::read_file(const std::string& path, std::size_t most) {
  if (!host_) return unexpected(ended());
  return host_->call([&](SessionManager& manager) -> boost::asio::awaitable<Result<std::string>> {
    CO_TRY(std::shared_ptr<session::LiveSession> live, manager.attach(id_));
    co_return co_await library::read_whole(std::move(live), path, most);
  });
}

Result<void> Session::write_file(const std::string& path, std::string_view bytes) {
  if (!host_) return unexpected(ended());
  return host_->call([&](SessionManager& manager) -> boost::asio::awaitable<Result<void>> {
    CO_TRY(std::shared_ptr<session::LiveSession> live, manager.attach(id_));
    co_return co_await library::write_whole(std::move(live), path, bytes);
  });
}

Result<std::vector<Change>> Session::changes() {
  if (!host_) return unexpected(ended());
  TRY(const session::DiffBody body, body_of(*host_, id_, session::DiffForm::Json));
  TRY(const std::string text, library::read_body(body, kMostListed));
  return library::read_changes(text);
}

Result<std::string> Session::diff(std::size_t most) {
  if (!host_) return unexpected(ended());
  TRY(const session::DiffBody body, body_of(*host_, id_, session::DiffForm::Unified));
  return library::read_body(body, most);
}

Result<Committed> Session::commit(const Selection& selection) {
  if (!host_) return unexpected(ended());
  TRY(const workspace::CommitResult result, host_->call([&](SessionManager& manager) {
    session::CommitRequest request = library::to_commit(selection);
    return manager.commit(id_, std::move(request));
  }));
  Committed committed;
  if (!result.is_refused()) committed.applied = to_changes(result.applied);
  for (const auto& held : result.held) committed.held.push_back(workspace::to_text(held));
  for (const auto& each : result.conflicts) {
    committed.conflicts.push_back(workspace::to_text(each));
  }
  return committed;
}

Result<void> Session::undo() {
  if (!host_) return unexpected(ended());
  TRY(const workspace::UndoResult result, host_->call([&](SessionManager& manager) {
    session::LayerChoice first;
    return manager.undo(id_, first);
  }));
  if (result.conflicts.empty()) return {};
  return fail(Code::Denied, "{}", workspace::to_text(result.conflicts.front()));
}

Result<std::vector<Session>> Session::fork(std::size_t count) {
  if (!host_) return unexpected(ended());
  TRY(const std::vector<session::SessionInfo> infos, host_->call([&](SessionManager& manager) {
    session::ForkRequest request;
    request.count = count;
    return manager.fork(id_, std::move(request));
  }));
  std::vector<Session> children;
  children.reserve(infos.size());
  for (const session::SessionInfo& info : infos) children.push_back(Session(host_, info.id));
  return children;
}

Result<void> Session::recycle() {
  if (!host_) return unexpected(ended());
  TRY_VOID(host_->call([&](SessionManager& manager) {
    session::RecycleRequest request;
    request.layers = session::Recycling::DropLayers;
    return manager.recycle(id_, std::move(request));
  }));
  return {};
}

Result<std::vector<Guarantee>> Session::enforced() {
  if (!host_) return unexpected(ended());
  return host_->call(
      [&](SessionManager& manager) -> boost::asio::awaitable<Result<std::vector<Guarantee>>> {
        CO_TRY(const session::SessionReport report, manager.report(id_));
        std::vector<Guarantee> list;
        for (const plan::Guarantee& each : report.guarantees) list.push_back({each.name, each.by});
        co_return list;
      });
}

Result<void> Session::end() {
  if (!host_) return {};
  const std::shared_ptr<Host> host = std::move(host_);
  TRY_VOID(host->call(
      [&](SessionManager& manager) { return manager.remove(id_, session::LayerFate::Remove); }));
  return {};
}

}  // namespace glovebox
