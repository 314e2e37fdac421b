#include "mcp/repl/repl_action.h"

#include <gtest/gtest.h>

namespace glovebox::mcp {
namespace {

constexpr Phase kPhases[] = {Phase::None,    Phase::Idle,  Phase::Waiting, Phase::Pending,
                             Phase::Settled, Phase::Ended, Phase::Missed};
constexpr Meta kMetas[] = {Meta::Missing, Meta::Unusable, Meta::Same, Meta::Changed};
constexpr const char* kInputs[] = {"", "\x03", "\x04", "\x03x", "\x04x", "x"};

bool starts_or_runs(Act act) {
  return act != Act::Refuse && act != Act::Report && act != Act::Interrupt && act != Act::Busy &&
         act != Act::Discard;
}

TEST(Decide, NothingRunsOrStartsUnderASandboxThatIsNotKnown) {
  for (const char* input : kInputs) {
    for (const Phase phase : kPhases) {
      for (const Meta meta : {Meta::Missing, Meta::Unusable}) {
        EXPECT_FALSE(starts_or_runs(decide(parse_input(input), phase, meta)));
      }
    }
  }
}

TEST(Decide, CodeNeverRunsInABoxUnderAnotherSandbox) {
  for (const char* input : {"x", "\x03x"}) {
    for (const Phase phase : {Phase::Idle, Phase::Waiting, Phase::Pending, Phase::Settled}) {
      EXPECT_EQ(decide(parse_input(input), phase, Meta::Changed), Act::ChangeRun);
    }
  }
}

TEST(Decide, AnAnswerThatComesTooLateIsNeverCode) {
  for (const Meta meta : {Meta::Same, Meta::Changed}) {
    EXPECT_EQ(decide(parse_input("x"), Phase::Missed, meta), Act::Discard);
  }
  EXPECT_EQ(decide(parse_input("\x03x"), Phase::Missed, Meta::Same), Act::InterruptRun)
      << "code that says so is code";
}

TEST(Decide, WhatIsThereCanAlwaysBeReadAndStopped) {
  for (const Meta meta : kMetas) {
    for (const Phase phase : kPhases) {
      EXPECT_EQ(decide(parse_input("\x03"), phase, meta), Act::Interrupt);
      if (phase == Phase::None) continue;
      EXPECT_EQ(decide(parse_input(""), phase, meta), Act::Report);
    }
  }
}

TEST(Decide, TheRest) {
  const auto act = [](const char* input, Phase phase) {
    return decide(parse_input(input), phase, Meta::Same);
  };
  EXPECT_EQ(act("", Phase::None), Act::Start);
  EXPECT_EQ(act("x", Phase::None), Act::Run);
  EXPECT_EQ(act("x", Phase::Idle), Act::Run);
  EXPECT_EQ(act("x", Phase::Settled), Act::Run);
  EXPECT_EQ(act("x", Phase::Ended), Act::Run);
  EXPECT_EQ(act("x", Phase::Pending), Act::Busy);
  EXPECT_EQ(act("x", Phase::Waiting), Act::Input);
  EXPECT_EQ(act("\x03x", Phase::Pending), Act::InterruptRun);
  EXPECT_EQ(act("\x03x", Phase::None), Act::Run);
  EXPECT_EQ(act("\x04x", Phase::Pending), Act::Restart);
}

TEST(ParseInput, OnlyTheFirstCharacterCounts) {
  EXPECT_EQ(parse_input("a\x03").kind, Input::Kind::Code);
  EXPECT_EQ(parse_input("\x03\x04").rest, "\x04");
}

}  // namespace
}  // namespace glovebox::mcp
