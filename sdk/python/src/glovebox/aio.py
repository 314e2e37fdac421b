"""Sandboxes for asyncio.

    async with Supervisor() as supervisor:
        async with await supervisor.spawn("demo") as box:
            await box.exec("post(6 * 7)")
            print(await box.recv())

The blocking classes of `glovebox` are these with another way of waiting; what is said here holds for them.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, Unpack

from . import _state
from ._core import Core, Execution, Handler
from ._drive import AsyncDriver, Driver
from ._files import Files
from ._request import NAME_PATTERN, SpawnOptions, SpawnRequest, check_name
from ._shipping import ship
from .backends import BackendMode
from .capabilities import Grants
from .errors import (
    BackendUnavailable,
    InvalidRequest,
    MicroVMUnavailable,
    NotSupported,
    PolicyCompilerError,
    SandboxEnded,
    SandboxError,
    ServiceNotFound,
    TenantQuotaExceeded,
    TimeoutError,
)
from .events import DenialEvent, LogEvent, MetricEvent, Stats
from .policy import PolicyLike
from .results import Change, Commit, RunResult, Snapshot

AlertHandler = Callable[[str, Exception], Any]
OutputHandler = Callable[[str, str], Any]

_SESSIONS = "/v1/isolated/session"


class Sandbox:
    """A sealed box with a Python in it, a shell, and files. Made by `Supervisor.spawn()`."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self.files = Files(core)

    # ---- What it is ----------------------------------------------------------------------------------

    @property
    def name(self) -> str:
        return self._core.request.name

    @property
    def id(self) -> str:
        """The session's id at the service."""
        return self._core.id

    @property
    def backend(self) -> BackendMode:
        """The technique it was asked to be made with, which is the one it was made with."""
        return self._core.request.backend

    @property
    def is_closed(self) -> bool:
        return self._core.is_closed

    @property
    def termination_reason(self) -> str | None:
        """Why it ended, in one word: `cpu`, `memory`, `wall`, `crash`, `closed`, ... None while it lives."""
        return self._core.termination_reason

    @property
    def quarantine_reason(self) -> str | None:
        return self._core.quarantine_reason

    # ---- Python --------------------------------------------------------------------------------------

    async def exec(self, source: str) -> Execution:
        """Has the sandbox run source in its globals, which stay. Does not wait for it to end.

        What the source raises comes out of `recv()`, or of the returned object's `wait()`.
        """
        if not isinstance(source, str):
            raise TypeError("source is text")
        return Execution(self._core, await self._core.begin("exec", {"source": source}))

    async def call(self, target: str | Callable[..., Any], /, *args: Any, timeout: float | None = None,
                   **kwargs: Any) -> Any:  # fmt: skip
        """The result of a function in the sandbox: `"module.function"`, or a function that is sent there by its source.

        After `timeout` seconds it is interrupted and `TimeoutError` is raised. What the function raises comes
        as `GuestError`, what the sandbox has no authority for as `PolicyError`, a budget as its own error.
        """
        if not callable(target) and not (isinstance(target, str) and "." in target and all(target.split("."))):
            raise SandboxError(f"a call needs 'module.function', or a function; not {target!r}")
        began = time.monotonic()
        name = target
        try:
            if callable(target):
                shipment = ship(target)
                name = await self._core.define(shipment.source, shipment.name, timeout)
                args = shipment.first + args
            left = None if timeout is None else max(0.0, timeout - (time.monotonic() - began))
            return await self._core.ask("call", {"target": name}, {"args": list(args), "kwargs": kwargs}, left)
        except TimeoutError:
            raise TimeoutError(f"no answer within {timeout} s") from None

    async def post(self, value: Any) -> None:
        """Sends a value to the guest's `recv()`."""
        await self._core.post(value)

    async def recv(self, timeout: float | None = None) -> Any:
        """The next value that the guest has posted. Raises what a source given to `exec()` raised, in its turn."""
        return await self._core.receive(timeout)

    async def cancel(self) -> bool:
        """Interrupts what runs in the sandbox: Python, and commands of `run()`. False when nothing does.

        A command gets SIGINT, and is killed when that has not ended it within two seconds.
        """
        running = self._core.channel.running()
        for operation in running:
            await self._core.cancel_operation(operation.number)
        return await self._core.cancel_runs() or bool(running)

    async def handle(self, capability: str, handler: Handler) -> None:
        """Answers the guest's `request(capability, action, payload)` with `handler(action, payload)`.

        An exception of the handler is raised in the guest, as its name and text.
        """
        await self._core.handle(capability, handler)

    # ---- What it says --------------------------------------------------------------------------------

    def output(self, stream: str | None = None) -> str:
        """The last of what its Python printed: of both streams, or of `"stdout"` or `"stderr"`."""
        return self._core.channel.records.output(stream)

    def logs(self) -> list[LogEvent]:
        """What it logged last; each line also goes to the logger `glovebox.guest.NAME`."""
        return list(self._core.channel.records.logs)

    def metrics(self) -> list[MetricEvent]:
        return list(self._core.channel.records.metrics)

    async def denials(self) -> list[DenialEvent]:
        """What it was refused, the oldest first."""
        answer = await self._core.http("GET", "/denials")
        listed = [DenialEvent.from_message(each, self.name) for each in answer.json()["denials"]]
        return merge_denials(listed, list(self._core.channel.records.denials))

    async def stats(self) -> Stats:
        """What it has used until now."""
        records = self._core.channel.records
        usage = (await self.report()).get("usage", {})
        more: dict[str, Any] = dict(usage)
        if self._core.request.python and self._core.channel.end is None and not self._core.channel.running():
            answer = await self._core.ask("stats", {})
            more.update(answer if isinstance(answer, dict) else {})
        return Stats(
            cpu_ms=more.get("cpu_ms", more.get("cpu_ns", 0) / 1e6),
            memory_bytes=int(more.get("memory_bytes", more.get("peak_memory_bytes", 0))),
            operations=records.operations,
            errors=records.errors,
            denials=records.denied,
            output_bytes=int(more.get("output_bytes", records.printed)),
            latency=tuple(records.latency),
            more=more,
        )

    async def report(self) -> dict[str, Any]:
        """What is enforced and by what, what it used, and how it ended."""
        answer: dict[str, Any] = (await self._core.http("GET", "/report")).json()
        return answer

    async def info(self) -> dict[str, Any]:
        """The session as the service knows it, with every default filled in."""
        answer: dict[str, Any] = (await self._core.http("GET")).json()
        return answer

    # ---- Commands ------------------------------------------------------------------------------------

    async def run(self, command: str, *, timeout: float | None = None, cwd: str | None = None,
                  env: Mapping[str, str] | None = None, stdin: str | None = None, check: bool = False,
                  on_output: OutputHandler | None = None) -> RunResult:  # fmt: skip
        """Runs a command in the sandbox's shell, which keeps its directory, variables and functions.

        `on_output(stream, text)` hears of output as it comes. After `timeout` seconds the command and everything
        it started are ended, and the result has `timed_out`; after `cancel()` it has `cancelled`. With `check` a
        failure is raised. A task that is cancelled ends its command.
        """
        body: dict[str, Any] = {"code": command, "stderr": "separate"}
        body["timeout_seconds"] = 0 if timeout is None else max(1, round(timeout))
        given = {"cwd": cwd, "envs": dict(env) if env else None, "stdin": stdin}
        body.update({name: value for name, value in given.items() if value is not None})
        result = await self._core.run(body, on_output)
        return result.check() if check else result

    # ---- Changes -------------------------------------------------------------------------------------

    async def diff(self, workspace: str | None = None) -> list[Change]:
        """What the sandbox changed in its workspace, which is not visible outside until it is committed."""
        answer = await self._diff("application/json", workspace)
        return [Change.from_json(each) for each in answer.json()["changes"]]

    async def diff_text(self, workspace: str | None = None) -> str:
        """The same as a unified diff."""
        text: str = (await self._diff("text/x-diff", workspace)).text
        return text

    async def _diff(self, accept: str, workspace: str | None) -> Any:
        params = {"workspace": workspace} if workspace is not None else None
        return await self._core.http("GET", "/diff", headers={"Accept": accept}, params=params)

    async def commit(self, *, only: list[str] | None = None, reject: list[str] | None = None,
                     accept_risky: list[str] | None = None, accept_rules: list[str] | None = None,
                     accept_classes: list[str] | None = None, dry_run: bool = False,
                     workspace: str | None = None) -> Commit:  # fmt: skip
        """Takes changes over into the original: all that are selected, or, with `CommitRefused`, none."""
        given = {"only": only, "reject": reject, "accept_risky": accept_risky, "accept_rules": accept_rules,
                 "accept_classes": accept_classes, "workspace": workspace, "dry_run": dry_run or None}  # fmt: skip
        body = {name: value for name, value in given.items() if value is not None}
        answer = await self._core.http("POST", "/commit", json=body)
        return Commit.from_json(answer.json())

    async def undo(self, workspace: str | None = None) -> list[str]:
        """Takes the last commit back; the paths that are as they were before."""
        params = {"workspace": workspace} if workspace is not None else None
        answer = await self._core.http("POST", "/undo", params=params)
        return [str(path) for path in answer.json()["restored"]]

    # ---- Its life ------------------------------------------------------------------------------------

    async def snapshot(self) -> Snapshot:
        """What it is, as plain data: enough to see, compare and keep what was asked for."""
        return Snapshot(self.name, self.backend, await self.info())

    async def reset(self) -> None:
        """A fresh box and fresh globals under the same name, with the same authority; changes are dropped."""
        await _state.recycle(self._core, keep_changes=False)

    async def recycle(self) -> None:
        """The same, and what it changed in its workspace stays."""
        await _state.recycle(self._core, keep_changes=True)

    async def fork(self, count: int = 1, *, name: str | None = None, ceiling: Grants = None,
                   limits: Mapping[str, Any] | None = None, force: bool = False) -> list[Sandbox]:  # fmt: skip
        """Sandboxes that go on from the files of this one and share nothing but that past.

        They are called `NAME-1`, `NAME-2`, ...; `ceiling` cuts their authority down, `limits` are budgets for each.
        Globals are fresh in all of them, and in this one: files are forked, memory is not.
        """
        return [Sandbox(child) for child in await _state.fork(self._core, count, name, ceiling, limits, force)]

    async def checkpoint(self, key: bytes, *, tenant: str | None = None, force: bool = False) -> bytes:
        """The sandbox as an encrypted file: authority, policy, files. Not memory. The key has 32 bytes."""
        return (await _state.checkpoint(self._core, key, tenant, force)).blob

    async def migrate(self, to: Supervisor, key: bytes, *, tenant: str | None = None) -> Sandbox:
        """Moves it to another supervisor's service. It ends here when it is there, and not before."""
        return Sandbox(await _state.migrate(self._core, to, key, tenant))

    async def kill(self) -> bool:
        """Ends it at once with everything in it. False when it was gone already."""
        return await self._core.supervisor._end(self._core, "killed")

    async def reap(self) -> bool:
        """Removes what is left of one that has ended. False when it still lives."""
        if not self.is_closed and self.termination_reason is None:
            return False
        await self._core.supervisor._end(self._core, self.termination_reason or "closed")
        return True

    async def quarantine(self, reason: str) -> None:
        """Ends it and says why. Its changes are kept on the service's disk, to be looked at later."""
        self._core.quarantine_reason = reason
        await self._core.supervisor._end(self._core, "quarantined", keep_layers=True)

    async def close(self) -> None:
        """Ends it and forgets its changes. A second time it does nothing."""
        await self._core.supervisor._end(self._core, "closed")

    async def __aenter__(self) -> Sandbox:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def __repr__(self) -> str:
        state = self.termination_reason or ("closed" if self.is_closed else "alive")
        return f"<{type(self).__name__} {self.name!r} {self.backend} {state}>"


