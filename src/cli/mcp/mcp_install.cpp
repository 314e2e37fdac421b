#include "cli/mcp/mcp_install.h"

#include "base/file.h"
#include "base/strict_json.h"

#include <boost/json/serialize.hpp>
#include <boost/json/string.hpp>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>

#include <fcntl.h>
#include <linux/limits.h>
#include <sys/stat.h>
#include <unistd.h>

namespace glovebox::app {
namespace {

namespace json = boost::json;

std::string quoted(std::string_view text) { return json::serialize(json::string(text)); }

std::string quoted_list(const std::vector<std::string>& list) {
  std::string text;
  for (const std::string& each : list) text += (text.empty() ? "" : ", ") + quoted(each);
  return "[" + text + "]";
}

std::string_view trimmed(std::string_view text) {
  const std::size_t first = text.find_first_not_of(" \t\r");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t\r") - first + 1);
}

std::vector<std::string> lines_of(std::string_view text) {
  std::vector<std::string> lines;
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    lines.emplace_back(text.substr(0, end));
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  }
  return lines;
}

// A line of JSON with comments, past strings: where it goes deeper and comes back.
class JsonScanner {
 public:
  explicit JsonScanner(std::string_view text) : text_(text) {}

  // The end of the value that begins at `from`, with nesting, strings and comments in mind.
  std::size_t value_end(std::size_t from) const {
    std::size_t depth = 0;
    for (std::size_t i = from; i < text_.size(); ++i) {
      i = past_comment(i);
      if (i >= text_.size()) break;
      const char each = text_[i];
      if (each == '"') i = string_end(i);
      if (each == '{' || each == '[') ++depth;
      if (each == '}' || each == ']') {
        if (depth == 0) return i;
        if (--depth == 0) return i + 1;
      }
      if (depth == 0 && each == ',') return i;
      if (depth == 0 && each == '"') return i + 1;
    }
    return text_.size();
  }

  // Where the value of a member begins, of the object that begins at `object`.
  std::size_t find_member(std::size_t object, std::string_view name) const {
    std::size_t i = object + 1;
    while (true) {
      i = past_space(i);
      if (i >= text_.size() || text_[i] != '"') return std::string_view::npos;
      const std::size_t end = string_end(i);
      const bool is_found = text_.substr(i + 1, end - i - 1) == name;
      i = past_space(end + 1);
      if (i >= text_.size() || text_[i] != ':') return std::string_view::npos;
      i = past_space(i + 1);
      if (is_found) return i;
      i = past_space(value_end(i));
      if (i < text_.size() && text_[i] == ',') ++i;
    }
  }

  std::size_t past_space(std::size_t i) const {
    while (i < text_.size()) {
      const std::size_t next = past_comment(i);
      if (next != i) {
        i = next;
      } else if (std::string_view(" \t\r\n").find(text_[i]) != std::string_view::npos) {
        ++i;
      } else {
        break;
      }
    }
    return i;
  }

 private:
  std::size_t past_comment(std::size_t i) const {
    if (text_.substr(i, 2) == "//") return std::min(text_.find('\n', i), text_.size());
    if (text_.substr(i, 2) != "/*") return i;
    const std::size_t end = text_.find("*/", i + 2);
    return end == std::string_view::npos ? text_.size() : end + 2;
  }
  std::size_t string_end(std::size_t i) const {
    for (++i; i < text_.size() && text_[i] != '"'; ++i) {
      if (text_[i] == '\\') ++i;
    }
    return i;
  }

