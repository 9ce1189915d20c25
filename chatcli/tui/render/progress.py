"""A bar of how far a long job is, on standard error; refuses to know the job."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from chatcli.text import clean_line

Told = Callable[[int, int, str], None]
PARTS = 10


@contextmanager
def bar(title: str) -> Iterator[Told]:
    """Tell the result how many of how many parts are done, and the last one's name.

    Where nobody watches it is a line at each tenth.
    """
    if not sys.stderr.isatty():
        yield _lines(title)
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(title, total=None)

        def tell(done: int, total: int, what: str) -> None:
            text = f"{title}  {clean_line(what)}"
            progress.update(task, completed=done, total=total, description=text)

        yield tell


def _lines(title: str) -> Told:
    def tell(done: int, total: int, what: str) -> None:
        if done * PARTS // total > (done - 1) * PARTS // total:
            print(f"{title}: {done} of {total}", file=sys.stderr, flush=True)

    return tell
