"""What a review of the first service with this API asked for, one test for each, by number."""

import ctypes
import json
import os
import shutil
import socket
import struct
import subprocess
import tempfile
import time
import unittest
from pathlib import Path

from service import PATIENCE, TIER, USER, Service, ServiceTest, Session, multipart, needs_root, wait_until
from without_mounts import refuse_mounts

SECRETS = {"MY_TOKEN": "1", "DB_PASSWORD": "2", "AWS_REGION": "3", "openai_api_key": "4",
           "PLAIN": "5", "LANGUAGE": "xx"}


def hide_cgroups():
    """The mounts of this process alone: an empty tree where cgroups are."""
    libc = ctypes.CDLL(None, use_errno=True)
    new_mounts, private = 0x20000, 0x44000
    if (libc.unshare(new_mounts) or libc.mount(None, b"/", None, private, None)
            or libc.mount(b"tmpfs", b"/sys/fs/cgroup", b"tmpfs", 0, None)):
        os._exit(99)


class WhatIsMissing(unittest.TestCase):
    def create(self, service):
        answer = service.post("/v1/isolated/session", {"workspace": {"path": service.workspace("w")}})
        self.assertEqual(answer.status, 201, answer)
        return answer.json, Session(service, answer.json["session_id"]).get("/report").json

    @needs_root
    def test_root_is_told_of_a_default_limit_that_is_not_enforced(self):
        service = Service(preexec=hide_cgroups)
        try:
            created, report = self.create(service)
            self.assertEqual([each["name"] for each in created["not_enforced"]], ["limit.memory"])
            self.assertIn("cgroup", created["not_enforced"][0]["why"])
            self.assertEqual(report["not_enforced"], created["not_enforced"])
            # Also of one that a former service made.
            service.stop()
            service.start()
            again = Session(service, created["session_id"]).get("/report").json
            self.assertEqual(again["not_enforced"], created["not_enforced"])
        finally:
            service.close()

    def test_nothing_is_said_where_nothing_is_missing(self):
        service = Service()
        try:
            created, report = self.create(service)
            self.assertNotIn("not_enforced", created)
            if TIER == "root":
                self.assertEqual(report["not_enforced"], [])
        finally:
            service.close()


