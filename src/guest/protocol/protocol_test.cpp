#include "guest/protocol/protocol.h"

#include "base/file.h"
#include "guest/protocol/codec.h"
#include "guest/protocol/entry.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <random>
#include <string>
#include <vector>

namespace glovebox::guest {
namespace {

std::vector<Request> all_requests() {
  return {Hello{1, "/work", {"/bin/bash"}, {"A=1", "B="}},
          CodePart{std::string("x\0y", 3)},
          StartRun{RunMode::Fresh,
                   RunIo::Terminal,
                   RunInput::Streamed,
                   24,
                   80,
                   "code",
                   {"a", ""},
                   {"K=v"},
                   "/cwd"},
          Input{"bytes"},
          InputEnd{},
          Resize{50, 132},
          SignalRun{15},
          KillRun{3000},
          StartJob{JobKind::Replace, 3, "p", "t", "old", "new", "root", "0", 0644, 1ULL << 40, 7},
          CancelJob{},
          Credit{Stream::Error, 1ULL << 33},
          Shutdown{}};
}

std::vector<Reply> all_replies() {
  return {Ready{1, ShellKind::Sh},
          RunStarted{},
          RunEnded{EndKind::Signaled, 9, ShellState::Fresh},
          JobEnded{2, 5, "open x: no", 12, "detail"},
          Refused{1, 13, "no"},
          Output{Stream::Error, "text"},
          OutputEnd{Stream::Output},
          Credit{Stream::Input, 5},
          RunDone{{EndKind::Exited, 3, ShellState::Kept}, "out", std::string("e\0r", 3)}};
}

TEST(Protocol, EveryMessageComesBackAsItWas) {
  static_assert(std::variant_size_v<Request> == 12 && std::variant_size_v<Reply> == 9,
                "a message without a test");
  for (const Request& body : all_requests()) {
    const Frame<Request> frame{77, 1, body};
    const auto bytes = encode(frame);
    ASSERT_TRUE(bytes);
    const auto decoded = decode_request(*bytes);
    ASSERT_TRUE(decoded) << decoded.error().message;
    EXPECT_EQ(*decoded, frame);
    EXPECT_FALSE(decode_reply(*bytes)) << "a request read as a reply";
  }
  for (const Reply& body : all_replies()) {
    const Frame<Reply> frame{~Id{0}, 0, body};
    const auto bytes = encode(frame);
    ASSERT_TRUE(bytes);
    const auto decoded = decode_reply(*bytes);
    ASSERT_TRUE(decoded) << decoded.error().message;
    EXPECT_EQ(*decoded, frame);
    EXPECT_FALSE(decode_request(*bytes)) << "a reply read as a request";
  }
}

TEST(Protocol, EveryCutAndEveryAdditionIsRefused) {
  for (const Request& body : all_requests()) {
    const std::string bytes = *encode(Frame<Request>{1, 0, body});
    for (std::size_t size = 0; size < bytes.size(); ++size) {
      EXPECT_FALSE(decode_request(std::string_view(bytes).substr(0, size)));
    }
    EXPECT_FALSE(decode_request(bytes + '\0'));
    // The same with a length in the header that fits.
    std::string longer = bytes + '\0';
    longer[8] = static_cast<char>(longer.size() - kHeaderSize);
    if (longer.size() < 200) {
      EXPECT_FALSE(decode_request(longer));
    }
  }
}

TEST(Protocol, HeadersThatNoFrameCanHaveAreRefusedAtOnce) {
  const std::string good = *encode(Frame<Reply>{1, 0, RunStarted{}});
  EXPECT_EQ(frame_size(good).value(), good.size());
  EXPECT_EQ(frame_size(std::string_view(good).substr(0, 19)).value(), std::nullopt);
  const auto with = [&](std::size_t at, int value) {
    std::string bytes = good;
    bytes.at(at) = static_cast<char>(value);
    return bytes;
  };
  EXPECT_FALSE(frame_size(with(0, 'X')));   // another protocol
  EXPECT_FALSE(frame_size(with(3, 2)));     // another version
  EXPECT_FALSE(frame_size(with(10, 1)));    // longer than a frame may be
  EXPECT_FALSE(frame_size(with(6, 4)));     // too many descriptors
  EXPECT_FALSE(decode_reply(with(4, 64)));  // types around the known ones
  EXPECT_FALSE(decode_reply(with(4, 74)));
  EXPECT_FALSE(decode_reply(with(5, 1)));
}

TEST(Protocol, ValuesOutsideTheirEnumerationAreRefused) {
  std::string bytes = *encode(Frame<Reply>{1, 0, OutputEnd{Stream::Error}});
  EXPECT_TRUE(decode_reply(bytes));
  bytes.back() = 3;
  EXPECT_FALSE(decode_reply(bytes));
}

TEST(Protocol, CountsAreNotBelieved) {
  std::string fields;
  FieldWriter write(fields);
  write(std::uint32_t{0xffff'ffff});
  std::vector<std::string> list;
  FieldReader read(fields);
  read(list);
  EXPECT_TRUE(read.failed());
  EXPECT_EQ(list.capacity(), 0U);
}

TEST(Protocol, MessagesTooLargeForAFrameAreNotEncoded) {
  EXPECT_TRUE(encode(Frame<Request>{1, 0, Input{std::string(kMaxChunk, 'x')}}));
  EXPECT_FALSE(encode(Frame<Request>{1, 0, Input{std::string(kMaxFrame, 'x')}}));
}

TEST(Protocol, EntriesFollowOneAnother) {
  Entry entry;
  entry.kind = EntryKind::Symlink;
  entry.mode = 0777;
  entry.size = 12;
  entry.modified_ns = 1'700'000'000'000'000'000;
  entry.owner = "root";
  entry.path = "/work/link";
  entry.target = "over/there";
  const std::string record = encode_entry(entry);
  const std::string both = record + record;
  std::string_view rest = both;
  EXPECT_EQ(take_entry(rest).value(), entry);
  EXPECT_EQ(take_entry(rest).value(), entry);
  EXPECT_EQ(rest, "");
  for (std::size_t size = 0; size < record.size(); ++size) {
    std::string_view part = std::string_view(record).substr(0, size);
    EXPECT_EQ(take_entry(part).value(), std::nullopt);
  }
  std::string huge(4, '\xff');
  std::string_view bad = huge;
  EXPECT_FALSE(take_entry(bad));
}

// What the fuzzer does, for a moment and always the same.
void decode_anything(std::string_view bytes) {
  if (const auto request = decode_request(bytes)) {
    EXPECT_EQ(*encode(*request), bytes);
  }
  if (const auto reply = decode_reply(bytes)) {
    EXPECT_EQ(*encode(*reply), bytes);
  }
  (void)frame_size(bytes);
  (void)take_entry(bytes);
}

TEST(Protocol, MutatedFramesNeverCrashAndOnlyCanonicalOnesPass) {
  std::mt19937 random(20260101);  // NOLINT: the same bytes every time
  std::vector<std::string> seeds;
  for (const Request& body : all_requests()) seeds.push_back(*encode(Frame<Request>{5, 0, body}));
  for (const Reply& body : all_replies()) seeds.push_back(*encode(Frame<Reply>{5, 0, body}));
  for (int i = 0; i < 200'000; ++i) {
    std::string bytes = seeds[random() % seeds.size()];
    for (std::size_t n = random() % 4 + 1; n > 0; --n) {
      bytes[random() % bytes.size()] = static_cast<char>(random());
    }
    if (random() % 4 == 0) bytes.resize(random() % (bytes.size() + 4));
    if (!bytes.empty()) decode_anything(bytes);
  }
}

TEST(Protocol, TheFuzzersCorpusPasses) {
  std::size_t count = 0;
  for (const auto& file : std::filesystem::directory_iterator(GLOVEBOX_AGENT_CORPUS)) {
    const auto bytes = read_file(file.path());
    ASSERT_TRUE(bytes) << bytes.error().message;
    decode_anything(*bytes);
    ++count;
  }
  EXPECT_GE(count, 20U);
}

}  // namespace
}  // namespace glovebox::guest
