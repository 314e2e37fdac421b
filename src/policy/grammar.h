// The keys of a policy document, as tables.
//
// The reader (body_reader.h), the writer (print.h) and the published schema all follow these, so a
// key exists in one exactly when it exists in the others; schema_test.cpp compares.
#pragma once

#include "authority/capability.h"

#include <array>
#include <span>
#include <string_view>
#include <vector>

namespace glovebox::policy {

// One thing that a section says about its values: {read: /srv} under 'fs'.
struct Action {
  std::string_view word;
  authority::Effect effect;
  // The kinds of term that a bare value stands for: "deny: /srv" under 'fs' is three denials.
  std::span<const std::string_view> kinds;
  // The kinds that may be named instead: "deny: {write: /srv}".
  std::span<const std::string_view> named_kinds;
};

// A section is a list, of bare values where it has a default action and of {action: values}; or one
// mapping of actions to values. `values` is one text or a list of texts.
struct Section {
  std::string_view key;
  std::span<const Action> actions;
  std::string_view bare_action;  // what a bare value in the list means; empty: it is refused
  std::string_view example;      // for hints
};

// fs, net, imports, env, secrets, subprocess, channels, syscalls.
std::span<const Section> sections();
const Section* find_section(std::string_view key);
const Action* find_action(const Section& section, std::string_view word);
std::vector<std::string_view> action_words(const Section& section);

// Everything that may stand in the body of a sandbox.
std::span<const std::string_view> body_keys();
// What may not stand in `defaults`, because it belongs to one sandbox.
std::span<const std::string_view> sandbox_only_keys();
// The keys of a document that has `sandboxes`; a flat one has version, defaults and a body.
std::span<const std::string_view> document_keys();

// The versions a document may name. All mean the same language: 1 is this one's own, the others
// are how PyIsolate's documents spell theirs.
inline constexpr std::array<std::string_view, 3> kVersions{"1", "1.0", "0.1"};

// `clock` and `random` take one of these.
inline constexpr std::array<std::string_view, 2> kSwitchWords{"allow", "deny"};

}  // namespace glovebox::policy
