// A first box from C++: run untrusted code, look at what it changed, take it
// over.
//
//   first_box DIRECTORY [COMMAND]
#include <glovebox/glovebox.h>

#include <cstdio>

namespace {

int give_up(const glovebox::Error& error) {
  std::fprintf(stderr, "first_box: %s\n", error.message.c_str());
  return 1;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fputs("usage: first_box DIRECTORY [COMMAND]\n", stderr);
    return 2;
  }
  auto supervisor = glovebox::Supervisor::open();
  if (!supervisor) return give_up(supervisor.error());
  auto session = supervisor->start({.workspaces = {{argv[1]}}, .allow = {"wall=60s"}});
  if (!session) return give_up(session.error());

  const char* code = argc > 2 ? argv[2] : "echo 'hello from the box' | tee greeting.txt";
  auto ran = session->run(glovebox::Command::shell(code));
  if (!ran) return give_up(ran.error());
  std::printf("it said: %sit ended with %d\n", ran->output.c_str(), ran->code);

  auto diff = session->diff();
  if (!diff) return give_up(diff.error());
  std::printf("%s", diff->c_str());
  auto committed = session->commit();
  if (!committed) return give_up(committed.error());
  for (const std::string& why : committed->held) std::printf("%s\n", why.c_str());
  for (const glovebox::Change& change : committed->applied) {
    std::printf("taken over: %s %s\n", change.kind.c_str(), change.path.c_str());
  }
  return committed->is_refused() ? 1 : 0;
}
