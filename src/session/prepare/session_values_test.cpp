// What needs no box: records as text, the spool of a log, names, values of requests.
#include "authority/terms.h"
#include "base/uuid.h"
#include "request/network_authority.h"
#include "session/box/background.h"
#include "session/box/box_networks.h"
#include "session/box/run.h"
#include "session/prepare/prepare.h"
#include "session/store/session_json.h"

#include <boost/json.hpp>
#include <gtest/gtest.h>

namespace glovebox::session {
namespace {

using std::chrono::milliseconds;

SessionRecord full_record() {
  SessionRecord record;
  SessionInfo& info = record.info;
  info.id = "f81d4fae-7dec-41d0-a765-00a0c91e6bf6";
  info.state = SessionState::Dead;
  info.effective.name = "a \"name\"";
  info.effective.labels = {{"k", "v"}};
  info.effective.workspaces = {{"/w", WorkspaceMode::Write}, {"/x", WorkspaceMode::Discard}};
  info.effective.binds = {{"/s", "/d", WorkspaceMode::Read}};
  info.effective.policy = {"python", {}, "box", "sha256:0"};
  const std::vector<authority::Capability> memory{*authority::parse_term("memory", "64MiB")};
  info.effective.handed = *authority::AuthoritySet::granting(memory);
  info.effective.ceiling = info.effective.handed;
  info.effective.network_ceiling = authority::AuthoritySet();
  info.effective.cpus_milli = 1500;
  info.effective.backend = Backend::Process;
  info.effective.env = {{"HOME", ""}};
  info.effective.uid = 7;
  info.effective.idle_timeout = milliseconds(0);
  info.effective.waived = {"limit.memory"};
  info.effective.cwd = "/w/sub";
  info.effective.loopback = plan::Loopback::Down;
  info.effective.published = {*plan::parse_publication("[::1]:8080:80")};
  info.effective.resolver = "192.0.2.1";
  info.workspaces = {{"/w", WorkspaceMode::Write, ""}};
  info.policy = plan::PolicyMark{"python", "sha256:0"};
  info.created_at = WallTime(std::chrono::nanoseconds(1'700'000'000'123'456'789));
  info.runs = 3;
  info.not_enforced = {{"limit.memory", "no cgroups"}};
  info.end = SessionEnd{EndCause::Limit, launch::LimitKind::Memory, "why", info.created_at};
  record.guarantees = {{"net", "a namespace"}};
  record.proved = {"net"};
  record.usage = {3, 17, 5, std::nullopt};
  return record;
}

TEST(SessionRecordText, ComesBackAsItWas) {
  const SessionRecord record = full_record();
  const auto text = encode_record(record);
  ASSERT_TRUE(text);
  const auto back = decode_record(*text);
  ASSERT_TRUE(back) << back.error().message;
  EXPECT_TRUE(*back == record);
}

TEST(SessionRecordText, OlderOnesSayNothingOfWhatIsMissing) {
  SessionRecord record = full_record();
  std::string text = *encode_record(record);
  const std::string field = "\"not_enforced\":[{\"name\":\"limit.memory\",\"by\":\"no cgroups\"}],";
  ASSERT_NE(text.find(field), std::string::npos) << text;
  text.erase(text.find(field), field.size());
  record.info.not_enforced.clear();
  const auto back = decode_record(text);
  ASSERT_TRUE(back) << back.error().message;
  EXPECT_TRUE(*back == record);
}

TEST(SessionRecordText, LeavesSecretsOut) {
  SessionRecord record = full_record();
  record.info.effective.env = {{"TOKEN", "hunter2"}};
  record.info.effective.policy.document = "a: hunter2";
  EXPECT_EQ(encode_record(record)->find("hunter2"), std::string::npos);
}

TEST(SessionRecordText, WhatIsNoRecordIsRefused) {
  EXPECT_FALSE(decode_record(""));
  EXPECT_FALSE(decode_record("{}"));
  EXPECT_FALSE(decode_record("[]"));
  std::string text = *encode_record(full_record());
  text.replace(text.find("\"state\":1"), 9, "\"state\":9");
  EXPECT_FALSE(decode_record(text));
}

TEST(SpoolTest, KeepsTheLastBytesAtTheirPositions) {
  auto spool = Spool::open("/tmp");
  ASSERT_TRUE(spool) << spool.error().message;
  EXPECT_EQ(spool->read(0, 10)->bytes, "");
  EXPECT_EQ(spool->read(99, 10)->next, 0u);
  ASSERT_TRUE(spool->append("hello "));
  ASSERT_TRUE(spool->append("world"));
  EXPECT_EQ(spool->read(0, 100)->bytes, "hello world");
  EXPECT_EQ(spool->read(6, 2)->bytes, "wo");
  EXPECT_EQ(spool->read(6, 2)->next, 8u);
  ASSERT_TRUE(spool->append(std::string(Spool::kCapacity - 8, 'x') + "END"));
  const auto log = spool->read(0, Spool::kCapacity * 2);
  EXPECT_EQ(log->skipped, 6u);
  EXPECT_EQ(log->bytes.size(), Spool::kCapacity);
  EXPECT_TRUE(log->bytes.starts_with("worldxxx"));
  EXPECT_TRUE(log->bytes.ends_with("xEND"));
  ASSERT_TRUE(spool->append(std::string(Spool::kCapacity * 2, 'y') + "LAST"));
  EXPECT_TRUE(spool->read(spool->size() - 6, 10)->bytes == "yyLAST");
}

TEST(UuidTest, LooksLikeOneAndIsNotTheOther) {
  const auto first = make_uuid();
  const auto second = make_uuid();
  ASSERT_TRUE(first && second);
  EXPECT_TRUE(is_uuid(*first)) << *first;
  EXPECT_EQ((*first)[14], '4');
  EXPECT_NE(*first, *second);
  EXPECT_FALSE(is_uuid("../../etc/passwd"));
  EXPECT_FALSE(is_uuid(*first + "0"));
}

TEST(RunRequestTest, ContradictionsAreRefused) {
  RunRequest request;
  EXPECT_EQ(to_start(request).error().code, Code::Invalid);
  request.code = ":";
  EXPECT_EQ(to_start(request)->mode, guest::RunMode::Shell);
  request.terminal = plan::TerminalSize{};
  EXPECT_EQ(to_start(request).error().code, Code::Invalid);
  request.shell = RunShell::Own;
  EXPECT_EQ(to_start(request)->io, guest::RunIo::Terminal);
  request.argv = {"x"};
  EXPECT_EQ(to_start(request).error().code, Code::Invalid);
}

// "A=B" would set A, and what is behind a zero byte would be left out.
TEST(Environment, WhatIsNoVariableIsRefusedForABoxAndForARun) {
  for (const plan::EnvEntry& wrong : std::vector<plan::EnvEntry>{{"A=B", "1"},
                                                                 {"", "1"},
                                                                 {std::string("A\0B", 3), "1"},
                                                                 {"A", std::string("1\0", 2)},
                                                                 {"1A", "1"},
                                                                 {std::string(1000, 'A'), "1"}}) {
    BoxRequest request;
    request.env = {{"GOOD", "1"}, wrong};
    EXPECT_EQ(check_values(request).error().code, Code::Invalid) << wrong.name;
    RunRequest run;
    run.argv = {"env"};
    run.env = request.env;
    EXPECT_EQ(to_start(run).error().code, Code::Invalid) << wrong.name;
  }
  RunRequest run;
  run.argv = {"env"};
  run.env = {{"A", "B=1\n"}, {"_b2", ""}};
  EXPECT_EQ(to_start(run)->env, (std::vector<std::string>{"A=B=1\n", "_b2="}));
}

TEST(BoxRequestTest, IsBounded) {
  BoxRequest request;
  EXPECT_TRUE(check_values(request));
  request.labels[std::string(300, 'x')] = "";
  EXPECT_FALSE(check_values(request));
  request.labels.clear();
  request.name = "line\nbreak";
  EXPECT_FALSE(check_values(request));
  request.name.clear();
  request.workspaces.resize(kMaxWorkspaces + 1, {"/w"});
  EXPECT_FALSE(check_values(request));
  request.workspaces = {{"/w/../etc"}};
  EXPECT_FALSE(check_values(request)) << "a path that climbs";
  request.workspaces.clear();
  request.idle_timeout = milliseconds(-1);
  EXPECT_FALSE(check_values(request));
}

TEST(WorkspaceModeText, BothWays) {
  for (const auto mode : {WorkspaceMode::Read, WorkspaceMode::Discard, WorkspaceMode::Overlay,
                          WorkspaceMode::Write}) {
    EXPECT_EQ(*parse_workspace_mode(to_text(mode)), mode);
  }
  EXPECT_FALSE(parse_workspace_mode("Overlay"));
}

// Version 0.1 wrote modes as numbers: 0 overlay, 1 rw, 2 ro, and for binds 0 ro, 1 rw.
TEST(SessionDocument, OfVersion01IsRead) {
  auto document = encode_request(full_record().info.effective);
  ASSERT_TRUE(document);
  const auto place = [](const char* path, int mode, boost::json::value persist) {
    return boost::json::object{{"path", path}, {"mode", mode}, {"persist", std::move(persist)}};
  };
  (*document)["workspaces"] = boost::json::array{place("/a", 0, 0), place("/b", 0, 1),
                                                 place("/c", 1, nullptr), place("/d", 2, nullptr)};
  (*document)["binds"] =
      boost::json::array{boost::json::object{{"source", "/s"}, {"dest", "/d"}, {"mode", 0}},
                         boost::json::object{{"source", "/t"}, {"dest", "/e"}, {"mode", 1}}};
  const auto request = decode_request(*document);
  ASSERT_TRUE(request) << request.error().message;
  EXPECT_EQ(request->workspaces, (std::vector<WorkspaceRequest>{{"/a", WorkspaceMode::Overlay},
                                                                {"/b", WorkspaceMode::Discard},
                                                                {"/c", WorkspaceMode::Write},
                                                                {"/d", WorkspaceMode::Read}}));
  EXPECT_EQ(request->binds, (std::vector<BindRequest>{{"/s", "/d", WorkspaceMode::Read},
                                                      {"/t", "/e", WorkspaceMode::Write}}));
}

TEST(PublishedPortsTest, BelongToOneSession) {
  PublishedPorts ports;
  const auto of = [](const char* text) {
    return std::vector<plan::Publication>{*plan::parse_publication(text)};
  };
  const auto first = ports.take("a", of("8080:80"));
  ASSERT_TRUE(first);
  EXPECT_FALSE(ports.take("b", of("8080:81")));
  EXPECT_FALSE(ports.take("b", of("0.0.0.0:8080:81"))) << "every address is that one too";
  EXPECT_TRUE(ports.take("b", of("127.0.0.2:8080:81")));
  const auto next = ports.take("a", of("8080:80"));
  ASSERT_TRUE(next) << "the next box of the same session";
  ports.give_back(*first);
  EXPECT_FALSE(ports.take("b", of("8080:81"))) << "the next box has it still";
  ports.give_back(*next);
  EXPECT_TRUE(ports.take("b", of("8080:81")));
}

TEST(BoxRequestTest, PortsAndNameServersAreBounded) {
  BoxRequest request;
  request.published = {*plan::parse_publication("8080:80"), *plan::parse_publication("8081:80")};
  EXPECT_FALSE(check_values(request)) << "one port of the box at two outside";
  request.published = {*plan::parse_publication("8080:80"), *plan::parse_publication("8080:81")};
  EXPECT_FALSE(check_values(request));
  request.published = {*plan::parse_publication("8080:80"), *plan::parse_publication("8081:81")};
  EXPECT_TRUE(check_values(request));
  request.resolver = "nonsense";
  EXPECT_FALSE(check_values(request));
  request.resolver = "192.0.2.1:53,[2001:db8::1]:53";
  EXPECT_TRUE(check_values(request));
}

TEST(NetworkPart, OnlyTheNetworkIsCutDown) {
  const auto set_of = [](std::initializer_list<std::pair<const char*, const char*>> terms) {
    std::vector<authority::Capability> all;
    for (const auto& [name, value] : terms) all.push_back(*authority::parse_term(name, value));
    return *authority::AuthoritySet::granting(all);
  };
  const auto held = set_of({{"connect", "a.example:443"},
                            {"connect", "b.example:443"},
                            {"read", "/srv"},
                            {"memory", "64MiB"}});
  const auto cut = with_network_within(
      held, set_of({{"connect", "a.example:443"}, {"connect", "c.example:443"}}));
  ASSERT_TRUE(cut);
  EXPECT_EQ(*cut, set_of({{"connect", "a.example:443"}, {"read", "/srv"}, {"memory", "64MiB"}}));
  const auto none = with_network_within(held, authority::AuthoritySet());
  ASSERT_TRUE(none);
  EXPECT_EQ(*none, set_of({{"read", "/srv"}, {"memory", "64MiB"}}));
}

}  // namespace
}  // namespace glovebox::session
