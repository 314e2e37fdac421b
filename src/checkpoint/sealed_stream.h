// Bytes on their way into a checkpoint file and out of it: compressed, encrypted, authenticated.
//
// After the header (header.h) come the 24 bytes that libsodium's secretstream begins with, and then
// pieces: a length of 4 bytes, little-endian, and so many bytes of XChaCha20-Poly1305, each bound
// to its place in the stream and to the header. The last is marked as the last. Inside is one zstd
// stream. So a wrong key, a changed or moved byte, a missing piece and a cut file are all told from
// the real thing, and nothing that was not authenticated is ever decompressed.
//
// Both sides hold a few buffers of fixed size, whatever the size of the file.
#pragma once

#include "base/result.h"
#include "base/unique_fd.h"
#include "checkpoint/header.h"
#include "checkpoint/key.h"

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace glovebox::checkpoint {

using Sink = std::function<Result<void>(std::string_view)>;
// Fills the span as far as it can; 0 is the end.
using Source = std::function<Result<std::size_t>(std::span<char>)>;

Source source_of(BorrowedFd fd);

class SealedWriter {
 public:
  // Writes the header.
  static Result<std::unique_ptr<SealedWriter>> open(Sink sink, Header header, const Key& key);
  SealedWriter(const SealedWriter&) = delete;
  SealedWriter& operator=(const SealedWriter&) = delete;
  virtual ~SealedWriter() = default;

  virtual Result<void> write(std::string_view bytes) = 0;
  // The file is whole after this, and not before.
  virtual Result<void> finish() = 0;
  // Tells this file from all others: the beginning of its stream, in hex.
  virtual const std::string& tag() const = 0;

 protected:
  SealedWriter() = default;
};

class SealedReader {
 public:
  // Reads the header and the first piece, so that whatever is wrong with key, tenant or version is
  // known before anything is done: Code::Denied for another key or tenant, Unsupported for a newer
  // version, Invalid for what is damaged.
  static Result<std::unique_ptr<SealedReader>> open(Source source, const Key& key,
                                                    std::string_view tenant);
  SealedReader(const SealedReader&) = delete;
  SealedReader& operator=(const SealedReader&) = delete;
  virtual ~SealedReader() = default;

  virtual const Header& header() const = 0;
  virtual const std::string& tag() const = 0;
  // All of the span, or Code::Invalid: the stream is over or damaged.
  virtual Result<void> read(std::span<char> into) = 0;
  // Nothing is left, neither in the stream nor behind it.
  virtual Result<void> expect_end() = 0;

 protected:
  SealedReader() = default;
};

}  // namespace glovebox::checkpoint