class Availability(unittest.TestCase):
    def test_Requirement01_available_means_that_sessions_can_be_made(self):
        service = Service()
        try:
            found = service.get("/v1/isolated/capabilities").json
            self.assertTrue(found["available"], found)
            session = service.create(service.workspace("w"))
            names = session.out("for n in pid mnt uts ipc net cgroup user; do readlink /proc/self/ns/$n; done")
            own = [os.readlink(f"/proc/self/ns/{name}") for name in
                   ("pid", "mnt", "uts", "ipc", "net", "cgroup", "user")]
            self.assertFalse(set(names.split("\n")) & set(own))
        finally:
            service.close()

    def test_how_many_cells_share_a_worker_is_told_by_both(self):
        python = shutil.which("python3", path="/usr/local/bin:/usr/bin:/bin")
        code = "import sys; print(sys.version_info >= (3, 12))"
        is_shared = subprocess.run([python, "-I", "-S", "-c", code], capture_output=True, text=True, check=True)
        most = 1000 if is_shared.stdout == "True\n" else 1
        service = Service()
        try:
            told = service.get("/v1/isolated/capabilities").json["python"]
            self.assertEqual(told["cells_per_worker"], most)
            self.assertEqual(os.path.realpath(told["interpreter"]), os.path.realpath(python))
            # Its exit code is about boxes.
            doctor = subprocess.run([str(service.bin / "glovebox"), "doctor", "--json"], capture_output=True, check=False)
            features = {each["id"]: each for each in json.loads(doctor.stdout)["features"]}
            self.assertEqual(features["python.cells"]["state"], "ok")
            self.assertIn("every cell has a worker and a box to itself" if most == 1 else f"up to {most} cells",
                          features["python.cells"]["detail"])
        finally:
            service.close()

    def test_Requirement02_overlay_is_tried_before_it_is_promised(self):
        service = Service()
        try:
            found = service.get("/v1/isolated/capabilities").json
            self.assertTrue(found["diff_supported"] and found["commit_supported"], found)
            path = service.workspace("w", a="original")
            session = service.create(path, "overlay")
            session.out("echo changed > a")
            self.assertEqual(Path(path, "a").read_text(), "original")
        finally:
            service.close()

    def test_Requirement03_everything_answers_503_when_boxes_cannot_be_made(self):
        service = Service(preexec=refuse_mounts)
        try:
            found = service.get("/v1/isolated/capabilities")
            self.assertEqual(found.status, 200)
            self.assertFalse(found.json["available"], found)
            self.assertTrue(found.json["message"])
            session = Session(service, "6f1e3b1c-0000-4000-8000-000000000000")
            answers = {
                "create": service.post("/v1/isolated/session", {"workspace": {"path": "/w"}}),
                "list": service.get("/v1/isolated/sessions"),
                "get": session.get(),
                "delete": session.delete(),
                "run": session.post("/run", {"code": "true"}),
                "status": session.get("/runs/x"),
                "logs": session.get("/runs/x/logs"),
                "diff": session.get("/diff"),
                "commit": session.post("/commit"),
                "info": session.info("/w/a"),
                "download": session.download("/w/a"),
                "upload": session.upload(({"path": "/w/a"}, b"x")),
                "remove": session.remove("/w/a"),
                "mv": session.move("/w/a", "/w/b"),
                "chmod": session.chmod("/w/a", mode=644),
                "replace": session.replace("/w/a", "x", "y"),
                "search": session.search("/w"),
                "list files": session.list("/w"),
                "mkdir": session.post("/directories", {"/w/d": {"mode": 755}}),
                "rmdir": session.remove_directories("/w/d"),
            }
            for name, answer in answers.items():
                self.assertEqual(answer.status, 503, f"{name}: {answer}")
                self.assertEqual(answer.code, "SERVICE_UNAVAILABLE", name)
        finally:
            service.close()


    def test_boxes_are_tried_again_when_they_could_not_be_made(self):
        base = Path(tempfile.mkdtemp(prefix="glovebox-serve-", dir="/var/tmp"))
        self.addCleanup(shutil.rmtree, base)
        layers = base / "state" / "layers"
        layers.mkdir(mode=0o700, parents=True)
        (base / "state").chmod(0o700)
        if TIER == "user":
            subprocess.run(["chown", "-R", f"{USER}:{USER}", str(base)], check=True)
        if subprocess.run(["chattr", "+i", str(layers)], check=False).returncode != 0:  # no layer can be made there then
            self.skipTest("the filesystem of /var/tmp knows no directories that cannot be changed")
        self.addCleanup(subprocess.run, ["chattr", "-i", str(layers)], check=True)
        service = Service(state=base / "state")
        self.addCleanup(service.close)
        self.assertFalse(service.get("/v1/isolated/capabilities").json["available"])
        body = {"workspace": {"path": service.workspace("again")}}
        self.assertEqual(service.post("/v1/isolated/session", body).status, 503)
        subprocess.run(["chattr", "-i", str(layers)], check=True)
        self.assertTrue(wait_until(lambda: service.get("/v1/isolated/capabilities").json["available"]))
        self.assertEqual(service.post("/v1/isolated/session", body).status, 201)


