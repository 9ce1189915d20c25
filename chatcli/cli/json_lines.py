"""A conversation for a program: one JSON object a turn."""

from __future__ import annotations

import sys

from chatcli.cli.output import print_json, warn
from chatcli.commands.results import PlainText, Result
from chatcli.events import Alternatives, Download, Event, Notice, Settled, TurnDone, TurnRecord
from chatcli.tui.render.progress import DownloadProgress


class JsonLines:
    """Prints what happens in a conversation: a turn's record when it ends, notices to standard error."""

    def __init__(self, *, quiet: bool = False) -> None:
        self._quiet = quiet
        self._record: TurnRecord | None = None
        self._download = DownloadProgress(sys.stderr)

    def event(self, event: Event) -> None:
        if self._quiet and isinstance(event, Download | Notice):
            return
        if self._download.takes(event):
            return
        if isinstance(event, TurnDone):
            self._record = event.record
        elif isinstance(event, Alternatives):
            self._record = None
            print_json({"alternatives": [record.as_json() for record in event.records]})
        elif isinstance(event, Settled) and self._record is not None:
            self._record.add(event)
        elif isinstance(event, Notice):
            warn(event.text)

    def abandon(self) -> None:
        """A turn ended without a reply: nothing of it was printed."""
        self._download.end()

    def end_turn(self) -> None:
        if self._record is not None:
            print_json(self._record.as_json())

    def result(self, result: Result) -> None:
        if isinstance(result, PlainText):
            print_json({"said": result.text})
