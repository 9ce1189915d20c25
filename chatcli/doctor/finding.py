"""What a check found: a status, a short value, and what to do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

Status = Literal["ok", "advice", "problem"]


@dataclass(frozen=True)
class Finding:
    """`advice` is a sentence that says what to do, or empty; `data` is for programs."""

    name: str
    status: Status
    value: str
    advice: str = ""
    data: Mapping[str, Any] = field(default_factory=dict)


def ok(name: str, value: str, **data: Any) -> Finding:
    return Finding(name, "ok", value, "", data)


def advice(name: str, value: str, todo: str, **data: Any) -> Finding:
    return Finding(name, "advice", value, todo, data)


def problem(name: str, value: str, todo: str = "", **data: Any) -> Finding:
    return Finding(name, "problem", value, todo, data)
