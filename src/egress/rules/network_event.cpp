#include "egress/rules/network_event.h"

#include <fmt/format.h>

namespace glovebox::egress {

std::string_view to_text(Denied::Act act) {
  switch (act) {
    case Denied::Act::Connect: return "connect to";
    case Denied::Act::Resolve: return "look up";
    case Denied::Act::Send: return "send datagrams to";
    case Denied::Act::Listen: return "listen at";
  }
  return "unknown";
}

std::string to_text(const Denied& denied) {
  std::string text =
      fmt::format("denied: {} {}: {}", to_text(denied.act), denied.object, denied.why);
  if (denied.act == Denied::Act::Resolve && !denied.missing.empty()) {
    return text + fmt::format(" (--allow connect={}:PORT would)", denied.object);
  }
  if (!denied.missing.empty()) text += fmt::format(" (--allow {} would)", denied.missing);
  return text;
}

}  // namespace glovebox::egress
