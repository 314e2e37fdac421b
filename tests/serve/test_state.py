"""Recycle, fork, checkpoint, restore and send: over HTTP, and from the command line."""

import os
import socket
import subprocess
import unittest

from service import AS_USER, TIER, USER, Service, ServiceTest, Session, wait_until

KEY = "07" * 32
HEADERS = {"X-Glovebox-Key": KEY}


class State(ServiceTest):
    def begin(self, name, **files):
        self.place = self.service.workspace(name, **files)
        return self.service.create(self.place)

    def fork(self, session, **body):
        answer = session.post("/fork", body)
        self.assertEqual(answer.status, 201, answer)
        self.assertEqual(answer.json["parent_id"], session.id)
        return [Session(self.service, each["session_id"]) for each in answer.json["sessions"]]

    def restore(self, data, headers=HEADERS, **query):
        return self.service.post("/v1/isolated/restore", data, headers=headers, query=query)

    def test_recycle_keeps_or_drops_the_layer(self):
        session = self.begin("recycle")
        session.out("echo kept > file; X=1")
        answer = session.post("/recycle")
        self.assertEqual(answer.status, 200, answer)
        self.assertEqual(answer.json["session_id"], session.id)
        self.assertEqual(session.out("cat file; echo ${X-none}"), "kept\nnone")
        self.assertEqual(session.post("/recycle", {"layer": "drop"}).status, 200)
        self.assertEqual(session.out("ls"), "")
        self.assertEqual(session.post("/recycle", {"layer": "burn"}).status, 400)

    def test_fork_diff_between_branches_and_commit_of_one(self):
        session = self.begin("fork", file="before\n")
        session.out("echo past > past; mkdir d; cd d; export COLOUR=blue")
        children = self.fork(session, count=3, name="try", limits={"pids": 50})
        self.assertEqual(len(children), 3)
        for number, child in enumerate(children):
            state = child.state()
            self.assertEqual(state["parent_id"], session.id)
            self.assertEqual(state["name"], f"try-{number + 1}")
            self.assertEqual(child.out("pwd; echo $COLOUR; cat ../past"), f"{self.place}/d\nblue\npast")
            child.out(f"echo {number} > ../file")
        between = children[1].get("/diff", query={"from": children[0].id},
                                  headers={"Accept": "text/x-diff"})
        self.assertEqual(between.status, 200, between)
        self.assertIn(b"-0\n+1\n", between.body)
        self.assertEqual(children[1].get("/diff", query={"from": "nobody"}).status, 404)
        self.assertEqual(children[2].post("/commit", {}).status, 200)
        with open(f"{self.place}/file", encoding="utf-8") as file:
            self.assertEqual(file.read(), "2\n")
        refused = children[0].post("/commit", {})
        self.assertEqual(refused.status, 409, refused)

    def test_fork_refuses_nonsense_and_what_would_widen(self):
        session = self.begin("refused")
        for body in ({"count": 0}, {"count": 5000}, {"limits": {"memory": "much"}}, {"ceiling": 3}, {"more": 1}):
            self.assertEqual(session.post("/fork", body).status, 400, body)

    def test_a_session_comes_back_from_a_file(self):
        session = self.begin("checkpoint", file="before\n")
        session.out("echo after > file; mkdir d; cd d")
        answer = session.post("/checkpoint", {}, headers=HEADERS)
        self.assertEqual(answer.status, 200, answer)
        self.assertEqual(answer.headers["X-Glovebox-State"], '["config","files"]')
        data = answer.body
        self.assertNotIn(b"after", data)
        self.assertEqual(session.delete().status, 200)
        for what, headers, body, query, status in (
                ("another key", {"X-Glovebox-Key": "08" * 32}, data, {}, 403),
                ("no key", {}, data, {}, 400),
                ("another tenant", HEADERS, data, {"tenant": "b"}, 403),
                ("cut", HEADERS, data[:-20], {}, 400),
                ("changed", HEADERS, data[:-20] + b"x" + data[-19:], {}, 400),
                ("nothing", HEADERS, b"", {}, 400)):
            refused = self.restore(body, headers, **query)
            self.assertEqual(refused.status, status, (what, refused))
        back = self.restore(data)
        self.assertEqual(back.status, 201, back)
        self.assertEqual(back.json["state"], ["config", "files"])
        restored = Session(self.service, back.json["session_id"])
        self.assertEqual(restored.out("pwd; cat ../file"), f"{self.place}/d\nafter")

    def test_memory_is_refused_by_name(self):
        session = self.begin("memory")
        answer = session.post("/checkpoint", {"state": ["memory"]}, headers=HEADERS)
        self.assertEqual(answer.status, 400, answer)
        self.assertIn("Landlock", answer.json["message"])

    def test_a_session_that_was_used_is_not_deleted_by_who_has_not_seen_it(self):
        session = self.begin("used")
        used = session.post("/checkpoint", {}, headers=HEADERS).headers["X-Glovebox-Used"]
        session.out("echo more > file")
        refused = self.service.delete(session.path, query={"if_used": used})
        self.assertEqual(refused.status, 409, refused)
        used = session.post("/checkpoint", {}, headers=HEADERS).headers["X-Glovebox-Used"]
        self.assertEqual(self.service.delete(session.path, query={"if_used": used}).status, 200)


