"""What can go wrong, as classes.

`SandboxError` is the root of everything that this package raises about a sandbox. Where Python has a word
for the same thing (`TimeoutError`, `ValueError`, `FileNotFoundError`, ...), the class is that too, so that
code which knows nothing of this package handles it rightly.
"""

from __future__ import annotations

import builtins
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .events import DenialEvent

__all__ = [
    "AccessRefused", "BackendUnavailable", "BudgetExceeded", "CPUExceeded", "Cancelled", "CheckpointError",
    "ChildWorkExceeded", "CommitRefused", "DiskExceeded", "FileMissing", "GuestError", "InvalidRequest",
    "MemoryExceeded", "MicroVMUnavailable", "MigrationProtocolError", "NetworkExceeded", "NotShippable",
    "NotSupported", "OpenFilesExceeded", "OutputExceeded", "OwnershipError", "PolicyAuthError",
    "PolicyCompilerError", "PolicyError", "SandboxEnded", "SandboxError", "SandboxRestarted",
    "ServiceError", "ServiceNotFound",
    "TenantQuotaExceeded", "TimeoutError", "TooBusy", "UnsendableValue", "WallTimeExceeded",
]  # fmt: skip


class SandboxError(Exception):
    """Something about a sandbox failed.

    Every error of this package can be pickled and copied, with all of its attributes: it crosses process pools.
    """

    def __reduce__(self) -> tuple[Any, ...]:
        # Exception's own calls the class with `args`, which are the message alone whatever the class is made with.
        return _remake, (type(self), self.args), dict(self.__dict__)


def _remake(kind: type[SandboxError], args: tuple[Any, ...]) -> SandboxError:
    """An error without its attributes, which pickle and copy put in afterwards."""
    error = kind.__new__(kind)
    error.args = args
    return error


# ---- What the guest did ----------------------------------------------------------------------------


class GuestError(SandboxError):
    """Code in the sandbox raised an exception that it did not handle.

    `type` is the name of the exception's class in the guest, `message` its text and `traceback` what the
    guest's interpreter printed about it. They are texts of untrusted code: print them, trust nothing in them.
    """

    def __init__(self, type: str, message: str, traceback: str = "") -> None:
        super().__init__(f"{type}: {message}" if message else type)
        self.type = type
        self.message = message
        self.traceback = traceback


class Cancelled(SandboxError):
    """The operation was cancelled by its caller."""


class SandboxEnded(SandboxError):
    """The sandbox is gone. `reason` is one word: `closed`, `crash`, `worker`, `idle`, ..."""

    def __init__(self, message: str, reason: str = "closed") -> None:
        super().__init__(message)
        self.reason = reason


class SandboxRestarted(SandboxError):
    """The worker of a cell ended through no fault of this one. It goes on in another, with fresh globals."""


class PolicyError(SandboxError):
    """The sandbox tried what it has no authority for. `denial_event` says what, when that is known."""

    def __init__(self, message: str, *, denial_event: DenialEvent | None = None) -> None:
        super().__init__(message)
        self.denial_event = denial_event


class PolicyAuthError(PolicyError):
    """The caller, not the sandbox, may not do this: a token is missing, wrong or too narrow."""


class OwnershipError(SandboxError):
    """A handle was used where it does not belong: in a forked child, or after it was given away."""


# ---- Budgets ---------------------------------------------------------------------------------------


class BudgetExceeded(SandboxError):
    """A budget of the sandbox was used up. `reason` is the budget's name."""

    reason = "budget"


class CPUExceeded(BudgetExceeded):
    reason = "cpu"


class MemoryExceeded(BudgetExceeded):
    reason = "memory"


class WallTimeExceeded(BudgetExceeded):
    reason = "wall"


class OpenFilesExceeded(BudgetExceeded):
    reason = "open_files"


class NetworkExceeded(BudgetExceeded):
    reason = "network"


class OutputExceeded(BudgetExceeded):
    reason = "output"


class ChildWorkExceeded(BudgetExceeded):
    reason = "pids"


class DiskExceeded(BudgetExceeded):
    reason = "disk"


class TenantQuotaExceeded(SandboxError):
    """The tenant has as many sandboxes as it may have at a time."""


# ---- The caller's own requests ---------------------------------------------------------------------


class TimeoutError(SandboxError, builtins.TimeoutError):
    """Nothing came within the time that the caller gave."""


class UnsendableValue(SandboxError, TypeError):
    """A value has no form in which it may cross the wall of a sandbox."""


class NotShippable(SandboxError, TypeError):
    """A function cannot be sent into a sandbox by its source."""


class PolicyCompilerError(SandboxError, ValueError):
    """A policy document is wrong. Every problem that was found is a line of the message."""


class MigrationProtocolError(SandboxError, ValueError):
    """A peer did not take a migrated sandbox over, or sent what is none."""


class CheckpointError(SandboxError, ValueError):
    """A checkpoint is damaged, of another key, tenant or version, or needs what is not here."""


# ---- The service -----------------------------------------------------------------------------------


