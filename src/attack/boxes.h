// The boxes that attacks are tried in: one kind for each backend, all with the same policies.
#pragma once

#include "attack/attack.h"
#include "attack/canaries.h"
#include "attack/command.h"
#include "base/result.h"

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace glovebox::app {

// How much the box was granted. A wide policy is where ways out hide.
enum class Grants : std::uint8_t { Little, Much };
std::string_view to_text(Grants grants);

enum class Backend : std::uint8_t {
  Process,     // `glovebox run`: a box for one command
  Session,     // a box that stays, of a service; the probe is a run in it
  Parked,      // the same, in a box that was begun before its request
  Python,      // a Python session; its code starts the probe
  Cell,        // a Python session that is a cell; the box around its worker is what holds
  Mcp,         // the shell that `glovebox mcp` gives to agents
  Bubblewrap,  // a peer
  None,        // no box: shows that probes and canaries notice
};
std::string_view to_text(Backend backend);

inline bool is_peer(Backend backend) {
  return backend == Backend::Bubblewrap || backend == Backend::None;
}

inline bool is_shell_session(Backend backend) {
  return backend == Backend::Session || backend == Backend::Parked;
}

// Whether the name server among the canaries is asked: by a command that is told to, and by a
// service with that setting.
inline bool has_names(Backend backend) {
  return backend == Backend::Process || is_shell_session(backend);
}

struct Setting {
  Backend backend = Backend::Process;
  Grants grants = Grants::Little;
  Ids ids{};               // who starts the box
  std::string glovebox{};  // the programs, where that user can reach them
  std::string probe{};
};

class Boxes {
 public:
  virtual ~Boxes() = default;

  // Runs the attack in a box. The exit code is the probe's; kRefused when no box was made.
  virtual Result<Ended> run(const Attack& attack) = 0;
  // Runs it while outside happens what its judge says: Transfers, Reloads. The output has what was
  // copied out.
  virtual Result<Ended> run_meanwhile(const Attack& /*attack*/) {
    return fail(Code::Unsupported, "nothing happens meanwhile");
  }
  // Takes over what the last box changed in its workspace, and what it prints of that.
  virtual Result<Ended> commit() { return fail(Code::Unsupported, "nothing is kept"); }
  virtual Result<Ended> diff() { return fail(Code::Unsupported, "nothing is kept"); }

  static constexpr int kLimit = 124, kRefused = 125, kNotFound = 127, kSignal = 128;
};

// The canaries must outlive the boxes.
Result<std::unique_ptr<Boxes>> make_boxes(const Setting& setting, Canaries& canaries);

// What a caller would grant, as options of `glovebox run` and `glovebox session start`.
Words policy_words(const Attack& attack, const Setting& setting, const Canaries& canaries);
// The probe and its arguments.
Words probe_words(const Attack& attack, const Setting& setting, const Canaries& canaries);
// The environment that boxes are started from; it has a secret.
Words caller_variables(const Canaries& canaries);

}  // namespace glovebox::app
