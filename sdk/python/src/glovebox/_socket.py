"""WebSockets of both kinds, around the protocol of the `websockets` library, which does no input or output itself."""

from __future__ import annotations

import asyncio
import json
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from typing import Protocol

from websockets.client import ClientProtocol
from websockets.exceptions import InvalidState, InvalidStatus
from websockets.frames import Frame, Opcode
from websockets.http11 import Response
from websockets.uri import parse_uri

from ._channel import Frame as Message
from ._service import Address
from ._values import MAX_MESSAGE
from .errors import SandboxEnded, SandboxError, ServiceNotFound, service_error

_PIECE = 256 << 10
_CONNECT_SECONDS = 10.0

OnMessage = Callable[[Message], None]
OnLost = Callable[[SandboxError], None]


class Link(Protocol):
    """A connection that carries messages both ways."""

    async def send(self, message: Message) -> None: ...
    async def close(self) -> None: ...


class _Wire:
    """The protocol's state: bytes of the peer in, messages out; messages in, bytes for the peer out."""

    def __init__(self, address: Address, path: str) -> None:
        host = address.host if not address.socket else "localhost"
        scheme = "wss" if address.is_tls else "ws"
        self.protocol = ClientProtocol(
            parse_uri(f"{scheme}://{host}:{address.port}{path}"), max_size=MAX_MESSAGE + 4096
        )
        request = self.protocol.connect()
        if address.token:
            request.headers["Authorization"] = f"Bearer {address.token}"
        self.protocol.send_request(request)
        self._parts: list[bytes] = []
        self._is_text = False

    def outgoing(self) -> bytes:
        return b"".join(self.protocol.data_to_send())

    def take(self, data: bytes) -> list[Message]:
        """The messages that are whole with this data. Raises what a refused handshake was refused with."""
        if data:
            self.protocol.receive_data(data)
        else:
            self.protocol.receive_eof()
        return list(self._messages())

    def is_open(self) -> bool:
        return self.protocol.handshake_exc is None and self.protocol.state.name == "OPEN"

    def _messages(self) -> Iterator[Message]:
        for event in self.protocol.events_received():
            if isinstance(event, Response):
                continue
            if isinstance(event, Frame) and event.opcode in (Opcode.TEXT, Opcode.BINARY, Opcode.CONT):
                if event.opcode is not Opcode.CONT:
                    self._parts, self._is_text = [], event.opcode is Opcode.TEXT
                self._parts.append(bytes(event.data))
                if event.fin:
                    whole = self._parts[0] if len(self._parts) == 1 else b"".join(self._parts)
                    self._parts = []
                    yield whole.decode("utf-8", "replace") if self._is_text else whole
        if self.protocol.handshake_exc is not None:
            raise _refusal(self.protocol.handshake_exc)

    def encode(self, message: Message) -> None:
        try:
            if isinstance(message, str):
                self.protocol.send_text(message.encode("utf-8"))
            else:
                self.protocol.send_binary(message)
        except InvalidState:  # the other side has said good-bye
            raise self.lost() from None

    def lost(self) -> SandboxError:
        closed = self.protocol.close_exc if self.protocol.state.name == "CLOSED" else None
        why = f": {closed}" if closed is not None else ""
        return SandboxEnded(f"the connection to the sandbox was lost{why}", "connection")


def _refusal(problem: Exception) -> SandboxError:
    if isinstance(problem, InvalidStatus):
        body = problem.response.body or b""
        try:
            return service_error(problem.response.status_code, json.loads(body))
        except ValueError:
            return service_error(problem.response.status_code, None)
    return SandboxEnded(f"the service opened no channel to the sandbox: {problem}", "connection")


def _no_answer(address: Address, problem: OSError) -> ServiceNotFound:
    why = str(problem) or f"no answer within {_CONNECT_SECONDS:g} s"
    return ServiceNotFound(f"the service at {address.name} cannot be reached: {why}")


def _tls(address: Address) -> ssl.SSLContext | None:
    return ssl.create_default_context() if address.is_tls else None


# ---- Blocking: a thread reads, the caller that sends writes. ---------------------------------------------------


