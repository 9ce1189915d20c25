"""`chatcli ask --each`: many questions at once, each answered as a branch of its own.

Answers are printed in the order of the questions, each as soon as those before it are there.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from chatcli import files
from chatcli.cli.options import Options
from chatcli.cli.output import print_json, warn
from chatcli.cli.process import INTERRUPTED, piped_text
from chatcli.conversation import finish
from chatcli.conversation.images import Image
from chatcli.errors import ChatcliError, EmptyPrompt, FolderError, UsageError
from chatcli.events import Answered, Download, Notice, Refused
from chatcli.replies.answer_form import AnswerForm
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
        help="Answer every line of a file (- is standard input) on a branch of its own, "
        "many at once. The session's own path does not change.",
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
    """Move the head of an unnamed session to the first answer, so that it does not look empty."""
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
    options: Options,
    images: Sequence[Image] = (),
    *,
    answer: AnswerForm | None = None,
    quiet: bool = False,
) -> None:
    """Answer all questions, and print the answers in order.

    Exits with an error code if a question has no answer.
    """
    from chatcli.commands import script

    download = DownloadProgress(sys.stderr)
    waiting: dict[int, Answered | Refused] = {}
    printed: list[Answered | Refused] = []

    def show(event: Answered | Refused) -> None:
        if options.as_json:
            question = {"number": event.number, "question": questions[event.number - 1]}
            if isinstance(event, Refused):
                print_json({**question, "error": event.why})
            else:
                print_json({**question, **event.record.as_json(brief=options.json_brief)})
        else:
            if printed:
                print(SEPARATOR)
            if isinstance(event, Refused):
                warn(f"question {event.number}: {event.why}")
            else:
                print(clean(event.record.text), flush=True)
                ending = finish.sentence(event.record, chat.model.context_size())
                if ending and sys.stderr.isatty() and not quiet:
                    warn(f"question {event.number}: {ending}")
        sys.stdout.flush()
        printed.append(event)

    with script.stop_on_interrupt() as cancelled:
        try:
            for event in chat.answer_each(questions, cancelled, images, answer):
                if (quiet and isinstance(event, Download | Notice)) or download.takes(event):
                    continue
                if isinstance(event, Notice):
                    warn(event.text)
                elif isinstance(event, Answered | Refused):
                    waiting[event.number] = event
                    while (due := waiting.pop(len(printed) + 1, None)) is not None:
                        show(due)
        finally:
            download.end()
            # The answers after a question that has none.
            for number in sorted(waiting):
                show(waiting[number])
    if cancelled.is_set():
        raise typer.Exit(INTERRUPTED)
    if any(isinstance(event, Refused) for event in printed):
        raise typer.Exit(ChatcliError.exit_code)
