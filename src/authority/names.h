// Names as a grant uses them: of secrets and channels, environment variables, commands, modules.
#pragma once

#include "authority/reach.h"
#include "base/result.h"

#include <compare>
#include <span>
#include <string>
#include <string_view>

namespace glovebox::authority {

// Text that a grammar has checked. The grammar is part of the type, so an EnvName cannot be handed
// where a SecretName is wanted, and neither can be made without the check.
template <class Grammar>
class CheckedText {
 public:
  static Result<CheckedText> parse(std::string_view text) {
    TRY_VOID(Grammar::check(text));
    return CheckedText(std::string(text));
  }

  const std::string& text() const { return text_; }

  friend std::strong_ordering operator<=>(const CheckedText&, const CheckedText&) = default;

 private:
  explicit CheckedText(std::string text) : text_(std::move(text)) {}

  std::string text_;
};

// Letters, digits, '_', '.', '-'; starts with a letter, a digit or '_'; 128 bytes at most.
struct SecretGrammar {
  static Result<void> check(std::string_view text);
};
struct ChannelGrammar {
  static Result<void> check(std::string_view text);
};
// Letters, digits and '_', not starting with a digit: what every shell can name.
struct EnvNameGrammar {
  static Result<void> check(std::string_view text);
};
// UTF-8, no control character but tab and newline, as much as execve(2) takes in one string.
struct EnvValueGrammar {
  static Result<void> check(std::string_view text);
};
// What a program calls as argv[0], compared as written: "git", "/usr/bin/git". No comma, which
// separates commands in the text form of a grant.
struct CommandGrammar {
  static Result<void> check(std::string_view text);
};

// A group of system calls that the filter refuses unless it is granted; one of syscall_groups().
struct SyscallGroupGrammar {
  static Result<void> check(std::string_view text);
};
// docs/reference/policy.md says what each brings back.
std::span<const std::string_view> syscall_groups();

using SecretName = CheckedText<SecretGrammar>;
using ChannelName = CheckedText<ChannelGrammar>;
using SyscallGroupName = CheckedText<SyscallGroupGrammar>;
using EnvName = CheckedText<EnvNameGrammar>;
using EnvValue = CheckedText<EnvValueGrammar>;
using CommandName = CheckedText<CommandGrammar>;

// A Python module, or a pattern of modules.
//
//   json       that module alone; json.decoder needs a grant of its own
//   numpy.*    every module below numpy, at any depth; not numpy itself
//   *          every module
//
// Loading a.b makes Python load its parent a first. That is part of importing a.b and the import
// guard's business; a grant on a.b does not make `import a` of its own allowed.
// Components are ASCII identifiers. Python folds other letters together (NFKC), so two spellings
// of one module could differ here; they are refused.
class ModulePattern {
 public:
  static Result<ModulePattern> parse(std::string_view text);

  // Without the ".*"; empty for the pattern of every module.
  const std::string& name() const { return name_; }
  Reach reach() const { return reach_; }
  std::string to_text() const;

  friend std::strong_ordering operator<=>(const ModulePattern&, const ModulePattern&) = default;

 private:
  ModulePattern(std::string name, Reach reach) : name_(std::move(name)), reach_(reach) {}

  std::string name_;
  Reach reach_;
};

}  // namespace glovebox::authority
