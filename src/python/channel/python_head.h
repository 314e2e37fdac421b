// Members of a message as the supervisor reads them: strings, numbers, ids, and how much of a name
// is kept.
#pragma once

#include <boost/json/object.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace glovebox::session {

// The most of a capability's name that is kept or compared.
inline constexpr std::size_t kMostName = 256;
inline constexpr std::uint64_t kMaxId = std::uint64_t{1} << 53;

// What a member holds; nothing, or empty, when it is not there or is something else.
std::string text_at(const boost::json::object& object, std::string_view key);
std::optional<std::int64_t> number_at(const boost::json::object& object, std::string_view key);
// The member `id`: a whole number up to kMaxId.
std::optional<std::uint64_t> id_of(const boost::json::object& object);

}  // namespace glovebox::session
