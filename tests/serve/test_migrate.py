"""A session that is sent to another service over TLS: only between two that know each other, and never lost on the way.

Certificates are made here, by openssl; everything stays on the loopback.
"""

import os
import select
import socket
import subprocess
import tempfile
import threading
import unittest
from pathlib import Path

from service import AS_USER, TIER, USER, Service, Session
from test_state import CommandLine

# What is inherited is tested where it is.
for name in [name for name in dir(CommandLine) if name.startswith("test_")]:
    delattr(CommandLine, name)


class Relay:
    """Passes bytes between a client and a port; `most` of them towards the port, and no answer once there were
    `most_before_answers`. Then it closes both."""

    def __init__(self, port, most):
        self.target, self.most, self.most_before_answers = port, most, 1 << 40
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.thread = threading.Thread(target=self.carry, daemon=True)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.listener.close()
        self.thread.join(20)

    def carry(self):
        client, _ = self.listener.accept()
        server = socket.create_connection(("127.0.0.1", self.target))
        passed = {client: 0, server: 0}
        others = {client: server, server: client}
        with client, server:
            while True:
                for ready in select.select([client, server], [], [], 20)[0]:
                    data = ready.recv(65_536)
                    left = self.most - passed[ready] if ready is client else 1 << 40
                    if ready is server and passed[client] > self.most_before_answers:
                        return
                    others[ready].sendall(data[:max(0, left)])
                    passed[ready] += len(data)
                    if not data or len(data) > left:
                        return


