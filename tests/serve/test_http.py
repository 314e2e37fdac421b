"""The wire: limits, tokens, what is no HTTP, clients that go away at any point, a graceful end."""

import json
import os
import signal
import socket
import ssl
import subprocess
import threading
import time
import unittest
from pathlib import Path

from service import AS_USER, PATIENCE, TIER, Run, Service, ServiceTest, multipart, wait_until

LIMITS = """
[limits]
header_bytes = 4096
body_bytes = 65536
upload_bytes = 1000000
header_seconds = 1
body_seconds = 1
idle_seconds = 2
json_depth = 10
"""


def exchange(service, data, patience=10, shutdown=False):
    """Sends bytes and reads until the service closes."""
    with socket.create_connection(("127.0.0.1", service.port), timeout=patience) as client:
        client.sendall(data)
        if shutdown:
            client.shutdown(socket.SHUT_WR)
        answer = b""
        try:
            while chunk := client.recv(65536):
                answer += chunk
        except (socket.timeout, ConnectionResetError):
            pass
        return answer


class Limits(ServiceTest):
    SETTINGS = LIMITS

    def assertRefused(self, answer, status):
        head, _, body = answer.partition(b"\r\n\r\n")
        self.assertTrue(head.startswith(b"HTTP/1.1 %d " % status), answer[:300])
        self.assertIn(b"Connection: close", head)
        self.assertTrue({"code", "message"} <= set(json.loads(body)), answer)

    def test_a_large_head_is_431(self):
        self.assertRefused(exchange(self.service, b"GET /ping HTTP/1.1\r\nX: " + b"a" * 10_000 + b"\r\n\r\n"), 431)

    def test_a_slow_head_is_408(self):
        start = time.monotonic()
        self.assertRefused(exchange(self.service, b"GET /ping HTTP/1.1\r\nHost: "), 408)
        self.assertLess(time.monotonic() - start, PATIENCE)

    def test_a_dripping_head_gains_nothing(self):
        with socket.create_connection(("127.0.0.1", self.service.port)) as client:
            start = time.monotonic()
            with self.assertRaises(OSError):
                for byte in b"GET /ping HTTP/1.1\r\nX: " + b"a" * 1000:
                    client.sendall(bytes([byte]))
                    time.sleep(0.1)
            self.assertLess(time.monotonic() - start, PATIENCE)

    def test_an_idle_connection_is_closed_without_a_word(self):
        start = time.monotonic()
        self.assertEqual(exchange(self.service, b""), b"")
        self.assertLess(time.monotonic() - start, PATIENCE)

    def test_a_large_body_is_413_by_its_length_and_by_its_bytes(self):
        path = "/v1/isolated/session"
        answer = self.service.post(path, "x" * 100_000)
        self.assertStatus(answer, 413, "BODY_TOO_LARGE")
        chunks = b"".join(b"8000\r\n" + b"y" * 0x8000 + b"\r\n" for _ in range(4)) + b"0\r\n\r\n"
        self.assertRefused(exchange(self.service, b"POST " + path.encode() +
                                    b" HTTP/1.1\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n" + chunks), 413)

    def test_a_body_that_does_not_come_is_408(self):
        self.assertRefused(exchange(self.service, b"POST /v1/isolated/session HTTP/1.1\r\n"
                                    b"Content-Length: 100\r\n\r\n{"), 408)

    def test_a_large_upload_is_413(self):
        session = self.session()
        answer = session.upload(({"path": "big"}, b"x" * 1_500_000))
        self.assertStatus(answer, 413, "BODY_TOO_LARGE")
        self.assertNotEqual(session.run("test -e big").exit_code, 0)

    def test_a_deep_body_is_refused(self):
        self.assertStatus(self.service.post("/v1/isolated/session", "[" * 50 + "]" * 50), 400,
                          "INVALID_REQUEST_BODY")

    def test_expect_continue_is_answered(self):
        body = json.dumps({"workspace": {}}).encode()
        with socket.create_connection(("127.0.0.1", self.service.port), timeout=5) as client:
            client.sendall(b"POST /v1/isolated/session HTTP/1.1\r\nExpect: 100-continue\r\n"
                           b"Content-Length: %d\r\n\r\n" % len(body))
            self.assertEqual(client.recv(1000), b"HTTP/1.1 100 Continue\r\n\r\n")
            client.sendall(body)
            self.assertTrue(client.recv(1000).startswith(b"HTTP/1.1 400 "))


