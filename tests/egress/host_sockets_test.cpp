// A directory of the host does not carry its Unix sockets along: what the host listens at in it is
// out of reach by every name, unless unix= grants it. What the box makes itself works everywhere.
#include "support/box_test.h"
#include "support/host_socket.h"
#include "support/servers.h"

#include <atomic>
#include <filesystem>
#include <thread>

#include <fcntl.h>
#include <linux/fs.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

namespace glovebox::test {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::Not;

// Listens at a path, and connects to it after it was told to go on.
constexpr const char* kConnectAgain = R"(
import errno, socket, sys
own = socket.socket(socket.AF_UNIX)
own.bind(sys.argv[1])
own.listen()
print("listening", flush=True)
sys.stdin.readline()
try:
    socket.socket(socket.AF_UNIX).connect(sys.argv[1])
    print("through")
except OSError as error:
    print("met", errno.errorcode[error.errno])
)";

class HostSockets : public BoxTest {
 protected:
  void SetUp() override {
    BoxTest::SetUp();
    tree_ = make_directory("tree");
    inner_ = make_directory("tree/inner");
  }
  std::string in_tree(const std::string& name) const { return tree_ + "/" + name; }
  // Every way to be shown the directory itself.
  std::vector<Words> shown() const {
    std::vector<Words> all = writable();
    all.push_back({"--read", tree_});
    all.push_back({"-w", tree_ + ":ro"});
    return all;
  }
  std::vector<Words> writable() const { return {{"--write", tree_}, {"-w", tree_ + ":rw"}}; }
  static Words joined(Words words, const Words& more) {
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }
  // The probe as a part of what a shell does.
  Outcome shell(const Words& options, const std::string& script) {
    return run(joined(options, {"--read", probe_path()}), {"/bin/sh", "-c", script});
  }

  std::string tree_, inner_;
};

TEST_P(HostSockets, AreOutOfReachInEveryKindOfTree) {
  const HostSocket stream(in_tree("stream"), SOCK_STREAM);
  const HostSocket packets(in_tree("packets"), SOCK_SEQPACKET);
  const HostSocket datagrams(in_tree("datagrams"), SOCK_DGRAM);
  for (const Words& options : shown()) {
    const Outcome refused = probe(options, {"connect_unix", in_tree("stream")});
    EXPECT_THAT(refused, ended_with(EACCES));
    EXPECT_THAT(refused.err, HasSubstr("glovebox: denied: connect to " + in_tree("stream")));
    EXPECT_THAT(refused.err, HasSubstr("--allow unix=" + in_tree("stream")));
    EXPECT_THAT(boost::json::serialize(refused.report.at("network").at("denials")),
                HasSubstr("unix="));
    EXPECT_THAT(probe(options, {"connect_unix", in_tree("packets"), "seqpacket"}),
                ended_with(EACCES));
    EXPECT_THAT(probe(options, {"connect_unix", in_tree("datagrams"), "dgram"}),
                ended_with(EACCES));
    EXPECT_THAT(probe(options, {"send_unix", in_tree("datagrams")}), ended_with(EACCES));
    const Outcome pair = probe(options, {"send_unix", in_tree("datagrams"), "pair"});
    EXPECT_THAT(pair, ended_with(EACCES));
    EXPECT_THAT(pair.err, HasSubstr("denied: send datagrams to Unix sockets"));
  }
  EXPECT_FALSE(stream.was_reached());
  EXPECT_FALSE(packets.was_reached());
  EXPECT_FALSE(datagrams.was_reached());
}

// Its files have inodes of their own, at which no process of the host listens.
TEST_P(HostSockets, AreNotFoundThroughAnOverlay) {
  const HostSocket stream(in_tree("stream"), SOCK_STREAM);
  const HostSocket datagrams(in_tree("datagrams"), SOCK_DGRAM);
  const Words options{"-w", tree_};
  EXPECT_THAT(probe(options, {"connect_unix", in_tree("stream")}), ended_with(ECONNREFUSED));
  EXPECT_THAT(probe(options, {"send_unix", in_tree("datagrams")}), ended_with(ECONNREFUSED));
  EXPECT_FALSE(stream.was_reached());
  EXPECT_FALSE(datagrams.was_reached());
}

