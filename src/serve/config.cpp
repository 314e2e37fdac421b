#include "serve/config.h"

#include "base/file.h"

#define TOML_EXCEPTIONS 0
#define TOML_ENABLE_FORMATTERS 0
#include <toml++/toml.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <map>

namespace glovebox::serve {
namespace {

constexpr std::size_t kMaxConfig = 1 << 20;
constexpr std::int64_t kMostBytes = std::int64_t{1} << 50;
constexpr std::int64_t kMostSeconds = 10LL * 365 * 24 * 3600;

class Problems {
 public:
  explicit Problems(std::string_view file) : file_(file) {}

  template <class... Args>
  void add(std::int64_t line, fmt::format_string<Args...> text, Args&&... args) {
    lines_ += fmt::format("{}{}:{}: {}", lines_.empty() ? "" : "\n", file_, line,
                          fmt::format(text, std::forward<Args>(args)...));
  }
  const std::string& text() const { return lines_; }

 private:
  std::string file_;
  std::string lines_;
};

std::int64_t line_of(const toml::node& node) { return node.source().begin.line; }

// Reads one table. A key that was not asked for is a problem when the reader goes.
class TableReader {
 public:
  TableReader(const toml::table& table, std::string prefix, Problems& problems)
      : table_(table), prefix_(std::move(prefix)), problems_(problems) {}
  ~TableReader() {
    for (const auto& [key, value] : table_) {
      if (known_.contains(std::string(key.str()))) continue;
      problems_.add(key.source().begin.line, "there is no key '{}{}'", prefix_, key.str());
    }
  }
  TableReader(const TableReader&) = delete;
  TableReader& operator=(const TableReader&) = delete;

  void text(std::string_view key, std::string& into) {
    const toml::node* node = find(key);
    if (node == nullptr) return;
    if (const auto value = node->value_exact<std::string>()) {
      into = *value;
    } else {
      wrong(*node, key, "a text");
    }
  }
  void path(std::string_view key, std::string& into) {
    text(key, into);
    const toml::node* node = find(key);
    if (node != nullptr && !into.empty() && !into.starts_with('/')) {
      problems_.add(line_of(*node), "'{}{}' is an absolute path", prefix_, key);
    }
  }
  void flag(std::string_view key, bool& into) {
    const toml::node* node = find(key);
    if (node == nullptr) return;
    if (const auto value = node->value_exact<bool>()) {
      into = *value;
    } else {
      wrong(*node, key, "true or false");
    }
  }
  template <class Number>
  void number(std::string_view key, Number& into, std::int64_t least, std::int64_t most) {
    const toml::node* node = find(key);
    if (node == nullptr) return;
    const auto value = node->value_exact<std::int64_t>();
    if (value && *value >= least && *value <= most) {
      into = static_cast<Number>(*value);
    } else {
      wrong(*node, key, fmt::format("a whole number from {} to {}", least, most));
    }
  }
  template <class Duration>
  void seconds(std::string_view key, Duration& into, std::int64_t least) {
    std::int64_t value = std::chrono::duration_cast<std::chrono::seconds>(into).count();
    number(key, value, least, kMostSeconds);
    into = std::chrono::seconds(value);
  }
  void texts(std::string_view key,
             const std::function<void(const std::string&, std::int64_t)>& add) {
    const toml::node* node = find(key);
    if (node == nullptr) return;
    const toml::array* array = node->as_array();
    if (array == nullptr) return wrong(*node, key, "a list of texts");
    for (const toml::node& element : *array) {
      if (const auto value = element.value_exact<std::string>()) {
        add(*value, line_of(element));
      } else {
        wrong(element, key, "a list of texts");
      }
    }
  }
  void paths(std::string_view key, std::vector<std::string>& into) {
    if (find(key) == nullptr) return;
    into.clear();
    texts(key, [&](const std::string& value, std::int64_t line) {
      if (!value.starts_with('/')) {
        problems_.add(line, "'{}{}': '{}' is no absolute path", prefix_, key, value);
      }
      into.push_back(value);
    });
  }
  void choice(std::string_view key, const std::map<std::string, std::function<void()>>& choices) {
    std::string value;
    text(key, value);
    const toml::node* node = find(key);
    if (node == nullptr) return;
    const auto chosen = choices.find(value);
    if (chosen != choices.end()) return chosen->second();
    std::string names;
    for (const auto& [name, act] : choices)
      names += fmt::format("{}{}", names.empty() ? "" : ", ", name);
    wrong(*node, key, fmt::format("one of {}", names));
  }
  const toml::node* find(std::string_view key) {
    known_.insert(std::string(key));
    return table_.get(key);
  }
  const toml::table* table(std::string_view key) {
    const toml::node* node = find(key);
    if (node == nullptr) return nullptr;
    if (node->as_table() == nullptr) wrong(*node, key, "a table");
    return node->as_table();
  }
  void wrong(const toml::node& node, std::string_view key, std::string_view wanted) {
    problems_.add(line_of(node), "'{}{}' is {}", prefix_, key, wanted);
  }
  Problems& problems() { return problems_; }

