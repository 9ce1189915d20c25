"""What slash commands and the command line's own return: values, which `tui/render` draws."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass

from chatcli.conversation.tree import Conversation
from chatcli.events import Event
from chatcli.records import ReplyRecord
from chatcli.store.sessions.listing import Summary
from chatcli.store.sessions.search import SearchResult


@dataclass(frozen=True)
class Table:
    """`title` may be empty. `notes` come below: what was compared, and where a target is missed."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    notes: Sequence[str] = ()


@dataclass(frozen=True)
class PlainText:
    """A sentence or two in answer to a command."""

    text: str


@dataclass(frozen=True)
class HeadMoved(PlainText):
    """The open session now continues from another of its turns."""

    name: str
    conversation: Conversation


@dataclass(frozen=True)
class Help:
    """The commands by group: (group, [(command, what it does)]), and the main `keys`."""

    groups: Sequence[tuple[str, Sequence[tuple[str, str]]]]
    keys: bool = True


@dataclass(frozen=True)
class CommandHelp:
    """How one command is written, what it does, its other names, and an example (or "")."""

    usage: str
    details: str
    aliases: Sequence[str]
    example: str


@dataclass(frozen=True)
class KeyHelp:
    """All keys, and what they do."""


@dataclass(frozen=True)
class Listing:
    """Sessions, newest first; `more` older ones are not shown, and `all_command` lists them."""

    summaries: Sequence[Summary]
    more: int = 0
    all_command: str = ""


@dataclass(frozen=True)
class Transcript:
    """A conversation's turns along its current path, with their thinking or without it."""

    name: str
    conversation: Conversation
    thinking: bool = False


@dataclass(frozen=True)
class Search:
    """A search of all sessions: the query as it was typed, and what `find` returns for another one."""

    query: str
    find: Callable[[str], SearchResult]


@dataclass(frozen=True)
class Tree:
    name: str
    conversation: Conversation


@dataclass(frozen=True)
class Stats:
    """The numbers of each turn of a session: (turn, record)."""

    name: str
    turns: Sequence[tuple[int, ReplyRecord]]

    @classmethod
    def of(cls, name: str, conversation: Conversation) -> Stats:
        """Those of a conversation's path."""
        return cls(name, [(turn.number, turn.reply.record) for turn in conversation.turns() if turn.reply])


@dataclass(frozen=True)
class Opened:
    """Another session is open now. `notes` say what was repaired or failed, `said` why it was opened."""

    name: str
    conversation: Conversation
    notes: Sequence[str] = ()
    said: str = ""


@dataclass(frozen=True)
class Stream:
    """A turn's events. Setting the `threading.Event` that `events` gets stops them."""

    events: Callable[[threading.Event], Generator[Event]]


@dataclass(frozen=True)
class EditableMessage:
    """A message for the person to change and send again."""

    text: str


@dataclass(frozen=True)
class ClipboardText:
    """Text for the clipboard; `what` describes it.

    `way` is what copied it, as `tui.terminal.clipboard.copy` returns it; None if nothing did.
    """

    text: str
    what: str
    way: str | None = None


@dataclass(frozen=True)
class PanelMode:
    """How much of each turn's numbers is shown from now on: line, full or off."""

    mode: str


@dataclass(frozen=True)
class Context:
    """The parts of the next prompt as (what, tokens), and how many tokens the context takes."""

    parts: Sequence[tuple[str, int]]
    limit: int


@dataclass(frozen=True)
class Quit:
    pass


Result = (
    PlainText
    | HeadMoved
    | Help
    | CommandHelp
    | KeyHelp
    | Listing
    | Transcript
    | Tree
    | Stats
    | Table
    | Opened
    | Stream
    | EditableMessage
    | ClipboardText
    | PanelMode
    | Context
    | Search
    | SearchResult
    | Quit
)
