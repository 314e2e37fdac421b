#include "guest/protocol/entry.h"

#include "guest/protocol/codec.h"

namespace glovebox::guest {
namespace {

// One list of fields for writing and for reading. `Self` is const when writing.
template <class Self, class Visit>
void fields_of(Self& self, Visit& visit) {
  visit(self.kind);
  visit(self.mode);
  visit(self.uid);
  visit(self.gid);
  visit(self.size);
  visit(self.modified_ns);
  visit(self.created_ns);
  visit(self.owner);
  visit(self.group);
  visit(self.path);
  visit(self.target);
}

}  // namespace

std::string encode_entry(const Entry& entry) {
  std::string fields;
  FieldWriter write(fields);
  fields_of(entry, write);
  std::string record;
  FieldWriter write_record(record);
  write_record(std::string_view(fields));
  return record;
}

Result<std::optional<Entry>> take_entry(std::string_view& bytes) {
  std::uint32_t size = 0;
  if (bytes.size() < sizeof(size)) return std::nullopt;
  FieldReader read_size(bytes);
  read_size(size);
  if (size > kMaxEntry) return fail(Code::Invalid, "an entry of {} bytes", size);
  if (bytes.size() < sizeof(size) + size) return std::nullopt;
  FieldReader read(bytes.substr(sizeof(size), size));
  Entry entry;
  fields_of(entry, read);
  if (!read.complete()) return fail(Code::Invalid, "a malformed entry");
  bytes.remove_prefix(sizeof(size) + size);
  return entry;
}

}  // namespace glovebox::guest
