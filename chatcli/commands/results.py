"""What commands return: values to be shown; refuses to know how."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from chatcli.commands.registry import Command
from chatcli.conversation.tree import Conversation
from chatcli.events import Event
from chatcli.store.sessions.listing import Summary
from chatcli.store.sessions.search import Found

if TYPE_CHECKING:
    from chatcli.store.segments.eviction import Removal
    from chatcli.store.segments.inventory import Problem, Usage


@dataclass(frozen=True)
class Table:
    """`notes` come below: what was compared, and where a target is missed."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    notes: Sequence[str] = ()


@dataclass(frozen=True)
class Said:
    """One sentence in answer to a command."""

    text: str


@dataclass(frozen=True)
class Help:
    commands: Sequence[Command]


@dataclass(frozen=True)
class Listing:
    """Sessions, newest first; `more` older ones are not shown."""

    summaries: Sequence[Summary]
    more: int = 0


@dataclass(frozen=True)
class Transcript:
    """A conversation's turns along its current path; `thinking` shows that too."""

    name: str
    conversation: Conversation
    thinking: bool = False
    last: int | None = None


@dataclass(frozen=True)
class Tree:
    name: str
    conversation: Conversation


@dataclass(frozen=True)
class Stats:
    """The numbers of each turn of a session: (turn, record)."""

    name: str
    turns: Sequence[tuple[int, Mapping[str, Any]]]


@dataclass(frozen=True)
class DiskUse:
    """What the checkpoints take, of at most `limit` bytes; the models' names by their fingerprints."""

    folder: str
    usages: Sequence[Usage]
    limit: int
    names: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Verified:
    """What is wrong with checkpoints and with transcripts; `repaired`: the former were set aside."""

    folder: Path
    damaged: Sequence[Problem]
    transcripts: Sequence[str]
    repaired: bool


@dataclass(frozen=True)
class Collected:
    """What went, or would go, and the bytes of it."""

    removals: Sequence[Removal]
    freed: int
    dry_run: bool


@dataclass(frozen=True)
class Opened:
    """Another session is open now; `notes` say what was found on the way."""

    name: str
    conversation: Conversation
    notes: Sequence[str] = ()


@dataclass(frozen=True)
class Streamed:
    """Something that streams as a turn does, until it ends or the event given to it is set."""

    events: Callable[[threading.Event], Iterator[Event]]


@dataclass(frozen=True)
class Written:
    """A message for the person to change and send again."""

    text: str


@dataclass(frozen=True)
class Copied:
    """Text for the clipboard, and what it is."""

    text: str
    what: str


@dataclass(frozen=True)
class PanelMode:
    """How much of each turn's numbers is shown from now on: line, full or off."""

    mode: str


@dataclass(frozen=True)
class Context:
    """Where the tokens of the next prompt are: (what, tokens), and the most that there may be."""

    parts: Sequence[tuple[str, int]]
    limit: int


@dataclass(frozen=True)
class Quit:
    pass


Result = (
    Said
    | Help
    | Listing
    | Transcript
    | Tree
    | Stats
    | DiskUse
    | Verified
    | Collected
    | Table
    | Opened
    | Streamed
    | Written
    | Copied
    | PanelMode
    | Context
    | Found
    | Quit
)
