// Class 12: sockets with a path (docker, containerd, D-Bus, X11, ssh-agent) can be connected to
// through a read-only mount, because connecting is no write to the filesystem.
// Tried: a listener of the host in every place where services put them, by its path, and in a
// directory that the box is shown; environment variables that point to such sockets.
// Canary: the listener sees no connection. tests/egress/host_sockets_test.cpp tries the second by
// every name. What is not promised: a socket in the system's own directories (/usr, /etc), which
// every box sees and where none belongs, is refused only in boxes that are shown another directory.
#include "support/box_test.h"
#include "support/host_socket.h"

#include <filesystem>

#include <sys/socket.h>
#include <unistd.h>

namespace glovebox::test {
namespace {

class PathSockets : public BoxTest {};

TEST_P(PathSockets, ListenersInTheUsualPlacesAreAbsent) {
  Words places{"/tmp", "/dev/shm", "/var/tmp"};
  if (geteuid() == 0) places.insert(places.end(), {"/run", "/var/lib", "/root", "/srv"});
  for (const std::string& place : places) {
    const std::string path = place + "/glovebox-test-" + std::to_string(getpid()) + ".sock";
    const HostSocket listener(path, SOCK_STREAM);
    EXPECT_THAT(probe({}, {"connect_unix", path}),
                refused_with(Errnos{ENOENT, EACCES, ECONNREFUSED}))
        << path;
    EXPECT_FALSE(listener.was_reached()) << path;
    std::filesystem::remove(path);
  }
}

TEST_P(PathSockets, ListenersInADirectoryThatIsShownAreOutOfReach) {
  const std::string tree = make_tree("tree");
  const HostSocket listener(tree + "/service.sock", SOCK_STREAM);
  for (const Words& options :
       {Words{"--read", tree}, Words{"--write", tree}, Words{"-w", tree + ":rw"}}) {
    EXPECT_THAT(probe(options, {"read", tree + "/old"}), ended_with(0));
    EXPECT_THAT(probe(options, {"connect_unix", tree + "/service.sock"}), ended_with(EACCES));
  }
  EXPECT_FALSE(listener.was_reached());
}

TEST_P(PathSockets, KnownServicesAreAbsent) {
  for (const char* path :
       {"/run/docker.sock", "/var/run/docker.sock", "/run/containerd/containerd.sock",
        "/run/dbus/system_bus_socket", "/run/systemd/private", "/run/systemd/notify",
        "/run/podman/podman.sock", "/run/libvirt/libvirt-sock", "/tmp/.X11-unix/X0"}) {
    EXPECT_THAT(probe({}, {"connect_unix", path}), refused_with(Errnos{ENOENT, EACCES})) << path;
  }
}

TEST_P(PathSockets, VariablesThatPointToThemAreDropped) {
  Settings settings;
  settings.environment = {"SSH_AUTH_SOCK=/canary",
                          "DBUS_SESSION_BUS_ADDRESS=unix:path=/canary",
                          "DOCKER_HOST=unix:///canary",
                          "WAYLAND_DISPLAY=canary",
                          "DISPLAY=:0",
                          "XDG_RUNTIME_DIR=/canary",
                          "NOTIFY_SOCKET=/canary"};
  const Outcome outcome = probe({}, {"env"}, settings);
  EXPECT_THAT(outcome, ended_with(0));
  EXPECT_THAT(outcome.out, testing::Not(testing::HasSubstr("canary")));
  EXPECT_THAT(outcome.out, testing::Not(testing::HasSubstr("DISPLAY")));
}

TEST_P(PathSockets, OwnSocketsWork) {
  EXPECT_THAT(probe({}, {"unix_pair", "/run/own.sock"}), ended_with(0));
}

BOX_TEST_TIERS(PathSockets);

}  // namespace
}  // namespace glovebox::test
