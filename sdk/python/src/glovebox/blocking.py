"""Sandboxes for ordinary, blocking code. The words are those of `glovebox.aio`, which says more about each."""

from __future__ import annotations

import builtins
import os
import warnings
import weakref
from collections.abc import Callable, Mapping
from typing import Any, Unpack

from . import _files, _state, aio
from ._core import Core, Handler
from ._core import Execution as _Execution
from ._drive import BlockingDriver, run
from ._request import SpawnOptions
from .aio import AlertHandler, OutputHandler
from .backends import BackendMode
from .capabilities import Grants
from .errors import SandboxError
from .events import DenialEvent, LogEvent, MetricEvent, Stats
from .policy import PolicyLike
from .results import Change, Commit, FileInfo, RunResult, Snapshot


class Execution:
    """Source that a sandbox was given to run. Waiting for it is optional."""

    def __init__(self, inner: _Execution) -> None:
        self._inner = inner

    @property
    def done(self) -> bool:
        return self._inner.done

    def wait(self, timeout: float | None = None) -> None:
        """Until it has ended. Raises what it raised; after `timeout` seconds it is cancelled."""
        run(self._inner.wait(timeout))

    def cancel(self) -> bool:
        """Interrupts it, and does not wait. False when it had ended already."""
        return run(self._inner.cancel())


class Files:
    """Reading and writing in a sandbox. Paths are absolute, or start at its first workspace."""

    def __init__(self, inner: _files.Files) -> None:
        self._inner = inner

    def read_bytes(self, path: str) -> bytes:
        return run(self._inner.read_bytes(path))

    def read_text(self, path: str, encoding: str = "utf-8") -> str:
        return run(self._inner.read_text(path, encoding))

    def write(self, path: str, content: str | bytes, *, mode: int | None = None) -> None:
        run(self._inner.write(path, content, mode=mode))

    def info(self, path: str) -> FileInfo:
        return run(self._inner.info(path))

    def exists(self, path: str) -> bool:
        return run(self._inner.exists(path))

    def list(self, path: str = ".", depth: int = 1) -> builtins.list[FileInfo]:
        return run(self._inner.list(path, depth))

    def search(self, path: str = ".", pattern: str = "**") -> builtins.list[FileInfo]:
        return run(self._inner.search(path, pattern))

    def remove(self, *paths: str) -> None:
        run(self._inner.remove(*paths))

    def move(self, source: str, target: str) -> None:
        run(self._inner.move(source, target))

    def chmod(self, path: str, mode: int) -> None:
        run(self._inner.chmod(path, mode))

    def replace(self, path: str, old: str, new: str) -> int:
        return run(self._inner.replace(path, old, new))

    def make_directory(self, path: str, mode: int = 0o755) -> None:
        run(self._inner.make_directory(path, mode))

    def remove_directory(self, *paths: str) -> None:
        run(self._inner.remove_directory(*paths))


