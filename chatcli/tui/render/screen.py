"""Draws events and results in a terminal through rich: above the prompt, and live beside it.

All text from models, files and people passes through `text.clean`.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path
from typing import TextIO, cast

from rich.console import Console
from rich.text import Text

from chatcli import __version__, files
from chatcli.commands.results import PanelMode, Result
from chatcli.events import Alternatives, Batched, Event, Notice, TurnDone
from chatcli.settings.values import EXAMPLE_MODEL, POCKET
from chatcli.text import clean_line, count
from chatcli.tui.render import alternatives
from chatcli.tui.render.panel import hit_line, hit_panel
from chatcli.tui.render.reply import Reply
from chatcli.tui.render.results import model_label, renderable
from chatcli.tui.saved import question_rows
from chatcli.tui.text.console import ACCENT, DIM, Sentence, open_console


class Screen:
    """Prints the lasting part of the screen, and returns the live part below it.

    `panel` is how a turn's numbers are shown: line, full or off. `gap` prints an empty line after each
    result, before the prompt. `context` returns the model's context length in tokens, None while it is not
    known.
    """

    def __init__(
        self,
        console: Console | None = None,
        panel: str = "full",
        *,
        gap: bool = False,
        context: Callable[[], int | None] = lambda: None,
    ) -> None:
        self.console = console or open_console()
        self.reply = Reply(self.console, context=context)
        self._panel = panel
        self._gap = gap

    @classmethod
    def above_prompt(cls, file: io.TextIOBase, panel: str, context: Callable[[], int | None]) -> Screen:
        """A screen that prints to `file`, above a prompt."""
        console = open_console(cast(TextIO, file), force_terminal=True)
        return cls(console, panel, gap=True, context=context)

    def print(self, text: str, style: str = "") -> None:
        self.console.print(Sentence(text, style), crop=False)

    def error(self, text: str) -> None:
        self.print(text, "red")
        self._print_gap()

    def welcome(
        self, model: str, session: str | None, saved: int, folder: Path, *, private: bool = False
    ) -> None:
        """Print the first lines: version, model, session, what to do next, where conversations are saved."""
        label = model_label(model)
        line = Text.assemble(("chatcli ", f"bold {ACCENT}"), (__version__, DIM), ("  ·  ", DIM), label)
        if session:
            line.append("  ·  ", DIM).append(clean_line(session))
        self.console.print(line)
        hints = ["Type a message and press Enter. /help shows the commands, Ctrl-D leaves."]
        if model == POCKET:
            hints.append("pocket is tiny and built in: it knows what you tell it, small sums and chatcli.")
            hints.append(f"For a real model: chatcli -m {EXAMPLE_MODEL}")
        place = clean_line(files.with_tilde(folder))
        if saved and not session:
            hints.append(f"{count('saved session', saved)} in {place}: /resume continues one.")
        if private:
            hints.append("This conversation is not written to disk. /save keeps it after all.")
        elif not saved:
            hints.append(f"Conversations are saved in {place}")
        self.console.print(Sentence("\n".join(hints), DIM), crop=False)
        self.console.print()

    def message(self, text: str) -> None:
        """Print a message that the person sent."""
        for row in question_rows(text, self.console.width):
            self.console.print(row, soft_wrap=True)

    def event(self, event: Event) -> None:
        """Draw one event of a turn."""
        self.reply.event(event)
        if isinstance(event, TurnDone):
            if self._panel != "off":
                draw = hit_panel if self._panel == "full" else hit_line
                self.console.print(draw(event.record, self.console.width))
            self.console.print()
        elif isinstance(event, Batched):
            self.reply.show_waiting(f"{event} · Esc stops")
        elif isinstance(event, Alternatives):
            self.reply.finish()
            self.console.print(alternatives.renderable(event, self.console.width))
            self.console.print()
        elif isinstance(event, Notice):
            self.print(f"! {event.text}", "yellow")

    def abandon(self) -> None:
        """End a reply that was given up."""
        self.reply.finish()

    def result(self, result: Result) -> None:
        """Print a command's result."""
        if isinstance(result, PanelMode):
            self._panel = result.mode
        self.console.print(renderable(result), crop=False)
        self._print_gap()

    def drawn(self, result: Result, width: int) -> str:
        """A command's result for a full-screen view: text with ANSI styles in rows of `width`."""
        console = open_console(io.StringIO(), force_terminal=True, width=width)
        with console.capture() as captured:
            console.print(renderable(result))
        return captured.get().rstrip("\n")

    def _print_gap(self) -> None:
        if self._gap:
            self.console.print()

    def live(self, height: int) -> str:
        """The last `height` lines of the live part, as text with ANSI styles."""
        if not (lines := self.reply.live(height)):
            return ""
        # A console of its own: another thread may be printing with `self.console` and hold its lock.
        console = open_console(io.StringIO(), force_terminal=True, width=self.console.width)
        with console.capture() as captured:
            for line in lines:
                console.print(line, soft_wrap=True)
        return captured.get().rstrip("\n")

    def goodbye(self, command: str) -> None:
        """Print the command that resumes the session."""
        sentence = Sentence(f"To continue this conversation: {command}", DIM, command_style="")
        self.console.print(sentence, crop=False)
