#include "policy/body_reader.h"

#include "authority/names.h"
#include "authority/terms.h"
#include "base/plain_text.h"
#include "base/quantity.h"
#include "policy/grammar.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <span>
#include <utility>

namespace glovebox::policy {
namespace {

using authority::BudgetInfo;
using authority::BudgetKind;
using authority::Effect;

Position position_of(const DocumentNode& node) { return {node.line, node.column}; }

std::optional<PathUse> find_path_use(std::string_view word) {
  const auto* found = std::find(kPathUseWords.begin(), kPathUseWords.end(), word);
  if (found == kPathUseWords.end()) return std::nullopt;
  return static_cast<PathUse>(found - kPathUseWords.begin());
}

// "path 'x': what is wrong (what to do)" as the two parts of a diagnostic.
struct Sentence {
  std::string what;
  std::string hint;
};

Sentence split_remedy(const std::string& message) {
  const std::size_t open = message.rfind(" (");
  if (open == std::string::npos || !message.ends_with(')')) return {message, {}};
  return {message.substr(0, open), message.substr(open + 2, message.size() - open - 3)};
}

// "0100" is sixty-four to one reader of YAML and a hundred to another.
bool has_leading_zero(std::string_view text) {
  return text.size() > 1 && text[0] == '0' && text[1] >= '0' && text[1] <= '9';
}

class BodyReader {
 public:
  BodyReader(BodyRole role, std::string_view file, Diagnostics& problems)
      : role_(role), file_(file), problems_(problems) {}

  Body read(const DocumentNode& node) {
    if (node.kind != NodeKind::Mapping) {
      complain(node, fmt::format("a sandbox must be a mapping, not {}", node.kind_text()));
      return {};
    }
    for (std::size_t i = 0; i < node.keys.size(); ++i) {
      if (may_stand_here(node.keys[i])) read_key(node.keys[i], node.items[i]);
    }
    if (node.find("net") != nullptr && node.find("tcp") != nullptr) {
      complain(*node.find("tcp"), "'net' and 'tcp' are the same section", "keep 'net'");
    }
    return std::move(body_);
  }

 private:
  using Reader = void (BodyReader::*)(const DocumentNode& value);
  struct KeyReader {
    std::string_view key;
    Reader read;
  };

  void complain(const DocumentNode& node, std::string what, std::string hint = {}) {
    problems_.push_back({where_of(file_, node), std::move(what), std::move(hint)});
  }
  void complain(const DocumentNode& node, const Error& error) {
    Sentence sentence = split_remedy(error.message);
    complain(node, std::move(sentence.what), std::move(sentence.hint));
  }

  // Hints cost time, so a document full of wrong keys gets only as many as are shown.
  void complain_about_key(const DocumentNode& key, std::span<const std::string_view> known) {
    std::string hint;
    if (problems_.size() < kMaxDiagnostics) {
      hint = nearest_hint(key.text, known, fmt::format("one of: {}", fmt::join(known, ", ")));
    }
    complain(key, fmt::format("unknown key {}", quoted(key.text)), std::move(hint));
  }

  bool may_stand_here(const DocumentNode& key) {
    const auto sandbox_only = sandbox_only_keys();
    const bool is_own =
        std::find(sandbox_only.begin(), sandbox_only.end(), key.text) != sandbox_only.end();
    if (role_ == BodyRole::Defaults && is_own) {
      complain(key, fmt::format("'{}' cannot stand in 'defaults'", key.text),
               "it belongs to one sandbox");
      return false;
    }
    if (role_ != BodyRole::Flat) return true;
    if (key.text == "extends") {
      complain(key, "'extends' needs a document with 'sandboxes'");
      return false;
    }
    return key.text != "version" && key.text != "defaults";
  }

  void read_key(const DocumentNode& key, const DocumentNode& value);

  // ---- Shapes.

  bool check_text(const DocumentNode& node, std::string_view what) {
    if (node.is_text()) return true;
    const std::string hint =
        node.kind == NodeKind::Scalar ? fmt::format("put it into quotes: \"{}\"", node.text) : "";
    complain(node, fmt::format("{} must be text, not {}", what, node.kind_text()), hint);
    return false;
  }

  void each_text_of_list(const DocumentNode& list, std::string_view key,
                         const std::function<void(const DocumentNode&)>& use) {
    if (list.kind == NodeKind::Null) return;
    if (list.kind != NodeKind::Sequence) {
      complain(list, fmt::format("'{}' must be a list, not {}", key, list.kind_text()),
               fmt::format("write '{}: [...]'", key));
      return;
    }
    for (const DocumentNode& item : list.items) {
      if (check_text(item, fmt::format("an entry of '{}'", key))) use(item);
    }
  }