class Create(ServiceTest):
    ENVIRONMENT = SECRETS

    def layers(self):
        return len(list(self.service.state.glob("layers/[!.]*/box/upper")))

    def test_Requirement04_bodies_are_checked_before_anything_is_made(self):
        before = self.layers()
        for body in ({}, {"workspace": {}}, {"workspace": {"path": ""}}, {"workspace": {"path": 5}},
                     {"workspace": {"path": "relative"}}, [], "text",
                     {"workspace": {"path": "/x"}, "profile": "other"},
                     {"workspace": {"path": "/x"}, "uid": -1},
                     {"workspace": {"path": str(self.service.work / "not-made")}, "uid_mode": "x"}):
            self.assertStatus(self.service.post("/v1/isolated/session", json.dumps(body)), 400,
                              "INVALID_REQUEST_BODY")
        self.assertStatus(self.service.post("/v1/isolated/session", "{not json"), 400,
                          "INVALID_REQUEST_BODY")
        self.assertEqual(self.layers(), before)
        self.assertFalse((self.service.work / "not-made").exists())
        self.assertEqual(self.service.get("/v1/isolated/sessions").json["sessions"], [])

    def test_Requirement05_an_unknown_mode_is_refused(self):
        for mode in ("", "RW", "overlayfs", "readonly"):
            answer = self.service.post("/v1/isolated/session",
                                       {"workspace": {"path": "/x", "mode": mode}})
            self.assertStatus(answer, 400, "INVALID_REQUEST_BODY")

    def test_Requirement06_a_missing_workspace_is_made_and_can_be_written(self):
        base = self.service.workspace(self.name)
        path = base + "/deep/er"
        session = self.service.create(path, "rw", uid=1234, gid=1234)
        self.addCleanup(session.delete)
        session.out("echo hi > made")
        self.assertEqual(Path(path, "made").read_text(), "hi\n")

    def test_Requirement07_an_omitted_idle_timeout_is_not_zero(self):
        self.assertEqual(self.session().state()["idle_timeout_seconds"], 1800)
        never = self.session(idle_timeout_seconds=0).state()
        self.assertEqual(never["idle_timeout_seconds"], 0)
        self.assertNotIn("idle_remaining_seconds", never)

    def test_Requirement08_omitted_profile_and_mode_are_strict_and_overlay(self):
        state = self.session(mode=None).state()
        self.assertEqual(state["profile"], "strict")
        self.assertEqual(state["workspace"]["mode"], "overlay")

    def test_Requirement09_secrets_of_the_service_are_not_passed_on(self):
        seen = self.session().out("env")
        for name in ("MY_TOKEN", "DB_PASSWORD", "AWS_REGION", "openai_api_key"):
            self.assertNotIn(name, seen)
        self.assertIn("PLAIN=5", seen)

    def test_Requirement10_the_allowlist_is_about_components_of_resolved_paths(self):
        data = self.service.data
        for name in ("scratch", "scratch2"):
            (data / name).mkdir(exist_ok=True)
        (data / "link").symlink_to("/etc")
        outside = Path(str(data) + "2")
        outside.mkdir(exist_ok=True)
        path = self.service.workspace(self.name)
        for bad in (outside, data / "scratch/../../work", data / "link", "/etc", data / "missing"):
            answer = self.service.post("/v1/isolated/session", {
                "workspace": {"path": path}, "extra_writable": [str(bad)]})
            self.assertStatus(answer, 400, "RUNTIME_ERROR")
        if TIER == "user":
            os.chown(data / "scratch", 65533, 65533)
        session = self.session(extra_writable=[str(data / "scratch")])
        session.out(f"echo hi > {data}/scratch/made")
        self.assertEqual((data / "scratch/made").read_text(), "hi\n")

    def test_Requirement11_ids_without_a_name_work(self):
        session = self.session(uid=54321, gid=54322)
        self.assertEqual(session.out("id -u; id -g"), "54321\n54322")

    def test_Requirement12_create_fails_when_the_box_does_not_come_up(self):
        path = self.service.workspace(self.name)
        answer = self.service.post("/v1/isolated/session", {
            "workspace": {"path": path}, "limits": {"open_files": 1}})
        self.assertGreaterEqual(answer.status, 400, answer)
        self.assertEqual([session for session in self.service.get("/v1/isolated/sessions").json["sessions"]
                          if session["status"] == "active"], [])

    def test_Requirement13_tmp_is_private_also_when_the_workspace_is_there(self):
        marker = f"gb-{os.getpid()}"
        Path("/tmp", marker).write_text("host")
        self.addCleanup(Path("/tmp", marker).unlink)
        below = f"/tmp/{marker}-w"
        os.mkdir(below)
        self.addCleanup(lambda: subprocess.run(["rm", "-rf", below], check=True))
        if TIER == "user":
            os.chown(below, 65533, 65533)
        session = self.service.create(below, "rw")
        self.addCleanup(session.delete)
        self.assertEqual(session.out("ls /tmp"), f"{marker}-w")
        session.out(f"touch /tmp/{marker}-inside")
        self.assertFalse(os.path.exists(f"/tmp/{marker}-inside"))

    def test_Requirement14_no_session_sees_the_layers_of_another(self):
        other = self.session()
        other.out("echo secret > mine")
        path = self.service.workspace(self.name + "2")
        for mode in ("rw", "ro", "overlay"):
            session = self.service.create(path, mode)
            self.addCleanup(session.delete)
            self.assertNotEqual(session.run(f"ls {self.service.state}").exit_code, 0)
            self.assertNotEqual(session.run(f"ls {self.service.base}/service").exit_code, 0)
        answer = self.service.post("/v1/isolated/session",
                                   {"workspace": {"path": str(self.service.state)}})
        self.assertStatus(answer, 400, "RUNTIME_ERROR")

    def test_Requirement15_layers_are_private(self):
        session = self.session()
        session.out("touch x")
        uppers = list(self.service.state.glob("layers/[!.]*/box/upper"))
        self.assertTrue(uppers)
        for upper in uppers:
            closed = any((parent.stat().st_mode & 0o077) == 0 for parent in
                         [upper, *upper.parents][:4])
            self.assertTrue(closed, upper)

    def test_Requirement16_sessions_leave_no_descriptors(self):
        def count():
            return len(os.listdir(f"/proc/{self.service.process.pid}/fd"))
        path = self.service.workspace(self.name)
        for _ in range(3):
            self.service.create(path).delete()
        before = count()
        for _ in range(20):
            session = self.service.create(path)
            session.out("true")
            session.delete()
        self.assertTrue(wait_until(lambda: count() <= before + 1), f"{before} -> {count()}")


