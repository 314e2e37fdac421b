"""The techniques that a sandbox can be made with. The caller names one, and it is never exchanged for another."""

from __future__ import annotations

from typing import Literal, get_args

BackendMode = Literal["process", "cell", "microvm"]

SUPPORTED_BACKENDS: tuple[BackendMode, ...] = get_args(BackendMode)
"""Every name that `backend=` knows."""

IMPLEMENTED_BACKENDS: tuple[BackendMode, ...] = ("process", "cell")
"""Those that this version can make, on a host that has what they need."""

DEFAULT_BACKEND: BackendMode = "process"
"""A box of its own for each sandbox: the one that is a boundary against hostile code."""


def check_backend(name: object) -> BackendMode:
    """The name itself; `ValueError` for an unknown one."""
    for known in SUPPORTED_BACKENDS:
        if name == known:
            return known
    raise ValueError(f"backend must be one of: {', '.join(SUPPORTED_BACKENDS)}; not {name!r}")
