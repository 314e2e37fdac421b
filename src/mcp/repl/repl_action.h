// What to do with a call of `repl`, as a pure function of its input, of the state of the session
// and of what the client said about its sandbox.
//
// The rule behind the table: whenever code would run, or a box would be started, under a sandbox
// that is not known for this very call, nothing happens and the call is an error. What is there
// already may always be read.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace glovebox::mcp {

// The input of a call, taken apart. U+0003 and U+0004 count as the first character only.
struct Input {
  enum class Kind : std::uint8_t {
    Poll,       // empty
    Interrupt,  // U+0003, with or without code behind it
    Restart,    // U+0004, the same
    Code,
  };
  Kind kind = Kind::Poll;
  std::string_view rest;  // the code, without the control character
};
Input parse_input(std::string_view text);

// What the session is doing when the call arrives.
enum class Phase : std::uint8_t {
  None,     // no box: never started, or ended and its end was told
  Idle,     // waits for code, everything it printed was told
  Waiting,  // code of its own waits for standard input
  Pending,  // code is running
  Settled,  // code has ended by itself, and that was not told yet
  Missed,   // the last reply had a prompt, and nothing waits for the answer any more
  Ended,    // the session has ended, and that was not told yet
};

// What the client said about the sandbox of this call, beside the one that the box has. Without a
// box every usable one is Same. With an explicit mode it is always Same: the server knows.
enum class Meta : std::uint8_t { Missing, Unusable, Same, Changed };

enum class Act : std::uint8_t {
  Refuse,        // an error, and no effect at all
  Start,         // start a box, then report idle
  Report,        // tell what there is; wait for it if code is running
  Interrupt,     // interrupt what runs, then tell
  Restart,       // end the box; start another if there is code, and run it
  Run,           // run the code, in a box that is started if there is none
  InterruptRun,  // interrupt what runs, then run the code
  ChangeRun,     // end the box because the sandbox changed, and run the code in another
  Input,         // hand the text to the code that waits for it
  Discard,       // the text was for code that no longer waits: tell what there is, and that
  Busy,          // leave everything as it is and say so
};

// A box is only ever started by a call whose own sandbox is known, and it gets that one: nothing is
// remembered from an earlier call. So a session that ended is not replaced before the next call
// that needs it.
Act decide(const Input& input, Phase phase, Meta meta);

}  // namespace glovebox::mcp