class Runs(ServiceTest):
    def test_Requirement17_code_is_required(self):
        session = self.session()
        for body in ({}, {"code": ""}, {"code": None}, {"code": 5}, {"code": "x", "timeout_seconds": -1}):
            self.assertStatus(session.post("/run", body), 400, "INVALID_REQUEST_BODY")

    def test_Requirement18_an_unknown_session_is_told_before_the_stream(self):
        answer = self.service.post("/v1/isolated/session/none/run", {"code": "true"})
        self.assertStatus(answer, 404, "SESSION_NOT_FOUND")
        self.assertIn("application/json", answer.headers["Content-Type"])

    def test_Requirement19_failures_have_their_exit_code(self):
        session = self.session()
        for code, expected in (("false", 1), ("exit 2", 2), ("(exit 13)", 13), ("no-such-command", 127)):
            run = session.run(code)
            self.assertEqual(run.last["error"]["ename"], "ExitError")
            self.assertEqual(run.last["error"]["evalue"], str(expected))
            self.assertEqual(run.last["text"], f"command exited with code {expected}")
            self.assertNotIn("execution_complete", [event["type"] for event in run.events])

    def test_Requirement20_a_shell_that_dies_is_a_failure(self):
        session = self.session()
        self.assertNotEqual(session.run("kill -9 $$").exit_code, 0)
        self.assertEqual(session.run("exit 7").exit_code, 7)

    def test_Requirement21_after_the_shell_is_gone_the_session_works(self):
        session = self.session()
        session.run("exit 3")
        session.run("kill -9 $$")
        self.assertEqual(session.state()["status"], "active")
        self.assertEqual(session.out("echo again"), "again")

    def test_Requirement22_timeouts_are_enforced(self):
        session = self.session()
        start = time.monotonic()
        run = session.run("trap '' INT TERM; while :; do sleep 60; done", timeout_seconds=1)
        self.assertLess(time.monotonic() - start, 10)
        self.assertEqual(run.last["error"]["evalue"], "context deadline exceeded")
        self.assertEqual(session.out("echo usable; pgrep -c -r D,R,S,T sleep || true"), "usable\n0")

    def test_Requirement23_a_client_that_goes_away_ends_its_run(self):
        session = self.session()
        body = json.dumps({"code": "echo started; sleep 1000; echo over > over"}).encode()
        client = socket.create_connection(("127.0.0.1", self.service.port))
        client.sendall(b"POST " + session.path.encode() + b"/run HTTP/1.1\r\nHost: localhost\r\n"
                       b"Content-Length: " + str(len(body)).encode() + b"\r\n\r\n" + body)
        self.assertIn(b"started", client.recv(65536))
        client.close()
        start = time.monotonic()
        self.assertEqual(session.out("echo usable; pgrep -c -r D,R,S,T sleep || true"), "usable\n0")
        self.assertLess(time.monotonic() - start, 10)

    def test_Requirement24_variables_of_a_run_are_its_own(self):
        session = self.session()
        run = session.run("echo $A; cd /; export B=kept", envs={"A": "it's \"here\"\n;x"})
        self.assertEqual(run.exit_code, 0)
        self.assertEqual(run.out, ["it's \"here\" ;x"] if len(run.out) == 1 else run.out)
        self.assertEqual(session.out("echo ${A-unset} $B; pwd"), "unset kept\n/")

    def test_Requirement25_the_end_of_a_run_cannot_be_forged(self):
        session = self.session()
        self.assertEqual(session.out("cat"), "", "there is nothing on its input")
        self.assertEqual(session.out("printf no-newline"), "no-newline")
        start = time.monotonic()
        self.assertNotEqual(session.run("echo 'unterminated", timeout_seconds=10).exit_code, 0)
        self.assertLess(time.monotonic() - start, 8)
        self.assertEqual(session.out("ls -l /proc/self/fd | wc -l; echo usable").split()[-1], "usable")

    def test_Requirement26_idle_time_counts_from_the_end_of_a_run(self):
        session = self.session(idle_timeout_seconds=2)
        self.assertEqual(session.out("sleep 5; echo done"), "done")
        self.assertEqual(session.state()["status"], "active")
        self.assertTrue(wait_until(lambda: session.state().get("status") != "active", 15), session.get())


