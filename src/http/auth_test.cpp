#include "http/auth.h"

#include <gtest/gtest.h>

namespace glovebox::serve {
namespace {

Request with_header(const char* name, const char* value) {
  Request request;
  request.headers.push_back({name, value});
  return request;
}

Auth with_token() {
  Auth auth;
  EXPECT_TRUE(auth.add_token(
      "secret-token",
      {.name = "token:a", .scopes = {Scope::Read}, .ceiling = nullptr, .max_sessions = 0}));
  return auth;
}

TEST(Auth, TakesTheTokenInEitherHeader) {
  const Auth auth = with_token();
  EXPECT_EQ(auth.identify(with_header("x-execd-access-token", "secret-token"))->name, "token:a");
  EXPECT_EQ(auth.identify(with_header("authorization", "Bearer secret-token"))->name, "token:a");
  EXPECT_EQ(auth.identify(with_header("authorization", "bearer secret-token"))->name, "token:a");
}

TEST(Auth, RefusesEverythingElse) {
  const Auth auth = with_token();
  EXPECT_FALSE(auth.identify(Request{}));
  for (const char* value : {"", "secret-toke", "secret-token ", "secret-tokenx", "SECRET-TOKEN"}) {
    const auto refused = auth.identify(with_header("x-execd-access-token", value));
    ASSERT_FALSE(refused) << value;
    EXPECT_EQ(refused.error().status, 401);
  }
  EXPECT_FALSE(auth.identify(with_header("authorization", "Basic secret-token")));
  const Response response = to_response(auth.identify(Request{}).error());
  EXPECT_NE(response.body.find(
                R"("error":"Unauthorized: invalid or missing header X-EXECD-ACCESS-TOKEN")"),
            std::string::npos);
}

TEST(Auth, AUnixSocketTellsWhoItIs) {
  Auth auth = with_token();
  auth.trust_uid(1000);
  Request request;
  request.peer.uid = 1000;
  EXPECT_EQ(auth.identify(request)->name, "uid:1000");
  request.peer.uid = 1001;
  EXPECT_FALSE(auth.identify(request));
  request.peer.uid = 1000;
  request.headers.push_back({"x-execd-access-token", "wrong-token"});
  EXPECT_FALSE(auth.identify(request)) << "a wrong token is not passed over";
}

TEST(Auth, ScopesIncludeNoMoreThanTheySay) {
  const Identity reader{
      .name = "r", .scopes = {Scope::Read}, .ceiling = nullptr, .max_sessions = 0};
  EXPECT_TRUE(reader.may(Scope::Read));
  EXPECT_FALSE(reader.may(Scope::Create));
  const Identity admin{
      .name = "a", .scopes = {Scope::Admin}, .ceiling = nullptr, .max_sessions = 0};
  EXPECT_TRUE(admin.may(Scope::Create));
}

TEST(Auth, PagesOfOtherOriginsAreRefused) {
  Auth auth;
  EXPECT_TRUE(auth.identify(Request{}));
  EXPECT_EQ(auth.identify(with_header("origin", "https://evil.example")).error().status, 403);
  EXPECT_FALSE(auth.identify(with_header("host", "evil.example:44772"))) << "DNS rebinding";
  for (const char* host : {"127.0.0.1:44772", "localhost:1", "[::1]:44772", "10.0.0.1"}) {
    EXPECT_TRUE(auth.identify(with_header("host", host))) << host;
  }
  auth.allow_origin("https://ok.example");
  EXPECT_TRUE(auth.identify(with_header("origin", "https://ok.example")));
}

TEST(Auth, TokensAreLongAndDifferent) {
  Auth auth = with_token();
  EXPECT_FALSE(auth.add_token("short", {}));
  EXPECT_FALSE(auth.add_token("secret-token", {}));
}

}  // namespace
}  // namespace glovebox::serve
