// TRY for coroutines.
//
//   CO_TRY(const RunResult result, co_await session->run(request, reader));
//   CO_TRY_VOID(co_await reader.take(stream, bytes));
//
// co_returns the error of a Result from the enclosing coroutine. One co_await per statement, and no
// braced lists in its arguments: g++ 12 does not survive them.
#pragma once

#include "base/result.h"

#define CO_TRY(lhs, ...) GLOVEBOX_TRY_(GLOVEBOX_CAT(try_, __COUNTER__), co_return, lhs, __VA_ARGS__)
#define CO_TRY_VOID(...)                                                                \
  do {                                                                                  \
    auto glovebox_tried = (__VA_ARGS__);                                                \
    if (!glovebox_tried) co_return ::tl::unexpected(std::move(glovebox_tried).error()); \
  } while (false)
