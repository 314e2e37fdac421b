#include "attack/mcp_boxes.h"

#include "base/file.h"
#include "base/pipe.h"
#include "base/strict_json.h"
#include "guest/shell/shell_text.h"

#include <boost/json/serialize.hpp>

#include <charconv>

#include <unistd.h>

namespace glovebox::app {
namespace {

namespace json = boost::json;

constexpr std::chrono::seconds kPatience{60};
constexpr std::string_view kMark = "glovebox-attack-code=";

json::object message(std::string_view method, json::object parameters) {
  return {{"jsonrpc", "2.0"}, {"method", method}, {"params", std::move(parameters)}};
}

json::object hello() {
  return message("initialize", {{"protocolVersion", "2025-06-18"},
                                {"capabilities", json::object()},
                                {"clientInfo", {{"name", "attack"}, {"version", "1"}}}});
}

// What an agent types: the probe's words, and its exit code behind them.
json::object call_of(const Words& words) {
  std::string typed;
  for (const std::string& word : words) typed += guest::quoted(word) + " ";
  typed += fmt::format("< /dev/null; echo {}$?\n", kMark);
  return message("tools/call", {{"name", "repl"}, {"arguments", {{"input", typed}}}});
}

// The texts in an answer to a call.
std::string texts_in(const json::value& answer) {
  std::string text;
  boost::system::error_code problem;
  const json::value* content = answer.find_pointer("/result/content", problem);
  if (content == nullptr || !content->is_array()) return text;
  for (const json::value& part : content->as_array()) {
    const json::value* piece = part.find_pointer("/text", problem);
    if (piece != nullptr && piece->is_string()) text += piece->as_string();
  }
  return text;
}

// One server, and what is said to it, line by line.
class Server {
 public:
  static Result<std::unique_ptr<Server>> start(Command command) {
    TRY(Pipe pipe, open_pipe());
    command.input = pipe.read;
    TRY(Background process, Background::start(command));
    auto server = std::unique_ptr<Server>(new Server(std::move(process), std::move(pipe.write)));
    TRY_VOID(server->ask(hello()));
    return server;
  }

  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;
  // It tidies up when nothing more is said to it.
  ~Server() {
    input_.reset();
    process_.await_end(std::chrono::seconds(10));
  }

  Result<json::value> ask(json::object question) {
    question["id"] = ++count_;
    TRY_VOID(write_all(input_, json::serialize(question) + "\n"));
    while (true) {
      TRY(const std::string line, process_.next_line(kPatience));
      auto answer = parse_strict_json(line, kAnyLength);
      if (!answer || !answer->is_object()) continue;  // a line for people
      const json::value* id = answer->as_object().if_contains("id");
      if (id != nullptr && *id == json::value(count_)) return answer;
    }
  }

 private:
  Server(Background process, UniqueFd input)
      : process_(std::move(process)), input_(std::move(input)) {}

  Background process_;
  UniqueFd input_;
  std::int64_t count_ = 0;
};

class McpBoxes final : public Boxes {
 public:
  McpBoxes(Setting setting, Canaries& canaries)
      : setting_(std::move(setting)), canaries_(canaries) {}
  ~McpBoxes() override { canaries_.end_neighbour(); }

  Result<void> begin() {
    Words words = split_words("run -q --read");
    words.insert(words.begin(), setting_.glovebox);
    words.insert(words.end(), {setting_.probe, "--", setting_.probe});
    TRY_VOID(canaries_.set_neighbour(
        Command{std::move(words), caller_variables(canaries_), setting_.ids}));
    Command command{server_words(), caller_variables(canaries_), setting_.ids};
    command.directory = canaries_.work();
    TRY(server_, Server::start(std::move(command)));
    return {};
  }

  Result<Ended> run(const Attack& attack) override {
    TRY(const json::value answer, server_->ask(call_of(probe_words(attack, setting_, canaries_))));
    canaries_.net().attend();
    Ended ended{.code = kRefused, .output = texts_in(answer)};
    const std::size_t mark = ended.output.rfind(kMark);
    if (mark == std::string::npos) return ended;
    const char* digits = ended.output.data() + mark + kMark.size();
    std::from_chars(digits, ended.output.data() + ended.output.size(), ended.code);
    ended.output.resize(mark);
    return ended;
  }

 private:
  Words server_words() const {
    const bool much = setting_.grants == Grants::Much;
    Words words{setting_.glovebox, "mcp", "--interpreter", "bash"};
    words.insert(words.end(), {"--allow", "read=" + setting_.probe, "--sandbox",
                               much ? "workspace-write" : "read-only"});
    if (!much) return words;
    const NetCanaries& net = canaries_.net();
    words.insert(words.end(),
                 {"--allow", "read=" + canaries_.book(), "--allow",
                  fmt::format("connect={}:{}", NetCanaries::kGranted, net.granted_port())});
    return words;
  }

  Setting setting_;
  Canaries& canaries_;
  std::unique_ptr<Server> server_;
};

}  // namespace

Result<std::unique_ptr<Boxes>> make_mcp_boxes(const Setting& setting, Canaries& canaries) {
  auto boxes = std::make_unique<McpBoxes>(setting, canaries);
  TRY_VOID(boxes->begin());
  return std::unique_ptr<Boxes>(std::move(boxes));
}

}  // namespace glovebox::app
