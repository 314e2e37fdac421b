#include "attack/attack_run.h"

#include <algorithm>
#include <cstring>
#include <filesystem>

namespace glovebox::app {
namespace {

namespace fs = std::filesystem;

// Of one box that was refused thousands of times.
constexpr std::size_t kLongestNews = 4096;
// What the probe keeps apart from errnos.
constexpr int kUsage = 119;

std::string met(int code) {
  if (code == 0) return "it succeeded";
  if (code > Boxes::kSignal) return fmt::format("ended by signal {}", code - Boxes::kSignal);
  if (code == Boxes::kLimit) return "ended by a limit";
  const char* name = ::strerrorname_np(code);
  return name == nullptr ? fmt::format("exit code {}", code) : std::string(name);
}

// What a tool says when it makes no box, in one line.
std::string last_line(std::string_view text) {
  while (text.ends_with('\n')) text.remove_suffix(1);
  text = text.substr(text.rfind('\n') + 1);
  return std::string(text.substr(0, 200));
}

}  // namespace

bool is_for_now(const Outcome& outcome) {
  return outcome.verdict == Verdict::NotProven &&
         (outcome.detail.find("(EDQUOT)") != std::string::npos ||
          outcome.detail.find("(EAGAIN)") != std::string::npos);
}

namespace {

bool has_run(const Ended& ended) {
  return ended.code >= 0 && ended.code != kUsage &&
         (ended.code < Boxes::kRefused || ended.code > Boxes::kSignal);
}

Outcome judge(const Attack& attack, const Ended& ended) {
  const int code = ended.code;
  const auto verdict = [&](bool held) {
    return Outcome{held ? Verdict::Held : Verdict::Open, met(code)};
  };
  if (ended.timed_out) return {Verdict::NotProven, "it did not end"};
  Outcome no_box{Verdict::NotProven, "no box was made: " + last_line(ended.output)};
  if (attack.judge == Judge::NotStarted) {
    return code == Boxes::kRefused ? no_box : verdict(code == Boxes::kNotFound);
  }
  if (attack.judge == Judge::Rejected) {
    if (is_for_now(no_box)) return no_box;
    if (code == Boxes::kRefused) return {Verdict::Held, "refused: " + last_line(ended.output)};
    return {Verdict::Open, "a box was made"};
  }
  if (!has_run(ended)) {
    return {Verdict::NotProven,
            fmt::format("the probe did not run (exit code {}): {}", code, last_line(ended.output))};
  }
  switch (attack.judge) {
    case Judge::Refused: return verdict(code != 0 && code != Boxes::kLimit);
    case Judge::Checks:
      return {code == 0 ? Verdict::Held : Verdict::Open, code == 0 ? "nothing found" : met(code)};
    case Judge::Bounded: return verdict(code != 0);
    case Judge::Quiet:
      if (ended.output.size() < kLongestNews) return {Verdict::Held, "told in few words"};
      return {Verdict::Open, fmt::format("{} bytes were printed", ended.output.size())};
    default: return {Verdict::Held, met(code)};
  }
}

// A commit must leave out what the box made, and say so by its exit code.
Result<Outcome> judge_commit(const Attack& attack, const Ended& made, Boxes& boxes,
                             const Canaries& canaries) {
  // A box that could not make it has shown nothing about the gate.
  if (made.code != 0) return Outcome{Verdict::NotProven, "it could not be made: " + met(made.code)};
  TRY(const Ended ended, boxes.commit());
  for (const std::string& word : split_words(attack.held)) {
    const bool is_removal = word.starts_with('-');
    const std::string held = word.substr(is_removal ? 1 : 0);
    std::error_code problem;
    const auto found = fs::symlink_status(canaries.work() + "/" + held, problem);
    if ((found.type() == fs::file_type::not_found) == is_removal) {
      return Outcome{Verdict::Escaped, held + " was taken over"};
    }
    if (ended.output.find(held) == std::string::npos) {
      return Outcome{Verdict::Open, held + " is not named by the commit gate"};
    }
  }
  if (!canaries.is_work_untouched()) {
    return Outcome{Verdict::Escaped, "a file of the original was changed by a forged mark"};
  }
  if (ended.code != 1) {
    return Outcome{Verdict::NotProven, fmt::format("commit ended with {}", ended.code)};
  }
  return Outcome{Verdict::Held, "held back by the commit gate"};
}

// Lists of what a box named must not speak to the terminal that shows them.
Result<Outcome> judge_lists(const Ended& made, Boxes& boxes) {
  TRY(const Ended listed, boxes.diff());
  const std::string shown = made.output + listed.output;
  if (made.code != 0 || listed.code > 1 || shown.find("plain") == std::string::npos) {
    return Outcome{Verdict::NotProven, "nothing was listed: " + last_line(shown)};
  }
  const bool speaks = std::ranges::any_of(shown, [](char each) {
    return (static_cast<unsigned char>(each) < 0x20 && each != '\n' && each != '\t') ||
           each == 0x7f;
  });
  if (speaks) return Outcome{Verdict::Open, "control characters of a name were printed"};
  return Outcome{Verdict::Held, "what is listed is plain text"};
}

// No line of the one is a line of the other.
Result<Outcome> judge_distinct(const Attack& attack, const Ended& first, Boxes& boxes) {
  TRY(const Ended second, boxes.run(attack));
  if (first.code != 0 || second.code != 0) {
    return Outcome{Verdict::NotProven, "the probe did not run twice"};
  }
  std::size_t lines = 0;
  for (std::string_view rest = first.output; !rest.empty();) {
    const std::size_t end = std::min(rest.find('\n'), rest.size());
    const std::string_view line = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
    if (line.find(" = ") == std::string_view::npos) continue;
    ++lines;
    if (second.output.find(line) != std::string::npos) {
      return Outcome{Verdict::Open, "two boxes share: " + std::string(line)};
    }
  }
  if (lines == 0) return Outcome{Verdict::NotProven, "nothing was printed"};
  return Outcome{Verdict::Held, "nothing is shared"};
}

bool names(const Attack& attack, std::string_view place) {
  return attack.words.find(place) != std::string_view::npos ||
         attack.options.find(place) != std::string_view::npos;
}

bool is_about_commits(const Attack& attack) {
  return attack.judge == Judge::HeldBack || attack.judge == Judge::Plain;
}

bool fits(Where where, Backend backend) {
  const bool python = backend == Backend::Python || backend == Backend::Cell;
  switch (where) {
    case Where::Everywhere: return true;
    case Where::Run: return backend == Backend::Process || is_peer(backend);
    case Where::Sessions: return is_shell_session(backend);
    case Where::Tools: return backend == Backend::Mcp;
    case Where::Shells: return !python && backend != Backend::Mcp;
    case Where::Python: return python;
  }
  return false;
}

}  // namespace

std::string_view to_text(Verdict verdict) {
  switch (verdict) {
    case Verdict::Held: return "held";
    case Verdict::Open: return "OPEN";
    case Verdict::Escaped: return "ESCAPED";
    case Verdict::NotProven: return "not proven";
  }
  return "";
}

bool applies(const Attack& attack, const Setting& setting) {
  if (!fits(attack.where, setting.backend)) return false;
  const bool much = setting.grants == Grants::Much;
  if (is_peer(setting.backend)) {
    // These are about words, layers and limits of Glovebox. Without limits of its own a peer would
    // hand a bomb to the host.
    const bool ours = is_about_commits(attack) || attack.judge == Judge::NotStarted ||
                      attack.judge == Judge::Rejected || attack.judge == Judge::Bounded ||
                      !attack.options.empty();
    // Without a box these would be packets to a machine that is not part of the test.
    const bool sends = attack.words.starts_with("ask_") || names(attack, "169.254");
    if (ours || (setting.backend == Backend::None && sends)) return false;
  }
  // What asks for something special has a box of its own, which was not begun ahead (parked).
  const bool special = is_about_commits(attack) || !attack.options.empty() ||
                       attack.judge == Judge::Rejected || attack.judge == Judge::Reloads;
  if (setting.backend == Backend::Parked && special) return false;
  if (is_about_commits(attack)) return much && fits(Where::Shells, setting.backend);
  // A name server and a granted server are part of a wide policy; the metadata service's own
  // address is for boxes that have no network at all.
  if (names(attack, "ask_") || names(attack, "@open")) return much;
  if (names(attack, "169.254")) return !much;
  const bool needs_grant = names(attack, "@work") || names(attack, "@book");
  return !needs_grant || much;
}

Result<void> check_grants(const Setting& setting, Boxes& boxes, Canaries& canaries) {
  constexpr Attack kLittle[] = {{0, "run a probe", "ids"}};
  constexpr Attack kMuch[] = {
      {0, "run a probe", "ids"},
      {0, "write to the workspace", "create @work/control x"},
      {0, "read what was granted", "read @book"},
      {0, "connect to what was granted", "connect_tcp 127.50.0.1 @open"},
      {0, "look a granted name up", "ask_name host.granted.test"},
  };
  const bool much = setting.grants == Grants::Much;
  for (const Attack& each : much ? std::span<const Attack>(kMuch) : kLittle) {
    if (is_peer(setting.backend) && names(each, "@open")) continue;
    if (!has_names(setting.backend) && names(each, "ask_")) continue;
    TRY(const Ended ended, boxes.run(each));
    if (ended.code == 0) continue;
    return fail(Code::Os, "the box cannot {}, so nothing is tried: {} {}", each.name,
                met(ended.code), last_line(ended.output));
  }
  (void)canaries.touched();  // puts the workspace back
  return {};
}

Result<Outcome> try_attack(const Attack& attack, Boxes& boxes, Canaries& canaries) {
  const bool meanwhile = attack.judge == Judge::Transfers || attack.judge == Judge::Reloads;
  TRY(const Ended ended, meanwhile ? boxes.run_meanwhile(attack) : boxes.run(attack));
  Outcome outcome = judge(attack, ended);
  if (outcome.verdict == Verdict::Held) {
    if (attack.judge == Judge::HeldBack) {
      TRY(outcome, judge_commit(attack, ended, boxes, canaries));
    } else if (attack.judge == Judge::Plain) {
      TRY(outcome, judge_lists(ended, boxes));
    } else if (attack.judge == Judge::Distinct) {
      TRY(outcome, judge_distinct(attack, ended, boxes));
    }
  }
  if (ended.output.find(canaries.secret()) != std::string::npos) {
    outcome = {Verdict::Escaped, "a secret of the host came out"};
  }
  if (ended.output.find(canaries.near_secret()) != std::string::npos) {
    outcome = {Verdict::Escaped, "a secret of another box came out"};
  }
  if (const std::string touched = canaries.touched(); !touched.empty()) {
    outcome = {Verdict::Escaped, touched};
  }
  return outcome;
}

}  // namespace glovebox::app
