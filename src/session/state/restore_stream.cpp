#include "session/state/restore_stream.h"

#include "base/file.h"
#include "base/strict_json.h"
#include "workspace/layer/layer_json.h"

#include <algorithm>
#include <array>
#include <cerrno>

#include <fcntl.h>
#include <sodium.h>
#include <sys/stat.h>
#include <unistd.h>

namespace glovebox::session {
namespace {

namespace json = boost::json;
using checkpoint::RecordKind;

// Tells this machine from others; empty where that cannot be told.
std::string machine_mark() {
  const auto id = read_file("/etc/machine-id");
  if (!id || id->size() < 32) return {};
  const std::string text = "glovebox machine " + *id;
  std::array<unsigned char, 16> hash{};
  crypto_generichash(hash.data(), hash.size(), reinterpret_cast<const unsigned char*>(text.data()),
                     text.size(), nullptr, 0);
  std::string hex(hash.size() * 2 + 1, '\0');
  sodium_bin2hex(hex.data(), hex.size(), hash.data(), hash.size());
  hex.pop_back();
  return hex;
}

// Of what the original was nothing is known: whatever exists in it counts as changed since.
Result<workspace::Base> unknown_base(const std::string& path) {
  TRY(const UniqueFd original, open_file(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW));
  TRY(workspace::Base base, workspace::make_base(original));
  base.stamp.start = 0;
  base.stamp.boot_id.clear();
  return base;
}

}  // namespace

Result<std::string> encode_bases(const std::vector<LayerBase>& bases) {
  json::array list;
  for (const LayerBase& one : bases) {
    list.push_back(
        json::object{{"workspace", one.workspace}, {"base", workspace::encode_base(one.base)}});
  }
  return json::serialize(json::object{{"machine", machine_mark()}, {"layers", std::move(list)}});
}

Result<std::map<std::string, workspace::Base>> decode_bases(std::string_view text) {
  TRY(const json::value value,
      parse_strict_json(text, {.max_bytes = checkpoint::kMaxTextRecord, .max_depth = 4}));
  TRY(JsonFields fields, JsonFields::of(value, "bases"));
  TRY(const std::string_view machine, fields.text("machine"));
  TRY(const json::array* layers, fields.array("layers"));
  TRY_VOID(fields.finish());
  std::map<std::string, workspace::Base> bases;
  for (const json::value& item : *layers) {
    TRY(JsonFields one, JsonFields::of(item, "bases"));
    TRY(const std::string_view path, one.text("workspace"));
    TRY(const std::string_view base_text, one.text("base"));
    TRY_VOID(one.finish());
    TRY(workspace::Base base, workspace::decode_base(base_text));
    bases.emplace(path, std::move(base));
  }
  if (machine.empty() || machine != machine_mark()) bases.clear();
  return bases;
}

Result<std::shared_ptr<RestoreStream>> RestoreStream::open(UniqueFd file,
                                                           const checkpoint::Key& key,
                                                           const std::string& tenant) {
  std::shared_ptr<RestoreStream> stream(new RestoreStream(std::move(file)));
  TRY_VOID(stream->begin(key, tenant));
  return stream;
}

Result<void> RestoreStream::begin(const checkpoint::Key& key, const std::string& tenant) {
  TRY(reader_, checkpoint::SealedReader::open(checkpoint::source_of(file_), key, tenant));
  records_ = std::make_unique<checkpoint::RecordReader>(*reader_);
  TRY(next_, records_->next());
  TRY(const std::string text, expect_text(RecordKind::Snapshot));
  TRY(snapshot_, decode_snapshot(text));
  const bool is_same_policy = snapshot_.policy
                                  ? snapshot_.policy->digest == reader_->header().policy_digest
                                  : reader_->header().policy_digest.empty();
  if (!is_same_policy) return fail(Code::Invalid, "the checkpoint names two policies");
  TRY(const std::string bases, expect_text(RecordKind::Bases));
  TRY(bases_, decode_bases(bases));
  return {};
}

Result<std::string> RestoreStream::expect_text(RecordKind kind) {
  if (next_ != kind) return fail(Code::Invalid, "the checkpoint is malformed: its order");
  TRY(std::string text, records_->text());
  TRY(next_, records_->next());
  return text;
}

LayerSources RestoreStream::sources(const std::shared_ptr<RestoreStream>& stream) {
  LayerSources sources;
  for (const LayerManifest& layer : stream->snapshot_.layers) {
    LayerSource source;
    source.kind = LayerSource::Kind::Fill;
    source.fill = [stream, workspace = layer.workspace](BorrowedFd upper) {
      return stream->fill(workspace, upper);
    };
    source.make_base = [stream, workspace = layer.workspace]() -> Result<workspace::Base> {
      const auto known = stream->bases_.find(workspace);
      if (known == stream->bases_.end()) return unknown_base(workspace);
      struct stat facts{};
      const bool is_same =
          ::lstat(workspace.c_str(), &facts) == 0 && facts.st_ino == known->second.inode;
      return is_same ? Result<workspace::Base>(known->second) : unknown_base(workspace);
    };
    sources.emplace(layer.workspace, std::move(source));
  }
  return sources;
}

Result<void> RestoreStream::fill(const std::string& workspace, BorrowedFd upper) {
  if (next_ != RecordKind::Layer) {
    return fail(Code::Invalid, "the checkpoint has no layer for {}", workspace);
  }
  TRY(const std::string path, records_->text());
  if (path != workspace) {
    return fail(Code::Invalid, "the checkpoint has a layer for {}, not for {}", path, workspace);
  }
  checkpoint::LayerOwner owner;
  struct stat facts{};
  if (::fstat(upper.get(), &facts) != 0) return fail_os(errno, "look at the layer");
  if (facts.st_uid != ::geteuid() || facts.st_gid != ::getegid()) {
    owner = {facts.st_uid, facts.st_gid};
  }
  const auto told = std::ranges::find(snapshot_.layers, workspace, &LayerManifest::workspace);
  if (told == snapshot_.layers.end()) {
    return fail(Code::Invalid, "the checkpoint does not say what the layer for {} holds", path);
  }
  const checkpoint::LayerBounds bounds{.told = {told->entries, told->bytes},
                                       .take_room = take_room_};
  TRY(next_, checkpoint::read_layer(*records_, upper, workspace::MarkPrefix::User, owner, bounds));
  return {};
}

Result<void> RestoreStream::finish() {
  if (next_ != RecordKind::End) {
    return fail(Code::Invalid, "the checkpoint has more layers than the session");
  }
  return reader_->expect_end();
}

}  // namespace glovebox::session
