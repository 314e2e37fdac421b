// A session in the registry, and what can be told of it by looking at it alone.
#pragma once

#include "async/semaphore.h"
#include "session/box/box_session.h"
#include "session/prepare/prepare.h"
#include "session/python/python_host.h"
#include "session/store/session_store.h"

#include <chrono>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace glovebox::session {

struct SessionEntry {
  SessionRecord record;
  std::shared_ptr<const plan::LaunchPlan> plan;  // none for a session of a former service
  std::shared_ptr<BoxSession> live;              // the same; stays when it is dead
  std::shared_ptr<PythonHost> python;            // of a Python session
  bool is_cell = false;                          // it shares `live` with others
  std::vector<UniqueFd> holds;                   // of its layers
  std::map<std::string, SharedFd> memory;        // of its layers that lie in memory, by id
  std::deque<RunRecord> runs;
  // Commits, undos, forks, fresh boxes, and the end of it all: one at a time.
  std::shared_ptr<Semaphore> layer_turn;
  std::optional<PolicyOrigin> origin;
  // Since when the sweep has found it dead. Not by the wall clock, which can be set.
  std::optional<std::chrono::steady_clock::time_point> dead_since{};
  bool is_being_removed = false;
  bool is_being_renewed = false;  // between two boxes
  // What was asked for, with values of variables and an inline policy, which are written nowhere.
  std::optional<BoxRequest> asked;
  KnownPlaces places;  // of that request; both are empty for a session of a former service
};
using EntryPointer = std::shared_ptr<SessionEntry>;

SessionInfo info_of(const SessionEntry& entry);
SessionReport report_of(const SessionEntry& entry);

// Runs, jobs and operations that are under way.
std::size_t under_way(const SessionEntry& entry);
bool is_in_use(const SessionEntry& entry);
std::chrono::steady_clock::time_point last_use(const SessionEntry& entry);
// Something that changes whenever the session is used.
std::string use_mark(const SessionEntry& entry);

// Code::Exhausted while the session is between two boxes.
Result<void> check_settled(const SessionEntry& entry);

// All of a session's layers, with what they stand on.
std::vector<std::string> layers_of(const SessionInfo& info);
// The layer of one of its workspaces. Code::Unsupported where there is none.
struct LayerChoice;  // manager_requests.h
// Where the session's runs start.
std::string home_of(const SessionInfo& info);
Result<std::string> layer_of(const SessionEntry& entry, const LayerChoice& where);

}  // namespace glovebox::session
