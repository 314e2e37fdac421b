"""Connections that cost their client nothing keep no other out: half-sent requests, silent ones, bad tokens, crowds."""

import http.client
import socket
import unittest

from service import PATIENCE, ServiceTest, wait_until

HALF = b"GET /ping HTTP/1.1\r\nHost: localhost\r\n"


class CrowdTest(ServiceTest):
    TOKEN = "a-token-of-this-test"

    def open(self, count, sent=HALF, source="127.0.0.1"):
        """So many TCP connections that have sent this much of a request."""
        clients = []
        for _ in range(count):
            client = socket.create_connection(("127.0.0.1", self.service.port), timeout=PATIENCE,
                                              source_address=(source, 0))
            self.addCleanup(client.close)
            client.sendall(sent)
            clients.append(client)
        return clients

    def open_unix(self, count, sent=HALF):
        clients = []
        for _ in range(count):
            client = socket.socket(socket.AF_UNIX)
            self.addCleanup(client.close)
            client.settimeout(PATIENCE)
            client.connect(self.service.socket_path)
            client.sendall(sent)
            clients.append(client)
        return clients

    def finish(self, client, token):
        """What a client that has sent HALF is answered when it sends the rest; empty when it was closed."""
        try:
            client.sendall(b"X-EXECD-ACCESS-TOKEN: %s\r\n\r\n" % token.encode())
            return client.recv(1000)
        except OSError:
            return b""

    def is_closed(self, client):
        client.settimeout(PATIENCE)
        try:
            while client.recv(1000):
                pass
        except ConnectionResetError:
            pass
        except TimeoutError:
            return False
        return True

    def gauge(self, name):
        text = self.service.get("/metrics", headers={"Accept": "text/plain"}, tcp=False).body.decode()
        return float(next(line.split()[1] for line in text.splitlines() if line.startswith(name + " ")))

    def check_that_others_get_in(self, kept):
        for _ in range(5):
            self.assertStatus(self.service.get("/ping", connection=kept), 200)
            self.assertStatus(self.service.get("/ping"), 200)
            self.assertStatus(self.service.get("/ping", tcp=False), 200)

    def keep_connection(self, tcp=True):
        """One with an answered request, which is known from then on."""
        kept = self.service.connect(tcp)
        self.addCleanup(kept.close)
        self.assertStatus(self.service.get("/ping", connection=kept), 200)
        return kept


class DefaultLimits(CrowdTest):
    def test_half_sent_requests_lock_no_client_out(self):
        kept = self.keep_connection()
        session = self.session()
        crowd = self.open(1100)
        self.check_that_others_get_in(kept)
        self.assertEqual(session.out("echo hi"), "hi")
        crowd += self.open(100, sent=b"")
        self.check_that_others_get_in(kept)
        # The newest of them are there: an honest and slow client has a chance.
        self.assertIn(b" 200 ", self.finish(self.open(1)[0], self.TOKEN))
        self.assertGreater(self.gauge("glovebox_http_evicted"), 900)
        for client in crowd:
            client.close()
        self.assertTrue(wait_until(lambda: self.gauge("glovebox_http_connections_open") < 10))

    def test_neither_do_bodies_that_never_come(self):
        kept = self.keep_connection()
        body = b"POST /v1/isolated/session HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{"
        crowd = self.open(300, sent=body)
        self.check_that_others_get_in(kept)
        # Who is not known is answered without its body.
        self.assertIn(b" 401 ", crowd[-1].recv(1000))


class SmallLimits(CrowdTest):
    SETTINGS = "[limits]\nconnections = 40\nunknown_per_peer = 12\nheader_seconds = 120\n"

    def test_addresses_do_not_pay_for_one_another(self):
        mine = self.open(1)[0]
        self.open(20, source="127.0.0.2")
        self.assertIn(b" 200 ", self.finish(mine, self.TOKEN))

    def test_when_all_room_is_taken_the_greediest_address_loses_its_oldest(self):
        kept = self.keep_connection()
        mine = self.open(1)[0]
        for last in range(2, 8):
            self.open(12, source="127.0.0.%d" % last)
        self.check_that_others_get_in(kept)
        self.assertIn(b" 200 ", self.finish(mine, self.TOKEN))

    def test_a_local_crowd_and_a_remote_one(self):
        kept = self.keep_connection(tcp=False)
        for last in range(2, 8):
            self.open(12, source="127.0.0.%d" % last)
        self.open_unix(60)
        self.check_that_others_get_in(kept)

    def test_a_bad_token_makes_no_connection_known(self):
        stranger = http.client.HTTPConnection("127.0.0.1", self.service.port, timeout=PATIENCE)
        self.addCleanup(stranger.close)
        answer = self.service.get("/ping", connection=stranger, headers={"X-EXECD-ACCESS-TOKEN": "wrong-token"})
        self.assertStatus(answer, 401)
        self.open(12)
        self.assertTrue(self.is_closed(stranger.sock))

    def test_idle_connections_of_known_clients_make_room_at_last(self):
        kept = [self.keep_connection() for _ in range(60)]
        self.assertStatus(self.service.get("/ping"), 200)
        self.assertStatus(self.service.get("/ping", connection=kept[-1]), 200)


class Deadlines(CrowdTest):
    SETTINGS = "[limits]\nheader_seconds = 1\n"

    def test_the_head_has_one_deadline(self):
        for sent in (b"", HALF, b"\r\n"):
            self.assertTrue(self.is_closed(self.open(1, sent)[0]), sent)
        kept = self.keep_connection()
        silent = self.open(1, b"")[0]
        self.assertTrue(self.is_closed(silent))
        # Time to be idle is for those who are known, and more than that.
        self.assertStatus(self.service.get("/ping", connection=kept), 200)


if __name__ == "__main__":
    unittest.main()
