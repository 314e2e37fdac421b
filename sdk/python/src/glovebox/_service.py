"""Which service to talk to, and how one comes to be there.

A service that is named (`url=`, or `GLOVEBOX_HOST` with `GLOVEBOX_TOKEN` or `GLOVEBOX_TOKEN_FILE`) is used.
Otherwise this process starts one of its own: `glovebox serve` on a socket in a directory that only its user
can enter, so that it needs no token. All supervisors of a process share it, and it ends with the last of them.

It also ends when this process dies in any way at all. A small shell stands between: it holds the reading end
of a pipe whose writing end only this process has, and the kernel closes that for us. So nothing has to be done
in a signal handler, nor in a forked child, and SIGKILL leaves nothing behind. When the shell is killed too, its
directories stay until the next service is started below the same state directory, which removes them.
"""

from __future__ import annotations

import atexit
import fcntl
import json
import os
import select
import shutil
import socket
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from ._binary import find_binary
from .errors import ServiceNotFound

_START_SECONDS = 30.0
_STOP_SECONDS = 20.0
_LAST_WORDS = 4096
_LOOK_SECONDS = 0.02

# Runs "$@" until it ends by itself or standard input is closed; then removes the directories $1 and $2.
_KEEPER = """
state=$1 place=$2; shift 2
trap '' INT TERM HUP
exec 3<&0 </dev/null
( trap - INT TERM HUP; exec "$@" 3<&- ) &
service=$!
{ read -r _ <&3; kill -TERM "$service"; } 2>/dev/null &
watch=$!
exec 3<&-
wait "$service"; code=$?
kill "$watch" 2>/dev/null
rm -rf -- "$state" "$place"
exit "$code"
"""

# Of these the service of a process makes nothing of its own: they are about other services.
_NOT_PASSED = ("GLOVEBOX_HOST", "GLOVEBOX_TOKEN", "GLOVEBOX_TOKEN_FILE", "EXECD_ACCESS_TOKEN", "NOTIFY_SOCKET",
               "LISTEN_FDS", "LISTEN_PID", "LISTEN_FDNAMES")  # fmt: skip


@dataclass(frozen=True)
class Address:
    """Where a service listens: the path of a socket, or a URL."""

    socket: str = ""
    url: str = "http://localhost"
    token: str = field(default="", repr=False)

    @property
    def name(self) -> str:
        return self.socket or self.url

    @property
    def is_tls(self) -> bool:
        return self.url.startswith("https:")

    @property
    def host(self) -> str:
        return urlsplit(self.url).hostname or "localhost"

    @property
    def port(self) -> int:
        return urlsplit(self.url).port or (443 if self.is_tls else 80)


def parse_address(text: str, token: str | None = None) -> Address:
    """`unix:///run/x.sock`, `/run/x.sock`, `http://127.0.0.1:44772` or `https://HOST`."""
    secret = _token() if token is None else token
    path = text.removeprefix("unix://")
    if path.startswith("/"):
        return Address(socket=path, token=secret)
    parts = urlsplit(text if "://" in text else f"http://{text}")
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.path not in ("", "/"):
        raise ServiceNotFound(f"{text!r} is no address of a service: write unix:///run/x.sock or http://HOST:PORT")
    if parts.username or parts.password:
        raise ServiceNotFound("a token has no place in the address: use GLOVEBOX_TOKEN or GLOVEBOX_TOKEN_FILE")
    return Address(url=f"{parts.scheme}://{parts.netloc}", token=secret)


def _token() -> str:
    if token := os.environ.get("GLOVEBOX_TOKEN"):
        return token
    if file := os.environ.get("GLOVEBOX_TOKEN_FILE"):
        return Path(file).read_text().strip()
    return ""


def _state_directory() -> Path:
    """Where the command line keeps its state too; layers must lie on a file system that can hold them."""
    chosen = os.environ.get("GLOVEBOX_STATE", "")
    if chosen.startswith("/"):
        return Path(chosen)
    if os.geteuid() == 0:
        return Path("/var/lib/glovebox")
    state, home = os.environ.get("XDG_STATE_HOME", ""), os.environ.get("HOME", "")
    if state.startswith("/"):
        return Path(state) / "glovebox"
    if home.startswith("/"):
        return Path(home) / ".local/state/glovebox"
    raise ServiceNotFound("there is no directory for a service's state: set HOME or GLOVEBOX_STATE")


