#include "policy/print.h"

#include "authority/json_codec.h"
#include "authority/terms.h"
#include "base/plain_text.h"
#include "base/sha256.h"
#include "policy/document.h"

#include <boost/json.hpp>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <utility>

namespace glovebox::policy {
namespace {

namespace json = boost::json;
using authority::BudgetKind;
using authority::Effect;
using authority::Rule;

// ---- The body of a document, as ordered JSON.

// The list at `outer`.`inner`, made when first asked for.
json::array& list_at(json::object& body, std::string_view outer, std::string_view inner) {
  json::value& section = body[outer];
  if (section.is_null()) section.emplace_object();
  json::value& list = section.as_object()[inner];
  if (list.is_null()) list.emplace_array();
  return list.as_array();
}

json::array& list_at(json::object& body, std::string_view key) {
  json::value& list = body[key];
  if (list.is_null()) list.emplace_array();
  return list.as_array();
}

json::object one(std::string_view key, std::string_view value) {
  json::object object;
  object[key] = value;
  return object;
}

// Whether a document reads this text as this very path.
bool is_plain_in_documents(const std::string& path) {
  const auto parsed = parse_path_or_pattern(path);
  if (!parsed) return false;
  const auto* plain = std::get_if<authority::AbsolutePath>(&*parsed);
  return plain != nullptr && plain->text() == path;
}

void put_denials(json::object& body, std::vector<PathRule> rules) {
  const auto is_denied = [&](PathUse use) {
    return std::any_of(rules.begin(), rules.end(), [&](const PathRule& rule) {
      return rule.effect == Effect::Deny && rule.use == use;
    });
  };
  // "deny: /srv" in a document is these three.
  const bool in_every_way =
      is_denied(PathUse::Read) && is_denied(PathUse::Exec) && is_denied(PathUse::Connect);
  if (in_every_way) {
    list_at(body, "fs", "deny").emplace_back(rules.front().pattern.text());
    return;
  }
  for (const PathRule& rule : rules) {
    if (rule.effect != Effect::Deny) continue;
    list_at(body, "fs", "deny")
        .emplace_back(
            one(kPathUseWords.at(static_cast<std::size_t>(rule.use)), rule.pattern.text()));
  }
}

// All rules on one path or pattern.
void put_path(json::object& body, const PathPattern& pattern, const std::vector<PathRule>& rules) {
  const std::vector<PathRule> normal = rules_for(effects_of(rules), pattern);
  if (!pattern.has_wildcards() && !is_plain_in_documents(pattern.text())) {
    for (const PathRule& rule : normal) list_at(body, "rules").emplace_back(to_text(rule));
    return;
  }
  for (const PathRule& rule : normal) {
    if (rule.effect != Effect::Allow) continue;
    const std::string_view word = kPathUseWords.at(static_cast<std::size_t>(rule.use));
    const std::string_view section = rule.use == PathUse::Connect ? "net" : "fs";
    list_at(body, section, word).emplace_back(pattern.text());
  }
  put_denials(body, normal);
}

void put_paths(json::object& body, const Policy& policy) {
  std::map<PathPattern, std::vector<PathRule>> groups;
  for (const PathRule& rule : policy.path_rules) groups[rule.pattern].push_back(rule);
  for (const Rule& rule : policy.authority.rules()) {
    const auto used = find_used_path(rule.capability);
    if (!used || rule.effect == Effect::Silent) continue;
    const PathPattern pattern = PathPattern::exactly(used->path);
    groups[pattern].push_back({pattern, used->use, rule.effect});
  }
  for (const auto& [pattern, rules] : groups) put_path(body, pattern, rules);
}

// Where each kind of term stands in a document. Lists take {deny: x} beside bare values.
struct Home {
  std::string_view word;     // of the term
  std::string_view section;  // key of the body
  std::string_view allow;    // key under the section; empty: a bare value of a list
  std::string_view deny;     // key under the section's "deny", or of an entry in the list
};
constexpr std::array<Home, 10> kHomes{{
    {"connect", "net", "connect", ""},
    {"listen", "net", "listen", "listen"},
    {"resolve", "net", "resolve", "resolve"},
    {"import", "imports", "", "deny"},
    {"env", "env", "", "deny"},
    {"secret", "secrets", "", "deny"},
    {"channel", "channels", "", "deny"},
    {"syscalls", "syscalls", "", "deny"},
    {"subprocess", "subprocess", "", "deny"},
    {"subprocess_shell", "subprocess", "shell", "deny_shell"},
}};

void put_term(json::object& body, const Home& home, Effect effect, const std::string& value) {
  const bool allows = effect == Effect::Allow;
  const std::string_view key = allows ? home.allow : home.deny;
  if (home.section == "net") {
    json::array& list = list_at(body, "net", allows ? home.allow : "deny");
    if (allows || key.empty()) {
      list.emplace_back(value);
    } else {
      list.emplace_back(one(key, value));
    }
  } else if (key.empty()) {
    list_at(body, home.section).emplace_back(value);
  } else {
    list_at(body, home.section).emplace_back(one(key, value));
  }
}

std::string exact_amount(BudgetKind kind, std::uint64_t amount) {
  struct Scale {
    std::uint64_t size;
    std::string_view name;
  };
  constexpr std::array<Scale, 4> kBytes{
      {{1U << 30U, "GiB"}, {1U << 20U, "MiB"}, {1U << 10U, "KiB"}, {1, "B"}}};
  switch (authority::info(kind).unit) {
    case authority::Unit::Count: return fmt::format("{}", amount);
    case authority::Unit::PerSecond: return authority::amount_to_text(kind, amount);
    case authority::Unit::Milliseconds:
      return amount % 1000 == 0 ? fmt::format("{}s", amount / 1000) : fmt::format("{}ms", amount);
    case authority::Unit::Bytes: break;
  }
  for (const Scale& scale : kBytes) {
    if (amount % scale.size == 0) return fmt::format("{}{}", amount / scale.size, scale.name);
  }
  return {};
}

void put_rule(json::object& body, const Rule& rule) {
  if (rule.effect == Effect::Silent) {
    list_at(body, "rules")
        .emplace_back(fmt::format("{} {}", authority::to_text(rule.effect),
                                  authority::to_text(rule.capability)));
    return;
  }
  if (find_used_path(rule.capability)) return;  // put_paths() has it
  const std::string_view word = authority::term_word(rule.capability);
  if (word == "clock" || word == "random") {
    body[word] = authority::to_text(rule.effect);
    return;
  }
  const auto* home = std::find_if(kHomes.begin(), kHomes.end(),
                                  [&](const Home& each) { return each.word == word; });
  GLOVEBOX_CHECK(home != kHomes.end());
  put_term(body, *home, rule.effect,
           std::visit([](const auto& kind) { return kind.value_text(); }, rule.capability));
}

std::string thousandths(std::uint64_t milli) {
  return milli % 1000 == 0 ? fmt::format("{}", milli / 1000)
                           : fmt::format("{}.{:03}", milli / 1000, milli % 1000);
}

void put_settings(json::object& body, const Policy& policy) {
  for (const authority::BudgetInfo& info : authority::kBudgets) {
    if (const auto amount = policy.authority.budget(info.kind)) {
      body[info.word] = exact_amount(info.kind, *amount);
    }
  }
  if (policy.cpus_milli) body["cpus"] = thousandths(*policy.cpus_milli);
  if (policy.backend) body["backend"] = to_text(*policy.backend);
  if (policy.workspace) body["workspace"] = to_text(*policy.workspace);
  for (const std::string& name : policy.waived) list_at(body, "waive").emplace_back(name);
}

json::object to_document(const Policy& policy) {
  json::object body;
  if (!policy.description.empty()) body["description"] = policy.description;
  put_paths(body, policy);
  for (const Rule& rule : policy.authority.rules()) {
    if (!authority::find_budget(rule.capability)) put_rule(body, rule);
  }
  put_settings(body, policy);

  json::object document;
  document["version"] = 1;
  if (policy.name.empty()) {
    for (auto& entry : body) document[entry.key()] = std::move(entry.value());
  } else {
    document["sandboxes"].emplace_object()[policy.name] = std::move(body);
  }
  return document;
}

// ---- YAML.

// Text that needs no quotes anywhere in YAML; all else is written as JSON writes it.
bool is_bare(std::string_view text) {
  const auto is_plain = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '/' || c == '.' || c == '-';
  };
  if (text.empty() || !std::all_of(text.begin(), text.end(), is_plain)) return false;
  return text.front() != '-' && text.front() != '.' && !reads_as_other_than_text(text);
}

std::string yaml_scalar(const json::value& value, std::string_view key) {
  if (!value.is_string()) return json::serialize(value);
  const std::string_view text = value.get_string();
  // Limits are amounts, so a number without a unit stands bare.
  const bool is_amount = !key.empty() && text.find_first_not_of("0123456789.") == std::string::npos;
  return is_bare(text) || (is_amount && key != "description") ? std::string(text)
                                                              : json::serialize(value);
}

void write_yaml(std::string& out, const json::object& object, std::size_t indent);

void write_yaml(std::string& out, const json::array& list, std::size_t indent) {
  for (const json::value& item : list) {
    out.append(indent, ' ').append("- ");
    if (const auto* object = item.if_object()) {
      const auto& entry = *object->begin();
      fmt::format_to(std::back_inserter(out), "{}: {}\n", std::string_view(entry.key()),
                     yaml_scalar(entry.value(), {}));
    } else {
      out.append(yaml_scalar(item, {})).append("\n");
    }
  }
}

void write_yaml(std::string& out, const json::object& object, std::size_t indent) {
  for (const auto& entry : object) {
    const std::string_view key = entry.key();
    out.append(indent, ' ')
        .append(is_bare(key) ? std::string(key) : json::serialize(json::string(key)));
    out += ':';
    if (const auto* inner = entry.value().if_object()) {
      out += inner->empty() ? " {}\n" : "\n";
      write_yaml(out, *inner, indent + 2);
    } else if (const auto* list = entry.value().if_array()) {
      out += '\n';
      write_yaml(out, *list, indent + 2);
    } else {
      out.append(" ").append(yaml_scalar(entry.value(), key)).append("\n");
    }
  }
}

}  // namespace