class OverTls(CommandLine):
    """A session that is sent over a TLS connection, on which both sides show a certificate."""

    def setUp(self):
        super().setUp()
        self.other = Service()
        self.addCleanup(self.other.close)
        self.pki = Path(tempfile.mkdtemp(prefix="pki-", dir=self.service.base))
        self.make_authority("ca")
        self.make_authority("stranger")
        for name, authority, names in (("here", "ca", "DNS:here.example"), ("there", "ca", "IP:127.0.0.1,DNS:localhost"),
                                       ("elsewhere", "ca", "DNS:other.example"),
                                       ("stranger-here", "stranger", "DNS:here.example"),
                                       ("stranger-there", "stranger", "IP:127.0.0.1")):
            self.make_certificate(name, authority, names)
        if TIER == "user":
            subprocess.run(["chown", "-R", f"{USER}:{USER}", str(self.pki)], check=True)
        self.session = self.service.create(self.service.workspace("moves"))
        self.session.out("echo moved > file; head -c 2000000 /dev/urandom > big")

    def openssl(self, *words, text=None):
        subprocess.run(["openssl", *words], check=True, cwd=self.pki, input=text, capture_output=True)

    def make_authority(self, name):
        self.openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2",
                     "-subj", f"/CN={name}", "-keyout", f"{name}.key", "-out", f"{name}.pem")

    def make_certificate(self, name, authority, names):
        self.openssl("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-subj", f"/CN={name}",
                     "-keyout", f"{name}.key", "-out", f"{name}.csr")
        (self.pki / "extensions").write_text(f"subjectAltName={names}\n")
        self.openssl("x509", "-req", "-in", f"{name}.csr", "-CA", f"{authority}.pem", "-CAkey", f"{authority}.key", "-days", "2",
                     "-extfile", "extensions", "-out", f"{name}.pem")
        os.chmod(self.pki / f"{name}.key", 0o600)

    def words(self, name, authority="ca"):
        return ["--cert", f"{self.pki}/{name}.pem", "--key", f"{self.pki}/{name}.key", "--ca", f"{self.pki}/{authority}.pem",
                "--key-file", str(self.key)]

    def listen(self, *words):
        """A receiver on the other service; the port that it listens on."""
        as_user = AS_USER if TIER == "user" else []
        receiver = subprocess.Popen(
            [*as_user, str(self.other.bin / "glovebox"), "session", "receive", "--listen", "127.0.0.1:0", *words],
            env={"PATH": "/usr/bin:/bin", "GLOVEBOX_STATE": f"{self.other.base}/service",
                 "GLOVEBOX_HOST": f"unix://{self.other.socket_path}"},
            stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        self.addCleanup(self.end, receiver)
        line = receiver.stderr.readline()
        self.assertIn("receiving on 127.0.0.1:", line)
        return receiver, int(line.rsplit(":", 1)[1])

    def end(self, receiver):
        if receiver.poll() is None:
            receiver.kill()
        receiver.wait()
        receiver.stderr.close()

    def there(self):
        return self.other.get("/v1/isolated/sessions").json["sessions"]

    def check_it_stays(self, done):
        self.assertNotEqual(done.returncode, 0, done)
        self.assertEqual(self.session.out("cat file"), "moved")
        self.assertEqual(self.there(), [])

    def send(self, port, *words, host="127.0.0.1"):
        return self.ask("send", self.session.id, f"{host}:{port}", *words)

    def ask(self, *words):
        done = self.command(*words, check=False)
        done.stderr = done.stderr.decode()
        return done

    def test_it_moves_when_both_sides_are_known(self):
        for host, more in (("127.0.0.1", []), ("localhost", ["--peer-name", "here.example"])):
            receiver, port = self.listen(*self.words("there"), *more)
            done = self.send(port, *self.words("here"), host=host)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual(receiver.wait(20), 0)
            self.assertEqual(self.session.get().status, 404, "it has left")
            there = self.there()
            self.assertEqual(len(there), 1)
            moved = Session(self.other, there[0]["session_id"])
            self.assertEqual(moved.out("cat file; wc -c < big"), "moved\n2000000")
            moved.delete()
            self.session = self.service.create(self.service.workspace("moves"))
            self.session.out("echo moved > file; head -c 2000000 /dev/urandom > big")

    def test_it_stays_when_one_side_is_a_stranger(self):
        receiver, port = self.listen(*self.words("there"))
        for words in (self.words("stranger-here"),            # its certificate is of another authority
                      self.words("here", "stranger")):        # it believes another authority
            self.check_it_stays(self.send(port, *words))
        # Without a certificate at all, and with an older protocol.
        for words in ([], ["-tls1_2", "-cert", "here.pem", "-key", "here.key"]):
            done = subprocess.run(["openssl", "s_client", "-connect", f"127.0.0.1:{port}", "-CAfile", "ca.pem", *words],
                                  cwd=self.pki, input="", capture_output=True, text=True, timeout=60)
            self.assertNotIn("glovebox-ready", done.stdout)
        self.assertIsNone(receiver.poll(), "it waits for another")
        # It is still of use to who may use it.
        self.assertEqual(self.send(port, *self.words("here")).returncode, 0)
        self.assertEqual(receiver.wait(20), 0)

    def test_it_stays_when_the_name_is_another(self):
        _, port = self.listen(*self.words("elsewhere"))
        self.check_it_stays(self.send(port, *self.words("here")))
        _, port = self.listen(*self.words("there"), "--peer-name", "nobody.example")
        self.check_it_stays(self.send(port, *self.words("here")))

    def test_it_stays_when_the_connection_is_cut(self):
        """A relay between the two lets so many bytes through towards the receiver, and then none."""
        for most in (0, 300, 2_000, 5_000, 300_000, 1_500_000):
            receiver, port = self.listen(*self.words("there"))
            with Relay(port, most) as relay:
                self.check_it_stays(self.send(relay.port, *self.words("here")))
            self.end(receiver)

    def test_it_stays_when_it_was_received_and_not_confirmed(self):
        """The receiver's last word is lost: then there are two, and none is lost."""
        _, port = self.listen(*self.words("there"))
        with Relay(port, 1 << 40) as relay:
            relay.most_before_answers = 1_900_000
            done = self.send(relay.port, *self.words("here"))
        self.assertNotEqual(done.returncode, 0, done)
        self.assertEqual(self.session.out("cat file"), "moved")

    def test_what_is_too_large_or_no_session_is_refused(self):
        _, port = self.listen(*self.words("there"), "--max-size", "1MiB")
        self.check_it_stays(self.send(port, *self.words("here")))
        receiver, port = self.listen(*self.words("there"))
        for garbage in (b"\xff\xff\xff\xff", b"\0\0\0\x05hello\0\0\0\0"):
            subprocess.run(["openssl", "s_client", "-quiet", "-connect", f"127.0.0.1:{port}", "-CAfile", "ca.pem", "-cert",
                            "here.pem", "-key", "here.key"], cwd=self.pki, input=garbage, capture_output=True, timeout=60)
        self.assertIsNone(receiver.poll())
        self.assertEqual(self.there(), [])

    def test_files_and_words_are_checked(self):
        for words, told in ((["--cert", "x", "--key-file", str(self.key)], "all needed"),
                            (self.words("nobody"), "No such file"),
                            ([*self.words("here"), "--", "true"], "two ways")):
            done = self.send(1, *words)
            self.assertIn(told, done.stderr)
        os.chmod(self.pki / "here.key", 0o644)
        self.assertIn("others can read", self.send(1, *self.words("here")).stderr)
        for address in ("here", "here:", ":1", "here:x", "here:65536", "::1:5"):
            done = self.ask("send", self.session.id, address, *self.words("there"))
            self.assertIn("HOST:PORT", done.stderr)


if __name__ == "__main__":
    unittest.main()
