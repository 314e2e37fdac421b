// Sessions as files: checkpoint and restore.
#include "async/co_try.h"
#include "async/on_pool.h"
#include "async/scoped_count.h"
#include "base/file.h"
#include "checkpoint/layer_stream.h"
#include "session/manager/operations.h"
#include "session/state/restore_stream.h"

#include <algorithm>
#include <cerrno>
#include <limits>

#include <fcntl.h>
#include <unistd.h>

namespace glovebox::session {
namespace {

bool wants(const CheckpointRequest& request, StateKind kind) {
  return std::ranges::find(request.state, kind) != request.state.end();
}

// Why processes are not taken along (docs/decisions/0024-no-state-of-memory.md).
Error no_memory() {
  return Error{Code::Unsupported, 0,
               "memory: nothing restores a process with its Landlock domain, and one without has a "
               "wall less; a checkpoint holds config and files"};
}

// Everything that the pool's thread needs.
struct Writing {
  std::shared_ptr<Preparer> preparer;
  std::string spool;
  std::shared_ptr<SpoolQuota> room;
  Snapshot snapshot;
  std::vector<WorkspaceInfo> workspaces;
  checkpoint::Key key;
  std::string tenant;
};

Result<std::vector<workspace::Layer>> open_layers(const Writing& work) {
  std::vector<workspace::Layer> layers;
  for (const WorkspaceInfo& place : work.workspaces) {
    if (place.layer_id.empty()) continue;
    TRY(workspace::Layer layer, workspace::open_layer(work.preparer->layers(), place.layer_id));
    layers.push_back(std::move(layer));
  }
  return layers;
}

Result<void> measure(const std::vector<workspace::Layer>& layers, Snapshot& snapshot) {
  for (const workspace::Layer& layer : layers) {
    TRY(const workspace::Uppers uppers, layer.open_uppers());
    TRY(const UniqueFd original, layer.open_original());
    const checkpoint::LayerTrees trees{uppers, original, layer.facts().prefix};
    TRY(const checkpoint::LayerContent content, checkpoint::measure_layer(trees));
    snapshot.layers.push_back({layer.facts().origin, content.entries, content.bytes});
  }
  return {};
}

Result<void> write_records(const Writing& work, const std::vector<workspace::Layer>& layers,
                           checkpoint::SealedWriter& writer) {
  checkpoint::RecordWriter records(writer);
  TRY(const std::string text, encode_snapshot(work.snapshot));
  TRY_VOID(records.text(checkpoint::RecordKind::Snapshot, text));
  std::vector<LayerBase> bases;
  for (const workspace::Layer& layer : layers) {
    bases.push_back({layer.facts().origin, layer.base()});
  }
  TRY(const std::string bases_text, encode_bases(bases));
  TRY_VOID(records.text(checkpoint::RecordKind::Bases, bases_text));
  std::size_t number = 0;
  for (const workspace::Layer& layer : layers) {
    TRY_VOID(records.text(checkpoint::RecordKind::Layer, layer.facts().origin));
    TRY(const workspace::Uppers uppers, layer.open_uppers());
    TRY(const UniqueFd original, layer.open_original());
    const checkpoint::LayerTrees trees{uppers, original, layer.facts().prefix};
    TRY(const checkpoint::LayerContent written, checkpoint::write_layer(trees, records));
    const LayerManifest& told = work.snapshot.layers.at(number++);
    const checkpoint::LayerContent most = checkpoint::most_of({told.entries, told.bytes});
    if (written.entries > most.entries || written.bytes > most.bytes) {
      return fail(Code::Exhausted, "{}: too much was written while it was read; try again",
                  told.workspace);
    }
  }
  return records.end();
}

Result<CheckpointFile> write_checkpoint(Writing work) {
  TRY(const std::vector<workspace::Layer> layers, open_layers(work));
  TRY_VOID(measure(layers, work.snapshot));
  if (!layers.empty()) work.snapshot.state.push_back(StateKind::Files);
  CheckpointFile file;
  file.state = work.snapshot.state;
  file.layers = work.snapshot.layers;
  file.share = SpoolShare(work.room);
  TRY(file.file, open_file(work.spool, O_RDWR | O_TMPFILE, 0600));
  checkpoint::Header header;
  header.tenant = work.tenant;
  if (work.snapshot.policy) header.policy_digest = work.snapshot.policy->digest;
  for (const StateKind kind : file.state) header.state.emplace_back(to_text(kind));
  const checkpoint::Sink sink = [&file](std::string_view bytes) -> Result<void> {
    TRY_VOID(file.share.take(bytes.size()));
    file.size += bytes.size();
    return write_all(file.file, bytes);
  };
  TRY(const auto writer, checkpoint::SealedWriter::open(sink, std::move(header), work.key));
  TRY_VOID(write_records(work, layers, *writer));
  TRY_VOID(writer->finish());
  file.tag = writer->tag();
  if (::lseek(file.file.get(), 0, SEEK_SET) != 0) return fail_os(errno, "go back in the file");
  return file;
}

// A policy goes by its name where that means the same, else by its text.
BoxRequest restored_request(Preparer& preparer, const Snapshot& snapshot) {
  BoxRequest request = snapshot.spec;
  if (request.policy.name.empty()) return request;
  PolicyChoice named = request.policy;
  named.document.clear();
  const auto here = preparer.policy_document(named);
  if (here && *here == snapshot.spec.policy.document) {
    request.policy.document.clear();
  } else {
    request.policy.name.clear();
    request.policy.sandbox.clear();
  }
  return request;
}

// What its own budgets leave for all its layers, and then what there is for those of all sessions.
RestoreStream::TakeRoom room_for(const BoxRequest& request, std::shared_ptr<LayerUsage> layers) {
  constexpr auto kDisk = authority::BudgetKind::Disk;
  const auto own = std::make_shared<std::uint64_t>(std::numeric_limits<std::uint64_t>::max());
  for (const auto& budget : {request.handed.budget(kDisk),
                             request.ceiling ? request.ceiling->budget(kDisk) : std::nullopt}) {
    if (budget) *own = std::min(*own, *budget);
  }
  return [own, layers = std::move(layers)](std::uint64_t bytes) -> Result<void> {
    if (bytes > *own) {
      return fail(Code::Exhausted, "the checkpoint holds more than its budget of disk");
    }
    *own -= bytes;
    return layers->take(bytes);
  };
}

}  // namespace

Result<void> check_checkpoint(const CheckpointRequest& request) {
  if (wants(request, StateKind::Memory)) return unexpected(no_memory());
  return {};
}

asio::awaitable<Result<CheckpointFile>> checkpoint_session(ManagerParts& parts, EntryPointer entry,
                                                           CheckpointRequest request) {
  CO_TRY(const Turns turns, co_await take_turns(parts, entry, WhenBusy::Wait));
  const bool is_alive = entry->live && entry->live->is_alive();
  if (is_alive && under_way(*entry) > 0 && request.running == WhileRunning::Refuse) {
    co_return fail(Code::Exhausted,
                   "{} runs or file jobs of the session are under way, and may change what is "
                   "written out",
                   under_way(*entry));
  }
  std::vector<plan::EnvEntry> none;
  CO_TRY(Snapshot snapshot, co_await take_snapshot(parts, entry, std::move(none)));
  std::vector<WorkspaceInfo> workspaces;
  if (wants(request, StateKind::Files)) workspaces = entry->record.info.workspaces;
  Writing writing{parts.common.preparer,      parts.common.spool_directory,
                  parts.layers.spool_quota(), std::move(snapshot),
                  std::move(workspaces),      request.key,
                  std::move(request.tenant)};
  const auto work = [writing = std::move(writing)] { return write_checkpoint(writing); };
  CO_TRY(CheckpointFile file, co_await on_pool(parts.common.pool, work));
  file.used = use_mark(*entry);
  parts.registry.tell(EventKind::Checkpointed, *entry, fmt::format("{} bytes", file.size));
  co_return file;
}

asio::awaitable<Result<Restored>> restore_session(ManagerParts& parts, UniqueFd file,
                                                  RestoreRequest request) {
  if (parts.common.is_stopping) co_return fail(Code::Os, "the service is ending");
  CO_TRY_VOID(parts.registry.check_room(1));
  const Count count(parts.registry.starting());
  if (parts.layers.usage()->most() > 0 && !parts.layers.usage()->is_measured()) {
    CO_TRY_VOID(co_await parts.layers.measure());
  }
  struct Drafted {
    BoxRequest request;
    std::shared_ptr<Prepared> prepared;
    std::shared_ptr<RestoreStream> stream;
  };
  const auto held = std::make_shared<UniqueFd>(std::move(file));
  const auto work = [preparer = parts.common.preparer, layers = parts.layers.usage(), held,
                     request = std::move(request)]() -> Result<Drafted> {
    Drafted drafted;
    TRY(drafted.stream, RestoreStream::open(std::move(*held), request.key, request.tenant));
    drafted.request = restored_request(*preparer, drafted.stream->snapshot());
    if (request.review) TRY_VOID(request.review(drafted.request));
    drafted.stream->bound(room_for(drafted.request, layers));
    BoxRequest pinned = drafted.request;
    const std::optional<plan::PolicyMark>& policy = drafted.stream->snapshot().policy;
    if (policy) pinned.policy.if_digest = policy->digest;
    // Its paths were resolved where it was written, and were reviewed as they are.
    TRY(Prepared prepared,
        preparer->prepare(pinned, RestoreStream::sources(drafted.stream), KnownPlaces{}));
    prepared.effective.policy.if_digest = drafted.request.policy.if_digest;
    drafted.prepared = std::make_shared<Prepared>(std::move(prepared));
    TRY_VOID(drafted.stream->finish());
    return drafted;
  };
  CO_TRY(Drafted drafted, co_await on_pool(parts.restore_pool, work));
  const Snapshot& snapshot = drafted.stream->snapshot();
  Restored restored;
  restored.tag = drafted.stream->tag();
  restored.state = snapshot.state;
  SessionOrigin origin;
  origin.parent = snapshot.parent;
  origin.shell = snapshot.shell;
  CO_TRY(restored.info, co_await create_prepared(parts, std::move(drafted.request),
                                                 std::move(origin), std::move(drafted.prepared)));
  co_return restored;
}

}  // namespace glovebox::session
