// Indexes as a box may write them: each would show git other files than the gate.
#include "workspace/git/git_index.h"

#include <gtest/gtest.h>

namespace glovebox::workspace {
namespace {

constexpr std::size_t kDigits = 40;

std::string number(std::uint64_t value, unsigned size) {
  std::string bytes;
  for (unsigned i = size; i > 0; --i) bytes += static_cast<char>(value >> (8 * (i - 1)) & 0xffU);
  return bytes;
}

struct Item {
  std::string path{};
  unsigned mode = 0100644U;
  char id = '\x11';  // all bytes of it
  unsigned flags = 0;
};

std::string id_bytes(char byte) { return std::string(kDigits / 2, byte); }

std::string head_of(const Item& item, std::size_t length) {
  const std::string stat = std::string(24, '\0') + number(item.mode, 4) + std::string(12, '\0');
  return stat + id_bytes(item.id) + number(item.flags | length, 2);
}

std::string entry_of(const Item& item) {
  std::string bytes = head_of(item, item.path.size()) + item.path;
  return bytes + std::string(8 - bytes.size() % 8, '\0');
}

std::string extension(const std::string& name, const std::string& body) {
  return name + number(body.size(), 4) + body;
}

std::string whole(unsigned version, std::size_t count, const std::string& rest) {
  return "DIRC" + number(version, 4) + number(count, 4) + rest + id_bytes('\0');
}

std::string index_of(const std::vector<Item>& items, const std::string& extensions = "") {
  std::string entries;
  for (const Item& item : items) entries += entry_of(item);
  return whole(2, items.size(), entries + extensions);
}

// Why it is refused; empty when it is not.
std::string refusal(const std::string& bytes) {
  const auto parsed = parse_git_index(bytes, kDigits);
  return parsed ? "" : parsed.error().message;
}

TEST(GitIndex, NamesThatGitWouldNotAddAreRefused) {
  EXPECT_EQ(refusal(index_of({{"..a/b.."}, {".gitignore"}, {"a/.gitx"}, {"a/b"}})), "");
  for (const char* path : {"../victim", "a/../../b", "..", "./a", "a/.", ".git/config",
                           "sub/.GIT/x", "a//b", "/etc/passwd", ""}) {
    EXPECT_NE(refusal(index_of({{path}})), "") << path;
  }
  EXPECT_NE(refusal(index_of({{"a/"}})), "");
  EXPECT_EQ(refusal(index_of({{.path = "a/", .mode = 040000U}})), "");
  EXPECT_NE(refusal(index_of({{.path = "../", .mode = 040000U}})), "");
}

TEST(GitIndex, ModesThatGitWouldNotWriteAreRefused) {
  for (const unsigned mode : {0100644U, 0100755U, 0120000U, 0160000U}) {
    EXPECT_EQ(refusal(index_of({{.path = "a", .mode = mode}})), "") << mode;
  }
  for (const unsigned mode : {0120777U, 0100664U, 040755U, 0160755U, 0U, 0644U}) {
    EXPECT_NE(refusal(index_of({{.path = "a", .mode = mode}})), "") << mode;
  }
}

TEST(GitIndex, NamesOutOfOrderAreRefused) {
  EXPECT_EQ(refusal(index_of({{"a.c"}, {"a/b"}, {"a0"}})), "");
  EXPECT_NE(refusal(index_of({{"b"}, {"a"}})), "");
  EXPECT_NE(refusal(index_of({{"a"}, {"a"}})), "");
  const Item base{.path = "a", .flags = 0x1000U};
  const Item ours{.path = "a", .flags = 0x2000U};
  EXPECT_EQ(refusal(index_of({base, ours})), "");
  EXPECT_NE(refusal(index_of({ours, base})), "");
}

// git finds the next entry by the length, and would see another one in the rest of the name.
TEST(GitIndex, ALengthThatIsNotTheNamesIsRefusedInVersionFour) {
  const auto named = [](std::size_t length) {
    return whole(4, 1, head_of({}, length) + number(0, 1) + "name" + number(0, 1));
  };
  EXPECT_EQ(refusal(named(4)), "");
  EXPECT_NE(refusal(named(2)), "");
  EXPECT_NE(refusal(named(0xfff)), "");
}

TEST(GitIndex, NamesOfVersionFourAreBounded) {
  const std::string stem(3990, 'a');
  std::string entries =
      head_of({}, stem.size() + 6) + number(0, 1) + stem + "000000" + number(0, 1);
  constexpr std::size_t kCount = 20'000;
  for (std::size_t i = 1; i < kCount; ++i) {
    entries += head_of({}, stem.size() + 6) + number(6, 1) + fmt::format("{:06}", i) + number(0, 1);
  }
  EXPECT_NE(refusal(whole(4, kCount, entries)).find("too many names"), std::string::npos);
}

std::string tree_data(const std::vector<std::pair<std::string, std::string>>& entries) {
  std::string data;
  for (const auto& [name, id] : entries) data += name + '\0' + id;
  return data;
}

std::string bytes_of_tree(const std::string& data) {
  const ObjectId id = object_name(ObjectType::Tree, data, kDigits);
  std::string bytes;
  for (std::size_t i = 0; i < id.size(); i += 2) {
    bytes += static_cast<char>(std::stoi(id.substr(i, 2), nullptr, 16));
  }
  return bytes;
}

// "d/x" and "f": their trees, and what an index says of them.
class RememberedTrees : public testing::Test {
 protected:
  static std::string top(const std::string& counts) { return std::string(1, '\0') + counts + '\n'; }
  static std::string named(const std::string& counts) { return "d" + top(counts); }
  std::string refusal_of(const std::string& body) const {
    return refusal(index_of(items_, extension("TREE", body)));
  }