  template <class Enum, std::size_t N>
  std::optional<Enum> read_word(const DocumentNode& value, std::string_view key,
                                const std::array<std::string_view, N>& words) {
    const auto* found = std::find(words.begin(), words.end(), value.text);
    if (value.kind == NodeKind::Scalar && found != words.end()) {
      return static_cast<Enum>(found - words.begin());
    }
    const std::string shown =
        value.kind == NodeKind::Scalar ? quoted(value.text) : std::string(value.kind_text());
    complain(value, fmt::format("'{}' is {}", key, shown),
             nearest_hint(value.text, words, fmt::format("one of: {}", fmt::join(words, ", "))));
    return std::nullopt;
  }

  // ---- Rules.

  void add_rule(const DocumentNode& value, Effect effect, std::string_view kind) {
    if (const auto use = find_path_use(kind)) {
      add_path_rule(value, effect, *use);
      return;
    }
    auto capability = authority::parse_term(kind, value.text);
    if (!capability) return complain(value, capability.error());
    body_.rules.push_back({authority::Rule{effect, *std::move(capability)}, position_of(value)});
  }

  void add_path_rule(const DocumentNode& value, Effect effect, PathUse use) {
    auto parsed = parse_path_or_pattern(value.text);
    if (!parsed) return complain(value, parsed.error());
    if (const auto* pattern = std::get_if<PathPattern>(&*parsed)) {
      body_.rules.push_back({PathRule{*pattern, use, effect}, position_of(value)});
      return;
    }
    authority::Capability capability =
        use_of_path(use, std::get<authority::AbsolutePath>(*std::move(parsed)));
    body_.rules.push_back({authority::Rule{effect, std::move(capability)}, position_of(value)});
  }

  // One text, or a list of them, for an action.
  void add_values(const DocumentNode& value, const Section& section, const Action& action) {
    if (value.kind == NodeKind::Sequence) {
      for (const DocumentNode& item : value.items) add_value(item, section, action);
    } else if (value.kind != NodeKind::Null) {
      add_value(value, section, action);
    }
  }

  void add_value(const DocumentNode& value, const Section& section, const Action& action) {
    if (value.kind == NodeKind::Mapping && !action.named_kinds.empty()) {
      return add_named_kinds(value, section, action);
    }
    if (!check_text(value, fmt::format("a value of '{}' in '{}'", action.word, section.key)))
      return;
    const std::size_t problems_before = problems_.size();
    for (const std::string_view kind : action.kinds) {
      if (problems_.size() == problems_before) add_rule(value, action.effect, kind);
    }
  }

  void add_named_kinds(const DocumentNode& mapping, const Section& section, const Action& action) {
    for (std::size_t i = 0; i < mapping.keys.size(); ++i) {
      const DocumentNode& key = mapping.keys[i];
      const auto named = std::find(action.named_kinds.begin(), action.named_kinds.end(), key.text);
      if (named == action.named_kinds.end()) {
        complain_about_key(key, action.named_kinds);
        continue;
      }
      add_values(mapping.items[i], section,
                 {action.word, action.effect, std::span(&*named, 1), {}});
    }
  }

  void add_actions(const DocumentNode& mapping, const Section& section) {
    for (std::size_t i = 0; i < mapping.keys.size(); ++i) {
      const DocumentNode& key = mapping.keys[i];
      if (const Action* action = find_action(section, key.text)) {
        add_values(mapping.items[i], section, *action);
      } else {
        complain_about_key(key, action_words(section));
      }
    }
  }

  void read_section(const DocumentNode& value, const Section& section) {
    if (value.kind == NodeKind::Null) return;
    if (value.kind == NodeKind::Mapping) return add_actions(value, section);
    if (value.kind != NodeKind::Sequence) {
      complain(value, fmt::format("'{}' must be a list, not {}", section.key, value.kind_text()),
               fmt::format("such as {}", section.example));
      return;
    }
    for (const DocumentNode& item : value.items) read_section_item(item, section);
  }

