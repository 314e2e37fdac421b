#include "support/installation.h"

#include <cstdlib>
#include <filesystem>
#include <stdexcept>

#include <sys/stat.h>
#include <unistd.h>

namespace glovebox::test {
namespace {

namespace fs = std::filesystem;

Installation* current = nullptr;

std::string program_from(const char* variable) {
  const char* path = std::getenv(variable);
  if (path == nullptr || access(path, X_OK) != 0) {
    throw std::runtime_error(std::string(variable) + " does not name an executable program");
  }
  return path;
}

void copy_program(const std::string& from, const std::string& to) {
  fs::create_directory(fs::path(to).parent_path());
  fs::copy_file(from, to);
  fs::permissions(to, fs::perms(0755));
  fs::permissions(fs::path(to).parent_path(), fs::perms(0755));
}

}  // namespace

Installation::Installation() {
  const std::string binary = program_from("GLOVEBOX_BINARY");
  const std::string probe_binary = program_from("GLOVEBOX_PROBE");
  char name[] = "/tmp/glovebox-test-XXXXXX";
  if (mkdtemp(name) == nullptr) throw std::runtime_error("mkdtemp failed");
  directory_ = name;
  fs::permissions(directory_, fs::perms(0755));
  copy_program(binary, glovebox());
  copy_program(probe_binary, probe());
}

Installation::~Installation() {
  std::error_code ignored;  // at the end of the program there is no caller to tell
  fs::remove_all(directory_, ignored);
}

std::string Installation::make_scratch(Ids owner) {
  const std::string path = directory_ + "/scratch-" + std::to_string(++scratch_count_);
  fs::create_directory(path);
  fs::permissions(path, fs::perms(0755));
  if (geteuid() == 0 && chown(path.c_str(), owner.uid, owner.gid) != 0) {
    throw std::runtime_error("cannot give away " + path);
  }
  return path;
}

Installation& installation() {
  if (current == nullptr) throw std::logic_error("no installation");
  return *current;
}

void set_installation(Installation* made) { current = made; }

}  // namespace glovebox::test
