#include "workspace/commit/gate_git.h"

#include "base/file.h"
#include "workspace/git/git_config.h"
#include "workspace/git/git_history.h"
#include "workspace/git/git_index.h"
#include "workspace/git/git_refs.h"
#include "workspace/tree/printable.h"

#include <algorithm>
#include <cctype>

namespace glovebox::workspace {
namespace {

constexpr std::size_t kShortId = 12;
constexpr unsigned kGitlink = 0160000U;
constexpr unsigned kSymlink = 0120000U;
constexpr std::size_t kSha1Digits = 40;
constexpr std::size_t kSha256Digits = 64;
constexpr std::size_t kMostLinks = 5;  // of refs that lead to refs, as git has it
// How often it is looked up whether a branch has a name already; beyond, it counts as new.
constexpr std::size_t kMostLookups = 200'000;
constexpr std::size_t kMostTold = 50'000;

bool ends_in_git(std::string_view name) {
  constexpr std::string_view kEnd = ".git";
  if (name.size() < kEnd.size()) return false;
  name.remove_prefix(name.size() - kEnd.size());
  return std::equal(name.begin(), name.end(), kEnd.begin(), [](char a, char b) {
    return std::tolower(static_cast<unsigned char>(a)) == b;
  });
}

// Refs beside HEAD ("ORIG_HEAD", "MERGE_AUTOSTASH"), and notes that are called like those.
bool is_name_of_root_ref(std::string_view name) {
  return !name.empty() &&
         name.find_first_not_of("ABCDEFGHIJKLMNOPQRSTUVWXYZ_-") == std::string_view::npos;
}

bool is_directory_of_repository(std::string_view name) {
  return name == "refs" || name == "objects" || name == "logs";
}

bool is_in_objects(std::string_view below) {
  const std::string_view first = below.substr(0, below.find('/'));
  const bool is_of_loose =
      first.size() == 2 && first.find_first_not_of("0123456789abcdef") == std::string_view::npos;
  return is_of_loose || first == "pack" || first == "info" || first.starts_with("tmp_");
}

// Whether `rest` is a path from the top of a repository, by the names that are in one.
bool is_from_top(std::string_view rest) {
  const std::size_t slash = rest.find('/');
  const std::string_view first = rest.substr(0, slash);
  if (slash == std::string_view::npos) {
    // A file that is called like a directory of git (info/refs) is none of its files.
    return first == "packed-refs" || first == "index" || is_name_of_root_ref(first);
  }
  // A submodule or worktree may be called "objects"; what is in it is not.
  if (first == "objects") return is_in_objects(rest.substr(slash + 1));
  return is_directory_of_repository(first);
}

struct InRepository {
  std::string below{};      // "refs/heads/main" of ".git/refs/heads/main"
  bool is_from_top = true;  // otherwise what is behind the first directory called *.git
};

std::optional<InRepository> find_in_repository(std::string_view name) {
  std::optional<InRepository> other;
  for (std::size_t start = 0; start < name.size();) {
    if (other && is_from_top(name.substr(start))) {
      return InRepository{.below = std::string(name.substr(start))};
    }
    const std::size_t end = std::min(name.find('/', start), name.size());
    const std::string_view part = name.substr(start, end - start);
    start = end + 1;
    if (!other && ends_in_git(part) && start < name.size()) {
      other = {.below = std::string(name.substr(start)), .is_from_top = false};
    }
  }
  return other;
}

// A worktree has its own HEAD and index; everything else is that of the repository it belongs to.
std::string common_directory(const std::string& dir) {
  const auto [worktrees, name] = split_path(dir);
  const auto [common, word] = split_path(worktrees);
  return word == "worktrees" ? common : dir;
}

bool is_of_a_remote(std::string_view below) {
  return below.starts_with("refs/remotes/") || below.starts_with("logs/refs/remotes/") ||
         below == "FETCH_HEAD";
}

bool is_own_branch(std::string_view name) {
  return name == "HEAD" || name.starts_with("refs/heads/") || name.starts_with("worktrees/");
}

// Whether git takes the file for a ref, whatever is in it.
bool is_always_ref(std::string_view below) {
  return below.starts_with("refs/") || below == "HEAD" || below.ends_with("_HEAD") ||
         below == "AUTO_MERGE" || below == "MERGE_AUTOSTASH";
}

// Whether it may be a ref. "refs/replace/" and MERGE_RR are held by name.
bool is_ref_file(std::string_view below) {
  return !below.starts_with("objects/") && !below.starts_with("logs/") && below != "index" &&
         below != "MERGE_RR" && !below.ends_with(".lock") && !below.starts_with("refs/replace/");
}

// A changed file of a repository.
struct RepositoryFile {
  std::string path{};   // in the workspace
  std::string below{};  // in the repository, or in the worktree's part of it
};

Change change_of(const NameInTree& name) {
  const auto node_of = [](const std::optional<TreeEntry>& entry) {
    Node node;
    if (!entry) return node;
    node.type = entry->mode == kSymlink ? NodeType::Symlink : NodeType::File;
    node.mode = entry->mode & 0777U;
    return node;
  };
  Change change;
  change.kind = ChangeKind::Modified;
  if (!name.before) change.kind = ChangeKind::Added;
  if (!name.after) change.kind = ChangeKind::Deleted;
  change.path = name.path;
  change.before = node_of(name.before);
  change.after = node_of(name.after);
  change.aspects.content = true;
  return change;
}

// One repository whose files the commit changes.
class RepositoryJudge {
 public:
  RepositoryJudge(const GitGate& gate, const Brought& brought, std::string dir,
                  std::vector<Held>& held)
      : gate_(gate),
        brought_(brought),
        dir_(std::move(dir)),
        held_(held),
        id_digits_(find_digits()),
        store_(join_path(dir_, "objects"), brought_, gate_.original, id_digits_),
        history_(store_, read_shallow()) {}

