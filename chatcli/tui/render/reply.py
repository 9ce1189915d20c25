"""A reply as it comes: loading, reading, thinking in a small box, then text as Markdown.

Refuses to know the prompt: it prints what is settled, and tells what is to be drawn below it now.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from chatcli.conversation import finish
from chatcli.events import (
    Event,
    Notice,
    PrefillProgress,
    PrefixMatched,
    TextDelta,
    ThinkingDelta,
    ToolCalled,
    TurnDone,
)
from chatcli.text import clean
from chatcli.tui.markdown.stream import MarkdownStream
from chatcli.tui.render.panel import seconds
from chatcli.tui.text.styles import DIM, INDENT
from chatcli.tui.text.wrap import rows, wrap

BOX = "  ┊ "
MARK = "✻"
# Lines of the thinking box, as it is and when it is opened; what is laid out of a long thinking.
BOX_LINES, OPEN_LINES = 4, 40
LAID_OUT = 6000
PROGRESS_AFTER = 0.4
BAR = 20


class Reply:
    """One turn's reply at a time. `live` is drawn often and on another thread than `event`."""

    def __init__(
        self,
        console: Console,
        clock: Callable[[], float] = time.monotonic,
        context: Callable[[], int | None] = lambda: None,
    ) -> None:
        """`context`: the most tokens that the model takes, None while that is not known."""
        self._console = console
        self._clock = clock
        self._context = context
        self.opened = False
        self._reset()

    def _reset(self) -> None:
        self._waiting: Callable[[], str] = str
        self._began = self._phase_began = self._clock()
        self._thinking: str = ""
        self._tokens = 0
        self._progress: PrefillProgress | None = None
        self._markdown: MarkdownStream | None = None
        self._live: Sequence[Text] = ()
        self._active = self._told_cut = False

    @property
    def active(self) -> bool:
        """Whether a reply is coming."""
        return self._active

    def begin(self, waiting: Callable[[], str]) -> None:
        """A message was sent; `waiting` says for what, while nothing else is known."""
        self._reset()
        self._waiting, self._active = waiting, True

    def event(self, event: Event) -> None:
        """Take one event of a turn."""
        if isinstance(event, PrefixMatched):
            self._waiting, self._phase_began = str, self._clock()
        elif isinstance(event, PrefillProgress):
            self._progress = event
        elif isinstance(event, ThinkingDelta):
            self._think(event)
        elif isinstance(event, TextDelta):
            self._text(event.text)
        elif isinstance(event, ToolCalled):
            self._called(event)
        elif isinstance(event, Notice):
            self._told_cut |= finish.told_already(event)
            self._part()
        elif isinstance(event, TurnDone):
            self._ended(event)

    def _ended(self, done: TurnDone) -> None:
        told = None if self._told_cut else finish.note(done, self._context())
        self.finish()
        if told is not None:
            self._print(wrap(Text(told, DIM), self._console.width - len(INDENT) - 1))

    def show_waiting(self, told: str) -> None:
        """Say what is waited for, in place of what was."""
        self._progress, self._waiting = None, lambda: told

    def _think(self, event: ThinkingDelta) -> None:
        if not self._thinking:
            self._phase_began = self._clock()
        self._progress = None
        self._thinking += clean(event.text)
        self._tokens = event.tokens

    def _text(self, text: str) -> None:
        self._progress = None
        if self._markdown is None:
            self._fold_thinking()
            self._markdown = MarkdownStream(self._console, self, INDENT)
        self._markdown.feed(text)

    def _part(self) -> None:
        """What came so far stands above what is printed next."""
        if self._thinking or self._markdown is not None:
            self._fold_thinking()
            if self._markdown is not None:
                self._markdown.finish()
            self._markdown = MarkdownStream(self._console, self, INDENT)

    def _called(self, event: ToolCalled) -> None:
        """A line of its own between what is said before and after it."""
        self._progress = None
        self._part()
        for call in event.calls:
            self._print(wrap(Text(clean(str(call)), DIM), self._console.width - len(INDENT) - 1))

    def _fold_thinking(self) -> None:
        """From a box to one line."""
        if self._thinking:
            thought, self._thinking = self._clock() - self._phase_began, ""
            self._print([thought_line(thought, self._tokens, self._console.width)])

    def finish(self) -> None:
        """The reply is over, or was given up: leave the screen in order."""
        self._fold_thinking()
        if self._markdown is not None:
            self._markdown.finish()
        self._reset()

    # What MarkdownStream draws on

    moves = True

    def put(self, settled: Sequence[Text], live: Sequence[Text]) -> None:
        """Print `settled` for good; `live` is what follows it now."""
        self._live = live
        if settled:
            self._print(settled)

    def _print(self, lines: Iterable[Text]) -> None:
        for line in rows(lines, INDENT, self._console.width):
            self._console.print(line, soft_wrap=True)

    # What is drawn below what is printed

    def live(self, height: int) -> list[Text]:
        """At most `height` lines that change with time."""
        if not self._active:
            return []
        if self._markdown is not None:
            return rows(self._live, INDENT, self._console.width)[-height:]
        if self._thinking:
            return self._box(height)
        if self._progress is not None and self._elapsed() > PROGRESS_AFTER:
            return [self._reading(self._progress)]
        waiting = self._waiting()
        return [Text(f"{INDENT}{MARK} {waiting}", DIM)] if waiting else []

    def _elapsed(self) -> float:
        return self._clock() - self._phase_began

    def _box(self, height: int) -> list[Text]:
        head = fitting(
            f"{INDENT}{MARK} Thinking",
            f"{self._tokens:,} tokens",
            seconds(self._elapsed()),
            "Esc stops",
            f"Ctrl-T {'less' if self.opened else 'more'}",
            width=self._console.width,
        )
        most = min(OPEN_LINES if self.opened else BOX_LINES, height - 1)
        text = Text(self._thinking[-LAID_OUT:].strip("\n"), f"{DIM} italic")
        width = min(self._console.width - len(BOX) - 1, 100)
        lines = [row for line in text.split("\n") for row in wrap(line, width)][-most:]
        return [Text(head, DIM), *(Text(BOX, DIM) + line for line in lines if most > 0)]

    def _reading(self, progress: PrefillProgress) -> Text:
        share = progress.done / max(progress.total, 1)
        full = round(share * BAR)
        speed = progress.done / max(self._elapsed(), 0.001)
        left = (progress.total - progress.done) / max(speed, 0.001)
        head = f"{INDENT}{MARK} reading "
        told = fitting(
            f" {progress.done:,} of {progress.total:,} tokens",
            f"{seconds(left)} left",
            "Esc stops",
            f"{speed:,.0f}/s",
            width=self._console.width - len(head) - BAR,
        )
        return Text.assemble(
            (head, DIM), ("━" * full, "cyan"), ("━" * (BAR - full), "bright_black"), (told, DIM)
        )


def thought_line(duration: float, tokens: int, width: int) -> Text:
    """What is left of a thinking, in one line where the width allows it."""
    told = f"{MARK} Thought for {seconds(duration)}, {tokens:,} tokens"
    return Text(fitting(told, "Ctrl-T shows it", width=width - len(INDENT)), DIM)


def fitting(first: str, *others: str, width: int) -> str:
    """The first part, and as many of the others as leave the last column free."""
    line = first
    for part in others:
        if cell_len(f"{line} · {part}") >= width:
            break
        line += f" · {part}"
    return line
