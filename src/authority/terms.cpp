#include "authority/terms.h"

#include "base/plain_text.h"

#include <algorithm>
#include <array>

namespace glovebox::authority {
namespace {

struct Word {
  std::string_view text;
  Result<Capability> (*parse)(std::string_view value);
};

template <class Kind>
Result<Capability> parse_as(std::string_view value) {
  TRY(Kind capability, Kind::parse(value));
  return Capability(std::move(capability));
}

Result<Capability> parse_shell(std::string_view value) {
  TRY(Subprocess capability, Subprocess::parse_with_shell(value));
  return Capability(std::move(capability));
}

// In the order of the variant, so that a capability's index finds its word.
constexpr std::array<Word, 26> kWords{{
    {"read", parse_as<ReadPath>},
    {"write", parse_as<WritePath>},
    {"exec", parse_as<ExecPath>},
    {"connect", parse_as<ConnectTCP>},
    {"listen", parse_as<ListenTCP>},
    {"unix", parse_as<ConnectUnix>},
    {"resolve", parse_as<ResolveName>},
    {"import", parse_as<Import>},
    {"env", parse_as<Env>},
    {"secret", parse_as<Secret>},
    {"subprocess", parse_as<Subprocess>},
    {"clock", parse_as<Clock>},
    {"random", parse_as<Random>},
    {"channel", parse_as<Channel>},
    {"syscalls", parse_as<Syscalls>},
    {info(BudgetKind::Cpu).word, parse_as<CpuBudget>},
    {info(BudgetKind::Memory).word, parse_as<MemoryBudget>},
    {info(BudgetKind::Pids).word, parse_as<PidsBudget>},
    {info(BudgetKind::Wall).word, parse_as<WallBudget>},
    {info(BudgetKind::Disk).word, parse_as<DiskBudget>},
    {info(BudgetKind::Inodes).word, parse_as<InodeBudget>},
    {info(BudgetKind::Output).word, parse_as<OutputBudget>},
    {info(BudgetKind::OpenFiles).word, parse_as<OpenFilesBudget>},
    {info(BudgetKind::Connections).word, parse_as<ConnectionsBudget>},
    {info(BudgetKind::EgressBytes).word, parse_as<EgressBytesBudget>},
    {info(BudgetKind::ConnectRate).word, parse_as<ConnectRateBudget>},
}};
static_assert(kWords.size() == std::variant_size_v<Capability>);

constexpr Word kShellWord{"subprocess_shell", parse_shell};

const Word* find_word(std::string_view text) {
  if (text == kShellWord.text) return &kShellWord;
  const auto found = std::find_if(kWords.begin(), kWords.end(),
                                  [&](const Word& word) { return word.text == text; });
  return found == kWords.end() ? nullptr : &*found;
}

}  // namespace

Result<Capability> parse_term(std::string_view word, std::string_view value) {
  const Word* known = find_word(word);
  if (known == nullptr) {
    return fail(Code::Invalid, "{}: no such kind of capability (one of: {})", quoted(word),
                fmt::join(term_words(), ", "));
  }
  return known->parse(value);
}

Result<Capability> parse_term(std::string_view term) {
  const std::size_t equals = term.find('=');
  if (equals == std::string_view::npos) return parse_term(term, "");
  return parse_term(term.substr(0, equals), term.substr(equals + 1));
}

std::string_view term_word(const Capability& capability) {
  const auto* subprocess = std::get_if<Subprocess>(&capability);
  if (subprocess != nullptr && subprocess->shell() == Shell::Allowed) return kShellWord.text;
  return kWords[capability.index()].text;
}

std::string to_text(const Capability& capability) {
  const std::string value =
      std::visit([](const auto& kind) { return kind.value_text(); }, capability);
  return value.empty() ? std::string(term_word(capability))
                       : fmt::format("{}={}", term_word(capability), value);
}

std::string to_text(const Rule& rule) {
  return fmt::format("{} {}", to_text(rule.effect), one_line(to_text(rule.capability)));
}

std::vector<std::string_view> term_words() {
  std::vector<std::string_view> words;
  words.reserve(kWords.size() + 1);
  for (const Word& word : kWords) words.push_back(word.text);
  words.push_back(kShellWord.text);
  return words;
}

}  // namespace glovebox::authority
