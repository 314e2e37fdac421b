"""One sandbox and its conversation: the part that `aio.Sandbox` and `Sandbox` share.

`Core` knows the session's number at the service and holds the channel to its Python. It is written as
coroutines over a `Driver`; see `_drive.py` for how the blocking form runs them.
"""

from __future__ import annotations

import builtins
import contextlib
import dataclasses
import logging
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import httpx

from ._channel import Channel, Operation, Slot
from ._drive import Driver
from ._request import SpawnRequest
from ._socket import Link
from ._values import encode
from .errors import PolicyError, SandboxEnded, SandboxError, ServiceError, TimeoutError, UnsendableValue, end_error
from .events import DenialEvent, LogEvent
from .results import RunReader, RunResult

if TYPE_CHECKING:
    from .aio import Supervisor

Handler = Callable[[str, Any], Any]

_LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR,
           "critical": logging.CRITICAL}  # fmt: skip

# How long what was asked for before a checkpoint may take to end. After that the service decides, and refuses.
_SETTLE_SECONDS = 10.0
# How long a command has to end after SIGINT; then it is killed.
_INTERRUPT_SECONDS = 2.0
# How often commands that are to end are looked at, and how often for each of them.
_LOOK_SECONDS, _MOST_LOOKS = 0.05, 200


class RunUnderWay:
    """A command that the sandbox was given to run. `done` is resolved when it has ended."""

    def __init__(self, done: Slot) -> None:
        self.done = done
        self.is_cancelled = False


