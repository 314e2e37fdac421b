// Boxes for the sessions of an MCP server.
#pragma once

#include "mcp/profile/profile_to_request.h"
#include "mcp/repl/checkpoint_place.h"
#include "mcp/repl/name_keeper.h"
#include "mcp/repl/placeholders.h"
#include "mcp/repl/worker.h"
#include "session/manager/session_manager.h"
#include "session/store/temporary_state.h"

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/thread_pool.hpp>

#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace glovebox::mcp {

// Whether writes into the workspace land in the directory itself or in a layer, for `changes` and
// `commit`.
enum class Writes : std::uint8_t { Direct, Layered };

struct BoxSettings {
  std::string launcher;
  std::vector<std::string> name_keeper;  // the command of NameKeeper
  ExtraTerms extra;
  Writes writes = Writes::Direct;
  std::vector<std::string> passed_env;  // names of variables to pass on
  std::string python;                   // the interpreter to use; empty: one that is found
  // Where sessions may be written out and restored from; nothing: nowhere. Only with Layered.
  std::optional<CheckpointPlace> checkpoints;
  std::string checkpoint_key_file;  // no box sees it; empty: the key is in no file
  std::string token_file;           // of this server; no box sees it; empty: none
  std::string secrets;              // the caller's store of secrets, which no box sees either
};

struct Box {
  std::string id;
  std::shared_ptr<session::LiveSession> live;
  Profile profile;
  Placeholders held;
  std::vector<CoveredPlace> covered;  // what its covers lie on
  // The sandbox allows the network and this build cannot give it.
  bool lacks_network = false;
  std::vector<std::string> interpreters;
  std::string memory_limit;  // in words, for the notice that it was reached
};

// This host, as HostView wants it.
class RealHost final : public HostView {
 public:
  std::vector<std::string> directories(const std::string& path) const override;
  std::vector<std::string> system() const override;
  std::optional<Kind> look_at(const std::string& path) const override;
  bool is_placeholder(const std::string& path) const override;
  std::string resolve(const std::string& path) const override;
  bool is_link(const std::string& path) const override;
  Result<std::optional<std::string>> read_small_file(const std::string& path) const override;
  Result<std::vector<std::string>> matches(const DenyGlob& glob, const std::string& root,
                                           std::span<const std::string> kept) const override;
  FileId identify(const std::string& path) const override;
  std::string home() const override;
  std::string variable(std::string_view name) const override;
};

// Starts nothing before the first box is asked for, so that a server answers at once. The loop's
// thread only, which must be the one that runs the loop to its end.
class BoxMaker {
 public:
  BoxMaker(asio::io_context& loop, BoxSettings settings)
      : loop_(loop), settings_(std::move(settings)), name_keeper_(settings_.name_keeper) {}
  ~BoxMaker();
  BoxMaker(const BoxMaker&) = delete;
  BoxMaker& operator=(const BoxMaker&) = delete;

  // A box under exactly this sandbox, or an error. Never under a wider one; without the network if
  // this build has none to give.
  asio::awaitable<Result<std::unique_ptr<Box>>> make(Profile profile);
  // Whether a box still has exactly the sandbox that a call asks for: the same profile, and nothing
  // on the host has come to match a denied pattern or taken the place of what is covered.
  bool has_sandbox(const Box& box, const Profile& profile) const;
  // Boxes that begin with the files of `parent`, under exactly its sandbox: all of them, or none.
  // The parent may get a fresh box itself (SessionManager::fork): refresh() takes that up.
  asio::awaitable<Result<std::vector<std::unique_ptr<Box>>>> fork(const Box& parent,
                                                                  std::size_t count,
                                                                  session::WhileRunning running);
  // Whether the box was replaced by a fresh one. An error: it is gone.
  Result<bool> refresh(Box& box);
  // Writes the files of a box out, under this name. Returns the size.
  asio::awaitable<Result<std::uint64_t>> checkpoint(const Box& box, std::string name);
  // A box with the files of a checkpoint, under exactly this sandbox: what the file says about
  // authority is not believed.
  asio::awaitable<Result<std::unique_ptr<Box>>> restore(std::string name, Profile profile);
  // Ends it and gives the held names free.
  asio::awaitable<void> end(std::unique_ptr<Box> box);
  // Ends all that is left.
  asio::awaitable<void> stop();

  // What a box was refused lately, oldest first: the act, and the capability that was missing.
  static constexpr std::size_t kKeptDenials = 256;
  std::vector<std::string> denials_of(const std::string& box) const;

  // Nothing before the first box.
  session::SessionManager* manager() { return manager_.get(); }
  const BoxSettings& settings() const { return settings_; }

 private:
  // What is asked of the manager for a sandbox, and what it needs on the host.
  struct Drafted {
    session::BoxRequest request;
    std::unique_ptr<Box> box;  // with all but the session
    bool has_network = false;
  };
  Result<void> open();
  Result<Drafted> draft(const Profile& profile);
  Result<void> attach(Box& box, const std::string& id);
  asio::thread_pool& pool();
  void add_variables(const Profile& profile, session::BoxRequest& request) const;
  // Unless a smaller limit was asked for, three quarters of the host's memory, where the host can
  // enforce it. Returns it in words.
  std::string limit_memory(session::BoxRequest& request) const;

  asio::io_context& loop_;
  BoxSettings settings_;
  NameKeeper name_keeper_;
  RealHost host_;
  std::unique_ptr<session::TemporaryState> state_;
  std::deque<session::SessionEvent> denials_;
  std::unique_ptr<asio::thread_pool> pool_;           // for copies of checkpoints; made when needed
  std::unique_ptr<session::SessionManager> manager_;  // goes first
};

// Interpreters to try for code that runs in `cwd`: the virtual environments around it, then what
// the path has.
std::vector<std::string> python_candidates(const std::string& chosen, const std::string& cwd,
                                           const HostView& host);

}  // namespace glovebox::mcp
