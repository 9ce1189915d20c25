"""A conversation as a tree of messages."""

from __future__ import annotations

import datetime
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from chatcli.conversation import attachments
from chatcli.errors import TurnOutOfRange
from chatcli.events import ToolCall
from chatcli.records import ReplyRecord

Role = Literal["system", "user", "assistant", "tool"]
ROLE_NAMES: dict[Role, str] = {"system": "system", "user": "you", "assistant": "reply", "tool": "tool"}
# Finish reasons of replies that did not finish.
CUT_SHORT = ("cancelled", "length")


@dataclass(frozen=True)
class Picture:
    """An image in a message: the sha256 of its file (hexadecimal), and how it is shown.

    `kind` is the file's suffix; width and height are in pixels.
    """

    sha256: str
    name: str
    kind: str
    width: int
    height: int

    def __str__(self) -> str:
        """The image's chip: [image: cat.png 640×480]."""
        return f"[image: {self.name} {self.width}×{self.height}]"


@dataclass(frozen=True)
class Message:
    """A message. Thinking is kept beside the content, never in it; images come before it.

    `tool_calls` are a reply's calls that the client runs, and which the template shows as calls. A message of
    role `tool` is the result of the call `tool_call_id`.
    """

    role: Role
    content: str
    thinking: str = ""
    images: tuple[Picture, ...] = ()
    tool_calls: tuple[ToolCall, ...] = ()
    tool_call_id: str = ""

    @property
    def text(self) -> str:
        """The content without the parts that are calls."""
        text, end = "", 0
        for call in self.tool_calls:
            text, end = text + self.content[end : call.start], max(end, call.end)
        return text + self.content[end:]

    @property
    def shown(self) -> str:
        """The content below a chip for each image."""
        return "\n".join([*map(str, self.images), self.content])

    @property
    def brief(self) -> str:
        """`shown` without the text of attached files."""
        return "\n".join([*map(str, self.images), attachments.typed_text(self.content)])


@dataclass(frozen=True)
class Entry:
    """A message at its place in the tree.

    A reply's `record` holds the turn's measured numbers; a user message has none. `created` is in
    seconds since the epoch.
    """

    id: str
    parent: str | None
    message: Message
    created: float
    finish_reason: str | None = None
    record: ReplyRecord = field(default_factory=ReplyRecord)


@dataclass(frozen=True)
class Turn:
    """A user message and its reply, numbered from 1 along one path.

    `steps` are the replies before it that called tools, and the tools' results.
    """

    number: int
    user: Entry
    reply: Entry | None
    steps: tuple[Entry, ...] = ()


