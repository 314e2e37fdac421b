// What a SessionManager is told when it is opened.
#pragma once

#include "policy/policy_store.h"
#include "request/box_request.h"
#include "session/store/session_info.h"

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace glovebox::session {

struct ManagerSettings {
  std::string launcher;             // the program glovebox-launcher
  std::string state_directory;      // layers, spools and the store live below; made 0700
  std::size_t max_sessions = 1000;  // alive at a time
  std::uint32_t keep_parked = 0;    // boxes of each shape that wait for their request
  // Dead ones that are remembered. Beyond it the oldest of the owner who has the most are deleted.
  std::size_t max_dead = 1000;
  std::chrono::milliseconds default_idle = kDefaultIdle;
  LayerFate on_idle = LayerFate::Keep;  // of a session that was idle for too long
  // Of idle collection, of removals tried again, and of writing down what runs there were.
  std::chrono::milliseconds sweep_period{1000};
  std::chrono::milliseconds start_timeout{20'000};
  std::chrono::milliseconds end_timeout{5'000};  // how long a delete waits for a box to be gone
  std::uint64_t most_diff_bytes = std::uint64_t{4} << 30;
  // What all layers may take on the disk together; 0: no bound. Looked at by the sweep, less often
  // where looking takes long: when it is too much, the session whose layer grew most ends.
  std::uint64_t most_layer_bytes = 0;
  // What bodies on their way may take on the disk together (spool_quota.h); 0: no bound.
  std::uint64_t most_spool_bytes = 0;
  std::size_t pool_threads = 2;
  // Where the secrets are that requests may name; empty: none can be handed in.
  std::string secrets_directory;
  std::string name_servers;  // asked for boxes: egress::BrokerSettings
  // Policies that requests may name; without it, the templates of the product alone. A request
  // never names a file.
  std::shared_ptr<policy::PolicyStore> policies;
  // Paths that no box may see, whatever it is handed, beside the state directory: the service's
  // sockets, tokens and configuration.
  std::vector<std::string> hidden;
  // The same for what is hidden once it is there, such as a store that its first use makes.
  std::vector<std::string> hidden_later{};
  // Where Python interpreters beside the system's may be. Empty: everywhere.
  std::vector<std::string> interpreter_roots{};
  // Told before each step that changes what is on disk when sessions are recycled, forked, written
  // out or restored; for tests of what a crash leaves there. May be empty.
  std::function<void(std::string_view step)> on_step{};
};

}  // namespace glovebox::session
