// Boxes that begin where another was: forks and checkpoints.
#include "async/co_try.h"
#include "async/on_pool.h"
#include "mcp/repl/repl_box.h"

#include <algorithm>

namespace glovebox::mcp {
namespace {

std::vector<std::string> layered_places(const session::BoxRequest& request) {
  std::vector<std::string> places;
  for (const session::WorkspaceRequest& each : request.workspaces) {
    if (each.mode == WorkspaceMode::Overlay) places.push_back(each.path);
  }
  std::ranges::sort(places);
  return places;
}

// The session of a checkpoint gets the sandbox of the call that restores it. The file only says
// what lay in the workspaces, so it must be about the same ones.
Result<void> replace_request(session::BoxRequest& found, const session::BoxRequest& ours) {
  if (layered_places(found) != layered_places(ours)) {
    return fail(Code::Denied,
                "the checkpoint is of other workspaces than the sandbox of this call has");
  }
  // The policy is the same, or it is refused; where its links led when the session began is known
  // from the file alone.
  auto links = std::move(found.policy.links);
  found = ours;
  found.policy.links = std::move(links);
  return {};
}

}  // namespace

asio::thread_pool& BoxMaker::pool() {
  if (!pool_) pool_ = std::make_unique<asio::thread_pool>(1);
  return *pool_;
}

asio::awaitable<Result<std::vector<std::unique_ptr<Box>>>> BoxMaker::fork(
    const Box& parent, std::size_t count, session::WhileRunning running) {
  // The parent may go while this waits: nothing of it is used after the first wait.
  const std::string id = parent.id;
  std::vector<std::unique_ptr<Box>> boxes;
  for (std::size_t i = 0; i < count; ++i) {
    CO_TRY(Drafted drafted, draft(parent.profile));
    drafted.box->lacks_network = parent.lacks_network;
    drafted.box->interpreters = parent.interpreters;
    boxes.push_back(std::move(drafted.box));
  }
  session::ForkRequest request;
  request.count = count;
  request.running = running;
  CO_TRY(const std::vector<session::SessionInfo> children,
         co_await manager_->fork(id, std::move(request)));
  for (std::size_t i = 0; i < count; ++i) CO_TRY_VOID(attach(*boxes[i], children[i].id));
  co_return std::move(boxes);
}

Result<bool> BoxMaker::refresh(Box& box) {
  TRY(std::shared_ptr<session::LiveSession> live, manager_->attach(box.id));
  if (live == box.live) return false;
  TRY_VOID(name_keeper_.add_boxes());
  box.live = std::move(live);
  return true;
}

asio::awaitable<Result<std::uint64_t>> BoxMaker::checkpoint(const Box& box, std::string name) {
  GLOVEBOX_CHECK(settings_.checkpoints.has_value());
  CO_TRY_VOID(check_checkpoint_name(name));
  session::CheckpointRequest request{.key = settings_.checkpoints->key};
  // The interpreter of a session always runs in its box; it executes nothing meanwhile.
  request.running = session::WhileRunning::End;
  const std::string id = box.id;
  auto written = co_await manager_->checkpoint(id, std::move(request));
  if (!written) co_return tl::unexpected(std::move(written).error());
  const auto file = std::make_shared<session::CheckpointFile>(*std::move(written));
  const auto work = [place = *settings_.checkpoints, name = std::move(name), file] {
    return keep_checkpoint(place, name, file->file, file->size);
  };
  CO_TRY_VOID(co_await session::on_pool(pool(), work));
  co_return file->size;
}

asio::awaitable<Result<std::unique_ptr<Box>>> BoxMaker::restore(std::string name, Profile profile) {
  GLOVEBOX_CHECK(settings_.checkpoints.has_value());
  CO_TRY(UniqueFd file, open_checkpoint(*settings_.checkpoints, name));
  CO_TRY_VOID(open());
  CO_TRY(Drafted drafted, draft(profile));
  session::RestoreRequest request{.key = settings_.checkpoints->key};
  request.review = [ours = drafted.request](session::BoxRequest& found) {
    return replace_request(found, ours);
  };
  CO_TRY(const session::Restored restored,
         co_await manager_->restore(std::move(file), std::move(request)));
  CO_TRY_VOID(attach(*drafted.box, restored.info.id));
  co_return std::move(drafted.box);
}

}  // namespace glovebox::mcp
