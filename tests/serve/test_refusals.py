"""What is wrong with a request is said with the right status, and nothing of it is done."""

import json
import os
import threading
import unittest
from pathlib import Path

from service import ServiceTest, needs_root, wait_until
from websocket import WebSocket


class DoubleKeys(ServiceTest):
    """Readers differ on which of two equal keys counts, and bodies carry authority."""

    def assertDouble(self, answer, key):
        self.assertStatus(answer, 400)
        self.assertIn("'%s' twice" % key, answer.json["message"])

    def test_of_a_session(self):
        path = json.dumps(self.service.workspace(self.name))
        workspace = '"workspace": {"path": %s}' % path
        for body, key in (
                ("{%s, %s}" % (workspace, workspace), "workspace"),
                ('{"workspace": {"path": "/nowhere", "path": %s}}' % path, "path"),
                ('{%s, "capabilities": [{"kind": "env", "kind": "env", "name": "A"}]}' % workspace, "kind"),
                ('{%s, "limits": {"memory": "1GiB", "memory": "2GiB"}}' % workspace, "memory"),
                ('{%s, "labels": {"a": "1", "\\u0061": "2"}}' % workspace, "a"),
                ('{%s, "policy": {"document": "a", "document": "b"}}' % workspace, "document")):
            with self.subTest(body):
                self.assertDouble(self.service.post("/v1/isolated/session", body), key)
        self.assertStatus(self.service.post("/v1/isolated/session", "{%s}" % workspace), 201)

    def test_in_a_policy_that_is_written_out(self):
        body = {"workspace": {"path": self.service.workspace(self.name)},
                "policy": {"document": '{"pids": 5, "pids": 500}'}}
        answer = self.service.post("/v1/isolated/session", body)
        self.assertStatus(answer, 400)
        self.assertIn("twice", answer.json["message"])

    def test_of_everything_else(self):
        session = self.session()
        for path, body, key in (
                ("/run", '{"code": "true", "code": "touch done"}', "code"),
                ("/run", '{"code": "true", "envs": {"A": "1", "A": "2"}}', "A"),
                ("/files/mv", '[{"src": "a", "dest": "b", "dest": "c"}]', "dest"),
                ("/files/replace", '{"a": {"old": "x", "new": "y"}, "a": {"old": "x", "new": "z"}}', "a"),
                ("/commit", '{"only": ["a"], "only": ["*"]}', "only"),
                ("/fork", '{"count": 1, "count": 2}', "count"),
                ("/recycle", '{"layer": "keep", "layer": "drop"}', "layer")):
            with self.subTest(path):
                self.assertDouble(session.post(path, body), key)
        self.assertDouble(self.service.request("PATCH", session.path, '{"name": "a", "name": "b"}'), "name")
        self.assertEqual(session.out("ls -A"), "")

    def test_of_an_upload_and_a_socket(self):
        session = self.session()
        metadata = '{"path": "a", "path": "b"}'
        body = ('--x-boundary\r\nContent-Disposition: form-data; name="metadata"; filename="m"\r\n\r\n%s\r\n'
                '--x-boundary\r\nContent-Disposition: form-data; name="file"; filename="f"\r\n\r\nx\r\n'
                '--x-boundary--\r\n' % metadata)
        answer = session.post("/files/upload", body.encode(),
                              headers={"Content-Type": "multipart/form-data; boundary=x-boundary"})
        self.assertStatus(answer, 400, "INVALID_FILE_METADATA")
        self.assertIn("'path' twice", answer.json["message"])
        socket = WebSocket(self.service.port, session.path + "/pty?pty=0")
        self.addCleanup(socket.close)
        self.assertEqual(json.loads(socket.receive())["type"], "connected")
        socket.send_text('{"type": "start", "code": "true", "code": "touch done"}')
        self.assertIn("'code' twice", json.loads(socket.receive())["message"])


class Variables(ServiceTest):
    BAD = ("A=B", "", "A\0B", "=", "1A", "A B", "A" * 200)

    def test_what_is_no_name_of_a_variable_is_refused(self):
        session = self.session()
        for name in self.BAD:
            with self.subTest(name):
                answer = session.post("/run", {"code": "env > seen", "envs": {name: "1"}})
                self.assertStatus(answer, 400, "INVALID_REQUEST_BODY")
                self.assertIn("envs", answer.json["message"])
        self.assertStatus(session.post("/run", {"code": "true", "envs": {"A": "1\0"}}), 400)
        self.assertStatus(session.post("/run", {"code": "true", "background": True, "envs": {"A=B": "1"}}), 400)
        self.assertEqual(session.out("ls -A"), "")
        self.assertEqual(session.out('printf "%s" "$A"', envs={"A": "B=1"}), "B=1")

    def test_over_a_socket(self):
        session = self.session()
        socket = WebSocket(self.service.port, session.path + "/pty?pty=0")
        self.addCleanup(socket.close)
        socket.receive()
        socket.send_text(json.dumps({"type": "start", "code": "env", "envs": {"A=B": "1"}}))
        answer = json.loads(socket.receive())
        self.assertEqual((answer["type"], answer["code"]), ("error", "INVALID_REQUEST_BODY"))


