"""A conversation line by line, for terminals that can do no more and for `--plain`.

Refuses to move the cursor, to colour and to draw anything again.
"""

from __future__ import annotations

import threading

from chatcli.commands import results, script
from chatcli.errors import ChatcliError
from chatcli.events import Event, TurnDone
from chatcli.session.live_chat import LiveChat
from chatcli.text import clean
from chatcli.tui.render.pipe import Pipe

PROMPT = "> "


class Lines(Pipe):
    """Replies and results as plain lines, each turn with its hit ratio."""

    def event(self, event: Event) -> None:
        super().event(event)
        if isinstance(event, TurnDone):
            told = event.record
            print(f"[{told.hit_ratio:.1%} reused, {told.prefilled_tokens:,} prefilled]", flush=True)
            if told.miss_reason:
                print(clean(f"[why: {told.miss_reason}]"), flush=True)


def run(chat: LiveChat) -> None:
    """The conversation until the person leaves. Raises `ModelError` if there is no model."""
    shown = Lines(context=chat.model.context_size)
    print("chatcli: type a message and press Enter; /help shows the commands, Ctrl-D leaves.")
    if (file := chat.session.file) is not None:
        shown.result(results.Opened(file.name, file.conversation))
    for download in chat.model.downloads(threading.Event()):
        shown.event(download)
    shown.abandon()
    chat.model.wait()
    while (line := _read()) is not None:
        try:
            if line.strip() and script.run_line(line, chat, shown):
                return
        except ChatcliError as error:
            print(clean(str(error)))
        except KeyboardInterrupt:
            print("(stopped)")


def _read() -> str | None:
    """The next line, None to leave."""
    try:
        return input(PROMPT)
    except EOFError:
        return None
    except KeyboardInterrupt:
        print()
        return None