  void read_section_item(const DocumentNode& item, const Section& section) {
    if (item.kind == NodeKind::Mapping && item.keys.size() == 1) return add_actions(item, section);
    if (item.kind == NodeKind::Mapping || section.bare_action.empty()) {
      complain(item,
               fmt::format(
                   "an entry of '{}' must be one action with its value, not {}", section.key,
                   item.kind == NodeKind::Mapping ? fmt::format("a mapping of {}", item.keys.size())
                                                  : std::string(item.kind_text())),
               fmt::format("such as {}", section.example));
      return;
    }
    const Action* action = find_action(section, section.bare_action);
    GLOVEBOX_CHECK(action != nullptr);
    add_value(item, section, *action);
  }

  void read_fs(const DocumentNode& value) { read_section(value, *find_section("fs")); }
  void read_net(const DocumentNode& value) { read_section(value, *find_section("net")); }
  void read_imports(const DocumentNode& value) { read_section(value, *find_section("imports")); }
  void read_env(const DocumentNode& value) { read_section(value, *find_section("env")); }
  void read_secrets(const DocumentNode& value) { read_section(value, *find_section("secrets")); }
  void read_subprocess(const DocumentNode& value) {
    read_section(value, *find_section("subprocess"));
  }
  void read_channels(const DocumentNode& value) { read_section(value, *find_section("channels")); }
  void read_syscalls(const DocumentNode& value) { read_section(value, *find_section("syscalls")); }

  void read_switch(const DocumentNode& value, std::string_view key) {
    enum class Switch : std::uint8_t { Allow, Deny };
    const auto word = read_word<Switch>(value, key, kSwitchWords);
    if (!word) return;
    DocumentNode nothing = value;
    nothing.text.clear();
    add_rule(nothing, *word == Switch::Allow ? Effect::Allow : Effect::Deny, key);
  }
  void read_clock(const DocumentNode& value) { read_switch(value, "clock"); }
  void read_random(const DocumentNode& value) { read_switch(value, "random"); }

  // "allow read=/srv": the words of the command line, taken by the letter.
  void read_rule_line(const DocumentNode& value) {
    const std::size_t space = value.text.find(' ');
    const std::string_view line = value.text;
    const std::string_view word = line.substr(0, space);
    for (const Effect effect : {Effect::Allow, Effect::Deny, Effect::Silent}) {
      if (word != authority::to_text(effect) || space == std::string::npos) continue;
      auto capability = authority::parse_term(line.substr(space + 1));
      if (!capability) return complain(value, capability.error());
      if (const auto budget = authority::find_budget(*capability)) {
        if (effect == Effect::Allow) return set_budget(value, budget->kind, word, budget->amount);
        return complain(value, "a budget is set, not denied", "set a smaller one");
      }
      body_.rules.push_back({authority::Rule{effect, *std::move(capability)}, position_of(value)});
      return;
    }
    complain(value, fmt::format("the rule {}", quoted(value.text)),
             "write 'allow KIND=VALUE' or 'deny KIND=VALUE', such as 'allow read=/srv'");
  }
  void read_rules(const DocumentNode& value) {
    each_text_of_list(value, "rules", [this](const DocumentNode& item) { read_rule_line(item); });
  }

  // ---- Limits.

  void set_budget(const DocumentNode& value, BudgetKind kind, std::string_view key,
                  const Result<std::uint64_t>& amount) {
    if (!amount) return complain(value, amount.error());
    if (auto checked = authority::check_amount(kind, *amount); !checked) {
      return complain(value, checked.error());
    }
    if (body_.budgets.contains(kind)) {
      complain(value, fmt::format("'{}' repeats a limit that is set already", key),
               "'cpu' and 'cpu_ms' are the same limit; keep one");
      return;
    }
    body_.budgets.emplace(kind, Located<std::uint64_t>{*amount, position_of(value)});
  }

  bool check_amount_shape(const DocumentNode& value, std::string_view key) {
    if (value.kind != NodeKind::Scalar) {
      complain(value, fmt::format("'{}' must be an amount, not {}", key, value.kind_text()));
      return false;
    }
    if (has_leading_zero(value.text)) {
      complain(value, fmt::format("'{}' starts with a zero: {}", key, quoted(value.text)),
               "readers differ on what that means; drop the zero");
      return false;
    }
    return true;
  }

  void read_budget(const DocumentNode& value, const BudgetInfo& info) {
    if (!check_amount_shape(value, info.word)) return;
    set_budget(value, info.kind, info.word, authority::parse_amount(info.kind, value.text));
  }

