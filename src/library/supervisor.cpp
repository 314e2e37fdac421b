#include "library/runtime.h"
#include "library/to_request.h"

namespace glovebox {

using session::SessionManager;

Result<Supervisor> Supervisor::open(const Settings& settings) {
  TRY(std::shared_ptr<library::Host> host, library::Host::open(settings));
  return Supervisor(std::move(host));
}

Supervisor::Supervisor(std::shared_ptr<library::Host> host) : host_(std::move(host)) {}

Supervisor::Supervisor(Supervisor&& other) noexcept = default;

Supervisor& Supervisor::operator=(Supervisor&& other) noexcept {
  if (this != &other) {
    if (host_) host_->close();
    host_ = std::move(other.host_);
  }
  return *this;
}

Supervisor::~Supervisor() {
  if (host_) host_->close();
}

Result<Session> Supervisor::start(const Request& request) {
  if (!host_) return fail(Code::NotFound, "the supervisor was moved elsewhere");
  TRY(session::BoxRequest order, library::to_request(request));
  TRY(const session::SessionInfo info,
      host_->call([&](SessionManager& manager) { return manager.create(std::move(order)); }));
  return Session(host_, info.id);
}

Result<Ran> Supervisor::run(const Request& request, const Command& command) {
  TRY(Session fresh, start(request));
  return fresh.run(command);
}

Result<void> Supervisor::check(const Request& request) {
  if (!host_) return fail(Code::NotFound, "the supervisor was moved elsewhere");
  TRY(session::BoxRequest order, library::to_request(request));
  return host_->call([&](SessionManager& manager) { return manager.check(std::move(order)); });
}

}  // namespace glovebox
