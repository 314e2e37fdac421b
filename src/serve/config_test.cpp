#include "serve/config.h"

#include "base/file.h"

#include <gmock/gmock.h>

#include <regex>

namespace glovebox::serve {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(Config, DefaultsAreThoseOfTheDocuments) {
  const Config config = parse_config("", "c.toml").value();
  EXPECT_THAT(config.listen, ElementsAre("127.0.0.1:44772"));
  EXPECT_EQ(config.session.idle_timeout, std::chrono::seconds(1800));
  EXPECT_EQ(config.session.run_timeout, std::chrono::seconds(300));
  EXPECT_THAT(config.session.allowed_writable,
              ElementsAre("/workspace", "/mnt", "/media", "/data"));
  EXPECT_EQ(config.session.upper_max_bytes, 8589934592U);
  EXPECT_EQ(config.session.diff_max_bytes, 4294967296U);
}

TEST(Config, ReadsEveryKey) {
  const auto config = parse_config(R"(
listen = ["127.0.0.1:1", "[::1]:2"]
socket = "/run/g.sock"
socket_uids = [1000, 0]
allowed_origins = ["https://a.example"]
upper_root = "/var/lib/g"
secrets_directory = "/etc/g/secrets"
policy_directory = "/etc/g/policies"
resolver = "192.0.2.53:54,192.0.2.54"
audit_file = "/var/log/g.jsonl"
log_level = "debug"
lenient_fields = true
drain_seconds = 3
upper_max_bytes = 0
diff_max_bytes = 5
allowed_writable = []
[limits]
header_bytes = 2048
body_bytes = 4096
upload_bytes = 0
json_depth = 8
connections = 9
requests = 10
idle_seconds = 11
header_seconds = 12
body_seconds = 13
write_seconds = 14
[sessions]
max = 15
idle_timeout_seconds = 0
run_timeout_seconds = 16
on_stop = "delete"
allowed_workspaces = ["/w"]
shared_tmp = "/tmp"
[tls]
certificate = "/c.pem"
key = "/k.pem"
[hardening]
enabled = true
[[token]]
name = "ci"
file = "/t"
scopes = ["create"]
ceiling = "python"
max_sessions = 17
)",
                                   "c.toml");
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_THAT(config->listen, ElementsAre("127.0.0.1:1", "[::1]:2"));
  EXPECT_EQ(config->state_directory, "/var/lib/g");
  EXPECT_EQ(config->secrets_directory, "/etc/g/secrets");
  EXPECT_EQ(config->resolver, "192.0.2.53:54,192.0.2.54");
  EXPECT_TRUE(config->session.allowed_writable.empty());
  EXPECT_EQ(config->http.header_bytes, 2048U);
  EXPECT_EQ(config->http.write, std::chrono::seconds(14));
  EXPECT_EQ(config->session.on_stop, OnStop::Delete);
  ASSERT_EQ(config->tokens.size(), 1U);
  EXPECT_THAT(config->tokens.front().scopes, ElementsAre(Scope::Read, Scope::Create));
  EXPECT_EQ(config->tokens.front().max_sessions, 17U);
}

TEST(Config, SaysEverythingThatIsWrongWithItsLine) {
  const auto config = parse_config(
      "lisen = []\n"
      "socket = \"relative\"\n"
      "[limits]\n"
      "requests = 0\n"
      "[sessions]\n"
      "on_stop = \"sometimes\"\n"
      "max = \"many\"\n"
      "[[token]]\n"
      "scopes = [\"god\"]\n",
      "c.toml");
  ASSERT_FALSE(config);
  const std::string& said = config.error().message;
  for (const char* expected :
       {"c.toml:1: there is no key 'lisen'", "c.toml:2: 'socket' is an absolute path",
        "c.toml:4: 'limits.requests'", "c.toml:6: 'sessions.on_stop' is one of delete, keep",
        "c.toml:7: 'sessions.max'", "c.toml:8: a token needs a 'name'", "c.toml:9: 'god'"}) {
    EXPECT_THAT(said, HasSubstr(expected));
  }
}

TEST(Config, WhatIsNoTomlIsSaidWithItsLine) {
  const auto config = parse_config("a = 1\nb = = 2\n", "c.toml");
  ASSERT_FALSE(config);
  EXPECT_THAT(config.error().message, HasSubstr("c.toml:2: "));
}

TEST(Config, WallsCannotBeSwitchedOff) {
  for (const char* text : {"[hardening]\nenabled = false\n", "[landlock]\nenabled = false\n",
                           "[seccomp]\ndeny = []\n", "[seccomp]\ndeny = [\"mount\"]\n"}) {
    EXPECT_FALSE(parse_config(text, "c.toml")) << text;
  }
}

// docs/reference/config.md is written by hand; this keeps it whole.
TEST(Config, EveryKeyIsDocumented) {
  const auto source = read_file(GLOVEBOX_SOURCE_DIR "/src/serve/config.cpp").value();
  const auto page = read_file(GLOVEBOX_SOURCE_DIR "/docs/reference/config.md").value();
  const std::regex call(
      R"re((?:text|path|flag|number|seconds|texts|paths|choice|find|table)\("([a-z_]+)")re");
  std::set<std::string> keys;
  for (std::sregex_iterator it(source.begin(), source.end(), call), end; it != end; ++it) {
    keys.insert((*it)[1]);
  }
  EXPECT_GT(keys.size(), 30U);
  for (const std::string& key : keys) EXPECT_THAT(page, HasSubstr("`" + key + "`"));
}

}  // namespace
}  // namespace glovebox::serve
