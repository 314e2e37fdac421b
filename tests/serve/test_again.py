"""Boxes that are made again: by recycle, fork and restore a session gets what it would be given today, and no more."""

import concurrent.futures
import subprocess
import unittest

from service import TIER, USER, Service, ServiceTest, Session, wait_until

KEY = {"X-Glovebox-Key": "07" * 32}


def token(name, more=""):
    return f'[[token]]\nname = "{name}"\nfile = "@BASE@/service/{name}"\nscopes = ["read", "create"]\n{more}'


class Places(ServiceTest):
    """A box that may write beside another session's directory puts something else in its place."""

    def setUp(self):
        super().setUp()
        self.project = self.service.workspace(self.name)
        self.sub = self.service.workspace(self.name + "/sub", file="mine\n")
        self.outside = self.service.base / ("outside-" + self.name)
        self.outside.mkdir()
        (self.outside / "file").write_text("secret\n")
        if TIER == "user":
            subprocess.run(["chown", "-R", str(USER), str(self.outside)], check=True)
        self.writer = self.service.create(self.project, "rw")
        self.addCleanup(self.writer.delete)

    def again(self, session, checkpoint=None):
        """Every way to another box of the session, with what came of it."""
        yield "recycle", session.post("/recycle")
        yield "fork", session.post("/fork", {})
        if checkpoint:
            yield "restore", self.service.post("/v1/isolated/restore", checkpoint, headers=KEY)

    def check_refused(self, session, name, checkpoint=None):
        for what, answer in self.again(session, checkpoint):
            self.assertEqual(answer.status, 403, (what, answer))
            self.assertIn(name, answer.json["message"], what)
            self.assertNotIn(b"secret", answer.body)

    def check_workspace(self, mode):
        session = self.service.create(self.sub, mode)
        self.addCleanup(session.delete)
        session.out("X=alive")
        checkpoint = session.post("/checkpoint", {}, headers=KEY).body
        self.writer.out(f"mv sub old; ln -s {self.outside} sub")
        self.check_refused(session, self.sub, checkpoint)
        self.assertEqual(session.out("echo $X; cat file"), "alive\nmine", "nothing ended")
        self.writer.out("rm sub; mkdir sub")
        self.assertEqual(session.post("/recycle").status, 403, "another directory")
        self.writer.out("rmdir sub; mv old sub")
        for what, answer in self.again(session, checkpoint):
            self.assertIn(answer.status, (200, 201), (what, answer))

    def test_a_link_in_place_of_a_writable_workspace(self):
        self.check_workspace("rw")

    def test_a_link_in_place_of_a_workspace_with_a_layer(self):
        self.check_workspace("overlay")

    def test_a_link_above_it(self):
        deep = self.service.workspace(self.name + "/above/deep", file="mine\n")
        (self.outside / "deep").mkdir()
        session = self.service.create(deep, "rw")
        self.addCleanup(session.delete)
        self.writer.out(f"mv above old; ln -s {self.outside} above")
        self.check_refused(session, deep)

    def test_a_link_in_place_of_a_granted_path(self):
        granted = self.service.workspace(self.name + "/granted", file="mine\n")
        body = {"workspace": {"path": self.service.workspace(self.name + "-other")},
                "capabilities": [{"kind": "read_path", "path": granted}]}
        session = Session(self.service, self.service.post("/v1/isolated/session", body).json["session_id"])
        self.addCleanup(session.delete)
        self.assertEqual(session.out(f"cat {granted}/file"), "mine")
        checkpoint = session.post("/checkpoint", {}, headers=KEY).body
        self.writer.out(f"mv granted old; ln -s {self.outside} granted")
        self.check_refused(session, granted, checkpoint)
        self.writer.out("rm granted; mv old granted")
        self.assertEqual(session.post("/recycle").status, 200)
        self.assertEqual(session.out(f"cat {granted}/file"), "mine")

    def begin_with_policy(self, path):
        body = {"workspace": {"path": self.service.workspace(self.name + "-other")},
                "policy": {"document": f"version: 1\nfs: {{read: [{path}]}}\n"}}
        made = self.service.post("/v1/isolated/session", body)
        self.assertStatus(made, 201)
        session = Session(self.service, made.json["session_id"])
        self.addCleanup(session.delete)
        self.assertEqual(session.out(f"cat {self.sub}/file"), "mine")
        return session, session.post("/checkpoint", {}, headers=KEY).body

    def check_policy(self, path):
        session, checkpoint = self.begin_with_policy(path)
        self.writer.out(f"mv sub old; ln -s {self.outside} sub")
        self.check_refused(session, path, checkpoint)
        self.writer.out("rm sub; mv old sub")
        for what, answer in self.again(session, checkpoint):
            self.assertIn(answer.status, (200, 201), (what, answer))
        self.assertEqual(session.out(f"cat {self.sub}/file"), "mine")
        return session

    def test_a_link_in_place_of_a_path_of_the_policy(self):
        self.check_policy(self.sub)

    def test_a_link_that_the_policy_names_leads_where_it_led(self):
        link = self.project + "/link"
        self.writer.out("ln -s sub link")
        session = self.check_policy(link)
        self.writer.out(f"ln -sfn {self.outside} link")
        self.check_refused(session, link)

    def test_a_link_in_place_of_a_path_with_wildcards(self):
        session, _ = self.begin_with_policy(self.project + "/s*")
        self.writer.out(f"mv sub old; ln -s {self.outside} sub")
        self.assertStatus(session.post("/recycle"), 200)
        self.assertNotEqual(session.run(f"cat {self.sub}/file {self.outside}/file").exit_code, 0)
        self.assertEqual(session.out(f"cat {self.sub}/file {self.outside}/file 2>/dev/null; true"), "")

    def test_a_link_in_place_of_an_interpreter(self):
        for place in (self.project + "/venv", str(self.outside / "venv")):
            subprocess.run(["/usr/bin/python3", "-m", "venv", "--symlinks", "--without-pip", place], check=True)
            if TIER == "user":
                subprocess.run(["chown", "-hR", str(USER), place], check=True)
        made = self.service.post("/v1/isolated/session",
                                 {"python": {"interpreter": self.project + "/venv/bin/python3"}})
        self.assertStatus(made, 201)
        session = Session(self.service, made.json["session_id"])
        self.addCleanup(session.delete)
        self.writer.out(f"mv venv old; ln -s {self.outside}/venv venv")
        answer = session.post("/recycle")
        self.assertStatus(answer, 403)
        self.assertIn(str(self.outside), answer.json["message"])
        self.writer.out("rm venv; mv old venv")
        self.assertStatus(session.post("/recycle"), 200)

    def test_a_link_in_place_of_a_bind(self):
        shared = self.service.data / self.name
        (shared / "mine").mkdir(parents=True)
        if TIER == "user":
            subprocess.run(["chown", "-R", str(USER), str(shared)], check=True)
        writer = self.service.create(self.service.workspace(self.name + "-w"), extra_writable=[str(shared)])
        self.addCleanup(writer.delete)
        session = self.service.create(self.service.workspace(self.name + "-b"), extra_writable=[str(shared / "mine")])
        self.addCleanup(session.delete)
        writer.out(f"cd {shared}; mv mine old; ln -s {self.outside} mine")
        self.check_refused(session, str(shared / "mine"))


