#include "mcp/repl/repl_action.h"

namespace glovebox::mcp {
namespace {

constexpr char kInterrupt = '\x03';
constexpr char kRestart = '\x04';

bool is_usable(Meta meta) { return meta == Meta::Same || meta == Meta::Changed; }

bool is_live(Phase phase) { return phase != Phase::None && phase != Phase::Ended; }

Act decide_poll(Phase phase, Meta meta) {
  if (phase != Phase::None) return Act::Report;
  return is_usable(meta) ? Act::Start : Act::Refuse;
}

Act decide_code(const Input& input, Phase phase, Meta meta) {
  if (!is_usable(meta)) return Act::Refuse;
  // An answer is never code, whatever has become of who asked.
  if (input.kind == Input::Kind::Code && phase == Phase::Missed) return Act::Discard;
  if (meta == Meta::Changed && is_live(phase)) return Act::ChangeRun;
  if (input.kind == Input::Kind::Interrupt && is_live(phase)) return Act::InterruptRun;
  if (phase == Phase::Pending) return Act::Busy;
  if (phase == Phase::Waiting) return Act::Input;
  return Act::Run;
}

}  // namespace

Input parse_input(std::string_view text) {
  if (text.empty()) return {Input::Kind::Poll, {}};
  if (text.front() == kInterrupt) return {Input::Kind::Interrupt, text.substr(1)};
  if (text.front() == kRestart) return {Input::Kind::Restart, text.substr(1)};
  return {Input::Kind::Code, text};
}

Act decide(const Input& input, Phase phase, Meta meta) {
  switch (input.kind) {
    case Input::Kind::Poll: return decide_poll(phase, meta);
    case Input::Kind::Restart: return is_usable(meta) ? Act::Restart : Act::Refuse;
    case Input::Kind::Interrupt:
      // Alone it must get through whatever the client says: it only ever stops things.
      return input.rest.empty() ? Act::Interrupt : decide_code(input, phase, meta);
    case Input::Kind::Code: return decide_code(input, phase, meta);
  }
  return Act::Refuse;
}

}  // namespace glovebox::mcp