  std::string_view text_;
};

Result<void> check_json(std::string_view text) {
  JsonBounds bounds = kAnyLength;
  bounds.form = JsonForm::WithComments;
  TRY(const json::value value, parse_strict_json(text, bounds));
  if (!value.is_object()) return fail(Code::Invalid, "not a JSON object");
  return {};
}

std::string json_value(const ServerEntry& entry, std::string_view indent) {
  return fmt::format("{{\n{0}  \"command\": {1},\n{0}  \"args\": {2}\n{0}}}", indent,
                     quoted(entry.command), quoted_list(entry.arguments));
}

// Writes beside and renames, so that a client never reads half a file. A link stays one.
Result<void> replace_file(const std::string& path, std::string_view text) {
  std::array<char, PATH_MAX> real{};
  const std::string target = ::realpath(path.c_str(), real.data()) != nullptr ? real.data() : path;
  struct stat info{};
  const mode_t mode = ::stat(target.c_str(), &info) == 0 ? info.st_mode & 0777 : 0600;
  const std::string draft = fmt::format("{}.glovebox-{}", target, ::getpid());
  TRY(const UniqueFd file, open_file(draft, O_WRONLY | O_CREAT | O_EXCL, mode));
  auto written = write_all(file, text);
  if (written && ::fsync(file.get()) != 0) written = fail_os(errno, "write {}", draft);
  if (written && ::rename(draft.c_str(), target.c_str()) != 0) {
    written = fail_os(errno, "replace {}", target);
  }
  if (!written) (void)::unlink(draft.c_str());  // the error that matters is the first
  return written;
}

struct Client {
  std::string_view name;
  std::string path;
  std::string_view list;  // of JSON; empty: TOML of Codex
  std::string_view mode;
};

Result<Client> find_client(std::string_view name) {
  const char* home = std::getenv("HOME");
  const std::string base = home == nullptr ? "" : home;
  if (base.empty()) return fail(Code::NotFound, "HOME is not set");
  if (name == "codex") {
    const char* set = std::getenv("CODEX_HOME");
    const std::string place = set != nullptr && *set != '\0' ? set : base + "/.codex";
    if (::access(place.c_str(), F_OK) != 0) {
      return fail(Code::NotFound, "{}: there is no Codex here (CODEX_HOME)", place);
    }
    return Client{name, place + "/config.toml", "", "inherit-codex"};
  }
  if (name == "claude")
    return Client{name, base + "/.claude.json", "mcpServers", "workspace-write"};
  if (name == "cursor") {
    return Client{name, base + "/.cursor/mcp.json", "mcpServers", "workspace-write"};
  }
  if (name == "vscode") return Client{name, ".vscode/mcp.json", "servers", "workspace-write"};
  return fail(Code::Invalid, "--client {}: there are codex, claude, cursor and vscode", name);
}

// Whether that client is used here, as far as can be seen.
bool is_client_here(const Client& client) {
  if (::access(client.path.c_str(), F_OK) == 0) return true;
  if (client.name == "claude") {
    const std::string place = client.path.substr(0, client.path.rfind('/')) + "/.claude";
    return ::access(place.c_str(), F_OK) == 0;
  }
  return ::access(client.path.substr(0, client.path.rfind('/')).c_str(), F_OK) == 0;
}

Result<std::vector<Client>> choose_clients(const InstallRequest& request) {
  std::vector<Client> clients;
  if (request.choice == ClientChoice::Named) {
    for (const std::string& name : request.clients) {
      TRY(Client client, find_client(name));
      clients.push_back(std::move(client));
    }
    return clients;
  }
  for (const char* name : {"codex", "claude", "cursor", "vscode"}) {
    auto client = find_client(name);
    if (!client && client.error().code == Code::NotFound) continue;
    if (!client) return unexpected(std::move(client).error());
    if (is_client_here(*client)) clients.push_back(*std::move(client));
  }
  return clients;
}

ServerEntry make_entry(const Client& client, const std::string& program,
                       const std::string& language, const std::vector<std::string>& more) {
  ServerEntry entry{"glovebox-" + language, program, {"mcp", "--sandbox"}};
  entry.arguments.emplace_back(client.mode);
  for (const char* word : {"--oversized-output", "files", "--interpreter"}) {
    entry.arguments.emplace_back(word);
  }
  entry.arguments.push_back(language);
  entry.arguments.insert(entry.arguments.end(), more.begin(), more.end());
  return entry;
}

Result<void> install_one(const Client& client, const ServerEntry& entry) {
  std::string before;
  auto read = read_file(client.path, std::size_t{16} << 20);
  if (read) {
    before = *std::move(read);
  } else if (read.error().os_errno != ENOENT) {
    return unexpected(std::move(read).error());
  }
  auto after = client.list.empty() ? with_codex_entry(before, entry)
                                   : with_json_entry(before, client.list, entry);
  if (!after) return fail(after.error().code, "{}: {}", client.path, after.error().message);
  if (*after == before) return {};
  const std::size_t slash = client.path.rfind('/');
  (void)::mkdir(client.path.substr(0, slash).c_str(), 0700);  // there already, or told by the next
  return replace_file(client.path, *after);
}

Result<std::string> own_path() {
  std::array<char, PATH_MAX> self{};
  const ssize_t size = ::readlink("/proc/self/exe", self.data(), self.size());
  if (size <= 0) return fail_os(errno, "find the program itself");
  return std::string(self.data(), static_cast<std::size_t>(size));
}

}  // namespace

