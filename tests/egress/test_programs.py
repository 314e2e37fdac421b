"""Programs as people use them, with nothing said to them about a box: a grant of the host they need is all.

GLOVEBOX_BINARY names the command, GLOVEBOX_TIER is "root" or "user", GLOVEBOX_CLIENTS is where tests/clients/install.sh has put
Node and its packages."""

import glob
import os
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

import servers

BINARY = os.environ.get("GLOVEBOX_BINARY", "build/glovebox")
CLIENTS = Path(os.environ.get("GLOVEBOX_CLIENTS", Path(BINARY).parent / "clients"))
TIER = os.environ.get("GLOVEBOX_TIER", "root")
USER = 65533
AS_USER = ["setpriv", "--reuid", str(USER), "--regid", str(USER), "--clear-groups"]
SOURCES = Path(__file__).parent / "programs"
PYTHON = "/usr/bin/python3"


def find(*paths):
    """The first of these files that is there."""
    return next((str(path) for path in paths if path and Path(path).exists()), None)


NODE = find("/usr/bin/node", CLIENTS / "python/bin/node")
NPM = find("/usr/bin/npm", CLIENTS / "python/bin/npm")
GO = find(shutil.which("go"), "/usr/local/go/bin/go", "/usr/bin/go")
JAVA = find("/usr/bin/java")


def needs(program, what, why="is too large to be installed for this test"):
    return unittest.skipUnless(program, f"{what} is not on this machine, and {why}")


