"""`/compact`: continues a long conversation in a new session, from a summary of its turns."""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import replace

from chatcli.conversation.finish import SUMMARY_CUT
from chatcli.conversation.tree import Message, Turn, new_id
from chatcli.errors import ContextFull, UsageError
from chatcli.events import Event, Notice, TurnDone
from chatcli.session import opening
from chatcli.session.live_chat import LiveChat
from chatcli.session.open_session import SUMMARY_HEADING, without_summary
from chatcli.store.sessions.log import SessionLog
from chatcli.store.sessions.transcript import Transcript

INSTRUCTION = (
    "Summarize our conversation so far for yourself, so that you can go on without it: the facts, "
    "names, numbers and decisions, what was asked for, and what is still open. Only the summary."
)
# This many last turns stay word for word, if they fit, because a model may summarize badly.
KEPT_TURNS = 2
# The space kept free for a summary (with its thinking) or for the next turn: this fraction of the context, at
# most this many tokens.
FREE_SHARE, MAX_FREE_TOKENS = 4, 4096


def compact(chat: LiveChat, cancelled: threading.Event) -> Generator[Event]:
    """Continue in a new session with a summary in place of the turns. The old session does not change.

    The last turns stay word for word after the summary, and `LiveChat.undo_compaction` goes back. Raises
    `ContextFull` if not even the first turn leaves room for a summary, and `UsageError` if there is only one.
    """
    chat.session.check_saved("/compact")
    chat.model.wait(cancelled)  # copies nothing before the model is loaded
    session, source, name = chat.session, chat.session.conversation, str(chat.session.name)
    turns = source.turns()
    count = _largest(
        len(turns), lambda count: _fits(chat, source.system, turns[:count], INSTRUCTION, cancelled)
    )
    if not count:
        raise ContextFull(
            "Not even the first turn leaves the model room for a summary:",
            "/rewind goes back to an earlier place, /new begins a new conversation.",
        )
    if len(turns) < 2:
        raise UsageError("There is nothing to summarize yet: the last turn stays as it is.")
    kept = _largest(
        min(KEPT_TURNS, len(turns) - 1),
        lambda count: _fits(chat, source.system, turns[-count:], INSTRUCTION, cancelled, answers=2),
    )
    count = min(count, len(turns) - kept)
    end = source.head if count == len(turns) else source.end_of_turn(count)
    compacted = opening.branch(session.folder, Transcript(name, replace(source, head=end)), None)
    yield from map(Notice, session.switch(compacted))
    summary = ""
    try:
        context = chat.begin(name, cancelled)
        from chatcli.turn import turn

        # A stop text or a maximum length would cut the summary.
        longest = _free(context.checkpoints.loaded.context)
        context = replace(context, sampling=replace(context.sampling, stop=None, max_tokens=longest))
        for event in turn.take(context, INSTRUCTION, cancelled):
            if isinstance(event, TurnDone):
                if event.record.finish_reason == "stop":
                    summary = event.record.text.strip()
                if not summary:
                    yield Notice(f"{SUMMARY_CUT}: the conversation is as it was.")
            yield event
    finally:
        if not summary:
            original = session.folder.open(name)
            # A session that was opened at an earlier turn has that head only in memory.
            original.move_head(source.head, saved=False)
            session.switch(original)
            session.folder.delete(compacted.name)
    if not summary:
        return
    before = without_summary(source.system)
    compacted.set_system("\n\n".join(part for part in (before, f"{SUMMARY_HEADING}\n{summary}") if part))
    compacted.move_head(None)
    yield from map(Notice, _keep(chat, compacted, turns[count:], cancelled))
    session.compacted(name, source.head)
    yield Notice(f"'{compacted.name}' continues from this summary. /undo goes back to '{name}'.")


def _keep(
    chat: LiveChat, compacted: SessionLog, turns: Sequence[Turn], cancelled: threading.Event
) -> Iterator[str]:
    """Copy the last turns, which were not summarized, below the summary, as many as fit.

    Yields notices about them.
    """
    if not turns:
        return
    system = compacted.conversation.system
    kept = _largest(
        len(turns), lambda count: _fits(chat, system, turns[len(turns) - count :], ".", cancelled)
    )
    left_out = len(turns) - kept
    for turn in turns[left_out:]:
        for entry in filter(None, (turn.user, turn.reply)):
            # New ids, which are unique in a session, and no record, whose numbers belong to another path.
            parent = compacted.conversation.head
            compacted.copy(replace(entry, id=new_id(), parent=parent, record={}))
    if kept:
        yield f"Kept word for word after it: {_numbers(turns[left_out:])}."
    if left_out:
        yield f"Left out, because there was no room: {_numbers(turns[:left_out])}."


def _numbers(turns: Sequence[Turn]) -> str:
    first, last = turns[0].number, turns[-1].number
    return f"turn {first}" if first == last else f"turns {first} to {last}"


def _largest(limit: int, fits: Callable[[int], bool]) -> int:
    """The largest number up to `limit` that fits, if all below it do; 0 if none does."""
    if fits(limit):
        return limit
    return bisect_left(range(1, limit), True, key=lambda count: not fits(count))


def _fits(
    chat: LiveChat,
    system: str | None,
    turns: Sequence[Turn],
    question: str,
    cancelled: threading.Event,
    answers: int = 1,
) -> bool:
    """Whether a question after these turns leaves the model room for `answers` answers."""
    context = chat.turn_context(cancelled)
    messages = [Message("system", system)] if system else []
    for turn in turns:
        # Templates want turns to alternate, so a missing reply becomes an empty one.
        reply = turn.reply.message if turn.reply else Message("assistant", "")
        messages += [turn.user.message, reply]
    tokens = len(context.template.prompt([*messages, Message("user", question)]))
    size = context.checkpoints.loaded.context
    return tokens + answers * _free(size) <= size


def _free(context: int) -> int:
    """How many tokens of a context are reserved for an answer."""
    return min(context // FREE_SHARE, MAX_FREE_TOKENS)
