#include "serve/helpers.h"
#include "serve/routes/handlers.h"
#include "serve/routes/resumable_run.h"

#include <algorithm>
#include <chrono>
#include <utility>

namespace glovebox::serve {
namespace {

using Clock = std::chrono::steady_clock;

const Router& router() {
  static const Router kRouter(all_routes());
  return kRouter;
}

Response log_refusal(Service& service, const Request& request, const ApiError& error) {
  service.log.write(observe::LogLevel::Info, "refused",
                    {{"method", to_text(request.method)},
                     {"path", request.path},
                     {"peer", request.peer.address},
                     {"status", error.status},
                     {"reason", error.message}});
  return to_response(error);
}

Result<const Route*, ApiError> find_route(Request& request) {
  Router::Match match = router().find(request.method, request.path);
  if (match.route != nullptr) {
    request.parts = std::move(match.parts);
    return match.route;
  }
  if (match.allowed.empty()) {
    return refuse(404, "NOT_FOUND", "there is no {} {}", to_text(request.method), request.path);
  }
  ApiError error{.status = 405,
                 .code = "METHOD_NOT_ALLOWED",
                 .message = fmt::format("{} takes {}", request.path, match.allowed),
                 .more = {},
                 .headers = {{"Allow", match.allowed}}};
  return tl::unexpected(std::move(error));
}

void count_request(Service& service, std::string_view route, int status, Clock::time_point start) {
  const std::chrono::duration<double, std::milli> took = Clock::now() - start;
  service.metrics.time("execd.http.request.duration",
                       {{"route", std::string(route)}, {"status", std::to_string(status)}},
                       took.count());
}

// The oldest of its session goes when that has too many, the oldest of all when all have.
void keep_denial(std::deque<session::SessionEvent>& denials, const session::SessionEvent& event) {
  const auto of_one = std::ranges::count(denials, event.session, &session::SessionEvent::session);
  if (std::cmp_greater_equal(of_one, kKeptDenialsOfOne)) {
    denials.erase(std::ranges::find(denials, event.session, &session::SessionEvent::session));
  } else if (denials.size() >= kKeptDenials) {
    denials.pop_front();
  }
  denials.push_back(event);
}

}  // namespace

asio::awaitable<Response> dispatch(Service& service, Exchange& exchange) {
  const auto start = Clock::now();
  Request& request = exchange.request();
  auto identity = service.auth.identify(request);
  if (!identity) {
    service.audit.write("refuse", {{"peer", request.peer.address},
                                   {"method", to_text(request.method)},
                                   {"path", request.path},
                                   {"status", identity.error().status}});
    count_request(service, "refused", identity.error().status, start);
    co_return log_refusal(service, request, identity.error());
  }
  exchange.accept_caller();
  const auto route = find_route(request);
  if (!route) {
    count_request(service, "unknown", route.error().status, start);
    co_return to_response(route.error());
  }
  Call call{service, exchange, request, *std::move(identity), (*route)->pattern};
  if (!call.identity.may((*route)->scope)) {
    audit(call, "refuse", {{"path", request.path}, {"status", 403}});
    const auto refused = refuse(403, "FORBIDDEN", "{} lacks the scope '{}'", call.identity.name,
                                to_text((*route)->scope));
    count_request(service, call.route, 403, start);
    co_return log_refusal(service, request, refused.value());
  }
  const Answer answer = co_await (*route)->handler(call);
  Response response = answer ? *answer : to_response(answer.error());
  count_request(service, call.route, response.status == kAlreadySent ? 200 : response.status,
                start);
  co_return response;
}

void observe_sessions(Service& service) {
  service.metrics.describe("execd.isolation.session.count", "Sessions that are alive.");
  service.metrics.describe("execd.isolation.run.duration", "How long runs took, in ms.");
  service.metrics.describe("execd.isolation.upper.usage_bytes", "Bytes in all layers.");
  service.metrics.describe("execd.http.request.duration", "How long requests took, in ms.");
  service.manager.observe([&service](const session::SessionEvent& event) {
    using session::EventKind;
    service.metrics.count("glovebox.events", {{"kind", std::string(to_text(event.kind))}});
    if (event.kind == EventKind::RunEnded && event.run && event.run->ended_at) {
      const std::chrono::duration<double, std::milli> took =
          *event.run->ended_at - event.run->began_at;
      const bool good = event.run->code == 0 && event.run->problem.empty();
      service.metrics.time("execd.isolation.run.duration", {{"result", good ? "success" : "error"}},
                           took.count());
    }
    if (event.kind == EventKind::Deleted) {
      service.with_background.erase(event.session);
      std::erase_if(service.resumable, [&](const auto& entry) {
        return entry.second->names().session == event.session;
      });
    }
    if (event.kind == EventKind::Denied) {
      keep_denial(service.denials, event);
    }
    if (!service.audit.is_open() || event.kind == EventKind::RunStarted) return;
    if (!service.audit.write(to_text(event.kind), event_json(event))) {
      service.log.write(observe::LogLevel::Error, "a line of the audit could not be written");
    }
  });
}

}  // namespace glovebox::serve
