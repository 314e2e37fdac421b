// The published schema and the compiler know the same keys and words.
#include "base/file.h"
#include "base/strict_json.h"
#include "policy/grammar.h"
#include "policy/policy.h"

#include <boost/json.hpp>
#include <gtest/gtest.h>

#include <set>

namespace glovebox::policy {
namespace {

namespace json = boost::json;
using Names = std::set<std::string>;

const json::object& schema() {
  static const json::value kSchema = [] {
    const auto text = read_file(GLOVEBOX_SOURCE_DIR "/schema/policy.schema.json");
    EXPECT_TRUE(text);
    auto value = parse_strict_json(*text, {std::size_t{1} << 20, 64});
    EXPECT_TRUE(value) << value.error().message;
    return *value;
  }();
  return kSchema.as_object();
}

const json::object& definition(std::string_view name) {
  return schema().at("$defs").as_object().at(name).as_object();
}

Names properties(const json::object& object) {
  Names names;
  for (const auto& entry : object.at("properties").as_object()) names.emplace(entry.key());
  return names;
}

Names words(const json::object& object) {
  Names names;
  for (const json::value& each : object.at("enum").as_array()) names.emplace(each.as_string());
  return names;
}

template <class Range>
Names set_of(const Range& range) {
  Names names;
  for (const auto& each : range) names.emplace(each);
  return names;
}

TEST(Schema, BodyKeysAreTheCompilers) {
  EXPECT_EQ(properties(definition("body")), set_of(body_keys()));
}

TEST(Schema, DocumentKeysAreTheCompilers) {
  const json::array& forms = schema().at("oneOf").as_array();
  EXPECT_EQ(properties(forms[0].as_object()), set_of(document_keys()));
  EXPECT_EQ(properties(definition("defaults")), set_of(sandbox_only_keys()));
}

TEST(Schema, ActionsAreTheCompilers) {
  EXPECT_EQ(properties(definition("fsActions")), set_of(action_words(*find_section("fs"))));
  EXPECT_EQ(properties(definition("netActions")), set_of(action_words(*find_section("net"))));
  EXPECT_EQ(properties(definition("subprocessActions")),
            set_of(action_words(*find_section("subprocess"))));
  for (const std::string_view key : {"imports", "env", "secrets", "channels", "syscalls"}) {
    EXPECT_EQ(properties(definition("nameActions")), set_of(action_words(*find_section(key))))
        << key;
    EXPECT_EQ(definition(key).at("$ref").as_string(), "#/$defs/names");
  }
}

TEST(Schema, DeniedKindsAreTheCompilers) {
  for (const std::string_view key : {"fs", "net"}) {
    const json::array& forms = definition(std::string(key) + "Denied").at("anyOf").as_array();
    EXPECT_EQ(properties(forms[1].as_object()),
              set_of(find_action(*find_section(key), "deny")->named_kinds))
        << key;
  }
}

TEST(Schema, WordsAreTheCompilers) {
  const json::object& body = definition("body").at("properties").as_object();
  EXPECT_EQ(words(body.at("backend").as_object()), set_of(kBackendNames));
  EXPECT_EQ(words(body.at("workspace").as_object()), set_of(kWorkspaceModeNames));
  EXPECT_EQ(words(definition("switch")), set_of(kSwitchWords));
  Names versions;
  for (const json::value& each : definition("version").at("enum").as_array()) {
    if (each.is_string()) versions.emplace(each.as_string());
  }
  EXPECT_EQ(versions, set_of(kVersions));
}

TEST(Schema, EverySectionHasADefinition) {
  for (const Section& section : sections()) EXPECT_NO_THROW(definition(section.key)) << section.key;
}

}  // namespace
}  // namespace glovebox::policy
