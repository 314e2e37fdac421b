"""Capabilities: small values that each name one thing a sandbox may do.

They compare, copy and print; they open nothing. `to_json()` is the tagged JSON of the service
(`{"kind": "read_path", "path": "/srv"}`), `from_json()` its inverse, and `to_term()` the word of a policy
document (`read=/srv`). What a set of them means is decided by the service alone; the checks here are there
so that a slip is found on the line that made it.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Union

__all__ = [
    "Authority", "AuthoritySet", "Capability", "Channel", "Clock", "ClockCapability", "ConnectRateBudget",
    "ConnectTCP", "ConnectUnix", "ConnectionsBudget", "CpuBudget", "DiskBudget", "EgressBytesBudget", "Env", "ExecPath",
    "FilesystemCapability", "Grants", "Import", "InodeBudget", "ListenTCP", "MemoryBudget",
    "NetworkCapability", "OpenFilesBudget", "OutputBudget", "PidsBudget", "Random", "RandomCapability",
    "ReadPath", "ResolveName", "Secret", "Subprocess", "SubprocessCapability", "Syscalls", "WallBudget", "WritePath",
]  # fmt: skip

PathLike = Union[str, "os.PathLike[str]"]
Ports = Union[int, tuple[int, int]]

_MAX_PORT = 65_535


def _absolute(path: PathLike) -> str:
    """An absolute path without `..`. A relative one starts at the current directory of now."""
    text = os.fspath(path)
    if not isinstance(text, str) or not text:
        raise ValueError("path must be a non-empty text")
    if "\0" in text:
        raise ValueError("path must not hold a NUL byte")
    if not text.startswith("/") or ".." in text.split("/"):
        return str(Path(text).resolve(strict=False))
    return text


def _named(value: object, what: str) -> str:
    if not isinstance(value, str) or not value:
        raise ValueError(f"{what} must be a non-empty string")
    return value


def _port_range(ports: Ports) -> tuple[int, int]:
    first, last = (ports, ports) if isinstance(ports, int) else ports
    if isinstance(first, bool) or not 1 <= first <= last <= _MAX_PORT:
        raise ValueError(f"ports are 1 to {_MAX_PORT}, or a range (first, last) of them; not {ports!r}")
    return first, last


def _ports_json(ports: Ports) -> dict[str, Any]:
    first, last = _port_range(ports)
    return {"port": first} if first == last else {"ports": [first, last]}


def _ports_term(ports: Ports) -> str:
    first, last = _port_range(ports)
    return str(first) if first == last else f"{first}-{last}"


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def _split_address(address: str) -> tuple[str, Ports]:
    host, colon, tail = address.rpartition(":")
    first, dash, last = tail.partition("-")
    if not colon or not host or not first.isdigit() or (dash and not last.isdigit()):
        raise ValueError(f"TCP address must be 'host:port': {address!r}")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    return host, (int(first), int(last)) if dash else int(first)


class Capability:
    """One thing that a sandbox may do. The classes below are all there are."""

    __slots__ = ()
    kind: ClassVar[str]
    word: ClassVar[str]

    def to_json(self) -> dict[str, Any]:
        """The service's tagged JSON."""
        return {"kind": self.kind, **self._fields()}

    def to_term(self) -> str:
        """`word=value`, as policies and the command line write it."""
        value = self._value()
        return f"{self.word}={value}" if value else self.word

    def parts(self) -> tuple[Capability, ...]:
        """The service's capabilities that it stands for: itself, of all but packages."""
        return (self,)

    def _fields(self) -> dict[str, Any]:
        return {}

    def _value(self) -> str:
        return ""


Authority = Capability
"""Another name for `Capability`."""


class _OfPath(Capability):
    __slots__ = ()
    path: str

    def __init__(self, path: PathLike) -> None:
        object.__setattr__(self, "path", _absolute(path))

    def _fields(self) -> dict[str, Any]:
        return {"path": self.path}

    def _value(self) -> str:
        return self.path


@dataclass(frozen=True, init=False)
class ReadPath(_OfPath):
    """Reading a file, or listing and reading a tree."""

    path: str
    kind: ClassVar[str] = "read_path"
    word: ClassVar[str] = "read"


@dataclass(frozen=True, init=False)
class WritePath(_OfPath):
    """Writing, creating, renaming and removing; and reading, which it implies."""

    path: str
    kind: ClassVar[str] = "write_path"
    word: ClassVar[str] = "write"


@dataclass(frozen=True, init=False)
class ExecPath(_OfPath):
    """Executing programs. It implies no reading."""

    path: str
    kind: ClassVar[str] = "exec_path"
    word: ClassVar[str] = "exec"


