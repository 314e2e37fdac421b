// One attack in one box, and what came of it.
#pragma once

#include "app/attack/attack.h"
#include "app/attack/canaries.h"
#include "base/result.h"

#include <cstdint>
#include <string>
#include <vector>

namespace glovebox::app {

// Open: the act succeeded, but nothing of the host was touched by it: a door, not yet a way out.
enum class Verdict : std::uint8_t { Held, Open, Escaped, NotProven };
std::string_view to_text(Verdict verdict);

// How much the box was granted. A wide policy is where ways out hide.
enum class Grants : std::uint8_t { Little, Much };
std::string_view to_text(Grants grants);

// None: the probes run as they are, which shows that they and the canaries notice.
enum class Sandbox : std::uint8_t { Glovebox, Bubblewrap, None };

struct Setting {
  Sandbox sandbox = Sandbox::Glovebox;
  Grants grants = Grants::Little;
  Ids ids;            // who starts the box
  std::string tool;   // the program that makes it
  std::string probe;  // glovebox-probe
};

struct Outcome {
  Verdict verdict = Verdict::NotProven;
  std::string detail;  // what was met
};

// Whether the attack means anything there: one on a workspace needs one, a bomb needs limits.
bool applies(const Attack& attack, const Setting& setting);

Result<Outcome> try_attack(const Attack& attack, const Setting& setting, Canaries& canaries);

}  // namespace glovebox::app
