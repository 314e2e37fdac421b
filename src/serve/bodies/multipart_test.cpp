#include "serve/bodies/multipart.h"

#include <gmock/gmock.h>

#include <vector>

namespace glovebox::serve {
namespace {

struct Part {
  std::string name;
  std::optional<std::string> filename;
  std::string data;
  friend bool operator==(const Part&, const Part&) = default;
};

// Reads a body that comes in pieces of `step` bytes.
Result<std::vector<Part>> read_all(std::string_view body, std::size_t step,
                                   std::string_view boundary = "b") {
  MultipartReader reader(boundary);
  std::vector<Part> parts;
  for (;;) {
    TRY(const MultipartEvent event, reader.next());
    if (const auto* begin = std::get_if<PartBegin>(&event)) {
      parts.push_back({begin->name, begin->filename, ""});
    } else if (const auto* data = std::get_if<PartData>(&event)) {
      parts.back().data += data->bytes;
    } else if (std::holds_alternative<BodyEnd>(event)) {
      return parts;
    } else if (std::holds_alternative<NeedMore>(event)) {
      if (body.empty()) reader.end_input();
      reader.feed(body.substr(0, step));
      body.remove_prefix(std::min(step, body.size()));
    }
  }
}

const std::string kPair =
    "--b\r\nContent-Disposition: form-data; name=\"metadata\"; filename=\"metadata\"\r\n"
    "Content-Type: application/json\r\n\r\n{\"path\":\"/w/a\"}\r\n"
    "--b\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a \\\"q\\\".txt\"\r\n\r\n"
    "one\r\n--not\r\n-\r\n--bb is no boundary? it is\r\n--b--\r\nepilogue";

TEST(Multipart, ReadsPartsInPiecesOfAnySize) {
  const std::string body =
      "--b\r\nContent-Disposition: form-data; name=\"metadata\"; filename=\"metadata\"\r\n"
      "Content-Type: application/json\r\n\r\n{\"path\":\"/w/a\"}\r\n"
      "--b\r\ncontent-disposition: form-data; name=file; filename=\"a \\\"q\\\".txt\"\r\n\r\n"
      "one\r\n--not\r\n-\r\n\r\n\r\n--b  \r\nContent-Disposition: form-data; name=\"x\"\r\n\r\n"
      "\r\n--b--\r\nepilogue";
  const std::vector<Part> expected = {{"metadata", "metadata", "{\"path\":\"/w/a\"}"},
                                      {"file", "a \"q\".txt", "one\r\n--not\r\n-\r\n\r\n"},
                                      {"x", std::nullopt, ""}};
  for (std::size_t step = 1; step < body.size() + 2; ++step) {
    const auto parts = read_all(body, step);
    ASSERT_TRUE(parts) << parts.error().message << " in steps of " << step;
    EXPECT_EQ(*parts, expected) << "in steps of " << step;
  }
}

TEST(Multipart, RefusesWhatDoesNotFit) {
  for (const std::string body :
       {"", "--b", "--b\r\n", "--b\r\n\r\n", "no boundary at all",
        "--b\r\nX: y\r\n\r\ndata\r\n--b--",
        "--b\r\nContent-Disposition: form-data\r\n\r\ndata\r\n--b--",
        "--b\r\nContent-Disposition: form-data; name=\"a\r\n\r\ndata\r\n--b--",
        "--b junk\r\nContent-Disposition: form-data; name=a\r\n\r\n\r\n--b--",
        "--b\r\nContent-Disposition: form-data; name=a\r\n\r\nno end"}) {
    EXPECT_FALSE(read_all(body, 7)) << body;
  }
  EXPECT_FALSE(read_all(kPair, 5)) << "--bb is a boundary with text behind it";
}

TEST(Multipart, BoundsHeadersAndParts) {
  const std::string head = "--b\r\nContent-Disposition: form-data; name=a\r\n";
  EXPECT_FALSE(read_all(head + std::string(20'000, 'x') + "\r\n\r\n\r\n--b--", 1'000));
  EXPECT_FALSE(read_all(std::string(20'000, 'x'), 1'000)) << "a preamble without an end";
  std::string many;
  for (std::size_t i = 0; i <= MultipartReader::kMaxParts; ++i) many += head + "\r\n\r\n";
  EXPECT_FALSE(read_all(many + "--b--", 10'000));
}

TEST(Multipart, FindsTheBoundary) {
  EXPECT_EQ(multipart_boundary("multipart/form-data; boundary=----formdata-undici-01").value(),
            "----formdata-undici-01");
  EXPECT_EQ(multipart_boundary("Multipart/Form-Data; charset=x; boundary=\"a b\"").value(), "a b");
  EXPECT_FALSE(multipart_boundary("multipart/form-data"));
  EXPECT_FALSE(multipart_boundary("application/json; boundary=x"));
  EXPECT_FALSE(multipart_boundary("multipart/form-data; boundary=" + std::string(71, 'x')));
}

}  // namespace
}  // namespace glovebox::serve