class Core:
    """A session at the service, and the way to its Python."""

    def __init__(
        self,
        supervisor: Supervisor,
        driver: Driver,
        request: SpawnRequest,
        identifier: str,
        *,
        is_derived: bool = False,
    ) -> None:
        self.supervisor = supervisor
        self.driver = driver
        self.request = request
        self.id = identifier
        self.is_derived = is_derived  # of another session: its request alone does not make it again
        self.service = driver.service()
        self.handlers: dict[str, Handler] = dict(request.handlers)
        self.channel = Channel(request.name, driver.make_slot, self)
        self.is_closed = False
        self.termination_reason: str | None = None
        self.quarantine_reason: str | None = None
        self._defined: dict[str, str] = {}
        self._runs: list[RunUnderWay] = []
        self._link: Link | None = None
        self._attaching = driver.make_lock()
        self._log = logging.getLogger(f"glovebox.guest.{request.name}")

    @property
    def path(self) -> str:
        return f"/v1/isolated/session/{self.id}"

    async def http(self, method: str, suffix: str = "", **more: Any) -> httpx.Response:
        """An answer of the service about this session."""
        self.check_open()
        try:
            return await self.driver.request(method, self.path + suffix, **more)
        except ServiceError as problem:
            if problem.status < 500:
                raise
            raise await self.find_end() or problem from None

    async def run(self, body: dict[str, Any], on_output: Callable[[str, str], Any] | None) -> RunResult:
        """A command in the session's shell."""
        self.check_open()
        reader = RunReader()
        run = RunUnderWay(self.driver.make_slot())
        self._runs.append(run)
        try:
            async for piece in self.driver.stream(
                "POST", f"{self.path}/run", params={"profile": "standard"}, json=body
            ):
                for stream, text in reader.feed(piece):
                    if on_output is not None:
                        on_output(stream, text)
            return dataclasses.replace(reader.result(), cancelled=run.is_cancelled)
        except SandboxError as problem:
            raise await self.find_end() or problem from None
        finally:
            self._runs.remove(run)
            run.done.resolve(None)

    async def cancel_runs(self) -> bool:
        """Ends the commands that run or wait for their turn. False when there are none."""
        runs = list(self._runs)
        for run in runs:
            run.is_cancelled = True
        signal, interrupted = "SIGINT", 0.0
        for _ in range(_MOST_LOOKS * len(runs)):
            left = [run for run in runs if not run.done.is_done()]
            if not left:
                break
            # The service runs them in its own order, one at a time, and one that has not begun gets no signal.
            if interrupted == 0.0 and await self._signal(signal):
                interrupted = time.monotonic()
            with contextlib.suppress(builtins.TimeoutError):
                await self.driver.wait(left[0].done, _LOOK_SECONDS)
            if any(run.done.is_done() for run in left):
                signal, interrupted = "SIGINT", 0.0
            elif interrupted and time.monotonic() - interrupted > _INTERRUPT_SECONDS:
                signal, interrupted = "SIGKILL", 0.0
        return bool(runs)

    async def _signal(self, name: str) -> bool:
        """Sends a signal to the command in the session's shell. False when there is none."""
        try:
            await self.driver.request("POST", f"{self.path}/signal", json={"signal": name})
        except ServiceError as problem:
            if problem.code != "RUN_NOT_FOUND":
                raise
            return False
        return True

    async def find_end(self) -> SandboxError | None:
        """Why the session ended, when it has: the error of the budget that was used up, or a `SandboxEnded`."""
        try:
            state = (await self.driver.request("GET", self.path)).json()
        except SandboxError:
            return None
        end = state.get("end")
        if not isinstance(end, dict):
            return None
        error = end_error(str(end.get("limit") or end.get("cause")), str(end.get("message")))
        self.channel.ended(error)
        self.on_end(error)
        return error

    def has_lost_service(self) -> bool:
        """Whether it was in a service of this process's own that is gone."""
        return self.service is not None and not self.service.is_alive()

    def check_open(self) -> None:
        if self.is_closed:
            raise SandboxEnded(f"sandbox {self.request.name!r} is closed", self.termination_reason or "closed")

    # ---- Frames --------------------------------------------------------------------------------------

    async def attach(self) -> Link:
        """The channel's connection, made at the first use and again after it was lost."""
        self.driver.check_owner()
        link = self._link
        if link is not None and self.channel.end is None:
            return link
        self.check_open()
        if not self.request.python:
            raise SandboxError("this sandbox was made without Python (python=False)")
        async with self._attaching:
            self.check_open()
            if self._link is not None:
                if self.channel.end is None:
                    return self._link
                if getattr(self.channel.end, "reason", "") != "connection":
                    raise self.channel.end
            self._link = None
            self.channel.reopen()
            made = await self.driver.link(f"{self.path}/python", self.channel.received, self.channel.ended)
            try:
                for capability in self.handlers:
                    await made.send(encode({"op": "handle", "capability": capability}))
            except BaseException:
                self.driver.in_background(made.close())  # a channel has one client: the next needs the place
                raise
            self._link = made
            return made

    async def begin(self, op: str, fields: dict[str, Any], values: dict[str, Any] | None = None) -> Operation:
        """Sends an operation. Its answer comes into the operation's slot."""
        link = await self.attach()
        operation, frame = self.channel.begin(op, fields, values)
        try:
            await link.send(frame)
        except SandboxEnded:
            pass  # the reader of the connection sees how it ended, and tells the operation
        except BaseException:
            self._abandon(operation)  # some of it may be on its way
            raise
        return operation

    async def finish(self, operation: Operation, timeout: float | None) -> Any:
        """Waits for the answer. When its time is over, or the caller is interrupted (a task that is cancelled,
        Ctrl-C), the operation is cancelled, and what it would have said is dropped."""
        try:
            return await self.driver.wait(operation.slot, timeout)
        except SandboxError:
            raise
        except builtins.TimeoutError:
            self.channel.forget(operation)
            await self.cancel_operation(operation.number)
            raise TimeoutError(f"no answer within {timeout} s") from None
        except BaseException:
            self._abandon(operation)
            raise

    def _abandon(self, operation: Operation) -> None:
        self.channel.forget(operation)
        self.driver.in_background(self.cancel_operation(operation.number))

    async def settle(self) -> None:
        """Waits for what was asked for before this: source whose value was received may not have ended yet."""
        deadline = time.monotonic() + _SETTLE_SECONDS
        for operation in self.channel.running():
            try:
                await self.driver.wait(operation.slot, max(0.0, deadline - time.monotonic()))
            except builtins.TimeoutError:
                return
            except SandboxError:
                pass  # an end as good as any; who waits for it hears of it

    async def ask(self, op: str, fields: dict[str, Any], values: dict[str, Any] | None = None,
                  timeout: float | None = None) -> Any:  # fmt: skip
        return await self.finish(await self.begin(op, fields, values), timeout)

    async def post(self, value: Any) -> None:
        link = await self.attach()
        try:
            await link.send(encode({"op": "post"}, {"value": value}))
        except SandboxEnded as lost:
            raise self.channel.end or lost from None

    async def receive(self, timeout: float | None) -> Any:
        channel = self.channel
        slot = channel.inbox.next(self.driver.make_slot)
        try:
            if not slot.is_done():
                await self._attach_for(slot)
            return await self.driver.wait(slot, timeout)
        except SandboxError:
            raise
        except builtins.TimeoutError:
            if channel.inbox.give_up(slot):
                raise TimeoutError("no message received") from None
            return await self.driver.wait(slot, 0)
        except BaseException:  # the caller was interrupted: a value that came is for the next
            if not slot.is_done() or slot.outcome()[1] is not channel.end or channel.end is None:
                channel.inbox.give_back(slot)
            raise

    async def _attach_for(self, slot: Slot) -> None:
        """Sees to it that something can come into a slot of the inbox."""
        inbox = self.channel.inbox
        try:
            await self.attach()
        except SandboxError:
            if inbox.give_up(slot):
                raise
        end = self.channel.end
        if end is not None and inbox.give_up(slot):
            raise end

    async def cancel_operation(self, number: int) -> None:
        if self._link is not None and self.channel.end is None:
            await self._link.send(encode({"op": "cancel", "id": number}))

    async def define(self, source: str, name: str, timeout: float | None) -> str:
        """Makes a function known in the sandbox, once for each source."""
        if self._defined.get(name) != source:
            await self.ask("define", {"source": source, "name": name}, timeout=timeout)
            self._defined[name] = source
        return name

    async def handle(self, capability: str, handler: Handler) -> None:
        is_new = capability not in self.handlers
        self.handlers[capability] = handler
        if is_new and self._link is not None and self.channel.end is None:
            await self._link.send(encode({"op": "handle", "capability": capability}))

    async def detach(self) -> None:
        link, self._link = self._link, None
        if link is not None:
            await link.close()

    def restart(self, identifier: str) -> None:
        """The session is a fresh one: nothing of the old conversation is true of it."""
        self.id = identifier
        self.channel = Channel(self.request.name, self.driver.make_slot, self)
        self.termination_reason = None
        self._defined.clear()

    # ---- What comes by itself (Listener) -------------------------------------------------------------

    def on_denial(self, event: DenialEvent) -> None:
        action = event.attempted_action or event.capability
        error = PolicyError(f"{self.request.name} was refused {action}", denial_event=event)
        for alert in self.supervisor.alert_handlers():
            self.driver.call_back(alert, (self.request.name, error), None)

    def on_log(self, event: LogEvent) -> None:
        # The text is the guest's: it goes in as an argument, so that nothing in it is a format.
        self._log.log(_LEVELS.get(event.level.lower(), logging.INFO), "%s", event.message)

    def on_output(self, stream: str, text: str) -> None:
        pass

    def on_restart(self) -> None:
        self._defined.clear()

    def on_end(self, error: SandboxError) -> None:
        reason = getattr(error, "reason", "closed")
        if reason != "connection" and self.termination_reason is None:
            self.termination_reason = reason

    def on_request(self, number: Any, capability: str, action: str, payload: Any) -> None:
        handler = self.handlers.get(capability)

        def reply(value: Any, problem: BaseException | None) -> None:
            self.driver.in_background(self._reply(number, value, problem))

        if handler is None:
            reply(None, PermissionError(f"there is no handler for {capability!r}"))
        else:
            self.driver.call_back(handler, (action, payload), reply)

    async def _reply(self, number: Any, value: Any, problem: BaseException | None) -> None:
        if problem is None:
            try:
                frame = encode({"op": "reply", "id": number}, {"value": value})
            except UnsendableValue as unsendable:
                problem = unsendable
        if problem is not None:
            error = {"type": type(problem).__name__, "message": str(problem)[:4096]}
            frame = encode({"op": "reply", "id": number, "error": error})
        if self._link is not None:
            await self._link.send(frame)


class Execution:
    """Source that a sandbox was given to run. Waiting for it is optional.

    An error of it comes out of the sandbox's `recv()`, unless `wait()` was called, which then has it.
    """

    def __init__(self, core: Core, operation: Operation) -> None:
        self._core = core
        self._operation = operation

    @property
    def done(self) -> bool:
        return self._operation.slot.is_done()

    async def wait(self, timeout: float | None = None) -> None:
        """Until it has ended. Raises what it raised; after `timeout` seconds it is cancelled."""
        self._core.channel.claim(self._operation)
        await self._core.finish(self._operation, timeout)

    async def cancel(self) -> bool:
        """Interrupts it, and does not wait. What it raises then is heard by `wait()` alone. False when it had ended."""
        if self.done:
            return False
        self._core.channel.claim(self._operation)
        await self._core.cancel_operation(self._operation.number)
        return True