class Bounded(ServiceTest):
    """What is restored, and what is on its way, has a bound on the disk."""

    def begin(self, size):
        session = self.service.create(self.service.workspace(self.name))
        self.addCleanup(session.delete)
        session.out(f"head -c {size} /dev/urandom > file")
        return session

    def send_restore(self, data, length):
        """A restore of so many bytes, of which these come first."""
        client = socket.create_connection(("127.0.0.1", self.service.port), timeout=60)
        self.addCleanup(client.close)
        client.sendall(f"POST /v1/isolated/restore HTTP/1.1\r\nHost: localhost\r\nX-Glovebox-Key: {KEY}\r\n"
                       f"Content-Length: {length}\r\nConnection: close\r\n\r\n".encode() + data)
        return client


class BoundedSpool(Bounded):
    SETTINGS = "spool_max_bytes = 6000000\n"

    def test_bodies_on_their_way_share_a_bound(self):
        small, large = self.begin(3_000_000), self.begin(7_000_000)
        write = lambda: small.post("/checkpoint", {}, headers=HEADERS)
        self.assertStatus(write(), 200)
        for what in (large.post("/checkpoint", {}, headers=HEADERS), large.get("/diff"),
                     self.service.post("/v1/isolated/restore", b"x" * 7_000_000, headers=HEADERS)):
            self.assertStatus(what, 507)
            self.assertIn("spool_max_bytes", what.json["message"])
        self.assertStatus(write(), 200)
        client = self.send_restore(b"x" * 4_000_000, 5_000_000)
        self.assertTrue(wait_until(lambda: write().status == 507), "what is received counts")
        client.close()
        self.assertTrue(wait_until(lambda: write().status == 200), "and is given back")


class BoundedLayers(Bounded):
    SETTINGS = "upper_max_bytes = 20000000\n"

    def test_a_restore_finds_the_room_that_is_left_when_it_is_read(self):
        session = self.begin(2_000_000)
        data = session.post("/checkpoint", {}, headers=HEADERS).body
        client = self.send_restore(data[:-1], len(data))
        greedy = self.begin(0)
        greedy.run("head -c 30000000 /dev/zero > big")
        self.assertTrue(wait_until(
            lambda: self.service.post("/v1/isolated/restore", b"", headers=HEADERS).status == 507))
        client.sendall(data[-1:])
        answer = b""
        while piece := client.recv(65536):
            answer += piece
        self.assertTrue(answer.startswith(b"HTTP/1.1 409 "), answer)
        self.assertIn(b"upper_max_bytes", answer)


class Tenants(ServiceTest):
    SETTINGS = ('[[token]]\nname = "one"\nfile = "@BASE@/service/one"\nscopes = ["read", "create"]\n'
                '[[token]]\nname = "two"\nfile = "@BASE@/service/two"\nscopes = ["read", "create"]\n')
    FILES = {"one": "secret-of-one", "two": "secret-of-two"}
    TOKEN = None

    def test_a_token_restores_its_own_checkpoints_alone(self):
        service = self.service
        service.token = "secret-of-one"
        session = service.create(service.workspace("tenant"))
        data = session.post("/checkpoint", {}, headers=HEADERS).body
        service.token = "secret-of-two"
        self.assertEqual(session.post("/fork", {}).status, 404)
        self.assertEqual(session.post("/checkpoint", {}, headers=HEADERS).status, 404)
        replayed = service.post("/v1/isolated/restore", data, headers=HEADERS)
        self.assertEqual(replayed.status, 403, replayed)
        claimed = service.post("/v1/isolated/restore", data, headers=HEADERS, query={"tenant": "token:one"})
        self.assertEqual(claimed.status, 403, claimed)
        service.token = "secret-of-one"
        self.assertEqual(service.post("/v1/isolated/restore", data, headers=HEADERS).status, 201)