TEST_P(HostSockets, AreOutOfReachByEveryName) {
  const std::string path = in_tree("stream");
  const HostSocket stream(path, SOCK_STREAM);
  ASSERT_EQ(chown(path.c_str(), caller_ids().uid, caller_ids().gid), 0);  // the box may link it
  fs::create_symlink("stream", in_tree("link"));
  fs::create_symlink(path, in_tree("absolute"));
  fs::create_symlink(tree_, inner_ + "/up");
  fs::create_hard_link(path, inner_ + "/hard");
  for (const Words& options : {Words{"--read", tree_}, Words{"--write", tree_}}) {
    for (const std::string& name :
         {in_tree("link"), in_tree("absolute"), inner_ + "/up/stream", inner_ + "/hard",
          inner_ + "/../stream", "/proc/self/root" + path, "/proc/thread-self/root" + path}) {
      EXPECT_THAT(probe(options, {"connect_unix", name}), ended_with(EACCES)) << name;
    }
    for (const char* name : {"stream", "./stream", "inner/../link"}) {
      EXPECT_THAT(probe(options, {"connect_unix_from", tree_, name}), ended_with(EACCES)) << name;
    }
    EXPECT_THAT(probe(options, {"connect_unix_from", inner_, "../stream"}), ended_with(EACCES));
    EXPECT_THAT(probe(options, {"connect_unix_by_fd", path}), ended_with(EACCES));
  }
  const Outcome moved =
      probe({"--bind", tree_ + ":/elsewhere"}, {"connect_unix", "/elsewhere/stream"});
  EXPECT_THAT(moved, ended_with(EACCES));
  EXPECT_THAT(moved.err, HasSubstr("--allow unix=" + path)) << "the host's name of it";
  const std::string linked =
      shell({"--write", tree_}, "ln " + path + " " + in_tree("mine") + " && mv " + path + " " +
                                    in_tree("moved") + " && " + probe_path() + " connect_unix " +
                                    in_tree("mine") + "; echo met $?")
          .out;
  EXPECT_THAT(linked, HasSubstr("met " + std::to_string(EACCES)));
  EXPECT_FALSE(stream.was_reached());
}

TEST_P(HostSockets, TheBoxsOwnWorkEverywhere) {
  for (const Words& options : writable()) {
    for (const char* type : {"stream", "seqpacket"}) {
      const std::string path = in_tree(std::string("own-") + type);
      EXPECT_THAT(probe(options, {"unix_pair", path, type}), ended_with(0)) << type;
      fs::remove(path);
    }
    EXPECT_THAT(probe(options, {"unix_pair", "/tmp/own"}), ended_with(0));
    EXPECT_THAT(probe(options, {"unix_pair", "/run/own"}), ended_with(0));
    EXPECT_THAT(probe(options, {"unix_pair", "/home/box/own"}), ended_with(0));
    EXPECT_THAT(probe(options, {"unix_pair", in_tree("own"), "stream", inner_ + "/../own"}),
                ended_with(0));
    fs::remove(in_tree("own"));
    EXPECT_THAT(
        probe(options, {"unix_pair", in_tree("own"), "stream", "/proc/self/root" + in_tree("own")}),
        ended_with(0));
    fs::remove(in_tree("own"));
    EXPECT_THAT(probe(options, {"connect_unix", in_tree("nothing")}), ended_with(ENOENT));
  }
  EXPECT_THAT(probe({"-w", tree_, "--read", inner_}, {"unix_pair", in_tree("own")}), ended_with(0));
  EXPECT_THAT(probe({"--read", tree_}, {"unix_pair", "/dev/shm/own"}), ended_with(0));
  EXPECT_THAT(probe({"--read", tree_}, {"unix_pair", in_tree("own")}), ended_with(EROFS));
}

TEST_P(HostSockets, AreReachedWhenGranted) {
  const HostSocket granted(in_tree("granted"), SOCK_STREAM);
  const HostSocket other(in_tree("other"), SOCK_STREAM);
  for (const Words& options : shown()) {
    const Words with = joined(options, {"--allow", "unix=" + in_tree("granted")});
    EXPECT_THAT(probe(with, {"connect_unix", in_tree("granted")}), ended_with(0));
    EXPECT_THAT(probe(with, {"connect_unix", in_tree("other")}), ended_with(EACCES));
  }
  EXPECT_TRUE(granted.was_reached());
  EXPECT_THAT(probe({"-w", tree_, "--allow", "unix=" + in_tree("granted")},
                    {"connect_unix", in_tree("granted")}),
              ended_with(0))
      << "in an overlay";
  EXPECT_FALSE(other.was_reached());
  EXPECT_THAT(
      probe({"--read", tree_, "--allow", "unix=" + tree_}, {"connect_unix", in_tree("other")}),
      ended_with(0))
      << "all of a directory's";
  EXPECT_TRUE(other.was_reached());
}

// What is granted is the mount at the path, so nothing else may come to lie there.
TEST_P(HostSockets, AreNotReachedByRenamingWhatLiesAboveAGrant) {
  make_directory("tree/granted");
  make_directory("tree/granted/place");
  make_directory("tree/other");
  const std::string other = make_directory("tree/other/place");
  const HostSocket stream(other + "/stream", SOCK_STREAM);
  const Words options{"--write", tree_,        "--allow", "unix=" + in_tree("granted/place"),
                      "-w",      other + ":rw"};
  const Outcome swapped =
      shell(options, "cd " + tree_ + "; mv granted old && mv other granted; " + probe_path() +
                         " connect_unix " + in_tree("granted/place/stream") + "; echo met $?");
  EXPECT_THAT(swapped.out, HasSubstr("met " + std::to_string(ENOENT)));
  EXPECT_TRUE(fs::is_directory(in_tree("granted/place")));
  EXPECT_FALSE(stream.was_reached());
}

// A grant inside a denial, as a policy writes it.
TEST_P(HostSockets, AreKeptFromAnExceptionInsideADenial) {
  const std::string open = make_directory("tree/inner/open");
  make_file("tree/inner/open/text", "text");
  make_file("tree/inner/secret", "secret");
  const HostSocket stream(open + "/stream", SOCK_STREAM);
  const std::string policy = make_file("policy.yaml", "version: 1\nfs:\n  read: [" + tree_ + ", " +
                                                          open + "]\n  deny: [" + inner_ + "]\n");
  const Words options{"--policy", policy};
  EXPECT_THAT(probe(options, {"read", open + "/text"}), ended_with(0));
  EXPECT_THAT(probe(options, {"read", inner_ + "/secret"}), refused_with(Errnos{ENOENT, EACCES}));
  EXPECT_THAT(probe(options, {"connect_unix", open + "/stream"}), ended_with(EACCES));
  EXPECT_FALSE(stream.was_reached());
}

TEST_P(HostSockets, AreCarriedAlongWhereTheGuardIsGivenUp) {
  const HostSocket stream(in_tree("stream"), SOCK_STREAM);
  EXPECT_THAT(
      probe({"--read", tree_, "--waive", "host-sockets"}, {"connect_unix", in_tree("stream")}),
      ended_with(0));
  EXPECT_TRUE(stream.was_reached());
}

