// Python sessions, as interpreters of their own and as cells: the code in them starts the probe, or
// is itself the attack. What must hold is the box around the interpreter.
#pragma once

#include "attack/boxes.h"

#include <memory>

namespace glovebox::app {

Result<std::unique_ptr<Boxes>> make_python_boxes(const Setting& setting, Canaries& canaries);

}  // namespace glovebox::app
