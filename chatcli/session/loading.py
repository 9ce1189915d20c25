"""Tells how far a model is on its way into memory, and waits for it; refuses to know what loads it."""

from __future__ import annotations

import concurrent.futures
import threading
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import TypeVar

from chatcli import files
from chatcli.events import Download
from chatcli.text import clean_line

T = TypeVar("T")


class Loading:
    """What `Runtime` is to tell of model `name`; each raises `KeyboardInterrupt` once it is `unwanted`."""

    def __init__(
        self,
        name: str,
        unwanted: threading.Event,
        say: Callable[[str, Download | None], None],
    ) -> None:
        """`say` is given a few words, and the download if it has got no further."""
        self._unwanted, self._say = unwanted, say
        self.begin(name)

    def begin(self, name: str) -> None:
        """It is another model's turn."""
        self._name = short(name)

    def progress(self, done: float) -> None:
        """This much of it is in memory, from 0 to 1."""
        self._go_on(f"loading {self._name}… {done * 100:.0f} %", None)

    def downloading(self, arrived: Download) -> None:
        self._go_on(f"downloading {self._name}… {arrived}", arrived)

    def _go_on(self, activity: str, arrived: Download | None) -> None:
        if self._unwanted.is_set():
            raise KeyboardInterrupt
        self._say(activity, arrived)


def absolute(name: str) -> str:
    """A model folder's whole path, so that its session opens from anywhere; other names stay."""
    folder = files.from_home(name)
    try:
        is_folder = name != "pocket" and folder.is_dir()
    except OSError:
        is_folder = False
    return str(folder.resolve()) if is_folder else name


def short(model: str) -> str:
    """A model's own name, without the folder or the owner that it is in."""
    return clean_line(Path(model).name)


def wait(loading: Future[T], cancelled: threading.Event | None) -> T:
    """What is being loaded, waited for in short steps, so that an interrupt is noticed.

    Raises what loading it does, and `KeyboardInterrupt` if cancelled.
    """
    while cancelled is None or not cancelled.is_set():
        if concurrent.futures.wait([loading], timeout=0.1).done:
            return loading.result()
    raise KeyboardInterrupt
