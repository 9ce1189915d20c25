"""Slash commands about replies and places in the conversation: they return results, they never print."""

from __future__ import annotations

from functools import partial

from chatcli.commands.handlers import turn_number
from chatcli.commands.registry import command
from chatcli.commands.results import Context, Copied, Result, Said, Streamed, Written
from chatcli.errors import UsageError
from chatcli.session import compaction
from chatcli.session.live_chat import LiveChat

# One digit chooses a reply.
MAX_ALTERNATIVES = 9


@command(
    "regenerate",
    "[HOW MANY]",
    "another reply to the last message, or several at once to choose from; the old one stays",
    aliases=("retry",),
)
def regenerate(chat: LiveChat, argument: str) -> Result:
    _ = chat.session.conversation
    word = argument or "1"
    count = int(word) if word.isdecimal() and len(word) == 1 else 0
    if not count:
        raise UsageError(
            f"'{argument}' is no number of replies: say /regenerate 4 (1 to {MAX_ALTERNATIVES})."
        )
    if count == 1:
        return Streamed(chat.regenerate)
    if not chat.model.loading and not chat.model.sampling.temp:
        raise UsageError("At temperature 0 every reply would be the same: /set temp 0.8 first.")
    return Streamed(partial(chat.alternatives, count))


@command("choose", "N", "go on with one of the replies that /regenerate N made")
def choose(chat: LiveChat, argument: str) -> Result:
    choices = chat.session.alternatives
    if not choices:
        raise UsageError("There is nothing to choose from: /regenerate 4 makes four replies.")
    if not (argument.isdecimal() and 1 <= int(argument[:9]) <= len(choices)):
        raise UsageError(f"Say which reply: /choose 2 (1 to {len(choices)}).")
    chat.session.move_head(choices[int(argument) - 1])
    return Said(f"Reply {int(argument)} goes on; the others stay in /tree.")


def as_command(chat: LiveChat, line: str) -> str:
    """`line`, or the /choose that a lone digit stands for while there are replies to choose from."""
    word = line.strip()
    chooses = len(word) == 1 and word.isdecimal() and 1 <= int(word) <= len(chat.session.alternatives)
    return f"/choose {word}" if chooses else line


@command("continue", "", "go on with a reply that was stopped or cut")
def go_on(chat: LiveChat, argument: str) -> Result:
    _ = chat.session.conversation
    return Streamed(chat.go_on)


@command("edit", "[TURN]", "change a message and send it again; the old path stays in /tree")
def edit(chat: LiveChat, argument: str) -> Result:
    return Written(chat.session.go_to(chat.session.turn(_turn(argument)).user.id))


@command("undo", "", "go back before the last turn; /tree still has it")
def undo(chat: LiveChat, argument: str) -> Result:
    return Said(_after(chat.session.rewind(None)))


@command("rewind", "TURN", "go on after an earlier turn; what followed stays in /tree")
def rewind(chat: LiveChat, argument: str) -> Result:
    if not argument:
        raise UsageError("Say after which turn: /rewind 3 (0 is the beginning), or pick it in /tree.")
    return Said(_after(chat.session.rewind(_turn(argument))))


def _after(turns: int) -> str:
    where = f"after turn {turns}" if turns else "at the beginning"
    return f"The conversation goes on {where}. What came later stays in /tree."


@command("label", "[TEXT]", "bookmark this place in the tree; without a text, take the bookmark away")
def label(chat: LiveChat, argument: str) -> Result:
    conversation = chat.session.conversation
    if chat.session.file is None or conversation.head is None:
        raise UsageError("There is no place to bookmark yet: say something first.")
    chat.session.file.set_label(conversation.head, argument)
    return Said(f"Bookmarked as '{argument}'." if argument else "The bookmark is gone.")


@command("copy", "[TURN]", "copy a reply to the clipboard (the last one)")
def copy(chat: LiveChat, argument: str) -> Result:
    number = _turn(argument)
    reply = chat.session.turn(number).reply
    if reply is None:
        raise UsageError("That turn has no reply yet.")
    return Copied(reply.message.content, f"the reply of turn {number}" if number else "the last reply")


@command("context", "", "where the tokens of this conversation are, and how many are left")
def context(chat: LiveChat, argument: str) -> Result:
    parts = chat.context_parts()
    return Context(parts, chat.model.wait().loaded.context)


@command("compact", "", "go on in a new session from a summary; this one stays as it is")
def compact(chat: LiveChat, argument: str) -> Result:
    if not chat.session.conversation.turns():
        raise UsageError("There is nothing to summarize yet: say something first.")
    return Streamed(partial(compaction.compact, chat))


def _turn(word: str) -> int | None:
    """A turn's number, None if none was given. Raises `UsageError`."""
    return turn_number(word) if word else None
