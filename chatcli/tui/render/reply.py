"""Draws a reply while it comes: loading, reading the prompt, thinking in a small box, then text as Markdown.

Final rows are printed; `live` returns the rows that still change, to be drawn below them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from rich.console import Console
from rich.text import Text

from chatcli.conversation import finish
from chatcli.events import (
    Event,
    Notice,
    PrefillProgress,
    PrefixMatched,
    ReplyContinued,
    TextDelta,
    ThinkingDelta,
    ToolCalled,
    TurnDone,
)
from chatcli.text import clean, count, duration
from chatcli.tui.render.panel import bar, fitting
from chatcli.tui.text.console import DIM, INDENT
from chatcli.tui.text.wrap import rows, wrap

if TYPE_CHECKING:
    from chatcli.tui.markdown.stream import MarkdownStream

BOX = "  ┊ "
MARK = "✻"
# Lines of the thinking box, closed and opened.
BOX_LINES, OPEN_BOX_LINES = 4, 40
BOX_COLUMNS = 100
# Only the end of a longer thinking is laid out for the box.
MAX_BOX_CHARS = 6000
# Seconds of prefilling after which its progress is shown.
PROGRESS_DELAY = 0.4
PROGRESS_BAR = 20


class Reply:
    """One turn's reply at a time. `live` is called often, on another thread than `event`."""

    def __init__(
        self,
        console: Console,
        clock: Callable[[], float] = time.monotonic,
        context: Callable[[], int | None] = lambda: None,
    ) -> None:
        """`context` returns the model's context length in tokens, None while it is not known."""
        self._console = console
        self._clock = clock
        self._context = context
        # Whether the thinking box is opened.
        self.opened = False
        self._reset()

    def _reset(self) -> None:
        self.active = False
        self._activity: Callable[[], str] = str
        self._phase_began = self._clock()
        self._progress: PrefillProgress | None = None
        self._thinking = ""
        self._thinking_tokens, self._thinking_seconds = 0, 0.0
        self._markdown: MarkdownStream | None = None
        self._live_text: Sequence[Text] = ()
        self._cut_reported = False
        # The earlier text of a reply that /continue finishes.
        self._before = ""

    def begin(self, activity: Callable[[], str]) -> None:
        """A message was sent. Until the first event, `activity` returns what to show."""
        self._reset()
        self._activity, self.active = activity, True

    def event(self, event: Event) -> None:
        """Take one event of a turn."""
        if isinstance(event, PrefixMatched):
            self._activity, self._phase_began = str, self._clock()
            # The first chunk, or the tokens of a reply that /continue finishes, may take seconds.
            self._progress = PrefillProgress(
                0, event.prompt_tokens - event.reused_tokens - event.typeahead_tokens
            )
        elif isinstance(event, PrefillProgress):
            self._progress = event
        elif isinstance(event, ThinkingDelta):
            if not self._thinking:
                self._phase_began = self._clock()
            self._progress = None
            self._thinking += clean(event.text)
            self._thinking_tokens, self._thinking_seconds = event.tokens, event.seconds
        elif isinstance(event, TextDelta):
            self._progress = None
            if self._markdown is None:
                self._fold_thinking()
                self._markdown = self._new_markdown(self._before)
            self._markdown.feed(event.text)
        elif isinstance(event, ReplyContinued):
            self._before = event.text
        elif isinstance(event, ToolCalled):
            self._progress = None
            self._settle_text()
            for call in event.calls:
                self._print_note(clean(str(call)))
        elif isinstance(event, Notice):
            self._cut_reported |= finish.reports_cut(event)
            self._settle_text()
        elif isinstance(event, TurnDone):
            note = None if self._cut_reported else finish.note(event, self._context())
            self.finish()
            if note is not None:
                self._print_note(note)

    def show_waiting(self, text: str) -> None:
        """Show `text` while the reply is waited for."""
        self._progress, self._activity = None, lambda: text

    def finish(self) -> None:
        """The reply has ended or was given up: print the rest of it."""
        self._fold_thinking()
        if self._markdown is not None:
            self._markdown.finish()
        self._reset()

    def _settle_text(self) -> None:
        """Print the text so far, because something else is printed next."""
        if self._thinking or self._markdown is not None:
            self._fold_thinking()
            if self._markdown is not None:
                self._markdown.finish()
            self._markdown = self._new_markdown()

    def prepare(self) -> None:
        """Import what draws a reply, before there is one."""
        import chatcli.tui.markdown.stream  # noqa: F401

    def _new_markdown(self, before: str = "") -> MarkdownStream:
        from chatcli.tui.markdown.stream import MarkdownStream

        return MarkdownStream(self._console, self, INDENT, before=before)

    def _fold_thinking(self) -> None:
        """Print one line in place of the thinking box."""
        if self._thinking:
            self._thinking = ""
            thought = finish.thought(self._thinking_tokens, self._thinking_seconds)
            width = self._console.width - len(INDENT)
            self._print([Text(fitting([f"{MARK} {thought}", "Ctrl-T shows it"], width - 1), DIM)], INDENT)

    def _print_note(self, text: str) -> None:
        self._print(wrap(Text(text, DIM), self._console.width - len(INDENT) - 1), INDENT)

    def _print(self, lines: Iterable[Text], indent: str = "") -> None:
        for line in rows(lines, indent, self._console.width):
            self._console.print(line, soft_wrap=True)

    def put(self, settled: Sequence[Text], live: Sequence[Text]) -> None:
        """Called by `MarkdownStream`: print `settled` for good; `live` is what follows it now."""
        self._live_text = live
        if settled:
            self._print(settled)

    def live(self, height: int) -> list[Text]:
        """At most `height` lines that change with time."""
        if not self.active:
            return []
        if self._markdown is not None:
            return rows(self._live_text, "", self._console.width)[-height:]
        if self._thinking:
            return self._thinking_box(height)
        if self._progress is not None and self._clock() - self._phase_began > PROGRESS_DELAY:
            return [self._prefill_progress(self._progress)]
        activity = self._activity()
        return [Text(f"{INDENT}{MARK} {activity}", DIM)] if activity else []

    def _thinking_box(self, height: int) -> list[Text]:
        parts = [f"{INDENT}{MARK} Thinking", count("token", self._thinking_tokens)]
        parts += [duration(self._clock() - self._phase_began), "Esc stops"]
        parts.append(f"Ctrl-T {'less' if self.opened else 'more'}")
        head = fitting(parts, self._console.width - 1)
        max_lines = min(OPEN_BOX_LINES if self.opened else BOX_LINES, height - 1)
        if max_lines <= 0:
            return [Text(head, DIM)]
        text = Text(self._thinking[-MAX_BOX_CHARS:].strip("\n"), f"{DIM} italic")
        width = min(self._console.width - len(BOX) - 1, BOX_COLUMNS)
        lines = [row for line in text.split("\n") for row in wrap(line, width)]
        return [Text(head, DIM), *(Text(BOX, DIM) + line for line in lines[-max_lines:])]

    def _prefill_progress(self, progress: PrefillProgress) -> Text:
        seconds = self._clock() - self._phase_began
        head = f"{INDENT}{MARK} reading "
        parts = [f" {progress.done:,} of {count('token', progress.total)}"]
        if progress.done:
            speed = progress.done / max(seconds, 0.001)
            left = (progress.total - progress.done) / speed
            parts += [f"{duration(left)} left", "Esc stops", f"{speed:,.0f}/s"]
        else:
            parts += [duration(seconds), "Esc stops"]
        numbers = fitting(parts, self._console.width - len(head) - PROGRESS_BAR - 1)
        read = bar([progress.done, 0, progress.total - progress.done], PROGRESS_BAR)
        return Text.assemble((head, DIM), read, (numbers, DIM))
