"""What a sandbox answers with."""

from __future__ import annotations

import codecs
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from .errors import Cancelled, SandboxError


@dataclass(frozen=True, slots=True)
class RunResult:
    """How a command ended, and what it printed."""

    exit_code: int
    stdout: str
    stderr: str
    timed_out: bool = False
    cancelled: bool = False

    @property
    def ok(self) -> bool:
        return self.exit_code == 0

    def check(self) -> RunResult:
        """Itself; raises when the command did not succeed."""
        if self.ok and not self.cancelled:
            return self
        if self.cancelled:
            raise Cancelled("the command was cancelled")
        how = "was out of time" if self.timed_out else f"ended with {self.exit_code}"
        raise SandboxError(f"the command {how}: {self.stderr.strip() or self.stdout.strip()}")


@dataclass(frozen=True, slots=True)
class FileInfo:
    """A file as the code in the sandbox sees it. `mode` is a number as `os.stat` has it."""

    path: str
    type: str
    size: int
    mode: int
    owner: str
    group: str
    modified_at: str

    @classmethod
    def from_json(cls, fields: Mapping[str, Any]) -> FileInfo:
        return cls(
            str(fields["path"]),
            str(fields.get("type", "file")),
            int(fields["size"]),
            int(str(fields["mode"]), 8),  # its decimal digits are octal ones
            str(fields["owner"]),
            str(fields["group"]),
            str(fields["modified_at"]),
        )


@dataclass(frozen=True, slots=True)
class Change:
    """One path that the sandbox changed: `kind` is `added`, `modified`, `deleted`, `renamed` or `refused`."""

    path: str
    kind: str
    renamed_from: str | None = None

    @classmethod
    def from_json(cls, fields: Mapping[str, Any]) -> Change:
        return cls(str(fields["path"]), str(fields["kind"]), fields.get("from"))


@dataclass(frozen=True, slots=True)
class Commit:
    """What was taken over. `held` and `conflicts` are empty unless it was a dry run."""

    number: int
    applied: tuple[Change, ...]
    held: tuple[Mapping[str, Any], ...] = ()
    conflicts: tuple[Mapping[str, Any], ...] = ()

    @classmethod
    def from_json(cls, fields: Mapping[str, Any]) -> Commit:
        return cls(
            int(fields["commit"]),
            tuple(map(Change.from_json, fields["applied"])),
            tuple(fields.get("held", ())),
            tuple(fields.get("conflicts", ())),
        )


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What a sandbox is, as plain data. It holds names of secrets and no values of them."""

    name: str
    backend: str
    session: Mapping[str, Any]


class RunReader:
    """Puts the events of a run together. Fed with the pieces of an answer, in whatever sizes they come."""

    def __init__(self) -> None:
        self._decode = codecs.getincrementaldecoder("utf-8")("replace").decode
        self._rest = ""
        self._parts: dict[str, list[str]] = {"stdout": [], "stderr": []}
        self._end: dict[str, Any] | None = None

    def feed(self, piece: bytes) -> list[tuple[str, str]]:
        """What was printed in this piece: (stream, text)."""
        *events, self._rest = (self._rest + self._decode(piece)).split("\n\n")
        printed = []
        for event in events:
            data = "".join(line[5:] for line in event.split("\n") if line.startswith("data:"))
            fields = json.loads(data) if data else {}
            kind = fields.get("type")
            if kind in self._parts:
                self._parts[kind].append(fields["text"])
                printed.append((kind, fields["text"]))
            elif kind in ("error", "execution_complete"):
                self._end = fields
        return printed

    def result(self) -> RunResult:
        stdout, stderr = ("".join(self._parts[name]) for name in ("stdout", "stderr"))
        if self._end is None:
            raise SandboxError("the run's answer broke off: the session or the service ended")
        if self._end["type"] == "execution_complete":
            return RunResult(0, stdout, stderr)
        error = self._end.get("error") or {}
        value = str(error.get("evalue", ""))
        if error.get("ename") == "ExitError":
            return RunResult(int(value), stdout, stderr)
        if value == "context deadline exceeded":
            return RunResult(124, stdout, stderr, timed_out=True)
        raise SandboxError(value or "the command could not be run")
