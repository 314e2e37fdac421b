"""The supervisor behind the functions of the package, one for each process."""

from __future__ import annotations

import atexit
import os
import threading
from typing import Unpack

from ._request import SpawnOptions
from .aio import AlertHandler
from .blocking import Sandbox, Supervisor
from .errors import SandboxError
from .policy import PolicyLike


class _Default:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._supervisor: Supervisor | None = None

    def get(self) -> Supervisor:
        with self._lock:
            if self._supervisor is None:
                self._supervisor = Supervisor()
            return self._supervisor

    def take(self) -> Supervisor | None:
        with self._lock:
            supervisor, self._supervisor = self._supervisor, None
            return supervisor

    def forget(self) -> None:
        """In a forked child, which has no part in its parent's sandboxes."""
        self._lock = threading.Lock()
        self._supervisor = None


_default = _Default()
os.register_at_fork(after_in_child=_default.forget)


def default_supervisor() -> Supervisor:
    """The supervisor that `spawn()` uses."""
    return _default.get()


def spawn(name: str, policy: PolicyLike = None, **options: Unpack[SpawnOptions]) -> Sandbox:
    """A sandbox that is ready, made by the process's own supervisor."""
    return _default.get().spawn(name, policy, **options)


def list_active() -> dict[str, Sandbox]:
    """The sandboxes of the process's own supervisor that have not ended."""
    return _default.get().list_active()


def register_alert_handler(handler: AlertHandler) -> None:
    """Calls `handler(name, error)` for every denial in a sandbox of the process's own supervisor."""
    _default.get().register_alert_handler(handler)


def checkpoint(sandbox: Sandbox, key: bytes) -> bytes:
    """A sandbox as an encrypted file. The key has 32 bytes."""
    return sandbox.checkpoint(key)


def restore(blob: bytes, key: bytes, *, name: str | None = None) -> Sandbox:
    """A sandbox of such a file, made by the process's own supervisor."""
    return _default.get().restore(blob, key, name=name)


def migrate(sandbox: Sandbox, to: Supervisor, key: bytes) -> Sandbox:
    """Moves a sandbox to another supervisor's service."""
    return sandbox.migrate(to, key)


def shutdown() -> None:
    """Ends all sandboxes of the process's own supervisor, and its service. The next `spawn()` starts afresh."""
    supervisor = _default.take()
    if supervisor is not None:
        supervisor.close()


def _at_exit() -> None:
    try:
        shutdown()
    except SandboxError:
        pass  # the service ends in any case: it does so when this process does


atexit.register(_at_exit)
