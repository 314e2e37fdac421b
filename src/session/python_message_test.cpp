#include "session/python_message.h"

#include <gtest/gtest.h>

namespace glovebox::session {
namespace {

using Form = PythonMessage::Form;

std::string frame_of(std::uint32_t size, int word, int form, std::string payload) {
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
       {frame_of(0, 0, 0, ""), frame_of(0, 7, 0, ""), frame_of(0, 255, 0, ""),
        frame_of(0, 3, 2, ""), frame_of(kMaxPythonMessage + 1, 3, 0, ""),
        frame_of(0xffffffff, 3, 0, ""), std::string("garbage that is long enough")}) {
    PythonFrameReader reader;
    reader.feed(wrong);
    EXPECT_FALSE(reader.next().has_value()) << wrong;
  }
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

}  // namespace
}  // namespace glovebox::session