class ServiceError(SandboxError):
    """The service refused a request. `status` is the HTTP status, `code` the service's own word for it."""

    def __init__(self, message: str, status: int = 0, code: str = "") -> None:
        super().__init__(message)
        self.status = status
        self.code = code


class InvalidRequest(ServiceError, ValueError):
    """The request asks for something that has no meaning, or that is never granted."""


class NotSupported(ServiceError, NotImplementedError):
    """The host or this version cannot do it, and says so rather than doing less than was asked."""


class FileMissing(ServiceError, FileNotFoundError):
    """There is no such file in the sandbox."""


class AccessRefused(ServiceError, PermissionError):
    """The sandbox has this file for reading alone, or the caller may not do this."""


class CommitRefused(ServiceError):
    """Changes were not taken over: some are held back by the gate, or conflict with the original."""

    def __init__(
        self,
        message: str,
        status: int,
        code: str,
        held: list[dict[str, Any]],
        conflicts: list[dict[str, Any]],
    ) -> None:
        super().__init__(message, status, code)
        self.held = held
        self.conflicts = conflicts


class TooBusy(ServiceError):
    """The service has as many sandboxes, connections or requests as it may have."""


class ServiceNotFound(SandboxError):
    """There is no service to talk to, and no program to start one with."""


class BackendUnavailable(SandboxError):
    """The backend exists, and this host or service cannot give it. The message names what is missing."""


class MicroVMUnavailable(BackendUnavailable):
    """The same of `backend="microvm"`."""


# ---- From the service's words to classes -----------------------------------------------------------

_BUDGETS: dict[str, type[BudgetExceeded]] = {
    "cpu": CPUExceeded,
    "memory": MemoryExceeded,
    "wall": WallTimeExceeded,
    "open_files": OpenFilesExceeded,
    "network": NetworkExceeded,
    "network_ops": NetworkExceeded,
    "connections": NetworkExceeded,
    "egress_bytes": NetworkExceeded,
    "connect_rate": NetworkExceeded,
    "output": OutputExceeded,
    "child_work": ChildWorkExceeded,
    "pids": ChildWorkExceeded,
    "disk": DiskExceeded,
    "inodes": DiskExceeded,
}


def budget_error(reason: str, message: str) -> BudgetExceeded:
    """The error for a budget by its name; an unknown name is a `BudgetExceeded` with that name."""
    found = _BUDGETS.get(reason)
    if found is not None:
        return found(message or f"the {reason} budget is used up")
    error = BudgetExceeded(message or f"the {reason} budget is used up")
    error.reason = reason
    return error


def end_error(reason: str, message: str) -> SandboxError:
    """Why a sandbox is gone: a budget's error when a budget ended it."""
    if reason in _BUDGETS:
        return budget_error(reason, message)
    return SandboxEnded(message or f"the sandbox is gone ({reason})", reason)


def guest_error(error: object, denial: DenialEvent | None = None) -> SandboxError:
    """An exception from the `error` member of a message. What the guest wrote is taken as text, no more."""
    fields = error if isinstance(error, dict) else {}

    def text(name: str, otherwise: str = "") -> str:
        value = fields.get(name)
        return value if isinstance(value, str) else otherwise

    kind, reason, message = text("kind", "guest"), text("reason"), text("message")
    if kind == "policy":
        return PolicyError(message or "the sandbox was refused something", denial_event=denial)
    if kind == "budget":
        return budget_error(reason, message)
    if kind == "cancelled":
        return Cancelled(message or "the operation was cancelled")
    if kind == "ended":
        return end_error(reason or "closed", message)
    if kind == "invalid":
        return SandboxError(message or "the sandbox did not understand the request")
    return GuestError(text("type", "Exception"), message, text("traceback"))


def service_error(status: int, body: object) -> SandboxError:
    """An exception from an answer of the service that is no success."""
    fields = body if isinstance(body, dict) else {}
    code = fields.get("code") if isinstance(fields.get("code"), str) else ""
    said = fields.get("message")
    message = said if isinstance(said, str) and said else f"the service answered {status}"
    assert isinstance(code, str)
    if code == "COMMIT_REFUSED":
        return CommitRefused(message, status, code, _records(fields, "held"), _records(fields, "conflicts"))
    if code in ("NOT_SUPPORTED", "BACKEND_UNAVAILABLE", "SERVICE_UNAVAILABLE"):
        return NotSupported(message, status, code)
    if code == "SESSION_NOT_FOUND":
        return SandboxEnded("the sandbox is gone: the service does not know it (any more)", "gone")
    if status == 401:
        return PolicyAuthError(message)
    if status == 403:
        return AccessRefused(message, status, code)
    if status == 404 and code in ("FILE_NOT_FOUND", "NOT_FOUND"):
        return FileMissing(message, status, code)
    if status == 429:
        return TooBusy(message, status, code)
    if status in (400, 413):
        return InvalidRequest(message, status, code)
    return ServiceError(message, status, code)


def _records(fields: dict[str, Any], name: str) -> list[dict[str, Any]]:
    value = fields.get(name)
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []
