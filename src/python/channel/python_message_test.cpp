#include "python/channel/python_message.h"

#include <boost/json/serialize.hpp>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <array>
#include <fstream>
#include <map>

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

namespace glovebox::session {
namespace {

using Form = PythonMessage::Form;

std::string frame_of(std::uint32_t size, int word, int form, const std::string& payload) {
  std::string frame;
  for (int i = 0; i < 4; ++i) frame += static_cast<char>(size >> (8 * i));
  frame += static_cast<char>(word);
  frame += static_cast<char>(form);
  frame.append(6, '\0');
  return frame + payload;
}

PythonMessage binary(const std::string& head, const std::string& blobs) {
  std::string bytes;
  for (int i = 0; i < 4; ++i) bytes += static_cast<char>(head.size() >> (8 * i));
  return {Form::Binary, bytes + head + blobs};
}

TEST(PythonFrameReader, PutsFramesTogetherFromAnyPieces) {
  const std::string stream = frame_of(2, 3, 0, "{}") + frame_of(0, 5, 0, "") +
                             frame_of(5, 2, 1, std::string("\0\0\0\0x", 5));
  for (std::size_t piece = 1; piece <= stream.size(); ++piece) {
    PythonFrameReader reader;
    std::vector<PythonFrame> frames;
    for (std::size_t at = 0; at < stream.size(); at += piece) {
      reader.feed(std::string_view(stream).substr(at, piece));
      while (true) {
        auto frame = reader.next();
        ASSERT_TRUE(frame.has_value());
        if (!*frame) break;
        frames.push_back(**std::move(frame));
      }
    }
    ASSERT_EQ(frames.size(), 3U) << piece;
    EXPECT_EQ(frames[0].word, PythonWord::Post);
    EXPECT_EQ(frames[0].message.bytes, "{}");
    EXPECT_EQ(frames[1].message.bytes, "");
    EXPECT_EQ(frames[2].message.form, Form::Binary);
    EXPECT_EQ(reader.pending(), 0U);
  }
}

TEST(PythonFrameReader, RefusesWhatNoHostSends) {
  for (const std::string& wrong :
       {frame_of(0, 0, 0, ""), frame_of(0, 8, 0, ""), frame_of(0, 255, 0, ""),
        frame_of(0, 3, 2, ""), frame_of(python::kMaxMessage + 1, 3, 0, ""),
        frame_of(0xffffffff, 3, 0, ""), std::string("garbage that is long enough")}) {
    PythonFrameReader reader;
    reader.feed(wrong);
    EXPECT_FALSE(reader.next().has_value()) << wrong;
  }
}

TEST(ReplFrameReader, HoldsEachKindToItsBound) {
  const auto reads = [](std::size_t size, python::ReplWord word) {
    ReplFrameReader reader;
    reader.feed(frame_of(static_cast<std::uint32_t>(size), static_cast<int>(word), 0,
                         std::string(size, 'x')));
    return reader.next().has_value();
  };
  using Repl = python::ReplWord;
  const std::map<Repl, std::size_t> bounds = {{Repl::Ready, 0},       {Repl::Bye, 0},
                                              {Repl::Over, 64},       {Repl::Output, 1 << 16},
                                              {Repl::Error, 1 << 16}, {Repl::InputWait, 1 << 16},
                                              {Repl::Image, 8 << 20}};
  for (int word = 0; word < 256; ++word) {
    const auto found = bounds.find(static_cast<Repl>(word));
    const bool is_known = found != bounds.end();
    EXPECT_EQ(reads(is_known ? found->second : 0, static_cast<Repl>(word)), is_known) << word;
    EXPECT_FALSE(reads(is_known ? found->second + 1 : 1, static_cast<Repl>(word))) << word;
  }
}

// The layout as bytes: neither side can change it without this.
TEST(PythonProtocol, HeaderIsTwelveLittleEndianBytes) {
  EXPECT_EQ(encode_order(PythonOrder::Cancel, 0x01020304,
                         {Form::Text, python::encode_numbers<1>({0x0a0b})}),
            std::string("\x08\0\0\0\x05\0\0\0\x04\x03\x02\x01\x0b\x0a\0\0\0\0\0\0", 20));
  const std::string binary_order =
      encode_order(PythonOrder::Reply, 7, message_with_bytes({{"id", 1}}, "xyz"));
  EXPECT_EQ(binary_order,
            std::string("\x0f\0\0\0\x04\x01\0\0\x07\0\0\0\x08\0\0\0{\"id\":1}xyz", 27));
  const auto header = python::decode_header(binary_order);
  ASSERT_TRUE(header);
  EXPECT_EQ(*header, (python::FrameHeader{15, 4, Form::Binary, 7}));
  EXPECT_EQ(python::decode_numbers<1>("1234567"), std::nullopt);
  EXPECT_EQ(python::decode_numbers<2>("12345678"), std::nullopt);
}

TEST(PythonMessage, IsAnObjectOfBoundedDepth) {
  EXPECT_TRUE(read_head({Form::Text, R"({"op":"post","value":[1,{"a":null}]})"}));
  const std::string deep = R"({"value":)" + std::string(200, '[') + std::string(200, ']') + "}";
  for (const std::string& wrong :
       {std::string(""), std::string("[]"), std::string("1"), std::string("{"), std::string("{}x"),
        deep, std::string("{\"a\":\"\xff\"}"), std::string("{\"a\":NaN}")}) {
    EXPECT_FALSE(read_head({Form::Text, wrong}).has_value()) << wrong;
  }
}

TEST(PythonMessage, HasNoMemberTwice) {
  EXPECT_FALSE(read_head({Form::Text, R"({"op": "call", "op": "define"})"}));
  EXPECT_FALSE(read_whole({Form::Text, R"({"op": "call", "more": {"a": 1, "a": 2}})"}));
  EXPECT_TRUE(read_whole({Form::Text, R"({"op": "call", "more": {"op": 1}})"}));
}

TEST(PythonMessage, RefersOnlyToBytesThatItHas) {
  EXPECT_TRUE(read_head(binary(R"({"value":{"$bytes":[1,2]}})", "abc")));
  EXPECT_TRUE(read_head(binary(R"({"value":{"$$bytes":[1,200]}})", "abc")));
  for (const char* wrong :
       {R"({"value":{"$bytes":[1,3]}})", R"({"value":{"$bytes":[-1,1]}})",
        R"({"value":{"$bytes":[18446744073709551615,2]}})", R"({"value":{"$bytes":[0]}})",
        R"({"value":{"$bytes":"x"}})", R"({"value":[{"a":{"$array":[4,1]}}]})"}) {
    EXPECT_FALSE(read_head(binary(wrong, "abc")).has_value()) << wrong;
  }
  EXPECT_FALSE(read_head({Form::Binary, "ab"}).has_value());
  EXPECT_FALSE(read_head({Form::Binary, std::string("\xff\xff\xff\xff{}", 6)}).has_value());
  EXPECT_FALSE(read_head({Form::Text, R"({"value":{"$bytes":[0,1]}})"}).has_value());
}

// What one message makes this process allocate: its peak is that of a child that reads it alone.
std::size_t growth_in_bytes(const PythonMessage& message) {
  const auto resident = [] {
    std::ifstream status("/proc/self/status");
    std::string line;
    while (std::getline(status, line) && !line.starts_with("VmHWM:")) {
    }
    return std::stoul(line.substr(line.find_first_of("0123456789"))) << 10;
  };
  std::array<int, 2> pipe{};
  if (::pipe2(pipe.data(), O_CLOEXEC) != 0) return SIZE_MAX;
  const pid_t child = ::fork();
  if (child == 0) {
    std::ofstream("/proc/self/clear_refs") << "5";  // the peak begins anew
    const std::size_t before = resident();
    const bool is_message = read_head(message).has_value();
    const std::size_t grown = is_message ? resident() - before : SIZE_MAX;
    (void)!::write(pipe[1], &grown, sizeof(grown));
    ::_exit(0);
  }
  std::size_t grown = SIZE_MAX;
  ::close(pipe[1]);
  (void)!::read(pipe[0], &grown, sizeof(grown));
  ::close(pipe[0]);
  ::waitpid(child, nullptr, 0);
  return grown;
}

TEST(PythonMessage, ItsHeadTakesNoMemoryThatGrowsWithIt) {
  std::string list = R"({"ev":"post","value":[0)";
  while (list.size() < (std::size_t{20} << 20)) list += ",0";
  EXPECT_LT(growth_in_bytes({Form::Text, list + "]}"}), std::size_t{2} << 20);
  std::string objects = R"({"ev":"post","value":[{})";
  while (objects.size() < (std::size_t{20} << 20)) objects += R"(,{"":{}})";
  EXPECT_LT(growth_in_bytes({Form::Text, objects + "]}"}), std::size_t{2} << 20);
  const std::string text = R"({"ev":"post","value":")" + std::string(std::size_t{20} << 20, 'x');
  EXPECT_LT(growth_in_bytes({Form::Text, text + "\"}"}), std::size_t{2} << 20);
}

TEST(PythonMessage, ItsHeadIsTheOutermostLevel) {
  const auto head =
      read_head({Form::Text, R"({"id":7,"value":[1,{"id":8}],"error":{"a":1},"n":null})"});
  ASSERT_TRUE(head);
  EXPECT_EQ(boost::json::serialize(head->members), R"({"id":7,"value":[],"error":{},"n":null})");
  EXPECT_EQ(head->values, 9U);
  std::string many = "{";
  for (int i = 0; i < 100; ++i) many += fmt::format("\"{}\":1,", i);
  EXPECT_FALSE(read_head({Form::Text, many + "\"x\":1}"}));
}

TEST(PythonMessage, IsBuiltAsAWholeOnlyWithFewValues) {
  const auto whole = read_whole({Form::Text, R"({"payload":{"path":"/a","n":[1,2]}})"});
  ASSERT_TRUE(whole);
  EXPECT_EQ(boost::json::serialize(*whole), R"({"payload":{"path":"/a","n":[1,2]}})");
  std::string list = R"({"payload":[0)";
  for (std::size_t i = 0; i < kMostWholeValues; ++i) list += ",0";
  EXPECT_FALSE(read_whole({Form::Text, list + "]}"}));
}

TEST(PythonMessage, TextsAreCutBetweenCharacters) {
  EXPECT_EQ(cut_text("abc", 3), "abc");
  EXPECT_EQ(cut_text("abc", 2), "ab");
  EXPECT_EQ(cut_text("a\xc3\xa9", 2), "a");
  EXPECT_EQ(cut_text("\xf0\x9f\x98\x80x", 3), "");
  const std::string long_text =
      R"({"ev":"x)" + std::string(kMostHeadText - 2, 'x') + "\xf0\x9f\x98\x80\"}";
  const auto head = read_head({Form::Text, long_text});
  ASSERT_TRUE(head);
  EXPECT_EQ(head->members.at("ev").as_string().size(), kMostHeadText - 1);
}

}  // namespace
}  // namespace glovebox::session