class Statuses(ServiceTest):
    SETTINGS = "[limits]\nbody_seconds = 1\nbody_bytes = 2000\n"

    def test_undo_without_a_layer(self):
        session = self.session(mode="rw")
        for path in ("/undo", "/commit"):
            self.assertStatus(session.post(path), 400, "NOT_SUPPORTED")
        self.assertStatus(session.get("/diff"), 400, "NOT_SUPPORTED")
        layered = self.service.create(self.service.workspace(self.name + "-layered"))
        self.addCleanup(layered.delete)
        self.assertStatus(layered.post("/undo"), 404, "COMMIT_NOT_FOUND")

    def test_a_body_that_is_too_large_and_one_that_is_late(self):
        answer = self.service.post("/v1/isolated/session", {"name": "in time " * 1000})
        self.assertStatus(answer, 413, "BODY_TOO_LARGE")
        connection = self.service.connect(tcp=True)
        self.addCleanup(connection.close)
        connection.putrequest("POST", "/v1/isolated/session")
        connection.putheader("Content-Length", "100")
        connection.endheaders(b"{")
        answer = connection.getresponse()
        self.assertEqual((answer.status, json.loads(answer.read())["code"]), (408, "TIMEOUT"))

    @needs_root
    def test_a_file_of_another_user_stays_as_it_is(self):
        for mode in ("rw", "overlay"):
            with self.subTest(mode):
                path = self.service.workspace(self.name + mode, mine="m", theirs="t", over="o")
                for name in ("theirs", "over"):
                    os.chown(path + "/" + name, 12345, 12345)
                session = self.service.create(path, mode)
                self.addCleanup(session.delete)
                for answer in (session.move("theirs", "moved"), session.move("mine", "over"), session.remove("theirs"),
                               session.chmod("theirs", mode=600)):
                    self.assertStatus(answer, 403)
                    self.assertIn("belongs to a user or group that the box does not have", answer.json["message"])
                self.assertEqual(session.out("ls"), "mine\nover\ntheirs")
                self.assertStatus(session.move("mine", "moved"), 200)


class Races(ServiceTest):
    """A client waits for the session's shell to commit or fork while others recycle or delete the session."""

    def open_requests(self):
        text = self.service.get("/metrics", headers={"Accept": "text/plain"}).body.decode()
        return float(next(line.split()[1] for line in text.splitlines()
                          if line.startswith("glovebox_http_requests_open ")))

    def wait_behind_a_run(self, session, *paths):
        """Starts a run that does not end by itself and requests that wait for it; their answers, later."""
        self.assertTrue(wait_until(lambda: self.open_requests() == 1))
        session.out("echo made > file")
        answers = {}
        threads = [threading.Thread(target=lambda: session.post("/run", {"code": "touch begun; sleep 1000"}))]
        threads[0].start()
        self.assertTrue(wait_until(lambda: session.info("begun").status == 200))
        for path in paths:
            threads.append(threading.Thread(
                target=lambda path=path: answers.__setitem__(path, session.post(path))))
            threads[-1].start()
            self.assertTrue(wait_until(lambda: self.open_requests() == len(threads) + 1))
        return answers, threads

    def test_deleted_meanwhile(self):
        session = self.service.create(self.service.workspace(self.name))
        answers, threads = self.wait_behind_a_run(session, "/commit", "/fork")
        self.assertStatus(session.delete(), 200)
        for thread in threads:
            thread.join()
        for path in ("/commit", "/fork"):
            self.assertIn(answers[path].status, (404, 409), answers[path])
        self.assertStatus(answers["/commit"], 404)

    def test_recycled_meanwhile(self):
        session = self.session()
        answers, threads = self.wait_behind_a_run(session, "/commit")
        self.assertStatus(session.post("/recycle"), 200)
        for thread in threads:
            thread.join()
        self.assertStatus(answers["/commit"], 200)
        self.assertEqual(Path(session.workspace, "file").read_text(), "made\n")

    def test_recycled_without_its_layer_meanwhile(self):
        session = self.session()
        answers, threads = self.wait_behind_a_run(session, "/commit", "/fork")
        self.assertStatus(session.post("/recycle", {"layer": "drop"}), 200)
        for thread in threads:
            thread.join()
        self.assertStatus(answers["/commit"], 200)
        self.assertEqual(answers["/commit"].json["applied"], [])
        self.assertStatus(answers["/fork"], 201)
        for child in answers["/fork"].json["sessions"]:
            self.service.delete("/v1/isolated/session/" + child["session_id"])


if __name__ == "__main__":
    unittest.main()
