"""The queue of messages and commands sent while something else runs: shown in order, and editable."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from prompt_toolkit.formatted_text import FormattedText

from chatcli.conversation.images import Image
from chatcli.store.sessions.search import Hit
from chatcli.tui.text.console import INDENT
from chatcli.tui.text.fit import first_words, fit

STYLE = {"queue": "ansiyellow", "queue.hint": "ansibrightblack"}
# How many messages are shown: the newest, each by its first words.
MAX_SHOWN = 3
# The hint after the newest, if it leaves this many columns to its words.
HINT, MIN_WORDS_COLUMNS = " · ↑ edits it", 20


@dataclass(frozen=True)
class Submission:
    """A message or a command, from Enter on.

    `text` was written by the person, `expanded_text` includes the files that it names, `display_text` has
    labels for long pastes, and `images` are those that it names. `hit` is where a search leads to.
    """

    text: str
    expanded_text: str
    display_text: str
    is_command: bool = False
    images: tuple[Image, ...] = ()
    hit: Hit | None = None


class SubmissionQueue(list[Submission]):
    """The waiting submissions, oldest first."""

    @property
    def rows(self) -> int:
        """The rows that it takes on the screen."""
        return min(len(self), MAX_SHOWN + 1)

    def pop_all(self) -> list[Submission]:
        submissions = list(self)
        self.clear()
        return submissions

    def fragments(self, columns: int) -> FormattedText:
        """The newest, and the key that edits the last one, in rows shorter than `columns`."""
        width = columns - len(INDENT) - 1
        hint = HINT if width - len(HINT) >= MIN_WORDS_COLUMNS else ""
        fragments = FormattedText()
        if (hidden := len(self) - MAX_SHOWN) > 0:
            fragments.append(("class:queue.hint", fit(f"{INDENT}{hidden} more queued", width) + "\n"))
        for submission in self[-MAX_SHOWN:]:
            is_newest = submission is self[-1]
            room = width - len(hint) if is_newest else width
            words = fit(f"queued: {first_words(submission.display_text)}", room)
            fragments.append(("class:queue", INDENT + words))
            fragments.append(("class:queue.hint", hint if is_newest else "\n"))
        return fragments


def join_for_box(submissions: Sequence[Submission], box: str = "") -> tuple[str, list[Submission]]:
    """The texts and the box's text, with blank lines between them, and the commands that are left out.

    A command comes back only alone: below other text it would be a message.
    """
    if len(submissions) == 1 and not box.strip():
        return submissions[0].text, []
    messages = [submission.text for submission in submissions if not submission.is_command]
    commands = [submission for submission in submissions if submission.is_command]
    return "\n\n".join(text for text in (*messages, box) if text.strip()), commands
