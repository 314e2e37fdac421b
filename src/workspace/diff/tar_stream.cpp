// A pax archive (POSIX.1-2001) through zlib. Written here rather than with an archive library: the
// program is linked statically, needs one format in one direction, and a header is 512 bytes.
#include "base/file.h"
#include "workspace/diff/diff.h"
#include "workspace/tree/printable.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <memory>
#include <span>

#include <unistd.h>
#include <zlib.h>

namespace glovebox::workspace {
namespace {

constexpr std::size_t kBlock = 512;
constexpr std::size_t kBuffer = std::size_t{128} << 10;
constexpr int kGzip = 15 + 16;  // the largest window, and gzip's header
constexpr std::int64_t kSecond = 1'000'000'000;
constexpr std::uint64_t kLargestOctal = 077777777777;  // eleven digits

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

struct Member {
  std::string name{};
  char type = '0';
  unsigned mode = 0;
  std::uint64_t size = 0;
  std::int64_t modified = 0;
  std::string target{};
};

void put(std::span<char> field, std::string_view text) {
  std::copy_n(text.begin(), std::min(text.size(), field.size()), field.begin());
}

void put_octal(std::span<char> field, std::uint64_t value) {
  put(field, fmt::format("{:0{}o}", value, field.size() - 1));
}

std::array<char, kBlock> make_header(const Member& member) {
  std::array<char, kBlock> header{};
  const std::span<char> all(header);
  put(all.subspan(0, 100), member.name);
  put_octal(all.subspan(100, 8), member.mode);
  put_octal(all.subspan(108, 8), 0);
  put_octal(all.subspan(116, 8), 0);
  put_octal(all.subspan(124, 12), std::min(member.size, kLargestOctal));
  const std::int64_t seconds = std::clamp<std::int64_t>(member.modified / kSecond, 0,
                                                        static_cast<std::int64_t>(kLargestOctal));
  put_octal(all.subspan(136, 12), static_cast<std::uint64_t>(seconds));
  put(all.subspan(148, 8), "        ");
  header[156] = member.type;
  put(all.subspan(157, 100), member.target);
  put(all.subspan(257, 8), std::string_view("ustar\00000", 8));
  unsigned sum = 0;
  for (const char byte : header) sum += static_cast<unsigned char>(byte);
  put(all.subspan(148, 8), fmt::format("{:06o}", sum));
  header[154] = '\0';
  return header;
}

// "LENGTH KEY=VALUE\n", where LENGTH counts itself.
std::string pax_record(std::string_view key, std::string_view value) {
  const std::size_t rest = key.size() + value.size() + 3;
  std::size_t length = rest + 1;
  while (fmt::formatted_size("{}", length) + rest != length) ++length;
  return fmt::format("{} {}={}\n", length, key, value);
}

class TarWriter {
 public:
  explicit TarWriter(GzipSink& out) : out_(out) {}

  Result<void> begin(const Member& member) {
    std::string extra;
    if (member.name.size() > 100) extra += pax_record("path", member.name);
    if (member.target.size() > 100) extra += pax_record("linkpath", member.target);
    if (member.size > kLargestOctal) extra += pax_record("size", fmt::format("{}", member.size));
    if (!extra.empty()) {
      const Member head{.name = "pax", .type = 'x', .mode = 0600, .size = extra.size()};
      TRY_VOID(write_header(head));
      TRY_VOID(out_.write(extra));
      TRY_VOID(pad(extra.size()));
    }
    return write_header(member);
  }

  Result<void> pad(std::uint64_t size) {
    static constexpr std::array<char, kBlock> kZeros{};
    const std::size_t rest = static_cast<std::size_t>(size % kBlock);
    return rest == 0 ? Result<void>() : out_.write({kZeros.data(), kBlock - rest});
  }

  Result<void> text(const std::string& name, std::string_view content) {
    TRY_VOID(begin({.name = name, .mode = 0644, .size = content.size()}));
    TRY_VOID(out_.write(content));
    return pad(content.size());
  }

  // Exactly `size` bytes, whatever happens to the file: a shorter one is filled up, a longer cut.
  Result<void> file(const Member& member, BorrowedFd fd) {
    TRY_VOID(begin(member));
    const auto buffer = std::make_unique_for_overwrite<char[]>(kBuffer);
    for (std::uint64_t at = 0; at < member.size;) {
      const auto want =
          static_cast<std::size_t>(std::min<std::uint64_t>(kBuffer, member.size - at));
      const ssize_t n = ::pread(fd.get(), buffer.get(), want, static_cast<off_t>(at));
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) return fail_os(errno, "read {}", printable(member.name));
      if (n == 0) std::memset(buffer.get(), 0, want);
      const std::size_t got = n == 0 ? want : static_cast<std::size_t>(n);
      TRY_VOID(out_.write({buffer.get(), got}));
      at += got;
    }
    return pad(member.size);
  }

  Result<void> finish() {
    static constexpr std::array<char, 2 * kBlock> kEnd{};
    return out_.write({kEnd.data(), kEnd.size()});
  }

 private:
  Result<void> write_header(const Member& member) {
    const auto header = make_header(member);
    return out_.write({header.data(), header.size()});
  }

  GzipSink& out_;
};

Result<void> write_member(TarWriter& tar, const Change& change, const Uppers& uppers,
                          TarBounds bounds) {
  Member member{.name = change.path,
                .mode = change.after.mode & 01777U,
                .modified = change.after.modified,
                .target = change.target_after};
  switch (change.after.type) {
    case NodeType::Directory:
      member.type = '5';
      member.name += '/';
      return tar.begin(member);
    case NodeType::Symlink: member.type = '2'; return tar.begin(member);
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
