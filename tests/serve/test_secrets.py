"""Secrets in sessions: named by a capability or a policy, found as a file that can only be read, and nowhere else."""

import json
import subprocess
import unittest

from service import AS_USER, PATIENCE, TIER, USER, Run, Service, ServiceTest

VALUE = "s3cret-of-a-test"


class Store:
    """What `glovebox secret` keeps for the user of a service."""

    def __init__(self, service):
        self.service = service
        self.directory = service.base / "service" / "secrets"

    def keep(self, name, value):
        words = (AS_USER if TIER == "user" else []) + [str(self.service.bin / "glovebox"), "secret", "set", name]
        environment = {**self.service.environment, "GLOVEBOX_SECRETS": str(self.directory)}
        subprocess.run(words, input=value, text=True, check=True, timeout=PATIENCE, env=environment)


def grant(*names):
    return [{"kind": "secret", "name": name} for name in names]


class Secrets(ServiceTest):
    TOKEN = "token-of-an-admin"
    SETTINGS = """secrets_directory = "@BASE@/service/secrets"
audit_file = "@BASE@/service/audit"
[[token]]
name = "bounded"
file = "@BASE@/service/bounded"
scopes = ["create"]
ceiling = "@BASE@/service/ceiling.yaml"
"""
    FILES = {"bounded": "token-of-a-tenant\n",
             "ceiling.yaml": "version: 1\nfs: {write: [@BASE@/work]}\nsecrets: [for-tenants]\n"}

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.store = Store(cls.service)
        cls.store.keep("api-key", VALUE)
        cls.store.keep("other", "the-other-value")
        cls.store.keep("for-tenants", "a-shared-value")

    def test_one_that_is_allowed_can_be_read_and_not_changed(self):
        session = self.session(capabilities=grant("api-key"))
        self.assertEqual(session.out("cat /run/secrets/api-key"), VALUE)
        self.assertEqual(session.out("ls /run/secrets"), "api-key")
        self.assertNotEqual(session.run("echo x >/run/secrets/api-key").exit_code, 0)
        self.assertNotEqual(session.run("rm -f /run/secrets/api-key").exit_code, 0)
        self.assertEqual(session.out("cat /run/secrets/api-key"), VALUE)

    def test_a_session_without_one_has_none(self):
        session = self.session()
        self.assertNotEqual(session.run("ls /run/secrets").exit_code, 0)

    def test_a_policy_names_them(self):
        session = self.session(policy={"document": "version: 1\nsecrets: [api-key]\n"})
        self.assertEqual(session.out("cat /run/secrets/api-key"), VALUE)

    def test_its_value_is_told_nowhere(self):
        session = self.session(capabilities=grant("api-key"))
        self.assertEqual(session.out("wc -c </run/secrets/api-key").strip(), str(len(VALUE)))
        for answer in (session.get(), session.get("/report"), self.service.get("/v1/isolated/sessions"),
                       self.service.get("/metrics")):
            self.assertNotIn(VALUE, answer.body.decode())
        self.assertIn("secret=api-key", session.get("/report").body.decode())
        self.assertNotIn(VALUE, self.service.log_text())
        self.service.await_removals()
        for path in (self.service.base / "service").rglob("*"):
            if path.is_file() and self.store.directory not in path.parents:
                self.assertNotIn(VALUE.encode(), path.read_bytes(), path)

    def test_one_that_is_not_there_is_refused_with_what_to_do(self):
        path = self.service.workspace(self.name)
        body = {"workspace": {"path": path}, "capabilities": grant("nowhere")}
        answer = self.service.post("/v1/isolated/session", body)
        self.assertStatus(answer, 400, "RUNTIME_ERROR")
        self.assertIn("there is no secret 'nowhere' (set it with 'glovebox secret set nowhere')",
                      json.dumps(answer.json))

    def test_one_that_others_could_read_is_refused(self):
        self.store.keep("open", "x")
        (self.store.directory / "open").chmod(0o644)
        path = self.service.workspace(self.name)
        answer = self.service.post("/v1/isolated/session",
                                   {"workspace": {"path": path}, "capabilities": grant("open")})
        self.assertGreaterEqual(answer.status, 400, answer)
        self.assertIn("others could read or change it", json.dumps(answer.json))

    def test_a_box_made_again_finds_what_is_kept_by_then(self):
        self.store.keep("changing", "before")
        session = self.session(capabilities=grant("changing"))
        self.assertEqual(session.out("cat /run/secrets/changing"), "before")
        self.store.keep("changing", "after")
        self.assertEqual(session.out("cat /run/secrets/changing"), "before", "a box keeps what it was handed")
        self.assertStatus(session.post("/recycle"), 200)
        self.assertEqual(session.out("cat /run/secrets/changing"), "after")

    def test_a_ceiling_is_about_secrets_too(self):
        tenant = {"X-EXECD-ACCESS-TOKEN": "token-of-a-tenant"}
        path = self.service.workspace(self.name)
        made = self.service.post("/v1/isolated/session",
                                 {"workspace": {"path": path}, "capabilities": grant("api-key", "for-tenants")},
                                 headers=tenant)
        self.assertStatus(made, 201)
        session = "/v1/isolated/session/" + made.json["session_id"]
        ended = self.service.post(session + "/run", {"code": "ls /run/secrets; cat /run/secrets/*"}, headers=tenant)
        self.service.delete(session, headers=tenant)
        self.assertEqual(Run(ended.body).out, ["for-tenants", "a-shared-value"])

    def test_no_box_is_handed_the_store(self):
        for body in ({"workspace": {"path": str(self.store.directory)}},
                     {"workspace": {"path": str(self.store.directory.parent)}},
                     {"workspace": {"path": self.service.workspace(self.name)},
                      "binds": [{"source": str(self.store.directory)}]},
                     {"workspace": {"path": self.service.workspace(self.name)},
                      "capabilities": [{"kind": "read_path", "path": str(self.store.directory)}]}):
            answer = self.service.post("/v1/isolated/session", body)
            self.assertEqual(answer.status, 400, answer)
        session = self.session(capabilities=[{"kind": "read_path", "path": str(self.store.directory.parent)}])
        self.assertNotEqual(session.run(f"cat {self.store.directory}/api-key").exit_code, 0)
        self.assertNotIn(VALUE, session.out(f"cat {self.store.directory}/* /proc/*/environ 2>/dev/null; true"))


