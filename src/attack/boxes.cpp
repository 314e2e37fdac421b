#include "attack/boxes.h"

#include "attack/mcp_boxes.h"
#include "attack/python_boxes.h"
#include "attack/session_boxes.h"
#include "base/file.h"

#include <filesystem>

#include <fcntl.h>

namespace glovebox::app {
namespace {

namespace fs = std::filesystem;

constexpr const char* kBubblewrap = "/usr/bin/bwrap";
constexpr const char* kSystemTrees[] = {"/var/lib", "/opt", "/srv"};

Words bubblewrap_words(const Setting& setting, const Canaries& canaries) {
  Words words = split_words(
      "--unshare-all --die-with-parent --new-session --clearenv --cap-drop ALL "
      "--ro-bind /usr /usr --ro-bind /etc /etc --symlink usr/bin /bin --symlink usr/lib /lib "
      "--symlink usr/lib64 /lib64 --proc /proc --dev /dev --tmpfs /tmp --setenv PATH /usr/bin");
  words.insert(words.begin(), kBubblewrap);
  words.insert(words.end(), {"--ro-bind", setting.probe, setting.probe});
  if (setting.grants == Grants::Much) {
    words.insert(words.end(), {"--bind", canaries.work(), canaries.work(), "--ro-bind",
                               canaries.book(), canaries.book()});
    for (const char* tree : kSystemTrees) {
      if (fs::is_directory(tree)) words.insert(words.end(), {"--ro-bind", tree, tree});
    }
  }
  words.emplace_back("--");
  return words;
}

// A box for each command: Glovebox's own, a peer's, or none.
class CommandBoxes final : public Boxes {
 public:
  CommandBoxes(Setting setting, Canaries& canaries)
      : setting_(std::move(setting)), canaries_(canaries) {}

  Result<void> begin() {
    Command command = command_for({box_words({.number = 0, .name = "", .words = ""})});
    command.words.push_back(setting_.probe);
    return canaries_.set_neighbour(std::move(command));
  }

  Result<Ended> run(const Attack& attack) override {
    Words words = box_words(attack);
    for (std::string& word : probe_words(attack, setting_, canaries_)) {
      words.push_back(std::move(word));
    }
    TRY(const UniqueFd directory, open_file(canaries_.directory(), O_RDONLY | O_DIRECTORY));
    Command command = command_for(std::move(words));
    command.without = attack.without;
    if (attack.number == 10) command.input = canaries_.terminal();
    if (attack.number == 2) command.forgotten = directory;
    return run_program(command);
  }

  Result<Ended> commit() override {
    return run_program(command_in_work({setting_.glovebox, "commit", "last"}));
  }
  Result<Ended> diff() override {
    return run_program(command_in_work({setting_.glovebox, "diff", "last"}));
  }

 private:
  Words box_words(const Attack& attack) const {
    if (setting_.backend == Backend::None) return {};
    if (setting_.backend == Backend::Bubblewrap) return bubblewrap_words(setting_, canaries_);
    Words words{setting_.glovebox, "run"};
    if (attack.judge != Judge::Plain) words.emplace_back("-q");
    for (std::string& word : policy_words(attack, setting_, canaries_)) {
      words.push_back(std::move(word));
    }
    words.emplace_back("--");
    return words;
  }

  // Where `last` is the layer of the box that was attacked.
  Command command_in_work(Words words) {
    Command command = command_for(std::move(words));
    command.directory = canaries_.work();
    return command;
  }

  Command command_for(Words words) {
    Command command{std::move(words), caller_variables(canaries_), setting_.ids};
    command.attendant = &canaries_.net();
    return command;
  }

  Setting setting_;
  Canaries& canaries_;
};

void add_network(Words& words, const Setting& setting, const NetCanaries& net) {
  words.insert(words.end(), {"--allow", fmt::format("connect={}:{}", NetCanaries::kGranted,
                                                    net.granted_port())});
  if (!has_names(setting.backend)) return;
  words.insert(words.end(), {"--allow", fmt::format("connect=*.{}:*", NetCanaries::kZone)});
  if (setting.backend == Backend::Process) {
    words.insert(words.end(), {"--resolver", net.resolver_text()});
  }
}

}  // namespace

std::string_view to_text(Grants grants) {
  return grants == Grants::Little ? "little granted" : "much granted";
}

std::string_view to_text(Backend backend) {
  switch (backend) {
    case Backend::Process: return "process";
    case Backend::Session: return "session";
    case Backend::Parked: return "parked";
    case Backend::Python: return "python";
    case Backend::Cell: return "cell";
    case Backend::Mcp: return "mcp";
    case Backend::Bubblewrap: return "bwrap";
    case Backend::None: return "none";
  }
  return "";
}

Words caller_variables(const Canaries& canaries) {
  return {"PATH=/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin", "HOME=" + canaries.directory(),
          "GLOVEBOX_STATE=" + canaries.state(), "CANARY_API_TOKEN=" + canaries.secret()};
}

Words policy_words(const Attack& attack, const Setting& setting, const Canaries& canaries) {
  Words words{"--read", setting.probe};
  for (const std::string& option : split_words(attack.options)) {
    words.push_back(canaries.word(option));
  }
  if (attack.judge == Judge::HeldBack || attack.judge == Judge::Plain) {
    words.insert(words.end(), {"-w", canaries.work()});
  } else if (setting.grants == Grants::Much) {
    words.insert(words.end(), {"-w", canaries.work() + ":rw", "--read", canaries.book()});
    for (const char* tree : kSystemTrees) {
      if (fs::is_directory(tree)) words.insert(words.end(), {"--read", tree});
    }
    // A policy file says itself what of the network is granted.
    if (attack.options.find("--policy") == std::string_view::npos) {
      add_network(words, setting, canaries.net());
    }
  }
  return words;
}

Words probe_words(const Attack& attack, const Setting& setting, const Canaries& canaries) {
  Words words;
  if (attack.judge != Judge::NotStarted) words.push_back(setting.probe);
  for (const std::string& word : split_words(attack.words)) words.push_back(canaries.word(word));
  return words;
}

Result<std::unique_ptr<Boxes>> make_boxes(const Setting& setting, Canaries& canaries) {
  if (is_shell_session(setting.backend)) {
    return make_session_boxes(setting, canaries);
  }
  if (setting.backend == Backend::Mcp) return make_mcp_boxes(setting, canaries);
  if (setting.backend == Backend::Python || setting.backend == Backend::Cell) {
    return make_python_boxes(setting, canaries);
  }
  auto boxes = std::make_unique<CommandBoxes>(setting, canaries);
  TRY_VOID(boxes->begin());
  return std::unique_ptr<Boxes>(std::move(boxes));
}

}  // namespace glovebox::app
