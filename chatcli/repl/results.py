"""What commands return: values to be shown; refuses to know how."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from chatcli.conversation import Conversation
from chatcli.repl.registry import Command
from chatcli.store.segments import Usage
from chatcli.store.sessions import Summary


@dataclass(frozen=True)
class Said:
    """One sentence in answer to a command."""

    text: str


@dataclass(frozen=True)
class Help:
    commands: Sequence[Command]


@dataclass(frozen=True)
class Listing:
    summaries: Sequence[Summary]


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
    folder: str
    usages: Sequence[Usage]


@dataclass(frozen=True)
class Opened:
    """Another session is open now; `notes` say what was found on the way."""

    name: str
    conversation: Conversation
    notes: Sequence[str] = ()


@dataclass(frozen=True)
class Quit:
    pass


Result = Said | Help | Listing | Transcript | Tree | Stats | DiskUse | Opened | Quit
