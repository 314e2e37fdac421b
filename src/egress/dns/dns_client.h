// Looking names up outside, with the host's own configuration or with the servers that were named.
//
// The work is c-ares': it sends the questions, from random ports and with random numbers, follows
// aliases, asks again, and reads the answers, which come from outside and are hostile too.
#pragma once

#include "authority/network.h"
#include "base/result.h"
#include "egress/kernel/poller.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace glovebox::egress {

struct Lookup {
  enum class Status : std::uint8_t { Found, NoAddress, NoSuchName, Failed };
  Status status = Status::Failed;
  std::vector<authority::IpNetwork> addresses;  // with Found, at least one
  std::uint32_t ttl_seconds = 0;                // the smallest on the way
};

class Upstream {
 public:
  using Done = std::function<void(Lookup)>;

  // `servers` as "192.0.2.1:53,192.0.2.2"; empty: what /etc/resolv.conf says.
  static Result<std::unique_ptr<Upstream>> open(Poller& poller, const std::string& servers);
  virtual ~Upstream() = default;  // what is under way is told Failed

  // Calls `done` once, from run_ready() of the poller or at once.
  virtual void look_up(const std::string& name, authority::Family family, Done done) = 0;
};

}  // namespace glovebox::egress