def _settings(socket_path: str, state: str) -> str:
    # The service acts for this process's user alone, who may hand in whatever they can reach themselves.
    return (
        "listen = []\n"
        f"socket = {json.dumps(socket_path)}\n"
        f"state_directory = {json.dumps(state)}\n"
        'allowed_writable = ["/"]\n'
        "drain_seconds = 1\n"
        "[sessions]\n"
        "run_timeout_seconds = 0\n"
        'on_stop = "delete"\n'
    )


# ---- Directories that a killed service left. ---------------------------------------------------------------
#
# The log is the standard output of the keeper and of the service, and open in the process that they belong to. A
# lock on it is one of all of these (flock(2)): it is free when the last of them is gone, however that came.

_LOG = "service.log"
_PLACE = "place"  # names the directory of the socket


@contextmanager
def _alone_in(parent: Path) -> Iterator[None]:
    """Held while directories below `parent` are made or removed, by one process at a time."""
    with open(parent / ".lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _sweep(parent: Path) -> None:
    """Removes what services left that are gone, with those who should have removed it."""
    for state in parent.iterdir():
        if state.is_symlink() or not state.is_dir():
            continue
        try:
            place = Path((state / _PLACE).read_text())  # one without it is of an SDK that held no lock
        except (OSError, ValueError):
            continue
        if not _is_left(state):
            continue
        is_ours = place.name.startswith("glovebox-") and not place.is_symlink()
        if is_ours and place.is_dir() and place.stat().st_uid == os.geteuid():
            shutil.rmtree(place, ignore_errors=True)
        shutil.rmtree(state, ignore_errors=True)


def _is_left(state: Path) -> bool:
    """Whether no process has the log of a service any more."""
    try:
        with open(state / _LOG, "rb") as log:
            fcntl.flock(log, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return True


class EmbeddedService:
    """A service that belongs to this process."""

    def __init__(self, binary: str) -> None:
        self.pid = os.getpid()
        parent = _state_directory() / "python"
        try:
            parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with _alone_in(parent):
                _sweep(parent)
                self._state = Path(tempfile.mkdtemp(prefix=f"{self.pid}-", dir=parent))
                # Held open: the keeper removes the directory, and what the service said last is wanted after that.
                self._log = open(self._state / _LOG, "w+b")  # noqa: SIM115
                fcntl.flock(self._log, fcntl.LOCK_EX)
        except OSError as problem:
            raise ServiceNotFound(f"no directory for the service's state: {problem} (set GLOVEBOX_STATE)") from None
        # Of its own, because the path of a socket has to be short.
        self._place = Path(tempfile.mkdtemp(prefix="glovebox-"))
        (self._state / _PLACE).write_text(str(self._place))
        self.address = Address(socket=str(self._place / "service.sock"))
        config = self._state / "service.toml"
        config.write_text(_settings(self.address.socket, str(self._state / "serve")))
        ready = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC)
        with ready:
            ready.bind(b"")  # an abstract name of the kernel's choice
            name = "@" + ready.getsockname()[1:].decode()
            self._process = self._start([binary, "serve", "--config", str(config)], name)
            self._await(ready)

    def _start(self, command: list[str], notify: str) -> subprocess.Popen[bytes]:
        environment = {name: value for name, value in os.environ.items() if name not in _NOT_PASSED}
        environment["NOTIFY_SOCKET"] = notify
        reading, self._lifeline = os.pipe2(os.O_CLOEXEC)
        try:
            return subprocess.Popen(
                ["/bin/sh", "-c", _KEEPER, "glovebox", str(self._state), str(self._place), *command],
                stdin=reading,
                stdout=self._log,
                stderr=self._log,
                env=environment,
                cwd="/",
                start_new_session=True,  # a terminal's Ctrl-C is for this process
            )
        except OSError:
            os.close(self._lifeline)
            self._log.close()
            self._remove()
            raise
        finally:
            os.close(reading)

    def _await(self, ready: socket.socket) -> None:
        ending = os.pidfd_open(self._process.pid)
        deadline = time.monotonic() + _START_SECONDS
        try:
            poll = select.poll()
            poll.register(ready, select.POLLIN)
            poll.register(ending, select.POLLIN)
            while (left := deadline - time.monotonic()) > 0:
                seen = {descriptor for descriptor, _ in poll.poll(left * 1000)}
                if ready.fileno() in seen and b"READY=1" in ready.recv(4096):
                    return
                if ending in seen:
                    break
        finally:
            os.close(ending)
        said = self.last_words()
        self.stop()
        raise ServiceNotFound(f"the service did not start: {said}")

    def last_words(self) -> str:
        """The end of what the service has logged."""
        if self._log.closed:
            return "it was stopped"
        size = os.fstat(self._log.fileno()).st_size
        lines = (
            os.pread(self._log.fileno(), _LAST_WORDS, max(0, size - _LAST_WORDS)).decode(errors="replace").splitlines()
        )
        return "; ".join(lines[-3:]) or "it said nothing"

    def is_alive(self) -> bool:
        return os.getpid() == self.pid and self._process.poll() is None

    def await_end(self) -> bool:
        """Whether no service listens any more. Then waits for the keeper, which ends a moment after the service."""
        if self.is_alive() and self._is_listening():
            return False
        try:
            self._process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            return False
        return True

    def _is_listening(self) -> bool:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK) as trial:
            try:
                trial.connect(self.address.socket)
            except (ConnectionRefusedError, FileNotFoundError):
                return False
            except OSError:
                pass  # busy, which is alive
        return True

    def stop(self) -> None:
        """Ends the service and everything in it. In a forked child: lets go of it, no more."""
        self.let_go()
        if os.getpid() != self.pid:
            return
        try:
            self._process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            os.killpg(self._process.pid, 9)  # a session of its own, so the group is the service
            self._process.wait()
        self._log.close()
        if self._process.returncode < 0:
            self._await_orphan()
        self._remove()  # the keeper has, unless it was killed

    def _await_orphan(self) -> None:
        """The keeper was killed. What it started ends by the pipe, and is killed when it does not."""
        deadline = time.monotonic() + _STOP_SECONDS
        while not _is_left(self._state):
            if time.monotonic() > deadline:
                with suppress(ProcessLookupError):
                    os.killpg(self._process.pid, 9)
                return
            time.sleep(_LOOK_SECONDS)

    def let_go(self) -> None:
        """Closes this process's end of the pipe; the service ends when no process has one any more."""
        descriptor, self._lifeline = self._lifeline, -1
        if descriptor >= 0:
            os.close(descriptor)
        if os.getpid() != self.pid:
            self._log.close()  # a forked child does not keep its directories

    def _remove(self) -> None:
        shutil.rmtree(self._state, ignore_errors=True)
        shutil.rmtree(self._place, ignore_errors=True)


