#include "workspace/layer/layer_quota.h"

#include "host/path_facts.h"

#include <unistd.h>

namespace glovebox::workspace {

using authority::BudgetKind;

Result<QuotaChoice> choose_for(const std::string& layer_root, plan::SandboxSpec& spec) {
  QuotaAsked asked;
  asked.layers = 0;
  for (const plan::Workspace& place : spec.workspaces) {
    if (place.mode == WorkspaceMode::Overlay) ++asked.layers;
  }
  asked.bytes = spec.authority.budget(BudgetKind::Disk).value_or(0);
  asked.inodes = spec.authority.budget(BudgetKind::Inodes).value_or(0);
  const bool is_bounded = asked.bytes != 0 || asked.inodes != 0;
  if (asked.layers == 0 || !is_bounded || spec.waived.contains("limit.disk")) {
    return QuotaChoice{.backing = plan::LayerBacking::Directory,
                       .why = "there is nothing to bound"};
  }
  TRY(const QuotaFacts facts, read_quota_facts(layer_root));
  TRY(QuotaChoice choice, choose_quota(facts, asked));
  spec.disk_at_most = choice.bytes;
  return choice;
}

Result<void> plan_layer(const Layer& layer, plan::Workspace& over) {
  TRY(over.layer, host::look_up(layer.mount_path()));
  over.layer->owner = layer.facts().upper_uid;
  over.layer->group = layer.facts().upper_gid;
  over.backing = layer.backing();
  for (const std::string& id : layer.facts().below) {
    TRY(host::PathFacts frozen, host::look_up(layer.frozen_path(id)));
    over.frozen.push_back(std::move(frozen));
  }
  over.start_ns = static_cast<std::uint64_t>(layer.base().stamp.start);
  return {};
}

void plan_some_layer(const QuotaChoice& quota, plan::Workspace& over) {
  const bool is_image = quota.backing == plan::LayerBacking::Image;
  over.layer = host::PathFacts{.path = "/(a layer)",
                               .kind = is_image ? host::PathKind::File : host::PathKind::Directory,
                               .device = 0,
                               .inode = 0,
                               .owner = over.at.owner,
                               .group = over.at.group};
  over.backing = quota.backing;
}

}  // namespace glovebox::workspace
