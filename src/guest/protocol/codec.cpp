#include "guest/protocol/codec.h"

namespace glovebox::guest {

void FieldWriter::operator()(std::string_view text) {
  number(static_cast<std::uint32_t>(text.size()));
  bytes_.append(text);
}

void FieldWriter::operator()(const std::vector<std::string>& list) {
  number(static_cast<std::uint32_t>(list.size()));
  for (const std::string& item : list) (*this)(std::string_view(item));
}

std::string_view FieldReader::take(std::size_t size) {
  if (failed_ || size > rest_.size()) {
    failed_ = true;
    return {};
  }
  const std::string_view taken = rest_.substr(0, size);
  rest_.remove_prefix(size);
  return taken;
}

void FieldReader::operator()(std::string& text) {
  std::uint32_t size = 0;
  number(size);
  text = take(size);
}

void FieldReader::operator()(std::vector<std::string>& list) {
  std::uint32_t count = 0;
  number(count);
  // Each item takes at least the four bytes of its length.
  if (count > kMaxListItems || count > rest_.size() / sizeof(std::uint32_t)) failed_ = true;
  list.clear();
  if (failed_) return;
  list.reserve(count);
  for (std::uint32_t i = 0; i < count && !failed_; ++i) (*this)(list.emplace_back());
}

}  // namespace glovebox::guest