class Sandbox:
    """A sealed box with a Python in it, a shell, and files. May be used from several threads.

    Close it, or use it in a `with` statement. One that is dropped alive is closed with a `ResourceWarning`.
    """

    def __init__(self, core: Core, supervisor: Supervisor) -> None:
        self._core = core
        self._supervisor = supervisor
        self._inner = aio.Sandbox(core)
        self.files = Files(self._inner.files)

    @property
    def name(self) -> str:
        return self._inner.name

    @property
    def id(self) -> str:
        """The session's id at the service."""
        return self._inner.id

    @property
    def backend(self) -> BackendMode:
        return self._inner.backend

    @property
    def is_closed(self) -> bool:
        return self._inner.is_closed

    @property
    def termination_reason(self) -> str | None:
        return self._inner.termination_reason

    @property
    def quarantine_reason(self) -> str | None:
        return self._inner.quarantine_reason

    # ---- Python --------------------------------------------------------------------------------------

    def exec(self, source: str) -> Execution:
        """Has the sandbox run source in its globals, which stay. Does not wait for it to end."""
        return Execution(run(self._inner.exec(source)))

    def call(self, target: str | Callable[..., Any], /, *args: Any, timeout: float | None = None,
             **kwargs: Any) -> Any:  # fmt: skip
        """The result of `"module.function"`, or of a function that is sent into the sandbox by its source."""
        return run(self._inner.call(target, *args, timeout=timeout, **kwargs))

    def post(self, value: Any) -> None:
        """Sends a value to the guest's `recv()`."""
        run(self._inner.post(value))

    def recv(self, timeout: float | None = None) -> Any:
        """The next value that the guest has posted; raises what a source given to `exec()` raised."""
        return run(self._inner.recv(timeout))

    def cancel(self) -> bool:
        """Interrupts what runs in the sandbox: Python, and commands of `run()`. False when nothing does."""
        return run(self._inner.cancel())

    def handle(self, capability: str, handler: Handler) -> None:
        """Answers the guest's `request(capability, action, payload)` with `handler(action, payload)`."""
        run(self._inner.handle(capability, handler))

    # ---- What it says --------------------------------------------------------------------------------

    def output(self, stream: str | None = None) -> str:
        return self._inner.output(stream)

    def logs(self) -> list[LogEvent]:
        return self._inner.logs()

    def metrics(self) -> list[MetricEvent]:
        return self._inner.metrics()

    def denials(self) -> list[DenialEvent]:
        """What it was refused, the oldest first."""
        return run(self._inner.denials())

    get_denial_events = denials

    @property
    def stats(self) -> Stats:
        """What it has used until now. Asks the sandbox."""
        return run(self._inner.stats())

    def profile(self) -> Stats:
        """The same as `stats`."""
        return self.stats

    def report(self) -> dict[str, Any]:
        """What is enforced and by what, what it used, and how it ended."""
        return run(self._inner.report())

    def info(self) -> dict[str, Any]:
        return run(self._inner.info())

    # ---- Commands and changes ------------------------------------------------------------------------

    def run(self, command: str, *, timeout: float | None = None, cwd: str | None = None,
            env: Mapping[str, str] | None = None, stdin: str | None = None, check: bool = False,
            on_output: OutputHandler | None = None) -> RunResult:  # fmt: skip
        """Runs a command in the sandbox's shell, which keeps its directory, variables and functions."""
        return run(
            self._inner.run(command, timeout=timeout, cwd=cwd, env=env, stdin=stdin, check=check, on_output=on_output)
        )

    def diff(self, workspace: str | None = None) -> list[Change]:
        return run(self._inner.diff(workspace))

    def diff_text(self, workspace: str | None = None) -> str:
        return run(self._inner.diff_text(workspace))

    def commit(self, *, only: list[str] | None = None, reject: list[str] | None = None,
               accept_risky: list[str] | None = None, accept_rules: list[str] | None = None,
               accept_classes: list[str] | None = None, dry_run: bool = False,
               workspace: str | None = None) -> Commit:  # fmt: skip
        """Takes changes over into the original: all that are selected, or, with `CommitRefused`, none."""
        return run(
            self._inner.commit(
                only=only, reject=reject, accept_risky=accept_risky, accept_rules=accept_rules,
                accept_classes=accept_classes, dry_run=dry_run, workspace=workspace,
            )
        )  # fmt: skip

    def undo(self, workspace: str | None = None) -> list[str]:
        return run(self._inner.undo(workspace))

    # ---- Its life ------------------------------------------------------------------------------------

    def snapshot(self) -> Snapshot:
        return run(self._inner.snapshot())

    def reset(self) -> None:
        """A fresh box and fresh globals under the same name, with the same policy and capabilities."""
        run(self._inner.reset())

    def recycle(self) -> None:
        """The same, and what it changed in its workspace stays."""
        run(self._inner.recycle())

    def fork(self, count: int = 1, *, name: str | None = None, ceiling: Grants = None,
             limits: Mapping[str, Any] | None = None, force: bool = False) -> list[Sandbox]:  # fmt: skip
        """Sandboxes that go on from the files of this one and share nothing but that past."""
        cores = run(_state.fork(self._core, count, name, ceiling, limits, force))
        return [self._supervisor._adopt(core) for core in cores]

    def checkpoint(self, key: bytes, *, tenant: str | None = None, force: bool = False) -> bytes:
        """The sandbox as an encrypted file: authority, policy, files. Not memory. The key has 32 bytes."""
        return run(self._inner.checkpoint(key, tenant=tenant, force=force))

    def migrate(self, to: Supervisor, key: bytes, *, tenant: str | None = None) -> Sandbox:
        """Moves it to another supervisor's service. It ends here when it is there, and not before."""
        return to._adopt(run(_state.migrate(self._core, to._inner, key, tenant)))

    def kill(self) -> bool:
        """Ends it at once with everything in it. False when it was gone already."""
        return run(self._inner.kill())

    def reap(self) -> bool:
        """Removes what is left of one that has ended. False when it still lives."""
        return run(self._inner.reap())

    def quarantine(self, reason: str) -> None:
        """Ends it and says why. Its changes are kept on the service's disk, to be looked at later."""
        run(self._inner.quarantine(reason))

    def close(self) -> None:
        """Ends it and forgets its changes. A second time it does nothing."""
        run(self._inner.close())

    def __enter__(self) -> Sandbox:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        core = getattr(self, "_core", None)
        if core is None or core.is_closed or core.driver.owner != os.getpid():
            return
        message = f"sandbox {core.request.name!r} was dropped alive and is closed"
        warnings.warn(message, ResourceWarning, stacklevel=2, source=self)
        try:
            self.close()
        except SandboxError:
            pass  # its service is gone, and it with that

    def __repr__(self) -> str:
        return repr(self._inner)