class Malformed(ServiceTest):
    def test_what_is_no_http_gets_one_answer(self):
        for data in (b"\r\n\r\n\r\n", b"GET\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n", b"\x16\x03\x01\x02\x00",
                     b"GET /ping HTTP/1.1\r\nContent-Length: x\r\n\r\n",
                     b"GET /ping HTTP/1.1\r\nContent-Length: -1\r\n\r\n",
                     b"GET /ping HTTP/1.1\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n",
                     b"GET /ping HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
                     b"GET /ping HTTP/1.1\r\n: empty\r\n\r\n", b"GET /ping HTTP/1.1\r\nA\x00B: c\r\n\r\n",
                     b"GET /p%zz?a=%zz HTTP/1.1\r\nConnection: close\r\n\r\n",
                     b"GET /ping?%00 HTTP/1.1\r\nConnection: close\r\n\r\n",
                     b"GET ping HTTP/1.1\r\nConnection: close\r\n\r\n",
                     b"POST /v1/isolated/session HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n"):
            answer = exchange(self.service, data, shutdown=True)
            if answer:
                self.assertRegex(answer, rb"^HTTP/1\.1 (4|505)", data)
                self.assertIn(b'"code"', answer, data)
        self.assertStatus(self.service.get("/ping"), 200)

    def assertBegins(self, answer, status):
        self.assertTrue(answer.startswith(b"HTTP/1.1 %d " % status), answer[:200])

    def test_the_head_of_a_chunk_and_a_trailer_are_bounded(self):
        start = b"POST /v1/isolated/session HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n"
        for rest in (b"1;" + b"a" * 200_000, b"0\r\nX: " + b"a" * 200_000, b"0\r\nX: " + b"a" * 70_000 + b"\r\n\r\n"):
            self.assertBegins(exchange(self.service, start + rest), 400)

    def test_another_transfer_encoding_is_refused_and_its_body_no_request(self):
        for coding in (b"xchunked", b"gzip", b"chunked, identity"):
            answer = exchange(self.service, b"POST /ping HTTP/1.1\r\nTransfer-Encoding: " + coding +
                              b"\r\n\r\nGET /ping HTTP/1.1\r\n\r\n")
            self.assertBegins(answer, 400)
            self.assertEqual(answer.count(b"HTTP/1.1 "), 1, answer)

    def test_a_refusal_does_not_wait_for_a_body_without_end(self):
        self.assertBegins(exchange(self.service, b"POST /nowhere HTTP/1.1\r\n"
                                    b"Content-Length: 18446744073709551615\r\n\r\nabcd"), 404)

    def test_random_bytes_do_no_harm(self):
        source = open("/dev/urandom", "rb")
        seeds = [b"POST /v1/isolated/session HTTP/1.1\r\nContent-Length: 20\r\n\r\n",
                 b"GET /v1/isolated/sessions HTTP/1.1\r\nHost: localhost\r\n\r\n"]
        for i in range(300):
            data = bytearray(seeds[i % 2] + source.read(20))
            for _ in range(1 + i % 8):
                at = int.from_bytes(source.read(2), "big") % len(data)
                data[at] = source.read(1)[0]
            exchange(self.service, bytes(data), patience=5, shutdown=True)
        source.close()
        self.assertStatus(self.service.get("/ping"), 200)

    def test_unknown_routes_and_methods(self):
        self.assertStatus(self.service.get("/v1/nothing"), 404)
        answer = self.service.request("PUT", "/v1/isolated/sessions")
        self.assertStatus(answer, 405)
        self.assertEqual(answer.headers["Allow"], "GET")

    def test_connections_are_kept_and_requests_can_follow_one_another(self):
        connection = self.service.connect(tcp=True)
        for _ in range(3):
            answer = self.service.get("/ping", connection=connection)
            self.assertStatus(answer, 200)
            self.assertEqual(answer.headers["Content-Length"], "0")
        connection.close()
        answers = exchange(self.service, b"GET /ping HTTP/1.1\r\n\r\n" * 3 +
                           b"GET /ping HTTP/1.1\r\nConnection: close\r\n\r\n")
        self.assertEqual(answers.count(b"HTTP/1.1 200 OK"), 4)

    def test_a_line_break_in_a_name_makes_no_header(self):
        session = self.session()
        name = "a\r\nX-Planted: yes"
        session.write(name, "x")
        answer = session.download(name)
        self.assertStatus(answer, 200)
        self.assertNotIn("X-Planted", answer.headers)

    def test_http_1_0_gets_a_plain_stream(self):
        session = self.session()
        body = json.dumps({"code": "echo hi"}).encode()
        answer = exchange(self.service, b"POST %s/run HTTP/1.0\r\nContent-Length: %d\r\n\r\n%s" %
                          (session.path.encode(), len(body), body))
        self.assertNotIn(b"chunked", answer)
        self.assertIn(b'"text":"hi"', answer)


