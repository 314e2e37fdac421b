// Servers on loopback that boxes may, or may not, reach: one that a wide policy grants, others that
// no policy does, and a name server that counts what it is asked.
//
// Nothing here has an address outside of 127.0.0.0/8 and ::1, and no answer of the name server
// leads anywhere else: they stand in for metadata services and the like.
#pragma once

#include "attack/command.h"
#include "base/result.h"
#include "base/unique_fd.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace glovebox::app {

class NetCanaries final : public Attendant {
 public:
  // What a wide policy grants: this address, and every name in this zone.
  static constexpr const char* kGranted = "127.50.0.1";
  static constexpr const char* kOther = "127.50.0.2";
  static constexpr const char* kResolver = "127.50.0.53";
  static constexpr const char* kZone = "granted.test";

  static Result<NetCanaries> make();

  int granted_port() const { return granted_port_; }
  int other_port() const { return other_port_; }
  int host_port() const { return host_port_; }  // on 127.0.0.1 and ::1, TCP and UDP
  int resolver_port() const { return resolver_port_; }
  std::string resolver_text() const;  // "ADDRESS:PORT"

  std::vector<int> descriptors() const override;
  // Answers questions, and lets visitors of the granted server go.
  void attend() override;

  // What was reached, as a clause; empty when nothing was.
  std::string touched();

 private:
  NetCanaries() = default;
  void answer_questions();

  UniqueFd granted_, other_, host_, host_datagram_, host_six_, resolver_;
  int granted_port_ = 0, other_port_ = 0, host_port_ = 0, resolver_port_ = 0;
  std::string stray_;  // the first question about a name that no policy grants
};

// The name in a question of DNS, as text with dots; empty when it is none.
std::string question_name(std::string_view message);

}  // namespace glovebox::app
