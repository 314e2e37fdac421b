#include "base/file.h"
#include "cli/commands.h"
#include "cli/standard_streams.h"
#include "doctor/probe.h"
#include "doctor/probe_child.h"
#include "launch/uid_lease.h"
#include "session/python/python_facts.h"

#include <boost/json.hpp>
#include <climits>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <map>

#include <fcntl.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

namespace glovebox::app {
namespace {

namespace json = boost::json;

constexpr int kDoctorVersion = 1;
constexpr const char* kBoxCommand = "glovebox run -- true";
constexpr std::size_t kSentenceLimit = 4096;
constexpr std::chrono::seconds kBoxTimeout{20};

std::string own_program() {
  std::array<char, PATH_MAX> path;
  const ssize_t length = ::readlink("/proc/self/exe", path.data(), path.size());
  return length > 0 ? std::string(path.data(), static_cast<std::size_t>(length)) : "";
}

std::string current_directory() {
  std::array<char, PATH_MAX> path;
  return ::getcwd(path.data(), path.size()) != nullptr ? path.data() : "/";
}

Result<host::ProbeOptions> probe_options() {
  host::ProbeOptions options;
  options.program = own_program();
  options.current_directory = current_directory();
  launch::UidRange range;
  if (const char* text = ::getenv("GLOVEBOX_UID_RANGE")) {
    TRY(range, launch::parse_uid_range(text));
  }
  options.box_uid = range.first;
  return options;
}

// In a child: runs `glovebox run -- true` with what it says going to `sentence`.
host::probe::Reply start_box(int sentence) {
  const UniqueFd nothing(::open("/dev/null", O_RDWR | O_CLOEXEC));
  if (!nothing || ::dup2(nothing.get(), 0) < 0 || ::dup2(nothing.get(), 1) < 0 ||
      ::dup2(sentence, 2) < 0) {
    return host::probe::failed("lay out the streams of a box");
  }
  std::string words[] = {"glovebox", "run", "--", "true"};
  char* argv[] = {words[0].data(), words[1].data(), words[2].data(), words[3].data(), nullptr};
  pid_t pid = 0;
  errno = ::posix_spawn(&pid, "/proc/self/exe", nullptr, nullptr, argv, environ);
  if (errno != 0) return host::probe::failed("start glovebox");
  int status = 0;
  while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  if (WIFSIGNALED(status)) {
    return host::probe::wrong(fmt::format("'{}' died of signal {}", kBoxCommand, WTERMSIG(status)));
  }
  const std::string ending = fmt::format("'{}' ended with {}", kBoxCommand, WEXITSTATUS(status));
  return WEXITSTATUS(status) == 0 ? host::probe::seen(ending) : host::probe::wrong(ending);
}

// What the box's launcher said, as one line.
std::string read_sentence(const UniqueFd& file) {
  if (::lseek(file.get(), 0, SEEK_SET) != 0) return "";
  auto text = read_fd(file, kSentenceLimit);
  if (!text) return "";
  return text->substr(0, text->find('\n'));
}

// The proof of the whole: one real box, by the same code as every run.
host::Feature try_box() {
  host::Feature feature{"box.run",
                        host::FeatureGroup::EveryBox,
                        host::Requirement::EveryBox,
                        host::FeatureState::Missing,
                        "",
                        "every box",
                        ""};
  const UniqueFd sentence(::memfd_create("glovebox-doctor", MFD_CLOEXEC));
  if (!sentence) {
    feature.detail = fail_os(errno, "make a memfd").value().message;
    return feature;
  }
  const auto reply = host::probe::run_trial([&] { return start_box(sentence.get()); }, kBoxTimeout);
  feature.detail = std::string(reply.view());
  if (reply.outcome == host::probe::Outcome::Ok) {
    feature.state = host::FeatureState::Ok;
    return feature;
  }
  const std::string said = read_sentence(sentence);
  if (!said.empty()) feature.detail += fmt::format(": {}", said);
  feature.fix = "fix what is missing above; if nothing is, the sentence here is the reason";
  return feature;
}

// The whole box comes last of what every box needs.
void insert_box(host::HostReport& report) {
  auto place = report.features.begin();
  while (place != report.features.end() && place->group == host::FeatureGroup::EveryBox) ++place;
  report.features.insert(place, try_box());
}

// Nothing is tried for it: a session starts the interpreter, and knows then.
void add_python(host::HostReport& report) {
  host::Feature feature{"python.cells",
                        host::FeatureGroup::OtherBackends,
                        host::Requirement::Optional,
                        host::FeatureState::Missing,
                        "there is no python3",
                        "Python sessions that name no interpreter",
                        "install python3, 3.11 or newer"};
  if (const auto python = session::find_default_python()) {
    feature.state = host::FeatureState::Ok;
    feature.fix.clear();
    feature.detail =
        python->cells_per_worker() == 1
            ? fmt::format(
                  "{}: every cell has a worker and a box to itself (from CPython 3.{} on "
                  "cells of one owner and one authority share a worker)",
                  python->interpreter, session::kFirstSharingMinor)
            : fmt::format("{}: up to {} cells of one owner and one authority share a worker",
                          python->interpreter, python->cells_per_worker());
  }
  report.features.push_back(std::move(feature));
}

std::string doctor_json(const host::HostReport& report) {
  json::object object;
  object["version"] = kDoctorVersion;
  object["tier"] = host::to_text(report.tier);
  object["ok"] = host::can_run_boxes(report);
  json::array features;
  for (const host::Feature& feature : report.features) {
    features.push_back(json::object{
        {"id", feature.id},
        {"state", host::to_text(feature.state)},
        {"detail", feature.detail},
        {"needed_for", feature.needed_for},
        {"fix", feature.fix.empty() ? json::value(nullptr) : json::value(feature.fix)}});
  }
  object["features"] = std::move(features);
  return json::serialize(object) + "\n";
}

std::string_view state_word(host::FeatureState state) {
  switch (state) {
    case host::FeatureState::Ok: return "ok";
    case host::FeatureState::Missing: return "MISSING";
    case host::FeatureState::NotApplicable: return "-";
  }
  return "?";
}

// The fixes of one feature, each way on a line; one that was printed before is referred to.
std::string fix_lines(const host::Feature& feature, std::map<std::string, std::string>& printed) {
  const auto [known, fresh] = printed.try_emplace(feature.fix, feature.id);
  if (!fresh) return fmt::format("    fix: as for {}\n", known->second);
  std::string lines;
  std::string_view rest = feature.fix;
  while (!rest.empty()) {
    const std::string_view line = rest.substr(0, rest.find('\n'));
    lines += fmt::format("    {} {}\n", lines.empty() ? "fix:" : "     ", line);
    rest.remove_prefix(std::min(rest.size(), line.size() + 1));
  }
  return lines;
}

std::string doctor_text(const host::HostReport& report) {
  std::size_t width = 0;
  for (const host::Feature& feature : report.features) width = std::max(width, feature.id.size());
  std::string text = report.tier == host::Tier::Root
                         ? "As root: each box gets an unprivileged uid of its own.\n"
                         : "As an ordinary user: boxes run with the caller's uid.\n";
  std::map<std::string, std::string> printed;
  const host::Feature* last = nullptr;
  for (const host::Feature& feature : report.features) {
    if (last == nullptr || last->group != feature.group) {
      text += fmt::format("\n{}\n", host::to_text(feature.group));
    }
    last = &feature;
    text += fmt::format("  {:{}}  {:7}  {}", feature.id, width, state_word(feature.state),
                        feature.detail);
    const bool says_need =
        feature.state == host::FeatureState::Missing ||
        (feature.state == host::FeatureState::Ok && feature.group != host::FeatureGroup::EveryBox);
    text += says_need ? fmt::format("  [{}]\n", feature.needed_for) : "\n";
    if (!feature.fix.empty()) text += fix_lines(feature, printed);
  }
  return text + (host::can_run_boxes(report)
                     ? "\nThis host can run boxes.\n"
                     : "\nThis host cannot run boxes yet: fix the lines above.\n");
}

}  // namespace

int doctor_command(const DoctorOptions& options) {
  if (const auto filled = fill_closed_streams(); !filled) return refuse(filled.error());
  const auto asked = probe_options();
  if (!asked) return refuse(asked.error());
  host::HostReport report = host::probe_host(*asked);
  insert_box(report);
  add_python(report);
  const auto written =
      write_all(BorrowedFd(1), options.json ? doctor_json(report) : doctor_text(report));
  if (!written) return refuse(written.error());
  return host::can_run_boxes(report) ? 0 : 1;
}

}  // namespace glovebox::app
