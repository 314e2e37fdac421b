// What the tests of a session's state share.
#pragma once

#include "authority/terms.h"
#include "base/file.h"
#include "session/fixture.h"

#include <fstream>

namespace glovebox::session {

class StateTest : public ManagerTest {
 protected:
  static authority::AuthoritySet granting(
      const std::vector<std::pair<std::string, std::string>>& terms) {
    std::vector<authority::Capability> all;
    for (const auto& [word, value] : terms) all.push_back(*authority::parse_term(word, value));
    return *authority::AuthoritySet::granting(all);
  }

  std::string place(const std::string& name) const { return place_ / name; }
  std::string on_host(const std::string& name) const {
    const auto text = read_file(work_directory() + "/" + name);
    return text ? *text : "(none)";
  }
  void put_on_host(const std::string& path, const std::string& text) const {
    std::ofstream(path) << text;
  }
  std::vector<std::string> layers() { return settled_layers(); }
  std::string diff_text(const std::string& id) {
    const auto body = await(manager_->diff(id, {}, DiffForm::Unified));
    return body ? *read_fd(body->file, 1 << 20) : body.error().message;
  }
  std::vector<SessionInfo> fork(const SessionInfo& parent, std::size_t count) {
    ForkRequest request;
    request.count = count;
    auto children = await(manager_->fork(parent.id, request));
    EXPECT_TRUE(children) << (children ? "" : children.error().message);
    return children.value_or(std::vector<SessionInfo>());
  }
};

}  // namespace glovebox::session