  std::vector<Item> items_{{.path = "d/x"}, {.path = "f", .mode = 0100755U, .id = '\x22'}};
  std::string below_ = bytes_of_tree(tree_data({{"100644 x", id_bytes('\x11')}}));
  std::string root_ =
      bytes_of_tree(tree_data({{"40000 d", below_}, {"100755 f", id_bytes('\x22')}}));
  std::string evil_ = id_bytes('\x66');
};

TEST_F(RememberedTrees, ThoseOfTheEntriesPass) {
  EXPECT_EQ(refusal_of(""), "");
  EXPECT_EQ(refusal_of(top("-1 0")), "");
  EXPECT_EQ(refusal_of(top("-1 1") + named("-1 0")), "");
  EXPECT_EQ(refusal_of(top("-1 1") + named("1 0") + below_), "");
  EXPECT_EQ(refusal_of(top("2 1") + root_ + named("1 0") + below_), "");
}

TEST_F(RememberedTrees, OthersAreRefused) {
  EXPECT_NE(refusal_of(top("2 1") + evil_ + named("1 0") + below_), "");
  EXPECT_NE(refusal_of(top("-1 1") + named("1 0") + evil_), "");
  EXPECT_NE(refusal_of(top("2 1") + root_ + named("1 0") + evil_), "");
  EXPECT_NE(refusal_of(top("1 1") + root_ + named("1 0") + below_), "") << "count";
  EXPECT_NE(refusal_of(top("2 0") + root_), "") << "nothing to compute it from";
  EXPECT_NE(refusal_of(top("2 1") + root_ + named("-1 0")), "");
  EXPECT_NE(refusal_of(top("-1 2") + named("1 0") + below_ + named("1 0") + below_), "") << "twice";
  EXPECT_NE(refusal_of(top("-1 1") + "e" + top("1 0") + evil_), "") << "no such directory";
  EXPECT_NE(refusal_of(top("-1 1") + "f" + top("1 0") + evil_), "") << "a file";
  EXPECT_NE(refusal_of(top("-1 1") + named("-1 1") + "y" + top("1 0") + evil_), "") << "deeper";
}

TEST_F(RememberedTrees, WhatIsNoneIsRefused) {
  for (const std::string& body :
       {std::string("x"), top(""), top("1"), top("2 1") + root_, top("2 0"), "d" + top("-1 0"),
        top("-1 0") + "more", top("-1 99999999999999999999")}) {
    EXPECT_NE(refusal_of(body), "");
  }
  std::string deep = top("-1 1");
  for (int i = 0; i < 1000; ++i) deep += named("-1 1");
  EXPECT_NE(refusal_of(deep + named("-1 0")).find("too deep"), std::string::npos);
  EXPECT_NE(refusal_of(top("-1 1") + std::string(1, '\0') + "-1 0\n"), "") << "without a name";
}

TEST_F(RememberedTrees, ADirectoryOfASparseIndexIsItsOwnTree) {
  items_ = {{.path = "d/", .mode = 040000U, .id = '\x33'}};
  EXPECT_EQ(refusal_of(top("-1 1") + named("1 0") + id_bytes('\x33')), "");
  EXPECT_NE(refusal_of(top("-1 1") + named("1 0") + evil_), "");
  EXPECT_NE(refusal_of(top("-1 1") + named("1 1") + id_bytes('\x33') + "y" + top("1 0") + evil_),
            "");
  const std::string root = bytes_of_tree(tree_data({{"40000 d", id_bytes('\x33')}}));
  EXPECT_EQ(refusal_of(top("1 1") + root + named("1 0") + id_bytes('\x33')), "");
}

// Where git's threads find the entries.
class Blocks : public testing::Test {
 protected:
  static constexpr std::size_t kFirst = 12;
  std::string with(const std::string& extensions) const { return index_of(items_, extensions); }
  std::size_t second() const { return kFirst + entry_of(items_[0]).size(); }
  std::size_t end() const { return second() + entry_of(items_[1]).size(); }
  static std::string blocks(const std::vector<std::pair<std::size_t, std::size_t>>& places) {
    std::string body = number(1, 4);
    for (const auto& [place, count] : places) body += number(place, 4) + number(count, 4);
    return extension("IEOT", body);
  }
  static std::string end_at(std::size_t place) {
    return extension("EOIE", number(place, 4) + id_bytes('\0'));
  }