class Programs(unittest.TestCase):
    maxDiff = None

    @classmethod
    def setUpClass(cls):
        cls.base = Path(tempfile.mkdtemp(prefix="glovebox-programs-", dir="/var/tmp"))
        cls.base.chmod(0o755)
        for name in ("glovebox", "glovebox-launcher"):
            shutil.copy(Path(BINARY).parent / name, cls.base / name)
        cls.names = servers.Names()
        cls.certificate = (cls.base / "cert.pem", cls.base / "key.pem")
        subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=web.test",
                        "-addext", "subjectAltName=DNS:web.test", "-out", cls.certificate[0], "-keyout",
                        cls.certificate[1]], check=True, capture_output=True)
        cls.ca = str(cls.certificate[0])
        cls.web = servers.Web()

    @classmethod
    def tearDownClass(cls):
        cls.web.close()
        cls.names.close()
        shutil.rmtree(cls.base)

    def serve(self, server):
        self.addCleanup(server.close)
        return server

    def box(self, port, command, read=(), options=(), expect=0):
        """Runs a command in a box that may connect to web.test at that port, and returns what it printed."""
        words = [] if TIER == "root" else list(AS_USER)
        words += [str(self.base / "glovebox"), "run", "--resolver", self.names.where, "--read", str(self.base)]
        for path in read:
            words += ["--read", str(path)]
        # A name's grant reaches public addresses; those of a test are loopback, and granted too.
        for host in ("web.test", servers.ADDRESS):
            words += ["--allow", f"connect={host}:{port}"]
        words += [*options, "--", *map(str, command)]
        done = subprocess.run(words, capture_output=True, text=True, timeout=180, stdin=subprocess.DEVNULL,
                              env={"PATH": "/usr/bin:/bin", "HOME": str(self.base)})
        self.assertEqual(done.returncode, expect, done.stdout + done.stderr)
        self.assertNotIn("glovebox: denied: connect", done.stderr)
        return done.stdout

    def script(self, port, text, **more):
        return self.box(port, ["bash", "-ec", "cd /tmp; export HOME=/tmp\n" + text], **more)

    def url(self, path, server=None, scheme="http"):
        return f"{scheme}://web.test:{(server or self.web).port}{path}"

    def test_curl_with_tls_and_http2(self):
        docs = self.base / "docs"
        docs.mkdir(exist_ok=True)
        (docs / "page").write_text("over two\n")
        key, certificate = self.certificate[1], self.certificate[0]
        for options, scheme, curl in ((["--no-tls"], "http", ["--http2-prior-knowledge"]),
                                      ([], "https", ["--http2", "--cacert", self.ca])):
            with self.subTest(scheme=scheme):
                server = self.serve(servers.Program(
                    lambda port, options=options: ["nghttpd", f"--address={servers.ADDRESS}", "-d", docs, *options,
                                                   str(port)] + ([] if options else [key, certificate])))
                out = self.box(server.port, ["curl", "-sS", *curl, "-w", "%{http_version}",
                                             self.url("/page", server, scheme)])
                self.assertEqual(out, "over two\n2")
        tls = self.serve(servers.Web(certificate=self.certificate))
        self.assertEqual(self.box(tls.port, ["curl", "-sS", "--cacert", self.ca, self.url("/s", tls, "https")]), "hello /s\n")

    def repository(self):
        work, bare = self.base / "work", self.base / "git" / "r.git"
        if not bare.exists():
            git = ["git", "-c", "user.name=a", "-c", "user.email=a@b", "-C", work]
            work.mkdir()
            subprocess.run([*git, "init", "-q", "-b", "main"], check=True)
            (work / "file").write_text("from git\n")
            subprocess.run([*git, "add", "file"], check=True)
            subprocess.run([*git, "commit", "-q", "-m", "one"], check=True)
            subprocess.run(["git", "clone", "-q", "--bare", work, bare], check=True)
            subprocess.run(["git", "-C", bare, "update-server-info"], check=True)
        return bare.parent

    def test_git_over_https(self):
        server = self.serve(servers.Web(directory=self.repository(), certificate=self.certificate))
        out = self.script(server.port, f"git -c http.sslCAInfo={self.ca} clone -q "
                          f"{self.url('/r.git', server, 'https')} c; cat c/file")
        self.assertEqual(out, "from git\n")

    def test_git_with_its_own_protocol(self):
        base = self.repository()
        server = self.serve(servers.Program(lambda port: [
            "/usr/lib/git-core/git-daemon", "--reuseaddr", f"--listen={servers.ADDRESS}", f"--port={port}",
            f"--base-path={base}", "--export-all", base]))
        self.assertEqual(self.script(server.port, f"git clone -q {self.url('/r.git', server, 'git')} c; cat c/file"),
                         "from git\n")

    def test_ssh(self):
        home = self.base / "home"
        (home / ".ssh").mkdir(parents=True)
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", self.base / "id"], check=True)
        shutil.copy(self.base / "id.pub", home / ".ssh/authorized_keys")
        (self.base / "id").chmod(0o644)
        # The server's root user has another home, for itself alone.
        server = self.serve(servers.Program(lambda port: [
            "unshare", "-m", "--propagation", "private", "sh", "-c",
            f"mount --bind {home} /root && chown -R 0:0 /root && chmod 700 /root /root/.ssh && "
            f"dropbearkey -t ed25519 -f {self.base}/host >/dev/null && "
            f"exec dropbear -F -E -s -p {servers.ADDRESS}:{port} -r {self.base}/host -P ''"]))
        out = self.script(server.port, f"install -m 600 {self.base}/id key; ssh -i key -o BatchMode=yes "
                          "-o StrictHostKeyChecking=accept-new -o UserKnownHostsFile=/tmp/known "
                          f"-p {server.port} root@web.test 'echo through $((40 + 2))'", options=["--uid", "0"])
        self.assertEqual(out, "through 42\n")

    def test_pip(self):
        pip = find(*glob.glob("/usr/share/python-wheels/pip-*.whl"))
        server = self.serve(servers.Web(files=servers.python_index()))
        out = self.script(server.port, f"{PYTHON} {pip}/pip install -q --disable-pip-version-check --no-cache-dir "
                          f"--index-url {self.url('/simple/', server)} --trusted-host web.test --target t hello-box\n"
                          f"PYTHONPATH=t {PYTHON} -c 'import hello_box; print(hello_box.HELLO)'")
        self.assertEqual(out, "from the index\n")

    @needs(NPM and NODE, "npm")
    def test_npm(self):
        server = self.serve(servers.Web())
        server.files.update(servers.node_registry(server.port))
        self.script(server.port, f"export PATH={Path(NODE).parent}:$PATH; mkdir p; cd p; npm install --silent --no-audit "
                    f"--no-fund --registry {self.url('/', server)} hello-box\n"
                    "[ \"$(node -p 'require(\"hello-box\")')\" = 'from the registry' ]", read=self.node_places())

    def node_places(self):
        return [CLIENTS] if CLIENTS.exists() else []

    @needs(NODE, "node")
    def test_node_fetch_and_keep_alive(self):
        out = self.box(self.web.port, [NODE, "-e", f"""
            const http = require('http'), agent = new http.Agent({{keepAlive: true}});
            const get = path => new Promise(done => http.get('{self.url('')}' + path, {{agent}},
                answer => answer.on('data', data => done(String(data)))));
            (async () => {{
              console.log(await (await fetch('{self.url('/fetch')}')).text() + await get('/a') + await get('/b'));
              agent.destroy();
            }})()"""], read=self.node_places())
        self.assertEqual(out.split(), "hello /fetch hello /a hello /b".split())

    @needs(NODE and find(CLIENTS / "javascript/node_modules/ws"), "the package ws", "comes with the published clients")
    def test_node_web_sockets(self):
        server = self.serve(servers.Web(files={"/socket": servers.web_socket}))
        out = self.box(server.port, [NODE, "-e", f"""
            const WebSocket = require('{CLIENTS}/javascript/node_modules/ws');
            const socket = new WebSocket('{self.url('/socket', server, 'ws')}');
            socket.on('open', () => socket.send('ping'));
            socket.on('message', data => {{ console.log(String(data)); socket.terminate(); }});"""],
                       read=self.node_places())
        self.assertEqual(out, "ping\n")

    def test_python(self):
        out = self.box(self.web.port, [PYTHON, "-c", f"""
import asyncio, http.client, urllib.request
import aiohttp, requests
print(urllib.request.urlopen('{self.url('/urllib')}').read().decode(), end='')
with requests.Session() as session:
    for path in ('/requests', '/again'): print(session.get('{self.url('')}' + path).text, end='')
async def main():
    reader, writer = await asyncio.open_connection('web.test', {self.web.port})
    writer.write(b'GET /asyncio HTTP/1.0\\r\\n\\r\\n')
    print((await reader.read()).decode().splitlines()[-1])
    async with aiohttp.ClientSession() as session:
        answers = await asyncio.gather(*(session.get('{self.url('/aiohttp')}') for _ in range(20)))
        print({{await answer.text() for answer in answers}})
asyncio.run(main())"""])
        self.assertEqual(out, "hello /urllib\nhello /requests\nhello /again\nhello /asyncio\n{'hello /aiohttp\\n'}\n")

    @needs(GO, "Go")
    def test_go(self):
        program = self.base / "fetch"
        subprocess.run([GO, "build", "-o", program, SOURCES / "fetch.go"], check=True, cwd=self.base,
                       env={"PATH": os.environ["PATH"], "HOME": str(self.base), "CGO_ENABLED": "0", "GOFLAGS": "-modcacherw",
                            "GO111MODULE": "off", "GOCACHE": str(self.base / "go-cache"), "GOTOOLCHAIN": "local"})
        self.assertEqual(self.box(self.web.port, [program, self.url("/go")]), "hello /go\n")

    @needs(JAVA, "Java")
    def test_java(self):
        for words, wanted in ((["Devices.java"], "device lo"),
                              (["Fetch.java", self.url("/java")], "hello /java"),
                              (["Selector.java", "web.test", self.web.port], "hello /epoll")):
            with self.subTest(words[0]):
                out = self.box(self.web.port, [JAVA, SOURCES / words[0], *words[1:]], read=[SOURCES])
                self.assertIn(wanted, out)

    def test_redis(self):
        server = self.serve(servers.Talk(servers.redis))
        self.assertEqual(self.box(server.port, ["redis-cli", "-h", "web.test", "-p", server.port, "PING"]), "PONG\n")

    def test_postgres(self):
        server = self.serve(servers.Talk(servers.postgres))
        self.assertEqual(self.script(server.port, f"psql -h web.test -p {server.port} -U a -d b -Atc 'select 42'"), "42\n")

    def test_a_static_program_with_the_resolver_of_musl(self):
        program = self.base / "resolve"
        subprocess.run(["musl-gcc", "-static", "-O1", "-o", program, SOURCES / "resolve.c"], check=True)
        self.assertIn("hello /musl", self.box(self.web.port, [program, "web.test", self.web.port]))
        self.box(self.web.port, [program, "other.example", "80"], expect=2)
        self.assertNotIn("other.example", self.names.asked)


if __name__ == "__main__":
    unittest.main(verbosity=2)
