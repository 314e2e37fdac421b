// What a session's boxes changed: diff, commit, undo.
#include "async/co_try.h"
#include "async/on_pool.h"
#include "base/file.h"
#include "session/manager/operations.h"
#include "workspace/diff/branches.h"
#include "workspace/diff/diff.h"

#include <cerrno>

#include <fcntl.h>
#include <unistd.h>

namespace glovebox::session {
namespace {

Result<void> write_body(DiffForm form, const std::vector<workspace::Change>& changes,
                        const workspace::Uppers& uppers, const workspace::Uppers& original,
                        const workspace::Sink& sink) {
  switch (form) {
    case DiffForm::Json: return sink(workspace::diff_to_json(changes) + "\n");
    case DiffForm::TarGz: return workspace::write_tar_gz(changes, uppers, {}, sink);
    case DiffForm::Unified: break;
  }
  return workspace::write_unified(changes, uppers, original, workspace::Reader::Program, sink);
}

// Where a body is written to, how large it may get, and what all of them may take.
struct Spooling {
  std::string directory;
  std::uint64_t most = 0;
  std::shared_ptr<SpoolQuota> room;
};

Result<DiffBody> spool_body(DiffForm form, const std::vector<workspace::Change>& changes,
                            const workspace::Uppers& after, const workspace::Uppers& before,
                            const Spooling& spool) {
  DiffBody body;
  body.changes = changes.size();
  body.share = SpoolShare(spool.room);
  TRY(body.file, open_file(spool.directory, O_RDWR | O_TMPFILE, 0600));
  const workspace::Sink sink = [&](std::string_view bytes) -> Result<void> {
    body.size += bytes.size();
    if (body.size > spool.most) {
      return fail(Code::Exhausted, "the diff is larger than {} bytes", spool.most);
    }
    TRY_VOID(body.share.take(bytes.size()));
    return write_all(body.file, bytes);
  };
  TRY_VOID(write_body(form, changes, after, before, sink));
  if (::lseek(body.file.get(), 0, SEEK_SET) != 0) return fail_os(errno, "go back in the diff");
  return body;
}

Result<DiffBody> make_diff(const workspace::Layer& layer, DiffForm form, const Spooling& spool) {
  TRY(const workspace::Uppers uppers, layer.open_uppers());
  TRY(const UniqueFd original, layer.open_original());
  TRY(const std::vector<workspace::Change> changes, workspace::diff(layer, uppers, original));
  return spool_body(form, changes, uppers, original, spool);
}

Result<DiffBody> make_branch_diff(const workspace::LayerRoot& root, const std::string& from,
                                  const std::string& to, DiffForm form, const Spooling& spool) {
  TRY(const workspace::Layer a, workspace::open_layer(root, from));
  TRY(const workspace::Layer b, workspace::open_layer(root, to));
  TRY(const std::vector<workspace::Change> changes, workspace::diff_branches(a, b));
  TRY(const workspace::Uppers before, workspace::open_branch(a));
  TRY(const workspace::Uppers after, workspace::open_branch(b));
  return spool_body(form, changes, after, before, spool);
}

}  // namespace

asio::awaitable<Result<DiffBody>> diff_session(ManagerParts& parts, EntryPointer entry,
                                               LayerChoice where, DiffForm form) {
  CO_TRY(const std::string layer, layer_of(*entry, where));
  const auto work = [open = parts.layers.opener(*entry, layer), form,
                     spool = Spooling{parts.common.spool_directory,
                                      parts.common.settings.most_diff_bytes,
                                      parts.layers.spool_quota()}]() -> Result<DiffBody> {
    TRY(const workspace::Layer opened, open());
    return make_diff(opened, form, spool);
  };
  co_return co_await on_pool(parts.common.pool, work);
}

asio::awaitable<Result<DiffBody>> diff_sessions(ManagerParts& parts, EntryPointer from,
                                                EntryPointer to, LayerChoice where, DiffForm form) {
  CO_TRY(std::string from_layer, layer_of(*from, where));
  CO_TRY(std::string to_layer, layer_of(*to, where));
  const auto work = [preparer = parts.common.preparer, from = std::move(from_layer),
                     to = std::move(to_layer), form,
                     spool = Spooling{parts.common.spool_directory,
                                      parts.common.settings.most_diff_bytes,
                                      parts.layers.spool_quota()}] {
    return make_branch_diff(preparer->layers(), from, to, form, spool);
  };
  co_return co_await on_pool(parts.common.pool, work);
}

// While a turn is waited for, the session may get a fresh box, lose the one it has, or be deleted.
// What the turns are of is therefore looked at again when both are there; then neither the box nor
// the layers change until the turns are given back.
asio::awaitable<Result<Turns>> take_turns(ManagerParts& parts, EntryPointer entry,
                                          WhenBusy when_busy) {
  for (;;) {
    CO_TRY_VOID(parts.registry.check_wanted(*entry));
    Turns turns;
    const std::shared_ptr<BoxSession> live = entry->live;
    if (live && live->is_alive() && !entry->is_cell) {
      auto shell = co_await live->take_shell(when_busy);
      if (!shell && shell.error().os_errno == ESHUTDOWN) continue;  // the box ended meanwhile
      if (!shell) co_return unexpected(std::move(shell).error());
      turns.push_back(*std::move(shell));
    }
    CO_TRY(auto layers, co_await entry->layer_turn->take(when_busy));
    CO_TRY_VOID(parts.registry.check_wanted(*entry));
    turns.push_back(std::move(layers));
    if (entry->live == live) co_return turns;
  }
}

asio::awaitable<Result<workspace::CommitResult>> commit_session(ManagerParts& parts,
                                                                EntryPointer entry,
                                                                CommitRequest request) {
  CO_TRY_VOID(layer_of(*entry, request.where));  // what has none is refused without a wait
  CO_TRY(const Turns turns, co_await take_turns(parts, entry, request.when_busy));
  CO_TRY(const std::string layer, layer_of(*entry, request.where));
  workspace::CommitOptions options;
  options.selection = std::move(request.selection);
  options.act = request.act;
  const auto work = [open = parts.layers.opener(*entry, layer),
                     options = std::move(options)]() -> Result<workspace::CommitResult> {
    TRY(workspace::Layer opened, open());
    TRY(const UniqueFd original, opened.open_original());
    return workspace::commit(opened, original, options);
  };
  auto result = co_await on_pool(parts.common.pool, work);
  if (result && result->number != 0) {
    parts.registry.tell(EventKind::Committed, *entry,
                        fmt::format("{} changes", result->applied.size()));
  }
  co_return result;
}

asio::awaitable<Result<workspace::UndoResult>> undo_commit(ManagerParts& parts, EntryPointer entry,
                                                           LayerChoice where) {
  CO_TRY_VOID(layer_of(*entry, where));
  CO_TRY(const auto turn, co_await entry->layer_turn->take(WhenBusy::Wait));
  CO_TRY_VOID(parts.registry.check_wanted(*entry));
  CO_TRY(const std::string layer, layer_of(*entry, where));
  const auto work = [open = parts.layers.opener(*entry, layer)]() -> Result<workspace::UndoResult> {
    TRY(workspace::Layer opened, open());
    TRY(const UniqueFd original, opened.open_original());
    return workspace::undo(opened, original);
  };
  auto result = co_await on_pool(parts.common.pool, work);
  if (result && result->conflicts.empty()) {
    parts.registry.tell(EventKind::Undone, *entry,
                        fmt::format("{} paths", result->restored.size()));
  }
  co_return result;
}

}  // namespace glovebox::session