@dataclass(frozen=True, init=False)
class ConnectUnix(_OfPath):
    """Connecting to the Unix socket at a path, or to those beneath it."""

    path: str
    kind: ClassVar[str] = "connect_unix"
    word: ClassVar[str] = "unix"


class _OfAddress(Capability):
    __slots__ = ()
    host: str
    port: Ports

    def __post_init__(self) -> None:
        _named(self.host, "host")
        _port_range(self.port)

    @property
    def address(self) -> str:
        """`host:port`."""
        return f"{_bracketed(self.host)}:{_ports_term(self.port)}"

    def _fields(self) -> dict[str, Any]:
        return {"host": self.host, **_ports_json(self.port)}

    def _value(self) -> str:
        return self.address


@dataclass(frozen=True)
class ConnectTCP(_OfAddress):
    """Opening TCP connections to a name, a pattern of names, an address or a network."""

    host: str
    port: Ports
    kind: ClassVar[str] = "connect_tcp"
    word: ClassVar[str] = "connect"

    @classmethod
    def from_address(cls, address: str) -> ConnectTCP:
        """From `host:port`, `host:first-last` or `[v6 address]:port`."""
        return cls(*_split_address(address))


@dataclass(frozen=True)
class ListenTCP(_OfAddress):
    """Accepting TCP connections on addresses of the box."""

    host: str
    port: Ports
    kind: ClassVar[str] = "listen_tcp"
    word: ClassVar[str] = "listen"

    @classmethod
    def from_address(cls, address: str) -> ListenTCP:
        return cls(*_split_address(address))


class _OfName(Capability):
    __slots__ = ()
    name: str

    def __post_init__(self) -> None:
        _named(self.name, "name")

    def _fields(self) -> dict[str, Any]:
        return {"name": self.name}

    def _value(self) -> str:
        return self.name


@dataclass(frozen=True)
class ResolveName(_OfName):
    """Asking for the addresses of a name, for programs that look up without connecting."""

    name: str
    kind: ClassVar[str] = "resolve_name"
    word: ClassVar[str] = "resolve"


@dataclass(frozen=True)
class Secret(_OfName):
    """A secret by its name. The value is with the service (`glovebox secret set NAME`), never in here."""

    name: str
    kind: ClassVar[str] = "secret"
    word: ClassVar[str] = "secret"


@dataclass(frozen=True)
class Channel(_OfName):
    """Sending and receiving on a named channel between boxes."""

    name: str
    kind: ClassVar[str] = "channel"
    word: ClassVar[str] = "channel"


@dataclass(frozen=True)
class Syscalls(_OfName):
    """A group of system calls that boxes do without unless it is granted: `sysv-ipc`, `mqueue`, `numa`..."""

    name: str
    kind: ClassVar[str] = "syscalls"
    word: ClassVar[str] = "syscalls"


@dataclass(frozen=True)
class Import(Capability):
    """Importing a Python package: the module of this name, those below it, and what these load themselves.

    With `strict` that module alone, which loads what it needs of the standard library and of its own package.
    `numpy.*` are the modules below it and not itself, `*` are all. To the service a name is that one module:
    a package is two of its capabilities, `numpy` and `numpy.*`.
    """

    module: str
    strict: bool = False
    kind: ClassVar[str] = "import"
    word: ClassVar[str] = "import"

    def __post_init__(self) -> None:
        _named(self.module, "module")
        if self._is_pattern() and self.strict:
            raise ValueError("a strict import names one module, and no pattern")

    def _is_pattern(self) -> bool:
        return self.module == "*" or self.module.endswith(".*")

    @property
    def root_module(self) -> str:
        return self.module.partition(".")[0]

    def parts(self) -> tuple[Capability, ...]:
        if self.strict or self._is_pattern():
            return (self,)
        return Import(self.module, strict=True), Import(f"{self.module}.*")

    def _fields(self) -> dict[str, Any]:
        return {"module": self.module}

    def _value(self) -> str:
        return self.module


@dataclass(frozen=True)
class Env(Capability):
    """An environment variable. Without a value the service's own is passed on; with one it is set to that."""

    name: str
    value: str | None = None
    kind: ClassVar[str] = "env"
    word: ClassVar[str] = "env"

    def __post_init__(self) -> None:
        _named(self.name, "name")

    def _fields(self) -> dict[str, Any]:
        return {"name": self.name} if self.value is None else {"name": self.name, "value": self.value}

    def _value(self) -> str:
        return self.name if self.value is None else f"{self.name}={self.value}"


