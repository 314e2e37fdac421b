#include "cli/session/session_options.h"

#include <CLI/CLI.hpp>

namespace glovebox::app {
namespace {

using Act = SessionOptions::Act;

class Commands {
 public:
  Commands(CLI::App& app, SessionOptions& options) : app_(app), options_(options) {}

  CLI::App& add(const char* name, const char* about, Act act) {
    CLI::App* command = app_.add_subcommand(name, about);
    command->callback([this_options = &options_, act] { this_options->act = act; });
    return *command;
  }
  // One that is about a session that is there.
  CLI::App& about_one(const char* name, const char* about, Act act) {
    CLI::App& command = add(name, about, act);
    command.add_option("SESSION", options_.session,
                       "Id of a session, the beginning of one, its name, or 'last' (default): the "
                       "last one here, in a workspace at or above the current directory");
    return command;
  }

 private:
  CLI::App& app_;
  SessionOptions& options_;
};

void add_start(Commands& commands, SessionOptions& options) {
  CLI::App& start = commands.add("start", "Start a box that stays, and print its id", Act::Start);
  add_run_options(start, options.box);
  start.add_option("--name", options.name, "A name to call it by");
  start.add_option("--idle", options.idle,
                   "End it when it was not used for so long, such as 30m; 0: never (default 30m)");
  start.add_flag("--prove", options.prove, "try the box's walls before it is handed out");
  start.add_option("--label", options.labels, "NAME=VALUE, for lists (repeatable)")
      ->allow_extra_args(false);
}

void add_runs(Commands& commands, SessionOptions& options) {
  CLI::App& run = commands.about_one(
      "run", "Run something in it: session run [SESSION] -- CMD ..., or -c CODE", Act::Run);
  run.add_option("-c", options.code, "Code for the session's shell");
  run.add_option("--env", options.env, "NAME=VALUE, for this run alone (repeatable)")
      ->allow_extra_args(false);
  run.add_option("--timeout", options.timeout, "End the run after this time, such as 30s");
  commands.about_one("shell", "A terminal in it", Act::Shell);
}

void add_files(Commands& commands, SessionOptions& options) {
  CLI::App& put = commands.add("put", "Copy a file into it", Act::Put);
  put.add_option("SESSION", options.session, "Id, name, or 'last'")->required();
  put.add_option("LOCAL", options.from, "A file here; '-' is standard input")->required();
  put.add_option("PATH", options.to, "Where to, in the box (default: its name, in the workspace)");
  CLI::App& get = commands.add("get", "Copy a file out of it", Act::Get);
  get.add_option("SESSION", options.session, "Id, name, or 'last'")->required();
  get.add_option("PATH", options.from, "A file in the box")->required();
  get.add_option("LOCAL", options.to, "Where to, here; '-' is standard output (default: its name)");
  CLI::App& ls = commands.about_one("ls", "List a directory in it", Act::Ls);
  ls.add_option("PATH", options.from, "Directory in the box (default: the workspace)");
  ls.add_option("--depth", options.depth, "How deep (default 1)");
  ls.add_flag("--json", options.json, "Print what the service says");
}

void add_changes(Commands& commands, SessionOptions& options) {
  CLI::App& diff = commands.about_one("diff", "Print what it changed in its workspace", Act::Diff);
  diff.add_flag("--json", options.diff.json, "As JSON");
  diff.add_flag("--tar", options.diff.tar, "The changed files as tar.gz");
  diff.add_option("--from", options.from_session, "Compare with that session, not the original");
  CLI::App& commit = commands.about_one("commit", "Take over what it changed", Act::Commit);
  commit.add_option("--only", options.commit.only, "Only what matches GLOB (repeatable)")
      ->allow_extra_args(false);
  commit.add_option("--reject", options.commit.reject, "Not what matches GLOB (repeatable)")
      ->allow_extra_args(false);
  commit.add_option("--accept", options.commit.accept, "Take this risky PATH too (repeatable)")
      ->allow_extra_args(false);
  commit
      .add_option("--accept-rule", options.commit.accept_rules,
                  "Let this rule of the gate pass: NAME")
      ->allow_extra_args(false);
  commit
      .add_option("--accept-class", options.commit.accept_classes,
                  "Let this class of rules pass: NAME")
      ->allow_extra_args(false);
  commit.add_flag("--dry-run", options.commit.dry_run, "Say what would be done");
  CLI::App& undo = commands.about_one("undo", "Put back what the last commit changed", Act::Undo);
  for (CLI::App* command : {&diff, &commit, &undo}) {
    command->add_option("--workspace", options.workspace,
                        "Which of its workspaces: DIR (default: the first)");
  }
}

void add_key(CLI::App& command, SessionOptions& options) {
  command.add_option("--key-file", options.key_file,
                     "File with the key, 32 bytes or 64 hex digits (default: "
                     "$GLOVEBOX_CHECKPOINT_KEY, $GLOVEBOX_CHECKPOINT_KEY_FILE)");
  command.add_option("--tenant", options.tenant, "Whose checkpoint it is; both sides say the same");
}

void add_tls(CLI::App& command, SessionOptions& options) {
  command.add_option("--cert", options.tls.certificate, "Over TLS: our certificate, PEM");
  command.add_option("--key", options.tls.key,
                     "Over TLS: its key, PEM, readable by its owner alone");
  command.add_option("--ca", options.tls.authority,
                     "Over TLS: who must have signed the other side's certificate, PEM");
  command.add_option("--peer-name", options.tls.peer_name,
                     "Over TLS: the name that the other side's certificate must have");
}

void add_forks(Commands& commands, SessionOptions& options) {
  CLI::App& recycle =
      commands.about_one("recycle", "Give it a fresh box with the same authority", Act::Recycle);
  recycle.add_flag("--drop", options.drop, "Without what it changed in its workspaces");
  CLI::App& fork = commands.about_one(
      "fork", "Make sessions that go on from where it is, and print their ids", Act::Fork);
  fork.add_option("-n,--count", options.count, "How many (default 1)");
  fork.add_option("--name", options.name, "Name of the children; a number follows");
  fork.add_option("--only", options.only,
                  "Cut their authority down to TERM, such as read=/srv (repeatable)")
      ->allow_extra_args(false);
  fork.add_option("--limit", options.limits, "NAME=AMOUNT for each of them (repeatable)")
      ->allow_extra_args(false);
  fork.add_flag("--force", options.force, "Although runs are under way, which end");
}

void add_files_of_sessions(Commands& commands, SessionOptions& options) {
  CLI::App& checkpoint =
      commands.add("checkpoint", "Write it out as an encrypted file", Act::Checkpoint);
  checkpoint.add_option("SESSION", options.session, "Id, name, or 'last'")->required();
  checkpoint.add_option("FILE", options.to, "Where to; '-' is standard output")->required();
  checkpoint.add_option("--state", options.state, "What it must hold: config, files, memory");
  checkpoint.add_flag("--force", options.force, "Although runs are under way, which may change it");
  add_key(checkpoint, options);
  CLI::App& restore = commands.add("restore", "Make a session from such a file", Act::Restore);
  restore.add_option("FILE", options.from, "The file; '-' is standard input")->required();
  add_key(restore, options);
  CLI::App& send = commands.about_one(
      "send",
      "Move it to another host: session send [SESSION] -- ssh HOST glovebox session receive, or "
      "session send SESSION HOST:PORT",
      Act::Send);
  send.add_option("ADDRESS", options.to,
                  "HOST:PORT of a 'receive --listen', instead of a command after --");
  add_key(send, options);
  add_tls(send, options);
  CLI::App& receive =
      commands.add("receive", "Take over a session that 'send' writes to here", Act::Receive);
  add_key(receive, options);
  receive.add_option("--listen", options.listen,
                     "Take it from a TLS connection to ADDRESS:PORT, not from standard input");
  receive.add_option("--max-size", options.most_bytes,
                     "With --listen: the most bytes of it (default 64GiB)");
  add_tls(receive, options);
}

}  // namespace

void add_session_options(CLI::App& app, SessionOptions& options) {
  app.require_subcommand(1);
  Commands commands(app, options);
  add_start(commands, options);
  CLI::App& list = commands.add("list", "List sessions", Act::List);
  list.add_flag("--json", options.json, "Print what the service says");
  list.add_flag("--tree", options.tree, "Show forks below the sessions they were forked from");
  add_runs(commands, options);
  add_files(commands, options);
  add_changes(commands, options);
  add_forks(commands, options);
  add_files_of_sessions(commands, options);
  commands.about_one("report", "Print what is enforced, and what came of it, as JSON", Act::Report);
  CLI::App& stop = commands.about_one("stop", "End it", Act::Stop);
  CLI::Option* keep = stop.add_flag(
      "--keep", options.keep, "Keep what it changed as layers, for diff and commit (default)");
  stop.add_flag("--discard", options.discard, "Throw away what it changed and was not committed")
      ->excludes(keep);
  stop.add_flag("--all", options.all, "End all sessions");
}

}  // namespace glovebox::app
