// Finds the handler of a request in a table.
//
// Routes are data: method, path with {names}, what a caller needs to hold, and a function. The same
// table is compared with schema/openapi.yaml by a test.
#pragma once

#include "http/exchange.h"

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace glovebox::serve {

struct Call;

// What a token must be good for. Admin includes all others.
enum class Scope : std::uint8_t { Read, Create, Admin };
std::string_view to_text(Scope scope);

// Holds every error until the answer is built; see answer_of().
using Handler = asio::awaitable<Answer> (*)(Call& call);

struct Route {
  Method method;
  std::string_view pattern;  // "/v1/isolated/session/{id}/run"
  Scope scope;
  Handler handler;
};

class Router {
 public:
  explicit Router(std::span<const Route> routes);

  struct Match {
    const Route* route = nullptr;    // nullptr: see `allowed`
    std::vector<std::string> parts;  // what stands for {...}, decoded
    std::string allowed;             // methods of the path, when none of them was asked for
  };
  Match find(Method method, std::string_view path) const;

 private:
  struct Entry {
    const Route* route;
    std::vector<std::string_view> segments;
  };
  std::vector<Entry> entries_;
};

}  // namespace glovebox::serve
