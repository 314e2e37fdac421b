"""Names in sessions: looked up with the servers of the setting `resolver`, and only those that are granted."""

import sys
import unittest
from pathlib import Path

from service import Service, ServiceTest

sys.path.insert(0, str(Path(__file__).parent.parent / "egress"))
import servers  # noqa: E402


class Resolver(ServiceTest):
    @classmethod
    def setUpClass(cls):
        cls.names, cls.web = servers.Names(), servers.Web()
        cls.addClassCleanup(cls.names.close)
        cls.addClassCleanup(cls.web.close)
        cls.SETTINGS = f'resolver = "{cls.names.where}"\n'
        super().setUpClass()

    def granted(self, *hosts):
        return [{"kind": "connect_tcp", "host": host, "ports": [self.web.port, self.web.port]} for host in hosts]

    def test_a_granted_name_is_looked_up_there(self):
        session = self.session(capabilities=self.granted("web.test", servers.ADDRESS))
        self.assertEqual(session.out(f"curl -sS http://web.test:{self.web.port}/page"), "hello /page")
        self.assertIn("web.test", self.names.asked)

    def test_no_other_name_is_asked_for(self):
        session = self.session(capabilities=self.granted("granted.test"))
        self.assertNotEqual(session.run("getent hosts secret.test").exit_code, 0)
        self.assertEqual(session.out("getent hosts granted.test").split()[0], servers.ADDRESS)
        self.assertNotIn("secret.test", self.names.asked)

    def test_what_is_no_name_server_is_refused_at_the_start(self):
        with self.assertRaisesRegex(RuntimeError, "'nowhere:x' is no list of name servers"):
            Service('resolver = "nowhere:x"\n')


if __name__ == "__main__":
    unittest.main()
