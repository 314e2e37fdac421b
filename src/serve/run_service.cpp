#include "serve/run_service.h"

#include "base/file.h"
#include "http/server.h"
#include "launch/open_files.h"
#include "policy/load.h"
#include "serve/sd_notify.h"
#include "serve/service.h"

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>

#include <csignal>
#include <cstdlib>
#include <filesystem>

#include <sys/stat.h>
#include <unistd.h>

namespace glovebox::serve {
namespace {

constexpr auto kTuple = asio::as_tuple(asio::use_awaitable);
constexpr std::size_t kMaxToken = 4'096;
constexpr std::chrono::seconds kLayerLook{30};
constexpr std::chrono::seconds kProbeAgain{3};
// Variables that hold a token when none is set up otherwise.
constexpr std::array kTokenVariables = {"GLOVEBOX_TOKEN", "EXECD_ACCESS_TOKEN"};

std::string trimmed(std::string text) {
  while (!text.empty() && (text.back() == '\n' || text.back() == '\r' || text.back() == ' ')) {
    text.pop_back();
  }
  return text;
}

Result<std::string> read_secret(const TokenConfig& token) {
  if (!token.env.empty()) {
    const char* value = std::getenv(token.env.c_str());
    if (value == nullptr)
      return fail(Code::NotFound, "token {}: ${} is not set", token.name, token.env);
    return trimmed(value);
  }
  TRY(const UniqueFd file, open_file(token.file, O_RDONLY));
  struct stat known{};
  if (::fstat(file.get(), &known) != 0) return fail_os(errno, "look at {}", token.file);
  if ((known.st_mode & S_IRWXO) != 0) {
    return fail(Code::Denied, "token {}: everybody may read {} (chmod o= {})", token.name,
                token.file, token.file);
  }
  TRY(std::string text, read_fd(file, kMaxToken));
  return trimmed(std::move(text));
}

// Everything that the policy says is a bound, or it is refused here: a line that bounds nothing
// would be believed to.
Result<void> read_ceiling(const TokenConfig& token, Identity& identity) {
  if (token.ceiling.empty()) return {};
  const auto loaded = policy::load_policy(token.ceiling);
  if (!loaded) {
    return fail(Code::Invalid, "ceiling of token {}: {}", token.name,
                policy::to_text(loaded.error()));
  }
  if (loaded->policy.has_patterns()) {
    return fail(Code::Invalid, "ceiling of token {}: paths with wildcards are no ceiling",
                token.name);
  }
  const policy::Policy& ceiling = loaded->policy;
  if (ceiling.backend || !ceiling.waived.empty()) {
    return fail(Code::Invalid, "ceiling of token {}: '{}' is no bound, and has no place in one",
                token.name, ceiling.backend ? "backend" : "waive");
  }
  identity.ceiling = std::make_shared<const authority::AuthoritySet>(ceiling.authority);
  identity.cpus_milli = ceiling.cpus_milli;
  identity.workspace = ceiling.workspace;
  return {};
}

Result<Auth> make_auth(const Config& config) {
  Auth auth;
  for (const TokenConfig& token : config.tokens) {
    TRY(const std::string secret, read_secret(token));
    Identity identity;
    identity.name = "token:" + token.name;
    identity.scopes = token.scopes;
    identity.max_sessions = token.max_sessions;
    TRY_VOID(read_ceiling(token, identity));
    TRY_VOID(auth.add_token(secret, std::move(identity)));
  }
  for (const char* variable : kTokenVariables) {
    const char* value = std::getenv(variable);
    if (value == nullptr || *value == '\0') continue;
    Identity identity;
    identity.name = fmt::format("token:${}", variable);
    identity.scopes = {Scope::Admin};
    TRY_VOID(auth.add_token(value, std::move(identity)));
  }
  auth.trust_uid(::geteuid());
  auth.trust_uid(0);
  for (const uid_t uid : config.socket_uids) auth.trust_uid(uid);
  for (const std::string& origin : config.allowed_origins) auth.allow_origin(origin);
  return auth;
}

std::vector<std::string> secret_names(const Config& config) {
  std::vector<std::string> names(kTokenVariables.begin(), kTokenVariables.end());
  for (const TokenConfig& token : config.tokens) {
    if (!token.env.empty()) names.push_back(token.env);
  }
  return names;
}

// The environment without the tokens, which then are in no process that is started from here.
std::vector<std::string> take_environment(const std::vector<std::string>& secrets) {
  for (const std::string& name : secrets) (void)::unsetenv(name.c_str());
  std::vector<std::string> environment;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    environment.emplace_back(*entry);
  }
  return environment;
}

Result<void> check_reach(const Listener& listener, const Auth& auth) {
  if (!is_reachable_from_outside(listener) || auth.has_tokens()) return {};
  return fail(Code::Denied,
              "{} can be reached from other hosts and there is no token: set one up ([[token]], or "
              "$GLOVEBOX_TOKEN), or listen on 127.0.0.1",
              listener.name);
}

using Listeners = std::vector<std::shared_ptr<Listener>>;

Result<Listeners> open_listeners(asio::io_context& io, const Config& config, const Auth& auth) {
  TRY(Listeners listeners, take_activated(io));
  // A service manager's sockets take the place of those in the settings.
  if (listeners.empty()) {
    for (const std::string& text : config.listen) {
      TRY(const TcpAddress address, parse_tcp_address(text));
      TRY(std::shared_ptr<Listener> listener, listen_tcp(io, address));
      listeners.push_back(std::move(listener));
    }
    if (!config.socket.empty()) {
      TRY(std::shared_ptr<Listener> listener, listen_unix(io, config.socket));
      listeners.push_back(std::move(listener));
    }
  }
  if (listeners.empty()) return fail(Code::Invalid, "nothing to listen on");
  std::shared_ptr<asio::ssl::context> tls;
  if (!config.tls_certificate.empty()) {
    TRY(tls, load_tls(config.tls_certificate, config.tls_key));
  }
  for (const auto& listener : listeners) {
    TRY_VOID(check_reach(*listener, auth));
    if (listener->family == SocketFamily::Tcp) listener->tls = tls;
  }
  return listeners;
}

Result<std::string> make_shared_tmp(const Config& config) {
  if (!config.session.shared_tmp.empty()) return config.session.shared_tmp;
  const std::string path = config.state_directory + "-shared-tmp";
  std::error_code problem;
  std::filesystem::create_directories(path, problem);
  if (problem) return fail_os(problem.value(), "make {}", path);
  if (::chmod(path.c_str(), 01777) != 0) return fail_os(errno, "set the mode of {}", path);
  return path;
}

// What is the service's own, and no box's business however it is asked for.
std::vector<std::string> own_places(const ServiceSetup& setup) {
  const Config& config = setup.config;
  std::vector<std::string> own = setup.own_files;
  own.push_back(config.state_directory);
  for (const std::string& path :
       {config.socket, config.audit_file, config.tls_key, config.policy_directory}) {
    if (!path.empty()) own.push_back(path);
  }
  for (const TokenConfig& token : config.tokens) {
    if (!token.file.empty()) own.push_back(token.file);
    // By its name a ceiling is one of the templates, which are no files.
    std::error_code ignored;
    if (std::filesystem::exists(token.ceiling, ignored)) own.push_back(token.ceiling);
  }
  for (std::string& path : own) path = std::filesystem::absolute(path).string();
  return own;
}

HostRules make_rules(const ServiceSetup& setup, std::string shared_tmp) {
  HostRules rules;
  rules.allowed_writable = setup.config.session.allowed_writable;
  rules.allowed_workspaces = setup.config.session.allowed_workspaces;
  rules.shared_tmp = std::move(shared_tmp);
  rules.own = own_places(setup);
  return rules;
}

session::ManagerSettings manager_settings(const ServiceSetup& setup,
                                          std::shared_ptr<policy::PolicyStore> policies) {
  const Config& config = setup.config;
  session::ManagerSettings settings;
  settings.launcher = setup.launcher;
  settings.state_directory = config.state_directory;
  settings.secrets_directory = config.secrets_directory;
  settings.name_servers = config.resolver;
  settings.max_sessions = config.session.max;
  settings.keep_parked = config.session.pool_size;
  settings.default_idle = config.session.idle_timeout;
  settings.on_idle = config.session.on_idle == OnStop::Keep ? session::LayerFate::Keep
                                                            : session::LayerFate::Remove;
  settings.interpreter_roots = config.session.allowed_workspaces;
  settings.most_diff_bytes = config.session.diff_max_bytes;
  settings.most_layer_bytes = config.session.upper_max_bytes;
  settings.most_spool_bytes = config.session.spool_max_bytes;
  settings.policies = std::move(policies);
  settings.hidden = own_places(setup);
  return settings;
}

observe::LogLevel level_of(const std::string& name) {
  if (name == "error") return observe::LogLevel::Error;
  return name == "debug" ? observe::LogLevel::Debug : observe::LogLevel::Info;
}

void tell_manager(const Service& service, std::string_view state) {
  if (const auto told = notify_manager(state); !told) {
    service.log.write(observe::LogLevel::Error, told.error().message);
  }
}

// Keeps the number of bytes in all layers fresh, also where there is no bound on them.
asio::awaitable<void> watch_layers(Service& service) {
  asio::steady_timer timer(service.io);
  for (;;) {
    (void)co_await service.manager.layer_bytes();  // what fails is tried again
    timer.expires_after(kLayerLook);
    const auto [problem] = co_await timer.async_wait(kTuple);
    if (problem) co_return;
  }
}

// Ends a service that is not used, as a signal would.
asio::awaitable<void> watch_use(Service& service) {
  using Clock = std::chrono::steady_clock;
  asio::steady_timer timer(service.io);
  Clock::time_point used = Clock::now();
  for (;;) {
    const session::SessionCounts counts = service.manager.counts();
    if (counts.alive + counts.starting > 0) used = Clock::now();
    if (Clock::now() - used >= service.config.exit_when_idle) break;
    timer.expires_after(std::chrono::seconds(1));
    const auto [problem] = co_await timer.async_wait(kTuple);
    if (problem) co_return;
  }
  service.log.write(observe::LogLevel::Info, "not used any more");
  (void)::kill(::getpid(), SIGTERM);
}

// What kept boxes from being made may pass: a disk that was full, a launcher that was killed.
asio::awaitable<void> try_boxes_again(Service& service) {
  asio::steady_timer timer(service.io);
  while (!service.abilities.available) {
    timer.expires_after(kProbeAgain);
    const auto [problem] = co_await timer.async_wait(kTuple);
    if (problem) co_return;
    service.abilities = co_await service.manager.probe();
  }
  service.log.write(observe::LogLevel::Info, "isolation available");
}

asio::awaitable<void> begin(Service& service, Server& server, Listeners listeners) {
  service.abilities = co_await service.manager.probe();
  if (!service.abilities.available) {
    service.log.write(observe::LogLevel::Error, "isolation unavailable",
                      {{"reason", service.abilities.problem}});
    asio::co_spawn(service.io, try_boxes_again(service), asio::detached);
  }
  for (auto& listener : listeners) {
    service.log.write(observe::LogLevel::Info, "listening", {{"address", listener->name}});
    server.listen(std::move(listener));
  }
  tell_manager(service, "READY=1");
  asio::co_spawn(service.io, watch_layers(service), asio::detached);
  if (service.config.exit_when_idle.count() > 0) {
    asio::co_spawn(service.io, watch_use(service), asio::detached);
  }
}

asio::awaitable<void> obey_signals(Service& service, Server& server) {
  asio::signal_set signals(service.io, SIGTERM, SIGINT, SIGHUP);
  for (;;) {
    const auto [problem, number] = co_await signals.async_wait(kTuple);
    if (problem || number != SIGHUP) break;
    const auto changed = reload_policies(service, egress::Existing::Keep);
    const auto reopened = service.audit.reopen();
    for (const Error* error :
         {changed ? nullptr : &changed.error(), reopened ? nullptr : &reopened.error()}) {
      if (error != nullptr) service.log.write(observe::LogLevel::Error, error->message);
    }
    if (changed) {
      service.log.write(
          observe::LogLevel::Info, "policies reloaded",
          {{"changed", changed->changes.size()}, {"narrowed", changed->sessions.size()}});
    }
  }
  service.log.write(observe::LogLevel::Info, "ending");
  tell_manager(service, "STOPPING=1");
  co_await server.drain(service.config.drain);
  co_await service.manager.stop(service.config.session.on_stop == OnStop::Delete
                                    ? session::LayerFate::Remove
                                    : session::LayerFate::Keep);
  service.io.stop();
}

}  // namespace

