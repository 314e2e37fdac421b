#include "session/layers/layer_sizes.h"

#include "workspace/tree/tree_fs.h"

#include <algorithm>
#include <cerrno>

#include <sys/statvfs.h>

namespace glovebox::session {
namespace {

// The kernel's own directory in a layer's, which no other program may look into.
constexpr std::string_view kOfOverlay = "box/work/work";

}  // namespace

Result<LayerSizes> measure_layers(const workspace::LayerRoot& root, LayerUsage& known) {
  const LayerUsage::Mark mark = known.begin_measure();
  LayerSizes sizes;
  std::uint64_t bytes = 0;
  TRY(const UniqueFd all, workspace::open_directory(root.dir, "."));
  TRY(const auto names, workspace::list_directory(all));
  for (const workspace::Entry& entry : names) {
    const auto dir = workspace::open_directory(root.dir, entry.name);
    if (!dir) continue;  // removed meanwhile, or no layer
    const auto use = workspace::measure_tree(*dir, kOfOverlay);
    if (!use) continue;
    sizes.layers.emplace(entry.name, *use);
    bytes += use->bytes;
  }
  known.end_measure(mark, bytes);
  struct statvfs disk{};
  if (::fstatvfs(root.dir.get(), &disk) != 0) return fail_os(errno, "look at the disk of layers");
  sizes.on_disk = (disk.f_blocks - disk.f_bfree) * disk.f_frsize;
  return sizes;
}

std::map<std::string, std::uint64_t> count_bytes(const LayerSizes& sizes,
                                                 std::map<std::string, LayerLook>& last) {
  std::erase_if(last, [&](const auto& one) { return !sizes.layers.contains(one.first); });
  std::map<std::string, std::uint64_t> bytes_of;
  for (const auto& [id, use] : sizes.layers) {
    const LayerLook now{use.bytes, sizes.on_disk};
    if (!use.has_shut) last.insert_or_assign(id, now);
    const LayerLook& known = last.try_emplace(id, now).first->second;
    const std::uint64_t more = now.on_disk - std::min(now.on_disk, known.on_disk);
    bytes_of.emplace(id, std::max(use.bytes, known.bytes + more));
  }
  return bytes_of;
}

}  // namespace glovebox::session