class LayersTest(ServiceTest):
    def uppers(self):
        # Not those that are being removed.
        return list(self.service.state.glob("layers/[!.]*/box/upper"))


class Storage(LayersTest):
    def test_Requirement27_delete_removes_the_layer(self):
        session = self.session()
        before = len(self.uppers())
        session.out("echo x > y")
        session.delete()
        self.assertTrue(wait_until(lambda: len(self.uppers()) < before))

    def test_changes_of_an_idle_session_are_kept(self):
        before = len(self.uppers())
        session = self.session(idle_timeout_seconds=1)
        session.out("echo x > y")
        self.assertTrue(wait_until(lambda: session.get().status == 404, 20), session.get())
        self.assertTrue(wait_until(lambda: list(self.service.state.glob("layers/[!.]*/kept.json"))))
        self.assertEqual(len(self.uppers()), before + 1)


class IdleStorage(LayersTest):
    SETTINGS = "[sessions]\non_idle = \"delete\"\n"

    def test_Requirement28_so_does_the_end_of_an_idle_session(self):
        before = len(self.uppers())
        session = self.session(idle_timeout_seconds=1)
        session.out("echo x > y")
        self.assertTrue(wait_until(lambda: session.get().status == 404, 20), session.get())
        self.assertTrue(wait_until(lambda: len(self.uppers()) <= before))


class FullStorage(ServiceTest):
    SETTINGS = "upper_max_bytes = 1000000\n"

    def test_Requirement29_full_layers_refuse_sessions(self):
        session = self.session()
        answer = session.upload(({"path": "big"}, b"x" * 2_000_000))
        self.assertStatus(answer, 507)
        self.assertNotEqual(session.run("test -e big").exit_code, 0, "a file is whole or not there")
        session.run("head -c 2000000 /dev/zero > big")

        def is_refused():
            answer = self.service.post("/v1/isolated/session", {"workspace": {"path": session.workspace}})
            if answer.status == 201:
                Session(self.service, answer.json["session_id"]).delete()
            return answer.status == 507
        self.assertTrue(wait_until(is_refused))


