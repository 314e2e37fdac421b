"""Sandboxes that get a fresh box, are forked, written out and brought back. The service does all of it."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ._core import Core, Handler
from ._request import SpawnRequest
from .backends import BackendMode, check_backend
from .capabilities import Grants, collect
from .errors import CheckpointError, FileMissing, MigrationProtocolError, NotSupported, SandboxError, ServiceError

if TYPE_CHECKING:
    from .aio import Supervisor

KEY_BYTES = 32
_TYPE = "application/x-glovebox-checkpoint"


def _key_header(key: bytes) -> dict[str, str]:
    if not isinstance(key, (bytes, bytearray)) or len(key) != KEY_BYTES:
        raise ValueError("key must be 32 bytes")
    return {"X-Glovebox-Key": bytes(key).hex()}


@dataclasses.dataclass(frozen=True)
class Checkpoint:
    """A session as an encrypted file, and what tells whether it was used since."""

    blob: bytes
    tag: str
    used: str


async def recycle(core: Core, *, keep_changes: bool) -> None:
    """A fresh box for the session. The conversation begins anew."""
    core.check_open()
    await core.detach()
    try:
        answer = await core.driver.request(
            "POST", f"{core.path}/recycle", json={"layer": "keep" if keep_changes else "drop"}
        )
    except (FileMissing, NotSupported):
        # A service that cannot: a new session of the same request is the same, unless changes or a past are kept.
        if keep_changes or core.is_derived:
            raise
        await core.supervisor._respawn(core)
        return
    core.restart(str(answer.json()["session_id"]))


async def fork(
    core: Core, count: int, name: str | None, ceiling: Grants, limits: Mapping[str, Any] | None, force: bool
) -> list[Core]:
    """Sandboxes that go on from the files of this one, each under a name of its own."""
    core.check_open()
    prefix = name if name is not None else core.request.name
    supervisor = core.supervisor
    names = [f"{prefix}-{number}" for number in range(1, count + 1)]
    requests = [dataclasses.replace(core.request, name=each) for each in names]
    reserved: list[SpawnRequest] = []
    try:
        for request in requests:
            supervisor._reserve(request)
            reserved.append(request)
        body: dict[str, Any] = {"count": count, "name": prefix, "force": force}
        if ceiling is not None:
            body["ceiling"] = collect(ceiling).to_json()
        if limits is not None:
            body["limits"] = dict(limits)
        if not force:
            await core.settle()
        # The parent gets a fresh box too: its conversation begins anew.
        await core.detach()
        answer = await core.driver.request("POST", f"{core.path}/fork", json=body)
    except BaseException:
        for request in reserved:
            supervisor._release(request)
        raise
    core.restart(core.id)
    children = [Core(supervisor, core.driver, request, str(session["session_id"]), is_derived=True)
                for request, session in zip(requests, answer.json()["sessions"], strict=True)]  # fmt: skip
    for child in children:
        supervisor._alive[child.request.name] = child
    return children


async def checkpoint(core: Core, key: bytes, tenant: str | None, force: bool) -> Checkpoint:
    core.check_open()
    if not force:
        await core.settle()
    params = {"tenant": tenant} if tenant is not None else None
    answer = await core.http("POST", "/checkpoint", headers=_key_header(key), params=params, json={"force": force})
    return Checkpoint(
        answer.content, answer.headers.get("X-Glovebox-Tag", ""), answer.headers.get("X-Glovebox-Used", "")
    )


@dataclasses.dataclass(frozen=True)
class Wanted:
    """What the caller of restore knows of it. What is None is what the file says."""

    name: str | None
    tenant: str | None
    backend: BackendMode | None
    python: bool | None
    handlers: Mapping[str, Handler]

    def request(self, state: Mapping[str, Any]) -> SpawnRequest:
        """What this side has to know of it, from what the service says, which has read the file."""
        backend, python = check_backend(state["backend"]), bool(state["python"])
        if self.backend is not None and check_backend(self.backend) != backend:
            raise CheckpointError(f"the checkpoint is one of backend {backend!r}, which is not exchanged for another")
        if self.python is not None and self.python != python:
            raise CheckpointError(f"the checkpoint is one {'with' if python else 'without'} Python")
        name = self.name or str(state.get("name") or "restored")
        return SpawnRequest(name=name, tenant=self.tenant, backend=backend, python=python, handlers=self.handlers)


async def restore(supervisor: Supervisor, blob: bytes, key: bytes, wanted: Wanted) -> tuple[Core, str]:
    """A sandbox of such a file, and the file's tag."""
    await supervisor._renew_service()
    headers = {"Content-Type": _TYPE, **_key_header(key)}
    params = {"tenant": wanted.tenant} if wanted.tenant is not None else None
    try:
        answer = await supervisor._driver.request(
            "POST", "/v1/isolated/restore", content=bytes(blob), headers=headers, params=params
        )
    except NotSupported:
        raise
    except ServiceError as problem:
        raise CheckpointError(str(problem)) from None
    state = answer.json()
    identifier = str(state["session_id"])
    try:
        request = wanted.request(state)
        supervisor._reserve(request)
    except BaseException:
        await supervisor._driver.request("DELETE", f"/v1/isolated/session/{identifier}")
        raise
    core = Core(supervisor, supervisor._driver, request, identifier, is_derived=True)
    supervisor._alive[request.name] = core
    return core, str(state.get("tag", ""))


async def migrate(core: Core, to: Supervisor, key: bytes, tenant: str | None) -> Core:
    """Has another supervisor's service take the sandbox over. It ends here only when it is there."""
    file = await checkpoint(core, key, tenant, force=False)
    kept = core.request
    moved, tag = await restore(to, file.blob, key, Wanted(kept.name, tenant, kept.backend, kept.python, kept.handlers))
    problem = "" if tag == file.tag else "the other service restored another file"
    if not problem:
        try:
            await core.driver.request("DELETE", core.path, params={"if_used": file.used})
        except ServiceError as refused:
            problem = f"the sandbox was used while it was sent: {refused}"
    if problem:
        try:
            await to._end(moved, "closed")
        except SandboxError:
            pass  # what matters is that it goes on here
        raise MigrationProtocolError(problem)
    await core.supervisor._forget(core, "migrated")
    return moved
