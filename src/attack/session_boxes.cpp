#include "attack/session_boxes.h"

#include "base/file.h"
#include "client/http_client.h"

#include <charconv>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace glovebox::app {
namespace {

constexpr int kTransfers = 12;
constexpr int kReloads = 16;
constexpr int kMostUnparked = 20;

std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

Result<void> write_text(const std::string& path, const std::string& text, Ids owner) {
  TRY(const UniqueFd file, open_file(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
  TRY_VOID(write_all(file, text));
  if (::fchown(file.get(), owner.uid, owner.gid) != 0) return fail_os(errno, "{}", path);
  return {};
}

class SessionBoxes final : public Boxes {
 public:
  SessionBoxes(AttackedService service, Setting setting, Canaries& canaries)
      : service_(std::move(service)), setting_(std::move(setting)), canaries_(canaries) {}
  ~SessionBoxes() override { canaries_.end_neighbour(); }

  Result<void> begin() {
    constexpr Attack kPlain{.number = 0, .name = "", .words = ""};
    TRY(const Ended other, start_session(kPlain));
    if (other.code != 0) return fail(Code::Os, "start a session: {}", other.output);
    return canaries_.set_neighbour(
        service_.command({"session", "run", first_line(other.output), "--", setting_.probe}));
  }

  Result<Ended> run(const Attack& attack) override {
    TRY(Ended started, session_for(attack));
    if (started.code != 0 || attack.judge == Judge::Rejected) return started;
    TRY(Ended ended, run_in(last_, attack));
    // A session that a bomb has ended is followed by another.
    if (last_ == plain_ && is_dead(ended)) plain_.clear();
    if (attack.judge == Judge::Bounded && is_dead(ended)) ended.code = kLimit;
    return ended;
  }

  Result<Ended> run_meanwhile(const Attack& attack) override {
    if (attack.judge == Judge::Reloads) return reload_meanwhile(attack);
    return transfer_meanwhile(attack);
  }

  Result<Ended> commit() override { return service_.tool({"session", "commit", last_}); }
  Result<Ended> diff() override { return service_.tool({"session", "diff", last_}); }

 private:
  // One for all attacks that ask for nothing special, and one for each that does. A child of the
  // one before for what two boxes must not share.
  Result<Ended> session_for(const Attack& attack) {
    const bool special = !attack.options.empty() || attack.judge == Judge::HeldBack ||
                         attack.judge == Judge::Plain || attack.judge == Judge::Rejected;
    if (attack.judge == Judge::Distinct && last_distinct_ == &attack) {
      TRY(Ended forked, service_.tool({"session", "fork", "--force", last_}));
      last_ = first_line(forked.output);
      return forked;
    }
    last_distinct_ = attack.judge == Judge::Distinct ? &attack : nullptr;
    if (!special && !plain_.empty()) {
      last_ = plain_;
      return Ended{.code = 0};
    }
    TRY(Ended started, start_session(attack));
    if (started.code != 0) return started;
    last_ = first_line(started.output);
    if (!special) plain_ = last_;
    return started;
  }

  // One of the backend's kind. The service begins boxes like those that were asked for.
  Result<Ended> start_session(const Attack& attack) {
    if (setting_.backend != Backend::Parked || !attack.options.empty()) return start_any(attack);
    TRY(const std::uint64_t before, service_.parked_boxes_used());
    for (int i = 0; i < kMostUnparked; ++i) {
      TRY(Ended started, start_any(attack));
      if (started.code != 0) return started;
      TRY(const std::uint64_t after, service_.parked_boxes_used());
      if (after > before) return started;
      TRY_VOID(service_.tool({"session", "stop", first_line(started.output)}));
    }
    return fail(Code::Os, "the service has parked no box");
  }

  Result<Ended> start_any(const Attack& attack) {
    Words words{"session", "start"};
    for (std::string& word : policy_words(attack, setting_, canaries_)) {
      words.push_back(std::move(word));
    }
    return service_.tool(std::move(words));
  }

  Words run_words(const std::string& session, const Attack& attack) const {
    Words words{"session", "run", session, "--"};
    for (std::string& word : probe_words(attack, setting_, canaries_)) {
      words.push_back(std::move(word));
    }
    return words;
  }

  Result<Ended> run_in(const std::string& session, const Attack& attack) {
    return service_.tool(run_words(session, attack), &canaries_.net());
  }

  static bool is_dead(const Ended& ended) {
    return ended.code == kRefused && ended.output.find("session") != std::string::npos;
  }

  Result<Ended> transfer_meanwhile(const Attack& attack) {
    TRY(Ended started, session_for(attack));
    if (started.code != 0) return started;
    TRY(Background swapping, Background::start(service_.command(run_words(last_, attack))));
    TRY_VOID(swapping.await("swapping", std::chrono::seconds(20)));
    const std::string path = canaries_.work() + "/" + std::string(attack.held);
    Ended all{.code = 0};
    int copied = 0;
    for (int i = 0; i < kTransfers; ++i) {
      TRY(const Ended got, service_.tool({"session", "get", last_, path, "-"}));
      TRY(const Ended put, service_.tool({"session", "put", last_, canaries_.book(), path}));
      if (got.code == 0 || put.code == 0) ++copied;
      all.output += got.output + put.output;
    }
    // Nothing was tried when nothing could be copied at any time.
    if (copied == 0) all.code = kRefused;
    return all;
  }

  // Whatever is read again, broken or not, no reload opens what was not granted before it.
  Result<Ended> reload_meanwhile(const Attack& attack) {
    const std::string file = service_.policies() + "/attack.yaml";
    const std::string granting = fmt::format("version: 1\nnet: {{connect: ['{}:{}']}}\n",
                                             NetCanaries::kGranted, canaries_.net().granted_port());
    TRY_VOID(reload(file, granting, Reload::Taken));
    TRY(Ended started,
        service_.tool({"session", "start", "--policy", "attack", "--read", setting_.probe}));
    if (started.code != 0) return started;
    const std::string session = first_line(started.output);
    TRY(Background connecting, Background::start(service_.command(run_words(session, attack))));
    for (int i = 0; i < kReloads; ++i) {
      TRY_VOID(reload(file, "version: 1\nnet: {connect: [", Reload::Refused));
      TRY_VOID(
          reload(file, i % 2 == 0 ? "version: 1\nnet: {connect: []}\n" : granting, Reload::Taken));
      canaries_.net().attend();
    }
    TRY_VOID(connecting.await("through", std::chrono::seconds(60)));
    // What a reload took away stays away.
    const std::string port = std::to_string(canaries_.net().granted_port());
    TRY(Ended after, service_.tool({"session", "run", session, "--", setting_.probe, "connect_tcp",
                                    NetCanaries::kGranted, port}));
    if (after.code == 0) return fail(Code::Denied, "a grant came back by a reload");
    return after;
  }

  enum class Reload { Taken, Refused };

  Result<void> reload(const std::string& file, const std::string& text, Reload expected) {
    TRY_VOID(write_text(file, text, setting_.ids));
    ServiceAddress address;
    address.socket = service_.socket();
    TRY(HttpClient client, HttpClient::connect(address));
    TRY(const Reply reply, client.call({.method = "POST", .target = "/v1/policies/reload"}));
    if (reply.ok() == (expected == Reload::Taken)) return {};
    return fail(Code::Os, "a reload was answered with {}: {}", reply.status, reply.body);
  }

  AttackedService service_;
  Setting setting_;
  Canaries& canaries_;
  std::string plain_, last_;
  const Attack* last_distinct_ = nullptr;
};

}  // namespace

Result<AttackedService> AttackedService::start(const Setting& setting, Canaries& canaries) {
  const std::string state = canaries.state();
  const std::string socket = state + "/service.sock", policies = state + "/policies";
  if (::mkdir(policies.c_str(), 0755) == 0 &&
      ::chown(policies.c_str(), setting.ids.uid, setting.ids.gid) != 0) {
    return fail_os(errno, "{}", policies);
  }
  const std::string config = state + "/service.toml";
  TRY_VOID(write_text(config,
                      fmt::format("listen = []\nsocket = \"{}\"\nstate_directory = \"{}/serve\"\n"
                                  "policy_directory = \"{}\"\nallowed_writable = [\"/\"]\n"
                                  "resolver = \"{}\"\n[pool]\nsize = {}\n",
                                  socket, state, policies, canaries.net().resolver_text(),
                                  setting.backend == Backend::Session ? 0 : 4),
                      setting.ids));
  (void)::unlink(socket.c_str());  // of a service before this one
  Words variables = caller_variables(canaries);
  TRY(const UniqueFd directory, open_file(canaries.directory(), O_RDONLY | O_DIRECTORY));
  Command command{{setting.glovebox, "serve", "--config", config}, variables, setting.ids};
  command.forgotten = directory;
  TRY(Background process, Background::start(command));
  TRY_VOID(process.await("\"listening\"", std::chrono::seconds(30)));
  variables.push_back("GLOVEBOX_HOST=unix://" + socket);
  AttackedService service(std::move(process), setting, std::move(variables));
  service.socket_ = socket;
  service.policies_ = policies;
  return service;
}

Result<std::uint64_t> AttackedService::parked_boxes_used() const {
  ServiceAddress address;
  address.socket = socket_;
  TRY(HttpClient client, HttpClient::connect(address));
  TRY(const Reply reply, client.call({.target = "/metrics", .accept = "text/plain"}));
  constexpr std::string_view kName = "\nglovebox_pool_hits ";
  const std::size_t at = reply.body.find(kName);
  std::uint64_t count = 0;
  const char* end = reply.body.data() + reply.body.size();
  if (!reply.ok() || at == std::string::npos ||
      std::from_chars(reply.body.data() + at + kName.size(), end, count).ec != std::errc()) {
    return fail(Code::Os, "the service does not tell of its parked boxes");
  }
  return count;
}

Command AttackedService::command(Words words) const {
  words.insert(words.begin(), setting_.glovebox);
  return {std::move(words), variables_, setting_.ids};
}

Result<Ended> AttackedService::tool(Words words, Attendant* attendant) const {
  Command what = command(std::move(words));
  what.attendant = attendant;
  return run_program(what);
}

Result<std::unique_ptr<Boxes>> make_session_boxes(const Setting& setting, Canaries& canaries) {
  TRY(AttackedService service, AttackedService::start(setting, canaries));
  auto boxes = std::make_unique<SessionBoxes>(std::move(service), setting, canaries);
  TRY_VOID(boxes->begin());
  return std::unique_ptr<Boxes>(std::move(boxes));
}

}  // namespace glovebox::app