// The table of the server is replaced line by line: keys that are ours get their value, others and
// comments stay where they are.
Result<std::string> with_codex_entry(std::string_view toml, const ServerEntry& entry) {
  const std::string header = fmt::format("[mcp_servers.{}]", entry.name);
  const std::array<std::pair<std::string_view, std::string>, 4> ours{
      {{"command", quoted(entry.command)},
       {"args", quoted_list(entry.arguments)},
       {"tool_timeout_sec", "1800"},
       {"enabled", "true"}}};
  std::vector<std::string> lines = lines_of(toml);
  auto at =
      std::ranges::find_if(lines, [&](const std::string& line) { return trimmed(line) == header; });
  if (at == lines.end()) {
    if (!lines.empty() && !trimmed(lines.back()).empty()) lines.emplace_back();
    lines.push_back(header);
    at = lines.end() - 1;
  }
  std::size_t end = static_cast<std::size_t>(at - lines.begin()) + 1;
  const std::size_t begin = end;
  while (end < lines.size() && !trimmed(lines[end]).starts_with('[')) ++end;
  std::size_t insert = end;
  while (insert > begin && trimmed(lines[insert - 1]).empty()) --insert;
  for (const auto& [key, value] : ours) {
    const auto is_key = [&](const std::string& line) {
      const std::string_view text = trimmed(line);
      return text.starts_with(key) && trimmed(text.substr(key.size())).starts_with('=');
    };
    const auto first = lines.begin() + static_cast<std::ptrdiff_t>(begin);
    const auto last = lines.begin() + static_cast<std::ptrdiff_t>(insert);
    const auto found = std::find_if(first, last, is_key);
    if (found == last) {
      lines.insert(last, fmt::format("{} = {}", key, value));
      ++insert;
      continue;
    }
    const bool spans = key == "args" && found->find(']') == std::string::npos;
    if (spans) return fail(Code::Unsupported, "{}: args over several lines; join them", header);
    if (key != "enabled" && key != "tool_timeout_sec") *found = fmt::format("{} = {}", key, value);
  }
  std::string text;
  for (const std::string& line : lines) text += line + "\n";
  return text;
}

Result<std::string> with_json_entry(std::string_view text, std::string_view list,
                                    const ServerEntry& entry) {
  std::string file(trimmed(text).empty() ? "{\n}\n" : text);
  TRY_VOID(check_json(file));
  const auto insert = [&](std::size_t object, std::string_view name, const std::string& value,
                          std::string_view indent) {
    const JsonScanner scanner(file);
    const bool is_empty = file[scanner.past_space(object + 1)] == '}';
    file.insert(object + 1,
                fmt::format("\n{}{}: {}{}", indent, quoted(name), value, is_empty ? "" : ","));
  };
  const std::size_t root = JsonScanner(file).past_space(0);
  if (JsonScanner(file).find_member(root, list) == std::string_view::npos) {
    insert(root, list, "{\n  }", "  ");
  }
  const std::size_t servers = JsonScanner(file).find_member(root, list);
  if (file[servers] != '{') return fail(Code::Invalid, "{} is not an object", list);
  const std::size_t old = JsonScanner(file).find_member(servers, entry.name);
  if (old == std::string_view::npos) {
    insert(servers, entry.name, json_value(entry, "    "), "    ");
  } else {
    file.replace(old, JsonScanner(file).value_end(old) - old, json_value(entry, "    "));
  }
  TRY_VOID(check_json(file));  // ours and theirs together are still one document
  return file;
}

Result<std::string> install_mcp(const InstallRequest& request) {
  std::vector<std::string> languages = request.interpreters;
  if (languages.empty()) languages = {"python"};
  for (const std::string& language : languages) {
    if (language == "python" || language == "bash") continue;
    return fail(Code::Invalid, "--interpreter {}: there are python and bash", language);
  }
  for (const std::string& word : request.arguments) {
    if (word.starts_with("--interpreter")) {
      return fail(Code::Invalid, "--arg {}: choose it with --interpreter", word);
    }
  }
  TRY(const std::string program, own_path());
  TRY(const std::vector<Client> clients, choose_clients(request));
  std::string told;
  for (const Client& client : clients) {
    for (const std::string& language : languages) {
      const ServerEntry entry = make_entry(client, program, language, request.arguments);
      if (request.choice != ClientChoice::None) TRY_VOID(install_one(client, entry));
      told += fmt::format("{}: {}: {} = {} {}\n", client.name, client.path, entry.name,
                          entry.command, quoted_list(entry.arguments));
    }
  }
  return told.empty() ? "no client was found here\n" : told;
}

}  // namespace glovebox::app
