"""Functions that run in sandboxes: the decorator `@sandbox` and `Pipeline`."""

from __future__ import annotations

import functools
import itertools
import os
import re
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar, Unpack

from ._default import default_supervisor
from ._request import SpawnOptions
from ._shipping import ship
from .blocking import Supervisor
from .policy import PolicyLike

P = ParamSpec("P")
R = TypeVar("R")

_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|s|m|h)?")
_numbers = itertools.count(1)


def seconds(duration: float | str | None) -> float | None:
    """`"30s"`, `"500ms"`, `"2m"`, `"1h"`, or a number of seconds."""
    if duration is None:
        return None
    if isinstance(duration, str):
        match = _DURATION.fullmatch(duration.strip())
        if match is None:
            raise ValueError(f"{duration!r} is no duration: write '30s', '500ms', '2m' or a number of seconds")
        duration = float(match[1]) * _UNITS[match[2] or "s"]
    if isinstance(duration, bool) or not duration > 0:
        raise ValueError("a timeout is more than nothing")
    return float(duration)


def _fresh_name(function: object) -> str:
    plain = re.sub(r"[^A-Za-z0-9_-]", "-", getattr(function, "__name__", str(function)))[:32]
    return f"{plain}-{os.getpid()}-{next(_numbers)}"


def sandbox(
    policy: PolicyLike = None,
    *,
    timeout: float | str | None = None,
    supervisor: Supervisor | None = None,
    **options: Unpack[SpawnOptions],
) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Makes every call of a function run in a sandbox of its own.

    The function is sent by its source, so it stands on its own: it imports what it needs inside of itself, and
    takes the rest as arguments. One that cannot be sent is refused here, where it is written.
    """
    limit = seconds(timeout)

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        ship(function)

        @functools.wraps(function)
        def call(*args: P.args, **kwargs: P.kwargs) -> R:
            made_by = supervisor or default_supervisor()
            with made_by.spawn(_fresh_name(function), policy, **options) as box:
                result: R = box.call(function, *args, timeout=limit, **kwargs)
                return result

        return call

    if callable(policy):
        raise TypeError("write @sandbox() with parentheses")
    return decorate


class Pipeline:
    """Functions in a row, each in a sandbox of its own, each given what the one before it returned."""

    def __init__(self, supervisor: Supervisor | None = None) -> None:
        self._supervisor = supervisor
        self._stages: list[tuple[str | Callable[..., Any], PolicyLike, float | None, SpawnOptions]] = []

    def add_stage(
        self,
        stage: str | Callable[..., Any],
        policy: PolicyLike = None,
        *,
        timeout: float | str | None = None,
        **options: Unpack[SpawnOptions],
    ) -> Pipeline:
        """A function, or `"module.function"`, and what it may do."""
        if callable(stage):
            ship(stage)
        elif "." not in stage:
            raise ValueError(f"a stage is a function, or 'module.function'; not {stage!r}")
        self._stages.append((stage, policy, seconds(timeout), options))
        return self

    def run(self, data: Any) -> Any:
        """What the last stage returns."""
        made_by = self._supervisor or default_supervisor()
        for stage, policy, timeout, options in self._stages:
            with made_by.spawn(_fresh_name(stage), policy, **options) as box:
                data = box.call(stage, data, timeout=timeout)
        return data
