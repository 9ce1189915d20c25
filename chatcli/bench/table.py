"""A table of a measurement: rows of text, and what there is to say of it; refuses to know its looks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Table:
    """`notes` come below: what was compared, and where a target is missed."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    notes: Sequence[str] = ()
