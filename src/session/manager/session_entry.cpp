#include "session/manager/session_entry.h"

#include "launch/exit_report.h"
#include "plan/make_plan.h"
#include "session/manager/manager_requests.h"
#include "workspace/layer/image.h"

#include <algorithm>

namespace glovebox::session {
namespace {

// What the kernel has counted so far, and what lies in layers that have a budget.
void add_live_usage(const SessionEntry& entry, SessionUsage& usage) {
  if (entry.plan && !entry.live->cgroup().empty()) {
    const auto counts = launch::read_usage(entry.plan->cgroup, entry.live->cgroup());
    usage.cpu_ns = counts.cpu_ns;
    usage.memory_bytes = counts.memory_bytes;
    usage.peak_memory_bytes = counts.peak_memory_bytes;
  }
  // Layers in memory share one filesystem, and of those in images there is one.
  if (entry.live->layers().empty()) return;
  const auto room = workspace::read_room(*entry.live->layers().front());
  if (room) usage.disk_free_bytes = room->free_bytes;
}

}  // namespace

SessionInfo info_of(const SessionEntry& entry) {
  SessionInfo info = entry.record.info;
  if (info.idle_timeout.count() == 0) return info;
  info.idle_remaining = std::chrono::milliseconds(0);
  if (!entry.live || !entry.live->is_alive()) return info;
  const auto now = std::chrono::steady_clock::now();
  const auto since = is_in_use(entry) ? now : last_use(entry);
  const auto used = std::chrono::duration_cast<std::chrono::milliseconds>(now - since);
  info.idle_remaining = std::max(info.idle_timeout - used, std::chrono::milliseconds(0));
  return info;
}

SessionReport report_of(const SessionEntry& entry) {
  SessionReport report;
  report.info = info_of(entry);
  report.guarantees = entry.record.guarantees;
  report.proved = entry.record.proved;
  report.terms = entry.record.terms;
  report.waived.assign(report.info.effective.waived.begin(), report.info.effective.waived.end());
  if (entry.plan) report.plan_text = plan::to_text(*entry.plan);
  report.usage = entry.record.usage;
  report.usage.runs = report.info.runs;
  if (entry.live) {
    report.usage.output_bytes = entry.live->output_bytes();
    report.usage.cpu_ns = entry.live->usage().cpu_ns;
    report.usage.peak_memory_bytes = entry.live->usage().peak_memory_bytes;
    if (entry.live->is_alive()) add_live_usage(entry, report.usage);
  }
  report.recent_runs.assign(entry.runs.begin(), entry.runs.end());
  return report;
}

std::size_t under_way(const SessionEntry& entry) {
  if (!entry.python) return entry.live->under_way();
  const std::size_t operations = entry.python->under_way();
  if (entry.is_cell) return operations;
  // The interpreter itself is a run, which is there from the start to the end.
  const std::size_t runs = entry.live->under_way();
  return operations + runs - std::min<std::size_t>(runs, 1);
}

bool is_in_use(const SessionEntry& entry) {
  return under_way(entry) > 0 || (entry.python && entry.python->is_attached());
}

std::chrono::steady_clock::time_point last_use(const SessionEntry& entry) {
  return entry.python ? entry.python->last_use() : entry.live->last_use();
}

std::string use_mark(const SessionEntry& entry) {
  std::string layers;
  for (const WorkspaceInfo& place : entry.record.info.workspaces) layers += place.layer_id + " ";
  if (!entry.live) return layers;
  return fmt::format("{}{}-{}-{}-{}", layers, entry.live->box_id(), entry.live->run_count(),
                     last_use(entry).time_since_epoch().count(), under_way(entry));
}

Result<void> check_settled(const SessionEntry& entry) {
  if (!entry.is_being_renewed) return {};
  return fail(Code::Exhausted, "the session is getting a fresh box; try again");
}

std::vector<std::string> layers_of(const SessionInfo& info) {
  std::vector<std::string> layers;
  for (const WorkspaceInfo& place : info.workspaces) {
    if (place.layer_id.empty()) continue;
    layers.push_back(place.layer_id);
    layers.insert(layers.end(), place.below.begin(), place.below.end());
  }
  return layers;
}

std::string home_of(const SessionInfo& info) {
  if (info.effective.cwd) return *info.effective.cwd;
  if (info.effective.workspaces.empty()) return std::string(plan::kHomeInside);
  return info.effective.workspaces.front().path;
}

Result<std::string> layer_of(const SessionEntry& entry, const LayerChoice& where) {
  const WorkspaceInfo* without_layer = nullptr;
  for (const WorkspaceInfo& place : entry.record.info.workspaces) {
    if (!where.workspace.empty() && where.workspace != place.path) continue;
    if (!place.layer_id.empty()) return place.layer_id;
    without_layer = &place;
  }
  if (!where.workspace.empty() && without_layer != nullptr) {
    return fail(Code::Unsupported, "{}: it is {}, so there are no changes apart from it",
                without_layer->path, to_text(without_layer->mode));
  }
  if (!where.workspace.empty()) {
    return fail(Code::NotFound, "{} is no workspace of this session", where.workspace);
  }
  return fail(Code::Unsupported, "the session has no workspace with a layer");
}

}  // namespace glovebox::session