class CommandLine(ServiceTest):
    """The same by `glovebox session`, and a session that moves from one service to another."""

    def setUp(self):
        super().setUp()
        self.key = self.service.base / "key"
        self.key.write_text(KEY + "\n")
        self.key.chmod(0o600)
        if TIER == "user":
            os.chown(self.key, USER, USER)

    def command(self, *words, service=None, check=True, data=None):
        service = service or self.service
        done = subprocess.run((AS_USER if TIER == "user" else []) + [str(service.bin / "glovebox"), "session", *words],
                              env={"PATH": "/usr/bin:/bin", "HOME": str(service.base / "service"),
                                   "GLOVEBOX_STATE": str(service.base / "service"),
                                   "GLOVEBOX_HOST": "unix://" + service.socket_path},
                              input=data, capture_output=True, timeout=60, check=False)
        if check:
            self.assertEqual(done.returncode, 0, done)
        return done

    def test_fork_and_list_as_a_tree(self):
        parent = self.service.create(self.service.workspace("tree"))
        parent.out("echo past > file")
        ids = self.command("fork", parent.id, "-n", "2").stdout.decode().split()
        self.assertEqual(len(ids), 2)
        tree = self.command("list", "--tree").stdout.decode().splitlines()
        at = next(i for i, line in enumerate(tree) if line.startswith(parent.id))
        self.assertEqual({tree[at + 1].split()[0], tree[at + 2].split()[0]}, set(ids))
        self.assertTrue(tree[at + 1].startswith("  "))
        self.command("recycle", ids[0], "--drop")
        self.assertEqual(Session(self.service, ids[0]).out("ls"), "")
        Session(self.service, ids[1]).out("echo other > file")
        text = self.command("diff", ids[1], "--from", parent.id).stdout
        self.assertIn(b"-past\n+other\n", text)

    def test_checkpoint_and_restore(self):
        session = self.service.create(self.service.workspace("file"))
        session.out("echo text > file")
        path = str(self.service.data / "file.checkpoint")
        self.assertNotEqual(self.command("checkpoint", session.id, path, check=False).returncode, 0)
        self.assertFalse(os.path.exists(path), "without a key nothing is written")
        self.command("checkpoint", session.id, path, "--key-file", str(self.key))
        self.assertEqual(os.stat(path).st_mode & 0o777, 0o600)
        self.assertEqual(os.listdir(self.service.data), ["file.checkpoint"])
        restored = self.command("restore", path, "--key-file", str(self.key)).stdout.decode().strip()
        self.assertEqual(Session(self.service, restored).out("cat file"), "text")
        os.remove(path)

    def test_a_session_moves_to_another_service(self):
        session = self.service.create(self.service.workspace("moves"))
        session.out("echo moved > file")
        # Over there the same path is reached by both.
        other = Service()
        self.addCleanup(other.close)
        script = other.base / "receive"
        script.write_text(f"#!/bin/sh\nexec env GLOVEBOX_STATE={other.base}/service GLOVEBOX_HOST=unix://{other.socket_path} "
                          f"{other.bin}/glovebox session receive --key-file {self.key}\n")
        script.chmod(0o755)
        self.command("send", session.id, "--key-file", str(self.key), "--", str(script))
        self.assertEqual(session.get().status, 404, "it has left")
        there = other.get("/v1/isolated/sessions").json["sessions"]
        self.assertEqual(len(there), 1)
        self.assertEqual(Session(other, there[0]["session_id"]).out("cat file"), "moved")

    def test_a_session_stays_when_nobody_confirms(self):
        session = self.service.create(self.service.workspace("stays"))
        session.out("echo here > file")
        for peer in (["cat"], ["true"], ["false"], ["sh", "-c", "cat > /dev/null; echo glovebox-received x " + "0" * 64]):
            done = self.command("send", session.id, "--key-file", str(self.key), "--", *peer, check=False)
            self.assertNotEqual(done.returncode, 0, peer)
            self.assertEqual(session.out("cat file"), "here")


if __name__ == "__main__":
    unittest.main()
