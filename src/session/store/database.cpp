#include "session/store/database.h"

namespace glovebox::session {
namespace {

Code code_of(int result) {
  switch (result & 0xff) {
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB: return Code::Invalid;
    case SQLITE_BUSY:
    case SQLITE_LOCKED: return Code::Denied;
    case SQLITE_FULL: return Code::Exhausted;
    default: return Code::Os;
  }
}

}  // namespace

tl::unexpected<Error> fail_sql(sqlite3* database, std::string_view act) {
  const Code code = code_of(sqlite3_errcode(database));
  return fail(code, "{}: {}", act, sqlite3_errmsg(database));
}

Result<void> run_sql(sqlite3* database, const char* sql) {
  if (sqlite3_exec(database, sql, nullptr, nullptr, nullptr) != SQLITE_OK) {
    return fail_sql(database, "the session store");
  }
  return {};
}

Result<Statement> Statement::prepare(sqlite3* database, const char* sql) {
  sqlite3_stmt* statement = nullptr;
  if (sqlite3_prepare_v2(database, sql, -1, &statement, nullptr) != SQLITE_OK) {
    return fail_sql(database, "the session store");
  }
  return Statement(database, statement);
}

// A binding fails only for an index that the statement has not, which is a mistake of ours.
Statement& Statement::bind(int index, std::int64_t value) {
  GLOVEBOX_CHECK(sqlite3_bind_int64(statement_.get(), index, value) == SQLITE_OK);
  return *this;
}
Statement& Statement::bind(int index, std::string_view value) {
  GLOVEBOX_CHECK(sqlite3_bind_text(statement_.get(), index, value.data(),
                                   static_cast<int>(value.size()), SQLITE_TRANSIENT) == SQLITE_OK);
  return *this;
}

Result<bool> Statement::step() {
  const int result = sqlite3_step(statement_.get());
  if (result == SQLITE_ROW) return true;
  if (result == SQLITE_DONE) return false;
  return fail_sql(database_, "the session store");
}

std::int64_t Statement::number(int column) const {
  return sqlite3_column_int64(statement_.get(), column);
}

std::string Statement::text(int column) const {
  const void* bytes = sqlite3_column_blob(statement_.get(), column);
  const int size = sqlite3_column_bytes(statement_.get(), column);
  if (bytes == nullptr) return {};
  return {static_cast<const char*>(bytes), static_cast<std::size_t>(size)};
}

}  // namespace glovebox::session
