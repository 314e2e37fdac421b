#include "policy/grammar.h"

#include <algorithm>

namespace glovebox::policy {
namespace {

using authority::Effect;
using Word = std::string_view;

template <std::size_t N>
using Words = std::array<Word, N>;

constexpr Words<1> kRead{"read"}, kWrite{"write"}, kExec{"exec"};
constexpr Words<1> kConnect{"connect"}, kListen{"listen"}, kResolve{"resolve"}, kUnix{"unix"};
constexpr Words<1> kImport{"import"}, kEnv{"env"}, kSecret{"secret"}, kChannel{"channel"};
constexpr Words<1> kSyscalls{"syscalls"};
constexpr Words<1> kCommand{"subprocess"}, kShell{"subprocess_shell"};
// A path that is denied is out of reach in every way.
constexpr Words<3> kWholePath{"read", "exec", "unix"};
constexpr Words<4> kPathKinds{"read", "write", "exec", "unix"};
constexpr Words<4> kNetKinds{"connect", "listen", "resolve", "unix"};

constexpr std::array<Action, 5> kFsActions{{
    {"allow", Effect::Allow, kWrite, {}},
    {"read", Effect::Allow, kRead, {}},
    {"write", Effect::Allow, kWrite, {}},
    {"exec", Effect::Allow, kExec, {}},
    {"deny", Effect::Deny, kWholePath, kPathKinds},
}};
constexpr std::array<Action, 5> kNetActions{{
    {"connect", Effect::Allow, kConnect, {}},
    {"listen", Effect::Allow, kListen, {}},
    {"resolve", Effect::Allow, kResolve, {}},
    {"unix", Effect::Allow, kUnix, {}},
    {"deny", Effect::Deny, kConnect, kNetKinds},
}};
constexpr std::array<Action, 4> kSubprocessActions{{
    {"allow", Effect::Allow, kCommand, {}},
    {"shell", Effect::Allow, kShell, {}},
    {"deny", Effect::Deny, kCommand, {}},
    {"deny_shell", Effect::Deny, kShell, {}},
}};

constexpr std::array<Action, 2> allow_and_deny(const Words<1>& kind) {
  return {{{"allow", Effect::Allow, kind, {}}, {"deny", Effect::Deny, kind, {}}}};
}
constexpr std::array<Action, 2> kImportActions = allow_and_deny(kImport);
constexpr std::array<Action, 2> kEnvActions = allow_and_deny(kEnv);
constexpr std::array<Action, 2> kSecretActions = allow_and_deny(kSecret);
constexpr std::array<Action, 2> kChannelActions = allow_and_deny(kChannel);
constexpr std::array<Action, 2> kSyscallActions = allow_and_deny(kSyscalls);

constexpr std::array<Section, 8> kSections{{
    {"fs", kFsActions, "", "fs: {read: [/srv/data]}"},
    {"net", kNetActions, "", "net: {connect: [\"api.example.com:443\"]}"},
    {"imports", kImportActions, "allow", "imports: [json]"},
    {"env", kEnvActions, "allow", "env: [HOME, \"LANG=C.UTF-8\"]"},
    {"secrets", kSecretActions, "allow", "secrets: [api-key]"},
    {"subprocess", kSubprocessActions, "allow", "subprocess: [git]"},
    {"channels", kChannelActions, "allow", "channels: [jobs]"},
    {"syscalls", kSyscallActions, "allow", "syscalls: [sysv-ipc]"},
}};

constexpr Words<32> kBodyKeys{
    "description",  "extends",      "fs",         "net",      "tcp",        "imports",
    "env",          "secrets",      "subprocess", "channels", "syscalls",   "clock",
    "random",       "rules",        "cpu_ms",     "cpu",      "memory",     "wall",
    "pids",         "disk",         "inodes",     "output",   "open_files", "connections",
    "egress_bytes", "connect_rate", "cpus",       "backend",  "workspace",  "waive",
    "allows",       "refuses"};
constexpr Words<4> kSandboxOnly{"extends", "description", "allows", "refuses"};
constexpr Words<3> kDocumentKeys{"version", "defaults", "sandboxes"};

}  // namespace

std::span<const Section> sections() { return kSections; }

const Section* find_section(std::string_view key) {
  const auto found = std::find_if(kSections.begin(), kSections.end(),
                                  [&](const Section& section) { return section.key == key; });
  return found == kSections.end() ? nullptr : &*found;
}

const Action* find_action(const Section& section, std::string_view word) {
  const auto found = std::find_if(section.actions.begin(), section.actions.end(),
                                  [&](const Action& action) { return action.word == word; });
  return found == section.actions.end() ? nullptr : &*found;
}

std::vector<std::string_view> action_words(const Section& section) {
  std::vector<std::string_view> words;
  words.reserve(section.actions.size());
  for (const Action& action : section.actions) words.push_back(action.word);
  return words;
}

std::span<const std::string_view> body_keys() { return kBodyKeys; }
std::span<const std::string_view> sandbox_only_keys() { return kSandboxOnly; }
std::span<const std::string_view> document_keys() { return kDocumentKeys; }

}  // namespace glovebox::policy
