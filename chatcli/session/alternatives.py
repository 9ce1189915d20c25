"""What a shell does with many replies at once: makes them, and chooses one; refuses to know the terminal.

MLX is imported only once a model is there.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence

from chatcli.conversation.images import Image
from chatcli.errors import UsageError
from chatcli.events import Alternatives, Event
from chatcli.model import vision
from chatcli.session.state import State

# One digit chooses one.
MOST = 9
NOTHING_TO_CHOOSE = "There is nothing to choose from: /regenerate 4 makes four replies."


def how_many(word: str) -> int:
    """The replies that were asked for, 1 if nothing was said. Raises `UsageError`."""
    if not word:
        return 1
    if word.isdecimal() and len(word) == 1 and int(word):
        return int(word)
    raise UsageError(f"'{word}' is no number of replies: say /regenerate 4 (1 to {MOST}).")


def check_sampled(state: State) -> None:
    """Raises `UsageError` if every reply would be the same, once the model can tell."""
    if not state.loading and not state.sampling().temp:
        raise UsageError("At temperature 0 every reply would be the same: /set temp 0.8 first.")


def regenerate(state: State, count: int, cancelled: threading.Event) -> Iterator[Event]:
    """So many more replies to the last question; the first goes on until another is chosen."""
    chat = state.chat(cancelled)
    from chatcli.turn import batch

    for event in batch.alternatives(chat, count, cancelled):
        if isinstance(event, Alternatives):
            state.choices = event.entries
        yield event


def each(
    state: State,
    texts: Sequence[str],
    cancelled: threading.Event,
    images: Sequence[Image] = (),
) -> Iterator[Event]:
    """Each text as a turn of its own beside the others, in the open session or in a new one.

    With each of them go the same images.
    """
    yield from state.arriving(cancelled)
    runtime = state.runtime(cancelled)
    state.stop_settling()
    from chatcli.turn import batch

    vision.prepare(runtime.loaded.vision, images, state.model)
    chat = runtime.chat(state.begun(texts[0]), state.think)
    yield from batch.answer_each(chat, texts, cancelled, images=images)


def choose(state: State, word: str) -> int:
    """Go on with reply `word` of those that were made last. Raises `UsageError` or `FolderError`."""
    count = len(_choices(state))
    if not count:
        raise UsageError(NOTHING_TO_CHOOSE)
    if not (word.isdecimal() and 1 <= int(word[:9]) <= count):
        raise UsageError(f"Say which reply: /choose 2 (1 to {count}).")
    state.move_head(state.choices[int(word) - 1])
    return int(word)


def as_command(state: State, line: str) -> str:
    """A number alone chooses, while there is something to choose from; other lines stay."""
    word = line.strip()
    chooses = len(word) == 1 and word.isdecimal() and 1 <= int(word) <= len(_choices(state))
    return f"/choose {word}" if chooses else line


def _choices(state: State) -> Sequence[str]:
    """The replies to choose from, as long as the conversation has not gone on from one."""
    session = state.session
    head = session.conversation.head if session is not None else None
    return state.choices if head in state.choices else ()
