// The settings of a service, from a TOML file. docs/reference/config.md describes every key.
//
// Reading is strict: an unknown key, a value of the wrong type or out of range, and a setting that
// would weaken a box are errors with their line, all of them at once. Pure but for reading the
// file.
#pragma once

#include "base/result.h"
#include "http/router.h"
#include "http/server.h"

#include <chrono>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include <sys/types.h>

namespace glovebox::serve {

struct TokenConfig {
  std::string name;
  std::string file;  // holds the secret, or
  std::string env;   // the variable that does
  std::set<Scope> scopes{Scope::Admin};
  std::string ceiling;  // a policy, by name or file; empty: none
  std::size_t max_sessions = 0;
  int line = 0;
};

enum class OnStop : std::uint8_t { Keep, Delete };

// What a session may ask of the host.
struct SessionConfig {
  std::size_t max = 1'000;
  std::uint32_t pool_size = 4;  // boxes of each shape that are begun ahead of need
  std::chrono::seconds idle_timeout{1'800};
  std::chrono::seconds run_timeout{300};  // 0: none
  OnStop on_stop = OnStop::Keep;
  OnStop on_idle = OnStop::Keep;  // of a session that was not used for its idle timeout
  std::vector<std::string> allowed_writable = {"/workspace", "/mnt", "/media", "/data"};
  // Where workspaces may be. Empty: everywhere but in what is the service's own.
  std::vector<std::string> allowed_workspaces;
  std::string
      shared_tmp;  // /tmp of the profile `balanced`; empty: a directory of the service's own
  std::uint64_t upper_max_bytes = std::uint64_t{8} << 30;  // of all layers; 0: no bound
  std::uint64_t diff_max_bytes = std::uint64_t{4} << 30;
  std::uint64_t spool_max_bytes = std::uint64_t{16} << 30;  // of bodies on their way; 0: no bound
};

struct Config {
  std::vector<std::string> listen = {"127.0.0.1:44772"};
  std::string socket;  // path of a unix socket; empty: none
  std::set<uid_t> socket_uids;
  std::string tls_certificate;
  std::string tls_key;
  std::set<std::string> allowed_origins;
  std::vector<TokenConfig> tokens;
  std::string state_directory;
  std::string secrets_directory;  // of what `glovebox secret` keeps; empty: none
  std::string policy_directory;
  std::string resolver;  // name servers to ask, ADDRESS[:PORT][,...]; empty: the host's
  std::string audit_file;
  std::string log_level = "info";
  bool lenient_fields = false;
  HttpLimits http;
  std::size_t body_bytes = 8 << 20;                     // of a JSON body
  std::uint64_t upload_bytes = std::uint64_t{8} << 30;  // of an upload
  std::size_t json_depth = 32;
  std::chrono::seconds drain{20};
  std::chrono::seconds exit_when_idle{0};  // without a live session for so long; 0: never
  SessionConfig session;
};

// "FILE:LINE: sentence" for each problem, one a line, in one error.
Result<Config> parse_config(std::string_view text, std::string_view file);
Result<Config> load_config(const std::string& path);

}  // namespace glovebox::serve
