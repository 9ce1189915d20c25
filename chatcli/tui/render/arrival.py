"""How far a model's download is, on standard error; refuses to know what else is printed."""

from __future__ import annotations

import time
from typing import TextIO

from chatcli.events import Download, Event

# Seconds between two lines where lines cannot be written over.
SELDOM = 10.0
CLEAR = "\r\x1b[K"


class DownloadProgress:
    """One line that changes on a terminal; in a file, a line now and then."""

    def __init__(self, err: TextIO) -> None:
        self._err, self._on_terminal = err, err.isatty()
        self._told = float("-inf")
        self._open = False

    def takes(self, event: Event) -> bool:
        """Whether an event is about the download, which is told; any other ends its line."""
        if isinstance(event, Download):
            self._tell(event)
            return True
        self.end()
        return False

    def _tell(self, download: Download) -> None:
        """Say where it is, if it is time."""
        now = time.monotonic()
        if not download.total or now - self._told < (0.0 if self._on_terminal else SELDOM):
            return
        self._told, self._open = now, self._on_terminal
        begin, end = (CLEAR, "") if self._on_terminal else ("", "\n")
        self._err.write(f"{begin}chatcli: downloading the model: {download}{end}")
        self._err.flush()

    def end(self) -> None:
        """Take the line away: something else is printed now."""
        if self._open:
            self._err.write(CLEAR)
            self._err.flush()
            self._open = False