@dataclass(frozen=True)
class Subprocess(Capability):
    """Starting commands through the broker, by `argv[0]`. With `allow_shell` also as one string."""

    commands: tuple[str, ...]
    allow_shell: bool = False
    kind: ClassVar[str] = "subprocess"

    def __post_init__(self) -> None:
        commands = (self.commands,) if isinstance(self.commands, str) else self.commands
        names = tuple(sorted({_named(each, "command") for each in commands}))
        if not names:
            raise ValueError("at least one command is needed")
        object.__setattr__(self, "commands", names)

    @classmethod
    def from_commands(cls, *commands: str, allow_shell: bool = False) -> Subprocess:
        return cls(commands, allow_shell)

    @property
    def word(self) -> str:  # type: ignore[override]  # of this kind there are two
        return "subprocess_shell" if self.allow_shell else "subprocess"

    def _fields(self) -> dict[str, Any]:
        return {"commands": list(self.commands), "allow_shell": self.allow_shell}

    def _value(self) -> str:
        return ",".join(self.commands)


@dataclass(frozen=True)
class Clock(Capability):
    """Reading the time."""

    kind: ClassVar[str] = "clock"
    word: ClassVar[str] = "clock"


@dataclass(frozen=True)
class Random(Capability):
    """Drawing random bytes."""

    kind: ClassVar[str] = "random"
    word: ClassVar[str] = "random"


_SUFFIXES = {"ms": "ms", "per_second": "/s"}
"""What follows an amount of a unit in a term."""


class _Budget(Capability):
    """How much of something a sandbox may use up. Of two the smaller counts."""

    __slots__ = ()
    unit: ClassVar[str]
    label: ClassVar[str]

    def __post_init__(self) -> None:
        amount = self.amount
        if isinstance(amount, bool) or not isinstance(amount, int) or amount <= 0:
            raise ValueError(f"{self.label} budget must be positive")

    @property
    def amount(self) -> int:
        value: int = getattr(self, self.unit)
        return value

    def _fields(self) -> dict[str, Any]:
        return {self.unit: self.amount}

    def _value(self) -> str:
        return f"{self.amount}{_SUFFIXES.get(self.unit, '')}"


@dataclass(frozen=True)
class CpuBudget(_Budget):
    """Processor time, in milliseconds."""

    ms: int
    kind: ClassVar[str] = "cpu_budget"
    word: ClassVar[str] = "cpu"
    unit: ClassVar[str] = "ms"
    label: ClassVar[str] = "CPU"


@dataclass(frozen=True)
class WallBudget(_Budget):
    """Time from start to end, in milliseconds."""

    ms: int
    kind: ClassVar[str] = "wall_budget"
    word: ClassVar[str] = "wall"
    unit: ClassVar[str] = "ms"
    label: ClassVar[str] = "wall time"


@dataclass(frozen=True)
class MemoryBudget(_Budget):
    """Resident memory, in bytes."""

    bytes: int
    kind: ClassVar[str] = "memory_budget"
    word: ClassVar[str] = "memory"
    unit: ClassVar[str] = "bytes"
    label: ClassVar[str] = "memory"


@dataclass(frozen=True)
class DiskBudget(_Budget):
    """Bytes written to the sandbox's own layer."""

    bytes: int
    kind: ClassVar[str] = "disk_budget"
    word: ClassVar[str] = "disk"
    unit: ClassVar[str] = "bytes"
    label: ClassVar[str] = "disk"


@dataclass(frozen=True)
class OutputBudget(_Budget):
    """Bytes that the sandbox prints and posts."""

    bytes: int
    kind: ClassVar[str] = "output_budget"
    word: ClassVar[str] = "output"
    unit: ClassVar[str] = "bytes"
    label: ClassVar[str] = "output"


@dataclass(frozen=True)
class EgressBytesBudget(_Budget):
    """Bytes sent out of the sandbox over the network."""

    bytes: int
    kind: ClassVar[str] = "egress_bytes_budget"
    word: ClassVar[str] = "egress_bytes"
    unit: ClassVar[str] = "bytes"
    label: ClassVar[str] = "egress"


@dataclass(frozen=True)
class PidsBudget(_Budget):
    """Processes and threads alive at once."""

    count: int
    kind: ClassVar[str] = "pids_budget"
    word: ClassVar[str] = "pids"
    unit: ClassVar[str] = "count"
    label: ClassVar[str] = "process"


@dataclass(frozen=True)
class InodeBudget(_Budget):
    """Files and directories made in the sandbox's own layer."""

    count: int
    kind: ClassVar[str] = "inode_budget"
    word: ClassVar[str] = "inodes"
    unit: ClassVar[str] = "count"
    label: ClassVar[str] = "inode"


@dataclass(frozen=True)
class OpenFilesBudget(_Budget):
    """Descriptors open in one process."""

    count: int
    kind: ClassVar[str] = "open_files_budget"
    word: ClassVar[str] = "open_files"
    unit: ClassVar[str] = "count"
    label: ClassVar[str] = "open files"