class _Shared:
    """The service that the supervisors of this process share."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._service: EmbeddedService | None = None
        self._users = 0

    def acquire(self, binary: str) -> EmbeddedService:
        with self._lock:
            if self._service is None or not self._service.is_alive():
                if self._service is not None:
                    self._service.stop()
                self._service, self._users = EmbeddedService(binary), 0
            self._users += 1
            return self._service

    def release(self, service: EmbeddedService) -> None:
        with self._lock:
            if service is not self._service:
                return
            self._users -= 1
            if self._users > 0:
                return
            self._service = None
        service.stop()

    def stop(self) -> None:
        with self._lock:
            service, self._service = self._service, None
        if service is not None:
            service.stop()

    def forget(self) -> None:
        """In a forked child: the service is the parent's. A lock that was held there is held for ever."""
        self._lock = threading.Lock()
        service, self._service = self._service, None
        if service is not None:
            service.let_go()


shared = _Shared()
atexit.register(shared.stop)
os.register_at_fork(after_in_child=shared.forget)


def find_service(url: str | None, token: str | None, binary: str | None) -> Address | EmbeddedService:
    """The service that is named, else this process's own, started when it has to be."""
    named = url if url is not None else os.environ.get("GLOVEBOX_HOST", "")
    if named:
        return parse_address(named, token)
    return shared.acquire(find_binary(binary))