class BoundedStorage(ServiceTest):
    def test_Requirement30_what_a_box_writes_is_bounded(self):
        path = self.service.workspace(self.name)
        answer = self.service.post("/v1/isolated/session", {
            "workspace": {"path": path}, "limits": {"disk": "2MiB"}})
        if answer.status != 201:
            # What cannot be enforced here is refused, never promised.
            self.assertIn(answer.status, (400, 503), answer)
            return
        session = Session(self.service, answer.json["session_id"])
        self.addCleanup(session.delete)
        self.assertNotEqual(session.run("head -c 8M /dev/zero > big").exit_code, 0)
        try:
            self.assertGreaterEqual(session.upload(({"path": "big2"}, b"x" * 3_000_000)).status, 400)
        except (BrokenPipeError, ConnectionResetError):
            pass  # the refusal came while this was still sending
        self.assertNotEqual(session.run("test -e big2").exit_code, 0, "a file is whole or not there")


class Files(ServiceTest):
    def test_Requirement31_info_takes_repeated_paths(self):
        session = self.session(files={"a": "1", "b b": "22"})
        answer = session.info("a", session.workspace + "/b b")
        self.assertStatus(answer, 200)
        self.assertEqual({path: info["size"] for path, info in answer.json.items()},
                         {"a": 1, session.workspace + "/b b": 2})
        self.assertStatus(session.info("a", "missing"), 404, "FILE_NOT_FOUND")

    def test_Requirement32_delete_takes_repeated_paths(self):
        session = self.session(files={"a": "1", "b": "2", "c": "3"})
        self.assertStatus(session.remove("a", session.workspace + "/b"), 200)
        self.assertEqual(session.out("ls"), "c")

    def test_Requirement33_so_does_deleting_directories(self):
        session = self.session()
        session.out("mkdir -p a/x b/y; touch a/x/f keep")
        self.assertStatus(session.remove_directories("a", "b"), 200)
        self.assertEqual(session.out("ls"), "keep")

    def test_Requirement34_the_document_says_what_is_served(self):
        text = self.service.get("/openapi.yaml").body.decode()
        self.assertIn("openapi: 3", text)
        self.assertIn("/v1/isolated/session/{id}/files/mv:", text)

    def test_Requirement35_a_request_that_names_nothing_is_refused(self):
        session = self.session()
        self.assertStatus(self.service.delete(session.path + "/files"), 400, "MISSING_QUERY")
        self.assertStatus(self.service.delete(session.path + "/directories"), 400, "MISSING_QUERY")
        for path, body in (("/files/mv", []), ("/files/permissions", {}), ("/files/replace", {}),
                           ("/directories", {})):
            self.assertStatus(session.post(path, body), 400, "INVALID_REQUEST_BODY")
        self.assertStatus(session.upload(), 400, "INVALID_FILE_METADATA")

    def test_Requirement36_mv_takes_a_list(self):
        session = self.session(files={"a": "1", "b": "2"})
        answer = session.post("/files/mv", [{"src": "a", "dest": "x"}, {"src": "b", "dest": "y"}])
        self.assertStatus(answer, 200)
        self.assertEqual(answer.headers["Content-Length"], "0")
        self.assertEqual(session.out("ls"), "x\ny")
        self.assertStatus(session.move("missing", "z"), 404, "FILE_NOT_FOUND")

    def test_Requirement37_replace_takes_a_map(self):
        session = self.session(files={"a": "x1x2", "b": "y"})
        answer = session.post("/files/replace", {"a": {"old": "x", "new": "z"}, "b": {"old": "q", "new": ""}},
                              query={"verbose": "true"})
        self.assertEqual(answer.json, {"a": {"replacedCount": 2}, "b": {"replacedCount": 0}})
        self.assertEqual(session.read("a"), "z1z2")
        self.assertStatus(session.replace("a", "", "y"), 400)
        self.assertStatus(session.replace("missing", "x", "y"), 404)

    def test_Requirement38_directories_take_a_map_with_modes(self):
        session = self.session()
        self.assertStatus(session.post("/directories", {"p/q": {"mode": 750}, "r": {}}), 200)
        self.assertEqual(session.out("stat -c %a p/q r"), "750\n755")

    def test_Requirement39_uploads_name_their_place_in_the_metadata(self):
        session = self.session()
        self.assertStatus(session.upload(({"path": "d/a"}, b"1"), ({"path": session.workspace + "/b"}, b"2")), 200)
        self.assertEqual(session.out("cat d/a b"), "12")

    def test_Requirement40_search_gives_infos(self):
        session = self.session(files={"a__txt": "1", "b__txt": "2", "c__md": "3"})
        found = session.search(session.workspace, "*.txt").json
        self.assertEqual(sorted(info["path"] for info in found), ["a.txt", "b.txt"])
        self.assertEqual({info["type"] for info in found}, {"file"})

    def test_Requirement41_directories_can_be_listed(self):
        session = self.session()
        session.out("mkdir -p d/e; touch a d/b d/e/c; ln -s / link")
        path = session.workspace
        names = lambda depth: [info["path"][len(path) + 1:] for info in session.list(path, depth).json]
        self.assertEqual(names(None), ["a", "d", "link"])
        self.assertEqual(names(2), ["a", "d", "d/b", "d/e", "link"])
        self.assertEqual(names(0), [])
        self.assertStatus(session.list(path + "/missing"), 404)
        self.assertStatus(session.list(path, "x"), 400)

    def test_Requirement42_modes_of_chmod_are_octal_digits(self):
        session = self.session(files={"a": ""})
        self.assertStatus(session.chmod("a", mode=640), 200)
        self.assertEqual(session.out("stat -c %a a"), "640")
        self.assertStatus(session.chmod("a", mode=698), 400)

    def test_Requirement43_chmod_sets_the_owner_too(self):
        session = self.session(files={"a": ""})
        uid, gid = session.out("id -u; id -g").split()
        self.assertStatus(session.chmod("a", mode=600, owner=uid, group=gid), 200)
        info = session.info("a").json["a"]
        self.assertEqual(session.out("stat -c %u:%g a"), f"{uid}:{gid}")
        self.assertEqual(info["mode"], 600)
        self.assertNotEqual(session.chmod("a", owner="no-such-user").status, 200)

    def test_Requirement44_modes_of_uploads_are_octal_digits(self):
        session = self.session()
        session.write("a", "x", mode=755)
        session.write("b", "x")
        session.write("c", "x", mode=0)
        self.assertEqual(session.out("stat -c %a a b c"), "755\n644\n644")

    def test_Requirement45_infos_have_octal_digits(self):
        session = self.session()
        session.out("touch a; chmod 751 a; mkdir d; chmod 1777 d")
        infos = session.info("a", "d").json
        self.assertEqual(infos["a"]["mode"], 751)
        self.assertEqual(infos["d"]["mode"], 777)


