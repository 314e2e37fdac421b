"""Authority that is taken from a session while it runs: PATCH with `capabilities` and `limits`."""

import errno
import json
import socket
import threading
import time
import unittest

from service import PATIENCE, TIER, ServiceTest, Session, wait_until
from test_reload import Echo

# Echoes to one client, and when that is gone tries to listen again.
SERVER = """
import os, socket, sys
listener = socket.create_server(("0.0.0.0", int(sys.argv[1])))
open("/tmp/listens", "w").close()
client = listener.accept()[0]
try:
    while data := client.recv(99):
        client.sendall(data)
except OSError:
    pass
error = 0
try:
    listener.listen(5)
except OSError as problem:
    error = problem.errno
with open("/tmp/.again", "w") as file:
    print(error, file=file)
os.rename("/tmp/.again", "/tmp/again")
while True:
    try:
        listener.listen(5)
    except OSError:
        pass
"""

# MODE HOST PORT, or MODE PORT for one that listens: talks without end, and has its sockets where they are
# hard to find.
KEEPER = r"""
import array, ctypes, errno, fcntl, os, resource, select, socket, sys, termios, threading, time
libc = ctypes.CDLL(None, use_errno=True)
mode = sys.argv[1]
listener = None

def opened():
    global listener
    if len(sys.argv) == 3:
        listener = socket.create_server(("0.0.0.0", int(sys.argv[2])))
        open("/tmp/listens", "w").close()
        return listener.accept()[0]
    connection = socket.socket()
    where = sys.argv[2], int(sys.argv[3])
    if mode != "copies":
        connection.connect(where)
        return connection
    # One of the copies has a number that it could not get any more.
    connection.setblocking(False)
    os.dup2(connection.fileno(), 300)
    resource.setrlimit(resource.RLIMIT_NOFILE, (200, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
    connection.connect_ex(where)
    select.select([], [connection], [])
    connection.setblocking(True)
    return connection

def talk(connection):
    while True:
        connection.send(bytes(2000))
        time.sleep(0.005)

def in_thread(work):
    threading.Thread(target=work).start()

def with_own_table():
    if mode == "dark": assert libc.prctl(4, 0, 0, 0, 0) == 0  # no other process may look
    assert libc.unshare(0x400) == 0
    talk(opened())

def in_messages(connection):
    # No process has a number of it but for moments.
    left, right = socket.socketpair()
    kept = [connection.fileno()] + ([listener.fileno()] if listener else [])
    socket.send_fds(left, [b"x"], kept)
    connection.close()
    if listener: listener.close()
    while True:
        numbers = socket.recv_fds(right, 1, 2)[1]
        os.write(numbers[0], bytes(2000))
        socket.send_fds(left, [b"x"], list(numbers))
        for number in numbers: os.close(number)
        time.sleep(0.005)

def in_a_call(connection):
    # The call goes on when its number is closed.
    file = open("/tmp/much", "wb+")
    file.truncate(1 << 31)
    in_thread(lambda: os.sendfile(connection.fileno(), file.fileno(), 0, 1 << 31))
    queued = array.array("i", [0])
    while queued[0] == 0: fcntl.ioctl(connection, termios.TIOCOUTQ, queued)
    os.close(connection.detach())

def bound_to_device(connection):
    try:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, b"lo")
    except OSError:
        pass
    talk(connection)

def half(connection):
    connection.shutdown(socket.SHUT_WR)
    while connection.recv(99): pass
    time.sleep(1000)

if mode in ("thread", "dark"): in_thread(with_own_table)
if mode == "orphan": in_thread(lambda: talk(opened())); libc.syscall(60, 0)
if mode == "messages": in_messages(opened())
if mode == "call": in_a_call(opened())
if mode == "device": bound_to_device(opened())
if mode == "half": half(opened())
if mode == "copies": talk(opened())
if mode == "closed":
    connection = opened()
    listener.close()
    talk(connection)
"""

