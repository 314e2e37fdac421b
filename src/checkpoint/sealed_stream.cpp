#include "checkpoint/sealed_stream.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include <sodium.h>
#include <unistd.h>
#define ZSTD_STATIC_LINKING_ONLY
#include <zstd.h>

namespace glovebox::checkpoint {
namespace {

constexpr std::size_t kPiece = std::size_t{256} << 10;
constexpr std::size_t kSeal = crypto_secretstream_xchacha20poly1305_ABYTES;
constexpr std::size_t kStart = crypto_secretstream_xchacha20poly1305_HEADERBYTES;
constexpr int kLevel = 1;
// What a reader sets aside for a stream's window, whatever that asks for.
constexpr int kMaxWindowLog = 23;
static_assert(kKeyBytes == crypto_secretstream_xchacha20poly1305_KEYBYTES);

using StreamState = crypto_secretstream_xchacha20poly1305_state;

unsigned char* bytes_of(char* text) { return reinterpret_cast<unsigned char*>(text); }
const unsigned char* bytes_of(const char* text) {
  return reinterpret_cast<const unsigned char*>(text);
}

Result<void> begin_sodium() {
  if (sodium_init() >= 0) return {};
  return fail(Code::Os, "the random numbers of libsodium do not work");
}

std::string hex(std::string_view bytes) {
  std::string text(bytes.size() * 2 + 1, '\0');
  sodium_bin2hex(text.data(), text.size(), reinterpret_cast<const unsigned char*>(bytes.data()),
                 bytes.size());
  text.pop_back();
  return text;
}

struct FreeCompressor {
  void operator()(ZSTD_CCtx* context) const { ZSTD_freeCCtx(context); }
};
struct FreeDecompressor {
  void operator()(ZSTD_DCtx* context) const { ZSTD_freeDCtx(context); }
};

class Writer final : public SealedWriter {
 public:
  Writer(Sink sink, std::string header) : sink_(std::move(sink)), header_(std::move(header)) {}
  ~Writer() override { sodium_memzero(&state_, sizeof(state_)); }

  Result<void> begin(const Key& key) {
    compressor_.reset(ZSTD_createCCtx());
    if (!compressor_) return fail(Code::Os, "no memory to compress with");
    ZSTD_CCtx_setParameter(compressor_.get(), ZSTD_c_compressionLevel, kLevel);
    std::string start(kStart, '\0');
    crypto_secretstream_xchacha20poly1305_init_push(&state_, bytes_of(start.data()),
                                                    key.bytes().data());
    tag_ = hex(start);
    piece_.resize(kPiece);
    sealed_.resize(4 + kPiece + kSeal);
    TRY_VOID(sink_(header_));
    return sink_(start);
  }

  Result<void> write(std::string_view bytes) override {
    ZSTD_inBuffer in{bytes.data(), bytes.size(), 0};
    while (in.pos < in.size) TRY_VOID(compress(in, ZSTD_e_continue).map([](std::size_t) {}));
    return {};
  }

  Result<void> finish() override {
    ZSTD_inBuffer none{nullptr, 0, 0};
    while (true) {
      TRY(const std::size_t left, compress(none, ZSTD_e_end));
      if (left == 0) break;
    }
    return seal(crypto_secretstream_xchacha20poly1305_TAG_FINAL);
  }

  const std::string& tag() const override { return tag_; }

 private:
  Result<std::size_t> compress(ZSTD_inBuffer& in, ZSTD_EndDirective how) {
    ZSTD_outBuffer out{piece_.data(), piece_.size(), filled_};
    const std::size_t left = ZSTD_compressStream2(compressor_.get(), &out, &in, how);
    if (ZSTD_isError(left) != 0) return fail(Code::Os, "compress: {}", ZSTD_getErrorName(left));
    filled_ = out.pos;
    if (filled_ == piece_.size()) TRY_VOID(seal(crypto_secretstream_xchacha20poly1305_TAG_MESSAGE));
    return left;
  }

  Result<void> seal(unsigned char mark) {
    const std::size_t size = filled_ + kSeal;
    for (unsigned i = 0; i < 4; ++i) sealed_[i] = static_cast<char>((size >> (8 * i)) & 0xffU);
    crypto_secretstream_xchacha20poly1305_push(&state_, bytes_of(sealed_.data() + 4), nullptr,
                                               bytes_of(piece_.data()), filled_,
                                               bytes_of(header_.data()), header_.size(), mark);
    filled_ = 0;
    return sink_({sealed_.data(), 4 + size});
  }

  Sink sink_;
  std::string header_;
  std::unique_ptr<ZSTD_CCtx, FreeCompressor> compressor_;
  StreamState state_{};
  std::string tag_;
  std::string piece_;   // compressed, on its way to be sealed
  std::string sealed_;  // its length and itself, sealed
  std::size_t filled_ = 0;
};

auto damaged(std::string_view what) {
  return fail(Code::Invalid, "the checkpoint is damaged: {}", what);
}

class Reader final : public SealedReader {
 public:
  explicit Reader(Source source) : source_(std::move(source)) {}
  ~Reader() override { sodium_memzero(&state_, sizeof(state_)); }

