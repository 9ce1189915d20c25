"""The terminal while the prompt is up: prints above it and draws it again in one go.

Knows prompt_toolkit; refuses to know what is printed. Anything may print, from any thread.
"""

from __future__ import annotations

import asyncio
import io
import sys
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from typing import Any

from prompt_toolkit.application import Application
from prompt_toolkit.application import in_terminal as app_in_terminal
from prompt_toolkit.filters import Condition
from prompt_toolkit.formatted_text import ANSI, AnyFormattedText
from prompt_toolkit.layout import ConditionalContainer, FormattedTextControl, Window

from chatcli.tui.reflow import ReflowRenderer

# Seconds between two drawings at least.
FRAME = 1 / 25


class LiveRegion(io.TextIOBase):
    """A file to print to. What it was given last without a line break waits for one."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        """`environment` tells which terminal this is."""
        self._environment = environment
        self.lock = threading.RLock()
        # What is drawn between the printed text and the prompt, as text with ANSI styles.
        self.live: Callable[[], str] = str
        self._waiting: list[str] = []
        self._app: Application[Any] | None = None
        self._renderer: ReflowRenderer | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._changed = asyncio.Event()
        self._held = 0
        self._drawn = -1, ""

    @property
    def container(self) -> ConditionalContainer:
        """The live part, for the application's layout; no row at all while there is nothing live."""
        window = Window(FormattedTextControl(self._live_text), dont_extend_height=True)
        return ConditionalContainer(window, Condition(lambda: bool(self._live_now())))

    def _live_text(self) -> AnyFormattedText:
        return ANSI(self._live_now())

    def _live_now(self) -> str:
        """The same for all who ask while the screen is drawn once."""
        app = self._app
        if app is None or app.is_done:
            return ""
        if self._drawn[0] != app.render_counter:
            with self.lock:
                self._drawn = app.render_counter, self.live()
        return self._drawn[1]

    def isatty(self) -> bool:
        return sys.stdout.isatty()

    def fileno(self) -> int:
        return sys.stdout.fileno()

    def writable(self) -> bool:
        return True

    def write(self, text: str) -> int:
        with self.lock:
            self._waiting.append(text)
        return len(text)

    def flush(self) -> None:
        if self._loop is None:
            self._write_out(self._take(everything=True))
        else:
            self.wake()

    def wake(self) -> None:
        """Draw soon. Once the prompt has ended there is nothing to draw: `attached` writes the rest."""
        loop = self._loop  # another thread may take it away
        if loop is None:
            return
        try:
            loop.call_soon_threadsafe(self._changed.set)
        except RuntimeError:
            if not loop.is_closed():
                raise

    @contextmanager
    def attached(self, app: Application[Any]) -> Iterator[Callable[[], None]]:
        """While `app` runs, printing goes above it. Yields what it is to call when it has begun."""
        self._app = app
        style, output = app.renderer.style, app.output
        app.renderer = self._renderer = ReflowRenderer(style, output, self._environment)
        try:
            yield self._begin
        finally:
            self._app = self._loop = None
            self.flush()

    def _begin(self) -> None:
        assert self._app is not None
        self._loop = asyncio.get_running_loop()
        self._changed = asyncio.Event()
        self._changed.set()
        self._app.create_background_task(self._paint())

    async def _paint(self) -> None:
        while True:
            await self._changed.wait()
            self._changed.clear()
            if not self._held:
                self._draw_if_ready()
            await asyncio.sleep(FRAME)

    def _draw_if_ready(self) -> None:
        app, renderer = self._app, self._renderer
        assert app is not None
        assert renderer is not None
        if app.is_done:
            return
        if renderer.ready():
            self._draw(app, renderer)
        else:
            self._changed.set()

    def _draw(self, app: Application[Any], renderer: ReflowRenderer) -> None:
        with self.lock:
            # What is printed and what is live belong together, as they are at one moment.
            text = self._take(everything=False)
            live = self.live()
        if not text:
            app.invalidate()
            return
        # As `invalidate` would have it done a moment later; controls remember what they drew by it.
        app.render_counter += 1
        self._drawn = app.render_counter, live
        renderer.print_above(app, text)

    def _take(self, *, everything: bool) -> str:
        """What was printed, in whole lines."""
        with self.lock:
            text, self._waiting = "".join(self._waiting), []
            if everything:
                return text
            whole, newline, rest = text.rpartition("\n")
            self._waiting = [rest] if rest else []
            return whole + newline

    def _write_out(self, text: str) -> None:
        sys.stdout.write(text)
        sys.stdout.flush()

    @asynccontextmanager
    async def in_terminal(self) -> AsyncIterator[None]:
        """While this lasts the terminal belongs to something else, and what is printed waits."""
        self._held += 1
        try:
            async with app_in_terminal():
                yield
        finally:
            self._held -= 1
            self.wake()
