// What goes in comes out, and nothing else ever does.
#include "checkpoint/sealed_stream.h"

#include "checkpoint/records.h"

#include <gtest/gtest.h>

#include <random>

namespace glovebox::checkpoint {
namespace {

Source source_of_text(const std::string& text) {
  return [text, at = std::size_t{0}](std::span<char> into) mutable -> Result<std::size_t> {
    const std::size_t size = std::min(into.size(), text.size() - at);
    std::copy_n(text.data() + at, size, into.data());
    at += size;
    return size;
  };
}

Header some_header() {
  return {.tenant = "team-a", .policy_digest = "sha256:1", .state = {"config"}, .key_id = ""};
}

std::string seal(const Key& key, std::string_view content) {
  std::string file;
  const auto writer = SealedWriter::open(
      [&](std::string_view bytes) -> Result<void> {
        file += bytes;
        return {};
      },
      some_header(), key);
  EXPECT_TRUE(writer) << writer.error().message;
  EXPECT_TRUE((*writer)->write(content));
  EXPECT_TRUE((*writer)->finish());
  return file;
}

// Reads `size` bytes and the end.
Result<std::string> unseal(const std::string& file, const Key& key, std::size_t size,
                           std::string_view tenant = "team-a") {
  TRY(const auto reader, SealedReader::open(source_of_text(file), key, tenant));
  std::string content(size, '\0');
  TRY_VOID(reader->read(content));
  TRY_VOID(reader->expect_end());
  return content;
}

std::string random_text(std::size_t size, unsigned seed) {
  std::mt19937 random(seed);
  std::string text(size, '\0');
  for (char& each : text) each = static_cast<char>(random());
  return text;
}

TEST(SealedStream, ComesBackAsItWas) {
  const Key key = *make_key();
  for (const std::size_t size : {0U, 1U, 1000U, 300'000U, 3'000'000U}) {
    for (const std::string& text : {std::string(size, 'a'), random_text(size, 3)}) {
      const auto back = unseal(seal(key, text), key, size);
      ASSERT_TRUE(back) << back.error().message;
      EXPECT_TRUE(*back == text) << size;
    }
  }
}

TEST(SealedStream, NoTwoFilesAreAlikeAndNoneShowsItsContent) {
  const Key key = *make_key();
  const std::string one = seal(key, "hunter2 hunter2 hunter2");
  EXPECT_NE(one, seal(key, "hunter2 hunter2 hunter2"));
  EXPECT_EQ(one.find("hunter2"), std::string::npos);
}

TEST(SealedStream, AnotherKeyAndAnotherTenantAreToldApart) {
  const Key key = *make_key();
  const std::string file = seal(key, "content");
  const auto other_key = unseal(file, *make_key(), 7);
  ASSERT_FALSE(other_key);
  EXPECT_EQ(other_key.error().code, Code::Denied);
  EXPECT_NE(other_key.error().message.find("another key"), std::string::npos);
  const auto other_tenant = unseal(file, key, 7, "team-b");
  ASSERT_FALSE(other_tenant);
  EXPECT_EQ(other_tenant.error().code, Code::Denied);
  EXPECT_NE(other_tenant.error().message.find("tenant"), std::string::npos);
}

// An attacker with the file can write another tenant into its header, of the same length even.
TEST(SealedStream, AForgedTenantDoesNotOpenIt) {
  const Key key = *make_key();
  std::string file = seal(key, "content");
  file.replace(file.find("team-a"), 6, "team-b");
  const auto opened = unseal(file, key, 7, "team-b");
  ASSERT_FALSE(opened);
  EXPECT_EQ(opened.error().code, Code::Invalid);
}

TEST(SealedStream, ANewerVersionIsRefusedByNumber) {
  const Key key = *make_key();
  std::string file = seal(key, "content");
  file[8] = 2;
  const auto opened = unseal(file, key, 7);
  ASSERT_FALSE(opened);
  EXPECT_EQ(opened.error().code, Code::Unsupported);
  EXPECT_NE(opened.error().message.find("version 2"), std::string::npos);
}

TEST(SealedStream, EveryCutIsSeen) {
  const Key key = *make_key();
  const std::string text = random_text(600'000, 5);
  const std::string file = seal(key, text);
  for (std::size_t size = 0; size < 300; ++size) {
    EXPECT_FALSE(unseal(file.substr(0, size), key, text.size())) << size;
  }
  for (std::size_t cut = 1; cut < 400'000; cut += 9973) {
    EXPECT_FALSE(unseal(file.substr(0, file.size() - cut), key, text.size())) << cut;
  }
  EXPECT_FALSE(unseal(file + "x", key, text.size())) << "something behind the end";
}

TEST(SealedStream, EveryChangedBitIsSeen) {
  const Key key = *make_key();
  const std::string text = random_text(2'000, 6);
  const std::string file = seal(key, text);
  for (std::size_t at = 0; at < file.size(); ++at) {
    std::string changed = file;
    changed[at] = static_cast<char>(changed[at] ^ (1 << (at % 8)));
    const auto opened = unseal(changed, key, text.size());
    EXPECT_FALSE(opened) << at;
  }
}

TEST(SealedStream, PiecesCannotBeSwappedOrLeftOut) {
  const Key key = *make_key();
  const std::string text = random_text(1'000'000, 8);
  const std::string file = seal(key, text);
  // Pieces of random bytes are as long as a piece can be.
  const std::size_t piece = 4 + (256 << 10) + 17;
  const std::size_t first = file.size() % piece > 0 ? file.find("\"key\"") : 0;
  ASSERT_NE(first, std::string::npos);
  std::size_t begin = 16;
  begin += static_cast<unsigned char>(file[12]) + 256U * static_cast<unsigned char>(file[13]) + 24;
  std::string swapped = file;
  std::swap_ranges(swapped.begin() + static_cast<std::ptrdiff_t>(begin),
                   swapped.begin() + static_cast<std::ptrdiff_t>(begin + piece),
                   swapped.begin() + static_cast<std::ptrdiff_t>(begin + piece));
  EXPECT_FALSE(unseal(swapped, key, text.size()));
  std::string without = file;
  without.erase(begin + piece, piece);
  EXPECT_FALSE(unseal(without, key, text.size()));
}

TEST(CheckpointRecords, EntriesThatLeadElsewhereAreRefused) {
  EntryRecord good;
  good.path = "a/b";
  const auto refused = [](const EntryRecord& entry) {
    std::string file;
    const auto writer = SealedWriter::open(
        [&](std::string_view bytes) -> Result<void> {
          file += bytes;
          return {};
        },
        some_header(), *make_key());
    return !RecordWriter(**writer).entry(entry);
  };
  EXPECT_FALSE(refused(good));
  for (const char* path : {"", "/a", "a/", "a//b", "..", "a/../b", ".", "./a", "a/."}) {
    EntryRecord bad = good;
    bad.path = path;
    EXPECT_TRUE(refused(bad)) << path;
  }
  EntryRecord link = good;
  link.type = EntryType::Symlink;
  EXPECT_TRUE(refused(link)) << "no target";
  EntryRecord opaque = good;
  opaque.is_opaque = true;
  EXPECT_TRUE(refused(opaque));
  EntryRecord forged = good;
  forged.xattrs["user.overlay.redirect"] = "/etc";
  EXPECT_TRUE(refused(forged));
  forged.xattrs = {{"security.capability", "x"}};
  EXPECT_TRUE(refused(forged));
}

}  // namespace
}  // namespace glovebox::checkpoint