@dataclass
class Conversation:
    """The tree, and the head, which is the entry that the next message continues.

    `date` (ISO 8601) is the day of the first turn unless it was set. Templates that print the date get this
    one even on later days. `effort` is how much the model should think, `template_args` are other variables
    of its template; None or empty leaves them to the template. `model_options` are the fields of
    `settings.ModelOptions` with which its model is run, if not the defaults. `settings` are the values of
    `/set` and `/think`: fields of `settings.Sampling`, and `think`; None is the model's own.
    """

    date: str
    system: str | None = None
    model: str | None = None
    entries: dict[str, Entry] = field(default_factory=dict)
    head: str | None = None
    labels: dict[str, str] = field(default_factory=dict)
    effort: str | None = None
    template_args: Mapping[str, Any] = field(default_factory=dict)
    model_options: Mapping[str, Any] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)

    def add(self, entry: Entry) -> Entry:
        """Add `entry` to the tree and move the head to it.

        Raises `KeyError` if the parent is missing or the id exists already.
        """
        if entry.id in self.entries:
            raise KeyError(entry.id)
        if entry.parent is not None and entry.parent not in self.entries:
            raise KeyError(entry.parent)
        self.entries[entry.id] = entry
        self.head = entry.id
        return entry

    def note(self, entry_id: str, record: ReplyRecord) -> Entry:
        """Add numbers that became known after the entry was written."""
        entry = self.entries[entry_id]
        self.entries[entry_id] = replace(entry, record={**entry.record, **record})
        return self.entries[entry_id]

    def path(self, leaf: str | None = None) -> list[Entry]:
        """The entries from the root to `leaf` (default: the head)."""
        path: list[Entry] = []
        entries, cursor = self.entries, self.head if leaf is None else leaf
        while cursor is not None:
            entry = entries[cursor]
            path.append(entry)
            cursor = entry.parent
        return path[::-1]

    def upto(self, leaf: str | None) -> Conversation:
        """The entries from the root to `leaf`, the head, as a conversation of its own."""
        entries = {entry.id: entry for entry in self.path(leaf)} if leaf else {}
        labels = {entry_id: label for entry_id, label in self.labels.items() if entry_id in entries}
        return replace(self, entries=entries, head=leaf, labels=labels)

    def elsewhere(self, leaf: str) -> list[str]:
        """What was said off the path to `leaf`, and all thinking, which templates drop: oldest first."""
        path = {entry.id for entry in self.path(leaf)}
        messages = [(entry.message, entry.id in path) for entry in list(self.entries.values())]
        texts = ((each.thinking, "" if is_on_path else each.content) for each, is_on_path in messages)
        return [text for pair in texts for text in pair if text]

    def turns(self, leaf: str | None = None) -> list[Turn]:
        """The path as turns."""
        turns: list[Turn] = []
        for entry in self.path(leaf):
            if entry.message.role == "user":
                turns.append(Turn(len(turns) + 1, entry, None))
            elif turns and entry.message.role == "assistant":
                turns[-1] = replace(turns[-1], reply=entry)
            elif turns:
                called = [] if turns[-1].reply is None else [turns[-1].reply]
                turns[-1] = replace(turns[-1], reply=None, steps=(*turns[-1].steps, *called, entry))
        return turns

    def turn_count(self, leaf: str | None = None) -> int:
        """How many turns the path has."""
        return sum(entry.message.role == "user" for entry in self.path(leaf))

    def end_of_turn(self, number: int) -> str:
        """The id of the last entry of turn `number` on the head's path.

        Raises `TurnOutOfRange` with the valid range.
        """
        turns = self.turns()
        if not 1 <= number <= len(turns):
            have = f"turns 1 to {len(turns)}" if turns else "no turns yet"
            raise TurnOutOfRange(f"There is no turn {number}: this session has {have}.")
        turn = turns[number - 1]
        return (turn.reply or (turn.user, *turn.steps)[-1]).id

    def unanswered(self, leaf: str | None = None) -> Entry | None:
        """The message or tool result at `leaf` (default: the head), if it has no reply."""
        entry = self.entries.get(leaf or self.head or "")
        return entry if entry is not None and entry.message.role != "assistant" else None

    def children(self, parent: str | None) -> list[Entry]:
        """The entries that continue `parent`, oldest first."""
        return [entry for entry in self.entries.values() if entry.parent == parent]

    def continued(self) -> set[str]:
        """The ids of cut-off replies that /continue has continued: a newer sibling contains them.

        Such a reply is still a branch if the head is on it or messages follow it.
        """
        replies: dict[str | None, list[Entry]] = {}
        entries = list(self.entries.values())  # a copy, because another thread may append an entry
        parents = {entry.parent for entry in entries} | {self.head}
        for entry in entries:
            if entry.message.role == "assistant":
                replies.setdefault(entry.parent, []).append(entry)
        return {
            cut.id
            for siblings in replies.values()
            for number, cut in enumerate(siblings)
            if cut.finish_reason in CUT_SHORT
            and cut.id not in parents
            and any(_goes_on(cut.message, later.message) for later in siblings[number + 1 :])
        }

    def branch_count(self) -> int:
        """The number of leaves."""
        # A copy, because another thread may append an entry.
        entries = list(self.entries.values())
        return len(entries) - len({entry.parent for entry in entries} - {None}) - len(self.continued())


def _goes_on(cut: Message, later: Message) -> bool:
    """Whether `later` begins with all of `cut`."""
    if not cut.content:
        return later.thinking.startswith(cut.thinking)
    return later.thinking == cut.thinking and later.content.startswith(cut.content.rstrip())


def date_in_words(date: str) -> str:
    """A date (ISO 8601) in words: 3 November 2026. Raises `ValueError` if it is not a date."""
    day = datetime.date.fromisoformat(date)
    return f"{day.day} {day:%B} {day.year}"


def new_id() -> str:
    """A unique id for an entry: 12 hexadecimal digits."""
    return uuid.uuid4().hex[:12]