  std::vector<Item> items_{{"a"}, {"b"}};
};

TEST_F(Blocks, ThoseOfTheEntriesPass) {
  EXPECT_EQ(refusal(with(blocks({{kFirst, 1}, {second(), 1}}) + end_at(end()))), "");
  EXPECT_EQ(refusal(with(blocks({{kFirst, 2}}))), "");
}

TEST_F(Blocks, OthersAreRefused) {
  EXPECT_NE(refusal(with(end_at(end() + 8))), "");
  EXPECT_NE(refusal(with(blocks({{kFirst + 8, 2}}))), "");
  EXPECT_NE(refusal(with(blocks({{kFirst, 1}}))), "");
  EXPECT_NE(refusal(with(blocks({{second(), 1}, {kFirst, 1}}))), "");
  EXPECT_NE(refusal(with(blocks({{kFirst, 1}, {kFirst, 1}}))), "");
  // At the place where git looks, in an extension that may be ignored.
  EXPECT_NE(refusal(with(extension("ZZZZ", end_at(kFirst)))), "");
}

// Of version 4 a block begins with a whole name: its thread does not know the name before.
TEST_F(Blocks, ANameOfVersionFourThatGoesOnIsRefused) {
  const auto index = [](unsigned drop, const std::string& rest, std::size_t length) {
    const std::string first = head_of({}, 4) + number(0, 1) + "docs" + number(0, 1);
    const std::string next = head_of({}, length) + number(drop, 1) + rest + number(0, 1);
    const std::string table = blocks({{kFirst, 1}, {kFirst + first.size(), 1}});
    return whole(4, 2, first + next + table);
  };
  EXPECT_EQ(refusal(index(4, "e", 1)), "");
  EXPECT_NE(refusal(index(0, "/.envrc", 11)), "");
}

}  // namespace
}  // namespace glovebox::workspace
