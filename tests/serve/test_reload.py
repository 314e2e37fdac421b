"""Policies that are read again while sessions run under them."""

import json
import signal
import socket
import threading
import unittest

from service import ServiceTest, wait_until


class Echo:
    """A server on a loopback address of this machine that sends back what comes, and counts who comes."""

    def __init__(self, address):
        self.listener = socket.create_server((address, 0))
        self.address, self.port = self.listener.getsockname()
        self.visitors = 0
        threading.Thread(target=self.serve, daemon=True).start()

    @property
    def where(self):
        return f"{self.address}:{self.port}"

    def serve(self):
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            self.visitors += 1
            threading.Thread(target=self.talk, args=(connection,), daemon=True).start()

    @staticmethod
    def talk(connection):
        with connection:
            while data := connection.recv(4096):
                connection.sendall(data)

    def close(self):
        self.listener.close()


class Reload(ServiceTest):
    SETTINGS = 'policy_directory = "@BASE@/service/policies"\naudit_file = "@BASE@/service/audit"\n'
    FILES = {"policies/other.yaml": "version: 1\n"}

    def setUp(self):
        super().setUp()
        self.first, self.second = Echo("127.50.0.1"), Echo("127.50.0.2")
        self.addCleanup(self.first.close)
        self.addCleanup(self.second.close)
        self.put(self.both())

    def both(self):
        return f"net: {{connect: ['{self.first.where}', '{self.second.where}']}}\n"

    def only(self, server):
        return f"net: {{connect: ['{server.where}']}}\n"

    def write(self, text):
        (self.service.base / "service/policies/net.yaml").write_text("version: 1\n" + text)

    def reload(self, **body):
        answer = self.service.post("/v1/policies/reload", body or None)
        self.assertStatus(answer, 200)
        return answer.json

    def put(self, text, **body):
        self.write(text)
        return self.reload(**body)

    def of(self, answer, session):
        found = [one for one in answer["sessions"] if one["session_id"] == session.id]
        return found[0] if found else None

    # What the shell of a session does: connections are its descriptors.

    def opens(self, session, number, server):
        return session.run(f"exec {number}<>/dev/tcp/{server.address}/{server.port}").exit_code == 0

    def talks(self, session, number):
        return session.run(f"echo hi >&{number} && read -t 10 -u {number} x && [ $x = hi ]").exit_code == 0

    def is_closed(self, session, number):
        return session.run(f"read -t 10 -u {number} x; [ $? = 1 ]").exit_code == 0

    def test_running_boxes_lose_what_is_gone_and_keep_their_connections(self):
        session = self.session(policy="net")
        self.assertTrue(self.opens(session, 5, self.first))
        self.assertTrue(self.opens(session, 6, self.second))
        answer = self.put(self.only(self.second))
        self.assertEqual(answer["changed"], 1)
        self.assertEqual(self.of(answer, session), {
            "session_id": session.id, "policy": "net", "for_new_sessions": [], "connections_cut": 0,
            "at_once": [f"no longer: allow connect={self.first.where}"]})
        before = self.first.visitors
        self.assertFalse(self.opens(session, 7, self.first))
        self.assertEqual(self.first.visitors, before)
        self.assertTrue(self.opens(session, 7, self.second))
        self.assertTrue(self.talks(session, 5), "it was there before")
        # A later reload cuts what this one has left, and nothing else.
        answer = self.reload(cut=True)
        self.assertEqual(answer["changed"], 0)
        self.assertEqual(self.of(answer, session)["connections_cut"], 1)
        self.assertTrue(self.is_closed(session, 5))
        self.assertTrue(self.talks(session, 6))
        self.assertTrue(self.talks(session, 7))
        audit = [json.loads(line) for line in (self.service.base / "service/audit").read_text().splitlines()]
        told = [line for line in audit if line["act"] == "narrowed" and line["session_id"] == session.id]
        self.assertEqual(len(told), 2)
        self.assertIn(self.first.where, told[0]["detail"])

    def test_cutting_at_once(self):
        session = self.session(policy="net")
        self.assertTrue(self.opens(session, 5, self.first))
        self.assertTrue(self.opens(session, 6, self.second))
        answer = self.put(self.only(self.first), cut=True)
        self.assertEqual(self.of(answer, session)["connections_cut"], 1)
        self.assertTrue(self.is_closed(session, 6))
        self.assertTrue(self.talks(session, 5))

    def test_a_process_that_lets_nobody_look_is_cut_too(self):
        session = self.session(policy="net")
        session.out("cat > hide.py <<'END'\n"
                    "import ctypes, socket, sys\n"
                    "connection = socket.create_connection((sys.argv[1], int(sys.argv[2])))\n"
                    "assert ctypes.CDLL(None).prctl(4, 0, 0, 0, 0) == 0\n"
                    "print('hidden', flush=True)\n"
                    "print('over', connection.recv(1), flush=True)\n"
                    "END\n"
                    f"python3 hide.py {self.first.address} {self.first.port} > out 2>&1 &\n"
                    "until grep -q hidden out; do :; done")
        answer = self.put(self.only(self.second), cut=True)
        self.assertEqual(self.of(answer, session)["connections_cut"], 1)
        self.assertIn("over b''", session.out("wait; cat out"))

    def test_a_connection_in_a_message_is_cut_when_it_comes_out(self):
        session = self.session(policy="net")
        session.out("cat > stash.py <<'END'\n"
                    "import array, os, socket, sys\n"
                    "a, b = socket.socketpair()\n"
                    "c = socket.create_connection((sys.argv[1], int(sys.argv[2])))\n"
                    "socket.send_fds(a, [b'x'], [c.fileno()])\n"
                    "c.close()\n"
                    "print('hidden', flush=True)\n"
                    "sys.stdin.readline()\n"
                    "c = socket.socket(fileno=socket.recv_fds(b, 1, 1)[1][0])\n"
                    "try: print('over', c.recv(1), flush=True)\n"
                    "except OSError as e: print('over', e, flush=True)\n"
                    "END\n"
                    "mkfifo go\n"
                    f"python3 stash.py {self.first.address} {self.first.port} < go > out 2>&1 &\n"
                    "exec 9> go; until grep -q hidden out; do :; done")
        self.put(self.only(self.second), cut=True)
        self.assertIn("over", session.out("echo >&9; wait; cat out"))

    def test_what_does_not_compile_changes_nothing(self):
        session = self.session(policy="net")
        self.assertTrue(self.opens(session, 5, self.first))
        self.write("net: {connect: ['nonsense']}\n")
        self.assertStatus(self.service.post("/v1/policies/reload", {"cut": True}), 400)
        self.assertTrue(self.talks(session, 5))
        self.assertTrue(self.opens(session, 6, self.first))
        self.write(self.only(self.second))
        for body in ({"cut": "yes"}, {"cur": True}):
            self.assertStatus(self.service.post("/v1/policies/reload", body), 400)
        self.assertTrue(self.opens(session, 6, self.first), "a reload that is refused did nothing")

    def test_a_running_box_gains_nothing(self):
        self.put(self.only(self.first))
        session = self.session(policy="net")
        answer = self.put(self.both())
        self.assertEqual(self.of(answer, session)["at_once"], [])
        self.assertEqual(self.of(answer, session)["for_new_sessions"], [f"allow connect={self.second.where}"])
        self.assertFalse(self.opens(session, 5, self.second))
        self.assertTrue(self.opens(session, 5, self.first))
        # What was lost once stays lost.
        self.put("fs: {read: [/usr/share]}\n")
        self.put(self.both())
        self.assertFalse(self.opens(session, 6, self.first))
        self.assertTrue(self.opens(self.session(policy="net"), 5, self.second))

    def test_what_was_handed_in_beside_the_policy_is_kept(self):
        session = self.session(policy="net", capabilities=[
            {"kind": "connect_tcp", "host": self.first.address, "port": self.first.port}])
        other = self.session(policy="other", capabilities=[
            {"kind": "connect_tcp", "host": self.first.address, "port": self.first.port}])
        answer = self.put("fs: {read: [/usr/share]}\n", cut=True)
        self.assertTrue(self.opens(session, 5, self.first))
        self.assertFalse(self.opens(session, 6, self.second))
        self.assertIsNone(self.of(answer, other))
        self.put(f"net: {{deny: ['{self.first.where}']}}\n", cut=True)
        self.assertTrue(self.is_closed(session, 5), "a denial reaches what was handed in")
        self.assertTrue(self.opens(other, 5, self.first), "it is under another policy")

    def test_a_signal_narrows_and_does_not_cut(self):
        session = self.session(policy="net")
        self.assertTrue(self.opens(session, 5, self.first))
        self.write("fs: {read: [/usr/share]}\n")
        self.service.process.send_signal(signal.SIGHUP)
        self.assertTrue(wait_until(lambda: '"policies reloaded"' in self.service.log_text()))
        self.assertFalse(self.opens(session, 6, self.first))
        self.assertTrue(self.talks(session, 5))

    def test_a_policy_that_is_gone_leaves_its_boxes_as_they_are(self):
        session = self.session(policy="net")
        (self.service.base / "service/policies/net.yaml").unlink()
        answer = self.reload()
        self.assertEqual(self.of(answer, session)["for_new_sessions"],
                         ["the policy is gone; this box keeps what it has"])
        self.assertTrue(self.opens(session, 5, self.first))

    def test_a_session_on_its_way_is_narrowed_too(self):
        for _ in range(6):
            self.put(self.both())
            made = []
            thread = threading.Thread(target=lambda: made.append(self.session(policy="net")))
            thread.start()
            self.put(self.only(self.first))
            thread.join()
            self.assertFalse(self.opens(made[0], 5, self.second))
            self.assertTrue(self.opens(made[0], 5, self.first))
            made[0].delete()
        self.assertEqual(self.second.visitors, 0)

    def test_budgets_are_lowered_where_a_running_box_can_be(self):
        session = self.session(policy="net")
        answer = self.put(self.both() + "output: 1000\nwall: 1h\nconnections: 2\ndisk: 1MiB\nopen_files: 64\n")
        mine = self.of(answer, session)
        self.assertEqual(mine["at_once"], ["connections=2", "output=1000", "wall=3600000ms"])
        self.assertEqual(mine["for_new_sessions"], ["disk=1048576", "open_files=64"])
        self.assertTrue(self.opens(session, 5, self.first))
        self.assertTrue(self.opens(session, 6, self.first))
        self.assertFalse(self.opens(session, 7, self.first))
        run = self.service.post(session.path + "/run", {"code": "head -c 5000 /dev/zero | tr '\\0' x"})
        # The run may be over before its output is counted; the session ends in any case.
        self.assertTrue(b"more than it may" in run.body or wait_until(
            lambda: "more than it may" in json.dumps(session.state().get("end"))), session.state())

    def test_time_that_is_up_by_the_new_policy_ends_the_box(self):
        session = self.session(policy="net")
        self.put(self.both() + "wall: 1ms\n")
        self.assertTrue(wait_until(lambda: session.state()["status"] != "active"))

    def test_limits_of_the_kernel_are_lowered(self):
        session = self.session(policy="net")
        answer = self.put(self.both() + "memory: 64MiB\npids: 20\n")
        lines = self.of(answer, session)
        if not lines["at_once"]:
            # A user without a cgroup of its own: that is said, and nothing is claimed.
            self.assertTrue(all("cgroup" in line for line in lines["for_new_sessions"]), lines)
            return
        self.assertEqual(lines["at_once"], ["memory=67108864", "pids=20"])
        answer = session.post("/run", {"code": "python3 -c 'x = b\"x\" * (200 << 20)'"})
        self.assertIn(b"more memory than it may", answer.body)
        self.assertTrue(session.id)

    def test_a_thousand_reloads_under_traffic_open_nothing(self):
        self.put(self.only(self.first))
        session = self.session(policy="net")
        session.out("cat > knock.py <<'END'\n"
                    "import os, socket, sys\n"
                    "good = 0\n"
                    "while not os.path.exists('stop'):\n"
                    "    for host, port in ((sys.argv[1], sys.argv[2]), (sys.argv[3], sys.argv[4])):\n"
                    "        try: socket.create_connection((host, int(port))).close()\n"
                    "        except OSError: continue\n"
                    "        assert host == sys.argv[1], 'reached'\n"
                    "        good += 1\n"
                    "print('good', good)\n"
                    "END\n"
                    f"python3 knock.py {self.first.address} {self.first.port} {self.second.address} "
                    f"{self.second.port} > out 2>&1 &")
        texts = [self.both(), self.only(self.first)]
        for i in range(1000):
            self.put(texts[i % 2])
        out = session.out("touch stop; wait; cat out")
        self.assertRegex(out, r"good [1-9]")
        self.assertEqual(self.second.visitors, 0)


if __name__ == "__main__":
    unittest.main(verbosity=2)