class Disconnects(ServiceTest):
    def test_at_every_point_of_a_run(self):
        session = self.session()
        body = json.dumps({"code": "echo a; sleep 0.05; seq 2000; sleep 0.05; echo b"}).encode()
        request = (b"POST %s/run HTTP/1.1\r\nContent-Length: %d\r\n\r\n%s" %
                   (session.path.encode(), len(body), body))
        cuts = [1, 20, len(request) - len(body), len(request) - 1, len(request)]
        for cut in cuts:
            for delay in (0, 0.02, 0.07):
                client = socket.create_connection(("127.0.0.1", self.service.port))
                client.sendall(request[:cut])
                time.sleep(delay)
                client.close()
        self.assertEqual(session.out("echo usable"), "usable")

    def test_while_waiting_for_the_shell(self):
        session = self.session()
        first = threading.Thread(target=lambda: session.run("touch begun; sleep 4; echo first"))
        first.start()
        self.assertTrue(wait_until(lambda: session.get("/files/info?path=begun").status == 200))
        body = json.dumps({"code": "touch never"}).encode()
        client = socket.create_connection(("127.0.0.1", self.service.port))
        client.sendall(b"POST %s/run HTTP/1.1\r\nContent-Length: %d\r\n\r\n%s" %
                       (session.path.encode(), len(body), body))
        time.sleep(0.2)
        client.close()
        first.join()
        self.assertNotEqual(session.run("test -e never").exit_code, 0)

    def test_in_the_middle_of_an_upload_nothing_is_left(self):
        session = self.session()
        body = multipart([({"path": "half"}, b"x" * 500_000)])
        client = socket.create_connection(("127.0.0.1", self.service.port))
        client.sendall(b"POST %s/files/upload HTTP/1.1\r\nContent-Type: multipart/form-data; boundary=x-boundary\r\n"
                       b"Content-Length: %d\r\n\r\n%s" % (session.path.encode(), len(body), body[:250_000]))
        time.sleep(0.2)
        client.close()
        self.assertTrue(wait_until(lambda: session.out("ls -A") == ""), session.out("ls -A"))

    def test_in_the_middle_of_a_download(self):
        session = self.session()
        session.out("head -c 50M /dev/zero > big")
        for _ in range(5):
            client = socket.create_connection(("127.0.0.1", self.service.port))
            client.sendall(b"GET %s/files/download?path=big HTTP/1.1\r\n\r\n" % session.path.encode())
            client.recv(10_000)
            client.close()
        self.assertEqual(session.out("echo usable"), "usable")

    def test_while_following_denials(self):
        session = self.session()

        def open_requests():
            text = self.service.get("/metrics", headers={"Accept": "text/plain"}).body.decode()
            return float(next(line.split()[1] for line in text.splitlines()
                              if line.startswith("glovebox_http_requests_open ")))

        # What other tests left behind may still be ending.
        self.assertTrue(wait_until(lambda: open_requests() == 1))
        client = socket.create_connection(("127.0.0.1", self.service.port))
        client.sendall(b"GET %s/denials HTTP/1.1\r\nAccept: text/event-stream\r\n\r\n" % session.path.encode())
        self.assertIn(b"text/event-stream", client.recv(1000))
        self.assertEqual(open_requests(), 2)
        client.close()
        self.assertTrue(wait_until(lambda: open_requests() == 1))

    def test_a_slow_reader_costs_no_memory(self):
        session = self.session()
        body = json.dumps({"code": "head -c 200M /dev/zero | tr '\\0' 'a' | fold -w 100"}).encode()
        client = socket.create_connection(("127.0.0.1", self.service.port))
        client.sendall(b"POST %s/run HTTP/1.1\r\nContent-Length: %d\r\n\r\n%s" %
                       (session.path.encode(), len(body), body))
        client.recv(1000)
        time.sleep(1)
        with open(f"/proc/{self.service.process.pid}/status") as status:
            resident = next(int(line.split()[1]) for line in status if line.startswith("VmRSS"))
        client.close()
        self.assertLess(resident, 120_000, "KiB")
        self.assertEqual(session.out("echo usable"), "usable")


