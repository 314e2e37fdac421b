"""What a sandbox tells about itself: denials, log lines, metrics, output, statistics."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any


def _text(fields: Mapping[str, Any], name: str, otherwise: str = "") -> str:
    value = fields.get(name, otherwise)
    return value if isinstance(value, str) else otherwise


def _number(fields: Mapping[str, Any], name: str) -> float:
    value = fields.get(name, 0)
    return value if isinstance(value, (int, float)) and not isinstance(value, bool) else 0


def _time(value: object) -> str:
    """RFC 3339 in UTC, also of seconds since 1970."""
    try:
        moment = datetime.datetime.fromtimestamp(float(str(value)), datetime.UTC)
    except (ValueError, OverflowError, OSError):
        return value if isinstance(value, str) else ""
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


@dataclass(frozen=True, slots=True)
class DenialEvent:
    """Something that a sandbox tried and was refused.

    `cell` is the sandbox's name, `capability` what it would have needed, `attempted_action` what it tried,
    `policy_rule` the rule that decided, `decision` the word `deny`.
    """

    cell: str
    capability: str
    attempted_action: str
    policy_rule: str
    decision: str = "deny"
    time: str = ""

    @classmethod
    def from_message(cls, fields: Mapping[str, Any], cell: str) -> DenialEvent:
        """From an event of the service. The name is the one this side knows, not the one in the event."""
        return cls(
            cell,
            _text(fields, "capability"),
            _text(fields, "attempted_action") or _text(fields, "detail"),
            _text(fields, "policy_rule"),
            _text(fields, "decision", "deny"),
            _time(fields.get("time") or fields.get("at")),
        )

    def to_dict(self) -> dict[str, str]:
        return asdict(self)


@dataclass(frozen=True, slots=True)
class LogEvent:
    """A line that the guest logged with `log(level, message)`."""

    level: str
    message: str


@dataclass(frozen=True, slots=True)
class MetricEvent:
    """A number that the guest reported with `metric(name, value)`."""

    name: str
    value: float
    labels: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Stats:
    """What a sandbox has used.

    `cpu_ms` and `memory_bytes` are those of its interpreter; of a box without Python the kernel's, and 0 where it
    gives none. `output_bytes` is everything that it sent out. `operations`, `errors` and `denials` are counted
    here; `latency` are the last operations' times in milliseconds, from sending to the answer.
    """

    cpu_ms: float = 0
    memory_bytes: int = 0
    operations: int = 0
    errors: int = 0
    denials: int = 0
    output_bytes: int = 0
    latency: tuple[float, ...] = ()
    more: Mapping[str, Any] = field(default_factory=dict)

    @property
    def mem_bytes(self) -> int:
        """`memory_bytes` by its other name."""
        return self.memory_bytes

    @property
    def latency_ms(self) -> float:
        """The middle one of the last operations' times; 0 when there was none."""
        ordered = sorted(self.latency)
        return ordered[len(ordered) // 2] if ordered else 0.0


def log_event(fields: Mapping[str, Any]) -> LogEvent:
    return LogEvent(_text(fields, "level", "info"), _text(fields, "message"))


def metric_event(fields: Mapping[str, Any]) -> MetricEvent:
    labels = fields.get("labels")
    names = labels.items() if isinstance(labels, dict) else ()
    return MetricEvent(
        _text(fields, "name"), _number(fields, "value"), {str(name): str(value) for name, value in names}
    )
