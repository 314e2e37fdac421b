"""The conversation with the Python host of one sandbox, without any input or output of its own.

Frames go in by `received()` and come out of the functions that return one; who waits for an answer holds a
`Slot`. The blocking and the asyncio client differ in their slots and in who carries the frames (`_drive.py`), and
in nothing else.

Every operation has a number, and an answer is for the operation that has its number: a posted value is
never taken for the result of a call. Errors of `exec` come out of `recv()`, in their order among the posted
values, unless a caller waits for that very execution.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Any, Protocol, TypeVar

from ._values import BrokenMessage, decode, encode
from .errors import OutputExceeded, SandboxEnded, SandboxError, SandboxRestarted, end_error, guest_error
from .events import DenialEvent, LogEvent, MetricEvent, log_event, metric_event

T = TypeVar("T")
Frame = str | bytes

KEPT_RECORDS = 1_000
KEPT_OUTPUT = 1 << 20
KEPT_LATENCIES = 128
MAX_INBOX = 256 << 20


class Slot(Protocol):
    """A place for one answer. `resolve` and `fail` count the first time alone."""

    def resolve(self, value: Any) -> None: ...
    def fail(self, error: BaseException) -> None: ...
    def is_done(self) -> bool: ...
    def outcome(self) -> tuple[Any, BaseException | None]:
        """The value, or the error, of a slot that is done."""


class Listener(Protocol):
    """Who is told what comes by itself. Called by the thread that carries the frames: must not wait."""

    def on_denial(self, event: DenialEvent) -> None: ...
    def on_request(self, number: Any, capability: str, action: str, payload: Any) -> None: ...
    def on_log(self, event: LogEvent) -> None: ...
    def on_output(self, stream: str, text: str) -> None: ...
    def on_restart(self) -> None: ...
    def on_end(self, error: SandboxError) -> None: ...


class Operation:
    """Something that the sandbox was asked for and has not answered yet."""

    def __init__(self, number: int, slot: Slot, is_exec: bool) -> None:
        self.number = number
        self.slot = slot
        self.is_exec = is_exec
        self.is_awaited = not is_exec
        self.error: SandboxError | None = None
        self.began = time.perf_counter()


class Inbox:
    """Posted values and errors in the order in which they came, and who waits for the next."""

    def __init__(self, lock: threading.RLock) -> None:
        self._lock = lock
        self._items: deque[tuple[Any, int, bool]] = deque()
        self._waiting: deque[Slot] = deque()
        self.size = 0

    def put(self, item: Any, size: int = 0, is_error: bool = False) -> None:
        with self._lock:
            while self._waiting:
                slot = self._waiting.popleft()
                if not slot.is_done():
                    slot.fail(item) if is_error else slot.resolve(item)
                    return
            self._items.append((item, size, is_error))
            self.size += size

    def next(self, make_slot: Callable[[], Slot]) -> Slot:
        """A slot that has the next item, or will."""
        slot = make_slot()
        with self._lock:
            if self._items:
                item, size, is_error = self._items.popleft()
                self.size -= size
                slot.fail(item) if is_error else slot.resolve(item)
            else:
                self._waiting.append(slot)
        return slot

    def give_up(self, slot: Slot) -> bool:
        """No caller waits for this slot any more. False when something came after all: it is in the slot."""
        with self._lock:
            if slot.is_done():
                return False
            self._waiting.remove(slot)
            return True

    def give_back(self, slot: Slot) -> None:
        """No caller waits for this slot any more; what came into it meanwhile is for the next who asks."""
        with self._lock:
            if self.give_up(slot):
                return
            value, error = slot.outcome()
            self._items.appendleft((value if error is None else error, 0, error is not None))

    def take_back(self, error: BaseException) -> None:
        """Removes an error that another caller was told of."""
        with self._lock:
            self._items = deque(entry for entry in self._items if entry[0] is not error)

    def fail_waiting(self, error: BaseException) -> None:
        with self._lock:
            waiting, self._waiting = self._waiting, deque()
            for slot in waiting:
                slot.fail(error)


class Records:
    """What the guest said beside its values, the last of it."""

    def __init__(self) -> None:
        self.logs: deque[LogEvent] = deque(maxlen=KEPT_RECORDS)
        self.metrics: deque[MetricEvent] = deque(maxlen=KEPT_RECORDS)
        self.denials: deque[DenialEvent] = deque(maxlen=KEPT_RECORDS)
        self.latency: deque[float] = deque(maxlen=KEPT_LATENCIES)
        self.operations = self.errors = self.denied = self.printed = 0
        self._output: deque[tuple[str, str]] = deque()
        self._kept = 0

    def add_output(self, stream: str, text: str) -> None:
        self.printed += len(text)
        self._output.append((stream, text))
        self._kept += len(text)
        while self._kept > KEPT_OUTPUT and len(self._output) > 1:
            self._kept -= len(self._output.popleft()[1])

    def output(self, stream: str | None) -> str:
        return "".join(text for name, text in list(self._output) if stream in (None, name))


class Channel:
    """One sandbox's conversation. Safe to use from several threads."""

    def __init__(self, name: str, make_slot: Callable[[], Slot], listener: Listener) -> None:
        self._name = name
        self._make_slot = make_slot
        self._listener = listener
        self._lock = threading.RLock()
        self._open: dict[int, Operation] = {}
        self._count = 0
        self.inbox = Inbox(self._lock)
        self.records = Records()
        self.end: SandboxError | None = None

    def reopen(self) -> None:
        """There is a connection again. What was posted and noted so far stays."""
        with self._lock:
            self.end = None

    # ---- Asking ------------------------------------------------------------------------------------

    def begin(self, op: str, fields: dict[str, Any], values: dict[str, Any] | None = None) -> tuple[Operation, Frame]:
        """A new operation, and the frame that asks for it."""
        with self._lock:
            self._count += 1
            number = self._count
        frame = encode({"op": op, "id": number, **fields}, values)
        operation = Operation(number, self._make_slot(), is_exec=op == "exec")
        with self._lock:
            if self.end is not None:
                raise self.end
            self._open[number] = operation
            self.records.operations += 1
        return operation, frame

    def forget(self, operation: Operation) -> None:
        """Its answer, if one comes, is dropped."""
        with self._lock:
            self._open.pop(operation.number, None)

    def running(self) -> list[Operation]:
        """What was not answered yet, the oldest first."""
        with self._lock:
            return [self._open[number] for number in sorted(self._open)]

    def claim(self, operation: Operation) -> None:
        """A caller waits for this execution: its error goes there, and is no item of the inbox."""
        with self._lock:
            operation.is_awaited = True
            if operation.error is not None:
                self.inbox.take_back(operation.error)

    # ---- Hearing -----------------------------------------------------------------------------------

    def received(self, frame: Frame) -> None:
        """Takes a frame of the service. A broken one is an end: nothing after it could be trusted."""
        try:
            message = decode(frame)
        except BrokenMessage as problem:
            self.ended(SandboxEnded(f"the service sent what is no message: {problem}", "protocol"))
            return
        event = message.get("ev")
        if event == "post":
            self.inbox.put(message.get("value"), len(frame))
            if self.inbox.size > MAX_INBOX:
                self.ended(OutputExceeded(f"more than {MAX_INBOX >> 20} MiB were posted and not received"))
        elif event in ("result", "error"):
            self._answer(message)
        elif event == "request":
            self._listener.on_request(
                message.get("id"), str(message.get("capability")), str(message.get("action")), message.get("payload")
            )
        else:
            self._note(event, message)

    def _note(self, event: Any, message: dict[str, Any]) -> None:
        if event == "denial":
            denial = DenialEvent.from_message(message, self._name)
            self.records.denials.append(denial)
            self.records.denied += 1
            self._listener.on_denial(denial)
        elif event == "log":
            line = log_event(message)
            self.records.logs.append(line)
            self._listener.on_log(line)
        elif event == "metric":
            self.records.metrics.append(metric_event(message))
        elif event == "output":
            stream, text = str(message.get("stream")), str(message.get("text"))
            self.records.add_output(stream, text)
            self._listener.on_output(stream, text)
        elif event == "restart":
            self.inbox.put(SandboxRestarted(str(message.get("message") or "the sandbox began anew")), is_error=True)
            self._listener.on_restart()
        elif event == "end":
            self.ended(end_error(str(message.get("reason") or "closed"), str(message.get("message") or "")))
        # Events that only a newer service has are ignored.

    def _answer(self, message: dict[str, Any]) -> None:
        number = message.get("id")
        with self._lock:
            operation = self._open.pop(number, None) if isinstance(number, int) else None
        if operation is None:
            return
        self.records.latency.append((time.perf_counter() - operation.began) * 1000)
        if message["ev"] == "result":
            operation.slot.resolve(message.get("value"))
            return
        self.records.errors += 1
        last = self.records.denials[-1] if self.records.denials else None
        self._fail(operation, guest_error(message.get("error"), last))

    def _fail(self, operation: Operation, error: SandboxError) -> None:
        with self._lock:
            operation.error = error
            if not operation.is_awaited:
                self.inbox.put(error, is_error=True)
        operation.slot.fail(error)

    def ended(self, error: SandboxError) -> None:
        """Nothing will come any more. Who waits hears why; what came before can still be received."""
        with self._lock:
            if self.end is not None:
                return
            self.end = error
            operations, self._open = list(self._open.values()), {}
        for operation in operations:
            operation.error = error
            operation.slot.fail(error)
        self.inbox.fail_waiting(error)
        self._listener.on_end(error)
