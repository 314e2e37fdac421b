#include "support/box_test.h"

#include <filesystem>
#include <fstream>
#include <sstream>
#include <stdexcept>

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

namespace glovebox::test {
namespace {

namespace fs = std::filesystem;

constexpr std::chrono::seconds kTeardownTime{10};
// After glovebox has ended its pipes end too, unless something of the box still holds them.
constexpr std::chrono::seconds kPipesEnd{5};

void append_from(UniqueFd& fd, std::string& text) {
  char bytes[65536];
  const ssize_t count = read(fd.get(), bytes, sizeof bytes);
  if (count > 0) {
    text.append(bytes, static_cast<std::size_t>(count));
  } else if (count == 0 || errno != EINTR) {
    fd.reset();
  }
}

std::string field(const boost::json::value& report, const char* name) {
  if (!report.is_object()) return "";
  const auto* exit = report.as_object().if_contains("exit");
  if (exit == nullptr || !exit->is_object()) return "";
  const auto* value = exit->as_object().if_contains(name);
  return value != nullptr && value->is_string() ? std::string(value->as_string()) : "";
}

void give_to(const std::string& path, Ids owner) {
  if (geteuid() != 0) return;
  if (lchown(path.c_str(), owner.uid, owner.gid) != 0) {
    throw std::runtime_error("cannot give away " + path);
  }
}

}  // namespace

std::string to_text(Tier tier) { return tier == Tier::Root ? "Root" : "User"; }

void PrintTo(Tier tier, std::ostream* stream) { *stream << to_text(tier); }

std::string Outcome::reason() const { return field(report, "reason"); }
std::string Outcome::limit() const { return field(report, "limit"); }

void PrintTo(const Outcome& outcome, std::ostream* stream) {
  constexpr std::size_t kShown = 3000;
  *stream << "code " << outcome.code << (outcome.timed_out ? " (timed out)" : "") << " after "
          << outcome.took.count() << " ms\n  stdout: " << outcome.out.substr(0, kShown)
          << "\n  stderr: " << outcome.err.substr(0, kShown);
  if (outcome.report.is_object()) {
    const auto* exit = outcome.report.as_object().if_contains("exit");
    if (exit != nullptr) *stream << "\n  report.exit: " << boost::json::serialize(*exit);
  }
}

Running::Running(const Words& argv, const Settings& settings, std::optional<Ids> ids,
                 std::string report_path)
    : settings_(settings), report_path_(std::move(report_path)) {
  Pipe in = make_pipe(), out = make_pipe(), err = make_pipe();
  Launch launch;
  launch.argv = settings.wrapper;
  launch.argv.insert(launch.argv.end(), argv.begin(), argv.end());
  launch.environment = settings.environment;
  launch.ids = ids;
  launch.directory = settings.directory;
  launch.in = settings.in.value_or(in.read_end.get());
  launch.out = settings.out.value_or(out.write_end.get());
  launch.err = settings.err.value_or(err.write_end.get());
  launch.kept = settings.kept;
  launch.refused_syscalls = settings.refused_syscalls;
  launch.answered_calls = settings.answered_calls;
  launch.terminal = settings.terminal;
  process_ = std::make_unique<Process>(launch);
  input_ = std::move(in.write_end);
  out_ = std::move(out.read_end);
  err_ = std::move(err.read_end);
  fcntl(input_.get(), F_SETFL, O_NONBLOCK);
}

bool Running::wait_for(std::string_view text) {
  return read_until(out_, text, start_ + settings_.patience, out_text_);
}

void Running::type(std::string_view text) {
  if (write(input_.get(), text.data(), text.size()) != static_cast<ssize_t>(text.size())) {
    throw std::runtime_error("the box does not take its input");
  }
}

// One turn of the loop: whatever can be written to stdin or read from stdout and stderr.
void Running::take_available() {
  pollfd waiting[] = {{out_ ? out_.get() : -1, POLLIN, 0},
                      {err_ ? err_.get() : -1, POLLIN, 0},
                      {input_ ? input_.get() : -1, POLLOUT, 0},
                      {process_->pidfd().get(), POLLIN, 0}};
  constexpr int kTurnMs = 100;  // an upper bound; anything that happens ends the turn at once
  if (poll(waiting, 4, kTurnMs) <= 0) return;
  if (waiting[0].revents != 0) append_from(out_, out_text_);
  if (waiting[1].revents != 0) append_from(err_, err_text_);
  if (waiting[2].revents != 0) {
    const ssize_t count = write(input_.get(), settings_.input.data(), settings_.input.size());
    if (count > 0) settings_.input.erase(0, static_cast<std::size_t>(count));
    if (count < 0 && errno != EAGAIN) input_.reset();
  }
}

Outcome Running::finish() {
  Outcome outcome;
  const auto deadline = start_ + settings_.patience;
  auto end_of_pipes = deadline;
  for (;;) {
    if (settings_.input.empty()) input_.reset();
    const auto code = process_->wait(Clock::now());
    if (code && outcome.code < 0) {
      outcome.code = *code;
      outcome.took = std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - start_);
      end_of_pipes = Clock::now() + kPipesEnd;
    }
    if (code && !out_ && !err_) break;
    if (Clock::now() > (code ? end_of_pipes : deadline)) {
      outcome.timed_out = true;
      process_->signal(SIGKILL);
      if (!code) outcome.code = process_->wait(Clock::now() + kPipesEnd).value_or(-1);
      break;
    }
    take_available();
  }
  outcome.out = out_text_;
  outcome.err = err_text_;
  // A glovebox that was killed leaves the file empty; that is no report, and not a broken one.
  const std::string report = read_text(report_path_);
  if (!report.empty()) {
    boost::json::error_code malformed;
    outcome.report = boost::json::parse(report, malformed);
    if (malformed) ADD_FAILURE() << "the report is not JSON: " << report;
  }
  return outcome;
}

