// Names of users and groups, as the box's own /etc/passwd and /etc/group have them.
//
// The C library's lookups load modules at run time, which a static program cannot, and ask services
// that a box does not have.
#pragma once

#include "base/result.h"

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

namespace glovebox::guest {

struct Ownership {
  std::uint32_t uid = ~std::uint32_t{0};
  std::uint32_t gid = ~std::uint32_t{0};
};

// Reads each file at most once, when first asked. Files that are not there have no names.
class NameBook {
 public:
  // Empty when the box knows no name.
  std::string user_name(std::uint32_t uid);
  std::string group_name(std::uint32_t gid);

  // A number in digits, or a name.
  Result<std::uint32_t> uid_of(std::string_view text);
  Result<std::uint32_t> gid_of(std::string_view text);
  // Both for chown(2); what is empty stays as it is.
  Result<Ownership> ownership_of(std::string_view owner, std::string_view group);

 private:
  struct Table {
    bool read = false;
    std::map<std::uint32_t, std::string> name_of;
    std::map<std::string, std::uint32_t, std::less<>> number_of;
  };
  static const Table& filled(Table& table, const char* file);

  Table users_;
  Table groups_;
};

}  // namespace glovebox::guest