  void read_cpu_ms(const DocumentNode& value) {
    if (!check_amount_shape(value, "cpu_ms")) return;
    auto amount = parse_count(value.text);
    if (!amount || *amount == 0) {
      complain(value, fmt::format("'cpu_ms' is {}", quoted(value.text)),
               "write a positive whole number of milliseconds");
      return;
    }
    set_budget(value, BudgetKind::Cpu, "cpu_ms", amount);
  }

  void read_cpus(const DocumentNode& value) {
    if (!check_amount_shape(value, "cpus")) return;
    auto amount = parse_thousandths(value.text);
    if (!amount)
      return complain(value, fmt::format("'cpus' is {}", quoted(value.text)),
                      "write a positive number, such as 1.5");
    body_.cpus_milli = *amount;
  }

  // ---- Settings.

  void read_extends(const DocumentNode& value) {
    if (!check_text(value, "'extends'")) return;
    body_.extends = Located<std::string>{value.text, position_of(value)};
  }

  void read_description(const DocumentNode& value) {
    if (check_text(value, "'description'")) body_.description = value.text;
  }

  void read_backend(const DocumentNode& value) {
    body_.backend = read_word<Backend>(value, "backend", kBackendNames);
  }

  void read_workspace(const DocumentNode& value) {
    body_.workspace = read_word<WorkspaceMode>(value, "workspace", kWorkspaceModeNames);
  }

  void read_waive(const DocumentNode& value) {
    each_text_of_list(value, "waive", [this](const DocumentNode& item) {
      // What can be waived is the planner's to say; here only that it is a name.
      if (authority::SecretName::parse(item.text)) {
        body_.waived.insert(item.text);
      } else {
        complain(item, fmt::format("{} is not the name of a protection", quoted(item.text)));
      }
    });
  }

  void read_examples(const DocumentNode& value, std::string_view key,
                     std::vector<Located<authority::Capability>>& into) {
    each_text_of_list(value, key, [&](const DocumentNode& item) {
      auto capability = authority::parse_term(item.text);
      if (!capability) return complain(item, capability.error());
      into.push_back({*std::move(capability), position_of(item)});
    });
  }
  void read_allows(const DocumentNode& value) { read_examples(value, "allows", body_.allows); }
  void read_refuses(const DocumentNode& value) { read_examples(value, "refuses", body_.refuses); }

  BodyRole role_;
  std::string_view file_;
  Diagnostics& problems_;
  Body body_;
};

void BodyReader::read_key(const DocumentNode& key, const DocumentNode& value) {
  static constexpr std::array<KeyReader, 21> kReaders{{
      {"description", &BodyReader::read_description},
      {"extends", &BodyReader::read_extends},
      {"fs", &BodyReader::read_fs},
      {"net", &BodyReader::read_net},
      {"tcp", &BodyReader::read_net},
      {"imports", &BodyReader::read_imports},
      {"env", &BodyReader::read_env},
      {"secrets", &BodyReader::read_secrets},
      {"subprocess", &BodyReader::read_subprocess},
      {"channels", &BodyReader::read_channels},
      {"syscalls", &BodyReader::read_syscalls},
      {"clock", &BodyReader::read_clock},
      {"random", &BodyReader::read_random},
      {"rules", &BodyReader::read_rules},
      {"cpu_ms", &BodyReader::read_cpu_ms},
      {"cpus", &BodyReader::read_cpus},
      {"backend", &BodyReader::read_backend},
      {"workspace", &BodyReader::read_workspace},
      {"waive", &BodyReader::read_waive},
      {"allows", &BodyReader::read_allows},
      {"refuses", &BodyReader::read_refuses},
  }};
  for (const KeyReader& reader : kReaders) {
    if (reader.key == key.text) return (this->*reader.read)(value);
  }
  for (const BudgetInfo& info : authority::kBudgets) {
    if (info.word == key.text) return read_budget(value, info);
  }
  std::vector<std::string_view> known(body_keys().begin(), body_keys().end());
  if (role_ == BodyRole::Flat) {
    known.insert(known.end(), document_keys().begin(), document_keys().end());
  }
  complain_about_key(key, known);
}

}  // namespace

Body read_body(const DocumentNode& node, BodyRole role, std::string_view file,
               Diagnostics& problems) {
  return BodyReader(role, file, problems).read(node);
}

Where where_of(std::string_view file, const DocumentNode& node) {
  return {std::string(file), node.line, node.column};
}

Where where_of(std::string_view file, const Position& position) {
  return {std::string(file), position.line, position.column};
}

}  // namespace glovebox::policy
