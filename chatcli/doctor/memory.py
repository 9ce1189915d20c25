"""Checks the memory of the machine."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

from chatcli.doctor import child
from chatcli.doctor.finding import Finding, advice, ok
from chatcli.model import device
from chatcli.text import file_size

# What a small model, its cache and Python take.
LITTLE_BYTES = 2 * 10**9
# Pages that macOS gives to whoever asks.
FREE_PAGES = re.compile(r"Pages (?:free|inactive|speculative|purgeable):\s+(\d+)")


def system() -> Iterator[Finding]:
    """How much there is, and how much of it is available now."""
    total = device.total()
    free = _available()
    if free is None:
        yield ok("memory", file_size(total), total_bytes=total)
        return
    value = f"{file_size(total)}, {file_size(free)} of it available"
    if free < LITTLE_BYTES:
        todo = "Close what you do not need: a model that does not fit is read from the disk again and again."
        yield advice("memory", value, todo, total_bytes=total, available_bytes=free)
    else:
        yield ok("memory", value, total_bytes=total, available_bytes=free)


def _available() -> int | None:
    """In bytes. None: this system does not say."""
    try:
        match = re.search(r"MemAvailable:\s+(\d+) kB", Path("/proc/meminfo").read_text())
    except OSError:
        return _available_pages()
    return 1024 * int(match[1]) if match else None


def _available_pages() -> int | None:
    try:
        pages = FREE_PAGES.findall(child.output(["vm_stat"], 5))
    except child.ChildFailed:
        return None
    return sum(map(int, pages)) * os.sysconf("SC_PAGE_SIZE") if pages else None