class Supervisor:
    """Makes sandboxes, and knows those that it made. May be used from several threads.

    Without arguments it uses the service that `GLOVEBOX_HOST` names, else one of this process's own, which is
    started when the first sandbox is made and ends with the process at the latest.
    """

    def __init__(self, url: str | None = None, *, token: str | None = None, binary: str | None = None,
                 name_pattern: str | None = None) -> None:  # fmt: skip
        driver = BlockingDriver(url, token, binary)
        self._inner = aio.Supervisor(name_pattern=name_pattern, driver=driver)
        self._handles: weakref.WeakValueDictionary[str, Sandbox] = weakref.WeakValueDictionary()

    @property
    def name_pattern(self) -> str:
        return self._inner.name_pattern

    def spawn(self, name: str, policy: PolicyLike = None, **options: Unpack[SpawnOptions]) -> Sandbox:
        """A sandbox that is ready. What it may do is in `policy` and `capabilities`, and is nothing without them."""
        return self._adopt(run(self._inner._spawn(name, policy, options)))

    def _adopt(self, core: Core) -> Sandbox:
        made = Sandbox(core, self)
        self._handles[made.name] = made
        return made

    def restore(self, blob: bytes, key: bytes, *, name: str | None = None, tenant: str | None = None,
                backend: BackendMode | None = None, python: bool | None = None,
                handlers: Mapping[str, Handler] | None = None) -> Sandbox:  # fmt: skip
        """A sandbox of a checkpoint. `CheckpointError` says what is wrong with one; then there is nothing."""
        wanted = _state.Wanted(name, tenant, backend, python, handlers or {})
        return self._adopt(run(_state.restore(self._inner, blob, key, wanted))[0])

    def list_active(self) -> dict[str, Sandbox]:
        """The sandboxes of this supervisor that have not ended, by name."""
        return {
            name: handle
            for name, handle in list(self._handles.items())
            if not handle.is_closed and handle.termination_reason is None
        }

    def recycle(self, name: str) -> None:
        run(self._inner.recycle(name))

    def quarantine(self, name: str, reason: str) -> None:
        run(self._inner.quarantine(name, reason))

    def register_alert_handler(self, handler: AlertHandler) -> None:
        """Calls `handler(name, error)` for every denial, in a thread of its own."""
        self._inner.register_alert_handler(handler)

    def host(self) -> dict[str, Any]:
        """What the service can do on its host."""
        return run(self._inner.host())

    def policies(self) -> dict[str, str]:
        """The policies that a sandbox may name, with their digests."""
        return run(self._inner.policies())

    def reload_policies(self) -> int:
        """Has the service read its policies again. When one is wrong nothing changes."""
        return run(self._inner.reload_policies())

    def close(self) -> None:
        """Ends every sandbox of this supervisor, and its service if that is this process's own."""
        run(self._inner.close())

    shutdown = close

    def __enter__(self) -> Supervisor:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
