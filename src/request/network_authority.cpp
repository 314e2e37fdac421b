#include "request/network_authority.h"

#include <vector>

namespace glovebox::session {

using authority::AuthoritySet;
using authority::Rule;

bool is_about_network(const authority::Capability& capability) {
  return std::holds_alternative<authority::ConnectTCP>(capability) ||
         std::holds_alternative<authority::ResolveName>(capability) ||
         std::holds_alternative<authority::ListenTCP>(capability);
}

Result<AuthoritySet> network_part(const AuthoritySet& set) {
  std::vector<Rule> network;
  for (const Rule& rule : set.rules()) {
    if (is_about_network(rule.capability)) network.push_back(rule);
  }
  return AuthoritySet::from_rules(network);
}

Result<AuthoritySet> with_network_within(const AuthoritySet& set, const AuthoritySet& most) {
  std::vector<Rule> others;
  for (const Rule& rule : set.rules()) {
    if (!is_about_network(rule.capability)) others.push_back(rule);
  }
  TRY(const AuthoritySet rest, AuthoritySet::from_rules(others));
  TRY(const AuthoritySet network, network_part(set));
  return rest.unite(network.attenuate(most));
}

}  // namespace glovebox::session