  void judge(const std::vector<RepositoryFile>& files) {
    for (const RepositoryFile& file : files) {
      if (file.below.starts_with("objects/")) judge_object(file);
    }
    for (const RepositoryFile& file : files) judge_refs(file);
    // After the refs, so that a name is told of the branch rather than of its log.
    for (const RepositoryFile& file : files) judge_log_or_index(file);
  }

 private:
  // A name that a rule holds, wherever it is met.
  struct Finding {
    std::string key{};
    Held held{};
  };
  struct Baseline {
    std::vector<ObjectId> tips{};
    std::set<ObjectId> judged{};
    std::map<ObjectId, std::vector<Finding>> findings{};  // of those, by commit
  };

  std::size_t find_digits() const;
  std::unordered_set<ObjectId> read_shallow() const;
  Result<std::string> read_brought(const std::string& path, std::size_t most) const;
  Result<std::string> read_original(const std::string& path, std::size_t most) const;
  std::string worktree() const {
    return split_path(dir_).second == ".git" ? split_path(dir_).first : "";
  }

  void judge_object(const RepositoryFile& file);
  void judge_refs(const RepositoryFile& file);
  void judge_log_or_index(const RepositoryFile& file);
  Result<std::string> read_ref(const RepositoryFile& file) const;
  Result<void> judge_ref(const RepositoryFile& file);
  Result<void> judge_packed(const RepositoryFile& file);
  Result<void> judge_log(const RepositoryFile& file);
  Result<void> judge_index(const RepositoryFile& file);
  void judge_hidden(const RepositoryFile& file, const GitIndex& before, const GitIndex& after);
  Result<void> judge_staged_names(const RepositoryFile& file, const GitIndex& before,
                                  const GitIndex& after);
  Result<void> judge_tip(const RepositoryFile& file, const ObjectId& tip);
  Result<std::optional<ObjectId>> follow(std::string name);
  void judge_name(const std::string& holder, NameInTree name, std::vector<Finding>& found);
  void tell(const RepositoryFile& file, const std::vector<Finding>& findings);
  std::string blob_of(const std::optional<TreeEntry>& entry);
  bool is_known(const NameInTree& name, const std::string& path_in_tree);

  const GitRefs& refs();
  Baseline& baseline(const RepositoryFile& file);
  void hold(const std::string& path, Condition when, std::string_view more);

