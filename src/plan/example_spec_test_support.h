// Hosts and requests for this folder's tests.
#pragma once

#include "authority/terms.h"
#include "plan/make_plan.h"

#include <fmt/format.h>

#include <string>
#include <vector>

namespace glovebox::plan {

// A host like most: merged /usr, cgroup v1 for root, none for a user.
inline host::HostFacts root_host() {
  host::HostFacts facts;
  facts.tier = host::Tier::Root;
  facts.uid = 0;
  facts.gid = 0;
  facts.landlock_abi = 7;
  facts.memory_bytes = 8ULL << 30;
  facts.open_files_hard = 1U << 20;
  facts.stack_hard = 1ULL << 40;
  facts.pending_signals = 1U << 16;
  facts.inotify_instances = 128;
  facts.inotify_watches = 65536;
  facts.proc = {{"keys", host::ProcEntry::Kind::File},
                {"stat", host::ProcEntry::Kind::File},
                {"bus", host::ProcEntry::Kind::Directory},
                {"sys", host::ProcEntry::Kind::Directory}};
  facts.system = {{"usr", ""}, {"etc", ""}, {"bin", "usr/bin"}};
  facts.cgroups.version = host::CgroupVersion::V1;
  facts.cgroups.parents = {{"memory", "/cg/memory"}, {"pids", "/cg/pids"}};
  return facts;
}

inline host::HostFacts user_host() {
  host::HostFacts facts = root_host();
  facts.tier = host::Tier::User;
  facts.uid = 1234;
  facts.gid = 1235;
  facts.cgroups = {};
  facts.cgroups.why_not = "nothing is delegated";
  return facts;
}

using authority::Effect;

// Adds rules of one source, and what is known of their paths: all that end in ".missing" do not
// exist, ".sock" is a socket, ".txt" a file, the rest are directories.
inline void add_rules(SandboxSpec& spec, Effect effect, const std::vector<std::string>& terms) {
  std::vector<authority::Rule> rules = spec.authority.rules();
  for (const std::string& term : terms) {
    rules.push_back({effect, *authority::parse_term(term)});
    const std::size_t path = term.find("=/");
    if (path == std::string::npos || term.ends_with(".missing") || term.starts_with("env"))
      continue;
    host::PathFacts facts{.path = term.substr(path + 1),
                          .kind = host::PathKind::Directory,
                          .device = 1,
                          .inode = 100 + spec.paths.size()};
    if (term.ends_with(".txt")) facts.kind = host::PathKind::File;
    if (term.ends_with(".sock")) facts.kind = host::PathKind::Socket;
    spec.paths.emplace(facts.path, facts);
  }
  spec.authority = *authority::AuthoritySet::from_rules(rules);
}
inline void allow(SandboxSpec& spec, const std::vector<std::string>& terms) {
  add_rules(spec, Effect::Allow, terms);
}
inline void deny(SandboxSpec& spec, const std::vector<std::string>& terms) {
  add_rules(spec, Effect::Deny, terms);
}

inline SandboxSpec command(std::vector<std::string> words = {"true"}) {
  SandboxSpec spec;
  spec.command = std::move(words);
  return spec;
}

}  // namespace glovebox::plan
