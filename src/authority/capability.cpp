#include "authority/capability.h"

#include "base/plain_text.h"

#include <algorithm>
#include <array>
#include <type_traits>
#include <utility>

namespace glovebox::authority {
namespace {

// For the kinds that are one checked part and nothing else.
template <class Kind, class Part>
Result<Kind> parse_single_part(std::string_view text) {
  TRY(Part part, Part::parse(text));
  return Kind{std::move(part)};
}

Result<void> check_no_value(std::string_view word, std::string_view text) {
  if (text.empty()) return {};
  return fail(Code::Invalid, "{}: takes no value, has {}", word, quoted(text));
}

Result<Subprocess> parse_commands(std::string_view text, Shell shell) {
  std::vector<CommandName> commands;
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t comma = std::min(text.find(',', at), text.size());
    TRY(CommandName command, CommandName::parse(text.substr(at, comma - at)));
    commands.push_back(std::move(command));
    at = comma + 1;
  }
  return Subprocess::make(std::move(commands), shell);
}

template <BudgetKind K>
Result<Capability> make_budget_of(std::uint64_t amount) {
  TRY(const Budget<K> budget, Budget<K>::make(amount));
  return Capability(budget);
}

template <std::size_t... I>
constexpr auto budget_makers(std::index_sequence<I...>) {
  return std::array{&make_budget_of<static_cast<BudgetKind>(I)>...};
}

}  // namespace

Result<ReadPath> ReadPath::parse(std::string_view text) {
  return parse_single_part<ReadPath, AbsolutePath>(text);
}

Result<WritePath> WritePath::parse(std::string_view text) {
  return parse_single_part<WritePath, AbsolutePath>(text);
}

Result<ExecPath> ExecPath::parse(std::string_view text) {
  return parse_single_part<ExecPath, AbsolutePath>(text);
}

Result<ConnectTCP> ConnectTCP::parse(std::string_view text) {
  TRY(const HostAndPorts parts, split_host_and_ports(text));
  TRY(HostPattern host, parse_host(parts.host));
  return ConnectTCP{std::move(host), parts.ports};
}

std::string ConnectTCP::value_text() const { return join_host_and_ports(to_text(host), ports); }

Result<ListenTCP> ListenTCP::parse(std::string_view text) {
  TRY(const HostAndPorts parts, split_host_and_ports(text));
  TRY(const ListenAddress address, parse_listen_address(parts.host));
  return ListenTCP{address, parts.ports};
}

std::string ListenTCP::value_text() const { return join_host_and_ports(to_text(address), ports); }

Result<ConnectUnix> ConnectUnix::parse(std::string_view text) {
  return parse_single_part<ConnectUnix, AbsolutePath>(text);
}

Result<ResolveName> ResolveName::parse(std::string_view text) {
  return parse_single_part<ResolveName, DomainPattern>(text);
}

Result<Import> Import::parse(std::string_view text) {
  return parse_single_part<Import, ModulePattern>(text);
}

Result<Env> Env::parse(std::string_view text) {
  const std::size_t equals = text.find('=');
  TRY(EnvName name, EnvName::parse(text.substr(0, equals)));
  if (equals == std::string_view::npos) return Env{std::move(name), std::nullopt};
  TRY(EnvValue value, EnvValue::parse(text.substr(equals + 1)));
  return Env{std::move(name), std::move(value)};
}

std::string Env::value_text() const {
  return value ? name.text() + "=" + value->text() : name.text();
}

Result<Secret> Secret::parse(std::string_view text) {
  return parse_single_part<Secret, SecretName>(text);
}

Result<Subprocess> Subprocess::make(std::vector<CommandName> commands, Shell shell) {
  if (commands.empty()) return fail(Code::Invalid, "subprocess: names no command");
  if (commands.size() > kMaxCommands) {
    return fail(Code::Exhausted, "subprocess: more than {} commands", kMaxCommands);
  }
  std::sort(commands.begin(), commands.end());
  commands.erase(std::unique(commands.begin(), commands.end()), commands.end());
  return Subprocess(std::move(commands), shell);
}

Result<Subprocess> Subprocess::parse(std::string_view text) {
  return parse_commands(text, Shell::Refused);
}

Result<Subprocess> Subprocess::parse_with_shell(std::string_view text) {
  return parse_commands(text, Shell::Allowed);
}

std::string Subprocess::value_text() const {
  std::string text;
  for (const CommandName& command : commands_) {
    if (!text.empty()) text += ',';
    text += command.text();
  }
  return text;
}

Result<Clock> Clock::parse(std::string_view text) {
  TRY_VOID(check_no_value("clock", text));
  return Clock{};
}

Result<Random> Random::parse(std::string_view text) {
  TRY_VOID(check_no_value("random", text));
  return Random{};
}

Result<Channel> Channel::parse(std::string_view text) {
  return parse_single_part<Channel, ChannelName>(text);
}

Result<Syscalls> Syscalls::parse(std::string_view text) {
  return parse_single_part<Syscalls, SyscallGroupName>(text);
}

std::optional<BudgetTerm> find_budget(const Capability& capability) {
  return std::visit(
      [](const auto& value) -> std::optional<BudgetTerm> {
        if constexpr (requires { value.kKind; }) {
          return BudgetTerm{value.kKind, value.amount()};
        } else {
          return std::nullopt;
        }
      },
      capability);
}

Result<Capability> make_budget(BudgetKind kind, std::uint64_t amount) {
  static constexpr auto kMakers = budget_makers(std::make_index_sequence<kBudgets.size()>());
  return kMakers[static_cast<std::size_t>(kind)](amount);
}

int severity(Effect effect) {
  switch (effect) {
    case Effect::Allow: return 0;
    case Effect::Silent: return 1;
    case Effect::Deny: return 2;
  }
  return 2;
}

std::string_view to_text(Effect effect) {
  switch (effect) {
    case Effect::Silent: return "silent";
    case Effect::Allow: return "allow";
    case Effect::Deny: return "deny";
  }
  return "";
}

}  // namespace glovebox::authority
