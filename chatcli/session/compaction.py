"""A long conversation goes on in a new session that knows a summary of it; refuses to know the terminal.

What does not fit into the summary's prompt is left out of it, from the end. MLX is imported only once
a model is there.
"""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from chatcli.conversation.tree import Entry, Message, Turn, new_id
from chatcli.errors import ContextFull
from chatcli.events import Event, Notice, TurnDone
from chatcli.session import opening
from chatcli.session.state import SUMMARY, State, without_summary
from chatcli.store.sessions.folder import SessionFile

SUMMARIZE = (
    "Summarize our conversation so far for yourself, so that you can go on without it: the facts, "
    "names, numbers and decisions, what was asked for, and what is still open. Only the summary."
)
# The part of the context that stays free for a summary (with its thinking) or for the next turn, and
# the tokens beyond which no more is needed.
FREE, ENOUGH = 4, 4096


def compact(state: State, cancelled: threading.Event) -> Iterator[Event]:
    """Go on in a new session that knows a summary instead of the turns. This one stays as it is.

    The last turns are left out of the summary if the context is too full for all, and kept if they
    fit beside it. Raises `ContextFull` if not even the first turn leaves room for a summary.
    """
    state.runtime(cancelled)  # nothing is copied before there is a model
    source, name = state.conversation, str(state.name)
    turns = source.turns()
    count = _summarized(state, turns, cancelled)
    end = source.head if count == len(turns) else source.end_of_turn(count)
    made = _beginning(state, end)
    yield from map(Notice, state.switch(made))
    summary = ""
    try:
        for event in state.take(SUMMARIZE, cancelled, whole=True):
            if isinstance(event, TurnDone) and event.record.finish_reason == "stop":
                summary = event.record.text
            yield event
    finally:
        if not summary:
            _back(state, name, source.head, made.name)
    if not summary:
        yield Notice("The summary was not finished: the conversation is as it was.")
        return
    before = without_summary(source.system)
    made.set_system("\n\n".join(part for part in (before, f"{SUMMARY}\n{summary}") if part))
    made.move_head(None)
    yield from map(Notice, _keep(state, made, turns[count:], cancelled))
    yield Notice(f"'{made.name}' goes on from the summary; the session before is untouched.")


def _beginning(state: State, end: str | None) -> SessionFile:
    """A copy of the open session up to an entry."""
    source = replace(state.conversation, head=end)
    return opening.branch_from(state.folder, str(state.name), source, None, None)


def _back(state: State, name: str, head: str | None, copy: str) -> None:
    """The session that a failed summary was made of, at the place where it was."""
    state.switch(state.folder.open(name))
    state.conversation.head = head
    state.folder.delete(copy)


def _summarized(state: State, turns: Sequence[Turn], cancelled: threading.Event) -> int:
    """How many turns from the first on fit with room for their summary. Raises `ContextFull`."""
    system = state.conversation.system
    count = _most(
        len(turns),
        lambda some: _fits(state, system, _said(turns[:some]), SUMMARIZE, cancelled),
    )
    if not count:
        raise ContextFull(
            "Not even the first turn leaves the model room for a summary: /rewind goes back to an "
            "earlier place, /new begins a new conversation."
        )
    return count


def _keep(
    state: State, made: SessionFile, turns: Sequence[Turn], cancelled: threading.Event
) -> Iterator[str]:
    """Hang the turns that were not summarized below the summary, if they fit; what became of them."""
    if not turns:
        return
    system = made.conversation.system
    kept = _most(
        len(turns),
        lambda some: _fits(state, system, _said(turns[len(turns) - some :]), ".", cancelled),
    )
    gone = len(turns) - kept
    for entry in _entries(turns[gone:]):
        # Its numbers are those of another path, and a place in the tree is named once.
        head = made.conversation.head
        made.copy(replace(entry, id=new_id(), parent=head, record={}))
    if kept:
        yield f"{_numbered(turns[gone:])} left out of the summary and stands after it as it was."
    if gone:
        yield (
            f"{_numbered(turns[:gone])} left out of the summary and is not in the new session: it "
            "does not fit. The session before has it."
        )


def _numbered(turns: Sequence[Turn]) -> str:
    """Which turns these are, as the subject of a sentence about one."""
    first, last = turns[0].number, turns[-1].number
    return f"Turn {first} was" if first == last else f"What was said in turns {first} to {last} was"


def _most(count: int, fits: Callable[[int], bool]) -> int:
    """The largest number up to `count` that fits, if all below it do; 0 if none does."""
    if fits(count):
        return count
    return bisect_left(range(1, count), True, key=lambda some: not fits(some))


def _fits(
    state: State,
    system: str | None,
    said: Sequence[Message],
    asked: str,
    cancelled: threading.Event,
) -> bool:
    """Whether a question after these messages leaves the model room for an answer."""
    chat = state.chat(cancelled)
    opened = [Message("system", system)] if system else []
    prompt = chat.template.prompt([*opened, *said, Message("user", asked)])
    context = chat.checkpoints.loaded.context
    return len(prompt) + min(context // FREE, ENOUGH) <= context


def _entries(turns: Sequence[Turn]) -> list[Entry]:
    return [entry for turn in turns for entry in (turn.user, turn.reply) if entry is not None]


def _said(turns: Sequence[Turn]) -> list[Message]:
    """What turns said; templates want them to alternate, so a missing reply is an empty one."""
    nothing = Message("assistant", "")
    return [
        message
        for turn in turns
        for message in (turn.user.message, turn.reply.message if turn.reply else nothing)
    ]