std::string to_yaml(const Policy& policy) {
  std::string text;
  write_yaml(text, to_document(policy), 0);
  return text;
}

std::string to_json(const Policy& policy) { return json::serialize(to_document(policy)); }

std::string to_text(const Policy& policy) {
  std::string text;
  for (const Rule& rule : policy.authority.rules()) {
    if (const auto budget = authority::find_budget(rule.capability)) {
      text += fmt::format("{}={}\n", authority::info(budget->kind).word,
                          exact_amount(budget->kind, budget->amount));
    } else {
      text += authority::to_text(rule) + "\n";
    }
  }
  for (const PathRule& rule : policy.path_rules) {
    if (rule.pattern.has_wildcards()) text += to_text(rule) + "\n";
  }
  if (policy.cpus_milli) text += fmt::format("cpus={}\n", thousandths(*policy.cpus_milli));
  if (policy.backend) text += fmt::format("backend={}\n", to_text(*policy.backend));
  if (policy.workspace) text += fmt::format("workspace={}\n", to_text(*policy.workspace));
  for (const std::string& name : policy.waived) text += fmt::format("waive={}\n", name);
  return text;
}

Result<std::string> digest(const Policy& policy) {
  TRY(json::value authority, authority::to_json(policy.authority));
  json::object normal;
  normal["version"] = 1;
  normal["authority"] = std::move(authority);
  for (const PathRule& rule : policy.path_rules) {
    list_at(normal, "path_rules").emplace_back(to_text(rule));
  }
  if (policy.cpus_milli) normal["cpus_milli"] = *policy.cpus_milli;
  if (policy.backend) normal["backend"] = to_text(*policy.backend);
  if (policy.workspace) normal["workspace"] = to_text(*policy.workspace);
  for (const std::string& name : policy.waived) list_at(normal, "waived").emplace_back(name);
  return "sha256:" + sha256_hex(json::serialize(normal));
}

}  // namespace glovebox::policy
