"""Policies: documents that say what a sandbox may do.

This package does not read policies itself. Whatever a document means is said by the compiler in the `glovebox`
program and in the service, which are the same; this file puts documents together and carries them there.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Union

from ._binary import ask_binary
from .capabilities import (
    Capability,
    ConnectTCP,
    ConnectUnix,
    CpuBudget,
    ExecPath,
    Grants,
    Import,
    MemoryBudget,
    PathLike,
    ReadPath,
    WritePath,
    collect,
    split,
)
from .errors import PolicyCompilerError

_FILE_ENDINGS = (".yaml", ".yml", ".json")

PolicyLike = Union["Policy", Mapping[str, Any], str, None]
"""What `policy=` takes: a `Policy`, a document, the name of a policy that the service knows, or `FILE[#SANDBOX]`."""


@dataclass(frozen=True)
class CompiledPolicy:
    """What a document comes to: its normal form, and the digest of that."""

    document: Mapping[str, Any]
    digest: str
    text: str


class Policy:
    """A policy that is being put together. Every function that adds to it returns it.

    >>> policy = Policy().allow_read("/srv/data").allow_tcp("db.example.com:5432").cpu_budget(500)
    """

    def __init__(self, *, mem: int | str | None = None, capabilities: Grants = None, description: str = "") -> None:
        self._document: dict[str, Any] = {"version": 1}
        self._rules: list[str] = []
        if description:
            self._document["description"] = description
        if mem is not None:
            self._document["memory"] = mem
        self.grant(capabilities)

    # ---- Putting together --------------------------------------------------------------------------

    def grant(self, *grants: Grants) -> Policy:
        """Allows what is handed in: capabilities, lists and sets of them."""
        for authority in map(collect, grants):
            self._add("allow", authority.allow)
            self._add("deny", authority.deny)
        return self

    def deny(self, *grants: Grants) -> Policy:
        """Forbids it, whatever else is granted here or handed in beside the policy."""
        for authority in map(collect, grants):
            self._add("deny", authority.allow)
        return self

    def deny_fs(self, path: PathLike) -> Policy:
        """Puts a path out of reach in every way: reading, writing, executing, connecting to a socket there."""
        return self.deny([ReadPath(path), WritePath(path), ExecPath(path), ConnectUnix(path)])

    def _add(self, effect: str, capabilities: tuple[Capability, ...]) -> None:
        for each in split(capabilities):
            line = f"{effect} {each.to_term()}"
            if line not in self._rules:
                self._rules.append(line)

    def allow_read(self, path: PathLike) -> Policy:
        return self.grant(ReadPath(path))

    def allow_write(self, path: PathLike) -> Policy:
        """Writing, and reading with it."""
        return self.grant(WritePath(path))

    def allow_fs(self, path: PathLike) -> Policy:
        """The same as `allow_write`."""
        return self.grant(WritePath(path))

    def allow_exec(self, path: PathLike) -> Policy:
        return self.grant(ExecPath(path))

    def allow_tcp(self, address: str) -> Policy:
        return self.grant(ConnectTCP.from_address(address))

    def allow_import(self, module: str) -> Policy:
        return self.grant(Import(module))

    def cpu_budget(self, ms: int) -> Policy:
        return self.grant(CpuBudget(ms))

    def memory_budget(self, bytes: int) -> Policy:
        return self.grant(MemoryBudget(bytes))

    # ---- Documents -----------------------------------------------------------------------------------

    def to_dict(self) -> dict[str, Any]:
        """The document, not compiled."""
        rules = [*self._document.get("rules", []), *self._rules]
        return {**self._document, **({"rules": rules} if rules else {})}

    def to_yaml(self, name: str | None = None) -> str:
        """What the policy comes to, as the compiler writes it; with a name, as the sandbox of that name."""
        text = _ask(["policy", "show", "@", "--format", "yaml"], self.to_dict())
        if name is None:
            return text
        indented = "".join(f"    {line}\n" for line in text.splitlines() if not line.startswith("version:"))
        return f"version: 1\nsandboxes:\n  {json.dumps(name)}:\n{indented or '    {}'}"

    @classmethod
    def from_yaml(cls, text: str | bytes, sandbox: str | None = None) -> Policy:
        """The policy of a document in YAML or JSON; of several sandboxes in it, the named one."""
        raw = text.encode() if isinstance(text, str) else text
        found = cls()
        found._document = json.loads(_ask(["policy", "show", _at(sandbox), "--format", "json"], raw))
        return found

    @classmethod
    def from_file(cls, path: PathLike, sandbox: str | None = None) -> Policy:
        return cls.from_yaml(Path(path).read_bytes(), sandbox)

    @classmethod
    def named(cls, name: str) -> Policy:
        """A copy of a template that comes with the program, such as `python`."""
        found = cls()
        found._document = json.loads(_ask(["policy", "show", name, "--format", "json"], b""))
        return found

    def compile(self) -> CompiledPolicy:
        """The normal form and the digest. Raises `PolicyCompilerError` with everything that is wrong."""
        normal = _ask(["policy", "show", "@", "--format", "json"], self.to_dict())
        text = _ask(["policy", "show", "@"], self.to_dict())
        rules, _, digest = text.rstrip("\n").rpartition("digest ")
        return CompiledPolicy(json.loads(normal), digest, rules)

    def allows(self, capability: Capability) -> bool:
        """Whether this policy allows it. What every box sees anyway, such as `/usr`, is no grant."""
        return all(map(self._allows, capability.parts()))

    def _allows(self, capability: Capability) -> bool:
        words = ["policy", "explain", "@", "--ask", capability.to_term()]
        done = ask_binary(words, _bytes(self.to_dict()))
        if done.returncode not in (0, 1) or not done.stdout:
            raise PolicyCompilerError(_problems(done.stderr))
        return done.returncode == 0

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Policy) and self.to_dict() == other.to_dict()

    __hash__ = None  # type: ignore[assignment]  # it changes

    def __repr__(self) -> str:
        return f"Policy({json.dumps(self.to_dict())})"


def _at(sandbox: str | None) -> str:
    return "@" if sandbox is None else f"@#{sandbox}"


def _bytes(document: Mapping[str, Any] | bytes) -> bytes:
    return document if isinstance(document, bytes) else json.dumps(_plain(document), ensure_ascii=False).encode()


def _plain(value: Any) -> Any:
    """A document whose whole numbers are written as such: `1e9` is a number of bytes too, and `1.0` a version."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, Mapping):
        return {key: _plain(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(each) for each in value]
    return value


def _ask(words: list[str], document: Mapping[str, Any] | bytes) -> str:
    done = ask_binary(words, _bytes(document))
    if done.returncode != 0:
        raise PolicyCompilerError(_problems(done.stderr))
    return done.stdout


def _problems(said: str) -> str:
    """The compiler's lines, with the document called what it is instead of a descriptor's path."""
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    return "\n".join("policy" + line[line.find(":") :] if line.startswith("/proc/self/fd/") else line for line in lines)


def policy_choice(policy: PolicyLike) -> Any:
    """What stands under `policy` in a request for a session; None when there is no policy."""
    if policy is None:
        return None
    if isinstance(policy, Policy):
        return {"document": _plain(policy.to_dict())}
    if isinstance(policy, Mapping):
        return {"document": _plain(policy)}
    if not isinstance(policy, str) or not policy:
        raise TypeError("policy is a Policy, a document, the name of a policy, or FILE[#SANDBOX]")
    file, _, sandbox = policy.partition("#")
    if "/" not in file and not file.endswith(_FILE_ENDINGS):
        return {"name": file, "sandbox": sandbox} if sandbox else file
    try:
        text = Path(file).read_text(encoding="utf-8")
    except OSError as problem:
        raise PolicyCompilerError(f"{file}: {os.strerror(problem.errno or 0)}") from None
    return {"document": text, "sandbox": sandbox} if sandbox else {"document": text}
