// Contents that no unified diff can show, as git-apply(1) takes them: a "GIT binary patch".
//
// Such a patch names both contents by git's own ids, so it applies to exactly the file that it was
// made from; each content follows as a whole, compressed and in base 85. patch(1) takes none.
#pragma once

#include "base/result.h"

#include <string>
#include <string_view>

namespace glovebox::workspace {

// What git calls a file of this content: 40 hexadecimal digits.
std::string git_blob_id(std::string_view content);
// The id that stands for no file.
std::string no_git_blob();

// The lines from "GIT binary patch" on: `after` in place of `before`, and the way back.
Result<std::string> git_binary_patch(std::string_view before, std::string_view after);

}  // namespace glovebox::workspace
