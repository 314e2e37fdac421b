"""The files of a sandbox, as the code in it sees them."""

from __future__ import annotations

import builtins
import json
from typing import TYPE_CHECKING, Any

from .errors import FileMissing
from .results import FileInfo

if TYPE_CHECKING:
    from ._core import Core

_BOUNDARY = "glovebox-python-boundary"


def _octal(mode: int) -> int:
    """The service takes modes as numbers whose decimal digits are the octal ones."""
    return int(f"{mode:o}")


def _upload(path: str, content: bytes, mode: int | None) -> tuple[bytes, str]:
    metadata: dict[str, Any] = {"path": path} if mode is None else {"path": path, "mode": _octal(mode)}
    boundary = _BOUNDARY
    while boundary.encode() in content:
        boundary += "-"
    parts = []
    for name, body in (("metadata", json.dumps(metadata).encode()), ("file", content)):
        head = f'--{boundary}\r\nContent-Disposition: form-data; name="{name}"; filename="{name}"\r\n\r\n'
        parts += [head.encode(), body, b"\r\n"]
    return b"".join([*parts, f"--{boundary}--\r\n".encode()]), boundary


class Files:
    """Reading and writing in a sandbox. Paths are absolute, or start at its first workspace.

    Everything is done inside by the box's own agent, with the box's own authority: what these functions cannot
    reach, the code in the sandbox cannot reach either.
    """

    def __init__(self, core: Core) -> None:
        self._core = core

    async def _ask(self, method: str, path: str, **more: Any) -> Any:
        return await self._core.http(method, f"/{path}", **more)

    async def read_bytes(self, path: str) -> bytes:
        content: bytes = (await self._ask("GET", "files/download", params={"path": path})).content
        return content

    async def read_text(self, path: str, encoding: str = "utf-8") -> str:
        return (await self.read_bytes(path)).decode(encoding)

    async def write(self, path: str, content: str | bytes, *, mode: int | None = None) -> None:
        """Writes a whole file, and puts it in place when all of it is there. `mode` as for `os.chmod`."""
        raw = content.encode() if isinstance(content, str) else content
        body, boundary = _upload(path, raw, mode)
        headers = {"Content-Type": f"multipart/form-data; boundary={boundary}"}
        await self._ask("POST", "files/upload", content=body, headers=headers)

    async def info(self, path: str) -> FileInfo:
        answer = (await self._ask("GET", "files/info", params={"path": path})).json()
        return FileInfo.from_json(answer[path])

    async def exists(self, path: str) -> bool:
        try:
            await self.info(path)
            return True
        except FileMissing:
            return False

    async def list(self, path: str = ".", depth: int = 1) -> builtins.list[FileInfo]:
        answer = await self._ask("GET", "directories/list", params={"path": path, "depth": depth})
        return [FileInfo.from_json(each) for each in answer.json()]

    async def search(self, path: str = ".", pattern: str = "**") -> builtins.list[FileInfo]:
        answer = await self._ask("GET", "files/search", params={"path": path, "pattern": pattern})
        return [FileInfo.from_json(each) for each in answer.json()]

    async def remove(self, *paths: str) -> None:
        await self._ask("DELETE", "files", params={"path": paths})

    async def move(self, source: str, target: str) -> None:
        await self._ask("POST", "files/mv", json=[{"src": source, "dest": target}])

    async def chmod(self, path: str, mode: int) -> None:
        await self._ask("POST", "files/permissions", json={path: {"mode": _octal(mode)}})

    async def replace(self, path: str, old: str, new: str) -> int:
        """Replaces a text wherever it stands in a file; how often it stood there."""
        answer = (await self._ask("POST", "files/replace", json={path: {"old": old, "new": new}})).json()
        return int(answer[path]["replacedCount"])

    async def make_directory(self, path: str, mode: int = 0o755) -> None:
        await self._ask("POST", "directories", json={path: {"mode": _octal(mode)}})

    async def remove_directory(self, *paths: str) -> None:
        """With everything in it."""
        await self._ask("DELETE", "directories", params={"path": paths})
