// The published JavaScript SDK (see package.json) as a client of a real service.
// SERVICE_URL, SERVICE_TOKEN, WORKSPACE and DATA come from run_javascript.py, which starts the service.
import assert from "node:assert/strict";
import { existsSync, mkdirSync, readFileSync, readdirSync, chownSync } from "node:fs";
import { test } from "node:test";

import { ConnectionConfig, createDefaultAdapterFactory } from "@alibaba-group/opensandbox";

const { SERVICE_URL, SERVICE_TOKEN, WORKSPACE, DATA, OWNER } = process.env;

function stack(token = SERVICE_TOKEN) {
  return createDefaultAdapterFactory().createExecdStack({
    connectionConfig: new ConnectionConfig({ requestTimeoutSeconds: 30 }),
    execdBaseUrl: SERVICE_URL,
    endpointHeaders: { "X-EXECD-ACCESS-TOKEN": token },
  });
}

function directory(base, name) {
  const path = `${base}/${name}`;
  mkdirSync(path, { recursive: true });
  if (OWNER) chownSync(path, Number(OWNER), Number(OWNER));
  return path;
}

const { isolation, health } = stack();
const lines = (execution) => execution.logs.stdout.map((message) => message.text);

test("capabilities", async () => {
  const found = await isolation.capabilities();
  assert.equal(found.available, true);
  assert.equal(found.commit_supported, true);
});

test("life of a session", async () => {
  const path = directory(WORKSPACE, "life");
  const session = await isolation.create({ workspace: { path } });
  assert.equal((await session.get()).status, "active");
  assert.ok((await isolation.list()).some((one) => one.session_id === session.sessionId));
  const attached = await isolation.attach(session.sessionId);
  assert.deepEqual(attached.info.workspace, { path, mode: "overlay" });
  assert.deepEqual(lines(await attached.run("echo attached")), ["attached"]);
  await session.delete();
  await assert.rejects(session.delete(), /404/);
  await assert.rejects(isolation.attach("no-such-session"), /404/);
  assert.ok(!(await isolation.list()).some((one) => one.session_id === session.sessionId));
});

test("runs with handlers, variables, state, errors and timeouts", async () => {
  await isolation.withSession({ workspace: { path: directory(WORKSPACE, "runs"), mode: "rw" } }, async (session) => {
    const seen = [];
    const execution = await session.run("echo $A; echo two", { envs: { A: "one" }, timeout_seconds: 30 },
      { onStdout: (message) => seen.push(message.text) });
    assert.deepEqual(lines(execution), ["one", "two"]);
    assert.deepEqual(seen, ["one", "two"]);
    assert.equal(execution.exitCode, 0);
    assert.equal((await session.run("exit 3")).exitCode, 3);
    await session.run("export KEPT=yes");
    assert.deepEqual(lines(await session.run("echo $KEPT")), ["yes"]);
    const late = await session.run("sleep 30", { timeout_seconds: 1 });
    assert.equal(late.error.value, "context deadline exceeded");
    assert.ok(Number(lines(await session.run("echo $$"))[0]) < 100);
  });
});

test("an aborted run leaves the session usable", async () => {
  await isolation.withSession({ workspace: { path: directory(WORKSPACE, "abort") } }, async (session) => {
    const controller = new AbortController();
    setTimeout(() => controller.abort(), 300);
    await assert.rejects(session.run("sleep 60", {}, undefined, controller.signal));
    assert.deepEqual(lines(await session.run("echo usable")), ["usable"]);
  });
});

test("runOnce", async () => {
  const execution = await isolation.runOnce("echo once", directory(WORKSPACE, "once"));
  assert.deepEqual(lines(execution), ["once"]);
});

test("every file operation", async () => {
  const path = directory(WORKSPACE, "files");
  await isolation.withSession({ workspace: { path, mode: "rw" } }, async ({ files }) => {
    const bytes = new Uint8Array([0, 1, 2, 255]);
    await files.writeFiles([{ path: `${path}/a.txt`, data: "one\ntwo\nthree\n", mode: 644 }, { path: `${path}/b b.bin`, data: bytes }]);
    assert.equal(await files.readFile(`${path}/a.txt`), "one\ntwo\nthree\n");
    assert.deepEqual(await files.readBytes(`${path}/b b.bin`), bytes);
    assert.deepEqual(await files.readBytes(`${path}/b b.bin`, { range: "bytes=1-2" }), bytes.slice(1, 3));
    assert.equal(new TextDecoder().decode(await files.readBytes(`${path}/a.txt`, { offset: 2, limit: 1 })), "two");
    const infos = await files.getFileInfo([`${path}/a.txt`, `${path}/b b.bin`]);
    assert.equal(infos[`${path}/b b.bin`].size, 4);
    assert.equal(infos[`${path}/a.txt`].mode, 644);
    assert.equal((await files.search({ path, pattern: "*.txt" })).length, 1);
    await files.createDirectories([{ path: `${path}/d/e`, mode: 755 }]);
    assert.ok((await files.listDirectory({ path, depth: 2 })).some((info) => info.path === `${path}/d/e`));
    await files.moveFiles([{ src: `${path}/a.txt`, dest: `${path}/d/a.txt` }]);
    await files.replaceContents([{ path: `${path}/d/a.txt`, oldContent: "two", newContent: "2" }]);
    assert.equal(await files.readFile(`${path}/d/a.txt`), "one\n2\nthree\n");
    await files.setPermissions([{ path: `${path}/d/a.txt`, mode: 755 }]);
    assert.equal((await files.getFileInfo([`${path}/d/a.txt`]))[`${path}/d/a.txt`].mode, 755);
    await files.deleteFiles([`${path}/b b.bin`]);
    await assert.rejects(files.getFileInfo([`${path}/b b.bin`]), (error) => error.statusCode === 404);
    await files.deleteDirectories([`${path}/d`]);
    assert.deepEqual(readdirSync(path), []);
  });
});

test("overlay leaves the original alone", async () => {
  const path = directory(WORKSPACE, "overlay");
  await isolation.withSession({ workspace: { path, mode: "overlay" } }, async (session) => {
    await session.files.writeFiles([{ path: `${path}/made`, data: "x" }]);
    assert.deepEqual(lines(await session.run("cat made; echo y > by-run")), ["x"]);
    assert.equal(await session.files.readFile(`${path}/by-run`), "y\n");
    assert.deepEqual(readdirSync(path), []);
  });
});

test("binds", async () => {
  const source = directory(DATA, "js");
  const path = directory(WORKSPACE, "binds");
  await isolation.withSession({ workspace: { path }, binds: [{ source, dest: "/mnt/js" }, { source, dest: "/mnt/ro", readonly: true }] },
    async (session) => {
      assert.equal((await session.run("echo bound > /mnt/js/f")).exitCode, 0);
      assert.notEqual((await session.run("echo no > /mnt/ro/g")).exitCode, 0);
    });
  assert.equal(readFileSync(`${source}/f`, "utf8"), "bound\n");
  assert.ok(!existsSync(`${source}/g`));
  await assert.rejects(isolation.create({ workspace: { path }, binds: [{ source: "/etc" }] }), /allowlist/);
});

test("errors", async () => {
  await assert.rejects(isolation.create({ workspace: { path: "/x", mode: "wrong" } }), /400/);
  await assert.rejects(stack("wrong-token").isolation.list(), /401/);
  assert.ok(await health.ping());
});
