// The library behind <fmt/format.h>, compiled here once. Debian has no static archive of it, and
// the command is linked without shared libraries; header-only it would be compiled in every file
// again, which took half of a build.
#include <fmt/format-inl.h>

// What the headers declare and leave to the library: for char, which is all that we format.
template auto fmt::detail::thousands_sep_impl<char>(locale_ref)
    -> fmt::detail::thousands_sep_result<char>;
template auto fmt::detail::decimal_point_impl<char>(locale_ref) -> char;
template auto fmt::detail::dragonbox::to_decimal(double) noexcept
    -> fmt::detail::dragonbox::decimal_fp<double>;
template auto fmt::detail::dragonbox::to_decimal(float) noexcept
    -> fmt::detail::dragonbox::decimal_fp<float>;
template void fmt::detail::buffer<char>::append<char>(const char*, const char*);
