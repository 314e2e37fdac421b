// One attack in one box, and what came of it.
#pragma once

#include "attack/attack.h"
#include "attack/boxes.h"
#include "attack/canaries.h"
#include "base/result.h"

#include <cstdint>
#include <string>

namespace glovebox::app {

// Open: the act succeeded, but nothing of the host was touched by it: a door, not yet a way out.
enum class Verdict : std::uint8_t { Held, Open, Escaped, NotProven };
std::string_view to_text(Verdict verdict);

struct Outcome {
  Verdict verdict = Verdict::NotProven;
  std::string detail{};  // what was met
};

// Whether another try may end otherwise: the kernel lets a user have so many keyrings and
// processes, and gives those of boxes that are over back after a while.
bool is_for_now(const Outcome& outcome);

// Whether the attack means anything there: one on a workspace needs one, a bomb needs limits.
bool applies(const Attack& attack, const Setting& setting);

// That the box can do what it was granted. One that cannot do even that refuses everything, and
// proves nothing by it.
Result<void> check_grants(const Setting& setting, Boxes& boxes, Canaries& canaries);

Result<Outcome> try_attack(const Attack& attack, Boxes& boxes, Canaries& canaries);

}  // namespace glovebox::app
