"""Progress of downloads and long jobs, on standard error."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import TextIO

from chatcli.events import Download, Event
from chatcli.text import clean_line

# Seconds between two lines if the previous one cannot be overwritten.
LOG_SECONDS = 10.0
ERASE_LINE = "\r\x1b[K"
# How many lines a job logs without a terminal.
LOG_STEPS = 10
# Fewer bytes are written and read at once.
MIN_BAR_BYTES = 200_000_000

# (parts done, parts in all, name of the last part)
ProgressCallback = Callable[[int, int, str], None]


class DownloadProgress:
    """Shows a model's download: a line that changes on a terminal, else a line now and then."""

    def __init__(self, err: TextIO) -> None:
        self._err, self._is_terminal = err, err.isatty()
        self._last_drawn = float("-inf")
        self._line_open = False

    def takes(self, event: Event) -> bool:
        """Draw `event` if it is about the download, and return whether it is. Other events end the line."""
        if not isinstance(event, Download):
            self.end()
            return False
        now = time.monotonic()
        if event.total and now - self._last_drawn >= (0.0 if self._is_terminal else LOG_SECONDS):
            self._last_drawn, self._line_open = now, self._is_terminal
            start, end = (ERASE_LINE, "") if self._is_terminal else ("", "\n")
            self._err.write(f"{start}chatcli: downloading the model: {event}{end}")
            self._err.flush()
        return True

    def end(self) -> None:
        """Erase the line, before something else is printed."""
        if self._line_open:
            self._err.write(ERASE_LINE)
            self._err.flush()
            self._line_open = False


@contextmanager
def bar(title: str) -> Iterator[ProgressCallback]:
    """Yield a function that updates a progress bar; without a terminal it logs each tenth."""
    # Only here: every command imports this module, and rich takes a while.
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    from chatcli.tui.text.console import open_console

    def log(done: int, total: int, part: str) -> None:
        if done * LOG_STEPS // total > (done - 1) * LOG_STEPS // total:
            print(f"{title}: {done} of {total}", file=sys.stderr, flush=True)

    if not sys.stderr.isatty():
        yield log
        return
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=open_console(stderr=True), transient=True) as progress:
        task = progress.add_task(title, total=None)

        def update(done: int, total: int, part: str) -> None:
            text = f"{title}  {clean_line(part)}"
            progress.update(task, completed=done, total=total, description=text)

        yield update


@contextmanager
def bytes_bar(title: str) -> Iterator[Callable[[int, int], None]]:
    """`bar` of bytes, updated at each percent; none for few bytes, which take no time."""
    with ExitStack() as held:
        update: ProgressCallback | None = None
        drawn = 0

        def report(done: int, total: int) -> None:
            nonlocal update, drawn
            if total < MIN_BAR_BYTES or done * 100 // total == drawn:
                return
            update, drawn = update or held.enter_context(bar(title)), done * 100 // total
            update(drawn, 100, "")

        yield report
