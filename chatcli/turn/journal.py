"""Appends a reply to the session's file while it streams, so that a killed process leaves what came."""

from __future__ import annotations

import threading
import time
from types import TracebackType

from chatcli.conversation.tree import new_id
from chatcli.errors import FolderError
from chatcli.events import TurnRecord
from chatcli.store.sessions.transcript import part_line
from chatcli.turn.prompt import Prompt, TurnContext
from chatcli.turn.record import facts_of

# How far the file is behind the reply.
JOURNAL_SECONDS = 0.5
# Numbers that a reply's first part cannot know.
OF_THE_WHOLE = ("thinking_tokens", "thinking_seconds", "tool_calls", "generation_tps", "generated_tokens")


class ReplyJournal:
    """While it is entered, a thread of its own writes what came of `record` since it last did.

    `entry_id` is the id under which the whole reply is to be saved: that takes the place of its parts.
    Where a reply ends by an error, its last part is written on leaving.
    """

    def __init__(self, chat: TurnContext, prompt: Prompt, record: TurnRecord) -> None:
        """`record` may hold the beginning of a reply that goes on."""
        self.entry_id = new_id()
        self._chat, self._prompt, self._record = chat, prompt, record
        self._begun = False
        self._tokens = 0
        self._text, self._thinking = len(record.text), len(record.thinking)
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="chatcli-journal", daemon=True)

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
        """Write what came since the last time. Returns whether the file can be written."""
        # The tokens last: they may be ahead of the text, which follows from them, but not behind it.
        text, thinking = self._record.text, self._record.thinking
        tokens = self._record.tokens[self._tokens :]
        if (len(text), len(thinking)) == (self._text, self._thinking):
            return True
        if not self._begun:
            self._text = self._thinking = 0
        line = part_line(self.entry_id, self._tokens, text[self._text :], thinking[self._thinking :], tokens)
        if not self._begun:
            line["parent"], line["time"] = self._prompt.leaf.id, round(time.time(), 3)
            numbers = {key: value for key, value in self._record.numbers().items() if key not in OF_THE_WHOLE}
            line["record"] = {**numbers, **facts_of(self._chat, self._prompt)}
        try:
            self._chat.saved.write(line, flush=False)
        except FolderError:
            return False  # to save the whole reply will say why
        self._begun = True
        self._tokens += len(tokens)
        self._text, self._thinking = len(text), len(thinking)
        return True
