#include "authority/terms.h"
#include "base/file.h"
#include "cli/commands.h"
#include "cli/policy_options.h"
#include "policy/explain.h"
#include "policy/load.h"
#include "policy/print.h"
#include "policy/templates.h"

#include <CLI/CLI.hpp>

#include <string>
#include <vector>

namespace glovebox::app {
namespace {

constexpr int kWrong = 1;

int print(const std::string& text) {
  const auto written = write_all(BorrowedFd(1), text);
  return written ? 0 : refuse(written.error());
}

// What is wrong with documents goes to standard error, a line each, ready for an editor.
int complain(const policy::Diagnostics& problems) {
  (void)write_all(BorrowedFd(2), policy::to_text(problems));  // nothing else to tell it to
  return kWrong;
}

Result<std::string> summary(const policy::CompiledPolicy& compiled, std::string_view name) {
  TRY(const std::string digest, policy::digest(compiled.policy));
  return fmt::format("{:<14} {}  {}\n", name, digest, compiled.policy.description);
}

int check(const std::vector<std::string>& files) {
  policy::Diagnostics problems;
  std::string good;
  for (const std::string& file : files) {
    const auto loaded = policy::load_policy_file(policy::parse_reference(file));
    if (!loaded) {
      problems.insert(problems.end(), loaded.error().begin(), loaded.error().end());
      continue;
    }
    good += fmt::format("{}: ok, {} {}\n", file, loaded->sandboxes.size(),
                        loaded->sandboxes.size() == 1 ? "sandbox" : "sandboxes");
  }
  const int printed = print(good);
  return problems.empty() ? printed : complain(problems);
}

int show(const std::string& name, const std::string& format) {
  const auto compiled = policy::load_policy(name);
  if (!compiled) return complain(compiled.error());
  if (format == "yaml") return print(policy::to_yaml(compiled->policy));
  if (format == "json") return print(policy::to_json(compiled->policy));
  const auto digest = policy::digest(compiled->policy);
  if (!digest) return refuse(digest.error());
  return print(policy::to_text(compiled->policy) + fmt::format("digest {}\n", *digest));
}

// Every question that was asked, in the words of terms.
Result<std::vector<authority::Capability>> questions(const PolicyOptions& options) {
  const std::pair<const char*, const std::vector<std::string>&> asked[] = {
      {"read", options.read},       {"write", options.write},   {"exec", options.exec},
      {"connect", options.connect}, {"import", options.import}, {"env", options.env}};
  std::vector<authority::Capability> list;
  for (const auto& [word, values] : asked) {
    for (const std::string& value : values) {
      TRY(authority::Capability capability, authority::parse_term(word, value));
      list.push_back(std::move(capability));
    }
  }
  for (const std::string& term : options.terms) {
    TRY(authority::Capability capability, authority::parse_term(term));
    list.push_back(std::move(capability));
  }
  if (list.empty()) {
    return fail(
        Code::Invalid,
        "nothing asked: add --read PATH, --connect HOST:PORT, --import MODULE or --ask TERM");
  }
  return list;
}

// 0 when all of it is allowed, 1 when some is not.
int explain(const PolicyOptions& options) {
  const auto compiled = policy::load_policy(options.first);
  if (!compiled) return complain(compiled.error());
  const auto asked = questions(options);
  if (!asked) return refuse(asked.error());
  std::string text;
  bool all = true;
  for (const authority::Capability& question : *asked) {
    const policy::Explanation explanation = policy::explain(*compiled, question);
    all = all && explanation.effect == authority::Effect::Allow;
    text += policy::to_text(explanation);
  }
  const int printed = print(text);
  return printed != 0 ? printed : all ? 0 : kWrong;
}

int diff(const std::string& first, const std::string& second) {
  const auto before = policy::load_policy(first);
  if (!before) return complain(before.error());
  const auto after = policy::load_policy(second);
  if (!after) return complain(after.error());
  const policy::PolicyDifference difference = policy::difference(before->policy, after->policy);
  if (difference.empty())
    return print(fmt::format("{} allows nothing that {} does not\n", second, first));
  const int printed = print(policy::to_text(difference));
  return printed != 0 ? printed : kWrong;
}

int list() {
  std::string text;
  for (const std::string_view name : policy::template_names()) {
    const auto compiled = policy::load_policy(name);
    if (!compiled) return complain(compiled.error());
    const auto line = summary(*compiled, name);
    if (!line) return refuse(line.error());
    text += *line;
  }
  return print(text);
}

}  // namespace

void add_policy_options(CLI::App& app, PolicyOptions& options) {
  app.require_subcommand(1);
  const auto choose = [&](CLI::App* chosen, PolicyOptions::Act act) {
    chosen->callback([&options, act] { options.act = act; });
  };
  CLI::App* check = app.add_subcommand("check", "Say what is wrong with policy files");
  check->add_option("FILE", options.files, "Files, or names of templates")->required();
  choose(check, PolicyOptions::Act::Check);

  CLI::App* show = app.add_subcommand("show", "Print what a policy comes to, and its digest");
  show->add_option("POLICY", options.first, "NAME of a template, or FILE[#SANDBOX]")->required();
  show->add_option("--format", options.format, "yaml, json or normal (default)")
      ->check(CLI::IsMember({"yaml", "json", "normal"}));
  choose(show, PolicyOptions::Act::Show);

  CLI::App* explain = app.add_subcommand("explain", "Say which rule decides, and what is missing");
  explain->add_option("POLICY", options.first, "NAME of a template, or FILE[#SANDBOX]")->required();
  explain->add_option("--read", options.read, "May it read PATH? (repeatable, as all of these)");
  explain->add_option("--write", options.write, "May it write PATH?");
  explain->add_option("--exec", options.exec, "May it execute PATH?");
  explain->add_option("--connect", options.connect, "May it connect to HOST:PORT?");
  explain->add_option("--import", options.import, "May it import MODULE?");
  explain->add_option("--env", options.env, "May it have the variable NAME[=VALUE]?");
  explain->add_option("--ask", options.terms, "Any capability: KIND=VALUE");
  choose(explain, PolicyOptions::Act::Explain);

  CLI::App* diff = app.add_subcommand("diff", "Print what policy B allows that A does not");
  diff->add_option("A", options.first, "NAME of a template, or FILE[#SANDBOX]")->required();
  diff->add_option("B", options.second, "The same")->required();
  choose(diff, PolicyOptions::Act::Diff);

  choose(app.add_subcommand("list", "List the templates"), PolicyOptions::Act::List);
}

int policy_command(const PolicyOptions& options) {
  switch (options.act) {
    case PolicyOptions::Act::Check: return check(options.files);
    case PolicyOptions::Act::Show: return show(options.first, options.format);
    case PolicyOptions::Act::Explain: return explain(options);
    case PolicyOptions::Act::Diff: return diff(options.first, options.second);
    case PolicyOptions::Act::List: return list();
  }
  return kRefusedExit;
}

}  // namespace glovebox::app
