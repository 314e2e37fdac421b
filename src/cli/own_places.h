// What of Glovebox's own no box of the command line may see: the state directory, with the layers
// and sessions of all boxes, and the store of secrets.
//
// They usually lie in the caller's home, which is often handed in as a whole. A box that could
// write there would forge a layer whose origin is any directory, and the caller's next `commit`
// would write where the box wants; one that could read there would see what other boxes did.
#pragma once

#include "base/result.h"
#include "plan/spec.h"

namespace glovebox::app {

// Denies them in a request whose trees they lie in; any other request stays as it is. To be called
// when the request has all its workspaces and rules.
//
// One that does not exist is made first where the box could make it, because only what exists can
// be covered. Refused: a workspace or a right to write inside of one; and a link on the way to one
// that the box could point elsewhere.
Result<void> hide_own_places(plan::SandboxSpec& spec);

}  // namespace glovebox::app