class OverlayFiles(ServiceTest):
    def test_Requirement46_a_moved_file_is_gone_from_its_place(self):
        session = self.session(files={"a": "1"})
        self.assertStatus(session.move("a", "b"), 200)
        self.assertStatus(session.info("a"), 404)
        self.assertEqual(session.out("ls"), "b")
        self.assertEqual(os.listdir(session.workspace), ["a"])

    def test_Requirement47_a_deleted_file_is_hidden(self):
        session = self.session(files={"a": "1", "b": "2"})
        self.assertStatus(session.remove("a"), 200)
        self.assertEqual(session.out("ls"), "b")
        self.assertEqual(sorted(os.listdir(session.workspace)), ["a", "b"])
        self.assertStatus(session.remove("a"), 404)

    def test_Requirement48_so_is_a_deleted_directory(self):
        path = self.service.workspace(self.name)
        os.makedirs(path + "/d/e")
        Path(path, "d/e/f").write_text("1")
        session = self.service.create(self.service.workspace(self.name))
        self.addCleanup(session.delete)
        self.assertStatus(session.remove_directories("d"), 200)
        self.assertNotEqual(session.run("test -e d").exit_code, 0)
        self.assertTrue(Path(path, "d/e/f").exists())

    def test_Requirement49_infos_honour_what_the_session_deleted(self):
        session = self.session(files={"a": "1", "b": "2"})
        session.out("rm a")
        self.assertStatus(session.info("a"), 404)
        self.assertEqual([info["path"] for info in session.search(session.workspace).json
                          if info["type"] == "file"], ["b"])

    def test_Requirement50_so_do_downloads(self):
        session = self.session(files={"a": "1"})
        session.out("rm a; mkdir a; rmdir a")
        self.assertStatus(session.download("a"), 404, "FILE_NOT_FOUND")

    def test_Requirement51_chmod_leaves_the_original(self):
        session = self.session(files={"a": "1"})
        os.chmod(session.workspace + "/a", 0o644)
        session.out("mkdir -p d")
        self.assertStatus(session.chmod("a", mode=755), 200)
        self.assertEqual(session.info("a").json["a"]["mode"], 755)
        self.assertEqual(os.stat(session.workspace + "/a").st_mode & 0o777, 0o644)
        self.assertStatus(session.chmod("d", mode=700), 200)

    def test_Requirement52_replace_keeps_the_mode(self):
        session = self.session(files={"a": "old"})
        session.chmod("a", mode=751)
        self.assertStatus(session.replace("a", "old", "new"), 200)
        self.assertEqual(session.out("cat a; stat -c %a a"), "new751")
        self.assertEqual(Path(session.workspace, "a").read_text(), "old")

    def test_Requirement53_what_is_written_is_seen_by_the_running_session(self):
        session = self.session()
        self.assertNotEqual(session.run("cat a").exit_code, 0)
        session.write("a", "1")
        self.assertEqual(session.out("cat a"), "1")
        session.out("echo 2 > b")
        self.assertEqual(session.read("b"), "2\n")

    def test_Requirement54_files_belong_to_the_user_of_the_session(self):
        session = self.session(uid=1234, gid=1235)
        session.write("a", "1")
        self.assertEqual(session.out("stat -c %u:%g a"), "1234:1235")

    def test_Requirement55_links_lead_nowhere_outside(self):
        secret = self.service.base / "secret"
        secret.write_text("secret")
        session = self.session()
        session.out(f"ln -s {secret} out; ln -s {self.service.base} up; ln -s /etc/passwd inside")
        self.assertNotEqual(session.download("out").status, 200)
        self.assertNotEqual(session.download("up/secret").status, 200)
        self.assertStatus(session.download("../../secret"), 400)
        self.assertStatus(session.download(str(secret)), 400)
        self.assertNotEqual(session.upload(({"path": "up/planted"}, b"x")).status, 200)
        self.assertFalse((self.service.base / "planted").exists())

    def test_Requirement56_absolute_and_relative_paths_mean_the_same(self):
        session = self.session()
        session.write(session.workspace + "/a", "1")
        session.write("b", "2")
        self.assertEqual(session.out("ls"), "a\nb")
        self.assertEqual(session.read("a"), "1")
        self.assertEqual(session.read(session.workspace + "/b"), "2")


