// PATCH of a session: its name, labels and idle time, and less authority. Never more.
#include "authority/terms.h"
#include "request/network_authority.h"
#include "serve/bodies/create_body.h"
#include "serve/helpers.h"
#include "serve/routes/handlers.h"

#include <boost/json/array.hpp>

namespace glovebox::serve {
namespace {

namespace json = boost::json;
using session::SessionChange;
using session::SessionNarrowing;

constexpr std::int64_t kMostIdleSeconds = 10LL * 365 * 24 * 3600;

struct ChangeOrder {
  SessionChange change;
  std::optional<SessionNarrowing> narrowing;
};

void read_labels(ObjectReader& reader, const session::SessionInfo& info, SessionChange& change,
                 BodyProblems& problems) {
  if (reader.find("labels") == nullptr) return;
  std::map<std::string, std::string> labels;
  for (const auto& [name, value] : info.effective.labels) {
    if (name.starts_with(kOwnLabels)) labels[name] = value;
  }
  for (Field& label : reader.text_map("labels")) {
    if (label.name.starts_with(kOwnLabels)) problems.add("'labels.{}' is not yours", label.name);
    labels.emplace(std::move(label.name), std::move(label.value));
  }
  change.labels = std::move(labels);
}

// What was handed in, taken apart: rules of the network, budgets, and what is neither, which no
// running box can lose. Its mounts, its filter and its identity are fixed when it starts.
void take_rules(const authority::AuthoritySet& handed, SessionNarrowing& narrowing,
                BodyProblems& problems) {
  std::vector<authority::Rule> network;
  std::vector<authority::Rule> budgets;
  for (const authority::Rule& rule : handed.rules()) {
    if (session::is_about_network(rule.capability)) {
      network.push_back(rule);
    } else if (authority::find_budget(rule.capability)) {
      budgets.push_back(rule);
    } else {
      problems.add("{}: cannot be narrowed in a box that runs; start another session",
                   authority::to_text(rule));
    }
  }
  auto about_network = authority::AuthoritySet::from_rules(network);
  auto about_budgets = authority::AuthoritySet::from_rules(budgets);
  if (!about_network || !about_budgets) return problems.add("'capabilities': too many rules");
  if (narrowing.network) narrowing.network = *std::move(about_network);
  narrowing.budgets = *std::move(about_budgets);
}

void read_narrowing(ObjectReader& reader, ChangeOrder& order, BodyProblems& problems,
                    Unknown unknown) {
  const bool names_network = reader.find("capabilities") != nullptr;
  const bool names_limits = reader.find("limits") != nullptr;
  const bool cut = reader.flag("cut").value_or(false);
  if (!names_network && !names_limits) {
    if (cut) problems.add("'cut' goes with 'capabilities'");
    return;
  }
  SessionNarrowing narrowing;
  CreateOrder asked;
  read_authority(reader, asked, problems, unknown);
  if (names_network) narrowing.network = authority::AuthoritySet();
  take_rules(asked.session.handed, narrowing, problems);
  narrowing.cpus_milli = asked.session.cpus_milli;
  if (cut) narrowing.existing = egress::Existing::Cut;
  order.narrowing = std::move(narrowing);
}

Result<ChangeOrder, ApiError> read_change(const Call& call, const session::SessionInfo& info,
                                          const json::value& body) {
  ChangeOrder order;
  BodyProblems problems;
  const Unknown unknown = unknown_fields(call);
  {
    ObjectReader reader(body, "", problems, unknown);
    order.change.name = reader.text("name");
    if (const auto idle = reader.number("idle_timeout_seconds", 0, kMostIdleSeconds)) {
      order.change.idle_timeout = std::chrono::seconds(*idle);
    }
    read_labels(reader, info, order.change, problems);
    read_narrowing(reader, order, problems, unknown);
    const SessionChange& change = order.change;
    if (!change.name && !change.idle_timeout && !change.labels && !order.narrowing) {
      problems.add(
          "nothing to change: there are name, labels, idle_timeout_seconds, capabilities "
          "and limits");
    }
  }
  TRY_VOID(problems.check());
  return order;
}

json::array lines_json(const std::vector<std::string>& lines) {
  json::array array;
  for (const std::string& line : lines) array.emplace_back(line);
  return array;
}

// Between two boxes there is nothing to change.
ApiError change_refusal(const Error& error) {
  ApiError refused = to_api_error(error);
  if (error.code == Code::Unsupported) refused.status = 400;
  if (error.code == Code::Exhausted) {
    refused.status = 409;
    refused.code = "SESSION_IS_BUSY";
  }
  return refused;
}

// What was lost is lost, also when the kernel did not take all of it from the box.
Result<json::object, ApiError> narrow(Call& call, const std::string& id,
                                      const SessionNarrowing& narrowing) {
  auto narrowed = call.service.manager.narrow_session(id, narrowing);
  if (!narrowed) return tl::unexpected(change_refusal(narrowed.error()));
  audit(call, "narrow", {{"session_id", id}, {"lost", lines_json(narrowed->at_once)}});
  json::object told{{"at_once", lines_json(narrowed->at_once)}, {"connections_cut", narrowed->cut}};
  if (narrowed->for_new_boxes.empty()) return told;
  told["refused"] = lines_json(narrowed->for_new_boxes);
  ApiError refused{.status = 409,
                   .code = "NARROW_REFUSED",
                   .message = "the running box keeps some of what it was to lose",
                   .more = std::move(told),
                   .headers = {}};
  return tl::unexpected(std::move(refused));
}

}  // namespace

asio::awaitable<Answer> change_session(Call& call) {
  CO_TRY(const session::SessionInfo info, find_session(call));
  CO_TRY(const json::value body, co_await read_json(call, Empty::Refuse));
  CO_TRY(const ChangeOrder order, read_change(call, info, body));
  std::optional<json::object> narrowed;
  if (order.narrowing) {
    CO_TRY(narrowed, narrow(call, info.id, *order.narrowing));
  }
  const auto changed = call.service.manager.change(info.id, order.change);
  if (!changed) co_return tl::unexpected(change_refusal(changed.error()));
  audit(call, "change", {{"session_id", info.id}});
  json::object state = session_state(*changed);
  if (narrowed) state["narrowed"] = *std::move(narrowed);
  co_return json_answer(200, state);
}

}  // namespace glovebox::serve
