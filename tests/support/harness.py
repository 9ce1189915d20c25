"""The core without a terminal: open a session with a tiny model, take turns, read the records."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from chatcli.conversation.images import read
from chatcli.events import Event, Settled, TurnDone, TurnRecord
from chatcli.session import opening
from chatcli.session.background import BackgroundWork
from chatcli.session.opening import SessionRequest
from chatcli.session.runtime import Runtime
from chatcli.settings.values import DEFAULTS, NUM_DRAFT_TOKENS, ModelOptions, Sampling, Settings
from chatcli.store.sessions.folder import SessionFolder
from chatcli.store.sessions.log import SessionLog
from chatcli.threads.mlx_thread import Worker
from chatcli.turn import turn

NEUTRAL = Sampling()
SYSTEM = "You are a helpful assistant. Answer briefly and remember what you were told."
MESSAGES = (
    "My dog is called Biscuit.",
    "I live in Lisbon, by the river, and the dog likes to swim there.",
    "What is my dog's name?",
    "And where do I live?\n\nSay it twice.",
    "7 and 5?",
)


class Harness:
    """The state of one chatcli process: only the disk outlives closing it."""

    def __init__(
        self,
        model: Path,
        sessions: Path,
        *,
        tokens: int = 24,
        cache: bool = True,
        memory_limit: int | None = None,
        sampling: Sampling = NEUTRAL,
        model_options: ModelOptions = DEFAULTS,
        trust_remote_code: bool = False,
        draft_model: Path | None = None,
        num_draft_tokens: int = NUM_DRAFT_TOKENS,
        recompute_seconds: float = 0.0,
    ) -> None:
        """With `recompute_seconds` 0 every checkpoint's state is on disk, so that each can be tested.

        Else its states count as large ones.
        """
        self.worker = Worker()
        sampling = replace(sampling, max_tokens=tokens)
        self.settings = Settings(
            sessions=sessions,
            sampling=sampling,
            cache=cache,
            memory_limit=memory_limit,
            model_options=model_options,
            trust_remote_code=trust_remote_code,
            draft_model=None if draft_model is None else str(draft_model),
            num_draft_tokens=num_draft_tokens,
            recompute_seconds=recompute_seconds,
            newest_state_bytes=0,
        )
        self.folder = SessionFolder(sessions)
        self._opened: list[SessionLog] = []
        self.runtime = self.worker.call(Runtime, self.worker, self.settings, str(model))

    def __enter__(self) -> Harness:
        return self

    def __exit__(self, *_: object) -> None:
        for session in self._opened:
            session.close()
        self.runtime.close()
        self.worker.close()

    def chat(self, name: str, system: str | None = SYSTEM, at: int | None = None) -> turn.TurnContext:
        session = opening.open_session(self.folder, SessionRequest(name, at=at), system)
        if not session.is_saved:
            session = opening.save(self.folder, session, name, "tiny")
        self._opened.append(session)
        return self.runtime.turn_context(session, None)

    def say(
        self, chat: turn.TurnContext, text: str, *, settle: bool = True, images: Sequence[Path] = ()
    ) -> TurnRecord:
        """Take a turn and settle it; the record includes what settling adds."""
        never = threading.Event()
        record = finish(turn.take(chat, text, never, [read(path) for path in images]))
        if settle:
            for event in turn.settle(chat, never):
                if isinstance(event, Settled):
                    record.add(event)
        return record


def finish(events: Iterator[Event]) -> TurnRecord:
    """The record that ends a turn's events. Its counts add up, whatever the turn was."""
    (record,) = [event.record for event in events if isinstance(event, TurnDone)]
    ahead = record.reused_tokens + record.typeahead_tokens
    assert record.prompt_tokens == ahead + record.prefilled_tokens
    assert 0 <= record.reused_settled_tokens <= record.reused_tokens
    return record


def outcome(record: TurnRecord) -> tuple[list[int], list[float], str, str]:
    """The generated tokens, their exact logprobs, and the text."""
    return record.tokens, record.logprobs, record.text, record.thinking


def open_all_along(model: Path, sessions: Path, **options: Any) -> list[TurnRecord]:
    """The records of the conversation in one process."""
    with Harness(model, sessions, **options) as harness:
        chat = harness.chat("talk")
        return [harness.say(chat, message) for message in MESSAGES]


def reopened(model: Path, sessions: Path, **options: Any) -> list[TurnRecord]:
    """The records of the conversation when it is closed and reopened after every turn."""
    records = []
    for message in MESSAGES:
        with Harness(model, sessions, **options) as harness:
            chat = harness.chat("talk")
            records.append(harness.say(chat, message))
    return records


class RecordedWork(BackgroundWork):
    """Background work that records every activity that the toolbar could have shown."""

    def __init__(self) -> None:
        super().__init__()
        self.reports: list[str] = []

    def report(self, activity: str) -> None:
        super().report(activity)
        self.reports.append(activity)
