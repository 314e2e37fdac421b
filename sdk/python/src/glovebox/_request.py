"""A request for a sandbox: from the arguments of `spawn()` to the body that the service takes."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypedDict

from .backends import DEFAULT_BACKEND, BackendMode, check_backend
from .capabilities import (
    AuthoritySet,
    Capability,
    CpuBudget,
    Env,
    Grants,
    Import,
    MemoryBudget,
    OpenFilesBudget,
    OutputBudget,
    PathLike,
    PidsBudget,
    WallBudget,
    collect,
)
from .policy import PolicyLike, policy_choice

WorkspaceMode = Literal["overlay", "ro", "rw"]

MAX_NAME = 64
NAME_PATTERN = re.compile(r"[A-Za-z0-9_-]+")


def check_name(name: object, pattern: re.Pattern[str] = NAME_PATTERN) -> str:
    if not isinstance(name, str) or not name:
        raise ValueError("Sandbox name must be non-empty string")
    if len(name) > MAX_NAME:
        raise ValueError("Sandbox name too long")
    if pattern.fullmatch(name) is None:
        raise ValueError("Sandbox name contains invalid characters")
    return name


class SpawnOptions(TypedDict, total=False):
    """The arguments of `spawn()` beside the name and the policy. docs/reference/python-sdk.md says what they mean."""

    capabilities: Grants
    backend: BackendMode
    workspace: PathLike | None
    mode: WorkspaceMode | None
    allowed_imports: Iterable[str] | None
    cpu_ms: int | None
    mem_bytes: int | None
    wall_time_ms: int | None
    open_files_max: int | None
    output_bytes_max: int | None
    child_work_max: int | None
    env: Mapping[str, str]
    labels: Mapping[str, str]
    idle_timeout: float | None
    python: bool
    interpreter: str | None
    preload: Sequence[str]
    tenant: str | None
    tenant_quota: int | None
    handlers: Mapping[str, Callable[[str, Any], Any]]
    if_policy: str | None


@dataclass(frozen=True, kw_only=True)
class SpawnRequest:
    """What a sandbox is asked to be, checked as far as it can be without a service."""

    name: str
    policy: PolicyLike = None
    capabilities: Grants = None
    backend: BackendMode = DEFAULT_BACKEND
    workspace: PathLike | None = None
    mode: WorkspaceMode | None = None
    allowed_imports: Iterable[str] | None = None
    cpu_ms: int | None = None
    mem_bytes: int | None = None
    wall_time_ms: int | None = None
    open_files_max: int | None = None
    output_bytes_max: int | None = None
    child_work_max: int | None = None
    env: Mapping[str, str] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    idle_timeout: float | None = None
    python: bool = True
    interpreter: str | None = None
    preload: Sequence[str] = ()
    tenant: str | None = None
    tenant_quota: int | None = None
    handlers: Mapping[str, Callable[[str, Any], Any]] = field(default_factory=dict)
    if_policy: str | None = None

    def __post_init__(self) -> None:
        check_backend(self.backend)
        if not self.python and (self.interpreter is not None or self.preload):
            raise ValueError("interpreter and preload are for sandboxes with Python")
        if self.mode is not None and self.workspace is None:
            raise ValueError("mode is about a workspace, and there is none")

    def authority(self) -> AuthoritySet:
        """Everything that is handed in, from whichever argument it came."""
        handed: list[Capability] = [Import(module) for module in self.allowed_imports or ()]
        handed += [Env(name, value) for name, value in self.env.items()]
        budgets: list[tuple[type[Capability], int | None]] = [
            (CpuBudget, self.cpu_ms), (MemoryBudget, self.mem_bytes), (WallBudget, self.wall_time_ms),
            (OpenFilesBudget, self.open_files_max), (OutputBudget, self.output_bytes_max),
            (PidsBudget, self.child_work_max),
        ]  # fmt: skip
        handed += [make(amount) for make, amount in budgets if amount is not None]  # type: ignore[call-arg]
        return collect(self.capabilities).merge(AuthoritySet(tuple(handed)))

    def to_body(self, *, idle_timeout: float | None) -> dict[str, Any]:
        authority = self.authority()
        body: dict[str, Any] = {
            "name": self.name,
            "backend": self.backend,
            "policy": policy_choice(self.policy),
            "if_policy": self.if_policy,
            # Variables are handed in by name; those of the service are its own.
            "env_passthrough": {"mode": "allow", "keys": []},
            "capabilities": authority.to_json() if authority.allow or authority.deny else None,
            "labels": {**self.labels, **({"tenant": self.tenant} if self.tenant else {})} or None,
        }
        if self.workspace is None:
            body["overlays"] = []
        else:
            path = os.path.abspath(os.fspath(self.workspace))
            body["workspace"] = _without_nothing({"path": path, "mode": self.mode})
        idle = self.idle_timeout if self.idle_timeout is not None else idle_timeout
        if idle is not None:
            body["idle_timeout_seconds"] = int(idle)
        if self.python:
            preload = list(self.preload) or None
            body["python"] = _without_nothing({"interpreter": self.interpreter, "preload": preload})
        return _without_nothing(body)


def _without_nothing(fields: dict[str, Any]) -> dict[str, Any]:
    """Leaves out what is None: the service has its own defaults."""
    return {name: value for name, value in fields.items() if value is not None}