TEST_P(HostSockets, AreOutOfReachBesideAGrantOfTheNetwork) {
  const TcpServer server("127.50.0.1", echo());
  const HostSocket stream(in_tree("stream"), SOCK_STREAM);
  const HostSocket datagrams(in_tree("datagrams"), SOCK_DGRAM);
  const Words options{"--write", tree_, "--allow", "connect=" + server.where()};
  EXPECT_THAT(probe(options, {"connect_tcp", "127.50.0.1", server.port()}), ended_with(0));
  EXPECT_THAT(probe(options, {"connect_unix", in_tree("stream")}), ended_with(EACCES));
  EXPECT_THAT(probe(options, {"send_unix", in_tree("datagrams")}), ended_with(EACCES));
  EXPECT_THAT(probe(options, {"unix_pair", in_tree("own")}), ended_with(0));
  EXPECT_FALSE(stream.was_reached());
  EXPECT_FALSE(datagrams.was_reached());
}

// The empty network answers as it does in every box.
TEST_P(HostSockets, TheRestOfTheNetworkStaysAsItIs) {
  const Words options{"--read", tree_};
  for (const char* own : {"127.0.0.1", "::1"}) {
    EXPECT_THAT(probe(options, {"loopback", own}), ended_with(0)) << own;
  }
  const Outcome outside = probe(options, {"connect_tcp", "192.0.2.1", "80"});
  EXPECT_THAT(outside, ended_with(ENETUNREACH));
  EXPECT_THAT(outside.err, Not(HasSubstr("denied")));
  EXPECT_THAT(probe(options, {"connect_udp", "192.0.2.1", "53"}), ended_with(ENETUNREACH));
  EXPECT_THAT(probe(options, {"send_udp", "192.0.2.1", "53"}), ended_with(ENETUNREACH));
  EXPECT_THAT(probe(options, {"connect_tcp", "127.0.0.1", "1"}), ended_with(ECONNREFUSED));
}

// Removed by the host, which then listens at the same name: the number of the box's own file may be
// given to it.
TEST_P(HostSockets, AreNotTakenForTheBoxsOwnAtTheSameName) {
  const std::string path = in_tree("own");
  Running box = start({"--write", tree_}, {"/usr/bin/python3", "-c", kConnectAgain, path});
  ASSERT_TRUE(box.wait_for("listening"));
  fs::remove(path);
  const HostSocket stream(path, SOCK_STREAM);
  box.type("go\n");
  EXPECT_THAT(box.finish().out, HasSubstr("met EACCES"));
  EXPECT_FALSE(stream.was_reached());
}

TEST_P(HostSockets, APathThatChangesMeanwhileLeadsNowhereElse) {
  const HostSocket stream(in_tree("stream"), SOCK_STREAM);
  Settings patient;
  patient.patience = std::chrono::seconds(300);
  EXPECT_THAT(
      probe({"--write", tree_}, {"race_unix", in_tree("own"), in_tree("stream"), "5000"}, patient),
      ended_with(0));
  EXPECT_THAT(probe({"--write", tree_}, {"race_unix_kind", in_tree("stream"), "5000"}, patient),
              ended_with(0));
  EXPECT_FALSE(stream.was_reached());
}

TEST_P(HostSockets, AHostThatRenamesMeanwhileLeadsNowhereElse) {
  const HostSocket stream(in_tree("stream"), SOCK_STREAM);
  std::atomic<bool> over{false};
  std::thread renamer([&] {
    while (!over) {
      // Fails until the box has made its own.
      (void)renameat2(AT_FDCWD, in_tree("own").c_str(), AT_FDCWD, in_tree("stream").c_str(),
                      RENAME_EXCHANGE);
    }
  });
  Settings patient;
  patient.patience = std::chrono::seconds(300);
  const Outcome outcome =
      probe({"--write", tree_}, {"race_unix", in_tree("own"), in_tree("stream"), "5000"}, patient);
  over = true;
  renamer.join();
  EXPECT_THAT(outcome, ended_with(0));
  EXPECT_FALSE(stream.was_reached());
}

BOX_TEST_TIERS(HostSockets);

}  // namespace
}  // namespace glovebox::test