class Rules(unittest.TestCase):
    """The token's ceiling and the host's rules are those of today, also for a session of yesterday."""

    def restarted(self, change):
        service = Service(token("one", 'ceiling = "@BASE@/service/ceiling.yaml"\n'),
                          files={"one": "secret-of-one", "ceiling.yaml": "version: 1\nfs: {write: [@BASE@/work]}\n"},
                          token="secret-of-all")
        self.addCleanup(service.close)
        service.token = "secret-of-one"
        session = service.create(service.workspace("place"), "rw")
        service.stop()
        change(service)
        service.start()
        return service, session

    def check_refused(self, service, session):
        for who in ("secret-of-one", "secret-of-all"):
            service.token = who
            for what in ("/recycle", "/fork"):
                answer = session.post(what, {})
                self.assertEqual(answer.status, 403, (who, what, answer))
                self.assertIn(str(service.work / "place"), answer.json["message"])

    def test_a_lower_ceiling(self):
        service, session = self.restarted(
            lambda service: (service.base / "service/ceiling.yaml").write_text(
                f"version: 1\nfs: {{write: [{service.work}/other]}}\n"))
        self.check_refused(service, session)

    def test_a_lower_ceiling_without_writing(self):
        service, session = self.restarted(
            lambda service: (service.base / "service/ceiling.yaml").write_text(
                f"version: 1\nfs: {{write: [{service.work}]}}\nworkspace: overlay\n"))
        self.check_refused(service, session)

    def test_another_allowlist(self):
        def change(service):
            text = service.config.read_text()
            service.config.write_text(text + f'[sessions]\nallowed_workspaces = ["{service.work}/other"]\n')
        service, session = self.restarted(change)
        self.check_refused(service, session)

    def test_what_still_fits_comes_back(self):
        service, session = self.restarted(lambda service: None)
        self.assertEqual(session.post("/recycle", {}).status, 200)
        self.assertEqual(session.post("/fork", {}).status, 201)


