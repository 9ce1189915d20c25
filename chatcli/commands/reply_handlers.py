"""Slash commands about replies and places in the conversation: they return results, they never print."""

from __future__ import annotations

from functools import partial

from chatcli.commands.handlers import turn_number
from chatcli.commands.registry import command
from chatcli.commands.results import Context, Copied, Result, Said, Streamed, Written
from chatcli.errors import UsageError
from chatcli.session import alternatives, compaction, navigation
from chatcli.session.state import State


@command(
    "regenerate",
    "[HOW MANY]",
    "another reply to the last message, or several at once to choose from; the old one stays",
    aliases=("retry",),
)
def regenerate(state: State, argument: str) -> Result:
    _ = state.conversation
    count = alternatives.how_many(argument)
    if count == 1:
        return Streamed(partial(navigation.regenerate, state))
    alternatives.check_sampled(state)
    return Streamed(partial(alternatives.regenerate, state, count))


@command("choose", "N", "go on with one of the replies that /regenerate N made")
def choose(state: State, argument: str) -> Result:
    number = alternatives.choose(state, argument)
    return Said(f"Reply {number} goes on; the others stay in /tree.")


@command("continue", "", "go on with a reply that was stopped or cut")
def go_on(state: State, argument: str) -> Result:
    _ = state.conversation
    return Streamed(partial(navigation.go_on, state))


@command("edit", "[TURN]", "change a message and send it again; the old path stays in /tree")
def edit(state: State, argument: str) -> Result:
    return Written(navigation.edit(state, _turn(argument)))


@command("undo", "", "go back before the last turn; /tree still has it")
def undo(state: State, argument: str) -> Result:
    return Said(_after(navigation.rewind(state, None)))


@command("rewind", "TURN", "go on after an earlier turn; what followed stays in /tree")
def rewind(state: State, argument: str) -> Result:
    if not argument:
        raise UsageError("Say after which turn: /rewind 3 (0 is the beginning), or pick it in /tree.")
    return Said(_after(navigation.rewind(state, _turn(argument))))


def _after(turns: int) -> str:
    where = f"after turn {turns}" if turns else "at the beginning"
    return f"The conversation goes on {where}. What came later stays in /tree."


@command("label", "[TEXT]", "bookmark this place in the tree; without a text, take the bookmark away")
def label(state: State, argument: str) -> Result:
    conversation = state.conversation
    if state.session is None or conversation.head is None:
        raise UsageError("There is no place to bookmark yet: say something first.")
    state.session.set_label(conversation.head, argument)
    return Said(f"Bookmarked as '{argument}'." if argument else "The bookmark is gone.")


@command("copy", "[TURN]", "copy a reply to the clipboard (the last one)")
def copy(state: State, argument: str) -> Result:
    number = _turn(argument)
    text = navigation.reply_text(state, number)
    return Copied(text, f"the reply of turn {number}" if number else "the last reply")


@command("context", "", "where the tokens of this conversation are, and how many are left")
def context(state: State, argument: str) -> Result:
    return Context(*navigation.context(state))


@command("compact", "", "go on in a new session from a summary; this one stays as it is")
def compact(state: State, argument: str) -> Result:
    if not state.conversation.turns():
        raise UsageError("There is nothing to summarize yet: say something first.")
    return Streamed(partial(compaction.compact, state))


def _turn(word: str) -> int | None:
    """A turn's number, None if none was given. Raises `UsageError`."""
    return turn_number(word) if word else None
