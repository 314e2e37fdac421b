#include "serve/sse.h"

#include <boost/json/parse.hpp>
#include <gmock/gmock.h>

#include <vector>

namespace glovebox::serve {
namespace {

using guest::Stream;

struct Event {
  std::string type;
  std::string text;
  friend bool operator==(const Event&, const Event&) = default;
};

std::vector<Event> events_of(std::string_view sent) {
  std::vector<Event> events;
  while (!sent.empty()) {
    const std::size_t end = sent.find("\n\n");
    EXPECT_NE(end, std::string_view::npos);
    const auto object = boost::json::parse(std::string(sent.substr(0, end))).as_object();
    EXPECT_TRUE(object.contains("timestamp"));
    const auto* text = object.if_contains("text");
    events.push_back({std::string(object.at("type").as_string()),
                      text == nullptr ? "" : std::string(text->as_string())});
    sent.remove_prefix(end + 2);
  }
  return events;
}

TEST(Events, OneForEachLineAndNoneForEmptyOnes) {
  EventWriter writer(EventForm::Lines);
  writer.add(Stream::Output, "a\n\nb");
  writer.add(Stream::Output, "c\r\nlast");
  writer.complete();
  const std::vector<Event> expected = {
      {"stdout", "a"}, {"stdout", "bc"}, {"stdout", "last"}, {"execution_complete", ""}};
  EXPECT_EQ(events_of(writer.pending()), expected);
}

TEST(Events, HaveTheFieldsInTheirOrder) {
  EventWriter writer(EventForm::Lines);
  writer.error("command exited with code 2", "ExitError", "2");
  EXPECT_THAT(writer.pending(),
              testing::MatchesRegex("[{]\"type\":\"error\",\"text\":\"command exited with code 2\","
                                    "\"timestamp\":[0-9]+,\"error\":[{]\"ename\":\"ExitError\","
                                    "\"evalue\":\"2\",\"traceback\":null[}][}]\n\n"));
}

TEST(Events, StreamsDoNotMix) {
  EventWriter writer(EventForm::Lines);
  writer.add(Stream::Output, "half ");
  writer.add(Stream::Error, "oops\n");
  writer.add(Stream::Output, "whole\n");
  const std::vector<Event> expected = {{"stderr", "oops"}, {"stdout", "half whole"}};
  EXPECT_EQ(events_of(writer.pending()), expected);
}

TEST(Events, AreValidJsonWhateverTheBytes) {
  std::string all;
  for (int c = 255; c >= 0; --c) all += static_cast<char>(c);
  for (const std::string& bytes :
       {all, std::string("\xf0\x9f\x98"), std::string("\xed\xa0\x80"), std::string("\xc0\xaf"),
        std::string("ok \xf0\x9f\x98\x80 \xe2\x82\xac\n"), std::string(3, '\0')}) {
    EventWriter writer(EventForm::Lines);
    writer.add(Stream::Output, bytes);
    writer.complete();
    EXPECT_FALSE(events_of(writer.pending()).empty());
  }
  EventWriter writer(EventForm::Lines);
  writer.add(Stream::Output, "\xf0\x9f\x98\x80 \"\\ \x01\x7f \xff\n");
  EXPECT_EQ(events_of(writer.pending()).front().text,
            "\xf0\x9f\x98\x80 \"\\ \x01\x7f \xEF\xBF\xBD");
}

// Text is looked at many bytes at a time.
TEST(Events, AByteThatNeedsCareIsFoundAtEveryPlace) {
  for (const char special : {'"', '\\', '\x01', '\x1f', '\x7f', '\xff'}) {
    for (std::size_t size = 1; size <= 80; ++size) {
      for (std::size_t at = 0; at < size; ++at) {
        std::string text(size, 'a');
        text[at] = special;
        EventWriter writer(EventForm::Lines);
        writer.add(Stream::Output, text + "\n");
        const std::string expected = special == '\xff' ? text.replace(at, 1, "\xEF\xBF\xBD") : text;
        ASSERT_EQ(events_of(writer.pending()), (std::vector<Event>{{"stdout", expected}}));
      }
    }
  }
}

TEST(Events, AVeryLongLineIsCutBetweenCharacters) {
  EventWriter writer(EventForm::Lines);
  std::string euros;
  while (euros.size() < 3 * kLongestLine) euros += "\xe2\x82\xac";
  for (std::size_t at = 0; at < euros.size(); at += 65'536) {
    writer.add(Stream::Output, std::string_view(euros).substr(at, 65'536));
  }
  writer.flush();
  std::string together;
  const auto events = events_of(writer.pending());
  for (const Event& event : events) together += event.text;
  EXPECT_GT(events.size(), 2U);
  EXPECT_EQ(together, euros);
}

TEST(Events, StandardFormHasFieldsAndKeepsPiecesWhole) {
  EventWriter writer(EventForm::Standard);
  writer.add(Stream::Output, "prompt> \xe2\x82");
  writer.add(Stream::Output, "\xac\n");
  EXPECT_THAT(writer.pending(),
              testing::MatchesRegex("id: 1\nevent: stdout\ndata: .*prompt> \".*\n\n"
                                    "id: 2\nevent: stdout\ndata: .*\xe2\x82\xac.n\".*\n\n"));
}

}  // namespace
}  // namespace glovebox::serve
