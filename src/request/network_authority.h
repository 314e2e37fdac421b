// The part of an authority that the connect broker decides: connections, names, listeners.
#pragma once

#include "authority/authority_set.h"
#include "base/result.h"

namespace glovebox::session {

bool is_about_network(const authority::Capability& capability);

// The rules about the network alone.
Result<authority::AuthoritySet> network_part(const authority::AuthoritySet& set);

// `set`, with no more of the network than `most` grants too; everything else stays.
Result<authority::AuthoritySet> with_network_within(const authority::AuthoritySet& set,
                                                    const authority::AuthoritySet& most);

}  // namespace glovebox::session
