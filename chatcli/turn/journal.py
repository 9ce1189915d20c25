"""Appends replies to the session's file while they stream, so that they survive a kill."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any

from chatcli.conversation.tree import Entry, new_id
from chatcli.errors import FolderError
from chatcli.events import TurnRecord
from chatcli.records import ReplyRecord
from chatcli.store.sessions.log import SessionLog
from chatcli.store.sessions.transcript import part_line

# How far the file may be behind the replies.
JOURNAL_SECONDS = 0.5
# Numbers that are not known when a reply's first part is written.
OF_THE_WHOLE = ("thinking_tokens", "thinking_seconds", "tool_calls", "generation_tps", "generated_tokens")


@dataclass
class _Reply:
    """A streaming reply, and how much of it is in the file, in tokens and characters."""

    question: str
    record: TurnRecord
    facts: Callable[[], ReplyRecord]
    text: int
    thinking: int
    tokens: int = 0
    begun: bool = False
    entry_id: str = field(default_factory=new_id)

    def take_line(self) -> dict[str, Any] | None:
        """The line for what came since the last part; None if nothing did."""
        # Read the tokens last: they may be ahead of their text, but not behind it.
        text, thinking = self.record.text, self.record.thinking
        tokens = self.record.tokens[self.tokens :]
        if (len(text), len(thinking)) == (self.text, self.thinking):
            return None
        if not self.begun:
            self.text = self.thinking = 0
        line = part_line(self.entry_id, self.tokens, text[self.text :], thinking[self.thinking :], tokens)
        if not self.begun:
            line["parent"], line["time"] = self.question, round(time.time(), 3)
            numbers = {key: value for key, value in self.record.numbers().items() if key not in OF_THE_WHOLE}
            line["record"] = {**numbers, **self.facts()}
        self.begun = True
        self.text, self.thinking, self.tokens = len(text), len(thinking), self.tokens + len(tokens)
        return line


class ReplyJournal:
    """While the context is entered, a thread regularly writes what came of each reply.

    If it exits with an error, the last parts of the replies are written.
    """

    def __init__(self, session: SessionLog) -> None:
        self._session = session
        self._replies: dict[str, _Reply] = {}
        self._writing = threading.Lock()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="chatcli-journal", daemon=True)

    def begin(self, question: Entry, record: TurnRecord, facts: Callable[[], ReplyRecord]) -> str:
        """Start writing the reply to `question`, which is collected in `record` and may have begun there.

        `facts` belong to its record. Returns the id under which to save the whole reply, so that it replaces
        its parts.
        """
        reply = _Reply(question.id, record, facts, len(record.text), len(record.thinking))
        with self._writing:
            self._replies[reply.entry_id] = reply
        return reply.entry_id

    def end(self, entry_id: str) -> None:
        """Stop writing parts of a reply, because it is saved whole next."""
        with self._writing:
            del self._replies[entry_id]

    def __enter__(self) -> ReplyJournal:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        self._thread.join()
        if error is not None:
            self._write()

    def _run(self) -> None:
        while not self._ended.wait(JOURNAL_SECONDS):
            if not self._write():
                return

    def _write(self) -> bool:
        """Write what came since the last call. Returns whether the file can be written."""
        with self._writing:
            for reply in self._replies.values():
                if (line := reply.take_line()) is not None:
                    try:
                        self._session.write(line, flush=False)
                    except FolderError:
                        return False  # saving the whole reply will report why
        return True
