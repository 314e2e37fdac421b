#include "serve/bodies/create_body.h"

#include "authority/terms.h"
#include "serve/bodies/host_rules.h"

#include <boost/json/parse.hpp>
#include <gmock/gmock.h>

#include <filesystem>

#include <sys/stat.h>
#include <unistd.h>

namespace glovebox::serve {
namespace {

using testing::HasSubstr;

Result<CreateOrder, ApiError> read(const std::string& text, Unknown unknown = Unknown::Refuse) {
  return read_create_order(boost::json::parse(text), unknown);
}

std::string refusal(const std::string& text) {
  const auto order = read(text);
  EXPECT_FALSE(order) << text;
  if (order) return "";
  EXPECT_EQ(order.error().status, 400) << text;
  return order.error().message;
}

TEST(CreateOrder, OmittedMeansTheStrongDefault) {
  const CreateOrder order = read(R"({"workspace":{"path":"/w"}})").value();
  EXPECT_EQ(order.profile, Profile::Strict);
  EXPECT_EQ(order.session.workspaces.front().mode, WorkspaceMode::Overlay);
  EXPECT_EQ(order.env.mode, EnvPassthrough::Mode::Deny);
  EXPECT_FALSE(order.session.idle_timeout) << "omitted is not zero";
  const CreateOrder never = read(R"({"workspace":{"path":"/w"},"idle_timeout_seconds":0})").value();
  EXPECT_EQ(never.session.idle_timeout, std::chrono::milliseconds(0));
}

TEST(CreateOrder, ReadsEverything) {
  const auto order = read(R"({"workspace":{"path":"/w","mode":"rw"},
    "overlays":[{"path":"/x","persist":false},{"path":"/y","mode":"ro"}],
    "profile":"balanced","extra_writable":["/data/e"],
    "binds":[{"source":"/data/b","dest":"/mnt/b","readonly":true},{"source":"/data/c"}],
    "share_net":false,"env_passthrough":{"mode":"allow","keys":["A"]},"uid":1000,"gid":1001,
    "uid_mode":"userns","idle_timeout_seconds":60,"backend":"process","policy":"python",
    "if_policy":"abc","limits":{"memory":"256MiB","pids":64,"cpus":1.5},
    "capabilities":[{"kind":"read_path","path":"/srv"}],"labels":{"a":"b"},"name":"n"})");
  ASSERT_TRUE(order) << order.error().message;
  ASSERT_EQ(order->session.workspaces.size(), 3U);
  EXPECT_EQ(order->session.workspaces[1].mode, WorkspaceMode::Discard);
  EXPECT_EQ(order->session.workspaces[2].mode, WorkspaceMode::Read);
  ASSERT_EQ(order->session.binds.size(), 3U);
  EXPECT_EQ(order->session.binds[1].mode, WorkspaceMode::Read);
  EXPECT_EQ(order->session.binds[2].dest, "/data/c");
  EXPECT_EQ(order->session.uid, 1000U);
  EXPECT_EQ(order->session.cpus_milli, 1500U);
  EXPECT_EQ(order->session.policy.name, "python");
  EXPECT_EQ(order->session.handed.budget(authority::BudgetKind::Memory), 256U << 20);
  EXPECT_FALSE(order->session.handed.grants_nothing());
}

TEST(CreateOrder, ASharedNetworkIsThePublicOne) {
  const auto parsed = parse_json(R"({"workspace":{"path":"/w"},"share_net":true})", 8);
  ASSERT_TRUE(parsed);
  const auto order = read_create_order(*parsed, Unknown::Refuse);
  ASSERT_TRUE(order) << order.error().message;
  const authority::AuthoritySet& handed = order->session.handed;
  EXPECT_TRUE(shares_network(handed));
  EXPECT_FALSE(shares_network({}));
  const auto allows = [&](const char* term) {
    return handed.decide(*authority::parse_term(term)).effect == authority::Effect::Allow;
  };
  EXPECT_TRUE(allows("connect=pypi.example:443"));
  EXPECT_TRUE(allows("connect=192.0.2.1:443"));
  for (const char* term : {"connect=10.1.2.3:80", "connect=192.168.1.1:80", "connect=172.20.0.1:80",
                           "connect=[fd00::1]:80"}) {
    EXPECT_FALSE(allows(term)) << term;
  }
}

TEST(CreateOrder, RefusesWithTheNameOfTheField) {
  EXPECT_THAT(refusal("{}"), HasSubstr("'workspace' is required"));
  EXPECT_THAT(refusal("[]"), HasSubstr("JSON object"));
  EXPECT_THAT(refusal(R"({"workspace":{}})"), HasSubstr("'workspace.path' is required"));
  EXPECT_THAT(refusal(R"({"workspace":{"path":"w"}})"), HasSubstr("absolute"));
  EXPECT_THAT(refusal(R"({"workspace":{"path":"/w","mode":"rW"}})"),
              HasSubstr("rw, overlay, discard, ro"));
  EXPECT_THAT(refusal(R"({"workspace":{"path":"/w"},"profile":"lax"})"), HasSubstr("'profile'"));
  EXPECT_THAT(refusal(R"({"workspace":{"path":"/w"},"colour":1})"),
              HasSubstr("there is no field 'colour'"));
  EXPECT_THAT(refusal(R"({"workspace":{"path":"/w","size":1}})"), HasSubstr("workspace.size"));
  EXPECT_THAT(refusal(R"({"workspace":{"path":"/w"},"idle_timeout_seconds":-1})"),
              HasSubstr("idle_timeout_seconds"));
  EXPECT_THAT(refusal(R"({"workspace":{"path":"/w"},"uid":4294967295})"), HasSubstr("'uid'"));
  EXPECT_THAT(refusal(R"({"workspace":{"path":"/w"},"uid_mode":"sudo"})"), HasSubstr("uid_mode"));
  EXPECT_THAT(refusal(R"({"workspace":{"path":"/w","mode":"rw","persist":true}})"),
              HasSubstr("overlay alone"));
  EXPECT_THAT(refusal(R"({"workspace":{"path":"/w"},"labels":{"execd.owner":"x"}})"),
              HasSubstr("service's own"));
  EXPECT_THAT(refusal(R"({"workspace":{"path":"/w"},"if_policy":"x"})"), HasSubstr("'policy'"));
  EXPECT_THAT(refusal(R"({"workspace":{"path":"/w"},"limits":{"memory":"much"}})"),
              HasSubstr("limits.memory"));
  EXPECT_THAT(refusal(R"({"workspace":{"path":"/w"},"capabilities":[{"kind":"fly"}]})"),
              HasSubstr("capabilities[0]"));
  EXPECT_TRUE(read(R"({"workspace":{"path":"/w"},"colour":1})", Unknown::Ignore));
}

std::vector<std::string> names(const std::vector<plan::EnvEntry>& entries) {
  std::vector<std::string> all;
  for (const plan::EnvEntry& entry : entries) all.push_back(entry.name);
  return all;
}

TEST(PassedEnvironment, FollowsTheRules) {
  const std::vector<std::string> environment = {"LANG=C",
                                                "MY_TOKEN=1",
                                                "my_api_key=2",
                                                "AWS_REGION=3",
                                                "EXECD_ACCESS_TOKEN=4",
                                                "HOME=/root",
                                                "LD_PRELOAD=x",
                                                "PLAIN=5",
                                                "OWN=6",
                                                "GLOVEBOX_TOKEN=7",
                                                "BASH_FUNC_f%%=() {  :; }"};
  const std::vector<std::string> secrets = {"OWN"};
  using testing::ElementsAre;
  using Mode = EnvPassthrough::Mode;
  EXPECT_THAT(names(passed_environment({}, environment, secrets)), ElementsAre("LANG", "PLAIN"));
  EXPECT_THAT(names(passed_environment({Mode::Deny, {"LANG"}}, environment, secrets)),
              ElementsAre("PLAIN"))
      << "own keys stand beside the built-in list";
  EXPECT_THAT(names(passed_environment({Mode::Allow, {"MY_TOKEN", "OWN", "EXECD_ACCESS_TOKEN"}},
                                       environment, secrets)),
              ElementsAre("MY_TOKEN"))
      << "the service's own secrets are never passed on";
}

class HostRulesTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = "/tmp/glovebox-rules-XXXXXX";
    root_ = ::mkdtemp(pattern.data());
    for (const char* name : {"allowed", "allowed/in", "allowed2", "own"}) {
      std::filesystem::create_directory(root_ + "/" + name);
    }
    std::filesystem::create_symlink(root_ + "/own", root_ + "/allowed/out");
    std::filesystem::create_symlink("/nowhere", root_ + "/allowed/dangling");
    rules_.allowed_writable = {root_ + "/allowed"};
    rules_.own = {root_ + "/own"};
    rules_.shared_tmp = root_ + "/tmp";
  }
  void TearDown() override { std::filesystem::remove_all(root_); }

  Result<void, ApiError> bind(const std::string& source) {
    CreateOrder order;
    order.session.binds.push_back({.source = source, .dest = source});
    return apply_host_rules(rules_, order);
  }
  Result<void, ApiError> workspace(const std::string& path) {
    CreateOrder order;
    order.session.workspaces.push_back({.path = path});
    return apply_host_rules(rules_, order);
  }

  std::string root_;
  HostRules rules_;
};