# "take", or "give HOST PORT": a connection goes to another box, who talks.
PASSER = r"""
import os, socket, sys, time
way = socket.socket(socket.AF_UNIX)
if sys.argv[1] == "take":
    way.bind("way")
    way.listen()
    number = socket.recv_fds(way.accept()[0], 1, 1)[1][0]
    while True:
        os.write(number, bytes(2000))
        time.sleep(0.005)
way.connect("way")
connection = socket.create_connection((sys.argv[2], int(sys.argv[3])))
socket.send_fds(way, [b"x"], [connection.fileno()])
"""

# HOST PORT: hands the kernel as much as it takes, and closes, again and again; says how often it got through.
FILLER = r"""
import socket, sys, time
through = 0
for _ in range(20):
    try:
        connection = socket.create_connection((sys.argv[1], int(sys.argv[2])))
    except OSError:
        break
    through += 1
    connection.setblocking(False)
    try:
        while True: connection.send(bytes(65536))
    except BlockingIOError:
        pass
    connection.close()
    time.sleep(0.15)
print(through)
"""

ENDED = "the box was ended: a connection that was taken from the box could not be found in its processes"


class Peer:
    """The other end of a connection: sends and takes slowly, until there is none any more."""

    def __init__(self, connection):
        self.connection = connection
        self.received = 0
        self.heard_all = threading.Event()
        self.over = threading.Event()
        threading.Thread(target=self.take, daemon=True).start()
        threading.Thread(target=self.send, daemon=True).start()

    def take(self):
        try:
            while data := self.connection.recv(65536):
                self.received += len(data)
                time.sleep(0.002)
        except OSError:
            pass
        self.heard_all.set()

    def has_begun(self, mode):
        return self.heard_all.is_set() if mode == "half" else self.received > 0

    def send(self):
        try:
            while True:
                self.connection.sendall(b"x")
                time.sleep(0.005)
        except OSError:
            self.over.set()


class Sink(Echo):
    """A server that has a Peer for each who comes."""

    def __init__(self, address):
        self.peers = []
        super().__init__(address)

    def talk(self, connection):
        self.peers.append(Peer(connection))


def free_port():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


