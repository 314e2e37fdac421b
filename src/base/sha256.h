// SHA-256, by libcrypto: digests of policies and of files.
#pragma once

#include <memory>
#include <string>
#include <string_view>

namespace glovebox {

class Sha256 {
 public:
  Sha256();
  Sha256(Sha256&&) noexcept;
  Sha256& operator=(Sha256&&) noexcept;
  ~Sha256();

  void add(std::string_view bytes);
  // 64 lower-case hexadecimal digits. The object is used up.
  std::string finish();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// Of one text.
std::string sha256_hex(std::string_view bytes);

}  // namespace glovebox
