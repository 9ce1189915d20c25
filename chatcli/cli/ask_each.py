"""`chatcli ask --each`: many questions at once, each answered as a branch of its own.

Answers are printed in the order of the questions, each as soon as those before it are there.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from chatcli import files
from chatcli.cli.output import print_json, warn
from chatcli.cli.process import INTERRUPTED, piped_text
from chatcli.conversation import finish
from chatcli.conversation.images import Image
from chatcli.errors import ChatcliError, EmptyPrompt, FolderError, UsageError
from chatcli.events import Answered, Download, Event, Notice, Refused
from chatcli.text import clean, decodable
from chatcli.tui.render.progress import DownloadProgress

if TYPE_CHECKING:
    from chatcli.session.live_chat import LiveChat
    from chatcli.store.sessions.log import SessionLog

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


def read_questions(source: str, prompt: str) -> list[str]:
    """The lines of a file that are not blank. Raises `UsageError` or `FolderError`."""
    if prompt:
        raise UsageError("Give a prompt or --each, not both.")
    if source == "-":
        text = piped_text()
    else:
        with files.explained(f"read {source}"):
            data = files.read_named(files.from_home(source), files.MAX_PROMPT_BYTES)
        text = data.decode("utf-8-sig", "replace")
    questions = [decodable(line.strip()) for line in text.split("\n") if line.strip()]
    if not questions:
        raise EmptyPrompt("There are no questions: write one on each line.")
    return questions


def show_an_answer(session: SessionLog) -> None:
    """Have a session that nobody named go on from the first answer, so that it does not look empty."""
    answers = answers_in(session)
    if session.conversation.head is None and answers:
        with contextlib.suppress(FolderError):
            session.move_head(answers[0])


def answers_in(session: SessionLog) -> list[str]:
    entries = session.conversation.entries.values()
    return [entry.id for entry in entries if entry.message.role == "assistant"]


def run(
    questions: Sequence[str],
    chat: LiveChat,
    *,
    as_json: bool,
    images: Sequence[Image] = (),
    quiet: bool = False,
) -> None:
    """Answer and print them all. Exits with an error code if one has no answer."""
    printer = AnswerPrinter(questions, as_json, chat.model.context_size, quiet=quiet)
    from chatcli.commands import script

    with script.stop_on_interrupt() as cancelled:
        try:
            for event in chat.answer_each(questions, cancelled, images):
                printer.event(event)
        finally:
            printer.finish()
    if cancelled.is_set():
        raise typer.Exit(INTERRUPTED)
    if printer.any_refused:
        raise typer.Exit(ChatcliError.exit_code)


class AnswerPrinter:
    """Prints each answer once all before it are printed."""

    def __init__(
        self,
        questions: Sequence[str],
        as_json: bool,
        context_size: Callable[[], int | None],
        *,
        quiet: bool = False,
    ) -> None:
        """`context_size`: the most tokens that the model takes, None while it loads."""
        self._quiet = quiet
        self.any_refused = False
        self._questions = questions
        self._as_json = as_json
        self._context_size = context_size
        self._waiting: dict[int, Answered | Refused] = {}
        self._next = 1
        self._printed_any = False
        self._download = DownloadProgress(sys.stderr)

    def event(self, event: Event) -> None:
        if self._quiet and isinstance(event, Download | Notice):
            return
        if self._download.takes(event):
            return
        if isinstance(event, Notice):
            warn(event.text)
        elif isinstance(event, Answered | Refused):
            self._waiting[event.number] = event
            while self._next in self._waiting:
                self._print(self._waiting.pop(self._next))
                self._next += 1

    def finish(self) -> None:
        """No more answers come: print those that wait for a question without one."""
        self._download.end()
        for number in sorted(self._waiting):
            self._print(self._waiting.pop(number))

    def _print(self, event: Answered | Refused) -> None:
        self.any_refused |= isinstance(event, Refused)
        if self._as_json:
            question = {"number": event.number, "question": self._questions[event.number - 1]}
            answer = {"error": event.why} if isinstance(event, Refused) else event.record.as_json()
            print_json({**question, **answer})
        else:
            if self._printed_any:
                print(SEPARATOR)
            self._printed_any = True
            if isinstance(event, Refused):
                warn(f"question {event.number}: {event.why}")
            else:
                print(clean(event.record.text), flush=True)
                ending = finish.sentence(event.record, self._context_size())
                if ending and sys.stderr.isatty() and not self._quiet:
                    warn(f"question {event.number}: {ending}")
        sys.stdout.flush()
