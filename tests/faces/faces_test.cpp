// Every face that can express a request means the same box by it: the printed plans, and the
// refusals, are equal. The requests are in cases.json.
//
// What is compared is what the faces make of their words: options of `run`, the body that `session
// start` sends, a body of HTTP, a request of the C++ library, and the body of the Python SDK
// (sdk_bodies.py). The one preparer that all of them use is real, and looks at the real host.
#include "base/file.h"
#include "cli/session/session_options.h"
#include "cli/session/session_start.h"
#include "library/to_request.h"
#include "plan/make_plan.h"
#include "serve/bodies/create_body.h"
#include "session/prepare/prepare.h"

#include <CLI/CLI.hpp>
#include <boost/json.hpp>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace glovebox {
namespace {

namespace fs = std::filesystem;
namespace json = boost::json;

// Directories that the cases name $W, $D and $S.
struct Places {
  std::string workspace;
  std::string data;
  std::string state;
};

Places places() {
  const fs::path root = std::getenv("GLOVEBOX_FACES");
  return {root / "workspace", root / "data", root / "state"};
}

std::string read_text(const fs::path& path) {
  auto text = read_file(path.string());
  return text ? *text : "";
}

std::string filled_in(std::string text) {
  const Places here = places();
  for (const auto& [mark, path] : std::vector<std::pair<std::string, std::string>>{
           {"$W", here.workspace}, {"$D", here.data}, {"$S", here.state}}) {
    for (std::size_t at = text.find(mark); at != std::string::npos; at = text.find(mark, at)) {
      text.replace(at, mark.size(), path);
    }
  }
  return text;
}

struct Case {
  std::string name;
  std::vector<std::string> cli;
  json::object http;
  const json::object* library = nullptr;
};

const json::array& all_cases() {
  static const json::value kCases =
      json::parse(filled_in(read_text(GLOVEBOX_SOURCE_DIR "/tests/faces/cases.json")));
  return kCases.as_array();
}

Case to_case(const json::object& object) {
  Case one;
  one.name = std::string(object.at("name").as_string());
  one.cli = json::value_to<std::vector<std::string>>(object.at("cli"));
  one.http = object.at("http").as_object();
  if (!one.http.contains("overlays")) one.http["overlays"] = json::array();
  if (const json::value* library = object.if_contains("library")) {
    one.library = &library->as_object();
  }
  return one;
}

template <class Add, class Options>
void parse(std::vector<std::string> words, Add add, Options& options) {
  CLI::App app;
  add(app, options);
  std::ranges::reverse(words);  // as CLI11 takes them
  app.parse(std::move(words));
}

Result<session::BoxRequest> from_run(const Case& one) {
  app::RunOptions options;
  parse(one.cli, app::add_run_options, options);
  return app::to_request(options);
}

Result<session::BoxRequest> from_body(const json::value& body) {
  auto order = serve::read_create_order(body, serve::Unknown::Refuse);
  if (!order) return fail(Code::Invalid, "{}", order.error().message);
  return std::move(order->session);
}

Result<session::BoxRequest> from_session_start(const Case& one) {
  app::SessionOptions options;
  std::vector<std::string> words = one.cli;
  words.insert(words.begin(), "start");
  parse(std::move(words), app::add_session_options, options);
  TRY(const std::string body, app::session_request_json(options));
  return from_body(json::parse(body));
}

Mode to_mode(std::string_view text) {
  if (text == "ro") return Mode::ReadOnly;
  return text == "rw" ? Mode::ReadWrite : Mode::Overlay;
}

Result<session::BoxRequest> from_library(const json::object& object) {
  Request request;
  if (const json::value* workspaces = object.if_contains("workspaces")) {
    for (const json::value& each : workspaces->as_array()) {
      request.workspaces.push_back(
          {std::string(each.as_array()[0].as_string()), to_mode(each.as_array()[1].as_string())});
    }
  }
  for (const auto& [name, terms] : {std::pair("allow", &request.allow), {"deny", &request.deny}}) {
    if (!object.contains(name)) continue;
    *terms = json::value_to<std::vector<std::string>>(object.at(name));
  }
  if (object.contains("policy")) request.policy = std::string(object.at("policy").as_string());
  if (object.contains("cpus")) request.cpus = object.at("cpus").as_double();
  return library::to_request(request);
}

class Faces : public testing::Test {
 protected:
  void SetUp() override {
    const Places here = places();
    session::PreparerSettings settings;
    settings.layer_root = here.state + "/layers";
    settings.hidden = {{here.state}};
    settings.policy_files = session::PolicyFiles::Allowed;
    auto opened = session::Preparer::open(std::move(settings));
    ASSERT_TRUE(opened) << opened.error().message;
    preparer_ = *std::move(opened);
  }

  // The plan as `explain` prints it, or the refusal. `run` is asked for as a session here, so that
  // what lives in the box is the same.
  std::string printed(Result<session::BoxRequest> request) {
    if (!request) return "refused: " + request.error().message;
    request->command.clear();
    const auto plan = preparer_->explain(*request);
    return plan ? plan::to_text(*plan) : "refused: " + plan.error().message;
  }

  std::unique_ptr<session::Preparer> preparer_;
};

TEST_F(Faces, MeanTheSameBox) {
  ::unsetenv("LANG");
  ::unsetenv("TERM");
  const json::value bodies = json::parse(read_text(fs::path(places().state) / "sdk.json"));
  std::size_t compared = 0;
  std::size_t by_python = 0;
  for (const json::value& value : all_cases()) {
    const Case one = to_case(value.as_object());
    SCOPED_TRACE(one.name);
    const std::string plan = printed(from_run(one));
    // What an ordinary user's host cannot enforce is refused as well, by every face.
    const bool is_unenforced = plan.find("cannot be enforced here") != std::string::npos;
    EXPECT_EQ(one.name.starts_with("refused") || is_unenforced, plan.starts_with("refused"))
        << plan;
    EXPECT_EQ(printed(from_session_start(one)), plan) << "session start";
    EXPECT_EQ(printed(from_body(one.http)), plan) << "HTTP";
    if (one.library != nullptr) {
      EXPECT_EQ(printed(from_library(*one.library)), plan) << "C++";
    }
    if (const json::value* body = bodies.as_object().if_contains(one.name)) {
      EXPECT_EQ(printed(from_body(*body)), plan) << "Python";
      ++by_python;
    }
    ++compared;
  }
  EXPECT_GE(compared, 40U);
  EXPECT_GE(by_python, 15U);
}

// What the comparison would miss if printed plans said nothing: each of these changes the plan.
TEST_F(Faces, EveryCaseChangesThePlan) {
  const std::string nothing = printed(from_body(json::object{{"overlays", json::array()}}));
  for (const json::value& value : all_cases()) {
    const Case one = to_case(value.as_object());
    const bool is_default = one.name == "nothing" || one.name == "the process backend";
    EXPECT_EQ(printed(from_body(one.http)) == nothing, is_default) << one.name;
  }
}

}  // namespace
}  // namespace glovebox