class Narrow(ServiceTest):
    SETTINGS = 'audit_file = "@BASE@/service/audit"\n'

    # Where root ends a connection that is not found, and an ordinary user the box.
    HIDDEN = ("messages", "call") if TIER == "user" else ()

    def setUp(self):
        super().setUp()
        self.first, self.second = Echo("127.60.0.1"), Echo("127.60.0.2")
        self.addCleanup(self.first.close)
        self.addCleanup(self.second.close)

    def grant(self, *servers):
        return [{"kind": "connect_tcp", "host": server.address, "port": server.port} for server in servers]

    def connected(self):
        return self.session(capabilities=self.grant(self.first, self.second))

    def patch(self, session, **body):
        return self.service.request("PATCH", session.path, body)

    def opens(self, session, number, server):
        return session.run(f"exec {number}<>/dev/tcp/{server.address}/{server.port}").exit_code == 0

    def talks(self, session, number):
        return session.run(f"echo hi >&{number} && read -t 10 -u {number} x && [ $x = hi ]").exit_code == 0

    def test_a_grant_is_taken_at_once(self):
        session = self.connected()
        self.assertTrue(self.opens(session, 5, self.first))
        self.assertTrue(self.talks(session, 5), "so that the visitor is counted")
        answer = self.patch(session, capabilities=self.grant(self.second), labels={"now": "less"})
        self.assertStatus(answer, 200)
        self.assertEqual(answer.json["narrowed"], {"at_once": [f"no longer: allow connect={self.first.where}"],
                                                   "connections_cut": 0})
        self.assertEqual(answer.json["labels"], {"now": "less"})
        before = self.first.visitors
        self.assertFalse(self.opens(session, 6, self.first))
        self.assertEqual(self.first.visitors, before)
        self.assertTrue(self.opens(session, 6, self.second))
        self.assertTrue(self.talks(session, 5), "it was there before")
        lines = [json.loads(line) for line in (self.service.base / "service/audit").read_text().splitlines()]
        acts = [line["act"] for line in lines if line.get("session_id") == session.id]
        self.assertIn("narrow", acts)

    def test_connections_can_be_cut(self):
        session = self.connected()
        self.assertTrue(self.opens(session, 5, self.first))
        self.assertTrue(self.opens(session, 6, self.second))
        answer = self.patch(session, capabilities=self.grant(self.first), cut=True)
        self.assertEqual(answer.json["narrowed"]["connections_cut"], 1)
        self.assertEqual(session.run("read -t 10 -u 6 x; [ $? = 1 ]").exit_code, 0)
        self.assertTrue(self.talks(session, 5))

    def test_ports_are_closed_with_what_came_of_them(self):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            where = free.getsockname()
        session = self.session(capabilities=[{"kind": "listen_tcp", "host": "0.0.0.0", "port": where[1]}])
        session.out(f"cat > /tmp/serve.py <<'END'\n{SERVER}\nEND")
        session.post("/run", {"code": f"python3 /tmp/serve.py {where[1]}", "background": True})
        self.assertTrue(wait_until(lambda: session.run("test -e /tmp/listens").exit_code == 0))
        with socket.create_connection(where, timeout=PATIENCE) as client:
            client.sendall(b"one")
            self.assertEqual(client.recv(9), b"one")
            answer = self.patch(session, capabilities=[], cut=True)
            self.assertEqual(answer.json["narrowed"]["connections_cut"], 1)
            self.assertEqual(client.recv(9), b"", "who was let in is put out")
        # It listens again without pause.
        for _ in range(20):
            with self.assertRaises(ConnectionRefusedError):
                socket.create_connection(where, timeout=PATIENCE).close()
        self.assertTrue(wait_until(lambda: session.run("test -e /tmp/again").exit_code == 0))
        self.assertEqual(session.out("cat /tmp/again").strip(), str(errno.EACCES))

    def keep(self, session, *words):
        session.out(f"cat > /tmp/keep.py <<'END'\n{KEEPER}\nEND")
        session.post("/run", {"code": f"python3 /tmp/keep.py {' '.join(map(str, words))}", "background": True})

    def kept_outside(self, mode, *budgets):
        """A session that has a connection, and the other end of it."""
        sink = Sink("127.60.0.3")
        self.addCleanup(sink.close)
        session = self.session(capabilities=self.grant(sink) + list(budgets))
        self.keep(session, mode, sink.address, sink.port)
        self.assertTrue(wait_until(lambda: sink.peers and sink.peers[0].has_begun(mode)))
        return session, sink.peers[0]

    def kept_inside(self, mode):
        """A session that has accepted a connection, and the other end of that connection."""
        port = free_port()
        session = self.session(capabilities=[{"kind": "listen_tcp", "host": "0.0.0.0", "port": port}])
        self.keep(session, mode, port)
        self.assertTrue(wait_until(lambda: session.run("test -e /tmp/listens").exit_code == 0))
        peer = Peer(socket.create_connection(("127.0.0.1", port), timeout=PATIENCE))
        self.addCleanup(peer.connection.close)
        self.assertTrue(wait_until(lambda: peer.has_begun(mode)))
        return session, peer, port

    def assertCut(self, session, peer, mode):
        self.assertTrue(peer.over.wait(PATIENCE), "it is there after the cut")
        if mode in self.HIDDEN:
            # A search may come by in the moment in which there is a number.
            may_live = mode == "messages" and session.run("true").exit_code == 0
            self.assertTrue(may_live or wait_until(lambda: session.state().get("end")))
            end = session.state().get("end") or {"cause": "network", "message": ENDED}
            self.assertEqual((end["cause"], end["message"]), ("network", ENDED))
        else:
            self.assertEqual(session.run("true").exit_code, 0, "the box goes on")

    def test_no_hiding_place_keeps_a_connection(self):
        for mode in ("thread", "dark", "orphan", "messages", "call", "device", "copies", "half"):
            with self.subTest(mode):
                session, peer = self.kept_outside(mode)
                answer = self.patch(session, capabilities=[], cut=True)
                if mode not in self.HIDDEN:
                    self.assertEqual(answer.json["narrowed"]["connections_cut"], 1)
                self.assertCut(session, peer, mode)

    def test_no_hiding_place_keeps_a_visitor(self):
        for mode in ("thread", "dark", "orphan", "messages", "half", "closed"):
            with self.subTest(mode):
                session, peer, port = self.kept_inside(mode)
                answer = self.patch(session, capabilities=[], cut=True)
                if mode not in self.HIDDEN:
                    self.assertEqual(answer.json["narrowed"]["connections_cut"], 1)
                self.assertCut(session, peer, mode)
                with self.assertRaises(ConnectionRefusedError):
                    socket.create_connection(("127.0.0.1", port), timeout=PATIENCE).close()

    def test_no_hiding_place_gets_around_the_budget_of_bytes(self):
        for mode in ("thread", "dark", "orphan", "messages", "call", "device", "copies"):
            with self.subTest(mode):
                session, peer = self.kept_outside(mode, {"kind": "egress_bytes_budget", "bytes": 100_000})
                self.assertCut(session, peer, mode)
                self.assertLess(peer.received, 40_000_000)

    def test_another_box_keeps_no_connection_either(self):
        shared = self.service.workspace("shared")
        sink = Sink("127.60.0.3")
        self.addCleanup(sink.close)
        taker = self.service.create(shared, "rw")
        sockets = [{"kind": "connect_unix", "path": shared}]  # those of the other box, too
        giver = self.service.create(shared, "rw", capabilities=self.grant(sink) + sockets)
        for session, words in ((taker, "take"), (giver, f"give {sink.address} {sink.port}")):
            session.out(f"cat > /tmp/pass.py <<'END'\n{PASSER}\nEND")
            session.post("/run", {"code": f"cd {shared} && python3 /tmp/pass.py {words}", "background": True})
            self.assertTrue(wait_until(lambda: taker.run(f"test -S {shared}/way").exit_code == 0))
        self.assertTrue(wait_until(lambda: sink.peers and sink.peers[0].received > 0))
        self.patch(giver, capabilities=[], cut=True)
        self.assertTrue(sink.peers[0].over.wait(PATIENCE))

    def test_what_the_kernel_has_taken_is_sent(self):
        with socket.socket() as listener:  # takes nearly nothing
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            listener.bind(("127.60.0.3", 0))
            listener.listen(100)
            host, port = listener.getsockname()
            session = self.session(capabilities=[{"kind": "connect_tcp", "host": host, "port": port},
                                                 {"kind": "egress_bytes_budget", "bytes": 200_000}])
            session.out(f"cat > /tmp/fill.py <<'END'\n{FILLER}\nEND")
            self.assertLess(int(session.out(f"python3 /tmp/fill.py {host} {port}")), 10)

    def test_a_port_is_closed_to_the_box_alone(self):
        port = free_port()
        # Another process's connection at the same port, from before.
        with socket.create_server(("127.0.0.1", port)) as server:
            mine = socket.create_connection(("127.0.0.1", port))
            theirs = server.accept()[0]
        self.addCleanup(mine.close)
        self.addCleanup(theirs.close)
        session = self.session(capabilities=[{"kind": "listen_tcp", "host": "0.0.0.0", "port": port}])
        self.keep(session, "closed", port)
        self.assertTrue(wait_until(lambda: session.run("test -e /tmp/listens").exit_code == 0))
        answer = self.patch(session, capabilities=[], cut=True)
        self.assertEqual(answer.json["narrowed"]["connections_cut"], 1)
        mine.sendall(b"still")
        self.assertEqual(theirs.recv(9), b"still")
        time.sleep(2)  # longer than the last search could come after
        self.assertEqual(session.run("true").exit_code, 0)

    def test_nothing_is_ever_gained(self):
        session = self.session(capabilities=self.grant(self.first))
        self.assertStatus(self.patch(session, capabilities=self.grant(self.first, self.second)), 200)
        self.assertFalse(self.opens(session, 5, self.second))
        self.assertTrue(self.opens(session, 5, self.first))
        self.assertStatus(self.patch(session, capabilities=[]), 200)
        self.assertFalse(self.opens(session, 6, self.first))
        self.assertStatus(self.patch(session, capabilities=self.grant(self.first)), 200)
        self.assertFalse(self.opens(session, 6, self.first), "what is lost stays lost")

    def test_what_is_lost_stays_lost_in_every_later_box(self):
        session = self.connected()
        self.assertStatus(self.patch(session, capabilities=self.grant(self.second), limits={"output": "10KiB"}), 200)
        answer = session.post("/checkpoint", {}, headers={"X-Glovebox-Key": "07" * 32})
        self.assertStatus(answer, 200)
        forked = session.post("/fork", {})
        restored = self.service.post("/v1/isolated/restore", answer.body, headers={"X-Glovebox-Key": "07" * 32})
        self.assertStatus(session.post("/recycle"), 200)
        later = [session.id, forked.json["sessions"][0]["session_id"], restored.json["session_id"]]
        for box in (Session(self.service, each) for each in later):
            before = self.first.visitors
            self.assertFalse(self.opens(box, 5, self.first))
            self.assertEqual(self.first.visitors, before)
            self.assertTrue(self.opens(box, 5, self.second))
            box.run("head -c 100000 /dev/zero")
            self.assertEqual(box.state()["end"]["limit"], "output")

    def test_limits_alone_leave_the_network(self):
        session = self.connected()
        answer = self.patch(session, limits={"output": "1KiB"})
        self.assertStatus(answer, 200)
        self.assertEqual(answer.json["narrowed"]["at_once"], ["output=1024"])
        self.assertTrue(self.opens(session, 5, self.first))
        session.run("head -c 100000 /dev/zero")
        self.assertEqual(session.state()["end"]["limit"], "output")

    def test_a_rate_is_lowered_while_the_box_runs(self):
        session = self.connected()
        often = (f"n=0; for i in $(seq 30); do (exec 5<>/dev/tcp/{self.first.address}/{self.first.port}) 2>/dev/null"
                 " && n=$((n+1)); done; echo $n")
        self.assertEqual(session.out(often), "30")
        answer = self.patch(session, limits={"connect_rate": "1/s"})
        self.assertStatus(answer, 200)
        self.assertEqual(answer.json["narrowed"]["at_once"], ["connect_rate=1/s"])
        self.assertLess(int(session.out(often)), 30)
        answer = self.patch(session, limits={"connect_rate": 1000})
        self.assertEqual(answer.json["narrowed"]["at_once"], [], "a rate is not raised again")
        self.assertLess(int(session.out(often)), 30)

    def test_a_limit_that_the_host_cannot_lower_is_told(self):
        session = self.session()
        answer = self.patch(session, limits={"pids": 20}, labels={"a": "b"})
        if answer.status == 200:  # there is a cgroup for it
            self.assertEqual(answer.json["narrowed"]["at_once"], ["pids=20"])
            self.assertNotEqual(session.run("for i in $(seq 40); do sleep 1 & done; wait").exit_code, 0)
        else:
            self.assertStatus(answer, 409, "NARROW_REFUSED")
            self.assertIn("pids=20", answer.json["refused"][0])
            self.assertEqual(session.state()["labels"], {})

    def test_what_cannot_be_narrowed_is_refused_by_name_and_nothing_is_done(self):
        session = self.connected()
        read = {"kind": "read_path", "path": "/usr"}
        for body, word in (({"capabilities": [read]}, "read=/usr"),
                           ({"capabilities": self.grant(self.first) + [read]}, "read=/usr"),
                           ({"limits": {"disk": "1MiB"}}, "disk"),
                           ({"limits": {"open_files": 10}}, "open_files"),
                           ({"limits": {"memory": "much"}}, "memory"),
                           ({"cut": True}, "cut")):
            answer = self.patch(session, labels={"a": "b"}, **body)
            self.assertStatus(answer, 400)
            self.assertIn(word, answer.json["message"])
        self.assertEqual(session.state()["labels"], {})
        self.assertTrue(self.opens(session, 5, self.second))

    def test_a_dead_session_has_nothing_to_lose(self):
        session = self.session(limits={"output": "1KiB"})
        session.run("head -c 100000 /dev/zero")
        self.assertEqual(self.patch(session, limits={"pids": 5}).status, 500)
        self.assertStatus(self.patch(session, labels={"a": "b"}), 200)


if __name__ == "__main__":
    unittest.main()
