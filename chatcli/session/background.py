"""Settling and typeahead: what the model computes ahead while the person reads and types."""

from __future__ import annotations

import concurrent.futures
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import TYPE_CHECKING

from chatcli.conversation.images import Image
from chatcli.events import PrefillProgress, PrefixMatched, Settled
from chatcli.text import count, decodable, shorten
from chatcli.threads.executor import SerialExecutor

if TYPE_CHECKING:
    from chatcli.conversation.tree import Conversation
    from chatcli.turn.prompt import TurnContext

# A settle of more tokens prefills more than the last reply: its progress is shown.
CATCHING_UP_TOKENS = 512
PREPARING, READY = "preparing the next turn", "next turn ready"


class BackgroundWork:
    """Runs one settle or one typeahead at a time on a thread of its own.

    `activity` is the toolbar's text about what goes on, and about loading a model. `catching_up`: a
    settle prefills the whole conversation, which the next message will have to wait for.

    Errors on the thread are dropped: they cost time only, and the next turn meets and reports them.
    """

    def __init__(self) -> None:
        self.activity = ""
        # What was computed ahead and is shown, until it is of no more use.
        self._shown_ahead, self._is_ready = "", False
        self.catching_up = False
        self._executor = SerialExecutor("chatcli-background")
        self._settling: Future[None] | None = None
        self._typeahead: Future[None] | None = None
        self._stop_settling = threading.Event()
        self._stop_typeahead = threading.Event()
        self._ended = False

    def report(self, activity: str) -> None:
        """Show `activity` from now on; empty: nothing."""
        self.activity = activity

    @property
    def settling(self) -> bool:
        """Whether the last reply is still being run as history will show it."""
        return self._settling is not None and not self._settling.done()

    def settle(
        self, context: Callable[[threading.Event], TurnContext | None], refresh: Callable[[], None]
    ) -> None:
        """Settle the last reply, unless that is under way; call `refresh` when it is done.

        A message that the person has stopped while it was read is read when they go on, not behind them.
        `context` runs on the background thread. It waits for the model until its event is set, and
        returns None where there is no conversation yet.
        """
        self.stop_typeahead()
        # Whatever changes the path has stopped the settle before, so one that still runs is right.
        if not self.settling and not self._ended:
            self._stop_settling = threading.Event()
            self._settling = self._executor.submit(self._settle, context, self._stop_settling, refresh)

    def _settle(
        self,
        context: Callable[[threading.Event], TurnContext | None],
        stop: threading.Event,
        refresh: Callable[[], None],
    ) -> None:
        ready = context(stop)
        from chatcli.turn import turn

        activity, reason, started = "", "", time.monotonic()
        try:
            if ready is None or is_unread(ready.conversation):
                return
            self.report(f"{PREPARING}…")
            for event in turn.settle(ready, stop):
                if isinstance(event, PrefixMatched) and event.miss_reason:
                    reason = f" ({shorten(event.miss_reason, 48)})"
                if isinstance(event, PrefillProgress) and event.total > CATCHING_UP_TOKENS:
                    progress = event.describe(time.monotonic() - started)
                    self.report(f"{PREPARING}: {progress}{reason}")
                    self.catching_up = True
                if isinstance(event, Settled) and not stop.is_set():
                    activity, self._is_ready = READY, True
        finally:
            self._report_ahead(activity)
            self.catching_up = False
            refresh()

    def type_ahead(
        self,
        message: Callable[[], tuple[str, Sequence[Image]]],
        context: Callable[[threading.Event], TurnContext],
        refresh: Callable[[], None],
    ) -> None:
        """Prefill a message that is being typed, once settling is done. An earlier one is given up.

        `message` gives its text and images. It runs on the background thread, as `context` does.
        """
        self.stop_typeahead()
        stop = self._stop_typeahead = threading.Event()
        self._typeahead = self._executor.submit(self._type_ahead, message, context, stop, refresh)

    def _type_ahead(
        self,
        message: Callable[[], tuple[str, Sequence[Image]]],
        context: Callable[[threading.Event], TurnContext],
        stop: threading.Event,
        refresh: Callable[[], None],
    ) -> None:
        ready = context(stop)
        if stop.is_set():
            return
        text, images = message()
        from chatcli.turn.typeahead import typeahead

        for progress in typeahead(ready, decodable(text), stop, images):
            self._report_ahead(f"{count('token', progress.tokens)} typed ahead")
        refresh()

    def clear_typeahead(self) -> None:
        """`stop_typeahead`, and no longer show what was read of a message that is no longer there."""
        self.stop_typeahead()
        if self._is_ready and self.activity == self._shown_ahead:
            self._report_ahead(READY)

    def _report_ahead(self, activity: str) -> None:
        self._shown_ahead = activity
        self.report(activity)

    def stop_typeahead(self) -> None:
        """End the typeahead after its current chunk, without waiting for that: what follows is queued."""
        self._stop_typeahead.set()
        if self._typeahead is not None:
            self._typeahead.cancel()

    def stop(self) -> None:
        """End settling and typeahead after their current chunk, and wait for that."""
        self.halt()
        # Not only for the newest: an earlier typeahead may still be at its last chunk.
        concurrent.futures.wait([self._executor.submit(lambda: None)])
        self._typeahead = self._settling = None
        self._is_ready = False
        if self._shown_ahead and self.activity == self._shown_ahead:
            self._report_ahead("")

    def halt(self) -> None:
        """End settling and typeahead after their current chunk, without waiting: what is done is kept."""
        self._stop_settling.set()
        self.stop_typeahead()

    def cancel(self) -> None:
        """`halt`, for good."""
        self._ended = True
        self.halt()

    def close(self) -> None:
        """`cancel`, and wait for the thread's end."""
        self.cancel()
        self._executor.shutdown()


def is_unread(conversation: Conversation) -> bool:
    """Whether the turn at the head was stopped before all of its prompt was run."""
    last = conversation.entries.get(conversation.head or "")
    return last is not None and bool(last.record.get("unrun_tokens"))