class Tokens(ServiceTest):
    TOKEN = "a-long-secret"
    SETTINGS = """
[[token]]
name = "reader"
env = "READER"
scopes = ["read"]
[[token]]
name = "maker"
env = "MAKER"
scopes = ["create"]
max_sessions = 1
[[token]]
name = "bounded"
file = "@BASE@/service/bounded"
scopes = ["create"]
ceiling = "@BASE@/service/ceiling.yaml"
"""
    ENVIRONMENT = {"READER": "reader-secret", "MAKER": "maker-secret", "CANARY": "of the service", "GREETING": "hello"}
    FILES = {"bounded": "bounded-secret\n",
             "ceiling.yaml": "version: 1\nfs: {write: [@BASE@/work]}\nenv: {allow: [GREETING]}\n"}

    def test_every_route_wants_the_token(self):
        for path in ("/ping", "/metrics", "/v1/isolated/sessions", "/nothing"):
            answer = self.service.get(path, headers={"X-EXECD-ACCESS-TOKEN": "wrong-secret"})
            self.assertStatus(answer, 401)
            self.assertEqual(answer.json["error"],
                             "Unauthorized: invalid or missing header X-EXECD-ACCESS-TOKEN")
        self.assertStatus(self.service.get("/ping"), 200)
        self.assertStatus(self.service.get("/ping", headers={"Authorization": f"Bearer {self.TOKEN}"}), 200)

    def test_the_unix_socket_knows_who_connects(self):
        for uid, status in ((0, 200), (65533, 200 if TIER == "user" else 401), (65532, 401)):
            script = ("import socket,sys\ns=socket.socket(socket.AF_UNIX)\ns.connect(sys.argv[1])\n"
                      "s.sendall(b'GET /ping HTTP/1.1\\r\\nConnection: close\\r\\n\\r\\n')\nprint(s.recv(100))")
            os.chmod(self.service.socket_path, 0o666)
            ended = subprocess.run(["setpriv", "--reuid", str(uid), "--clear-groups", "/usr/bin/python3", "-c", script,
                                    self.service.socket_path], capture_output=True, text=True, timeout=PATIENCE)
            self.assertIn(f" {status} ", ended.stdout, ended)

    def test_scopes(self):
        reader = {"X-EXECD-ACCESS-TOKEN": "reader-secret"}
        self.assertStatus(self.service.get("/v1/isolated/sessions", headers=reader), 200)
        path = self.service.workspace(self.name)
        self.assertStatus(self.service.post("/v1/isolated/session", {"workspace": {"path": path}},
                                            headers=reader), 403, "FORBIDDEN")
        self.assertStatus(self.service.post("/v1/policies/reload", headers=reader), 403)

    def test_tokens_see_their_own_sessions_and_have_their_bound(self):
        maker = {"X-EXECD-ACCESS-TOKEN": "maker-secret"}
        path = self.service.workspace(self.name)
        others = self.service.create(path)
        self.addCleanup(others.delete)
        made = self.service.post("/v1/isolated/session", {"workspace": {"path": path}}, headers=maker)
        self.assertStatus(made, 201)
        mine = "/v1/isolated/session/" + made.json["session_id"]
        listed = self.service.get("/v1/isolated/sessions", headers=maker).json["sessions"]
        self.assertEqual([session["session_id"] for session in listed], [made.json["session_id"]])
        self.assertStatus(self.service.get(others.path, headers=maker), 404)
        self.assertStatus(self.service.post(others.path + "/run", {"code": "id"}, headers=maker), 404)
        self.assertStatus(self.service.delete(others.path, headers=maker), 404)
        self.assertStatus(self.service.post("/v1/isolated/session", {"workspace": {"path": path}},
                                            headers=maker), 429)
        self.assertStatus(self.service.delete(mine, headers=maker), 200)

    def test_nothing_goes_beyond_the_ceiling_of_a_token(self):
        bounded = {"X-EXECD-ACCESS-TOKEN": "bounded-secret"}
        path = self.service.workspace(self.name)
        other = self.service.base / "elsewhere"
        other.mkdir()
        (other / "f").write_text("x")
        refused = self.service.post("/v1/isolated/session", {"workspace": {"path": str(other)}}, headers=bounded)
        self.assertStatus(refused, 400, "RUNTIME_ERROR")
        body = {"workspace": {"path": path}, "capabilities": [{"kind": "read_path", "path": str(other)}]}
        for headers, expected in (({}, 0), (bounded, 1)):
            made = self.service.post("/v1/isolated/session", body, headers=headers)
            self.assertStatus(made, 201)
            session = "/v1/isolated/session/" + made.json["session_id"]
            ended = self.service.post(session + "/run", {"code": f"cat {other}/f"}, headers=headers)
            self.assertEqual(Run(ended.body).exit_code, expected)
            self.service.delete(session, headers=headers)

    def test_the_service_s_environment_is_within_the_ceiling(self):
        path = self.service.workspace(self.name)
        rules = [{"mode": "allow", "keys": ["CANARY", "GREETING"]}, {"mode": "deny", "keys": ["NOTHING"]}]
        for headers, expected in (({}, 0), ({"X-EXECD-ACCESS-TOKEN": "bounded-secret"}, 1)):
            for rule in rules:
                made = self.service.post("/v1/isolated/session", {"workspace": {"path": path}, "env_passthrough": rule},
                                         headers=headers)
                self.assertStatus(made, 201)
                session = "/v1/isolated/session/" + made.json["session_id"]
                for name, code in (("GREETING", 0), ("CANARY", expected)):
                    ended = self.service.post(session + "/run", {"code": f"printenv {name}"}, headers=headers)
                    self.assertEqual(Run(ended.body).exit_code, code, (headers, rule, name))
                self.service.delete(session, headers=headers)

    def make_environment(self, name, *lines):
        """A virtual environment as a box could have left it."""
        environment = Path(self.service.workspace(name))
        (environment / "bin").mkdir()
        (environment / "bin/python").symlink_to("/usr/bin/python3")
        (environment / "pyvenv.cfg").write_text("".join(line + "\n" for line in lines))
        return environment

    def test_an_interpreter_is_handed_in_like_any_place(self):
        elsewhere = self.service.base / "not-handed-in"
        (elsewhere / "bin").mkdir(parents=True)
        (elsewhere / "bin/python3").write_text("")
        bounded = {"X-EXECD-ACCESS-TOKEN": "bounded-secret"}
        plain = self.make_environment("plain", "home = /usr/bin")
        cases = [(plain / "bin/python", 201, 201),
                 # Its key is not Python's, so its value is not looked at.
                 (self.make_environment("odd", f"homex = {elsewhere}/bin", "home = /usr/bin") / "bin/python", 201, 201),
                 (self.make_environment("led", f"home = {elsewhere}/bin") / "bin/python", 400, 400),
                 (elsewhere / "bin/python3", None, 400)]
        for interpreter, anybody, limited in cases:
            for headers, expected in (({}, anybody), (bounded, limited)):
                if expected is None:
                    continue  # who has no ceiling may hand it in, though it is no interpreter
                body = {"python": {"interpreter": str(interpreter)}}
                made = self.service.post("/v1/isolated/session", body, headers=headers)
                self.assertEqual(made.status, expected, (interpreter, headers, made.body))
                if made.status == 201:
                    session = "/v1/isolated/session/" + made.json["session_id"]
                    self.assertEqual(Run(self.service.post(session + "/run", {"code": f"test -e {elsewhere}"},
                                                           headers=headers).body).exit_code, 1)
                    self.service.delete(session, headers=headers)

    def test_a_file_of_an_environment_that_never_ends_holds_nobody_up(self):
        environment = self.make_environment("endless")
        (environment / "pyvenv.cfg").unlink()
        os.mkfifo(environment / "pyvenv.cfg")
        made = self.service.post("/v1/isolated/session", {"python": {"interpreter": f"{environment}/bin/python"}})
        self.assertEqual(made.status, 400, made.body)
        self.assertIn("pyvenv.cfg", made.json["message"])

    def test_a_box_sees_no_token(self):
        session = self.session(env_passthrough={"mode": "allow", "keys": ["READER", "EXECD_ACCESS_TOKEN", "PATH"]})
        self.assertNotIn("secret", session.out("env; cat /proc/*/environ 2>/dev/null | tr '\\0' '\\n' || true"))
        self.assertNotEqual(session.run(f"cat {self.service.config}").exit_code, 0)
        self.assertNotEqual(session.run(f"ls {self.service.socket_path}").exit_code, 0)
        self.assertNotEqual(session.run(
            f"exec 3<>/dev/tcp/127.0.0.1/{self.service.port}").exit_code, 0)

    def test_other_origins_are_refused(self):
        self.assertStatus(self.service.get("/ping", headers={"Origin": "https://evil.example"}), 403)