class Packaging(unittest.TestCase):
    def test_Requirement57_a_missing_part_is_not_passed_over(self):
        service = Service()
        try:
            service.stop()
            (service.bin / "glovebox-launcher").unlink()
            ended = subprocess.run([str(service.bin / "glovebox"), "serve", "--config", str(service.config)],
                                   env=service.environment, capture_output=True, timeout=PATIENCE)
            self.assertEqual(ended.returncode, 125)
            self.assertIn(b"glovebox-launcher", ended.stderr)
        finally:
            service.close()

    def test_Requirement58_what_is_claimed_of_the_walls_is_there(self):
        service = Service()
        try:
            walls = service.get("/v1/isolated/capabilities").json["hardening"]
            self.assertEqual(walls["seccomp"]["state"], "active")
            session = service.create(service.workspace("w"))
            status = session.out("grep -E '^(Seccomp|NoNewPrivs|CapEff|CapBnd):' /proc/self/status")
            self.assertIn("Seccomp:\t2", status)
            self.assertIn("NoNewPrivs:\t1", status)
            self.assertIn("CapEff:\t0000000000000000", status)
            self.assertEqual(session.out("readlink /proc/1/exe || echo hidden; echo $$ | wc -c"), session.out(
                "readlink /proc/1/exe || echo hidden; echo $$ | wc -c"))
        finally:
            service.close()


if __name__ == "__main__":
    unittest.main(verbosity=2)
