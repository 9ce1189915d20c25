"""The screen while the prompt is up: printed text that scrolls away, and a live part that is redrawn.

Any thread may print to a `LiveRegion`. Printed lines go above the attached prompt_toolkit application; text
that still changes is drawn between the two. Both are written together, at most every `FRAME_SECONDS`.
"""

from __future__ import annotations

import asyncio
import io
import sys
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import prompt_toolkit.application
from prompt_toolkit.application import Application
from prompt_toolkit.filters import Condition
from prompt_toolkit.formatted_text import ANSI
from prompt_toolkit.layout import ConditionalContainer, FormattedTextControl, Window

from chatcli.tui.reflow import ReflowRenderer

FRAME_SECONDS = 1 / 25


class LiveRegion(io.TextIOBase):
    """A file to print to. A last line without a line break waits for one."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        """`environment` identifies the terminal."""
        self._environment = environment
        self.lock = threading.RLock()
        # Returns the text that still changes, with ANSI styles.
        self.live: Callable[[], str] = str
        self._printed: list[str] = []
        self._app: Application[Any] | None = None
        self._renderer: ReflowRenderer | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._needs_frame = asyncio.Event()
        # How many programs, such as an editor, have the terminal to themselves.
        self.suspended = 0
        # The application's render counter, and the live text at that time.
        self._live_of_frame = -1, ""

    # A file

    def isatty(self) -> bool:
        return sys.stdout.isatty()

    def fileno(self) -> int:
        return sys.stdout.fileno()

    def writable(self) -> bool:
        return True

    def write(self, text: str) -> int:
        with self.lock:
            self._printed.append(text)
        return len(text)

    def flush(self) -> None:
        if self._loop is not None:
            self.invalidate()
            return
        with self.lock:
            text, self._printed = "".join(self._printed), []
        sys.stdout.write(text)
        sys.stdout.flush()

    def invalidate(self) -> None:
        """Draw soon. After the prompt has ended nothing is drawn: `attached` writes the rest."""
        loop = self._loop  # another thread may set it to None
        if loop is None:
            return
        try:
            loop.call_soon_threadsafe(self._needs_frame.set)
        except RuntimeError:
            if not loop.is_closed():
                raise

    # A part of an application

    @property
    def container(self) -> ConditionalContainer:
        """The live part, for the application's layout; no row at all while there is nothing live."""

        def live() -> str:
            """The same text throughout one drawing of the screen."""
            app = self._app
            if app is None or app.is_done:
                return ""
            if self._live_of_frame[0] != app.render_counter:
                with self.lock:
                    self._live_of_frame = app.render_counter, self.live()
            return self._live_of_frame[1]

        window = Window(FormattedTextControl(lambda: ANSI(live())), dont_extend_height=True)
        return ConditionalContainer(window, Condition(lambda: bool(live())))

    @contextmanager
    def attached(self, app: Application[Any]) -> Iterator[Callable[[], None]]:
        """While `app` runs, printing goes above it. Yields a function to call once its event loop runs."""
        self._app = app
        style, output = app.renderer.style, app.output
        app.renderer = self._renderer = ReflowRenderer(style, output, self._environment)

        def start() -> None:
            self._loop = asyncio.get_running_loop()
            self._needs_frame = asyncio.Event()
            self._needs_frame.set()
            app.create_background_task(self._draw_frames())

        try:
            yield start
        finally:
            self._app = self._loop = None
            self.flush()

    async def _draw_frames(self) -> None:
        app, renderer = self._app, self._renderer
        assert app is not None
        assert renderer is not None
        while True:
            await self._needs_frame.wait()
            self._needs_frame.clear()
            if not self.suspended and not app.is_done:
                if renderer.ready():
                    self._draw_frame(app, renderer)
                else:
                    self._needs_frame.set()
            await asyncio.sleep(FRAME_SECONDS)

    def _draw_frame(self, app: Application[Any], renderer: ReflowRenderer) -> None:
        with self.lock:
            # Printed and live text must be from the same moment.
            lines, newline, rest = "".join(self._printed).rpartition("\n")
            self._printed = [rest] if rest else []
            live = self.live()
        if not newline:
            app.invalidate()
            return
        # As `invalidate` would do a moment later: controls cache by this counter.
        app.render_counter += 1
        self._live_of_frame = app.render_counter, live
        renderer.print_above(app, lines + newline)

    @asynccontextmanager
    async def in_terminal(self) -> AsyncIterator[None]:
        """prompt_toolkit's `in_terminal`, during which nothing is drawn and printed text waits."""
        self.suspended += 1
        try:
            async with prompt_toolkit.application.in_terminal():
                yield
        finally:
            self.suspended -= 1
            self.invalidate()
