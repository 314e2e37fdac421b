#include "authority/names.h"

#include "base/plain_text.h"

#include <algorithm>
#include <array>
#include <cstddef>

namespace glovebox::authority {
namespace {

constexpr std::size_t kMaxNameBytes = 128;
constexpr std::size_t kMaxModuleBytes = 512;
constexpr std::size_t kMaxCommandBytes = 4095;
constexpr std::size_t kMaxEnvValueBytes = 128 * 1024 - 512;  // MAX_ARG_STRLEN, with "NAME=" in it

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_word(char c) { return is_letter(c) || is_digit(c) || c == '_'; }
bool is_name(char c) { return is_word(c) || c == '.' || c == '-'; }

bool is_identifier(std::string_view text) {
  return !text.empty() && !is_digit(text.front()) && std::all_of(text.begin(), text.end(), is_word);
}

Result<void> check_plain_name(std::string_view what, std::string_view text) {
  const bool has_good_size = !text.empty() && text.size() <= kMaxNameBytes;
  if (!has_good_size || !is_word(text.front()) || !std::all_of(text.begin(), text.end(), is_name)) {
    return fail(Code::Invalid, "{} {}: a name is 1 to {} letters, digits, '_', '.', '-'", what,
                quoted(text), kMaxNameBytes);
  }
  return {};
}

}  // namespace

Result<void> SecretGrammar::check(std::string_view text) {
  return check_plain_name("secret", text);
}

Result<void> ChannelGrammar::check(std::string_view text) {
  return check_plain_name("channel", text);
}

std::span<const std::string_view> syscall_groups() {
  static constexpr std::array<std::string_view, 9> kGroups{
      "ioctl", "mqueue", "numa", "prctl", "sched", "shadow-stack", "splice", "sync", "sysv-ipc"};
  return kGroups;
}

Result<void> SyscallGroupGrammar::check(std::string_view text) {
  if (std::ranges::count(syscall_groups(), text) != 0) return {};
  return fail(Code::Invalid, "syscalls {}: no such group of system calls (one of: {})",
              quoted(text), fmt::join(syscall_groups(), ", "));
}

Result<void> EnvNameGrammar::check(std::string_view text) {
  if (!is_identifier(text) || text.size() > kMaxNameBytes) {
    return fail(
        Code::Invalid,
        "environment variable {}: a name is 1 to {} letters, digits and '_', no digit first",
        quoted(text), kMaxNameBytes);
  }
  return {};
}

Result<void> EnvValueGrammar::check(std::string_view text) {
  if (text.size() > kMaxEnvValueBytes) {
    return fail(Code::Invalid, "environment value: longer than {} bytes", kMaxEnvValueBytes);
  }
  std::string without_spacing(text);
  std::erase_if(without_spacing, [](char c) { return c == '\t' || c == '\n'; });
  if (!is_plain_text(without_spacing)) {
    return fail(Code::Invalid,
                "environment value: must be UTF-8 without control characters but tab and newline");
  }
  return {};
}

Result<void> CommandGrammar::check(std::string_view text) {
  if (text.empty() || text.size() > kMaxCommandBytes) {
    return fail(Code::Invalid, "command {}: must have 1 to {} bytes", quoted(text),
                kMaxCommandBytes);
  }
  if (!is_plain_text(text) || text.find(',') != std::string_view::npos) {
    return fail(Code::Invalid, "command {}: must be UTF-8 without control characters and commas",
                quoted(text));
  }
  return {};
}

Result<ModulePattern> ModulePattern::parse(std::string_view text) {
  if (text == "*") return ModulePattern("", Reach::Below);
  const Reach reach = text.ends_with(".*") ? Reach::Below : Reach::Exact;
  const std::string_view name = reach == Reach::Below ? text.substr(0, text.size() - 2) : text;
  if (name.size() > kMaxModuleBytes) {
    return fail(Code::Invalid, "module {}: longer than {} bytes", quoted(text), kMaxModuleBytes);
  }
  for (std::size_t at = 0; at <= name.size();) {
    const std::size_t dot = std::min(name.find('.', at), name.size());
    if (!is_identifier(name.substr(at, dot - at))) {
      return fail(Code::Invalid, "module {}: write 'json', 'os.path' or 'numpy.*' (ASCII names)",
                  quoted(text));
    }
    at = dot + 1;
  }
  return ModulePattern(std::string(name), reach);
}

std::string ModulePattern::to_text() const {
  if (reach_ == Reach::Exact) return name_;
  return name_.empty() ? "*" : name_ + ".*";
}

}  // namespace glovebox::authority