  Result<void> begin(const Key& key, std::string_view tenant) {
    TRY(header_bytes_, take(kPreludeBytes));
    TRY(const std::size_t size, decode_prelude(header_bytes_));
    TRY(const std::string body, take(size));
    TRY(header_, decode_header_body(body));
    header_bytes_ += body;
    if (header_.tenant != tenant) {
      return fail(Code::Denied, "the checkpoint belongs to another tenant");
    }
    if (header_.key_id != key.id()) {
      return fail(Code::Denied, "the checkpoint was sealed with another key ({}, this is {})",
                  header_.key_id, key.id());
    }
    TRY(const std::string start, take(kStart));
    tag_ = hex(start);
    if (crypto_secretstream_xchacha20poly1305_init_pull(&state_, bytes_of(start.data()),
                                                        key.bytes().data()) != 0) {
      return damaged("the beginning of the stream");
    }
    decompressor_.reset(ZSTD_createDCtx());
    if (!decompressor_) return fail(Code::Os, "no memory to decompress with");
    ZSTD_DCtx_setParameter(decompressor_.get(), ZSTD_d_windowLogMax, kMaxWindowLog);
    piece_.resize(kPiece);
    sealed_.resize(kPiece + kSeal);
    return next_piece();
  }

  const Header& header() const override { return header_; }
  const std::string& tag() const override { return tag_; }

  Result<void> read(std::span<char> into) override {
    ZSTD_outBuffer out{into.data(), into.size(), 0};
    while (out.pos < out.size) {
      const std::size_t before = out.pos;
      ZSTD_inBuffer in{piece_.data(), piece_size_, piece_used_};
      const std::size_t left = ZSTD_decompressStream(decompressor_.get(), &out, &in);
      if (ZSTD_isError(left) != 0) return damaged(ZSTD_getErrorName(left));
      piece_used_ = in.pos;
      if (out.pos > before) continue;
      if (piece_used_ < piece_size_) return damaged("there is more in it than it says");
      if (is_last_) return damaged("it ends too early");
      TRY_VOID(next_piece());
    }
    return {};
  }

  Result<void> expect_end() override {
    char more = 0;
    ZSTD_outBuffer out{&more, 1, 0};
    while (true) {
      ZSTD_inBuffer in{piece_.data(), piece_size_, piece_used_};
      const std::size_t left = ZSTD_decompressStream(decompressor_.get(), &out, &in);
      if (ZSTD_isError(left) != 0) return damaged(ZSTD_getErrorName(left));
      piece_used_ = in.pos;
      if (out.pos > 0 || piece_used_ < piece_size_)
        return damaged("there is more in it than it says");
      if (is_last_) break;
      TRY_VOID(next_piece());
    }
    TRY(const std::size_t behind, source_(std::span(&more, 1)));
    return behind == 0 ? Result<void>() : damaged("something follows its end");
  }

 private:
  Result<void> fill(std::span<char> into) {
    while (!into.empty()) {
      TRY(const std::size_t got, source_(into));
      if (got == 0) return damaged("it is cut off");
      into = into.subspan(got);
    }
    return {};
  }
  Result<std::string> take(std::size_t size) {
    std::string bytes(size, '\0');
    TRY_VOID(fill(bytes));
    return bytes;
  }

  Result<void> next_piece() {
    std::array<char, 4> prefix{};
    TRY_VOID(fill(prefix));
    std::size_t size = 0;
    for (unsigned i = 0; i < 4; ++i) {
      size |= std::size_t{static_cast<unsigned char>(prefix.at(i))} << (8 * i);
    }
    if (size < kSeal || size > kPiece + kSeal) return damaged("a piece of impossible length");
    TRY_VOID(fill(std::span(sealed_).first(size)));
    unsigned char mark = 0;
    unsigned long long opened = 0;
    if (crypto_secretstream_xchacha20poly1305_pull(
            &state_, bytes_of(piece_.data()), &opened, &mark, bytes_of(sealed_.data()), size,
            bytes_of(header_bytes_.data()), header_bytes_.size()) != 0) {
      return damaged("a piece of it is not what was written");
    }
    piece_size_ = opened;
    piece_used_ = 0;
    is_last_ = mark == crypto_secretstream_xchacha20poly1305_TAG_FINAL;
    return {};
  }

  Source source_;
  std::string header_bytes_;
  Header header_;
  std::unique_ptr<ZSTD_DCtx, FreeDecompressor> decompressor_;
  StreamState state_{};
  std::string tag_;
  std::string sealed_;
  std::string piece_;
  std::size_t piece_size_ = 0;
  std::size_t piece_used_ = 0;
  bool is_last_ = false;
};

}  // namespace

Source source_of(BorrowedFd fd) {
  return [fd](std::span<char> into) -> Result<std::size_t> {
    while (true) {
      const ssize_t got = ::read(fd.get(), into.data(), into.size());
      if (got >= 0) return static_cast<std::size_t>(got);
      if (errno != EINTR) return fail_os(errno, "read the checkpoint");
    }
  };
}

Result<std::unique_ptr<SealedWriter>> SealedWriter::open(Sink sink, Header header, const Key& key) {
  TRY_VOID(begin_sodium());
  header.key_id = key.id();
  TRY(std::string bytes, encode_header(header));
  auto writer = std::make_unique<Writer>(std::move(sink), std::move(bytes));
  TRY_VOID(writer->begin(key));
  return writer;
}

Result<std::unique_ptr<SealedReader>> SealedReader::open(Source source, const Key& key,
                                                         std::string_view tenant) {
  TRY_VOID(begin_sodium());
  auto reader = std::make_unique<Reader>(std::move(source));
  TRY_VOID(reader->begin(key, tenant));
  return reader;
}

}  // namespace glovebox::checkpoint
