// What the commit gate reads of a repository: loose objects, packs with their index, the index,
// refs and logs. None may crash, hang or hand out an object that is larger than the bound.
//
//   ./glovebox_git_fuzz -max_total_time=300 FOUND tests/fuzz/corpus/git
//
// The first byte says what the rest is; of a pack, two more say how long its index is.
#include "workspace/git/git_index.h"
#include "workspace/git/git_pack.h"
#include "workspace/git/git_refs.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>

namespace {

using namespace glovebox::workspace;

constexpr std::size_t kDigits = 40;

void read_object(const GitObject& object) {
  if (object.data.size() > kLargestGitObject) std::abort();
  (void)object_name(object.type, object.data, kDigits);
  (void)parse_commit(object.data);
  (void)parse_tag(object.data);
  const auto entries = parse_tree(object.data, kDigits);
  for (std::size_t i = 0; entries && i < entries->size(); ++i) {
    const std::string& name = (*entries)[i].name;
    if (name.empty() || name == ".." || name.find('/') != std::string::npos) std::abort();
  }
}

void read_pack(std::string_view bytes) {
  if (bytes.size() < 2) return;
  const std::size_t length =
      static_cast<unsigned char>(bytes[0]) * 256U + static_cast<unsigned char>(bytes[1]);
  bytes.remove_prefix(2);
  const std::size_t split = std::min(length, bytes.size());
  auto pack = GitPack::open(RandomBytes::of_text(std::string(bytes.substr(0, split))),
                            RandomBytes::of_text(std::string(bytes.substr(split))), kDigits,
                            std::make_shared<std::uint64_t>(std::uint64_t{256} << 20));
  if (!pack) return;
  const auto places = pack->places();
  for (std::size_t i = 0; places && i < std::min<std::size_t>(places->size(), 64); ++i) {
    if (const auto object = pack->read((*places)[i].offset)) read_object(**object);
    (void)pack->find((*places)[i].id);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  switch (*data) {
    case 'o':
      if (const auto object = parse_loose_object(bytes)) read_object(*object);
      break;
    case 'p': read_pack(bytes); break;
    case 'i': (void)parse_git_index(bytes, kDigits); break;
    case 'd': {
      const std::size_t half = bytes.size() / 2;
      (void)apply_delta(bytes.substr(0, half), bytes.substr(half));
      break;
    }
    case 't': read_object({.type = ObjectType::Tree, .data = std::string(bytes)}); break;
    default:
      (void)parse_packed_refs(bytes);
      (void)parse_ref_file(bytes);
      (void)parse_reflog(bytes);
  }
  return 0;
}
