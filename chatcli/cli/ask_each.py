"""`chatcli ask --each`: many questions beside each other; refuses to know how they are answered.

What comes out is in the order of the questions, each as soon as those before it are there.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from chatcli import files
from chatcli.cli.options import print_json
from chatcli.cli.process import INTERRUPTED
from chatcli.commands import script
from chatcli.conversation import finish
from chatcli.conversation.images import Image
from chatcli.errors import ChatcliError, EmptyPrompt, UsageError
from chatcli.events import Answered, Event, Notice, Refused
from chatcli.text import clean, decodable
from chatcli.tui.render.progress import DownloadProgress

if TYPE_CHECKING:
    from chatcli.session.live_chat import LiveChat

SEPARATOR = "---"
Each = Annotated[
    str | None,
    typer.Option(
        "--each",
        metavar="FILE",
        help="Answer every line of a file (- is standard input) as a branch of its own, "
        "many at once. The session goes on from where it was.",
    ),
]


def questions(source: str, prompt: str | None) -> list[str]:
    """The lines of a file that say something. Raises `UsageError` or `FolderError`."""
    if prompt is not None:
        raise UsageError("Give a prompt or --each, not both.")
    if source == "-":
        text = sys.stdin.read()
    else:
        with files.explained(f"read {source}"):
            text = Path(source).expanduser().read_bytes().decode("utf-8-sig", "replace")
    found = [decodable(line.strip()) for line in text.split("\n") if line.strip()]
    if not found:
        raise EmptyPrompt("There are no questions: write one on each line.")
    return found


def run(asked: Sequence[str], chat: LiveChat, *, as_json: bool, images: Sequence[Image] = ()) -> None:
    """Ask, print, and end with an exit code if something is missing."""
    shown = InOrder(asked, as_json, chat.model.context_size)
    with script.stop_on_interrupt() as cancelled:
        try:
            for event in chat.each(asked, cancelled, images):
                shown.event(event)
        finally:
            shown.finish()
    if cancelled.is_set():
        raise typer.Exit(INTERRUPTED)
    if shown.refused:
        raise typer.Exit(ChatcliError.exit_code)


class InOrder:
    """Prints each answer once all before it are printed."""

    def __init__(self, asked: Sequence[str], as_json: bool, context: Callable[[], int | None]) -> None:
        """`context`: the most tokens that the model takes, None while it loads."""
        self._context = context
        self.refused = False
        self._asked = asked
        self._as_json = as_json
        self._came: dict[int, Answered | Refused] = {}
        self._next = 1
        self._begun = False
        self._download = DownloadProgress(sys.stderr)

    def event(self, event: Event) -> None:
        if self._download.takes(event):
            return
        if isinstance(event, Notice):
            print(clean(f"chatcli: {event.text}"), file=sys.stderr)
        elif isinstance(event, Answered | Refused):
            self._came[event.number] = event
            while self._next in self._came:
                self._print(self._came.pop(self._next))
                self._next += 1

    def finish(self) -> None:
        """Nothing more comes: print what waited for others."""
        self._download.end()
        for number in sorted(self._came):
            self._print(self._came.pop(number))

    def _print(self, event: Answered | Refused) -> None:
        self.refused |= isinstance(event, Refused)
        asked = {"number": event.number, "question": self._asked[event.number - 1]}
        if self._as_json:
            told = {"error": event.why} if isinstance(event, Refused) else event.record.as_json()
            print_json({**asked, **told})
        else:
            self._print_plain(event)
        sys.stdout.flush()

    def _print_plain(self, event: Answered | Refused) -> None:
        if self._begun:
            print(SEPARATOR)
        self._begun = True
        if isinstance(event, Refused):
            print(clean(f"chatcli: question {event.number}: {event.why}"), file=sys.stderr)
        else:
            print(clean(event.record.text), flush=True)
            told = finish.sentence(event.record, self._context())
            if told and sys.stderr.isatty():
                print(clean(f"chatcli: question {event.number}: {told}"), file=sys.stderr)
