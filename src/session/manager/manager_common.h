// What every part of a SessionManager uses.
#pragma once

#include "async/task_group.h"
#include "session/manager/manager_settings.h"
#include "session/prepare/prepare.h"

#include <boost/asio/io_context.hpp>
#include <boost/asio/thread_pool.hpp>

#include <memory>
#include <string>
#include <string_view>
#include <utility>

namespace glovebox::session {

struct ManagerCommon {
  ManagerCommon(asio::io_context& on, ManagerSettings chosen)
      : loop(on), settings(std::move(chosen)), pool(settings.pool_threads), tasks(on) {}

  // Before each step that changes what is on disk; for tests of what a crash leaves there.
  void step(std::string_view name) const {
    if (settings.on_step) settings.on_step(name);
  }

  asio::io_context& loop;
  ManagerSettings settings;
  std::shared_ptr<Preparer> preparer;  // from the opening on
  std::string spool_directory;         // the same
  asio::thread_pool pool;              // for work on the disk
  bool is_stopping = false;            // nothing begins any more
  // All that the parts start and do not wait for. Over before the first of them is destroyed.
  TaskGroup tasks;
};

}  // namespace glovebox::session
