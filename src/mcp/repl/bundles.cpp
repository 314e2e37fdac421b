// Bundles on disk (repl_output.h).
#include "base/file.h"
#include "mcp/repl/repl_output.h"

#include <cstdlib>
#include <filesystem>

#include <fcntl.h>
#include <sys/stat.h>

namespace glovebox::mcp {

Result<Bundle> Bundle::make(std::string directory, std::uint64_t most_bytes) {
  if (::mkdir(directory.c_str(), 0700) != 0) return fail_os(errno, "make {}", directory);
  Bundle bundle(std::move(directory), most_bytes);
  TRY(bundle.transcript_,
      open_file(bundle.transcript(), O_WRONLY | O_CREAT | O_EXCL | O_APPEND, 0600));
  return bundle;
}

bool Bundle::take_room(std::size_t bytes) {
  if (is_cut_ || bytes_ + bytes > most_) {
    is_cut_ = true;
    return false;
  }
  bytes_ += bytes;
  return true;
}

void Bundle::append(std::string_view text) {
  if (text.empty() || !take_room(text.size())) return;
  if (!write_all(transcript_, text)) is_cut_ = true;  // the disk is full: the reply says so
}

std::string Bundle::add_image(std::string_view png) {
  if (!take_room(png.size())) return {};
  const std::string images = directory_ + "/images";
  if (images_ == 0) (void)::mkdir(images.c_str(), 0700);  // a failure shows right below
  std::string path = fmt::format("{}/{:03}.png", images, images_ + 1);
  const auto file = open_file(path, O_WRONLY | O_CREAT | O_EXCL, 0600);
  if (!file || !write_all(*file, png)) {
    is_cut_ = true;
    return {};
  }
  ++images_;
  return path;
}

BundleStore::~BundleStore() {
  std::error_code ignored;  // nothing more can be done about what is left
  if (!root_.empty()) std::filesystem::remove_all(root_, ignored);
}

Result<std::shared_ptr<Bundle>> BundleStore::make() {
  if (root_.empty()) {
    const char* place = std::getenv("TMPDIR");
    std::string name = fmt::format("{}/glovebox-output-XXXXXX",
                                   place == nullptr || *place != '/' ? "/tmp" : place);
    if (::mkdtemp(name.data()) == nullptr) return fail_os(errno, "make {}", name);
    root_ = std::move(name);
  }
  prune();
  TRY(Bundle bundle,
      Bundle::make(fmt::format("{}/output-{:04}", root_, ++made_), quotas_.bundle_bytes));
  bundles_.push_back(std::make_shared<Bundle>(std::move(bundle)));
  return bundles_.back();
}

void BundleStore::prune() {
  const auto is_too_much = [&] {
    std::uint64_t bytes = 0;
    for (const auto& each : bundles_) bytes += each->bytes();
    return bundles_.size() >= quotas_.count || bytes >= quotas_.total_bytes;
  };
  while (!bundles_.empty() && is_too_much()) {
    const auto oldest = std::ranges::find_if(
        bundles_, [](const std::shared_ptr<Bundle>& each) { return each.use_count() == 1; });
    if (oldest == bundles_.end()) return;
    std::error_code ignored;  // what is left is removed with the store
    std::filesystem::remove_all((*oldest)->directory(), ignored);
    bundles_.erase(oldest);
  }
}

}  // namespace glovebox::mcp
