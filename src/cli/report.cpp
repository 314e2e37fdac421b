#include "cli/report.h"

#include "base/utf8.h"

#include <boost/json.hpp>

namespace glovebox::app {
namespace {

namespace json = boost::json;

constexpr int kReportVersion = 1;
constexpr int kRefusedExit = 125;

template <class T>
json::value or_null(const std::optional<T>& value) {
  return value ? json::value(*value) : json::value(nullptr);
}

json::array texts(const std::vector<std::string>& items) {
  json::array list;
  for (const std::string& item : items) list.emplace_back(to_valid_utf8(item));
  return list;
}

json::object exit_object(const launch::ExitReport& report) {
  json::object exit;
  exit["code"] = report.exit_code;
  exit["reason"] = launch::to_text(report.reason);
  exit["signal"] = report.signal != 0 ? json::value(report.signal) : json::value(nullptr);
  exit["limit"] = report.limit ? json::value(launch::to_text(*report.limit)) : json::value(nullptr);
  exit["problem"] =
      report.problem.empty() ? json::value(nullptr) : json::value(to_valid_utf8(report.problem));
  return exit;
}

json::object usage_object(const launch::Usage& usage) {
  json::object object;
  object["wall_us"] = usage.wall.count() / 1000;
  object["cpu_us"] = usage.cpu_ns ? json::value(*usage.cpu_ns / 1000) : json::value(nullptr);
  object["peak_memory_bytes"] = or_null(usage.peak_memory_bytes);
  object["output_bytes"] = or_null(usage.output_bytes);
  return object;
}

json::object limits_object(const plan::LaunchPlan& plan) {
  json::object limits;
  const auto ms = [](const std::optional<std::chrono::nanoseconds>& time) {
    return time ? json::value(time->count() / 1'000'000) : json::value(nullptr);
  };
  limits["memory_bytes"] = or_null(plan.cgroup.memory_bytes);
  limits["pids"] = or_null(plan.cgroup.pids);
  limits["cpus_milli"] = or_null(plan.cgroup.cpus_milli);
  limits["wall_ms"] = ms(plan.watch.wall);
  limits["cpu_time_ms"] = ms(plan.watch.cpu_time);
  limits["output_bytes"] = or_null(plan.watch.output_bytes);
  return limits;
}

json::value name_or_null(const std::string& name) {
  return name.empty() ? json::value(nullptr) : json::value(name);
}

json::object network_object(const egress::Ledger& ledger) {
  json::array connections;
  for (const egress::Closed& closed : ledger.connections()) {
    connections.push_back(json::object{{"name", name_or_null(closed.name)},
                                       {"address", closed.address},
                                       {"bytes_out", closed.bytes_out},
                                       {"bytes_in", closed.bytes_in},
                                       {"duration_us", closed.duration.count() / 1000}});
  }
  json::array denials;
  for (const auto& [denied, times] : ledger.denials()) {
    denials.push_back(json::object{{"act", egress::to_text(denied.act)},
                                   {"object", to_valid_utf8(denied.object)},
                                   {"missing", name_or_null(denied.missing)},
                                   {"why", denied.why},
                                   {"times", times}});
  }
  json::array listeners;
  for (const egress::Listening& listening : ledger.listeners()) {
    listeners.push_back(json::object{{"inside", listening.inside}, {"outside", listening.outside}});
  }
  const egress::Ledger::Totals& totals = ledger.totals();
  return json::object{{"connections", std::move(connections)},
                      {"listeners", std::move(listeners)},
                      {"denials", std::move(denials)},
                      {"totals", json::object{{"connections", totals.connections},
                                              {"bytes_out", totals.bytes_out},
                                              {"bytes_in", totals.bytes_in},
                                              {"denials", totals.denials}}}};
}

}  // namespace

std::string report_json(const plan::LaunchPlan& plan, const launch::ExitReport& report,
                        const egress::Ledger* network) {
  json::object object;
  object["version"] = kReportVersion;
  object["command"] = texts(plan.argv);
  object["exit"] = exit_object(report);
  json::array enforced;
  for (const plan::Guarantee& guarantee : plan.guarantees) {
    enforced.push_back(json::object{{"name", guarantee.name}, {"by", guarantee.by}});
  }
  object["enforced"] = std::move(enforced);
  json::array not_enforced;
  for (const plan::Guarantee& missing : plan.not_enforced) {
    not_enforced.push_back(json::object{{"name", missing.name}, {"why", missing.by}});
  }
  object["not_enforced"] = std::move(not_enforced);
  json::array authority;
  for (const plan::Guarantee& term : plan.terms) {
    authority.push_back(
        json::object{{"rule", to_valid_utf8(term.name)}, {"by", to_valid_utf8(term.by)}});
  }
  object["authority"] = std::move(authority);
  object["policy"] = plan.policy
                         ? json::value(json::object{{"name", to_valid_utf8(plan.policy->name)},
                                                    {"digest", plan.policy->digest}})
                         : json::value(nullptr);
  object["waived"] = texts(plan.waived);
  object["identity"] = json::object{
      {"tier", host::to_text(plan.tier)}, {"uid_inside", plan.uid}, {"gid_inside", plan.gid}};
  object["limits"] = limits_object(plan);
  object["usage"] = usage_object(report.usage);
  object["network"] =
      network != nullptr ? json::value(network_object(*network)) : json::value(nullptr);
  json::array steps;
  for (const launch::StepTime& time : report.times) {
    steps.push_back(json::object{{"step", to_valid_utf8(time.step)},
                                 {"us", static_cast<double>(time.ns) / 1000}});
  }
  object["launch_steps"] = std::move(steps);
  return json::serialize(object) + "\n";
}

std::string refusal_json(const std::vector<std::string>& command, const std::string& problem) {
  json::object object;
  object["version"] = kReportVersion;
  object["command"] = texts(command);
  launch::ExitReport report;
  report.reason = launch::EndReason::Refused;
  report.exit_code = kRefusedExit;
  report.problem = problem;
  object["exit"] = exit_object(report);
  return json::serialize(object) + "\n";
}

}  // namespace glovebox::app
