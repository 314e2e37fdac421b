// A cell that was told to end: its worker is killed when it does not.
#pragma once

#include "session/python/python_worker.h"

#include <boost/asio/io_context.hpp>

#include <cstdint>
#include <memory>

namespace glovebox::session {

// Tells the cell of this number to end, and watches over that. It lives until the cell is gone.
void end_cell(asio::io_context& loop, std::shared_ptr<PythonWorker> worker, std::uint32_t number);

}  // namespace glovebox::session