class Process(unittest.TestCase):
    def start_refused(self, settings, **more):
        with self.assertRaises(RuntimeError) as caught:
            service = Service(settings, **more)
            service.close()
        return str(caught.exception)

    def test_an_open_address_needs_a_token(self):
        service = Service()
        service.stop()
        service.config.write_text('listen = ["0.0.0.0:0"]\nstate_directory = "%s"\n' % service.state)
        try:
            ended = subprocess.run([str(service.bin / "glovebox"), "serve", "--config", str(service.config)],
                                   env=service.environment, capture_output=True, timeout=PATIENCE)
            self.assertEqual(ended.returncode, 125)
            self.assertIn(b"token", ended.stderr)
        finally:
            service.close()

    def test_settings_are_checked(self):
        service = Service()
        try:
            service.stop()
            command = [str(service.bin / "glovebox"), "serve", "--check-config", "--config", str(service.config)]
            ended = subprocess.run(command, env=service.environment, capture_output=True, timeout=PATIENCE)
            self.assertEqual((ended.returncode, ended.stdout), (0, b"the settings are fine\n"), ended)
            service.config.write_text("listen = []\nport = 1\n")
            ended = subprocess.run(command, env=service.environment, capture_output=True, timeout=PATIENCE)
            self.assertEqual(ended.returncode, 125)
            self.assertIn(b"config.toml:2: there is no key 'port'", ended.stderr)
        finally:
            service.close()

    def test_a_second_service_does_not_take_the_first_ones_socket(self):
        service = Service()
        try:
            words = [str(service.bin / "glovebox"), "serve", "--config", str(service.config)]
            ended = subprocess.run(words, env=service.environment, capture_output=True, timeout=PATIENCE)
            self.assertEqual(ended.returncode, 125)
            self.assertEqual(service.get("/ping", tcp=False).status, 200)
        finally:
            service.close()

    def test_sigterm_drains(self):
        service = Service()
        try:
            session = service.create(service.workspace("w"))
            results = []
            thread = threading.Thread(target=lambda: results.append(session.run("sleep 1; echo finished")))
            thread.start()
            time.sleep(0.3)
            idle = service.connect(tcp=True)
            service.get("/ping", connection=idle)
            service.process.send_signal(signal.SIGTERM)
            thread.join()
            self.assertEqual(results[0].out, ["finished"])
            self.assertEqual(service.process.wait(PATIENCE), 0)
            self.assertFalse(os.path.exists(service.socket_path))
        finally:
            service.close()

    def test_sessions_are_found_again_with_their_changes(self):
        service = Service()
        try:
            path = service.workspace("w", a="1")
            session = service.create(path)
            session.out("echo 2 > b")
            service.stop(signal.SIGKILL)
            service.start()
            self.assertEqual(session.state()["status"], "dead")
            changes = session.get("/diff", headers={"Accept": "application/json"}).json["changes"]
            self.assertEqual([change["path"] for change in changes], ["b"])
            self.assertEqual(session.post("/commit").status, 200)
            self.assertEqual(open(path + "/b").read(), "2\n")
            self.assertEqual(session.delete().status, 200)
        finally:
            service.close()

    def test_systemd_is_told_and_its_sockets_are_taken(self):
        service = Service()
        service.stop()
        try:
            notified = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
            notified.settimeout(PATIENCE)
            notified.bind(str(service.base / "notify"))
            os.chmod(service.base / "notify", 0o777)
            listener = socket.create_server(("127.0.0.1", 0))
            environment = {**service.environment, "NOTIFY_SOCKET": str(service.base / "notify")}

            def activate():
                os.dup2(listener.fileno(), 3)
                os.environ["LISTEN_PID"] = str(os.getpid())

            words = (AS_USER if TIER == "user" else []) + ["sh", "-c", 'LISTEN_PID=$$ LISTEN_FDS=1 exec "$@"', "sh", str(service.bin / "glovebox"), "serve",
                     "--config", str(service.config)]
            os.set_inheritable(listener.fileno(), True)
            process = subprocess.Popen(words, env=environment, preexec_fn=activate, close_fds=False,
                                       stderr=subprocess.DEVNULL)
            self.assertEqual(notified.recv(100), b"READY=1")
            with socket.create_connection(listener.getsockname()) as client:
                client.sendall(b"GET /ping HTTP/1.1\r\nConnection: close\r\n\r\n")
                self.assertIn(b"200 OK", client.recv(100))
            process.terminate()
            self.assertEqual(notified.recv(100), b"STOPPING=1")
            self.assertEqual(process.wait(PATIENCE), 0)
        finally:
            service.close()

    def test_tls(self):
        service = Service()
        service.stop()
        try:
            base = service.base / "service"
            subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj",
                            "/CN=localhost", "-keyout", str(base / "k.pem"), "-out", str(base / "c.pem")],
                           check=True, capture_output=True)
            if TIER == "user":
                os.chown(base / "k.pem", 65533, 65533)
            with open(service.config, "a") as config:
                config.write(f'[tls]\ncertificate = "{base}/c.pem"\nkey = "{base}/k.pem"\n')
            service.start()
            context = ssl.create_default_context(cafile=str(base / "c.pem"))
            context.check_hostname = False
            session = service.create_over = None
            with socket.create_connection(("127.0.0.1", service.port)) as plain:
                with context.wrap_socket(plain) as client:
                    client.sendall(b"GET /ping HTTP/1.1\r\nConnection: close\r\n\r\n")
                    self.assertIn(b"200 OK", client.recv(100))
            self.assertEqual(service.get("/ping", tcp=False).status, 200, "the unix socket speaks plainly")
        finally:
            service.close()


if __name__ == "__main__":
    unittest.main(verbosity=2)
