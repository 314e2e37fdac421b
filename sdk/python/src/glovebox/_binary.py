"""The `glovebox` program: where it is, and short questions to it."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

from .errors import ServiceNotFound

_CARRIED = Path(__file__).with_name("_bin") / "glovebox"


def find_binary(explicit: str | os.PathLike[str] | None = None) -> str:
    """The program to start services and compile policies with.

    The one that is named; else `$GLOVEBOX`; else the one that this package carries; else one on `PATH`.
    One that was named and is not there is an error, not a reason to take another.
    """
    named = os.fspath(explicit) if explicit is not None else os.environ.get("GLOVEBOX", "")
    if named:
        if os.access(named, os.X_OK) and not os.path.isdir(named):
            return os.path.abspath(named)
        source = "the program that was named" if explicit is not None else "$GLOVEBOX"
        raise ServiceNotFound(f"{source} is {named!r}, which is no program that can be run")
    if os.access(_CARRIED, os.X_OK):
        return str(_CARRIED)
    found = shutil.which("glovebox")
    if found is not None:
        return os.path.abspath(found)
    raise ServiceNotFound(
        "there is no glovebox program: this installation of the package carries none, $GLOVEBOX is not set, "
        "and none is on PATH. Build one ('./dev build') and set GLOVEBOX to it, install the package again "
        "when it is built, or name a running service in GLOVEBOX_HOST"
    )


def ask_binary(words: list[str], document: bytes) -> subprocess.CompletedProcess[str]:
    """Runs `glovebox WORDS` where `@` in them is a file that holds `document`; nothing is left on disk."""
    descriptor = os.memfd_create("policy", os.MFD_CLOEXEC)
    try:
        with os.fdopen(descriptor, "wb", closefd=False) as file:
            file.write(document)
        path = f"/proc/self/fd/{descriptor}"
        return subprocess.run(
            [find_binary(), *(word.replace("@", path) if word.startswith("@") else word for word in words)],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            pass_fds=(descriptor,),
            check=False,
        )
    finally:
        os.close(descriptor)
