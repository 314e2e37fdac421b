"""What clients of this API rely on, beyond the numbered requirements."""

import gzip
import io
import json
import os
import socket
import subprocess
import tarfile
import threading
import time
from pathlib import Path

from service import PATIENCE, TIER, Run, Service, ServiceTest, Session, needs_root, wait_until
from websocket import WebSocket


PAGE = os.sysconf("SC_PAGE_SIZE")


def processes_with(word):
    """Processes of the machine that have this word on their command line."""
    found = []
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if word.encode() in entry.read_bytes().split(b"\0"):
                found.append(entry.parent.name)
        except OSError:
            pass  # it ended meanwhile
    return found


def resident_pages(process):
    try:
        return int(Path(f"/proc/{process}/statm").read_text().split()[1])
    except OSError:
        return 0  # it ended meanwhile


class Sessions(ServiceTest):
    ENVIRONMENT = {"ONE": "1", "TWO": "2", "MY_TOKEN": "3"}

    def test_a_deleted_session_is_dead_at_once_and_its_layer_goes_by_and_by(self):
        session = self.session()
        marker = f"86400.{os.getpid()}"
        session.run("mkdir many; for ((i = 0; i < 2000; i++)); do : > many/$i; done")
        # What holds much memory takes a while to die.
        session.run(f"(head -c 200000000 /dev/zero; exec sleep {marker}) | (exec -a {marker} tail -n 1) > /dev/null &")
        layers = self.service.state / "layers"
        layer = [entry.name for entry in layers.iterdir() if (entry / "box/upper/many").exists()]
        self.assertEqual(len(layer), 1)
        self.assertTrue(wait_until(lambda: sum(map(resident_pages, processes_with(marker))) * PAGE > 200_000_000))
        processes = processes_with(marker)
        self.assertStatus(session.delete(), 200)
        # Nothing of these waits: they hold when the answer is there.
        self.assertEqual([one for one in processes if Path("/proc", one).exists()], [])
        self.assertStatus(session.get(), 404, "SESSION_NOT_FOUND")
        self.assertFalse((layers / layer[0]).exists())
        self.assertTrue(wait_until(lambda: not (layers / f".removing-{layer[0]}").exists()))

    def test_create_get_list_delete(self):
        first, second = self.session(), self.session()
        state = first.state()
        self.assertEqual(state["status"], "active")
        self.assertRegex(state["created_at"], r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d+Z$")
        self.assertEqual(state["workspace"], {"path": first.workspace, "mode": "overlay"})
        self.assertEqual(state["share_net"], False)
        self.assertEqual(state["env_passthrough"], {"mode": "deny", "keys": []})
        self.assertLessEqual(state["idle_remaining_seconds"], 1800)
        listed = {one["session_id"]: one["status"] for one in
                  self.service.get("/v1/isolated/sessions").json["sessions"]}
        self.assertEqual((listed[first.id], listed[second.id]), ("active", "active"))
        answer = second.delete()
        self.assertStatus(answer, 200)
        self.assertEqual(answer.headers["Content-Length"], "0")
        self.assertStatus(second.delete(), 404, "SESSION_NOT_FOUND")
        self.assertStatus(second.get(), 404, "SESSION_NOT_FOUND")
        self.assertNotIn(second.id, self.service.get("/v1/isolated/sessions").body.decode())

    def test_labels_and_changes(self):
        session = self.session(labels={"team": "a"}, name="n")
        self.assertEqual(session.state()["labels"], {"team": "a"})
        listed = self.service.get("/v1/isolated/sessions", query={"label": "team=a"}).json["sessions"]
        self.assertEqual([one["session_id"] for one in listed], [session.id])
        changed = self.service.request("PATCH", session.path, {"labels": {"team": "b"}, "idle_timeout_seconds": 0})
        self.assertStatus(changed, 200)
        self.assertEqual(changed.json["labels"], {"team": "b"})
        self.assertEqual(changed.json["idle_timeout_seconds"], 0)
        self.assertStatus(self.service.request("PATCH", session.path, {}), 400)
        self.assertEqual(session.state()["profile"], "strict")

    def test_environment_by_list(self):
        session = self.session(env_passthrough={"mode": "allow", "keys": ["ONE", "MY_TOKEN"]})
        seen = session.out("env")
        self.assertIn("ONE=1", seen)
        self.assertIn("MY_TOKEN=3", seen)
        self.assertNotIn("TWO=", seen)

    def test_there_is_only_loopback(self):
        session = self.session(share_net=False)
        self.assertEqual(session.out("ls /sys/class/net 2>/dev/null || tail -n +3 /proc/net/dev | cut -d: -f1 | tr -d ' '"), "lo")

    def test_a_shared_network_is_the_public_one(self):
        session = self.session(share_net=True)
        self.assertEqual(session.state()["share_net"], True)
        self.assertEqual(session.out("tail -n +3 /proc/net/dev | cut -d: -f1 | tr -d ' '"), "lo")
        # The host's own loopback is not in it.
        with socket.create_server(("127.0.0.1", 0)) as server:
            port = server.getsockname()[1]
            said = session.out(f"bash -c 'exec 3<>/dev/tcp/127.0.0.1/{port}' 2>&1; true")
        self.assertIn("Connection refused", said)

    def test_unknown_fields_are_named(self):
        answer = self.service.post("/v1/isolated/session", {"workspace": {"path": "/w"}, "colour": 1})
        self.assertStatus(answer, 400, "INVALID_REQUEST_BODY")
        self.assertIn("'colour'", answer.json["message"])

    def test_several_workspaces(self):
        first = self.service.workspace(self.name + "1", a="1")
        second = self.service.workspace(self.name + "2", b="2")
        third = self.service.workspace(self.name + "3", c="3")
        session = self.service.create(first, overlays=[{"path": second, "mode": "ro"},
                                                       {"path": third, "persist": False}])
        self.addCleanup(session.delete)
        self.assertEqual(session.out(f"pwd; cat a {second}/b {third}/c"), f"{first}\n123")
        self.assertStatus(session.upload(({"path": second + "/x"}, b"x")), 403)
        session.write(third + "/x", "x")
        self.assertEqual(session.read(third + "/x"), "x")
        self.assertFalse(os.path.exists(third + "/x"))
        self.assertStatus(session.move(first + "/a", third + "/a"), 400)
        self.assertEqual([one["path"] for one in session.state()["overlays"]], [first, second, third])

    def test_a_workspace_behind_a_link(self):
        real = self.service.workspace(self.name, a="1")
        link = real + "-link"
        os.symlink(real, link)
        session = self.service.create(link)
        self.addCleanup(session.delete)
        self.assertEqual(session.read(link + "/a"), "1")
        self.assertEqual(session.read(real + "/a"), "1")
        session.write(link + "/b", "2")
        self.assertEqual(session.out("pwd; cat b"), f"{real}\n2")
        self.assertStatus(session.move(link + "/b", real + "/c"), 200)

    def test_environment_keys_are_echoed(self):
        session = self.session(env_passthrough={"mode": "allow", "keys": ["ONE", "TWO"]})
        self.assertEqual(session.state()["env_passthrough"], {"mode": "allow", "keys": ["ONE", "TWO"]})

    def test_delete_and_recreate(self):
        path = self.service.workspace(self.name)
        for _ in range(3):
            session = self.service.create(path)
            session.out("echo x > y")
            self.assertStatus(session.delete(), 200)

    def test_two_sessions_on_one_workspace(self):
        path = self.service.workspace(self.name)
        writer, layered = self.service.create(path, "rw"), self.service.create(path, "overlay")
        self.addCleanup(writer.delete)
        self.addCleanup(layered.delete)
        writer.out("echo 1 > a")
        self.assertEqual(layered.out("cat a; echo 2 > a; cat a"), "1\n2")
        self.assertEqual(writer.out("cat a"), "1")

    def test_concurrent_sessions(self):
        path = self.service.workspace(self.name)
        problems = []

        def use(number):
            try:
                session = self.service.create(path)
                for i in range(3):
                    if session.out(f"echo {number}-{i}") != f"{number}-{i}":
                        problems.append(number)
                session.delete()
            except Exception as problem:  # any failure is the test's
                problems.append(repr(problem))

        threads = [threading.Thread(target=use, args=(i,)) for i in range(12)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(problems, [])


class Runs(ServiceTest):
    def test_the_bytes_of_the_stream(self):
        session = self.session()
        answer = session.post("/run", {"code": "echo hello; echo; printf 'a\\tb\"\\n'; echo oops >&2"})
        self.assertEqual(answer.headers["Content-Type"], "text/event-stream")
        self.assertEqual(answer.headers["Cache-Control"], "no-cache")
        self.assertEqual(answer.headers["X-Accel-Buffering"], "no")
        parts = answer.body.split(b"\n\n")
        self.assertRegex(parts[0], rb'^\{"type":"stdout","text":"hello","timestamp":\d{13}\}$')
        self.assertRegex(parts[-2], rb'^\{"type":"execution_complete","timestamp":\d{13}\}$')
        self.assertEqual(parts[-1], b"")
        self.assertEqual(Run(answer.body).out, ["hello", 'a\tb"', "oops"])

    def test_state_is_kept(self):
        session = self.session()
        session.out("export A=1; cd /tmp; f() { echo function; }; B=2")
        self.assertEqual(session.out("echo $A $B; pwd; f"), "1 2\n/tmp\nfunction")

    def test_small_pids(self):
        self.assertLessEqual(int(self.session().out("echo $$")), 20)

    def test_many_lines_in_order(self):
        session = self.session()
        for count in (50, 1000, 60000):
            self.assertEqual(session.run(f"seq {count}").out, [str(i) for i in range(1, count + 1)])

    def test_much_output_and_long_lines(self):
        session = self.session()
        run = session.run("head -c 5000000 /dev/zero | tr '\\0' x")
        self.assertEqual(sum(len(text) for text in run.out), 5_000_000)

    def test_many_runs(self):
        session = self.session()
        for i in range(100):
            self.assertEqual(session.out(f"echo {i}"), str(i))

    def test_runs_of_one_session_wait_for_each_other(self):
        session = self.session()
        threads = [threading.Thread(target=lambda: session.out("read n < n || n=0; sleep 0.05; echo $((n+1)) > n"))
                   for _ in range(8)]
        session.out("echo 0 > n")
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(session.out("cat n"), "8")

    def test_shell_language(self):
        session = self.session()
        self.assertEqual(session.out("for i in 1 2; do if [ $i = 2 ]; then echo $((i*21)); fi; done; cat <<< here; echo a | tr a b"),
                         "42\nhere\nb")

    def test_last_run_at_advances(self):
        session = self.session()
        before = session.state()["last_run_at"]
        session.out("true")
        self.assertGreater(session.state()["last_run_at"], before)

    def test_errors_apart(self):
        run = self.session().run("echo out; echo err >&2", stderr="separate")
        self.assertEqual((run.out, run.err), (["out"], ["err"]))

    def test_input(self):
        session = self.session()
        self.assertEqual(session.out("cat", stdin="from outside\n"), "from outside")
        self.assertEqual(session.out("head -c 1", stdin="x" * 200_000), "x")

    def test_a_terminal_for_one_run(self):
        run = self.session().run("test -t 1 && stty size", pty={"rows": 10, "cols": 33})
        self.assertEqual(run.out, ["10 33"])

    def test_standard_events(self):
        session = self.session()
        answer = session.post("/run", {"code": "echo hi"}, headers={"Accept": "text/event-stream; profile=standard"})
        frames = [dict(line.split(": ", 1) for line in frame.split("\n")) for frame in
                  answer.body.decode().strip().split("\n\n")]
        self.assertEqual([(frame["id"], frame["event"]) for frame in frames],
                         [("1", "stdout"), ("2", "execution_complete")])
        self.assertEqual(json.loads(frames[0]["data"])["text"], "hi\n")

    def test_output_comes_while_the_run_goes_on(self):
        session = self.session()
        body = json.dumps({"code": "echo first; sleep 5"}).encode()
        with socket.create_connection(("127.0.0.1", self.service.port), timeout=3) as client:
            client.sendall(b"POST %s/run HTTP/1.1\r\nContent-Length: %d\r\n\r\n%s" %
                           (session.path.encode(), len(body), body))
            self.assertIn(b"first", client.recv(65536))

    def test_a_signal_ends_a_run(self):
        session = self.session()
        results = []
        thread = threading.Thread(target=lambda: results.append(session.run("sleep 60")))
        thread.start()
        # Before its command has begun a run may pass over a signal, as a shell does.
        self.assertTrue(wait_until(lambda: session.post("/signal", {"signal": "SIGINT"}).status in (200, 404)
                                   and bool(results)))
        thread.join(PATIENCE)
        self.assertNotEqual(results[0].exit_code, 0)
        self.assertStatus(session.post("/signal", {"signal": "SIGNOTHING"}), 400)

    def test_delete_ends_what_ignores_signals(self):
        session = self.session()
        session.out("(trap '' TERM INT HUP; sleep 1234 & sleep 1235) > /dev/null 2>&1 & sleep 0.2")
        self.assertStatus(session.delete(), 200)
        self.assertTrue(wait_until(lambda: subprocess.run(["pgrep", "-f", "sleep 123[45]"],
                                                          capture_output=True).returncode == 1))

    def test_delete_ends_a_run_that_is_under_way(self):
        session = self.session()
        results = []
        thread = threading.Thread(target=lambda: results.append(session.run("touch begun; sleep 60")))
        thread.start()
        self.assertTrue(wait_until(lambda: session.get("/files/info?path=begun").status == 200))
        self.assertStatus(session.delete(), 200)
        thread.join(PATIENCE)
        self.assertEqual(results[0].last["error"]["ename"], "RuntimeError")

    def test_walls(self):
        session = self.session()
        self.assertNotEqual(session.run("mount -t tmpfs x /tmp").exit_code, 0)
        self.assertNotEqual(session.run("unshare -r true").exit_code, 0)

    def test_a_terminal_over_a_websocket(self):
        session = self.session(files={"seen": ""})
        client = WebSocket(self.service.port, session.path + "/pty?rows=20&cols=77")
        self.assertEqual(json.loads(client.receive())["mode"], "pty")
        client.send_bytes(b"\0stty size; ls; exit 3\n")
        shown = b""
        while True:
            message = client.receive()
            if message is None:
                break
            if isinstance(message, str):
                if json.loads(message)["type"] == "exit":
                    self.assertEqual(json.loads(message)["exit_code"], 3)
                    break
            else:
                self.assertEqual(message[0], 1)
                shown += message[1:]
        self.assertIn(b"20 77", shown)
        self.assertIn(b"seen", shown)
        client.close()
        self.assertStatus(session.get("/pty"), 426)


class Frames:
    """Standard events from a connection, one after the other."""

    def __init__(self, service, method, path, body=None, headers=None):
        self.connection = service.connect()
        headers = dict({"Accept": "text/event-stream; profile=standard"}, **(headers or {}))
        self.connection.request(method, path, body=json.dumps(body) if body else None, headers=headers)
        self.response = self.connection.getresponse()
        self.status = self.response.status

    def next(self):
        frame = {}
        while True:
            line = self.response.readline().decode()
            if not line:
                return None
            if line == "\n":
                frame["data"] = json.loads(frame["data"])
                return frame
            name, value = line.rstrip("\n").split(": ", 1)
            frame[name] = value

    def rest(self):
        frames = []
        while frame := self.next():
            frames.append(frame)
        return frames

    def close(self):
        self.response.close()
        self.connection.close()


class Resuming(ServiceTest):
    GATE = "echo one; while [ ! -e go ]; do sleep 0.05; done; echo two; exit 3"

    def begin(self, session, code, seconds=30):
        frames = Frames(self.service, "POST", session.path + "/run", {"code": code, "resume_seconds": seconds})
        self.addCleanup(frames.close)
        first = frames.next()
        self.assertEqual((first["id"], first["event"]), ("1", "init"))
        return frames, f"{session.path}/runs/{first['data']['text']}/events"

    def again(self, path, last=None):
        frames = Frames(self.service, "GET", path, headers={} if last is None else {"Last-Event-ID": str(last)})
        self.addCleanup(frames.close)
        return frames

    def test_a_client_that_comes_back_misses_nothing(self):
        session = self.session()
        frames, path = self.begin(session, self.GATE)
        self.assertEqual(frames.next()["data"]["text"], "one\n")
        frames.close()
        session.write("go", "")
        told = self.again(path, 2).rest()
        self.assertEqual([(frame["id"], frame["event"]) for frame in told], [("3", "stdout"), ("4", "error")])
        self.assertEqual(told[0]["data"]["text"], "two\n")
        self.assertEqual(told[1]["data"]["error"]["evalue"], "3")
        # The end itself may have been lost, so that it can be asked for again.
        self.assertEqual([frame["id"] for frame in self.again(path, 3).rest()], ["4"])
        self.assertEqual([frame["id"] for frame in self.again(path).rest()], ["1", "2", "3", "4"])

    def test_a_run_nobody_comes_back_to_is_ended(self):
        session = self.session()
        frames, path = self.begin(session, "echo on; sleep 1000", seconds=1)
        frames.next()
        frames.close()
        self.assertEqual(session.out("echo the shell is free"), "the shell is free")
        self.assertTrue(wait_until(lambda: self.again(path, 1).status == 404))

    def test_a_second_client_takes_the_stream_over(self):
        session = self.session()
        first, path = self.begin(session, self.GATE)
        first.next()
        second = self.again(path, 2)
        self.assertEqual(first.rest(), [])
        session.write("go", "")
        self.assertEqual([frame["id"] for frame in second.rest()], ["3", "4"])

    def test_what_is_not_kept_is_told(self):
        session = self.session()
        frames, path = self.begin(session, "head -c 12000000 /dev/zero | tr '\\\\0' x")
        printed = sum(len(frame["data"].get("text", "")) for frame in frames.rest())
        self.assertEqual(printed, 12000000)
        lost = self.service.get(path, headers={"Last-Event-ID": "1"})
        self.assertStatus(lost, 410, "EVENTS_LOST")
        self.assertStatus(self.service.get(path, headers={"Last-Event-ID": "x"}), 400)
        self.assertStatus(self.service.get(path, headers={"Last-Event-ID": "99999"}), 410)

    def test_a_run_that_nobody_reads_waits(self):
        session = self.session()
        frames, path = self.begin(session, "head -c 40000000 /dev/zero | tr '\\\\0' x; echo done > end")
        frames.close()
        grown = memory_of(self.service)
        self.assertLess(grown, 40 << 20)
        self.assertStatus(session.info("end"), 404)
        printed = sum(len(frame["data"].get("text", "")) for frame in self.again(path, 1).rest())
        self.assertEqual(printed, 40000000)

    def test_runs_that_are_over_give_way(self):
        session = self.session()
        for number in range(70):
            frames, path = self.begin(session, f"echo {number}")
            self.assertEqual([frame["event"] for frame in frames.rest()], ["stdout", "execution_complete"])
            frames.close()

    def test_requests_that_make_no_sense(self):
        session = self.session()
        self.assertStatus(session.post("/run", {"code": ":", "resume_seconds": 5}), 400)
        self.assertStatus(session.post("/run?profile=standard", {"code": ":", "resume_seconds": -1}), 400)
        self.assertStatus(session.post("/run?profile=standard",
                                       {"code": ":", "resume_seconds": 5, "background": True}), 400)
        frames, path = self.begin(session, ":")
        frames.rest()
        other = self.service.create(self.service.workspace("other"))
        self.assertStatus(self.service.get(path.replace(session.id, other.id)), 404)
        other.delete()
        session.delete()
        self.assertStatus(self.service.get(path), 404)


def memory_of(service):
    """Resident bytes of the service's process."""
    with open(f"/proc/{service.process.pid}/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmRSS")) * 1024


class Background(ServiceTest):
    def start(self, session, code, **more):
        answer = session.post("/run", {"code": code, "background": True, **more})
        self.assertStatus(answer, 202)
        self.assertEqual(answer.json["session_id"], session.id)
        return "/runs/" + answer.json["run_id"]

    def wait(self, session, run):
        self.assertTrue(wait_until(lambda: not session.get(run).json["running"]))
        return session.get(run).json

    def test_completion_with_log_and_cursor(self):
        session = self.session()
        run = self.start(session, "echo one; echo two >&2; cat", envs={"A": "x"})
        status = self.wait(session, run)
        self.assertEqual((status["exit_code"], status["running"]), (0, False))
        self.assertTrue(status["finished_at"])
        log = session.get(run + "/logs")
        self.assertEqual(log.body, b"one\ntwo\n")
        self.assertEqual(log.headers["EXECD-ISOLATED-TAIL-CURSOR"], "8")
        self.assertEqual(session.get(run + "/logs", query={"cursor": 4}).body, b"two\n")
        self.assertEqual(session.get(run + "/logs", query={"cursor": 999}).body, b"")
        self.assertStatus(session.get(run + "/logs", query={"cursor": -1}), 400)

    def test_exit_codes_and_variables(self):
        session = self.session()
        run = self.start(session, "echo $A; exit 7", envs={"A": "given"})
        self.assertEqual(self.wait(session, run)["exit_code"], 7)
        self.assertEqual(session.get(run + "/logs").body, b"given\n")

    def test_foreground_runs_go_on_beside_it(self):
        session = self.session()
        run = self.start(session, "echo background; sleep 2; echo late")
        self.assertEqual(session.run("echo foreground").out, ["foreground"])
        self.assertEqual(self.wait(session, run)["exit_code"], 0)

    def test_not_found(self):
        session, other = self.session(), self.session()
        run = self.start(session, "true")
        self.wait(session, run)
        self.assertStatus(session.get("/runs/none"), 404)
        self.assertStatus(other.get(run), 404)
        self.assertStatus(other.get(run + "/logs"), 404)

    def test_not_on_a_read_only_workspace(self):
        session = self.session(mode="ro")
        self.assertStatus(session.post("/run", {"code": "true", "background": True}), 400)

    def test_it_keeps_the_session_from_being_idle(self):
        session = self.session(idle_timeout_seconds=2)
        run = self.start(session, "sleep 5; echo done")
        time.sleep(4)
        self.assertEqual(session.state()["status"], "active")
        self.assertEqual(self.wait(session, run)["exit_code"], 0)

    def test_nothing_is_left_in_the_workspace(self):
        session = self.session(mode="rw")
        self.wait(session, self.start(session, "echo x"))
        self.assertEqual(os.listdir(session.workspace), [])

    def test_delete_with_an_active_run(self):
        session = self.session()
        self.start(session, "sleep 1236")
        self.assertStatus(session.delete(), 200)
        self.assertTrue(wait_until(lambda: subprocess.run(["pgrep", "-f", "sleep 1236"],
                                                          capture_output=True).returncode == 1))

    def test_a_signal_ends_it(self):
        session = self.session()
        run = self.start(session, "sleep 60")
        answer = session.post("/signal", {"signal": "SIGKILL", "run_id": run.rsplit("/", 1)[1]})
        self.assertStatus(answer, 200)
        self.assertNotEqual(self.wait(session, run)["exit_code"], 0)

    def test_runs_of_a_box_before_a_recycle_and_after_it_are_found(self):
        session = self.session()
        runs = []
        for number in range(6):
            runs.append(self.start(session, f"echo {number}"))
            self.wait(session, runs[-1])
            self.assertEqual(session.get(runs[-1] + "/logs").body, b"%d\n" % number)
            self.assertStatus(session.post("/recycle"), 200)
        found = [session.get(run).status for run in runs]
        self.assertEqual(found, [404, 404, 200, 200, 200, 200], "those of the last four boxes")
        self.assertEqual(session.get(runs[3] + "/logs").body, b"3\n")

    def spooled(self):
        """Bytes in files without names that the service holds for output."""
        spool = str(self.service.state / "spool")
        files = Path(f"/proc/{self.service.process.pid}/fd")
        return sum(file.stat().st_blocks * 512 for file in files.iterdir()
                   if os.readlink(file).startswith(spool))

    def test_all_logs_of_a_session_together_are_bounded(self):
        session = self.session()
        mebi = 1 << 20
        runs = [self.start(session, "head -c 16777216 /dev/zero; echo") for _ in range(2)]
        for run in runs:
            self.wait(session, run)
        for _ in range(4):
            runs.append(self.start(session, "head -c 16777215 /dev/zero; echo"))
            self.wait(session, runs[-1])
            if len(runs) == 4:
                self.assertStatus(session.post("/recycle"), 200)
        self.assertLessEqual(self.spooled(), 64 * mebi + mebi)
        logs = [session.get(run + "/logs") for run in runs]
        self.assertEqual([len(log.body) for log in logs], [0, 0] + [16 * mebi] * 4)
        self.assertEqual([log.headers["X-Glovebox-Skipped"] for log in logs],
                         [str(16 * mebi + 1)] * 2 + [None] * 4)
        self.assertEqual(session.get(runs[0]).json["exit_code"], 0, "the record stays")


class Files(ServiceTest):
    def test_rw_is_seen_on_the_host_and_by_the_api(self):
        session = self.session(mode="rw", files={"host": "h"})
        session.out("echo run > by-run")
        session.write("by-api", bytes([0, 1, 2, 255]))
        self.assertEqual(Path(session.workspace, "by-run").read_text(), "run\n")
        self.assertEqual(Path(session.workspace, "by-api").read_bytes(), bytes([0, 1, 2, 255]))
        self.assertEqual(session.download("by-api").body, bytes([0, 1, 2, 255]))
        self.assertEqual(session.info("by-api").json["by-api"]["size"], 4)
        self.assertEqual(session.info("by-api").json["by-api"]["mode"], 644)
        self.assertEqual(session.read("host"), "h")

    def test_ro_reads_and_refuses_writes_with_403(self):
        session = self.session(mode="ro", files={"a__txt": "1"})
        self.assertEqual(session.out("cat a.txt"), "1")
        self.assertNotEqual(session.run("echo x > b").exit_code, 0)
        self.assertEqual(session.read("a.txt"), "1")
        self.assertEqual(len(session.search(session.workspace, "*.txt").json), 1)
        self.assertEqual(len(session.list(session.workspace).json), 1)
        for answer in (session.upload(({"path": "b"}, b"")), session.remove("a.txt"), session.move("a.txt", "b"),
                       session.chmod("a.txt", mode=600), session.replace("a.txt", "1", "2"),
                       session.post("/directories", {"d": {"mode": 755}}), session.remove_directories("d")):
            self.assertStatus(answer, 403, "RUNTIME_ERROR")

    def test_overlay_leaves_the_host_alone(self):
        session = self.session(files={"a": "1", "b": "2"})
        session.write("c", "3")
        session.remove("b")
        session.replace("a", "1", "one")
        names = sorted(info["path"] for info in session.search(session.workspace).json if info["type"] == "file")
        self.assertEqual(names, ["a", "c"])
        self.assertEqual(sorted(os.listdir(session.workspace)), ["a", "b"])
        self.assertEqual(Path(session.workspace, "a").read_text(), "1")

    def test_paths_outside_are_400(self):
        session = self.session()
        for path in ("/etc/passwd", "../x", session.workspace + "/../x", "/", "a/../../b"):
            self.assertStatus(session.info(path), 400, "INVALID_FILE")
            self.assertStatus(session.upload(({"path": path}, b"x")), 400)

    def test_ranges_and_lines(self):
        session = self.session()
        session.write("a", "one\r\ntwo\nthree\nfour\n")
        answer = session.download("a", headers={"Range": "bytes=0-2"})
        self.assertEqual((answer.status, answer.body, answer.headers["Content-Range"]), (206, b"one", "bytes 0-2/20"))
        self.assertEqual(session.download("a", headers={"Range": "bytes=-5"}).body, b"four\n")
        self.assertEqual(session.download("a", headers={"Range": "bytes=100-"}).status, 200)
        self.assertStatus(session.download("a", headers={"Range": "bytes=x"}), 416, "UNKNOWN")
        answer = session.download("a", offset=2, limit=2)
        self.assertEqual((answer.status, answer.body), (200, b"two\nthree"))
        self.assertEqual(answer.headers["Content-Type"], "text/plain; charset=utf-8")
        self.assertEqual(session.download("a", limit=1).body, b"one")
        self.assertStatus(session.download("a", headers={"Range": "bytes=0-1"}, offset=1), 400)
        self.assertStatus(session.download("a", offset=0), 400)
        self.assertStatus(session.get("/files/download"), 400, "MISSING_QUERY")
        plain = session.download("a")
        self.assertEqual(plain.headers["Content-Disposition"], 'attachment; filename="a"')
        self.assertEqual(session.download("a", headers={"If-Modified-Since": plain.headers["Last-Modified"]}).status, 304)

    def test_names_of_all_kinds(self):
        session = self.session()
        for name in ("b b", "\u00e4.txt", "a\"b", "%2F", "new\nline", "-rf", "*"):
            session.write(name, name)
            self.assertEqual(session.read(name), name)
        self.assertIn("filename*=UTF-8''%C3%A4.txt", session.download("\u00e4.txt").headers["Content-Disposition"])

    def test_names_that_are_no_utf8_leave_answers_json(self):
        session = self.session()
        session.out("touch $'a\\xffb' $'cut\\xc3'")
        names = {"a\ufffdb", "cut\ufffd"}
        for answer in (session.list(session.workspace), session.search(session.workspace)):
            paths = {os.path.basename(entry["path"]) for entry in json.loads(answer.body.decode())}
            self.assertLessEqual(names, paths)
        info = session.get("/files/info?path=a%FFb")
        self.assertStatus(info, 200)
        self.assertIn("a\ufffdb", json.loads(info.body.decode()))
        commit = session.post("/commit")
        json.loads(commit.body.decode())

    def test_long_paths_are_bounded_together(self):
        session = self.session()
        session.write("deep.py", "import os\n"
                      "os.mkdir('zz'); os.chdir('zz')\n"
                      "for _ in range(14): os.mkdir('d' * 240); os.chdir('d' * 240)\n"
                      "for i in range(5500): open(f'f{i}', 'w').close()\n")
        session.out("python3 deep.py")
        answer = session.search("zz", "**")
        self.assertStatus(answer, 429, "TOO_MANY_REQUESTS")
        self.assertIn("paths of the entries", answer.json["message"])
        self.assertEqual(session.out("echo here"), "here")
        self.assertEqual(len(session.list("zz", 1).json), 1)

    def test_upload_refusals(self):
        session = self.session()
        kind = {"Content-Type": "multipart/form-data; boundary=b"}

        def send(*parts):
            body = b"".join(b"--b\r\nContent-Disposition: form-data; " + head + b"\r\n\r\n" + data + b"\r\n"
                            for head, data in parts) + b"--b--\r\n"
            return session.post("/files/upload", body, headers=kind)

        metadata = (b'name="metadata"; filename="metadata"', b'{"path":"x"}')
        content = (b'name="file"; filename="x"', b"1")
        self.assertStatus(send(content), 400, "INVALID_FILE_METADATA")
        self.assertStatus(send(metadata), 400, "INVALID_FILE_CONTENT")
        self.assertStatus(send(metadata, content, content), 400, "INVALID_FILE")
        self.assertStatus(send((b'name="metadata"', b'{"path":"x"}'), content), 400, "INVALID_FILE_METADATA")
        self.assertStatus(send((metadata[0], b'{"path":""}'), content), 400, "INVALID_FILE_METADATA")
        self.assertStatus(send((metadata[0], b"{"), content), 400, "INVALID_FILE_METADATA")
        self.assertStatus(session.post("/files/upload", b"x", headers={"Content-Type": "text/plain"}), 400)

    def test_binds(self):
        source = self.service.data / self.name
        source.mkdir()
        (source / "host").write_text("h")
        if TIER == "user":
            os.chown(source, 65533, 65533)
        session = self.session(binds=[{"source": str(source), "dest": "/mnt/rw"},
                                      {"source": str(source), "dest": "/mnt/ro", "readonly": True}])
        session.out("cat /mnt/ro/host; echo x > /mnt/rw/made")
        self.assertEqual((source / "made").read_text(), "x\n")
        self.assertNotEqual(session.run("echo x > /mnt/ro/no").exit_code, 0)
        self.assertEqual(session.read("/mnt/rw/host"), "h")
        self.assertStatus(session.upload(({"path": "/mnt/ro/x"}, b"x")), 403)
        self.assertEqual([bind["dest"] for bind in session.state()["binds"]], ["/mnt/rw", "/mnt/ro"])
        answer = self.service.post("/v1/isolated/session", {
            "workspace": {"path": session.workspace}, "binds": [{"source": "/etc"}]})
        self.assertStatus(answer, 400, "RUNTIME_ERROR")
        self.assertIn("allowlist", answer.json["message"])

    def test_balanced_sessions_share_tmp(self):
        first, second = self.session(profile="balanced"), self.session(profile="balanced")
        strict = self.session()
        first.out("echo shared > /tmp/note")
        self.assertEqual(second.out("cat /tmp/note"), "shared")
        self.assertNotEqual(strict.run("cat /tmp/note").exit_code, 0)
        self.assertEqual(first.state()["binds"], [])

    def test_large_files_in_and_out(self):
        session = self.session()
        content = os.urandom(1 << 20) * 24
        session.write("big", content)
        self.assertEqual(session.download("big").body, content)


class Changes(ServiceTest):
    def test_diff_in_three_forms(self):
        session = self.session(files={"a": "1\n", "gone": "x"})
        session.out("echo 2 > a; rm gone; echo new > b")
        changes = session.get("/diff", headers={"Accept": "application/json"}).json["changes"]
        self.assertEqual(sorted((change["kind"], change["path"]) for change in changes),
                         [("added", "b"), ("deleted", "gone"), ("modified", "a")])
        text = session.get("/diff", headers={"Accept": "text/x-diff"}).body.decode()
        self.assertIn("+2", text)
        answer = session.get("/diff")
        self.assertEqual(answer.headers["Content-Type"], "application/gzip")
        names = tarfile.open(fileobj=io.BytesIO(answer.body), mode="r:gz").getnames()
        self.assertTrue({"a", "b"} <= set(names), names)

    def test_commit_takes_over_and_undo_takes_back(self):
        session = self.session(files={"a": "1\n", "b": "1\n"})
        session.out("echo 2 > a; echo 2 > b")
        dry = session.post("/commit", {"dry_run": True})
        self.assertStatus(dry, 200)
        self.assertEqual(len(dry.json["applied"]), 2)
        self.assertEqual(Path(session.workspace, "a").read_text(), "1\n")
        self.assertStatus(session.post("/commit", {"only": ["a"]}), 200)
        self.assertEqual((Path(session.workspace, "a").read_text(), Path(session.workspace, "b").read_text()),
                         ("2\n", "1\n"))
        self.assertStatus(session.post("/undo"), 200)
        self.assertEqual(Path(session.workspace, "a").read_text(), "1\n")
        self.assertStatus(session.post("/undo"), 404)

    def test_held_and_conflicting_paths_are_409(self):
        session = self.session(files={"a": "1\n"})
        session.out("mkdir -p .git/hooks; echo '#!/bin/sh' > .git/hooks/pre-commit; chmod +x .git/hooks/pre-commit; echo 2 > a")
        Path(session.workspace, "a").write_text("theirs\n")
        answer = session.post("/commit")
        self.assertStatus(answer, 409, "COMMIT_REFUSED")
        self.assertIn(".git/hooks/pre-commit", [held["path"] for held in answer.json["held"]])
        self.assertEqual([conflict["path"] for conflict in answer.json["conflicts"]], ["a"])
        answer = session.post("/commit", {"reject": ["a"], "accept_risky": [".git/**"]})
        self.assertStatus(answer, 200)
        self.assertEqual(Path(session.workspace, "a").read_text(), "theirs\n")

    def test_without_a_layer_there_is_none(self):
        session = self.session(mode="rw")
        self.assertStatus(session.get("/diff"), 400, "NOT_SUPPORTED")


class Diffs(ServiceTest):
    SETTINGS = "diff_max_bytes = 1000\n"

    def test_a_large_diff_is_413(self):
        session = self.session()
        session.out("head -c 100000 /dev/urandom > big")
        self.assertStatus(session.get("/diff"), 413)


class Knowing(ServiceTest):
    SETTINGS = 'audit_file = "@BASE@/service/audit"\npolicy_directory = "@BASE@/service/policies"\n'

    FILES = {"policies/mine.yaml": "version: 1\nfs: {read: [/usr/share]}\n"}

    def test_the_report_says_what_is_enforced(self):
        session = self.session()
        session.out("true")
        report = session.get("/report").json
        self.assertTrue(report["enforced"])
        self.assertEqual(report["usage"]["runs"], 1)
        self.assertEqual(report["session"]["session_id"], session.id)

    def test_policies_are_listed_used_and_read_again(self):
        policies = {one["name"]: one.get("digest") for one in self.service.get("/v1/policies").json["policies"]}
        self.assertIn("mine", policies)
        self.assertIn("python", policies)
        session = self.session(policy="mine", if_policy=policies["mine"])
        self.assertEqual(session.state()["policy"]["digest"], policies["mine"])
        answer = self.service.post("/v1/isolated/session", {
            "workspace": {"path": session.workspace}, "policy": "mine", "if_policy": "other"})
        self.assertStatus(answer, 400)
        answer = self.service.post("/v1/isolated/session", {
            "workspace": {"path": session.workspace}, "policy": "/etc/passwd"})
        self.assertStatus(answer, 400)
        (self.service.base / "service/policies/mine.yaml").write_text("version: 1\nnonsense: 5\n")
        self.assertStatus(self.service.post("/v1/policies/reload"), 400)
        (self.service.base / "service/policies/mine.yaml").write_text("version: 1\nfs: {read: [/usr/lib]}\n")
        answer = self.service.post("/v1/policies/reload").json
        self.assertEqual(answer["changed"], 1)
        self.assertEqual([one["name"] for one in answer["policies"]], ["mine"])
        self.assertEqual(answer["sessions"][0]["session_id"], session.id)
        self.assertIn("no longer: allow read=/usr/share", answer["sessions"][0]["for_new_sessions"])

    def test_the_audit_has_everything(self):
        session = self.session()
        session.out("echo not-in-the-audit")
        session.post("/commit")
        session.delete()
        lines = [json.loads(line) for line in (self.service.base / "service/audit").read_text().splitlines()]
        acts = [line["act"] for line in lines if line.get("session_id") == session.id]
        for act in ("create", "created", "run_ended", "commit", "delete"):
            self.assertIn(act, acts)
        self.assertNotIn("not-in-the-audit", (self.service.base / "service/audit").read_text())
        self.assertEqual((self.service.base / "service/audit").stat().st_mode & 0o777, 0o600)

    def test_whatever_bytes_come_the_audit_and_the_log_are_json(self):
        with socket.create_connection(("127.0.0.1", self.service.port), timeout=10) as client:
            client.sendall(b'GET /\xff\xfe"x HTTP/1.1\r\nHost: a\r\nOrigin: http://example.com\r\n'
                           b'Connection: close\r\n\r\n')
            while client.recv(65536):
                pass
        for name in ("service/audit", "log"):
            lines = (self.service.base / name).read_bytes().decode().splitlines()
            paths = [json.loads(line).get("path") for line in lines if line.startswith("{")]
            self.assertIn('/\ufffd\ufffd"x', paths)

    def test_metrics_in_both_forms(self):
        self.session().out("true")
        numbers = self.service.get("/metrics").json
        self.assertEqual(set(numbers), {"cpu_count", "cpu_used_pct", "mem_total_mib", "mem_used_mib", "timestamp"})
        text = self.service.get("/metrics", headers={"Accept": "text/plain"}).body.decode()
        for name in ("execd_isolation_session_count", 'execd_isolation_run_duration_count{result="success"}',
                     "execd_isolation_upper_usage_bytes", "execd_http_request_duration_bucket"):
            self.assertIn(name, text)

    def test_denials_can_be_listed(self):
        session = self.session()
        self.assertEqual(session.get("/denials").json, {"denials": []})


if __name__ == "__main__":
    import unittest
    unittest.main(verbosity=2)