@dataclass(frozen=True)
class ConnectionsBudget(_Budget):
    """Network connections open at once."""

    count: int
    kind: ClassVar[str] = "connections_budget"
    word: ClassVar[str] = "connections"
    unit: ClassVar[str] = "count"
    label: ClassVar[str] = "connections"


@dataclass(frozen=True)
class ConnectRateBudget(_Budget):
    """New connections to one destination, an address and a port, in a second."""

    per_second: int
    kind: ClassVar[str] = "connect_rate_budget"
    word: ClassVar[str] = "connect_rate"
    unit: ClassVar[str] = "per_second"
    label: ClassVar[str] = "connect rate"


KINDS: Mapping[str, type[Capability]] = {
    each.kind: each
    for each in (
        ReadPath, WritePath, ExecPath, ConnectTCP, ListenTCP, ConnectUnix, ResolveName, Import, Env, Secret,
        Subprocess, Clock, Random, Channel, Syscalls, CpuBudget, MemoryBudget, PidsBudget, WallBudget, DiskBudget,
        InodeBudget, OutputBudget, OpenFilesBudget, ConnectionsBudget, EgressBytesBudget, ConnectRateBudget,
    )
}  # fmt: skip
"""Every capability by the `kind` of its JSON."""


def from_json(value: Mapping[str, Any]) -> Capability:
    """A capability from its tagged JSON; `ValueError` for anything that is none."""
    fields = dict(value)
    kind = fields.pop("kind", None)
    made = KINDS.get(kind) if isinstance(kind, str) else None
    if made is None:
        raise ValueError(f"unknown kind of capability: {kind!r}")
    if "ports" in fields and "port" not in fields:
        fields["port"] = tuple(fields.pop("ports"))
    if "commands" in fields:
        fields["commands"] = tuple(fields["commands"])
    try:
        if made is Import:  # a name of the service's is that one module
            fields["strict"] = not Import(**fields)._is_pattern()
        return made(**fields)
    except TypeError as problem:
        raise ValueError(f"{kind}: {problem}") from None


# ---- Several at once -------------------------------------------------------------------------------


@dataclass(frozen=True)
class AuthoritySet:
    """Capabilities that are granted and capabilities that are denied, as one value."""

    allow: tuple[Capability, ...] = ()
    deny: tuple[Capability, ...] = ()

    @classmethod
    def from_authorities(cls, authorities: Iterable[Capability]) -> AuthoritySet:
        return cls(tuple(dict.fromkeys(authorities)))

    def merge(self, other: AuthoritySet) -> AuthoritySet:
        """Both, each capability once."""
        return AuthoritySet(
            tuple(dict.fromkeys(self.allow + other.allow)), tuple(dict.fromkeys(self.deny + other.deny))
        )

    def to_json(self) -> dict[str, Any]:
        sides = {"allow": self.allow, "deny": self.deny}
        return {"version": 1, **{name: [one.to_json() for one in split(side)] for name, side in sides.items() if side}}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> AuthoritySet:
        if value.get("version") != 1 or set(value) - {"version", "allow", "deny"}:
            raise ValueError("an authority set has version 1, 'allow' and 'deny'")
        return cls(*(tuple(from_json(one) for one in value.get(name, ())) for name in ("allow", "deny")))


def split(capabilities: Iterable[Capability]) -> list[Capability]:
    """The service's capabilities that these stand for, each once."""
    return list(dict.fromkeys(part for each in capabilities for part in each.parts()))


class FilesystemCapability:
    """Reading and writing below some directories."""

    @staticmethod
    def from_paths(*paths: PathLike) -> AuthoritySet:
        return AuthoritySet(tuple(WritePath(path) for path in paths))


class NetworkCapability:
    """Connecting to some addresses."""

    @staticmethod
    def from_destinations(*addresses: str) -> AuthoritySet:
        return AuthoritySet(tuple(ConnectTCP.from_address(address) for address in addresses))


ClockCapability = Clock
RandomCapability = Random
SubprocessCapability = Subprocess

Grants = Union[AuthoritySet, Capability, Iterable["Grants"], Mapping[str, "Grants"], None]
"""What `capabilities=` takes: capabilities, lists and sets of them, or such by name."""


def collect(grants: Grants) -> AuthoritySet:
    """Everything that was handed in, as one set. What is no capability is a `TypeError`, never ignored."""
    if grants is None:
        return AuthoritySet()
    if isinstance(grants, AuthoritySet):
        return grants
    if isinstance(grants, Capability):
        return AuthoritySet((grants,))
    if isinstance(grants, Mapping):
        return collect(list(grants.values()))
    if isinstance(grants, (str, bytes)) or not isinstance(grants, Iterable):
        raise TypeError(f"{grants!r} is no capability")
    total = AuthoritySet()
    for each in grants:
        total = total.merge(collect(each))
    return total