 private:
  const toml::table& table_;
  std::string prefix_;
  Problems& problems_;
  std::set<std::string> known_;
};

void read_limits(const toml::table& table, Config& config, Problems& problems) {
  TableReader reader(table, "limits.", problems);
  reader.number("header_bytes", config.http.header_bytes, 1'024, 1 << 20);
  reader.number("body_bytes", config.body_bytes, 1'024, 1 << 30);
  reader.number("upload_bytes", config.upload_bytes, 0, kMostBytes);
  reader.number("json_depth", config.json_depth, 4, 1'000);
  reader.number("connections", config.http.connections, 1, 1'000'000);
  reader.number("unknown_per_peer", config.http.unknown_per_peer, 1, 1'000'000);
  reader.number("requests", config.http.requests, 1, 1'000'000);
  reader.seconds("idle_seconds", config.http.idle, 1);
  reader.seconds("header_seconds", config.http.header, 1);
  reader.seconds("body_seconds", config.http.body, 1);
  reader.seconds("write_seconds", config.http.write, 1);
}

void read_sessions(const toml::table& table, SessionConfig& session, Problems& problems) {
  TableReader reader(table, "sessions.", problems);
  reader.number("max", session.max, 1, 100'000);
  reader.seconds("idle_timeout_seconds", session.idle_timeout, 0);
  reader.seconds("run_timeout_seconds", session.run_timeout, 0);
  reader.paths("allowed_workspaces", session.allowed_workspaces);
  reader.path("shared_tmp", session.shared_tmp);
  reader.choice("on_stop", {{"keep", [&] { session.on_stop = OnStop::Keep; }},
                            {"delete", [&] { session.on_stop = OnStop::Delete; }}});
  reader.choice("on_idle", {{"keep", [&] { session.on_idle = OnStop::Keep; }},
                            {"delete", [&] { session.on_idle = OnStop::Delete; }}});
}

void read_pool(const toml::table& table, SessionConfig& session, Problems& problems) {
  TableReader reader(table, "pool.", problems);
  reader.number("size", session.pool_size, 0, 64);
}

void read_tls(const toml::table& table, Config& config, Problems& problems) {
  TableReader reader(table, "tls.", problems);
  reader.path("certificate", config.tls_certificate);
  reader.path("key", config.tls_key);
  if (config.tls_certificate.empty() || config.tls_key.empty()) {
    problems.add(line_of(table), "'tls' needs both 'certificate' and 'key'");
  }
}

void read_scopes(TableReader& reader, TokenConfig& token) {
  if (reader.find("scopes") == nullptr) return;
  token.scopes.clear();
  reader.texts("scopes", [&](const std::string& name, std::int64_t line) {
    for (const Scope scope : {Scope::Read, Scope::Create, Scope::Admin}) {
      if (name == to_text(scope)) token.scopes.insert(scope);
    }
    if (name != "read" && name != "create" && name != "admin") {
      reader.problems().add(line, "'{}' is no scope: there are read, create and admin", name);
    }
  });
  // Who may create must see what it created.
  if (token.scopes.contains(Scope::Create)) token.scopes.insert(Scope::Read);
}

void read_token(const toml::table& table, Config& config, Problems& problems) {
  TokenConfig token;
  token.line = static_cast<int>(line_of(table));
  {
    TableReader reader(table, "token.", problems);
    reader.text("name", token.name);
    reader.path("file", token.file);
    reader.text("env", token.env);
    reader.text("ceiling", token.ceiling);
    reader.number("max_sessions", token.max_sessions, 0, 100'000);
    read_scopes(reader, token);
  }
  if (token.name.empty()) problems.add(token.line, "a token needs a 'name'");
  if (token.file.empty() == token.env.empty()) {
    problems.add(token.line, "a token has either a 'file' or an 'env' with its secret");
  }
  config.tokens.push_back(std::move(token));
}

void read_tokens(TableReader& reader, Config& config) {
  const toml::node* node = reader.find("token");
  if (node == nullptr) return;
  const toml::array* array = node->as_array();
  if (array == nullptr) return reader.wrong(*node, "token", "a list of tables: [[token]]");
  for (const toml::node& element : *array) {
    if (element.as_table() == nullptr) {
      reader.wrong(element, "token", "a list of tables: [[token]]");
    } else {
      read_token(*element.as_table(), config, reader.problems());
    }
  }
}

// Keys of other services' files. A box always has its whole filter and all its walls: what asks for
// that is fine, what asks for less is refused rather than passed over.
void read_walls(TableReader& reader) {
  if (const toml::table* seccomp = reader.table("seccomp")) {
    TableReader inner(*seccomp, "seccomp.", reader.problems());
    if (const toml::node* deny = inner.find("deny")) {
      reader.problems().add(line_of(*deny),
                            "'seccomp.deny' would replace the filter of every box; it is built in "
                            "and cannot be replaced");
    }
  }
  for (const char* wall : {"hardening", "landlock"}) {
    const toml::table* table = reader.table(wall);
    if (table == nullptr) continue;
    TableReader inner(*table, fmt::format("{}.", wall), reader.problems());
    bool enabled = true;
    inner.flag("enabled", enabled);
    if (!enabled) {
      reader.problems().add(line_of(*table), "'{}' is part of every box and is not switched off",
                            wall);
    }
  }
}

void read_listeners(TableReader& reader, Config& config) {
  if (reader.find("listen") != nullptr) {
    config.listen.clear();
    reader.texts("listen", [&](const std::string& value, std::int64_t line) {
      if (const auto address = parse_tcp_address(value); !address) {
        reader.problems().add(line, "'listen': {}", address.error().message);
      }
      config.listen.push_back(value);
    });
  }
  reader.path("socket", config.socket);
  if (const toml::node* node = reader.find("socket_uids")) {
    const toml::array* array = node->as_array();
    if (array == nullptr) return reader.wrong(*node, "socket_uids", "a list of uids");
    for (const toml::node& element : *array) {
      const auto uid = element.value_exact<std::int64_t>();
      if (uid && *uid >= 0 && *uid < std::numeric_limits<uid_t>::max()) {
        config.socket_uids.insert(static_cast<uid_t>(*uid));
      } else {
        reader.wrong(element, "socket_uids", "a list of uids");
      }
    }
  }
  reader.texts("allowed_origins", [&](const std::string& value, std::int64_t /*line*/) {
    config.allowed_origins.insert(value);
  });
}

void read_all(const toml::table& table, Config& config, Problems& problems) {
  TableReader reader(table, "", problems);
  read_listeners(reader, config);
  reader.path("state_directory", config.state_directory);
  reader.path("upper_root", config.state_directory);
  reader.path("secrets_directory", config.secrets_directory);
  reader.path("policy_directory", config.policy_directory);
  reader.text("resolver", config.resolver);
  reader.path("audit_file", config.audit_file);
  reader.flag("lenient_fields", config.lenient_fields);
  reader.seconds("drain_seconds", config.drain, 0);
  reader.seconds("exit_when_idle_seconds", config.exit_when_idle, 0);
  reader.number("upper_max_bytes", config.session.upper_max_bytes, 0, kMostBytes);
  reader.number("diff_max_bytes", config.session.diff_max_bytes, 1, kMostBytes);
  reader.number("spool_max_bytes", config.session.spool_max_bytes, 0, kMostBytes);
  reader.paths("allowed_writable", config.session.allowed_writable);
  reader.choice("log_level", {{"error", [&] { config.log_level = "error"; }},
                              {"info", [&] { config.log_level = "info"; }},
                              {"debug", [&] { config.log_level = "debug"; }}});
  if (const toml::table* limits = reader.table("limits")) read_limits(*limits, config, problems);
  if (const toml::table* inner = reader.table("pool")) {
    read_pool(*inner, config.session, problems);
  }
  if (const toml::table* inner = reader.table("sessions")) {
    read_sessions(*inner, config.session, problems);
  }
  if (const toml::table* tls = reader.table("tls")) read_tls(*tls, config, problems);
  read_tokens(reader, config);
  read_walls(reader);
  if (reader.find("upper_root") != nullptr && reader.find("state_directory") != nullptr) {
    problems.add(line_of(*reader.find("upper_root")),
                 "'upper_root' and 'state_directory' are the same setting");
  }
}

}  // namespace

Result<Config> parse_config(std::string_view text, std::string_view file) {
  const toml::parse_result parsed = toml::parse(text, std::string(file));
  if (!parsed) {
    const toml::parse_error& problem = parsed.error();
    return fail(Code::Invalid, "{}:{}: {}", file, problem.source().begin.line,
                problem.description());
  }
  Config config;
  Problems problems(file);
  read_all(parsed.table(), config, problems);
  if (!problems.text().empty()) return fail(Code::Invalid, "{}", problems.text());
  return config;
}

Result<Config> load_config(const std::string& path) {
  TRY(const std::string text, read_file(path, kMaxConfig));
  return parse_config(text, path);
}

}  // namespace glovebox::serve
