#include "egress/dns/dns_message.h"

#include <gtest/gtest.h>

#include <random>

namespace glovebox::egress {
namespace {

std::vector<std::byte> bytes(std::initializer_list<int> numbers) {
  std::vector<std::byte> list;
  for (const int number : numbers) list.push_back(static_cast<std::byte>(number));
  return list;
}

std::vector<std::byte> question(const std::string& labels, int type = kTypeA, int flags = 0x01,
                                int count = 1, int kind = 1) {
  std::vector<std::byte> message = bytes({0x12, 0x34, flags, 0, 0, count, 0, 0, 0, 0, 0, 0});
  for (const char c : labels) message.push_back(static_cast<std::byte>(c));
  for (const int number : {0, 0, type, 0, kind}) message.push_back(static_cast<std::byte>(number));
  return message;
}

const std::string kName = "\3WWW\7Example\3com";

TEST(DnsQuestion, IsReadInLowerCase) {
  const auto read = read_question(question(kName));
  ASSERT_TRUE(read.question);
  EXPECT_EQ(read.question->name, "www.example.com");
  EXPECT_EQ(read.question->type, kTypeA);
  EXPECT_EQ(read.question->id, 0x1234);
}

TEST(DnsQuestion, BytesThatWouldReadDifferentlyAreRefused) {
  EXPECT_FALSE(read_question(question(std::string("\6evil\0x\3com", 11))).question) << "NUL";
  EXPECT_FALSE(read_question(question("\7evil.co\3com")).question) << "a dot within a label";
  EXPECT_FALSE(read_question(question("\300\014")).question) << "a pointer";
  EXPECT_FALSE(read_question(question("\77short")).question) << "a label past the end";
  std::string too_long(65, 'a');
  too_long.front() = '\100';
  EXPECT_FALSE(read_question(question(too_long)).question);
  std::string longest;
  const std::string label(62, 'a');
  for (int i = 0; i < 5; ++i) longest.append(1, '\76').append(label);
  EXPECT_FALSE(read_question(question(longest)).question) << "longer than a name can be";
}

TEST(DnsQuestion, OnlyOneOrdinaryQuestion) {
  EXPECT_FALSE(read_question(question(kName, kTypeA, 0x81)).question) << "an answer";
  EXPECT_FALSE(read_question(question(kName, kTypeA, 0x81)).id) << "and no word to it";
  EXPECT_FALSE(read_question(question(kName, kTypeA, 1, 2)).question);
  EXPECT_EQ(read_question(question(kName, kTypeA, 0x29)).status, DnsStatus::NotSupported);
  EXPECT_EQ(read_question(question(kName, kTypeA, 1, 1, 3)).status, DnsStatus::NotSupported);
  EXPECT_FALSE(read_question(bytes({1, 2, 3})).id);
}

TEST(DnsQuestion, EveryCutOfAQuestionIsRefused) {
  const auto whole = question(kName);
  for (std::size_t size = 0; size < whole.size(); ++size) {
    EXPECT_FALSE(read_question(std::span(whole).first(size)).question) << size;
  }
}

TEST(DnsQuestion, AnyBytesAreSafeToRead) {
  std::mt19937 random(7);
  for (int i = 0; i < 200'000; ++i) {
    std::vector<std::byte> message = question(kName);
    message.resize(random() % 64);
    for (int change = 0; change < 4 && !message.empty(); ++change) {
      message[random() % message.size()] = static_cast<std::byte>(random());
    }
    const auto read = read_question(message);
    if (!read.question) continue;
    EXPECT_LE(read.question->name.size(), 253U);
    const auto answer = encode_answer(*read.question, Answer{}, kMaxDatagram);
    EXPECT_LE(answer.size(), kMaxDatagram);
  }
}

TEST(DnsAnswer, CarriesAddresses) {
  const auto read = read_question(question(kName));
  const Answer answer{DnsStatus::Ok, {*authority::IpNetwork::parse("192.0.2.7")}, 300};
  const auto message = encode_answer(*read.question, answer, kMaxDatagram);
  const auto end = bytes({0xc0, 0x0c, 0, 1, 0, 1, 0, 0, 1, 44, 0, 4, 192, 0, 2, 7});
  ASSERT_GT(message.size(), end.size());
  EXPECT_TRUE(
      std::equal(end.begin(), end.end(), message.end() - static_cast<std::ptrdiff_t>(end.size())));
  EXPECT_EQ(message[7], std::byte{1});
}

TEST(DnsAnswer, SaysWhenItWasCut) {
  const auto read = read_question(question(kName));
  Answer answer;
  answer.addresses.assign(100, *authority::IpNetwork::parse("192.0.2.7"));
  const auto message = encode_answer(*read.question, answer, kMaxDatagram);
  EXPECT_LE(message.size(), kMaxDatagram);
  EXPECT_NE(std::to_integer<int>(message[2]) & 2, 0);
  const auto whole = encode_answer(*read.question, answer, 65535);
  EXPECT_EQ(std::to_integer<int>(whole[2]) & 2, 0);
  EXPECT_EQ(whole[7], std::byte{100});
}

}  // namespace
}  // namespace glovebox::egress
