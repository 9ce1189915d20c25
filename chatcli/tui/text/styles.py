"""Styles and margins that every printed line shares."""

from __future__ import annotations

ACCENT = "cyan"
DIM = "dim"
# Before a reply's rows and a turn's numbers: as wide as the prompt's sign.
INDENT = "  "