class BlockingLink:
    def __init__(self, address: Address, path: str, on_message: OnMessage, on_lost: OnLost) -> None:
        self._wire = _Wire(address, path)
        self._socket = _connect(address)
        self._on_message, self._on_lost = on_message, on_lost
        self._state = threading.Lock()  # of the protocol; never held while waiting
        self._writing = threading.Lock()  # of the socket's writing side
        self._unsent = b""  # of an interrupted write
        try:
            early = self._shake_hands()
        except OSError as problem:
            self._socket.close()
            raise _no_answer(address, problem) from None
        except BaseException:
            self._socket.close()
            raise
        for message in early:
            on_message(message)
        threading.Thread(target=self._read, name="glovebox-channel", daemon=True).start()

    def _shake_hands(self) -> list[Message]:
        self._socket.settimeout(_CONNECT_SECONDS)
        self._socket.sendall(self._wire.outgoing())
        messages: list[Message] = []
        while not self._wire.is_open():
            data = self._socket.recv(_PIECE)
            messages += self._wire.take(data)
            if not data:
                raise self._wire.lost()
        self._socket.settimeout(None)
        return messages

    async def send(self, message: Message) -> None:
        with self._writing:
            with self._state:
                self._wire.encode(message)
                data = self._wire.outgoing()
            self._write(data)
        try:
            self._flush()
        except SandboxEnded:
            pass  # the message is out; that the connection is gone, the reading thread tells

    def _write(self, data: bytes) -> None:
        """Sends bytes. A caller that is interrupted (Ctrl-C) leaves the rest to the next write: no message is torn."""
        view = memoryview(self._unsent + data if self._unsent else data)
        counts: list[int] = []
        try:
            while (done := sum(counts)) < len(view):
                # Signal handlers run between bytecodes: send and count are one step, so that no count is lost.
                counts.extend(map(self._socket.send, (view[done:],)))
            self._unsent = b""
        except OSError as problem:
            raise SandboxEnded(f"the connection to the sandbox was lost: {problem}", "connection") from None
        except BaseException:
            self._unsent = bytes(view[sum(counts) :])
            if isinstance(self._socket, ssl.SSLSocket):  # its send is written in Python: what it sent is not known
                self._socket.shutdown(socket.SHUT_RDWR)
            raise

    def _flush(self) -> None:
        """Sends what the protocol has to say by itself. When a caller is writing, that is left to it."""
        while self._wire.protocol.writes and self._writing.acquire(blocking=False):
            try:
                with self._state:
                    data = self._wire.outgoing()
                self._write(data)
            finally:
                self._writing.release()

    def _read(self) -> None:
        error: SandboxError | None = None
        try:
            while True:
                data = self._socket.recv(_PIECE)
                with self._state:
                    messages = self._wire.take(data)
                for message in messages:
                    self._on_message(message)
                self._flush()
                if not data:
                    break
        except SandboxError as problem:
            error = problem
        except OSError:
            pass  # closed on this side, or gone on the other: the same end
        finally:  # also after a bug: a caller may be waiting for an answer
            self._on_lost(error or self._wire.lost())
            self._socket.close()

    async def close(self) -> None:
        """Says good-bye without waiting for an answer; the reading thread ends with the connection."""
        try:
            with self._state:
                if self._wire.protocol.state.name == "OPEN":
                    self._wire.protocol.send_close(1000)
            self._flush()
            self._socket.shutdown(socket.SHUT_RDWR)
        except (OSError, SandboxError):
            pass


def _connect(address: Address) -> socket.socket:
    try:
        if address.socket:
            made = socket.socket(socket.AF_UNIX)
            try:
                made.settimeout(_CONNECT_SECONDS)
                made.connect(address.socket)
                return made
            except BaseException:
                made.close()
                raise
        made = socket.create_connection((address.host, address.port), _CONNECT_SECONDS)
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        context = _tls(address)
        return made if context is None else context.wrap_socket(made, server_hostname=address.host)
    except OSError as problem:
        raise ServiceNotFound(f"no service listens on {address.name}: {problem}") from None


# ---- asyncio: a task reads. -------------------------------------------------------------------------------


class AsyncLink:
    def __init__(self, wire: _Wire, reader: asyncio.StreamReader, writer: asyncio.StreamWriter,
                 on_message: OnMessage, on_lost: OnLost) -> None:  # fmt: skip
        self._wire, self._reader, self._writer = wire, reader, writer
        self._on_message, self._on_lost = on_message, on_lost
        self._task = asyncio.create_task(self._read(), name="glovebox-channel")

    @classmethod
    async def open(cls, address: Address, path: str, on_message: OnMessage, on_lost: OnLost) -> AsyncLink:
        wire = _Wire(address, path)
        try:
            if address.socket:
                reader, writer = await asyncio.open_unix_connection(address.socket, limit=_PIECE)
            else:
                reader, writer = await asyncio.open_connection(
                    address.host, address.port, limit=_PIECE, ssl=_tls(address)
                )
        except OSError as problem:
            raise ServiceNotFound(f"no service listens on {address.name}: {problem}") from None
        try:
            async with asyncio.timeout(_CONNECT_SECONDS):
                writer.write(wire.outgoing())
                messages: list[Message] = []
                while not wire.is_open():
                    data = await reader.read(_PIECE)
                    messages += wire.take(data)
                    if not data:
                        raise wire.lost()
        except OSError as problem:
            writer.close()
            raise _no_answer(address, problem) from None
        except BaseException:
            writer.close()
            raise
        for message in messages:
            on_message(message)
        return cls(wire, reader, writer, on_message, on_lost)

    async def send(self, message: Message) -> None:
        self._wire.encode(message)
        self._writer.write(self._wire.outgoing())
        try:
            await self._writer.drain()
        except OSError as problem:
            raise SandboxEnded(f"the connection to the sandbox was lost: {problem}", "connection") from None

    async def _read(self) -> None:
        error: SandboxError | None = None
        try:
            while True:
                data = await self._reader.read(_PIECE)
                for message in self._wire.take(data):
                    self._on_message(message)
                if pending := self._wire.outgoing():
                    self._writer.write(pending)
                if not data:
                    break
        except SandboxError as problem:
            error = problem
        except OSError:
            pass
        finally:
            self._on_lost(error or self._wire.lost())
            self._writer.close()

    async def close(self) -> None:
        if self._wire.protocol.state.name == "OPEN":
            self._wire.protocol.send_close(1000)
            self._writer.write(self._wire.outgoing())
        self._writer.close()
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
