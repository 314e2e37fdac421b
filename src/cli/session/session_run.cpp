// Runs in a session, from the command line: `glovebox session run|shell`.
#include "base/quantity.h"
#include "cli/session/service_client.h"
#include "cli/session/session_command.h"
#include "cli/standard_streams.h"
#include "client/run_channel.h"
#include "guest/shell/shell_text.h"

#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>

#include <csignal>

#include <unistd.h>

namespace glovebox::app {
namespace {

namespace json = boost::json;

// As one word of a shell.
std::string shell_word(const std::string& text) {
  constexpr std::string_view kPlain =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._/:=@%+,";
  if (!text.empty() && text.find_first_not_of(kPlain) == std::string::npos) return text;
  return guest::quoted(text);
}

Result<std::string> code_of(const SessionOptions& options) {
  if (!options.code.empty() && !options.command.empty()) {
    return fail(Code::Invalid, "-c CODE and -- CMD exclude each other");
  }
  if (!options.code.empty()) return options.code;
  if (options.command.empty()) {
    return fail(Code::Invalid, "nothing to run: add -c CODE or -- CMD ARGS...");
  }
  std::string code;
  for (const std::string& word : options.command) {
    if (!code.empty()) code += ' ';
    code += shell_word(word);
  }
  return code;
}

Result<json::object> run_body(const SessionOptions& options) {
  TRY(std::string code, code_of(options));
  json::object body{{"type", "start"}, {"code", std::move(code)}};
  json::object env;
  for (const std::string& entry : options.env) {
    const std::size_t equals = entry.find('=');
    if (equals == std::string::npos || equals == 0) {
      return fail(Code::Invalid, "--env '{}' is not NAME=VALUE", entry);
    }
    env[entry.substr(0, equals)] = entry.substr(equals + 1);
  }
  if (!env.empty()) body["envs"] = std::move(env);
  if (!options.timeout.empty()) {
    TRY(const std::chrono::nanoseconds timeout, parse_duration(options.timeout));
    body["timeout_ms"] = std::chrono::ceil<std::chrono::milliseconds>(timeout).count();
  }
  return body;
}

}  // namespace

Result<int> run_in_session(const SessionOptions& options) {
  TRY(const json::object body, run_body(options));
  TRY(HttpClient service, open_service(IfMissing::Fail));
  TRY(const std::string id, find_session(service, options.session));
  return relay_run(std::move(service), session_target(id, "/pty?pty=0"),
                   {Relay::Pipes, json::serialize(body)});
}

Result<int> shell_in_session(const SessionOptions& options) {
  if (::isatty(0) != 1 || ::isatty(1) != 1) {
    return fail(Code::Invalid, "a shell needs a terminal here (use 'glovebox session run')");
  }
  TRY(HttpClient service, open_service(IfMissing::Fail));
  TRY(const std::string id, find_session(service, options.session));
  const RawTerminal raw;
  return relay_run(std::move(service), session_target(id, "/pty"), {Relay::Terminal, ""});
}

}  // namespace glovebox::app
