#include "base/file.h"
#include "checkpoint/layer_stream.h"
#include "workspace/tree/printable.h"

#include <algorithm>
#include <cerrno>
#include <memory>

#include <unistd.h>

namespace glovebox::checkpoint {
namespace {

using workspace::MergedDirectory;
using workspace::MergedEntry;
using workspace::Node;
using workspace::NodeType;

constexpr std::size_t kBuffer = std::size_t{256} << 10;

class LayerWalk {
 public:
  LayerWalk(workspace::MarkPrefix prefix, RecordWriter* out) : prefix_(prefix), out_(out) {}

  // `original` is the directory below, and invalid where there is none or where it is hidden.
  Result<void> walk(const MergedDirectory& dir, const UniqueFd& original, const std::string& path,
                    std::size_t depth) {
    if (depth > workspace::kDeepestTree) return fail(Code::Denied, "{}: too deep", path);
    TRY(const std::vector<MergedEntry> entries, dir.list());
    for (const MergedEntry& entry : entries) {
      const std::string below = workspace::join_path(path, entry.name);
      auto visited = visit(dir, original, entry, below, depth);
      if (visited) continue;
      visited.error().message =
          fmt::format("{}: {}", workspace::printable(below), visited.error().message);
      return visited;
    }
    return {};
  }

  const LayerContent& content() const { return content_; }

 private:
  Result<void> visit(const MergedDirectory& dir, const UniqueFd& original, const MergedEntry& entry,
                     const std::string& path, std::size_t depth) {
    TRY(const Node node, workspace::look(dir.dir(entry), entry.name));
    if (!node.exists()) return {};
    TRY(workspace::Marks marks,
        workspace::read_marks(dir.dir(entry), entry.name, node, prefix_, dir.within(entry)));
    if (!marks.forged.empty()) return fail(Code::Denied, "forged overlay mark: {}", marks.forged);
    TRY_VOID(dir.complete(entry, node, marks));
    EntryRecord record;
    record.path = path;
    record.mode = static_cast<std::uint16_t>(node.mode & 01777U);
    record.modified = node.modified;
    record.is_copied_up = marks.is_copied_up;
    Node before;
    if (original) {
      TRY(before, workspace::look(original, entry.name));
    }
    if (marks.is_whiteout) return before.exists() ? put_whiteout(record) : Result<void>();
    switch (node.type) {
      case NodeType::File: return put_file(dir.dir(entry), entry.name, node, marks, record);
      case NodeType::Directory: {
        UniqueFd below;
        if (before.is(NodeType::Directory) && !marks.is_opaque) {
          TRY(below, workspace::open_directory(original, entry.name));
        }
        return put_directory(dir, below, entry, marks, record, depth);
      }
      case NodeType::Symlink: {
        record.type = EntryType::Symlink;
        TRY(record.target, workspace::read_link(dir.dir(entry), entry.name));
        return put(record);
      }
      case NodeType::Fifo: record.type = EntryType::Fifo; return put(record);
      default: return {};  // sockets and devices are never taken over
    }
  }

  Result<void> put(const EntryRecord& record) {
    ++content_.entries;
    return out_ == nullptr ? Result<void>() : out_->entry(record);
  }

  Result<void> put_whiteout(EntryRecord& record) {
    record.type = EntryType::Whiteout;
    record.mode = 0;
    record.modified = 0;
    record.is_copied_up = false;
    return put(record);
  }

  Result<void> put_directory(const MergedDirectory& dir, const UniqueFd& original,
                             const MergedEntry& entry, const workspace::Marks& marks,
                             EntryRecord& record, std::size_t depth) {
    record.type = EntryType::Directory;
    record.is_opaque = marks.is_opaque;
    TRY(record.xattrs, workspace::read_own_xattrs(dir.dir(entry), entry.name, marks));
    TRY_VOID(put(record));
    TRY(const MergedDirectory below, dir.descend(entry, marks));
    return walk(below, original, record.path, depth + 1);
  }

  Result<void> put_file(BorrowedFd dir, const std::string& name, const Node& node,
                        const workspace::Marks& marks, EntryRecord& record) {
    record.size = node.size;
    content_.bytes += node.size;
    if (out_ == nullptr) return put(record);
    TRY(record.xattrs, workspace::read_own_xattrs(dir, name, marks));
    TRY(const UniqueFd file, workspace::open_regular(dir, name));
    TRY_VOID(put(record));
    return put_content(file, node.size);
  }

  // Data by data; what is a hole here is one there.
  Result<void> put_content(const UniqueFd& file, std::uint64_t size) {
    std::uint64_t at = 0;
    while (at < size) {
      const off_t data = ::lseek(file.get(), static_cast<off_t>(at), SEEK_DATA);
      if (data < 0 && errno == ENXIO) return {};  // a hole to the end
      if (data < 0) return fail_os(errno, "look for data");
      const off_t hole = ::lseek(file.get(), data, SEEK_HOLE);
      if (hole < 0) return fail_os(errno, "look for a hole");
      at = static_cast<std::uint64_t>(data);
      const std::uint64_t end = std::min(static_cast<std::uint64_t>(hole), size);
      while (at < end) {
        const auto want = static_cast<std::size_t>(std::min<std::uint64_t>(kBuffer, end - at));
        const ssize_t got = ::pread(file.get(), buffer_.get(), want, static_cast<off_t>(at));
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return fail_os(errno, "read");
        if (got == 0) return {};  // cut while it was read: the rest is zeros
        TRY_VOID(out_->data(at, {buffer_.get(), static_cast<std::size_t>(got)}));
        at += static_cast<std::uint64_t>(got);
      }
    }
    return {};
  }

  workspace::MarkPrefix prefix_;
  RecordWriter* out_;
  LayerContent content_;
  std::unique_ptr<char[]> buffer_ = std::make_unique_for_overwrite<char[]>(kBuffer);
};

Result<LayerContent> walk_layer(const LayerTrees& trees, RecordWriter* out) {
  TRY(const MergedDirectory root, MergedDirectory::open_root(trees.uppers, trees.prefix));
  TRY(const UniqueFd original, workspace::open_directory(trees.original, "."));
  LayerWalk walk(trees.prefix, out);
  TRY_VOID(walk.walk(root, original, "", 0));
  return walk.content();
}

}  // namespace

Result<LayerContent> write_layer(const LayerTrees& trees, RecordWriter& out) {
  return walk_layer(trees, &out);
}

Result<LayerContent> measure_layer(const LayerTrees& trees) { return walk_layer(trees, nullptr); }

}  // namespace glovebox::checkpoint
