#include "guest/agent/agent_core.h"

#include <utility>
#include <vector>

#include <sys/epoll.h>

namespace glovebox::guest {
namespace {

// Frames of output are not queued behind more than this: the rest of the queue is for answers.
constexpr std::size_t kMaxQueuedOutput = kMaxQueued / 4;
constexpr char kEndOfInputKey = 0x04;

// A descriptor that is not waited for still reports a hang-up, over and over; edge-triggered it
// does so once.
constexpr std::uint32_t kPaused = EPOLLET;

std::uint32_t when_reading(FlowState state) {
  return state == FlowState::Blocked ? kPaused : std::uint32_t{EPOLLIN};
}
std::uint32_t when_writing(FlowState state) {
  return state == FlowState::Blocked ? std::uint32_t{EPOLLOUT} : kPaused;
}
bool is_gone(std::uint32_t events) { return (events & (EPOLLERR | EPOLLHUP)) != 0; }

}  // namespace

Result<void> Agent::add_out_flow(Id id, Stream stream, UniqueFd from) {
  const StreamId key{id, stream};
  const BorrowedFd fd = from;
  out_flows_.emplace(key, OutFlow(std::move(from)));
  return loop_.watch(fd, EPOLLIN, [this, key](std::uint32_t /*events*/) {
    move_out(key);
    try_finish(key.first);
    finish_job(key.first);
  });
}

Result<void> Agent::add_in_flow(Id id, UniqueFd to) {
  const BorrowedFd fd = to;
  in_flows_.emplace(id, InFlow(std::move(to)));
  return loop_.watch(fd, kPaused, [this, id](std::uint32_t events) {
    move_in(id);
    if (is_gone(events)) drop_in_flow(id);
  });
}

Result<void> Agent::add_relay(Id id, Stream stream, UniqueFd from, UniqueFd to) {
  const StreamId key{id, stream};
  const BorrowedFd source = from;
  const BorrowedFd target = to;
  relays_.emplace(key, Relay(std::move(from), std::move(to)));
  TRY_VOID(loop_.watch(source, EPOLLIN, [this, key](std::uint32_t /*events*/) {
    move_relay(key);
    try_finish(key.first);
  }));
  return loop_.watch(target, kPaused, [this, key](std::uint32_t events) {
    if (is_gone(events)) {
      drop_relay(key);
    } else {
      move_relay(key);
    }
    try_finish(key.first);
  });
}

FlowState Agent::move_out(StreamId stream) {
  const auto found = out_flows_.find(stream);
  if (found == out_flows_.end()) return FlowState::Ended;
  OutFlow& flow = found->second;
  const FlowState state = flow.move([this] { return wire_.queued() < kMaxQueuedOutput; },
                                    [this, stream](std::string_view chunk) {
                                      say(stream.first, Output{stream.second, std::string(chunk)});
                                      return !over_;
                                    });
  if (state == FlowState::Ended) {
    loop_.forget(flow.from());
    out_flows_.erase(found);
    say(stream.first, OutputEnd{stream.second});
  } else {
    loop_.change(flow.from(), when_reading(state));
  }
  return state;
}

// The socket has room again.
void Agent::move_all_out() {
  std::vector<StreamId> streams;
  streams.reserve(out_flows_.size());
  for (const auto& [stream, flow] : out_flows_) streams.push_back(stream);
  for (const StreamId& stream : streams) {
    move_out(stream);
    try_finish(stream.first);
    finish_job(stream.first);
  }
}

FlowState Agent::move_relay(StreamId stream) {
  const auto found = relays_.find(stream);
  if (found == relays_.end()) return FlowState::Ended;
  Relay& relay = found->second;
  const FlowState state = relay.move();
  if (state == FlowState::Ended) {
    drop_relay(stream);
  } else {
    loop_.change(relay.from(), when_reading(state));
    loop_.change(relay.to(), when_writing(state));
  }
  return state;
}

void Agent::move_in(Id id) {
  const auto found = in_flows_.find(id);
  if (found == in_flows_.end()) return;
  InFlow& flow = found->second;
  const FlowState state = flow.move();
  if (const std::uint64_t passed = flow.take_passed(); passed > 0) {
    say(id, Credit{Stream::Input, passed});
  }
  if (state == FlowState::Ended) {
    drop_in_flow(id);
  } else {
    loop_.change(flow.to(), when_writing(state));
  }
}

bool Agent::has_passed(Id id) {
  for (const Stream stream : {Stream::Output, Stream::Error}) {
    const StreamId key{id, stream};
    if (move_out(key) == FlowState::Blocked || move_relay(key) == FlowState::Blocked) return false;
  }
  return true;
}

void Agent::drop_in_flow(Id id) {
  const auto flow = in_flows_.find(id);
  if (flow == in_flows_.end()) return;
  loop_.forget(flow->second.to());
  in_flows_.erase(flow);
}

void Agent::drop_relay(StreamId stream) {
  const auto relay = relays_.find(stream);
  if (relay == relays_.end()) return;
  loop_.forget(relay->second.from());
  loop_.forget(relay->second.to());
  relays_.erase(relay);
}

void Agent::drop_flows(Id id) {
  drop_in_flow(id);
  drop_relay({id, Stream::Input});
  drop_relay({id, Stream::Output});
  for (const Stream stream : {Stream::Output, Stream::Error}) {
    const auto flow = out_flows_.find({id, stream});
    if (flow == out_flows_.end()) continue;
    loop_.forget(flow->second.from());
    out_flows_.erase(flow);
    say(id, OutputEnd{stream});
  }
}

Result<void> Agent::handle(Id id, const Input& input, std::vector<UniqueFd>& /*fds*/) {
  if (is_packets()) return fail(Code::Invalid, "input in frames where pipes are used");
  const auto flow = in_flows_.find(id);
  if (flow == in_flows_.end()) return {};  // its reader is gone
  if (!flow->second.put(input.bytes)) return fail(Code::Invalid, "more input than credit");
  move_in(id);
  return {};
}

Result<void> Agent::handle(Id id, const InputEnd& /*end*/, std::vector<UniqueFd>& /*fds*/) {
  const auto flow = in_flows_.find(id);
  if (flow == in_flows_.end()) return {};
  const auto run = runs_.find(id);
  if (run != runs_.end() && run->second.io == RunIo::Terminal) {
    // A terminal has no end of input but the key for it, and more may be typed after it.
    if (!flow->second.put({&kEndOfInputKey, 1})) return {};
  } else {
    flow->second.end();
  }
  move_in(id);
  return {};
}

Result<void> Agent::handle(Id id, const Credit& credit, std::vector<UniqueFd>& /*fds*/) {
  const auto flow = out_flows_.find({id, credit.stream});
  if (flow == out_flows_.end()) return {};
  flow->second.add_credit(credit.bytes);
  move_out({id, credit.stream});
  try_finish(id);
  finish_job(id);
  return {};
}

}  // namespace glovebox::guest
