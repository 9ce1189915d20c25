"""Text for terminals: visible control characters, short lines, readable numbers and ages."""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Sequence

# Units of time in seconds, longest first.
UNITS = (("d", 86_400), ("h", 3_600), ("min", 60))
# Control characters except line breaks and tabs become their Unicode pictures. C1 controls, bidirectional
# overrides (which can disguise the content of a line) and surrogates become replacement characters.
CONTROLS = [code for code in range(0x20) if chr(code) not in "\n\t"]
OTHERS = (*range(0x80, 0xA0), *range(0x202A, 0x202F), *range(0x2066, 0x206A), *range(0xD800, 0xE000))
SIGNS = {code: 0x2400 + code for code in CONTROLS} | {0x7F: 0x2421} | dict.fromkeys(OTHERS, 0xFFFD)
UNSEEN = re.compile(f"[{re.escape(''.join(map(chr, SIGNS)))}]")

# Quoted text. An apostrophe within a word is not a quotation mark.
QUOTED = re.compile(r"""(?<!\w)('(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")(?!\w)""")


def clean(text: str) -> str:
    """`text` with a visible sign for every control character.

    Each character is replaced separately, so a truncated escape sequence is harmless too.
    """
    return text if UNSEEN.search(text) is None else text.translate(SIGNS)


def clean_line(text: str) -> str:
    """`clean`, on one line."""
    return " ".join(clean(text).split())


def decodable(text: str) -> str:
    """`text` without lone surrogates, which stand for undecodable bytes of argv or a pipe."""
    return text.encode("utf-8", "replace").decode("utf-8")


def shorten(text: str, width: int) -> str:
    """One clean line of at most `width` characters."""
    line = clean_line(text)
    return line if len(line) <= width else line[: max(width - 1, 0)] + "…"


def without_quoted(text: str) -> str:
    """A sentence without its quotes from a conversation."""
    return QUOTED.sub("…", text)


def count(noun: str, number: int, plural: str = "") -> str:
    """A number with its noun: 1 token, 2,502 tokens. `plural` defaults to the noun and an s."""
    return f"{number:,} {noun if number == 1 else plural or f'{noun}s'}"


def listed(items: Sequence[str], most: int = 5) -> str:
    """The first items, and how many there are beyond `most`: a, b and 317 more."""
    more = len(items) - most
    return ", ".join(items[:most]) + (f" and {more:,} more" if more > 0 else "")


def percent(part: int, whole: int, decimals: int = 0) -> str:
    """`part` of `whole`, truncated: 94 %, 94.4 %. 100 % means all, and 0 % means nothing.

    Near both ends it has one more decimal, so that a small part or rest stays visible: 99.9 %, 0.4 %.
    """
    if not part or part >= whole:
        return "100 %" if part else "0 %"
    if decimals == 0 and not whole <= 100 * part < 99 * whole:
        decimals = 1
    scale = 10**decimals
    units = int(part * 100 * scale // whole)
    if not units:
        return f"<{1 / scale:.{decimals}f} %"
    return f"{units // scale}.{units % scale:0{decimals}d} %" if decimals else f"{units} %"


def file_size(count: int) -> str:
    """Bytes in decimal units: 84 kB, 1.2 MB."""
    value = float(count)
    for unit in ("B", "kB", "MB", "GB"):
        if value < 999.5:
            return f"{value:.0f} {unit}" if value >= 10 or unit == "B" else f"{value:.1f} {unit}"
        value /= 1000
    return f"{value:.1f} TB"


def duration(seconds: float) -> str:
    """A duration in one unit: 3 ms, 210 ms, 1.2 s, 12 s, 3 min."""
    if seconds < 0.9995:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 9.95:
        return f"{seconds:.1f} s"
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"


def age(created: float, now: float | None = None) -> str:
    """The age of `created` (seconds since the epoch) in one unit: 3 h ago."""
    passed = max((time.time() if now is None else now) - created, 0)
    return since(passed, UNITS) or "just now"


def since(passed: float, units: Iterable[tuple[str, int]]) -> str:
    """`passed` seconds ago in the first unit that is not longer; empty if all units are."""
    fitting = (f"{passed // length:.0f} {unit} ago" for unit, length in units if passed >= length)
    return next(fitting, "")
