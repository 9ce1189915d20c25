"""Settling and typeahead: what the model computes ahead while the person reads and types."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from chatcli.conversation.images import Image
from chatcli.events import PrefillProgress, PrefixMatched, Settled
from chatcli.text import count, decodable, shorten
from chatcli.threads.scheduler import IdleWork, Scheduler

if TYPE_CHECKING:
    from chatcli.turn.prompt import TurnContext

# A settle of more tokens prefills more than the last reply: its progress is shown.
CATCHING_UP_TOKENS = 512
PREPARING, READY = "preparing the next turn", "next turn ready"


class BackgroundWork:
    """Settles, and prefills what is typed, while its `scheduler` has no turn or command to run.

    `activity` is the toolbar's text about what goes on, and about loading a model. `catching_up`: a
    settle prefills the whole conversation, which the next message will have to wait for.

    Errors in the background are dropped: they cost time only, and the next turn meets and reports them.
    """

    def __init__(self) -> None:
        self.scheduler = Scheduler("chatcli-turn")
        self.activity = ""
        # What was computed ahead and is shown, until it is of no more use.
        self._shown_ahead, self._is_ready = "", False
        self.catching_up = False
        self._settle: IdleWork | None = None
        self._typeahead: IdleWork | None = None

    def report(self, activity: str) -> None:
        """Show `activity` from now on; empty: nothing."""
        self.activity = activity

    @property
    def settling(self) -> bool:
        """Whether the last reply is still being run as history will show it."""
        return self._settle is not None and not self._settle.future.done()

    def settle(self, context: Callable[[threading.Event], TurnContext], refresh: Callable[[], None]) -> None:
        """Settle the last reply, unless that is under way; call `refresh` when it is done.

        A message that the person has stopped while it was read is read when they go on, not behind them.
        `context` runs in the background. It waits for the model until its event is set.
        """
        self.stop_typeahead()
        # Whatever changes the path has stopped the settle before, so one that still runs is right.
        if self.settling:
            return

        def work(stop: threading.Event) -> None:
            ready = context(stop)
            from chatcli.turn import turn

            activity, reason, started = "", "", time.monotonic()
            try:
                last = ready.conversation.entries.get(ready.conversation.head or "")
                if last is not None and last.record.get("unrun_tokens"):
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

        self._settle = self.scheduler.idle(work)

    def type_ahead(
        self,
        message: Callable[[], tuple[str, Sequence[Image]]],
        context: Callable[[threading.Event], TurnContext],
        refresh: Callable[[], None],
    ) -> None:
        """Prefill a message that is being typed, once settling is done. An earlier one is given up.

        `message` gives its text and images. It runs in the background, as `context` does.
        """
        self.stop_typeahead()

        def work(stop: threading.Event) -> None:
            ready = context(stop)
            if stop.is_set():
                return
            text, images = message()
            from chatcli.turn.typeahead import typeahead

            for progress in typeahead(ready, decodable(text), stop, images):
                self._report_ahead(f"{count('token', progress.tokens)} prepared")
            refresh()

        self._typeahead = self.scheduler.idle(work)

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
        if self._typeahead is not None:
            self._typeahead.end()

    def stop(self) -> None:
        """End settling and typeahead after their current chunk, and wait for that."""
        self.scheduler.drain()
        self._typeahead = self._settle = None
        self._is_ready = False
        if self._shown_ahead and self.activity == self._shown_ahead:
            self._report_ahead("")
