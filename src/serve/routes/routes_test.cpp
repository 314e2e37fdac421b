#include "http/url.h"
#include "serve/openapi.h"
#include "serve/routes/handlers.h"

#include <gmock/gmock.h>

#include <set>
#include <sstream>

namespace glovebox::serve {
namespace {

// "GET /ping" for each operation of the document: paths are at two blanks, methods at four.
std::set<std::string> documented() {
  std::set<std::string> operations;
  std::istringstream lines{std::string(openapi_document())};
  std::string line;
  std::string path;
  bool in_paths = false;
  while (std::getline(lines, line)) {
    if (!line.starts_with(' ')) in_paths = line == "paths:";
    if (!in_paths) continue;
    if (line.starts_with("  /")) path = line.substr(2, line.size() - 3);
    for (const char* method : {"get", "post", "put", "patch", "delete"}) {
      if (line != fmt::format("    {}:", method)) continue;
      std::string upper;
      for (const char* c = method; *c != '\0'; ++c) upper += static_cast<char>(*c - 'a' + 'A');
      operations.insert(upper + " " + path);
    }
  }
  return operations;
}

TEST(Routes, AreThoseOfTheDocument) {
  std::set<std::string> routes;
  for (const Route& route : all_routes()) {
    routes.insert(fmt::format("{} {}", to_text(route.method), route.pattern));
  }
  EXPECT_EQ(routes, documented());
  EXPECT_EQ(routes.size(), all_routes().size()) << "a route is there twice";
}

TEST(Routes, AreFoundWithTheirParts) {
  const Router router(all_routes());
  const Router::Match match = router.find(Method::Get, "/v1/isolated/session/a%20b/runs/r/logs");
  ASSERT_NE(match.route, nullptr);
  EXPECT_THAT(match.parts, testing::ElementsAre("a b", "r"));
  EXPECT_EQ(router.find(Method::Get, "/nothing").route, nullptr);
  EXPECT_EQ(router.find(Method::Get, "/v1/isolated/session/").route, nullptr);
  EXPECT_EQ(router.find(Method::Get, "/v1/isolated/session/x/").route, nullptr);
  EXPECT_EQ(router.find(Method::Put, "/v1/isolated/session/x").allowed, "GET, PATCH, DELETE");
}

TEST(Routes, ChangingThingsNeedsMoreThanReading) {
  for (const Route& route : all_routes()) {
    if (route.method == Method::Get) continue;
    EXPECT_NE(route.scope, Scope::Read) << route.pattern;
  }
}

TEST(Url, DecodesAndRefuses) {
  EXPECT_EQ(percent_decode("a%2Fb+c", Plus::IsSpace), "a/b c");
  EXPECT_EQ(percent_decode("a+b", Plus::IsItself), "a+b");
  EXPECT_FALSE(percent_decode("%2", Plus::IsItself));
  EXPECT_FALSE(percent_decode("%zz", Plus::IsItself));
  EXPECT_FALSE(percent_decode("%00", Plus::IsItself));
  const auto fields = parse_query("path=%2Fa&path=b%20c&x");
  ASSERT_TRUE(fields);
  EXPECT_THAT(*fields,
              testing::ElementsAre(Field{"path", "/a"}, Field{"path", "b c"}, Field{"x", ""}));
  EXPECT_FALSE(parse_query("a=%"));
}

}  // namespace
}  // namespace glovebox::serve