def merge_denials(listed: list[DenialEvent], heard: list[DenialEvent]) -> list[DenialEvent]:
    """The service's list. What also came over the channel is told as it came there, which says more."""
    left = list(heard)
    merged = []
    for event in listed:
        same = next((each for each in left if event.attempted_action.startswith(each.attempted_action)), None)
        if same is not None:
            left.remove(same)
        merged.append(same or event)
    return sorted(merged + left, key=lambda event: event.time)


class Supervisor:
    """Makes sandboxes, and knows those that it made.

    Without arguments it uses the service that `GLOVEBOX_HOST` names, else one of this process's own, which is
    started when the first sandbox is made and ends with the process at the latest.
    """

    def __init__(self, url: str | None = None, *, token: str | None = None, binary: str | None = None,
                 name_pattern: str | None = None, driver: Driver | None = None) -> None:  # fmt: skip
        self._driver = driver or AsyncDriver(url, token, binary)
        self._name_pattern = re.compile(name_pattern) if name_pattern is not None else NAME_PATTERN
        self._alive: dict[str, Core] = {}
        self._taken: set[str] = set()
        self._names = threading.Lock()
        self._tenants: dict[str, int] = {}
        self._alerts: list[AlertHandler] = []

    @property
    def name_pattern(self) -> str:
        return self._name_pattern.pattern

    # ---- Making --------------------------------------------------------------------------------------

    async def spawn(self, name: str, policy: PolicyLike = None, **options: Unpack[SpawnOptions]) -> Sandbox:
        """A sandbox that is ready. What it may do is in `policy` and `capabilities`, and is nothing without them."""
        return Sandbox(await self._spawn(name, policy, options))

    async def _spawn(self, name: str, policy: PolicyLike, options: SpawnOptions) -> Core:
        asked = SpawnRequest(name=check_name(name, self._name_pattern), policy=policy, **options)
        await self._renew_service()
        if asked.name in self._taken and await self._driver.has_service_ended():
            await self._renew_service()  # what had the name is gone: the service was about to be missed
        self._reserve(asked)
        try:
            core = Core(self, self._driver, asked, await self._create_somewhere(asked))
        except BaseException:
            self._release(asked)
            raise
        self._alive[name] = core
        return core

    async def _renew_service(self) -> None:
        """When the service was this process's own and has died: its sandboxes have ended, and the next request
        starts another."""
        if not self._driver.has_lost_service():
            return
        for core in list(self._alive.values()):
            if core.has_lost_service():
                await self._forget(core, "service")
        await self._driver.let_go_of_lost()

    async def _create_somewhere(self, asked: SpawnRequest) -> str:
        """A new session; of a new service when the one of this process turns out to be dead."""
        try:
            return await self._driver.complete(self._create(asked), self._delete)
        except ServiceNotFound:
            if not await self._driver.has_service_ended():
                raise
        await self._renew_service()
        return await self._driver.complete(self._create(asked), self._delete)

    async def _delete(self, identifier: str) -> None:
        await self._driver.request("DELETE", f"{_SESSIONS}/{identifier}")

    async def _create(self, asked: SpawnRequest) -> str:
        # A sandbox of a service of this process's own lives as long as its handle.
        is_own = self._driver.is_embedded(await self._driver.address())
        body = asked.to_body(idle_timeout=0 if is_own else None)
        try:
            answer = await self._driver.request("POST", _SESSIONS, json=body)
        except NotSupported as problem:
            if asked.backend == "microvm":
                raise MicroVMUnavailable(str(problem)) from None
            if problem.code in ("BACKEND_UNAVAILABLE", "SERVICE_UNAVAILABLE"):
                raise BackendUnavailable(str(problem)) from None
            raise
        except InvalidRequest as problem:
            if problem.code == "POLICY_INVALID":
                raise PolicyCompilerError(str(problem)) from None
            raise
        return str(answer.json()["session_id"])

    def _reserve(self, asked: SpawnRequest) -> None:
        """Takes the name, and the tenant's place, before anything is made."""
        with self._names:
            if asked.name in self._taken:
                raise RuntimeError(f"sandbox {asked.name!r} already exists")
            if asked.tenant is not None:
                used = self._tenants.get(asked.tenant, 0)
                if asked.tenant_quota is not None and used >= asked.tenant_quota:
                    raise TenantQuotaExceeded(f"{asked.tenant} has {used} sandboxes, and may have {asked.tenant_quota}")
                self._tenants[asked.tenant] = used + 1
            self._taken.add(asked.name)

    def _release(self, asked: SpawnRequest) -> None:
        with self._names:
            self._taken.discard(asked.name)
            if asked.tenant is not None:
                self._tenants[asked.tenant] -= 1

    # ---- Ending --------------------------------------------------------------------------------------

    async def _end(self, core: Core, reason: str, *, keep_layers: bool = False) -> bool:
        if core.is_closed:
            return False
        await self._forget(core, reason)
        params = {"keep_layers": "true"} if keep_layers else None
        try:
            await self._driver.request("DELETE", core.path, params=params)
            return True
        except SandboxEnded:
            return False  # the service has ended it before
        except ServiceNotFound:
            if self._driver.has_lost_service():
                return False
            raise

    async def _forget(self, core: Core, reason: str) -> None:
        """This side's part of an end."""
        core.is_closed = True
        if core.termination_reason is None:
            core.termination_reason = reason
        await core.detach()
        core.channel.ended(SandboxEnded(f"the sandbox is {reason}", reason))
        if self._alive.pop(core.request.name, None) is not None:
            self._release(core.request)

    async def _respawn(self, core: Core) -> None:
        try:
            await self._driver.request("DELETE", core.path)
        except SandboxEnded:
            pass
        core.restart(await self._create(core.request))

    async def restore(self, blob: bytes, key: bytes, *, name: str | None = None, tenant: str | None = None,
                      backend: BackendMode | None = None, python: bool | None = None,
                      handlers: Mapping[str, Handler] | None = None) -> Sandbox:  # fmt: skip
        """A sandbox of a checkpoint. `CheckpointError` says what is wrong with one; then there is nothing.

        The backend is the one that the file says, and so is whether it has Python. When something else is asked
        for here, nothing is restored.
        """
        wanted = _state.Wanted(name, tenant, backend, python, handlers or {})
        return Sandbox((await _state.restore(self, blob, key, wanted))[0])

    # ---- Those that live -----------------------------------------------------------------------------

    def list_active(self) -> dict[str, Sandbox]:
        """The sandboxes of this supervisor that have not ended, by name."""
        return {name: Sandbox(core) for name, core in self._alive.items() if core.termination_reason is None}

    async def recycle(self, name: str) -> None:
        await Sandbox(self._core(name)).recycle()

    async def quarantine(self, name: str, reason: str) -> None:
        await Sandbox(self._core(name)).quarantine(reason)

    def _core(self, name: str) -> Core:
        if name not in self._alive:
            raise KeyError(f"unknown sandbox: {name!r}")
        return self._alive[name]

    def register_alert_handler(self, handler: AlertHandler) -> None:
        """Calls `handler(name, error)` for every denial; the error is a `PolicyError` with its `denial_event`.

        Handlers are called in order, elsewhere than in the caller's thread; one that fails does not stop the others.
        """
        self._alerts.append(handler)

    def alert_handlers(self) -> list[AlertHandler]:
        return list(self._alerts)

    # ---- The service ---------------------------------------------------------------------------------

    async def host(self) -> dict[str, Any]:
        """What the service can do on its host."""
        await self._renew_service()
        answer: dict[str, Any] = (await self._driver.request("GET", "/v1/isolated/capabilities")).json()
        return answer

    async def policies(self) -> dict[str, str]:
        """The policies that a sandbox may name, with their digests."""
        await self._renew_service()
        answer = (await self._driver.request("GET", "/v1/policies")).json()
        return {str(each["name"]): str(each["digest"]) for each in answer["policies"]}

    async def reload_policies(self) -> int:
        """Has the service read its policies again. When one is wrong nothing changes."""
        await self._renew_service()
        answer = (await self._driver.request("POST", "/v1/policies/reload")).json()
        return int(answer.get("changed", 0))

    async def close(self) -> None:
        """Ends every sandbox of this supervisor, and its service if that is this process's own."""
        for core in list(self._alive.values()):
            await self._quietly(self._end(core, "closed"))
        await self._driver.close()

    async def _quietly(self, work: Coroutine[Any, Any, Any]) -> None:
        try:
            await work
        except SandboxError:
            pass  # what cannot be reached any more has ended with its service

    async def __aenter__(self) -> Supervisor:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()
