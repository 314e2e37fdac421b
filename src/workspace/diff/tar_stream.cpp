// A list of changes and the files behind it as an archive, through zlib.
#include "base/file.h"
#include "base/tar.h"
#include "workspace/diff/diff.h"
#include "workspace/tree/printable.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <memory>

#include <unistd.h>
#include <zlib.h>

namespace glovebox::workspace {
namespace {

constexpr std::size_t kBuffer = std::size_t{128} << 10;
constexpr int kGzip = 15 + 16;  // the largest window, and gzip's header
constexpr std::int64_t kSecond = 1'000'000'000;

// Compresses into a sink.
class GzipSink {
 public:
  explicit GzipSink(const Sink& sink) : sink_(sink) {}
  GzipSink(const GzipSink&) = delete;
  GzipSink& operator=(const GzipSink&) = delete;
  ~GzipSink() {
    if (is_open_) ::deflateEnd(&stream_);
  }

  Result<void> open() {
    constexpr int kMemory = 8;
    if (::deflateInit2(&stream_, Z_DEFAULT_COMPRESSION, Z_DEFLATED, kGzip, kMemory,
                       Z_DEFAULT_STRATEGY) != Z_OK) {
      return fail_os(ENOMEM, "start to compress");
    }
    is_open_ = true;
    return {};
  }

  Result<void> write(std::string_view bytes) { return pump(bytes, Z_NO_FLUSH); }
  Result<void> finish() { return pump({}, Z_FINISH); }

 private:
  Result<void> pump(std::string_view bytes, int flush) {
    // zlib does not write to its input; its interface only forgot to say so.
    stream_.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
    stream_.avail_in = static_cast<uInt>(bytes.size());
    do {
      stream_.next_out = reinterpret_cast<Bytef*>(buffer_.get());
      stream_.avail_out = static_cast<uInt>(kBuffer);
      if (::deflate(&stream_, flush) == Z_STREAM_ERROR) return fail_os(EIO, "compress");
      const std::size_t n = kBuffer - stream_.avail_out;
      if (n > 0) TRY_VOID(sink_({buffer_.get(), n}));
    } while (stream_.avail_out == 0);
    return {};
  }

  const Sink& sink_;
  z_stream stream_{};
  bool is_open_ = false;
  std::unique_ptr<char[]> buffer_ = std::make_unique_for_overwrite<char[]>(kBuffer);
};

class TarWriter {
 public:
  explicit TarWriter(GzipSink& out) : out_(out) {}

  Result<void> begin(const TarMember& member) { return out_.write(format_tar_member(member)); }

  Result<void> pad(std::uint64_t size) {
    static constexpr TarBlock kZeros{};
    return out_.write({kZeros.data(), tar_padding(size)});
  }

  Result<void> text(const std::string& name, std::string_view content) {
    TRY_VOID(begin({.path = name, .mode = 0644, .size = content.size()}));
    TRY_VOID(out_.write(content));
    return pad(content.size());
  }

  // Exactly `size` bytes, whatever happens to the file: a shorter one is filled up, a longer cut.
  Result<void> file(const TarMember& member, BorrowedFd fd) {
    TRY_VOID(begin(member));
    const auto buffer = std::make_unique_for_overwrite<char[]>(kBuffer);
    for (std::uint64_t at = 0; at < member.size;) {
      const auto want =
          static_cast<std::size_t>(std::min<std::uint64_t>(kBuffer, member.size - at));
      const ssize_t n = ::pread(fd.get(), buffer.get(), want, static_cast<off_t>(at));
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) return fail_os(errno, "read {}", printable(member.path));
      if (n == 0) std::memset(buffer.get(), 0, want);
      const std::size_t got = n == 0 ? want : static_cast<std::size_t>(n);
      TRY_VOID(out_.write({buffer.get(), got}));
      at += got;
    }
    return pad(member.size);
  }

  Result<void> finish() {
    static constexpr std::array<char, 2 * kTarBlock> kEnd{};
    return out_.write({kEnd.data(), kEnd.size()});
  }

 private:
  GzipSink& out_;
};

Result<void> write_member(TarWriter& tar, const Change& change, const Uppers& uppers,
                          TarBounds bounds) {
  TarMember member{.path = change.path,
                   .target = change.target_after,
                   .mode = change.after.mode & 01777U,
                   .modified = change.after.modified / kSecond};
  switch (change.after.type) {
    case NodeType::Directory:
      member.kind = TarMember::Kind::Directory;
      member.path += '/';
      return tar.begin(member);
    case NodeType::Symlink: member.kind = TarMember::Kind::Symlink; return tar.begin(member);
    case NodeType::File: {
      const auto fd = open_regular_beneath(uppers.at(change.level), change.path);
      if (!fd) return {};  // gone since the comparison; the list still has it
      TRY(const Node node, look(*fd));
      if (node.size > bounds.largest_file) return {};
      member.size = node.size;
      return tar.file(member, *fd);
    }
    default: return {};
  }
}

}  // namespace

Result<void> write_tar_gz(const std::vector<Change>& changes, const Uppers& uppers,
                          TarBounds bounds, const Sink& sink) {
  GzipSink gzip(sink);
  TRY_VOID(gzip.open());
  TarWriter tar(gzip);
  TRY_VOID(tar.text(".glovebox/changes.json", diff_to_json(changes)));
  for (const Change& change : changes) {
    const bool leaves_something =
        change.kind != ChangeKind::Deleted && change.kind != ChangeKind::Refused;
    if (leaves_something) TRY_VOID(write_member(tar, change, uppers, bounds));
  }
  TRY_VOID(tar.finish());
  return gzip.finish();
}

}  // namespace glovebox::workspace
