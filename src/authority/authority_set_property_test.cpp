// The laws in authority_set.h, checked on random sets against an oracle.
//
// The oracle knows nothing of trees, keys and facets. It takes a list of rules and one question,
// goes through all rules, and lets the most specific that applies decide. It is slow and short, so
// that it can be checked by reading.
//
// Each case has its own seed, printed when it fails together with the rules. GLOVEBOX_TEST_SEED
// sets the seed of the first case.
#include "authority/authority_set.h"
#include "authority/json_codec.h"
#include "authority/terms.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <random>
#include <tuple>

namespace glovebox::authority {
namespace {

// With the sanitizers a case costs thirty times as much, so there are fewer. GLOVEBOX_TEST_CASES
// sets another number.
#if defined(__SANITIZE_ADDRESS__)
constexpr unsigned kCases = 2'000;
#else
constexpr unsigned kCases = 12'000;
#endif

// ---- The world: few things, close together, so that random rules meet.

const std::vector<std::string> kPaths{"/",    "/a",   "/ab",    "/a/b", "/a/b/c",
                                      "/a/c", "/b/a", "/a/b/z", "/a.b"};
const std::vector<std::string> kHosts{
    "*",        "*.",          "0.0.0.0/0",     "10.0.0.0/8",    "10.1.0.0/16",
    "10.1.2.3", "[::/0]",      "[fd00::/8]",    "[fd00::1]",     "[::ffff:10.1.2.3]",
    "*.com",    "example.com", "*.example.com", "a.example.com", "*.a.example.com",
    "ample.com"};
const std::vector<std::string> kAddresses{"*", "127.0.0.0/8", "127.0.0.1", "[::1]", "[::/0]"};
const std::vector<std::string> kPortRanges{"1",       "80",      "80-81", "1-1024",
                                           "400-500", "443-550", "*",     "65535"};
const std::vector<std::string> kPorts{"1",   "2",   "79",   "80",   "81",    "82",
                                      "399", "400", "442",  "443",  "500",   "501",
                                      "550", "551", "1024", "1025", "65534", "65535"};
const std::vector<std::string> kModules{"*", "a", "a.*", "a.b", "a.b.*", "a.b.c", "ab", "b.a"};
const std::vector<std::string> kNames{"*", "com", "*.com", "a.com", "*.a.com", "b.a.com", "ba.com"};
const std::vector<std::string> kVariables{"A", "A=", "A=1", "A=12", "AB", "AB=1", "B=1"};
const std::vector<std::string> kWords{"a", "b", "ab"};

using Random32 = std::mt19937;

std::size_t below(Random32& random, std::size_t bound) {
  return std::uniform_int_distribution<std::size_t>(0, bound - 1)(random);
}

// All terms word=value for the words and values given.
std::vector<Capability> all_terms(const std::vector<std::string>& words,
                                  const std::vector<std::string>& values) {
  std::vector<Capability> all;
  for (const std::string& word : words) {
    for (const std::string& value : values) all.push_back(*parse_term(word, value));
  }
  return all;
}

std::vector<std::string> joined(const std::vector<std::string>& hosts,
                                const std::vector<std::string>& ports) {
  std::vector<std::string> all;
  for (const std::string& host : hosts) {
    for (const std::string& port : ports) all.push_back(fmt::format("{}:{}", host, port));
  }
  return all;
}

// A family: what its rules are made of, and every question that could tell two sets of it apart.
struct Family {
  std::vector<Capability> material;
  std::vector<Capability> questions;
};

const std::vector<Family>& families() {
  static const std::vector<Family> kFamilies = [] {
    const std::vector<std::string> path_words{"read", "write", "exec", "unix"};
    const std::vector<std::string> command_words{"subprocess", "subprocess_shell"};
    const auto same = [](const std::vector<Capability>& terms) { return Family{terms, terms}; };
    return std::vector<Family>{
        same(all_terms(path_words, kPaths)),
        {all_terms({"connect"}, joined(kHosts, kPortRanges)),
         all_terms({"connect"}, joined(kHosts, kPorts))},
        {all_terms({"listen"}, joined(kAddresses, kPortRanges)),
         all_terms({"listen"}, joined(kAddresses, kPorts))},
        same(all_terms({"resolve"}, kNames)),
        same(all_terms({"import"}, kModules)),
        same(all_terms({"env"}, kVariables)),
        same(all_terms(command_words, kWords)),
        same(all_terms({"secret", "channel"}, kWords)),
        same(all_terms({"clock", "random"}, {""})),
    };
  }();
  return kFamilies;
}

Capability random_budget(Random32& random) {
  return *make_budget(kBudgets[below(random, kBudgets.size())].kind, 1 + below(random, 4));
}

Effect random_effect(Random32& random) {
  const std::size_t roll = below(random, 10);
  return roll < 5 ? Effect::Allow : roll < 8 ? Effect::Deny : Effect::Silent;
}

using Rules = std::vector<Rule>;

Rules random_rules(Random32& random, const Family& family) {
  Rules rules;
  for (std::size_t i = below(random, 9); i > 0; --i) {
    rules.push_back(
        {random_effect(random), family.material[below(random, family.material.size())]});
  }
  while (below(random, 3) == 0) rules.push_back({Effect::Allow, random_budget(random)});
  return rules;
}

AuthoritySet set_of(const Rules& rules) { return *AuthoritySet::from_rules(rules); }

// ---- The oracle.

std::size_t labels_in(const std::string& dotted) {
  if (dotted.empty()) return 0;
  return static_cast<std::size_t>(std::count(dotted.begin(), dotted.end(), '.')) + 1;
}

// What a rule says about a question: how deep the place it names, how narrow, or nothing.
struct Match {
  std::size_t depth = 0;
  std::size_t breadth = 0;
};
using MaybeMatch = std::optional<Match>;

MaybeMatch match_path(const AbsolutePath& rule, const AbsolutePath& question) {
  if (!rule.contains(question)) return std::nullopt;
  const std::string& text = rule.text();
  const auto slashes = static_cast<std::size_t>(std::count(text.begin(), text.end(), '/'));
  return Match{text == "/" ? 0 : slashes};
}

bool name_is_below(const std::string& name, const std::string& above, Reach reach,
                   bool above_is_at_the_end) {
  if (above.empty()) return true;
  if (name == above) return reach == Reach::Below;
  return above_is_at_the_end ? name.ends_with("." + above) : name.starts_with(above + ".");
}

template <class Pattern>
MaybeMatch match_dotted(const Pattern& rule, const Pattern& question, bool above_is_at_the_end) {
  const bool applies =
      rule.reach() == Reach::Exact
          ? rule == question
          : name_is_below(question.name(), rule.name(), question.reach(), above_is_at_the_end);
  if (!applies) return std::nullopt;
  return Match{1 + labels_in(rule.name())};
}

MaybeMatch match_network(const IpNetwork& rule, const IpNetwork& question) {
  if (rule.family() != question.family() || rule.prefix() > question.prefix()) return std::nullopt;
  for (unsigned bit = 0; bit < rule.prefix(); ++bit) {
    const unsigned mask = 0x80U >> bit % 8;
    if ((rule.bytes()[bit / 8] & mask) != (question.bytes()[bit / 8] & mask)) return std::nullopt;
  }
  return Match{1 + rule.prefix()};
}

MaybeMatch match_host(const HostPattern& rule, const HostPattern& question) {
  if (std::holds_alternative<AnyHost>(rule)) return Match{0};
  if (rule.index() != question.index()) return std::nullopt;
  if (const auto* network = std::get_if<IpNetwork>(&rule)) {
    return match_network(*network, std::get<IpNetwork>(question));
  }
  return match_dotted(std::get<DomainPattern>(rule), std::get<DomainPattern>(question),
                      /*above_is_at_the_end=*/true);
}

HostPattern as_host(const ListenAddress& address) {
  if (const auto* network = std::get_if<IpNetwork>(&address)) return *network;
  return AnyHost{};
}

MaybeMatch with_ports(MaybeMatch match, PortRange rule, PortRange question) {
  if (!match || question.first() < rule.first() || question.last() > rule.last()) {
    return std::nullopt;
  }
  return Match{match->depth, static_cast<std::size_t>(rule.last() - rule.first()) + 1};
}

template <class Kind>
const Kind* as(const Capability& capability) {
  return std::get_if<Kind>(&capability);
}

// Reading and writing: who allows writing allows reading, who takes reading away takes both.
MaybeMatch match_read_write(const Rule& rule, const Capability& question) {
  const bool rule_writes = as<WritePath>(rule.capability) != nullptr;
  const bool asks_to_write = as<WritePath>(question) != nullptr;
  const bool speaks_of_it =
      rule_writes == asks_to_write || (rule_writes == (rule.effect == Effect::Allow));
  if (!speaks_of_it) return std::nullopt;
  const auto path_of = [](const Capability& capability) {
    const auto* read = as<ReadPath>(capability);
    return read != nullptr ? read->path : as<WritePath>(capability)->path;
  };
  return match_path(path_of(rule.capability), path_of(question));
}

MaybeMatch match_env(const Rule& rule, const Env& question) {
  const Env& env = *as<Env>(rule.capability);
  if (env == question) return Match{env.value ? 2U : 1U};
  const bool takes_all_values = !env.value && rule.effect != Effect::Allow;
  if (takes_all_values && env.name == question.name) return Match{1};
  return std::nullopt;
}

MaybeMatch match_subprocess(const Rule& rule, const Subprocess& question) {
  const Subprocess& subprocess = *as<Subprocess>(rule.capability);
  const bool rule_has_shell = subprocess.shell() == Shell::Allowed;
  const bool speaks_of_it =
      subprocess.shell() == question.shell() || rule_has_shell == (rule.effect == Effect::Allow);
  if (!speaks_of_it || subprocess.commands() != question.commands()) return std::nullopt;
  return Match{};
}

MaybeMatch match(const Rule& rule, const Capability& question) {
  const auto is_read_write = [](const Capability& c) {
    return as<ReadPath>(c) != nullptr || as<WritePath>(c) != nullptr;
  };
  if (is_read_write(rule.capability) && is_read_write(question)) {
    return match_read_write(rule, question);
  }
  if (rule.capability.index() != question.index()) return std::nullopt;
  if (const auto* exec = as<ExecPath>(rule.capability)) {
    return match_path(exec->path, as<ExecPath>(question)->path);
  }
  if (const auto* socket = as<ConnectUnix>(rule.capability)) {
    return match_path(socket->path, as<ConnectUnix>(question)->path);
  }
  if (const auto* connect = as<ConnectTCP>(rule.capability)) {
    const auto* asked = as<ConnectTCP>(question);
    return with_ports(match_host(connect->host, asked->host), connect->ports, asked->ports);
  }
  if (const auto* listen = as<ListenTCP>(rule.capability)) {
    const auto* asked = as<ListenTCP>(question);
    return with_ports(match_host(as_host(listen->address), as_host(asked->address)), listen->ports,
                      asked->ports);
  }
  if (const auto* resolve = as<ResolveName>(rule.capability)) {
    return match_dotted(resolve->name, as<ResolveName>(question)->name,
                        /*above_is_at_the_end=*/true);
  }
  if (const auto* import = as<Import>(rule.capability)) {
    return match_dotted(import->module, as<Import>(question)->module,
                        /*above_is_at_the_end=*/false);
  }
  if (const auto* env = as<Env>(question)) return match_env(rule, *env);
  if (const auto* subprocess = as<Subprocess>(question)) return match_subprocess(rule, *subprocess);
  return rule.capability == question ? MaybeMatch(Match{}) : std::nullopt;
}

// The weaker right that a capability implies.
std::optional<Capability> implied_by(const Capability& capability) {
  if (const auto* write = as<WritePath>(capability)) return ReadPath{write->path};
  const auto* subprocess = as<Subprocess>(capability);
  if (subprocess == nullptr || subprocess->shell() == Shell::Refused) return std::nullopt;
  return *Subprocess::make(subprocess->commands(), Shell::Refused);
}

Effect oracle(const Rules& rules, const Capability& question);

// A Silent rule about writing cannot lift the denial of it where reading is denied.
Effect effect_of(const Rule& rule, const Rules& rules) {
  if (rule.effect != Effect::Silent) return rule.effect;
  const auto weaker = implied_by(rule.capability);
  return weaker && oracle(rules, *weaker) == Effect::Deny ? Effect::Deny : Effect::Silent;
}

Effect oracle(const Rules& rules, const Capability& question) {
  using Rank = std::tuple<std::size_t, std::size_t, int>;  // deeper, narrower, then giving less
  std::optional<Rank> best;
  Effect effect = Effect::Silent;
  for (const Rule& rule : rules) {
    const MaybeMatch found = match(rule, question);
    if (!found) continue;
    const Effect said = effect_of(rule, rules);
    const int severity = said == Effect::Deny ? 2 : said == Effect::Silent ? 1 : 0;
    const Rank rank{found->depth, 100'000 - found->breadth, severity};
    if (best && rank < *best) continue;
    best = rank;
    effect = said;
  }
  return effect;
}

// ---- The cases.

// Three random sources of one family, and what is printed when a law fails on them.
struct Case {
  unsigned seed;
  const Family* family;
  Rules a, b, c;

  std::string text() const {
    std::string out = fmt::format("seed {}\n", seed);
    for (const Rules* rules : {&a, &b, &c}) {
      out += "source:\n";
      for (const Rule& rule : *rules) out += "  " + to_text(rule) + "\n";
    }
    return out;
  }
};

Case random_case(unsigned seed) {
  Random32 random(seed);
  const Family& family = families()[below(random, families().size())];
  Case one{seed, &family, {}, {}, {}};
  one.a = random_rules(random, family);
  one.b = random_rules(random, family);
  one.c = random_rules(random, family);
  return one;
}

unsigned from_environment(const char* name, unsigned otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr ? otherwise : static_cast<unsigned>(std::strtoul(text, nullptr, 10));
}

unsigned first_seed() { return from_environment("GLOVEBOX_TEST_SEED", 20'000); }

// Stops at the first case that fails: one is enough to read.
void for_each_case(const std::function<void(const Case&)>& check) {
  const unsigned cases = from_environment("GLOVEBOX_TEST_CASES", kCases);
  for (unsigned i = 0; i < cases; ++i) {
    const Case one = random_case(first_seed() + i);
    check(one);
    if (testing::Test::HasFailure()) {
      ADD_FAILURE() << one.text();
      return;
    }
  }
}

Effect verdict(const AuthoritySet& set, const Capability& question) {
  return set.decide(question).effect;
}

TEST(AuthoritySetLaws, TheMostSpecificRuleDecides) {
  for_each_case([](const Case& one) {
    const AuthoritySet a = set_of(one.a);
    for (const Capability& question : one.family->questions) {
      ASSERT_EQ(verdict(a, question), oracle(one.a, question)) << to_text(question);
    }
  });
}

TEST(AuthoritySetLaws, DecideNamesARuleThatSpeaksOfIt) {
  for_each_case([](const Case& one) {
    const AuthoritySet a = set_of(one.a);
    for (const Capability& question : one.family->questions) {
      const Decision decision = a.decide(question);
      if (const auto* path = std::get_if<WritePath>(&question)) {
        const AuthoritySet::PathEffects effects = a.effects_at(path->path);
        ASSERT_EQ(effects.write, decision.effect);
        ASSERT_EQ(effects.read, verdict(a, ReadPath{path->path}));
        ASSERT_EQ(effects.exec, verdict(a, ExecPath{path->path}));
        ASSERT_EQ(effects.connect, verdict(a, ConnectUnix{path->path}));
      }
      if (!decision.rule) {
        ASSERT_EQ(decision.effect, Effect::Silent) << to_text(question);
        continue;
      }
      ASSERT_EQ(decision.rule->effect, decision.effect) << to_text(question);
      const auto weaker = implied_by(question);
      const bool speaks_of_it =
          match(*decision.rule, question) || (weaker && match(*decision.rule, *weaker));
      ASSERT_TRUE(speaks_of_it) << to_text(question);
    }
  });
}

TEST(AuthoritySetLaws, UniteJoinsVerdictByVerdict) {
  for_each_case([](const Case& one) {
    const AuthoritySet both = set_of(one.a).unite(set_of(one.b));
    for (const Capability& question : one.family->questions) {
      const Effect a = oracle(one.a, question);
      const Effect b = oracle(one.b, question);
      const bool denied = a == Effect::Deny || b == Effect::Deny;
      const bool allowed = a == Effect::Allow || b == Effect::Allow;
      const Effect expected = denied ? Effect::Deny : allowed ? Effect::Allow : Effect::Silent;
      ASSERT_EQ(verdict(both, question), expected) << to_text(question);
    }
  });
}

TEST(AuthoritySetLaws, AttenuateJoinsVerdictByVerdict) {
  for_each_case([](const Case& one) {
    const AuthoritySet both = set_of(one.a).attenuate(set_of(one.b));
    for (const Capability& question : one.family->questions) {
      const Effect a = oracle(one.a, question);
      const Effect b = oracle(one.b, question);
      const bool denied = a == Effect::Deny || b == Effect::Deny;
      const bool allowed = a == Effect::Allow && b == Effect::Allow;
      const Effect expected = denied ? Effect::Deny : allowed ? Effect::Allow : Effect::Silent;
      ASSERT_EQ(verdict(both, question), expected) << to_text(question);
    }
  });
}

bool budgets_fit(const AuthoritySet& asked, const AuthoritySet& held) {
  return std::all_of(kBudgets.begin(), kBudgets.end(), [&](const BudgetInfo& info) {
    const auto limit = held.budget(info.kind);
    return !limit || (asked.budget(info.kind) && *asked.budget(info.kind) <= *limit);
  });
}

// The questions hold every place and every edge between ports, so covers() must agree exactly.
TEST(AuthoritySetLaws, CoversIsAboutEveryVerdict) {
  for_each_case([](const Case& one) {
    const AuthoritySet a = set_of(one.a);
    const AuthoritySet b = set_of(one.b);
    const auto& questions = one.family->questions;
    const bool grants_fit = std::all_of(questions.begin(), questions.end(), [&](const auto& each) {
      return oracle(one.b, each) != Effect::Allow || oracle(one.a, each) == Effect::Allow;
    });
    ASSERT_EQ(a.covers(b), grants_fit && budgets_fit(b, a));
  });
}

TEST(AuthoritySetLaws, MinusIsWhatIsMissing) {
  for_each_case([](const Case& one) {
    const AuthoritySet held = set_of(one.a);
    const AuthoritySet asked = set_of(one.b);
    const Shortfall missing = asked.minus(held);
    ASSERT_EQ(missing.empty(), held.covers(asked));
    ASSERT_EQ(missing.budgets.empty(), budgets_fit(asked, held));
    ASSERT_EQ(missing.grants, set_of(missing.grants.rules()));
    for (const Capability& question : one.family->questions) {
      const bool is_asked = oracle(one.b, question) == Effect::Allow;
      const bool is_held = oracle(one.a, question) == Effect::Allow;
      if (is_asked && !is_held) {
        ASSERT_EQ(verdict(missing.grants, question), Effect::Allow) << to_text(question);
      }
      // What is not asked is never missing; what is held may be named if it is implied.
      if (!is_asked) {
        ASSERT_EQ(verdict(missing.grants, question), Effect::Silent) << to_text(question);
      }
    }
  });
}

Rules without_denials(Rules rules) {
  std::erase_if(rules, [](const Rule& rule) { return rule.effect == Effect::Deny; });
  return rules;
}

TEST(AuthoritySetLaws, AddingWhatIsMissingSuffices) {
  for_each_case([](const Case& one) {
    const AuthoritySet held = set_of(without_denials(one.a));
    const AuthoritySet asked = set_of(one.b);
    const AuthoritySet enough = held.unite(asked.minus(held).grants);
    ASSERT_TRUE(asked.minus(enough).grants.empty());
  });
}

TEST(AuthoritySetLaws, UniteIsIdempotentCommutativeAssociative) {
  for_each_case([](const Case& one) {
    const AuthoritySet a = set_of(one.a);
    const AuthoritySet b = set_of(one.b);
    const AuthoritySet c = set_of(one.c);
    ASSERT_EQ(a.unite(a), a);
    ASSERT_EQ(a.unite(b), b.unite(a));
    ASSERT_EQ(a.unite(b).unite(c), a.unite(b.unite(c)));
    ASSERT_EQ(a.unite(AuthoritySet()), a);
  });
}

TEST(AuthoritySetLaws, AttenuateIsIdempotentCommutativeAssociative) {
  for_each_case([](const Case& one) {
    const AuthoritySet a = set_of(one.a);
    const AuthoritySet b = set_of(one.b);
    const AuthoritySet c = set_of(one.c);
    ASSERT_EQ(a.attenuate(a), a);
    ASSERT_EQ(a.attenuate(b), b.attenuate(a));
    ASSERT_EQ(a.attenuate(b).attenuate(c), a.attenuate(b.attenuate(c)));
  });
}

TEST(AuthoritySetLaws, AttenuateNeverWidens) {
  for_each_case([](const Case& one) {
    const AuthoritySet a = set_of(one.a);
    const AuthoritySet b = set_of(one.b);
    const AuthoritySet c = set_of(one.c);
    const AuthoritySet both = a.attenuate(b);
    ASSERT_TRUE(a.covers(both));
    ASSERT_TRUE(b.covers(both));
    ASSERT_TRUE(AuthoritySet().attenuate(a).grants_nothing());
    // And it takes no more than it must. Few random sets lie inside both, so one is made, too.
    ASSERT_TRUE(!a.covers(c) || !b.covers(c) || both.covers(c));
    const AuthoritySet inside = c.attenuate(a).attenuate(b);
    ASSERT_TRUE(a.covers(inside) && b.covers(inside) && both.covers(inside));
  });
}

TEST(AuthoritySetLaws, CoversIsReflexiveAndTransitive) {
  for_each_case([](const Case& one) {
    const AuthoritySet a = set_of(one.a);
    const AuthoritySet b = set_of(one.b);
    const AuthoritySet c = set_of(one.c);
    ASSERT_TRUE(a.covers(a));
    ASSERT_EQ(AuthoritySet().covers(a), a.grants_nothing());
    ASSERT_TRUE(!a.covers(b) || !b.covers(c) || a.covers(c));
    // Random sets seldom form a chain, so one is made.
    const AuthoritySet middle = a.attenuate(b);
    const AuthoritySet low = middle.attenuate(c);
    ASSERT_TRUE(a.covers(middle) && middle.covers(low) && a.covers(low));
  });
}

TEST(AuthoritySetLaws, NormalFormIsStableAndHasNoSpareRule) {
  for_each_case([](const Case& one) {
    for (const AuthoritySet& set :
         {set_of(one.a), set_of(one.a).unite(set_of(one.b)), set_of(one.a).attenuate(set_of(one.b)),
          set_of(one.a).minus(set_of(one.b)).grants}) {
      const Rules rules = set.rules();
      ASSERT_EQ(set_of(rules), set) << to_text(set);
      ASSERT_EQ(set_of(rules).rules(), rules);
      for (std::size_t i = 0; i < rules.size(); ++i) {
        Rules fewer = rules;
        fewer.erase(fewer.begin() + static_cast<std::ptrdiff_t>(i));
        ASSERT_NE(set_of(fewer), set) << "to spare: " << to_text(rules[i]) << "\n" << to_text(set);
      }
    }
  });
}

TEST(AuthoritySetLaws, OrderAndDoublesOfRulesDoNotMatter) {
  for_each_case([](const Case& one) {
    Rules shuffled = one.a;
    shuffled.insert(shuffled.end(), one.a.begin(), one.a.end());
    std::shuffle(shuffled.begin(), shuffled.end(), Random32(one.seed));
    ASSERT_EQ(set_of(shuffled), set_of(one.a));
  });
}

TEST(AuthoritySetLaws, JsonAndTermsRoundTripToEquality) {
  for_each_case([](const Case& one) {
    for (const Rule& rule : one.a) {
      ASSERT_EQ(*decode_capability(encode_capability(rule.capability)), rule.capability);
      ASSERT_EQ(*parse_term(to_text(rule.capability)), rule.capability);
    }
    for (const AuthoritySet& set :
         {set_of(one.a), set_of(one.a).unite(set_of(one.b)), set_of(one.a).attenuate(set_of(one.b)),
          set_of(one.a).minus(set_of(one.b)).grants}) {
      const std::string text = *encode_set(set);
      ASSERT_EQ(*decode_set(text), set) << text;
      ASSERT_EQ(*encode_set(*decode_set(text)), text);
    }
  });
}

// All families in one set: what one tree says does not reach another.
TEST(AuthoritySetLaws, FamiliesDoNotMeet) {
  Random32 random(first_seed());
  for (unsigned i = 0; i < 500; ++i) {
    Rules all;
    std::vector<Rules> parts;
    for (const Family& family : families()) {
      parts.push_back(random_rules(random, family));
      all.insert(all.end(), parts.back().begin(), parts.back().end());
    }
    const AuthoritySet set = set_of(all);
    ASSERT_EQ(*decode_set(*encode_set(set)), set) << to_text(set);
    for (std::size_t f = 0; f < families().size(); ++f) {
      const Capability& question =
          families()[f].questions[below(random, families()[f].questions.size())];
      ASSERT_EQ(verdict(set, question), oracle(parts[f], question))
          << "round " << i << ": " << to_text(question) << "\n"
          << to_text(set);
    }
  }
}

}  // namespace
}  // namespace glovebox::authority
