// SHA-1, by libcrypto: the names of git objects. Not for anything that an attacker may collide.
#pragma once

#include <memory>
#include <string>
#include <string_view>

namespace glovebox {

class Sha1 {
 public:
  Sha1();
  Sha1(Sha1&&) noexcept;
  Sha1& operator=(Sha1&&) noexcept;
  ~Sha1();

  void add(std::string_view bytes);
  // 40 lower-case hexadecimal digits. The object is used up.
  std::string finish();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace glovebox
