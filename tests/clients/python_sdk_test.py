"""The published Python SDK (`opensandbox`, see requirements.txt) as a client of a real service."""

import asyncio
import os
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "serve"))

from service import TIER, Service, wait_until  # noqa: E402

from opensandbox.adapters.isolated_adapter import IsolatedSessionsAdapter  # noqa: E402
from opensandbox.config import ConnectionConfig  # noqa: E402
from opensandbox.models.execd import ExecutionHandlers  # noqa: E402
from opensandbox.models.filesystem import (  # noqa: E402
    ContentReplaceEntry, DirectoryListEntry, MoveEntry, SearchEntry, SetPermissionEntry, WriteEntry)
from opensandbox.models.isolated import (  # noqa: E402
    BindMount, CreateIsolatedSessionRequest, IsolatedOverlaySpec, IsolatedRunOpts, IsolatedWorkspaceSpec)
from opensandbox.models.sandboxes import SandboxEndpoint  # noqa: E402


class PythonSdk(unittest.IsolatedAsyncioTestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = Service(token="sdk-token-123")

    @classmethod
    def tearDownClass(cls):
        cls.server.close()

    def setUp(self):
        self.workspace = self.server.workspace(self.id().rsplit(".", 1)[1], host="from the host")
        self.isolation = IsolatedSessionsAdapter(
            ConnectionConfig(protocol="http"),
            SandboxEndpoint(endpoint=f"127.0.0.1:{self.server.port}",
                            headers={"X-EXECD-ACCESS-TOKEN": "sdk-token-123"}))

    def request(self, mode=None, **more):
        return CreateIsolatedSessionRequest(
            workspace=IsolatedWorkspaceSpec(path=self.workspace, mode=mode), **more)

    async def test_capabilities(self):
        found = await self.isolation.capabilities()
        self.assertTrue(found.available)
        self.assertTrue(found.commit_supported and found.diff_supported)

    async def test_life_of_a_session(self):
        session = await self.isolation.create(self.request())
        self.assertTrue(session.session_id and session.info.created_at)
        self.assertEqual((await session.get()).status, "active")
        self.assertIn(session.session_id, [one.session_id for one in await self.isolation.list()])
        again = await self.isolation.attach(session.session_id)
        self.assertEqual(again.info.workspace.path, self.workspace)
        self.assertEqual(again.info.workspace.mode, "overlay")
        self.assertEqual(again.info.idle_timeout_seconds, 1800)
        self.assertEqual((await again.run("echo attached")).logs.stdout[0].text, "attached")
        await session.delete()
        with self.assertRaises(Exception):
            await session.delete()
        with self.assertRaises(Exception):
            await self.isolation.attach("no-such-session")

    async def test_runs(self):
        async with self.isolation.session(self.request()) as session:
            seen = []

            async def take(message):
                seen.append(message.text)

            execution = await session.run("echo $A; echo two", opts=IsolatedRunOpts(envs={"A": "one"}, timeout_seconds=30),
                                          handlers=ExecutionHandlers(on_stdout=take))
            self.assertEqual([line.text for line in execution.logs.stdout], ["one", "two"])
            self.assertEqual((execution.exit_code, seen), (0, ["one", "two"]))
            self.assertEqual((await session.run("exit 3")).exit_code, 3)
            await session.run("export KEPT=1")
            self.assertEqual((await session.run("echo $KEPT")).logs.stdout[0].text, "1")
            late = await session.run("sleep 30", opts=IsolatedRunOpts(timeout_seconds=1))
            self.assertEqual(late.error.value, "context deadline exceeded")

    async def test_run_once(self):
        execution = await self.isolation.run_once("echo $X", workspace=self.workspace,
                                                  opts=IsolatedRunOpts(envs={"X": "y"}))
        self.assertEqual(execution.logs.stdout[0].text, "y")
        self.assertEqual(await self.isolation.list(), [])

    async def test_background_runs(self):
        async with self.isolation.session(self.request()) as session:
            run = await session.run_background("echo in the background; exit 7")
            for _ in range(200):
                status = await session.run_status(run.run_id)
                if not status.running:
                    break
                await asyncio.sleep(0.02)
            self.assertEqual((status.running, status.exit_code), (False, 7))
            logs = await session.run_logs(run.run_id)
            self.assertEqual(logs.content, "in the background\n")
            self.assertEqual((await session.run_logs(run.run_id, cursor=logs.cursor)).content, "")

    async def test_files(self):
        async with self.isolation.session(self.request("rw")) as session:
            files, at = session.files, lambda name: f"{self.workspace}/{name}"
            await files.write_files([WriteEntry(path=at("a.txt"), data="text", mode=644),
                                     WriteEntry(path=at("b b.bin"), data=bytes([0, 1, 2, 255]), mode=600)])
            self.assertEqual(await files.read_file(at("a.txt")), "text")
            self.assertEqual(await files.read_bytes(at("b b.bin")), bytes([0, 1, 2, 255]))
            self.assertEqual(await files.read_bytes(at("a.txt"), range_header="bytes=0-1"), b"te")
            infos = await files.get_file_info([at("a.txt"), at("b b.bin")])
            self.assertEqual((infos[at("b b.bin")].size, infos[at("b b.bin")].mode), (4, 600))
            self.assertEqual(len(await files.search(SearchEntry(path=self.workspace, pattern="*.txt"))), 1)
            await files.create_directories([WriteEntry(path=at("d/e"), mode=755)])
            listed = await files.list_directory(DirectoryListEntry(path=self.workspace, depth=2))
            self.assertIn(at("d/e"), [one.path for one in listed])
            await files.move_files([MoveEntry(src=at("a.txt"), dest=at("d/a.txt"))])
            await files.replace_contents([ContentReplaceEntry(path=at("d/a.txt"), old_content="text", new_content="TEXT")])
            self.assertEqual(await files.read_file(at("d/a.txt")), "TEXT")
            detailed = await files.replace_contents_detailed(
                [ContentReplaceEntry(path=at("d/a.txt"), old_content="T", new_content="t")])
            self.assertEqual([one.replaced_count for one in detailed], [2])
            await files.set_permissions([SetPermissionEntry(path=at("d/a.txt"), mode=755)])
            self.assertEqual((await files.get_file_info([at("d/a.txt")]))[at("d/a.txt")].mode, 755)
            await files.delete_files([at("b b.bin")])
            with self.assertRaises(Exception):
                await files.get_file_info([at("b b.bin")])
            await files.delete_directories([at("d")])
            self.assertEqual(sorted(os.listdir(self.workspace)), ["host"])

    async def test_overlays_and_binds(self):
        source = self.server.data / "sdk"
        source.mkdir(exist_ok=True)
        if TIER == "user":
            os.chown(source, 65533, 65533)
        request = CreateIsolatedSessionRequest(
            overlays=[IsolatedOverlaySpec(path=self.workspace)],
            binds=[BindMount(source=str(source), dest="/mnt/sdk")])
        async with self.isolation.session(request) as session:
            execution = await session.run("cat host; echo changed > host; echo bound > /mnt/sdk/f")
            self.assertEqual(execution.logs.stdout[0].text, "from the host")
        self.assertEqual(Path(self.workspace, "host").read_text(), "from the host")
        self.assertEqual((source / "f").read_text(), "bound\n")
        with self.assertRaisesRegex(Exception, "allowlist"):
            await self.isolation.create(self.request(binds=[BindMount(source="/etc")]))

    async def test_a_wrong_token_is_refused(self):
        stranger = IsolatedSessionsAdapter(
            ConnectionConfig(protocol="http"),
            SandboxEndpoint(endpoint=f"127.0.0.1:{self.server.port}", headers={"X-EXECD-ACCESS-TOKEN": "wrong-one"}))
        with self.assertRaises(Exception):
            await stranger.list()


if __name__ == "__main__":
    unittest.main(verbosity=2)
