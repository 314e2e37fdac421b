#include "attack/python_boxes.h"

#include "attack/session_boxes.h"
#include "base/strict_json.h"
#include "cli/session/session_start.h"
#include "client/client_connection.h"
#include "client/http_client.h"

#include <CLI/CLI.hpp>
#include <boost/asio/buffer.hpp>
#include <boost/beast/core/buffers_to_string.hpp>
#include <boost/beast/websocket.hpp>
#include <boost/json/serialize.hpp>

#include <cerrno>
#include <chrono>
#include <map>
#include <optional>

namespace glovebox::app {
namespace {

namespace asio = boost::asio;
namespace json = boost::json;
namespace websocket = boost::beast::websocket;
using Problem = boost::system::error_code;

constexpr std::chrono::seconds kPatience{60};
constexpr std::size_t kMostMessage = std::size_t{4} << 20;

// The channel of one Python session (docs/reference/python.md). One operation at a time.
class Channel {
 public:
  static Result<std::unique_ptr<Channel>> open(const ServiceAddress& address,
                                               const std::string& session) {
    TRY(HttpClient client, HttpClient::connect(address));
    auto channel = std::unique_ptr<Channel>(new Channel(std::move(client)));
    Problem problem;
    const std::string target = "/v1/isolated/session/" + session + "/python";
    channel->stream_.handshake(channel->client_.connection().host_header(), target, problem);
    if (problem) return fail(Code::Os, "open a Python session: {}", problem.message());
    return channel;
  }

  // Runs the source. Code 0, or EPERM when it ended in an error, which is the output's last line;
  // before that stands what it posted.
  Result<Ended> exec(const std::string& source) {
    Problem problem;
    const std::string message =
        json::serialize(json::object{{"op", "exec"}, {"id", ++count_}, {"source", source}});
    stream_.text(true);
    stream_.write(asio::buffer(message), problem);
    if (problem) return fail(Code::Os, "write to a Python session: {}", problem.message());
    Ended ended;
    posts_.clear();
    while (ended.code < 0 && !ended.timed_out) {
      TRY(const std::optional<json::object> event, next_event());
      if (!event) {
        ended.timed_out = true;
      } else {
        take(*event, ended);
      }
    }
    return ended;
  }

  const std::vector<json::value>& posts() const { return posts_; }
  bool is_over() const { return over_; }

 private:
  explicit Channel(HttpClient client)
      : client_(std::move(client)), stream_(client_.connection().socket) {
    stream_.read_message_max(kMostMessage);
  }

  // Nothing when the patience is over.
  Result<std::optional<json::object>> next_event() {
    boost::beast::flat_buffer buffer;
    std::optional<Problem> done;
    stream_.async_read(buffer, [&](Problem problem, std::size_t) { done = problem; });
    asio::io_context& loop = client_.connection().loop;
    loop.restart();
    loop.run_for(kPatience);
    if (!done) {
      over_ = true;
      client_.connection().socket.close(*(done = Problem()));
      loop.restart();
      loop.run();  // what was started ends before its buffer does
      return std::optional<json::object>();
    }
    if (*done) return json::object{{"ev", "end"}, {"reason", done->message()}};
    auto value = parse_strict_json(boost::beast::buffers_to_string(buffer.data()), kAnyLength);
    if (!value || !value->is_object()) return fail(Code::Os, "a Python session sent nonsense");
    return std::optional(std::move(*value).as_object());
  }

  // A denial, or what a call met. Code that fails by a mistake of its own has tried nothing.
  static bool is_refusal(const json::object& event) {
    const json::value* error = event.if_contains("error");
    const json::object* object = error == nullptr ? nullptr : error->if_object();
    if (object == nullptr) return false;
    const json::value* kind = object->if_contains("kind");
    const json::value* type = object->if_contains("type");
    if (kind != nullptr && *kind == json::value("policy")) return true;
    if (type == nullptr || !type->is_string()) return false;
    const std::string_view name = type->as_string();
    return name == "AssertionError" || name == "OSError" || name == "PermissionError" ||
           name == "FileNotFoundError" || name == "ConnectionRefusedError";
  }

  void take(const json::object& event, Ended& ended) {
    const json::value* kind = event.if_contains("ev");
    const std::string name = kind != nullptr && kind->is_string() ? kind->as_string().c_str() : "";
    if (name == "result") ended.code = 0;
    if (name == "error") ended.code = is_refusal(event) ? EPERM : Boxes::kRefused;
    if (name == "end") {
      ended.code = Boxes::kLimit;
      over_ = true;
    }
    if (name == "post" && event.contains("value")) posts_.push_back(event.at("value"));
    if (ended.output.size() < kMostMessage) ended.output += json::serialize(event) + "\n";
  }

  HttpClient client_;
  websocket::stream<asio::generic::stream_protocol::socket&> stream_;
  std::vector<json::value> posts_;
  std::int64_t count_ = 0;
  bool over_ = false;
};

// As source code of Python.
std::string quoted(const Words& words) {
  json::array list;
  for (const std::string& word : words) list.emplace_back(word);
  return json::serialize(list);
}

class PythonBoxes final : public Boxes {
 public:
  PythonBoxes(AttackedService service, Setting setting, Canaries& canaries)
      : service_(std::move(service)), setting_(std::move(setting)), canaries_(canaries) {
    address_.socket = service_.socket();
  }
  ~PythonBoxes() override { canaries_.end_neighbour(); }