class Ceilings(ServiceTest):
    SETTINGS = token("small", 'ceiling = "@BASE@/service/small.yaml"\n')
    FILES = {"small": "secret-of-small",
             "small.yaml": "version: 1\nfs: {write: [@BASE@/work]}\nmemory: 200MiB\npids: 50\ndisk: 4MiB\n"
                           "cpus: 0.5\nworkspace: overlay\n"}

    def ask(self, **body):
        path = self.service.workspace(self.name)
        answer = self.service.post("/v1/isolated/session", {"workspace": {"path": path}, **body},
                                   headers={"X-EXECD-ACCESS-TOKEN": "secret-of-small"})
        if answer.status == 201:
            self.addCleanup(Session(self.service, answer.json["session_id"]).delete)
        return answer

    def test_a_budget_of_the_ceiling_is_not_given_up(self):
        for limit in ("disk", "memory", "pids", "cpus"):
            answer = self.ask(policy={"document": f"version: 1\nwaive: [limit.{limit}]\n"})
            self.assertStatus(answer, 400)
            self.assertIn(f"limit.{limit}", answer.json["message"])

    def test_hardly_any_processor_is_not_all_of_them(self):
        for cpus in (0.0001, "0", 0):
            self.assertStatus(self.ask(limits={"cpus": cpus}), 400)
        if TIER == "root":  # an ordinary user has no such limit here
            self.assertStatus(self.ask(limits={"cpus": 0.001}), 201)

    @unittest.skipIf(TIER == "user", "the ceiling has limits that an ordinary user's service cannot enforce here")
    def test_layers_that_would_be_nobodys_are_not_kept(self):
        session = self.ask().json["session_id"]
        path, headers = f"/v1/isolated/session/{session}", {"X-EXECD-ACCESS-TOKEN": "secret-of-small"}
        self.assertStatus(self.service.request("DELETE", path + "?keep_layers=true", headers=headers), 403)
        self.assertStatus(self.service.get(path, headers=headers), 200)

    def test_workspaces_are_bounded(self):
        answer = self.ask(workspace={"path": self.service.workspace(self.name), "mode": "rw"})
        self.assertStatus(answer, 400)
        self.assertIn("overlay", answer.json["message"])

    def test_a_ceiling_says_nothing_in_vain(self):
        for line in ("backend: process", "waive: [landlock]"):
            with self.assertRaises(RuntimeError) as caught:
                Service(token("small", 'ceiling = "@BASE@/service/small.yaml"\n'),
                        files={"small": "secret-of-small", "small.yaml": f"version: 1\n{line}\n"}).close()
            self.assertIn(line.split(":")[0], str(caught.exception))
            self.assertIn("token small", str(caught.exception))


class Bounds(ServiceTest):
    SETTINGS = token("two", "max_sessions = 2\n") + token("four", "max_sessions = 4\n")
    FILES = {"two": "secret-of-two", "four": "secret-of-four"}

    def together(self, count, work):
        with concurrent.futures.ThreadPoolExecutor(count) as pool:
            return sorted(answer.status for answer in pool.map(work, range(count)))

    def test_a_token_has_no_more_sessions_by_asking_for_all_at_once(self):
        path = self.service.workspace(self.name)
        headers = {"X-EXECD-ACCESS-TOKEN": "secret-of-two"}
        statuses = self.together(12, lambda _: self.service.post(
            "/v1/isolated/session", {"workspace": {"path": path}}, headers=headers))
        self.assertEqual(statuses, [201] * 2 + [429] * 10)

    def test_nor_by_forks_restores_and_what_was_dead(self):
        headers = {"X-EXECD-ACCESS-TOKEN": "secret-of-four"}
        made = self.service.post("/v1/isolated/session", {"workspace": {"path": self.service.workspace(self.name)}},
                                 headers=headers)
        self.assertStatus(made, 201)
        session = Session(self.service, made.json["session_id"])
        session.post("/run", {"code": "echo x > y"}, headers=headers)
        checkpoint = session.post("/checkpoint", {}, headers={**headers, **KEY})
        self.assertStatus(checkpoint, 200)

        def ask(number):
            if number % 2:
                return self.service.post("/v1/isolated/restore", checkpoint.body, headers={**headers, **KEY})
            return session.post("/fork", {"count": 2}, headers=headers)
        self.together(8, ask)
        listed = self.service.get("/v1/isolated/sessions", headers=headers).json["sessions"]
        self.assertLessEqual(len(listed), 4, listed)


class Deep(ServiceTest):
    SETTINGS = "upper_max_bytes = 1000000000\n"
    DEEP = ("import os\n"
            "for i in range({depth}):\n"
            "    os.mkdir({name!r})\n"
            "    os.chdir({name!r})\n")

    def test_a_tree_without_an_end_ends_its_session_alone(self):
        for name, depth in (("d", 5_000), ("n" * 200, 1_000)):
            other = self.service.create(self.service.workspace(self.name + "-other"))
            session = self.service.create(self.service.workspace(self.name))
            session.write("deep.py", self.DEEP.format(depth=depth, name=name))
            session.run("python3 deep.py")
            self.assertTrue(wait_until(lambda: session.state().get("end")), "it goes on")
            self.assertEqual(session.state()["end"]["limit"], "disk")
            self.assertEqual(other.out("echo here"), "here")
            self.assertEqual(session.delete().status, 200)
            self.assertEqual(other.delete().status, 200)
        self.assertIsNone(self.service.process.poll(), "the service is there")


if __name__ == "__main__":
    unittest.main()
