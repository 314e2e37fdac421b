// What a box did with the network, and what it was denied, as values for reports and logs.
//
// Texts that come from the box (names) are plain by the time they are here: letters, digits, dots
// and hyphens.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <variant>

namespace glovebox::egress {

// A connection that was made outside and handed in.
struct Connected {
  std::uint64_t connection = 0;  // names it in Closed
  std::string name;              // by which it was granted; empty for an address
  std::string address;           // "192.0.2.1:443"
  friend bool operator==(const Connected&, const Connected&) = default;
};

// The end of one, as the kernel counted it.
struct Closed {
  std::uint64_t connection = 0;
  std::string name;
  std::string address;
  std::uint64_t bytes_out = 0;
  std::uint64_t bytes_in = 0;
  std::chrono::nanoseconds duration{0};
  friend bool operator==(const Closed&, const Closed&) = default;
};

// A port that was opened outside.
struct Listening {
  std::string inside;   // "0.0.0.0:80"
  std::string outside;  // "127.0.0.1:8080"
  friend bool operator==(const Listening&, const Listening&) = default;
};

// Something that was refused.
struct Denied {
  enum class Act : std::uint8_t { Connect, Resolve, Send, Listen };
  Act act = Act::Connect;
  std::string object;   // "api.example.com (192.0.2.1:443)"
  std::string missing;  // the term that would allow it; empty when none would
  std::string why;
  friend bool operator==(const Denied&, const Denied&) = default;
};

// The box has something that was taken from it, where the broker cannot find it. The supervisor has
// to end the box: that takes it away for certain.
struct MustEnd {
  std::string why;
  friend bool operator==(const MustEnd&, const MustEnd&) = default;
};

using Event = std::variant<Connected, Closed, Listening, Denied, MustEnd>;

using EventSink = std::function<void(const Event&)>;

std::string_view to_text(Denied::Act act);
// One line for people: "denied: connect to 192.0.2.1:443: no rule grants it (--allow connect=...)".
std::string to_text(const Denied& denied);

}  // namespace glovebox::egress
