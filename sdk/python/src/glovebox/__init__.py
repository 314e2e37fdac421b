"""Glovebox: sealed boxes for untrusted code.

    import glovebox as gb

    with gb.spawn("demo", capabilities=[gb.Import("math")]) as box:
        box.exec("from math import sqrt; post(sqrt(2))")
        print(box.recv())

The same for asyncio is in `glovebox.aio`.
"""

from . import aio, capabilities, errors
from ._binary import find_binary
from ._default import (
    checkpoint,
    default_supervisor,
    list_active,
    migrate,
    register_alert_handler,
    restore,
    shutdown,
    spawn,
)
from ._request import SpawnOptions
from .backends import DEFAULT_BACKEND, IMPLEMENTED_BACKENDS, SUPPORTED_BACKENDS, BackendMode
from .blocking import Execution, Files, Sandbox, Supervisor
from .capabilities import *  # noqa: F403
from .capabilities import __all__ as _capabilities
from .errors import *  # noqa: F403
from .errors import __all__ as _errors
from .events import DenialEvent, LogEvent, MetricEvent, Stats
from .functions import Pipeline, sandbox
from .policy import CompiledPolicy, Policy
from .results import Change, Commit, FileInfo, RunResult, Snapshot

__version__ = "0.2.0"

__all__ = [
    "DEFAULT_BACKEND", "IMPLEMENTED_BACKENDS", "SUPPORTED_BACKENDS", "BackendMode", "Change", "Commit",
    "CompiledPolicy", "DenialEvent", "Execution", "FileInfo", "Files", "LogEvent", "MetricEvent", "Pipeline", "Policy",
    "RunResult", "Sandbox", "Snapshot", "SpawnOptions", "Stats", "Supervisor", "aio", "capabilities", "checkpoint",
    "default_supervisor", "errors", "find_binary", "list_active", "migrate", "register_alert_handler", "restore",
    "sandbox", "shutdown", "spawn",
]  # fmt: skip
__all__ += _capabilities
__all__ += _errors
