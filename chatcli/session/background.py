"""Settling and typeahead: the model's work while the person reads and types."""

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

# A settle of more tokens prefills more than the last reply, so its progress is shown.
CATCHING_UP_TOKENS = 512
PREPARING, READY = "preparing the next turn", "next turn ready"


class BackgroundWork:
    """Settles replies and prefills typed text while its `scheduler` has no turn or command to run.

    `activity` is the toolbar's text about this work and about loading a model. `catching_up`: a settle
    prefills the whole conversation, and the next message will have to wait for it.

    Errors in the background are ignored: they only cost time, and the next turn meets and reports them.
    """

    def __init__(self) -> None:
        self.scheduler = Scheduler("chatcli-turn")
        self.activity = ""
        # What the toolbar shows about finished work, while it is still of use.
        self._shown_ahead, self._is_ready = "", False
        self.catching_up = False
        self._settle: IdleWork | None = None
        self._typeahead: IdleWork | None = None

    def report(self, activity: str) -> None:
        """Show `activity` from now on (empty: nothing)."""
        self.activity = activity

    @property
    def settling(self) -> bool:
        """Whether the last reply is still being settled."""
        return self._settle is not None and not self._settle.future.done()

    def settle(self, context: Callable[[threading.Event], TurnContext], refresh: Callable[[], None]) -> None:
        """Settle the last reply, unless that is already running; call `refresh` when it is done.

        A message that the person stopped while it was read is not read in the background. `context` is called
        in the background and waits for the model until its event is set.
        """
        self.stop_typeahead()
        # Every change of the path stops settling first, so a running settle is for the current path.
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
        """Prefill a message that is being typed, once settling is done. This replaces an earlier typeahead.

        `message` returns its text and images. Like `context` it is called in the background.
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
        """`stop_typeahead`, and no longer show progress of the message, which is gone."""
        self.stop_typeahead()
        if self._is_ready and self.activity == self._shown_ahead:
            self._report_ahead(READY)

    def _report_ahead(self, activity: str) -> None:
        self._shown_ahead = activity
        self.report(activity)

    def stop_typeahead(self) -> None:
        """End the typeahead after its current chunk, without waiting, because later work is queued."""
        if self._typeahead is not None:
            self._typeahead.end()

    def stop(self) -> None:
        """End settling and typeahead after their current chunk, and wait until they have ended."""
        self.scheduler.drain()
        self._typeahead = self._settle = None
        self._is_ready = False
        if self._shown_ahead and self.activity == self._shown_ahead:
            self._report_ahead("")