class AroundTheService(ServiceTest):
    """What is the service's own is in no box, whichever way its place is asked for."""

    TOKEN = "token-of-an-admin"
    SETTINGS = """secrets_directory = "@BASE@/keep/in/secrets"
[[token]]
name = "tenant"
file = "@BASE@/service/tenant"
scopes = ["create"]
"""
    FILES = {"tenant": "token-of-a-tenant\n", "neighbour": "may be seen"}

    def setUp(self):
        super().setUp()
        self.keep = self.service.base / "keep"
        self.own = self.service.base / "service"
        store = self.keep / "in" / "secrets"
        store.mkdir(parents=True, exist_ok=True)
        (store / "key").write_text(VALUE)
        (self.keep / "in" / "plain").write_text("may be seen")
        store.chmod(0o700)
        (store / "key").chmod(0o600)
        if TIER == "user":
            subprocess.run(["chown", "-R", f"{USER}:{USER}", str(self.keep)], check=True)

    def assertSealed(self, session):
        self.assertEqual(session.out(f"cat {self.own}/neighbour"), "may be seen")
        for name in ("tenant", "config.toml"):
            seen = session.run(f"cat {self.own}/{name}")
            self.assertNotEqual(seen.exit_code, 0, seen)
        talk = f"import socket; socket.socket(socket.AF_UNIX).connect('{self.service.socket_path}')"
        self.assertNotEqual(session.run(f'python3 -c "{talk}"').exit_code, 0)

    def test_a_capability_does_not_show_it(self):
        self.assertSealed(self.session(capabilities=[{"kind": "read_path", "path": str(self.own)}]))
        for name in ("tenant", "config.toml"):
            answer = self.service.post("/v1/isolated/session", {
                "workspace": {"path": self.service.workspace(self.name)},
                "capabilities": [{"kind": "read_path", "path": f"{self.own}/{name}"}]})
            self.assertEqual(answer.status, 400, answer)
            self.assertIn(f"{self.own}/{name}", answer.body.decode())

    def test_nor_does_a_policy(self):
        self.assertSealed(self.session(policy={"document": f"version: 1\nfs: {{read: ['{self.own}']}}\n"}))

    def test_no_workspace_that_is_written_is_around_it(self):
        for mode in ("rw", "overlay"):
            answer = self.service.post("/v1/isolated/session", {"workspace": {"path": str(self.keep), "mode": mode}})
            self.assertEqual(answer.status, 400, answer)
            self.assertIn("in it belongs to the service", answer.json["message"])

    def test_moving_it_does_not_show_it(self):
        session = self.session(capabilities=[{"kind": "write_path", "path": str(self.keep)}])
        self.assertNotEqual(session.run(f"cat {self.keep}/in/secrets/key").exit_code, 0)
        self.assertNotEqual(session.run(f"mv {self.keep}/in {self.keep}/out").exit_code, 0)
        self.assertEqual(session.out(f"cat {self.keep}/in/plain"), "may be seen")
        # A user of the host may move it all the same.
        (self.keep / "in").rename(self.keep / "out")
        self.assertStatus(session.post("/recycle"), 200)
        self.assertEqual(session.out(f"cat {self.keep}/out/plain"), "may be seen")
        self.assertNotEqual(session.run(f"cat {self.keep}/out/secrets/key").exit_code, 0)
        self.assertEqual((self.keep / "out" / "secrets" / "key").read_text(), VALUE, "it is there, outside")


class WithoutAStore(unittest.TestCase):
    """A service whose user has no home."""

    def test_a_secret_is_refused_by_a_true_sentence(self):
        service = Service()
        self.addCleanup(service.close)
        if TIER == "root":
            self.skipTest("root's secrets need no home")
        service.stop()
        service.environment.pop("HOME")
        service.start()
        answer = service.post("/v1/isolated/session", {"workspace": {"path": service.workspace("w")},
                                                       "capabilities": grant("api-key")})
        self.assertGreaterEqual(answer.status, 400, answer)
        self.assertIn("secret=api-key: no secrets are kept for boxes that are made here", json.dumps(answer.json))


if __name__ == "__main__":
    unittest.main()