TEST_F(HostRulesTest, AllowsByComponentOfResolvedPaths) {
  EXPECT_TRUE(bind(root_ + "/allowed"));
  EXPECT_TRUE(bind(root_ + "/allowed/in"));
  EXPECT_TRUE(bind(root_ + "/allowed/in/../in"));
  for (const char* path : {"/allowed2", "/allowed/../own", "/allowed/out", "/allowed/missing",
                           "/allowed/dangling", ""}) {
    const auto checked = bind(root_ + path);
    ASSERT_FALSE(checked) << path;
    EXPECT_EQ(checked.error().status, 400);
    EXPECT_EQ(checked.error().code, "RUNTIME_ERROR");
  }
  EXPECT_THAT(bind("/etc").error().message, HasSubstr("allowlist"));
  rules_.allowed_writable.clear();
  EXPECT_FALSE(bind(root_ + "/allowed")) << "an empty list allows nothing";
}

TEST_F(HostRulesTest, WorkspacesNeverHoldWhatIsTheServicesOwn) {
  EXPECT_TRUE(workspace(root_ + "/allowed"));
  EXPECT_TRUE(workspace(root_ + "/not/yet/there"));
  for (const std::string& path :
       {root_, root_ + "/own", root_ + "/own/below", root_ + "/allowed/out", std::string("/")}) {
    EXPECT_FALSE(workspace(path)) << path;
  }
  EXPECT_FALSE(workspace(root_ + "/not/../own")) << "'..' behind what is not there";
  rules_.allowed_workspaces = {root_ + "/allowed"};
  EXPECT_TRUE(workspace(root_ + "/allowed/new"));
  EXPECT_FALSE(workspace(root_ + "/allowed2"));
}

TEST_F(HostRulesTest, BalancedSharesTmp) {
  CreateOrder order;
  order.profile = Profile::Balanced;
  ASSERT_TRUE(apply_host_rules(rules_, order));
  ASSERT_EQ(order.session.binds.size(), 1U);
  EXPECT_EQ(order.session.binds[0].dest, "/tmp");
}

}  // namespace
}  // namespace glovebox::serve
