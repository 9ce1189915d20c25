"""Events and results as plain text, for a pipe or a file."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from dataclasses import replace
from typing import Literal, TextIO

from chatcli.commands.results import ClipboardText, Result
from chatcli.conversation import finish
from chatcli.events import (
    Alternatives,
    Download,
    Event,
    Notice,
    TextDelta,
    ThinkingDelta,
    ToolCalled,
    TurnDone,
)
from chatcli.text import clean
from chatcli.tui.render import alternatives
from chatcli.tui.render.progress import DownloadProgress
from chatcli.tui.render.results import plain, renderable
from chatcli.tui.terminal import clipboard
from chatcli.tui.text.console import open_console

# Dim text on a terminal.
DIMMED = "\x1b[2m{}\x1b[22m"


class Pipe:
    """Writes replies and results to `out`, thinking and notices to `err`, all without escape sequences.

    On a terminal, results have colours unless `color_system` is None.
    """

    color_system: Literal["auto"] | None = "auto"

    def __init__(
        self,
        out: TextIO | None = None,
        err: TextIO | None = None,
        context: Callable[[], int | None] = lambda: None,
        *,
        dim_thinking: bool = False,
        quiet: bool = False,
    ) -> None:
        """`context` returns the model's context length in tokens, None while it is not known.

        `dim_thinking`: `err` is a terminal, so the thinking is dim. `quiet`: no thinking and no notices.
        """
        self._dim_thinking, self._quiet = dim_thinking, quiet
        self._out, self._err = out or sys.stdout, err or sys.stderr
        self._context = context
        self._cut_reported = False
        # The stream whose last line has no line break yet.
        self._open_line: TextIO | None = None
        self._download = DownloadProgress(self._err)

    def event(self, event: Event) -> None:
        if self._quiet and isinstance(event, Download | ThinkingDelta | Notice):
            return
        if self._download.takes(event):
            return
        if isinstance(event, ThinkingDelta):
            if self._open_line is not self._err:
                self._label("Thinking:")
            self._write(self._err, event.text, DIMMED if self._dim_thinking else "{}")
            self._open_line = self._err
        elif isinstance(event, TextDelta):
            if self._open_line is self._err:
                self.abandon()
                self._label("Answer:")
            self._write(self._out, event.text)
            self._open_line = self._out
        elif isinstance(event, ToolCalled):
            self.abandon()
            self._write(self._out, f"{event}\n")
        elif isinstance(event, Notice):
            self._cut_reported |= finish.reports_cut(event)
            self.abandon()
            self._write(self._err, f"chatcli: {event.text}\n")
        elif isinstance(event, Alternatives):
            self.abandon()
            self._write(self._out, alternatives.lines(event))
        elif isinstance(event, TurnDone):
            self.abandon()
            sentence = None if self._cut_reported else finish.sentence(event.record, self._context())
            self._cut_reported = False
            # A program uses --json for that: on standard error it expects the thinking.
            if sentence is not None and self._err.isatty() and not self._quiet:
                self._write(self._err, f"chatcli: {sentence}\n")

    def _label(self, label: str) -> None:
        """Label thinking and answer, for terminals without colours and for screen readers."""
        if self._err.isatty():
            self._write(self._err, f"{label}\n")

    def abandon(self) -> None:
        """End the line that is being written, whether its turn ended or not."""
        self._download.end()
        if self._open_line is not None:
            self._write(self._open_line, "\n")
            self._open_line = None

    def end_turn(self) -> None:
        self._out.flush()

    def result(self, result: Result) -> None:
        if isinstance(result, ClipboardText):
            result = replace(result, way=clipboard.copy(result.text, os.environ))
        if (text := plain(result)) is not None:
            self._out.write(clean(text))
            return
        console = open_console(self._out, color_system=self.color_system)
        if console.is_terminal:
            console.print(renderable(result), crop=False)
            return
        with console.capture() as drawn:
            console.print(renderable(result), crop=False)
        # A table pads its last column, which is no use to programs.
        self._out.write("\n".join(line.rstrip(" ") for line in drawn.get().split("\n")))

    def _write(self, stream: TextIO, text: str, form: str = "{}") -> None:
        stream.write(form.format(clean(text)))
        stream.flush()
