// Boxes that stay: sessions of a service that is started for the attacks, used through the command
// line as a person does it.
#pragma once

#include "attack/boxes.h"

#include <memory>
#include <optional>
#include <string>

namespace glovebox::app {

// A `glovebox serve` of the tier's user, with its state among the canaries. It ends with this
// object, and its sessions with it.
class AttackedService {
 public:
  static Result<AttackedService> start(const Setting& setting, Canaries& canaries);

  const std::string& socket() const { return socket_; }
  const std::string& policies() const { return policies_; }  // the directory that it reads again
  // How many sessions had a box that was begun before.
  Result<std::uint64_t> parked_boxes_used() const;
  // `glovebox WORDS`, talking to this service.
  Result<Ended> tool(Words words, Attendant* attendant = nullptr) const;
  // The same as something to be started.
  Command command(Words words) const;

 private:
  AttackedService(Background process, Setting setting, Words variables)
      : process_(std::move(process)),
        setting_(std::move(setting)),
        variables_(std::move(variables)) {}

  Background process_;
  Setting setting_;
  Words variables_;
  std::string socket_, policies_;
};

Result<std::unique_ptr<Boxes>> make_session_boxes(const Setting& setting, Canaries& canaries);

}  // namespace glovebox::app