  Result<void> begin() {
    TRY(const Ended other, service_.tool({"session", "start", "--read", setting_.probe}));
    if (other.code != 0) return fail(Code::Os, "start a session: {}", other.output);
    const std::string session = other.output.substr(0, other.output.find('\n'));
    TRY_VOID(begin_neighbour());
    return canaries_.set_neighbour(
        service_.command({"session", "run", session, "--", setting_.probe}));
  }

  Result<Ended> run(const Attack& attack) override {
    if (attack.where == Where::Python) {
      TRY(Channel* const channel, channel_for(Powers::Native));
      return channel->exec(canaries_.word(attack.words));
    }
    // Each of two that must share nothing has an interpreter of its own.
    if (attack.judge == Judge::Distinct) channels_.erase(Powers::Programs);
    TRY(Channel* const channel, channel_for(Powers::Programs));
    const Words words = probe_words(attack, setting_, canaries_);
    TRY(const Ended ended, channel->exec(source_for(words)));
    if (channel->is_over()) channels_.erase(Powers::Programs);
    canaries_.net().attend();
    if (ended.timed_out || ended.code == kLimit) return ended;
    return probe_ended(*channel, ended);
  }

 private:
  // What the code may do: start programs, or call native code and start none.
  enum class Powers { Programs, Native };

  // Another session with the authority of those that are attacked from: a class of its own, and a
  // word in the dict behind a built-in type, which the read-only one hands to who compares it.
  Result<void> begin_neighbour() {
    constexpr const char* kSource =
        "class GloveboxNeighbour:\n"
        "    def __eq__(self, names):\n"
        "        names['glovebox_neighbour'] = 1\n"
        "        return True\n"
        "str.__dict__ == GloveboxNeighbour()\n"
        "assert hasattr('', 'glovebox_neighbour')\n";
    TRY(const std::string session, create(Powers::Native));
    TRY(neighbour_, Channel::open(address_, session));
    TRY(const Ended ended, neighbour_->exec(kSource));
    if (ended.code == 0) return {};
    return fail(Code::Os, "a Python session next door: {}", ended.output);
  }

  Result<Channel*> channel_for(Powers powers) {
    std::unique_ptr<Channel>& channel = channels_[powers];
    if (channel == nullptr || channel->is_over()) {
      TRY(const std::string session, create(powers));
      TRY(channel, Channel::open(address_, session));
    }
    return channel.get();
  }

  // The box's own agent starts programs for a cell, which cannot fork.
  std::string source_for(const Words& words) const {
    if (setting_.backend == Backend::Cell) {
      return fmt::format(
          "r = request('subprocess', 'run', {{'args': {}, 'timeout': 50}})\n"
          "t = lambda b: b if isinstance(b, str) else b.decode('utf-8', 'replace')\n"
          "post([r['code'], t(r['stdout']) + t(r['stderr'])])\n",
          quoted(words));
    }
    return fmt::format(
        "import subprocess\n"
        "r = subprocess.run({}, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,\n"
        "                   stderr=subprocess.STDOUT)\n"
        "post([r.returncode, r.stdout.decode('utf-8', 'replace')])\n",
        quoted(words));
  }

  // What was posted: the probe's code and output. Anything else says that it did not run.
  static Ended probe_ended(const Channel& channel, Ended ended) {
    const json::array* post = channel.posts().empty() ? nullptr : channel.posts().back().if_array();
    if (post == nullptr || post->size() != 2 || !post->at(0).is_int64() ||
        !post->at(1).is_string()) {
      ended.code = kRefused;
      return ended;
    }
    const auto code = static_cast<int>(post->at(0).as_int64());
    ended.code = code < 0 ? kSignal - code : code;
    ended.output = post->at(1).as_string().c_str();
    return ended;
  }

  Result<std::string> create(Powers powers) {
    constexpr Attack kPlain{.number = 0, .name = "", .words = ""};
    Words words = policy_words(kPlain, setting_, canaries_);
    words.insert(words.end(), {"--allow", "import=*", "--allow", "import=ctypes"});
    if (powers == Powers::Programs) {
      words.insert(words.end(), {"--allow", "exec=" + setting_.probe, "--allow",
                                 "subprocess=" + setting_.probe});
    }
    SessionOptions options;
    CLI::App app;
    add_run_options(app, options.box);
    std::vector<std::string> backwards(words.rbegin(), words.rend());
    app.parse(backwards);
    TRY(const std::string text, session_request_json(options));
    TRY(json::value request, parse_strict_json(text, kAnyLength));
    json::object& body = request.as_object();
    body["python"] = json::object();
    body["backend"] = setting_.backend == Backend::Cell ? "cell" : "process";
    TRY(HttpClient client, HttpClient::connect(address_));
    TRY(const Reply reply,
        client.call(
            {.method = "POST", .target = "/v1/isolated/session", .body = json::serialize(body)}));
    if (!reply.ok()) return tl::unexpected(refusal_of(reply));
    TRY(const json::value answer, parse_strict_json(reply.body, kAnyLength));
    return std::string(answer.as_object().at("session_id").as_string());
  }

  AttackedService service_;
  Setting setting_;
  Canaries& canaries_;
  ServiceAddress address_;
  std::map<Powers, std::unique_ptr<Channel>> channels_;
  std::unique_ptr<Channel> neighbour_;
};

}  // namespace

Result<std::unique_ptr<Boxes>> make_python_boxes(const Setting& setting, Canaries& canaries) {
  TRY(AttackedService service, AttackedService::start(setting, canaries));
  auto boxes = std::make_unique<PythonBoxes>(std::move(service), setting, canaries);
  TRY_VOID(boxes->begin());
  return std::unique_ptr<Boxes>(std::move(boxes));
}

}  // namespace glovebox::app
