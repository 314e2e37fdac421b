#include "guest/files/passwd_names.h"

#include "base/file.h"

#include <charconv>
#include <optional>
#include <utility>

namespace glovebox::guest {
namespace {

std::optional<std::uint32_t> parse_number(std::string_view text) {
  std::uint32_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

std::string_view take_field(std::string_view& line, char end) {
  const std::size_t at = line.find(end);
  const std::string_view field = line.substr(0, at);
  line.remove_prefix(at == std::string_view::npos ? line.size() : at + 1);
  return field;
}

}  // namespace

const NameBook::Table& NameBook::filled(Table& table, const char* file) {
  if (std::exchange(table.read, true)) return table;
  const auto text = read_file(file);
  if (!text) return table;
  std::string_view rest = *text;
  while (!rest.empty()) {
    // "name:password:number:..." in both files.
    std::string_view line = take_field(rest, '\n');
    const std::string_view name = take_field(line, ':');
    take_field(line, ':');
    const auto number = parse_number(take_field(line, ':'));
    if (!number || name.empty() || name.size() > 256) continue;
    table.name_of.emplace(*number, name);
    table.number_of.emplace(name, *number);
  }
  return table;
}

std::string NameBook::user_name(std::uint32_t uid) {
  const Table& table = filled(users_, "/etc/passwd");
  const auto found = table.name_of.find(uid);
  return found == table.name_of.end() ? std::string() : found->second;
}

std::string NameBook::group_name(std::uint32_t gid) {
  const Table& table = filled(groups_, "/etc/group");
  const auto found = table.name_of.find(gid);
  return found == table.name_of.end() ? std::string() : found->second;
}

Result<std::uint32_t> NameBook::uid_of(std::string_view text) {
  if (const auto number = parse_number(text)) return *number;
  const Table& table = filled(users_, "/etc/passwd");
  const auto found = table.number_of.find(text);
  if (found == table.number_of.end()) return fail(Code::NotFound, "the box has no user {}", text);
  return found->second;
}

Result<std::uint32_t> NameBook::gid_of(std::string_view text) {
  if (const auto number = parse_number(text)) return *number;
  const Table& table = filled(groups_, "/etc/group");
  const auto found = table.number_of.find(text);
  if (found == table.number_of.end()) return fail(Code::NotFound, "the box has no group {}", text);
  return found->second;
}

Result<Ownership> NameBook::ownership_of(std::string_view owner, std::string_view group) {
  Ownership ownership;
  if (!owner.empty()) {
    TRY(ownership.uid, uid_of(owner));
  }
  if (!group.empty()) {
    TRY(ownership.gid, gid_of(group));
  }
  return ownership;
}

}  // namespace glovebox::guest