void BoxTest::SetUp() {
  if (as_root()) NEEDS(Feature::Root);
  NEEDS(Feature::UserNamespaces);
  scratch_ = installation().make_scratch(caller_ids());
  before_ = take_snapshot();
}

void BoxTest::TearDown() {
  if (scratch_.empty()) return;
  if (killed_) {
    // No process is left to remove the cgroup of a glovebox that was killed. The next box does it,
    // once the killed one's processes are gone.
    for (const pid_t pid : box_processes()) {
      ends_before(open_pidfd(pid), Clock::now() + kTeardownTime);
      (void)waitpid(pid, nullptr,
                    WNOHANG);  // adopted ones; a zombie would pass for a live glovebox
    }
    run({}, {"true"});
  }
  for (const std::string& thing : left_since(before_, Clock::now() + kTeardownTime)) {
    ADD_FAILURE() << "left behind: " << thing;
  }
  std::error_code ignored;
  fs::remove_all(scratch_, ignored);
}

std::optional<Ids> BoxTest::caller() const {
  if (as_root() || geteuid() != 0) return std::nullopt;
  return kUserIds;
}

Ids BoxTest::caller_ids() const { return caller().value_or(Ids{geteuid(), getegid()}); }

void BoxTest::kill(Running& box) {
  killed_ = true;
  box.signal(SIGKILL);
}

Words BoxTest::command_line(const std::string& report, const Words& options, const Words& command) {
  Words words{installation().glovebox(), "run", "--report", report};
  words.insert(words.end(), options.begin(), options.end());
  words.push_back("--");
  words.insert(words.end(), command.begin(), command.end());
  return words;
}

Settings BoxTest::with_state(Settings settings) const {
  settings.environment.push_back("GLOVEBOX_STATE=" + scratch_ + "/.state");
  return settings;
}

Running BoxTest::start(const Words& options, const Words& command, const Settings& settings) {
  const std::string report = scratch_ + "/.report-" + std::to_string(++run_count_) + ".json";
  return {command_line(report, options, command), with_state(settings), caller(), report};
}

Running BoxTest::start_probe(const Words& options, const Words& words, const Settings& settings) {
  Words all{"--read", installation().probe()};  // the file: a directory brings the socket guard
  all.insert(all.end(), options.begin(), options.end());
  Words command{installation().probe()};
  command.insert(command.end(), words.begin(), words.end());
  return start(all, command, settings);
}

Outcome BoxTest::run(const Words& options, const Words& command, const Settings& settings) {
  return start(options, command, settings).finish();
}

Outcome BoxTest::probe(const Words& options, const Words& words, const Settings& settings) {
  const Outcome outcome = start_probe(options, words, settings).finish();
  const bool ended_by_itself = outcome.code >= 0 && outcome.code < 124;
  const bool hears = !settings.out.has_value();
  if (ended_by_itself && hears && outcome.out.find(words.front() + ": ") == std::string::npos) {
    ADD_FAILURE() << "the probe did not speak: " << testing::PrintToString(outcome);
  }
  return outcome;
}

Outcome BoxTest::glovebox(const Words& arguments, const Settings& settings) {
  Words words{installation().glovebox()};
  words.insert(words.end(), arguments.begin(), arguments.end());
  return Running(words, with_state(settings), caller(), "").finish();
}

std::string BoxTest::make_file(const std::string& name, const std::string& text, unsigned mode) {
  const std::string path = scratch_ + "/" + name;
  write_text(path, text);
  fs::permissions(path, fs::perms(mode));
  give_to(path, caller_ids());
  return path;
}

std::string BoxTest::make_directory(const std::string& name, unsigned mode) {
  const std::string path = scratch_ + "/" + name;
  fs::create_directory(path);
  fs::permissions(path, fs::perms(mode));
  give_to(path, caller_ids());
  return path;
}

std::string BoxTest::make_tree(const std::string& name) {
  const std::string path = make_directory(name);
  make_file(name + "/old", "old text\n");
  return path;
}

std::string BoxTest::own_name_in(const std::string& directory) {
  return directory + "/glovebox-test-" + std::to_string(getpid());
}

std::string read_text(const std::string& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

void write_text(const std::string& path, const std::string& text) {
  std::ofstream file(path);
  file << text;
  file.close();
  if (!file) throw std::runtime_error("cannot write " + path);
}

Words lines_after(const std::string& output, const std::string& prefix) {
  Words lines;
  std::istringstream stream(output);
  for (std::string line; std::getline(stream, line);) {
    if (!line.empty() && line.back() == '\r') line.pop_back();
    const auto colon = line.find(": ");
    if (colon == std::string::npos) continue;
    const std::string said = line.substr(colon + 2);
    if (said.starts_with(prefix)) lines.push_back(said.substr(prefix.size()));
  }
  return lines;
}

}  // namespace glovebox::test