  const GitGate& gate_;
  const Brought& brought_;
  std::string dir_;
  std::vector<Held>& held_;
  std::size_t id_digits_;
  GitStore store_;
  GitHistory history_;
  std::optional<GitRefs> refs_;
  std::optional<Baseline> own_;
  std::optional<Baseline> remotes_;
  std::set<std::string> told_;
  std::set<std::string> told_of_refs_;
  std::size_t lookups_ = 0;
  std::uint64_t budget_ = kMostCheckedBytes;
};

void RepositoryJudge::hold(const std::string& path, Condition when, std::string_view more) {
  const GateRule* rule = find_rule(gate_.rules, when);
  if (rule == nullptr) return;
  held_.push_back({.path = path,
                   .rule = rule->name,
                   .why = fmt::format("{} ({})", rule->why, printable(more)),
                   .rule_class = std::string(to_text(rule->rule_class))});
}

Result<std::string> RepositoryJudge::read_brought(const std::string& path, std::size_t most) const {
  TRY(const UniqueFd file, brought_.open(path));
  return read_fd(file, most);
}

Result<std::string> RepositoryJudge::read_original(const std::string& path,
                                                   std::size_t most) const {
  TRY(const UniqueFd file, open_regular_beneath(gate_.original, path));
  return read_fd(file, most);
}

std::size_t RepositoryJudge::find_digits() const {
  const std::string path = join_path(dir_, "config");
  const auto text = brought_.has(path) ? read_brought(path, kLargestGitConfig)
                                       : read_original(path, kLargestGitConfig);
  if (!text) return kSha1Digits;
  const auto settings = parse_git_config(*text);
  if (!settings) return kSha1Digits;
  const auto format = settings->find("extensions.objectformat");
  const bool is_long = format != settings->end() && format->second.back() == "sha256";
  return is_long ? kSha256Digits : kSha1Digits;
}

std::unordered_set<ObjectId> RepositoryJudge::read_shallow() const {
  std::unordered_set<ObjectId> ids;
  const std::string path = join_path(dir_, "shallow");
  const auto add = [&](const Result<std::string>& text) {
    if (!text) return;
    const auto parsed = parse_ref_file(*text);
    if (parsed) ids.insert(parsed->ids.begin(), parsed->ids.end());
  };
  add(read_original(path, kLargestRefFile));
  if (brought_.has(path)) add(read_brought(path, kLargestRefFile));
  return ids;
}

const GitRefs& RepositoryJudge::refs() {
  if (!refs_) refs_ = read_refs(gate_.original, dir_);
  return *refs_;
}

RepositoryJudge::Baseline& RepositoryJudge::baseline(const RepositoryFile& file) {
  const bool is_remote = is_of_a_remote(file.below);
  std::optional<Baseline>& chosen = is_remote ? remotes_ : own_;
  if (chosen) return *chosen;
  chosen.emplace();
  for (const auto& [name, id] : refs()) {
    if (is_remote || is_own_branch(name)) chosen->tips.push_back(id);
  }
  return *chosen;
}

void RepositoryJudge::judge_object(const RepositoryFile& file) {
  const auto checked = store_.check_brought(file.path, budget_);
  if (!checked) hold(file.path, Condition::GitForgedObject, checked.error().message);
}

void RepositoryJudge::judge_refs(const RepositoryFile& file) {
  if (!is_ref_file(file.below)) return;
  const auto judged = file.below == "packed-refs" ? judge_packed(file) : judge_ref(file);
  if (!judged) hold(file.path, Condition::GitUnreadable, judged.error().message);
}

void RepositoryJudge::judge_log_or_index(const RepositoryFile& file) {
  Result<void> judged;
  if (file.below.starts_with("logs/")) judged = judge_log(file);
  if (file.below == "index") judged = judge_index(file);
  if (!judged) hold(file.path, Condition::GitUnreadable, judged.error().message);
}

// Any file of a repository is a ref if it begins as one, and ".git/topic" counts more than
// ".git/refs/heads/topic". Of such a file git reads the first line. Nothing when it is no ref.
Result<std::string> RepositoryJudge::read_ref(const RepositoryFile& file) const {
  if (is_always_ref(file.below)) return read_brought(file.path, kLargestRefFile);
  TRY(UniqueFd opened, brought_.open(file.path));
  TRY(const RandomBytes bytes, RandomBytes::of_file(std::move(opened)));
  TRY(const std::string start, bytes.read(0, std::min<std::uint64_t>(bytes.size(), kLongestPath)));
  return begins_as_ref(start) ? start.substr(0, start.find('\n')) : std::string();
}

Result<void> RepositoryJudge::judge_ref(const RepositoryFile& file) {
  TRY(const std::string text, read_ref(file));
  TRY(const RefFile parsed, parse_ref_file(text));
  if (!parsed.target.empty()) {
    // What another branch of its own is, is judged there.
    if (parsed.target.starts_with("refs/heads/")) return {};
    TRY(const auto id, follow(parsed.target));
    return id ? judge_tip(file, *id) : Result<void>();
  }
  const auto before = refs().find(file.below);
  for (const ObjectId& id : parsed.ids) {
    const bool is_as_before = before != refs().end() && before->second == id;
    if (!is_as_before) TRY_VOID(judge_tip(file, id));
  }
  return {};
}

// Where a symbolic ref leads; nothing when there is no such branch yet.
Result<std::optional<ObjectId>> RepositoryJudge::follow(std::string name) {
  for (std::size_t i = 0; i < kMostLinks; ++i) {
    const std::string path = join_path(dir_, name);
    if (brought_.has(path)) {
      TRY(const std::string text, read_brought(path, kLargestRefFile));
      TRY(const RefFile parsed, parse_ref_file(text));
      if (!parsed.ids.empty()) return std::optional(parsed.ids.front());
      name = parsed.target;
      continue;
    }
    const auto found = refs().find(name);
    return found == refs().end() ? std::nullopt : std::optional(found->second);
  }
  return fail(Code::Invalid, "git ref: a ring of refs");
}

Result<void> RepositoryJudge::judge_packed(const RepositoryFile& file) {
  TRY(const std::string text, read_brought(file.path, kLargestRefFile));
  TRY(const GitRefs packed, parse_packed_refs(text));
  for (const auto& [name, id] : packed) {
    const auto before = refs().find(name);
    if (before != refs().end() && before->second == id) continue;
    if (name.starts_with("refs/replace/")) {
      return fail(Code::Unsupported, "git would read other objects in place of those named");
    }
    TRY_VOID(judge_tip({.path = file.path, .below = name}, id));
  }
  return {};
}

Result<void> RepositoryJudge::judge_log(const RepositoryFile& file) {
  TRY(const std::string text, read_brought(file.path, kLargestRefFile));
  const std::string before = read_original(file.path, kLargestRefFile).value_or("");
  const bool goes_on = text.starts_with(before);
  TRY(auto ids, parse_reflog(goes_on ? std::string_view(text).substr(before.size())
                                     : std::string_view(text)));
  // Of what the original's log names, much may be gone by now.
  if (const auto known = parse_reflog(before); known && !goes_on) {
    std::erase_if(ids, [&](const ObjectId& id) {
      return std::binary_search(known->begin(), known->end(), id);
    });
  }
  for (const ObjectId& id : ids) TRY_VOID(judge_tip(file, id));
  return {};
}

Result<void> RepositoryJudge::judge_tip(const RepositoryFile& file, const ObjectId& tip) {
  Baseline& known = baseline(file);
  const auto is_tip = [&](const ObjectId& id) {
    return std::find(known.tips.begin(), known.tips.end(), id) != known.tips.end();
  };
  if (is_null_id(tip) || is_tip(tip)) return {};
  // Unless there is something to tell of this ref as well.
  if (known.judged.contains(tip) && known.findings.empty()) return {};
  TRY(const ObjectId peeled, history_.peel(tip));
  TRY(const ObjectType type, history_.type_of(peeled));
  std::vector<Finding> found;
  const auto visit = [&](const ObjectId& id) {
    return [&, id](const NameInTree& name) {
      judge_name(fmt::format("commit {}", id.substr(0, kShortId)), name, found);
    };
  };
  if (type == ObjectType::Tree) {
    const auto visited = history_.visit_tree(peeled, visit(peeled));
    tell(file, found);
    return visited;
  }
  if (type != ObjectType::Commit) return {};
  TRY(const auto commits, history_.new_commits(peeled, known.tips));
  for (const ObjectId& commit : commits) {
    if (!known.judged.contains(commit)) {
      found.clear();
      const auto visited = history_.visit_commit(commit, visit(commit));
      tell(file, found);
      TRY_VOID(visited);
      known.judged.insert(commit);
      if (known.findings.size() > kMostTold) found.resize(std::min<std::size_t>(found.size(), 1));
      if (!found.empty()) known.findings.emplace(commit, found);
    } else if (const auto again = known.findings.find(commit); again != known.findings.end()) {
      tell(file, again->second);
    }
  }
  return {};
}

// Each ref is told by itself, so that who accepts a branch does not accept a tag. A log or an index
// brings nothing that was not told of a ref.
void RepositoryJudge::tell(const RepositoryFile& file, const std::vector<Finding>& findings) {
  for (const Finding& finding : findings) {
    const bool is_new = told_.insert(finding.key).second;
    if (!is_new && !is_ref_file(file.below)) continue;
    // One hostile name in each of many refs: beyond the bound, one line for each ref.
    const bool is_one_of_many = told_of_refs_.size() >= kMostTold;
    if (!told_of_refs_.insert(file.path + (is_one_of_many ? "" : ' ' + finding.key)).second) {
      continue;
    }
    held_.push_back(finding.held);
    held_.back().path = file.path;
  }
}

std::string RepositoryJudge::blob_of(const std::optional<TreeEntry>& entry) {
  if (!entry) return {};
  const auto object = store_.read(entry->id, ObjectType::Blob);
  return object ? (*object)->data : std::string();
}

// Whether one of the original's own branches has the same at that path.
bool RepositoryJudge::is_known(const NameInTree& name, const std::string& path_in_tree) {
  // That some branch never had a file does not say that another may lose it.
  if (!name.after) return false;
  const Baseline& own = baseline({.path = "", .below = "HEAD"});
  return std::any_of(own.tips.begin(), own.tips.end(), [&](const ObjectId& tip) {
    if (++lookups_ > kMostLookups) return false;
    const auto commit = history_.peel(tip);
    if (!commit) return false;
    const auto entry = history_.find(*commit, path_in_tree);
    return entry && entry->mode == name.after->mode && entry->id == name.after->id;
  });
}

void RepositoryJudge::judge_name(const std::string& holder, NameInTree name,
                                 std::vector<Finding>& found) {
  const std::string in_tree = name.path;
  name.path = join_path(worktree(), in_tree);
  const auto tell = [&](const Held& held) {
    if (is_known(name, in_tree)) return;
    const std::string id = name.after ? name.after->id : std::string("gone");
    found.push_back(
        {.key = held.rule + ' ' + in_tree + ' ' + id,
         .held = {.rule = held.rule,
                  .why = fmt::format("{} {} {}: {}", holder, name.after ? "has" : "removes",
                                     printable(in_tree), held.why),
                  .rule_class = held.rule_class}});
  };
  if (name.after && name.after->mode == kGitlink) {
    const GateRule* rule = find_rule(gate_.rules, Condition::GitSubmoduleCommit);
    if (rule == nullptr) return;
    return tell({.path = "",
                 .rule = rule->name,
                 .why = rule->why,
                 .rule_class = std::string(to_text(rule->rule_class))});
  }
  Change change = change_of(name);
  if (change.after.is(NodeType::Symlink)) change.target_after = blob_of(name.after);
  const auto content = [&](const std::optional<TreeEntry>& entry) -> Result<std::string> {
    if (!entry) return std::string();
    TRY(const auto object, store_.read(entry->id, ObjectType::Blob));
    return object->data;
  };
  const GateContents contents{.before = [&](const Change&) { return content(name.before); },
                              .after = [&](const Change&) { return content(name.after); }};
  for (const Held& held : workspace::judge(gate_.rules, change, contents, gate_.context)) {
    tell(held);
  }
}

Result<void> RepositoryJudge::judge_index(const RepositoryFile& file) {
  TRY(const std::string text, read_brought(file.path, kLargestGitIndex));
  TRY(const GitIndex after, parse_git_index(text, id_digits_));
  GitIndex before;
  if (const auto old_text = read_original(file.path, kLargestGitIndex)) {
    if (auto parsed = parse_git_index(*old_text, id_digits_)) before = *std::move(parsed);
  }
  judge_hidden(file, before, after);
  return judge_staged_names(file, before, after);
}

void RepositoryJudge::judge_hidden(const RepositoryFile& file, const GitIndex& before,
                                   const GitIndex& after) {
  std::set<std::string_view> hidden_before;
  for (const IndexEntry& entry : before.entries) {
    if (entry.hides_its_file()) hidden_before.insert(entry.path);
  }
  std::size_t count = 0;
  std::string first;
  for (const IndexEntry& entry : after.entries) {
    if (!entry.hides_its_file() || hidden_before.contains(entry.path)) continue;
    if (count++ == 0) first = entry.path;
  }
  if (count > 0) hold(file.path, Condition::GitHiddenFile, fmt::format("{}: {}", count, first));
  if (!after.fsmonitor.empty() && after.fsmonitor != before.fsmonitor) {
    hold(file.path, Condition::GitHiddenFile, "by a file system monitor");
  }
}

Result<void> RepositoryJudge::judge_staged_names(const RepositoryFile& file, const GitIndex& before,
                                                 const GitIndex& after) {
  std::map<std::string_view, const IndexEntry*> old_entries;
  for (const IndexEntry& entry : before.entries) old_entries.emplace(entry.path, &entry);
  std::set<std::string_view> kept;
  const auto judge_one = [&](NameInTree name) {
    std::vector<Finding> findings;
    judge_name("the index", std::move(name), findings);
    tell(file, findings);
  };
  const auto entry_of = [](const IndexEntry& entry) {
    return TreeEntry{.mode = entry.mode, .name = split_path(entry.path).second, .id = entry.id};
  };
  for (const IndexEntry& entry : after.entries) {
    kept.insert(entry.path);
    const auto found = old_entries.find(entry.path);
    NameInTree name{.path = entry.path, .after = entry_of(entry)};
    if (found != old_entries.end()) {
      if (found->second->mode == entry.mode && found->second->id == entry.id) continue;
      name.before = entry_of(*found->second);
    }
    if (!name.after->is_tree()) {
      judge_one(std::move(name));
      continue;
    }
    // A directory of a sparse index ends in "/".
    const std::string directory = entry.path.substr(0, entry.path.find_last_not_of('/') + 1);
    if (is_known(name, directory)) continue;
    TRY_VOID(history_.visit_tree(entry.id, [&](NameInTree below) {
      below.path = join_path(directory, below.path);
      judge_one(std::move(below));
    }));
  }
  for (const IndexEntry& entry : before.entries) {
    if (kept.contains(entry.path)) continue;
    judge_one({.path = entry.path, .before = entry_of(entry)});
  }
  return {};
}

using Repositories = std::map<std::string, std::vector<RepositoryFile>>;  // by directory

// False when the file is one of a repository of which the workspace is only a part, so that the
// objects are not there to be read. `names` are what the file is called.
bool add_file(Repositories& repositories, const std::string& path,
              const std::vector<std::string>& names) {
  for (const std::string& name : names) {
    auto found = find_in_repository(name);
    if (!found) continue;
    if (found->below.size() > path.size()) {
      if (found->is_from_top) return false;
      found->below = path;
    }
    const std::size_t end = path.size() - found->below.size();
    const std::string dir = path.substr(0, end == 0 ? 0 : end - 1);
    repositories[common_directory(dir)].push_back({.path = path, .below = found->below});
    break;
  }
  return true;
}

}  // namespace

std::vector<Held> judge_repositories(const GitGate& gate, const std::vector<const Change*>& changes,
                                     const OpenBrought& open) {
  std::vector<Held> held;
  const GateRule* unreadable = find_rule(gate.rules, Condition::GitUnreadable);
  if (unreadable == nullptr) return held;
  std::set<std::string> paths;
  Repositories repositories;
  for (const Change* change : changes) {
    if (change->after.is(NodeType::File)) paths.insert(change->path);
    if (!change->after.is(NodeType::File) || change->kind == ChangeKind::Refused) continue;
    if (add_file(repositories, change->path, names_of(change->path, gate.context.aliases))) {
      continue;
    }
    held.push_back({.path = change->path,
                    .rule = unreadable->name,
                    .why = unreadable->why + " (the workspace is a part of a repository)",
                    .rule_class = std::string(to_text(unreadable->rule_class))});
  }
  const Brought brought{.paths = &paths, .open = open};
  for (const auto& [dir, files] : repositories) {
    RepositoryJudge(gate, brought, dir, held).judge(files);
  }
  return held;
}

}  // namespace glovebox::workspace