Result<void> check_setup(const ServiceSetup& setup) {
  TRY(const Auth auth, make_auth(setup.config));
  for (const std::string& text : setup.config.listen) {
    TRY(const TcpAddress address, parse_tcp_address(text));
    if (!address.is_loopback && !auth.has_tokens()) {
      return fail(Code::Denied, "{} can be reached from other hosts and there is no token", text);
    }
  }
  if (!setup.config.tls_certificate.empty()) {
    TRY_VOID(load_tls(setup.config.tls_certificate, setup.config.tls_key));
  }
  return {};
}

Result<void> run_service(const ServiceSetup& setup) {
  (void)std::signal(SIGPIPE, SIG_IGN);  // a client that went away is an error of one write
  TRY_VOID(launch::raise_open_files());
  const Config& config = setup.config;
  // Never destroyed: what still waits in it when everything has ended refers to the objects below,
  // and the process ends with this function.
  asio::io_context& io = *new asio::io_context(1);
  TRY(Auth auth, make_auth(config));
  const std::vector<std::string> secrets = secret_names(config);
  std::vector<std::string> environment = take_environment(secrets);
  TRY(Listeners listeners, open_listeners(io, config, auth));
  observe::Audit audit;
  if (!config.audit_file.empty()) {
    TRY(audit, observe::Audit::open(config.audit_file));
  }
  auto policies = std::make_shared<policy::PolicyStore>();
  TRY(const std::unique_ptr<session::SessionManager> manager,
      session::SessionManager::open(io, manager_settings(setup, policies)));
  TRY(std::string shared_tmp, make_shared_tmp(config));
  Service service(io, config, *manager, level_of(config.log_level));
  service.auth = std::move(auth);
  service.rules = make_rules(setup, std::move(shared_tmp));
  service.policies = policies;
  service.audit = std::move(audit);
  service.environment = std::move(environment);
  service.secret_names = secrets;
  TRY_VOID(reload_policies(service, egress::Existing::Keep));
  observe_sessions(service);
  Server server(
      io, config.http, [&service](Exchange& exchange) { return dispatch(service, exchange); },
      [&service](const std::string& bug) {
        service.log.write(observe::LogLevel::Error, "a bug in glovebox", {{"bug", bug}});
      });
  service.http_counts = [&server] { return server.counts(); };
  asio::co_spawn(io, obey_signals(service, server), asio::detached);
  asio::co_spawn(io, begin(service, server, std::move(listeners)), asio::detached);
  io.run();
  return {};
}

}  // namespace glovebox::serve
