// SQLite with Results instead of codes.
#pragma once

#include <sqlite3.h>

#include "base/result.h"

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace glovebox::session {

// The error of a call that has just failed on this connection.
tl::unexpected<Error> fail_sql(sqlite3* database, std::string_view act);

// Statements without parameters and results.
Result<void> run_sql(sqlite3* database, const char* sql);

// One statement with parameters, counted from 1.
class Statement {
 public:
  static Result<Statement> prepare(sqlite3* database, const char* sql);

  Statement& bind(int index, std::int64_t value);
  Statement& bind(int index, std::string_view value);

  // The next row: whether there is one.
  Result<bool> step();
  std::int64_t number(int column) const;
  std::string text(int column) const;

 private:
  struct Finalize {
    void operator()(sqlite3_stmt* statement) const { sqlite3_finalize(statement); }
  };
  Statement(sqlite3* database, sqlite3_stmt* statement)
      : database_(database), statement_(statement) {}

  sqlite3* database_;
  std::unique_ptr<sqlite3_stmt, Finalize> statement_;
};

}  // namespace glovebox::session
