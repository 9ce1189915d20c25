"""Parses session files into conversations, and encodes their lines.

A torn last line, which a crash leaves, is dropped. Any other bad line is skipped and reported. A file of a
newer version is refused.
"""

from __future__ import annotations

import codecs
import datetime
import json
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from chatcli.conversation.images import FORMATS
from chatcli.conversation.tree import Conversation, Entry, Message, Picture
from chatcli.errors import SessionUnreadable, SessionVersionError
from chatcli.events import ToolCall
from chatcli.records import ReplyRecord, is_count, is_number, is_shallow, valid_record
from chatcli.text import clean_line, count, decodable

SESSION_VERSION = 1
DECODER = json.JSONDecoder()
# The errors that reading a damaged line can raise.
DAMAGE = (ValueError, KeyError, TypeError, RecursionError)
# How a line with a part of a reply begins, as `part_line` writes it.
PART = re.compile(rb'\{"type": "part", "id": "(\w+)"', re.ASCII)
# The latest time that Python's calendar supports, in the year 9999, in seconds since the epoch.
MAX_SECONDS = 253402300799.0
SHA256 = re.compile(r"[0-9a-f]{64}")
# The most levels of JSON in template arguments, which may be a list of tools.
MAX_ARGUMENT_DEPTH = 17


@dataclass
class Transcript:
    """A session as read from disk: the conversation, and what is wrong with the file.

    `torn_at` is the offset of an incomplete last line. `interrupted` are the entries of replies whose process
    was killed while they streamed.
    """

    name: str
    conversation: Conversation
    problems: list[str] = field(default_factory=list)
    torn_at: int | None = None
    interrupted: set[str] = field(default_factory=set)


def parse(name: str, data: bytes) -> Transcript:
    """A session from its file's bytes. Raises `SessionUnreadable` or `SessionVersionError`."""
    whole, _, torn = data.rpartition(b"\n")
    first, *lines = whole.split(b"\n")
    transcript = Transcript(name, header(name, first))
    reader = _Reader(transcript)
    for number, line in enumerate(lines, start=2):
        reader.read(number, line)
    reader.add_interrupted()
    reader.join_parts()
    if reader.patched:
        # The records' boundaries belong to the paths before a message was lost.
        for entry in list(transcript.conversation.entries.values()):
            record = entry.record.copy()
            record.pop("boundaries", None)
            transcript.conversation.entries[entry.id] = replace(entry, record=record)
    if torn:
        transcript.torn_at = len(data) - len(torn)
        transcript.problems.append(f"an unfinished last line ({len(torn)} bytes) was dropped")
    return transcript


def header(name: str, line: bytes) -> Conversation:
    """The empty conversation that a first line describes. Raises as `parse` does."""
    unreadable = SessionUnreadable(
        f"The session '{name}' cannot be read: its first line is damaged. It has not been touched."
    )
    try:
        fields = decode(line.removeprefix(codecs.BOM_UTF8))
        version = fields["version"]
        if fields["type"] != "session" or not isinstance(version, int):
            raise unreadable
        if version <= SESSION_VERSION:
            system, model = fields.get("system"), fields.get("model")
            return Conversation(_date(fields["date"]), _text_or_none(system), _text_or_none(model))
    except DAMAGE as error:
        raise unreadable from error
    raise SessionVersionError(
        f"The session '{name}' was written by a newer chatcli (format {version}): "
        "upgrade chatcli to open it. It has not been touched."
    )


class _Reader:
    """Applies a file's lines to a transcript, in order."""

    def __init__(self, transcript: Transcript) -> None:
        self._name = transcript.name
        self._problems = transcript.problems
        self._tree = transcript.conversation
        self._number = 0
        # The entries that replace missing parents, by the parents' ids.
        self._stand_ins: dict[str | None, str | None] = {}
        self.patched = False
        # The lines of unfinished replies, by id. They are decoded only if needed.
        self._parts: dict[str, list[tuple[int, bytes]]] = {}
        self._unread: dict[str, None] = {}
        self._interrupted = transcript.interrupted

    def read(self, number: int, line: bytes) -> None:
        if (part := PART.match(line)) is not None:
            identifier = part[1].decode()
            self._parts.setdefault(identifier, []).append((number, line))
            self._unread[identifier] = None
            return
        self._number = number
        try:
            self._apply(decode(line))
        except DAMAGE:
            self._problem("is damaged: skipped")

    def add_interrupted(self) -> None:
        """Add the unfinished replies, with their first parts only."""
        for identifier in self._unread:
            if identifier in self._interrupted:
                continue
            self._number, line = self._parts[identifier][0]
            head = self._tree.head
            try:
                first = {**decode(line), "type": "assistant", "finish_reason": "cancelled"}
                self._add(self._entry(first))
            except DAMAGE:
                self._problem("is damaged: skipped")
                del self._parts[identifier]
                continue
            # Of several replies at once the head moves to the first. It never moves to one beside the
            # conversation.
            question = self._tree.entries[identifier].parent
            is_whole = head is not None and head not in self._interrupted
            if head != question and not (is_whole and self._tree.entries[head or ""].parent == question):
                self._tree.head = head
            self._interrupted.add(identifier)
        self._unread.clear()

    def join_parts(self) -> None:
        """Complete the unfinished replies with their other parts, up to a damaged or missing one.

        Called once, at the end, because other lines may be between any two parts.
        """
        for identifier, parts in self._parts.items():
            texts, thoughts = list[str](), list[str]()
            generated: list[int] = []
            for self._number, line in parts:
                try:
                    part = decode(line)
                    text, thought = _text(part["content"]), _text(part["thinking"])
                    tokens = valid_record({"generated": part["generated"]})["generated"]
                    if part["at"] != len(generated):
                        raise ValueError(part)
                except DAMAGE:
                    self._problem("is damaged: the reply ends before it")
                    break
                texts.append(text)
                thoughts.append(thought)
                generated += tokens
            entry = self._tree.entries[identifier]
            content, thinking = "".join(texts).rstrip("\n"), "".join(thoughts).rstrip("\n")
            self._tree.entries[identifier] = replace(
                entry,
                message=replace(entry.message, content=content, thinking=thinking),
                record={**entry.record, "generated": generated},
            )

    def _problem(self, what: str) -> None:
        self._problems.append(f"line {self._number} of the session '{self._name}' {what}")

    def _apply(self, line: dict[str, Any]) -> None:
        kind = line["type"]
        if kind in ("user", "assistant", "tool"):
            entry = self._entry(line)
            # The whole reply replaces its parts.
            self._parts.pop(entry.id, None)
            self._unread.pop(entry.id, None)
            self.add_interrupted()
            self._add(entry)
            self._interrupted.discard(entry.id)
            return
        self.add_interrupted()
        if kind == "note":
            self._tree.note(line["id"], self._record(line["record"]))
        elif kind == "head":
            head = self._stand_ins.get(line["id"], line["id"])
            self._tree.head = None if head is None else self._tree.entries[head].id
        elif kind == "label":
            entry_id, label = self._tree.entries[line["id"]].id, _text(line["label"])
            self._tree.labels[entry_id] = label
            if not label:
                del self._tree.labels[entry_id]
        else:
            for name, (of, read) in ATTRIBUTES.get(kind, {}).items():
                setattr(self._tree, of, read(line[name]))

    def _entry(self, line: dict[str, Any]) -> Entry:
        content, thinking = _text(line["content"]), _text(line.get("thinking", ""))
        images, calls = self._images(line.get("images", [])), tool_calls_of(line.get("tool_calls", []))
        message = Message(line["type"], content, thinking, images, calls, _text(line.get("tool_call_id", "")))
        identifier, parent = line["id"], _text_or_none(line["parent"])
        if not _text(identifier) or identifier == parent:
            raise ValueError(identifier)
        if not is_number(line["time"]):
            raise ValueError(line["time"])
        # Times that the calendar does not support become 0, which means unknown.
        created = float(line["time"]) if 0 <= line["time"] <= MAX_SECONDS else 0.0
        reason, record = line.get("finish_reason"), self._record(line.get("record", {}))
        return Entry(identifier, parent, message, created, _text_or_none(reason), record)

    def _images(self, fields: Any) -> tuple[Picture, ...]:
        """A message's images; none if they are damaged."""
        try:
            return tuple(map(picture_of, fields))
        except DAMAGE:
            self._problem("has a damaged list of images: left out")
            return ()

    def _add(self, entry: Entry) -> None:
        """Add an entry to the tree. If its parent is missing, it continues from the head."""
        entries = self._tree.entries
        if entry.id in self._interrupted:
            entries[entry.id] = replace(entry, parent=entries[entry.id].parent)
            self._tree.head = entry.id
            return
        if entry.id in entries:
            raise KeyError(entry.id)
        parent = self._stand_ins.get(entry.parent, entry.parent)
        if parent is not None and parent not in entries:
            parent, self.patched = self._stand_in(parent, entry), True
            self._problem("continues a missing message: attached to the current path")
        self._tree.add(entry if parent == entry.parent else replace(entry, parent=parent))

    def _stand_in(self, lost: str, entry: Entry) -> str | None:
        """The parent for an orphan: the head, or an empty message if two of the same role would meet."""
        head = self._tree.entries.get(self._tree.head or "")
        role = head.message.role if head is not None else "assistant"
        if role == entry.message.role:
            other = Message("user" if role == "assistant" else "assistant", "")
            self._tree.add(Entry(lost, self._tree.head, other, entry.created))
            return lost
        self._stand_ins[lost] = self._tree.head
        return self._tree.head

    def _record(self, record: Any) -> ReplyRecord:
        """The fields of a record that have the right type."""
        valid = valid_record(record)
        if valid != record:
            self._problem("has a damaged record: left out")
        return valid


def decode(line: bytes) -> Any:
    """A line's JSON. Raises one of `DAMAGE`."""
    return DECODER.decode(line.decode())


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(value)
    return value if value.isascii() else decodable(value)


def _text_or_none(value: Any) -> str | None:
    return None if value is None else _text(value)


def _date(value: Any) -> str:
    return datetime.date.fromisoformat(value).isoformat()


def arguments_of(value: Any) -> dict[str, Any]:
    """A JSON object that is not too deep. Raises one of `DAMAGE` for anything else."""
    if not isinstance(value, dict) or not is_shallow(value, MAX_ARGUMENT_DEPTH):
        raise TypeError(value)
    return value


# Lines that set an attribute of the whole conversation: for each type and field, the attribute and its
# parser.
ATTRIBUTES: Mapping[str, Mapping[str, tuple[str, Callable[[Any], Any]]]] = {
    "system": {"content": ("system", _text_or_none)},
    "model": {"model": ("model", _text)},
    "date": {"date": ("date", _date)},
    "template": {"effort": ("effort", _text_or_none), "args": ("template_args", arguments_of)},
    "running": {"running": ("model_options", arguments_of)},
    "set": {"set": ("settings", arguments_of)},
}


def picture_of(value: Any) -> Picture:
    """An image of a message from its fields. Raises one of `DAMAGE`."""
    picture = Picture(value["sha256"], _text(value["name"]), value["kind"], value["width"], value["height"])
    sizes = picture.width, picture.height
    is_image = SHA256.fullmatch(picture.sha256) and picture.kind in FORMATS
    if not is_image or not all(type(size) is int for size in sizes):
        raise ValueError(value)
    return replace(picture, name=clean_line(picture.name))


def tool_calls_of(value: Any) -> tuple[ToolCall, ...]:
    """The calls of a reply from its fields. Raises one of `DAMAGE`."""
    calls = [
        ToolCall(_text(call["name"]), _text(call["arguments"]), _text(call["id"]), call["start"], call["end"])
        for call in value
    ]
    if not all(is_count(call.start) and is_count(call.end) for call in calls):
        raise ValueError(value)
    return tuple(calls)


def entry_line(entry: Entry) -> dict[str, Any]:
    """The fields of an entry's line."""
    message = entry.message
    line: dict[str, Any] = {
        "type": message.role,
        "id": entry.id,
        "parent": entry.parent,
        "content": message.content,
        "time": round(entry.created, 3),
    }
    if message.role == "assistant":
        line["thinking"] = message.thinking
        line["finish_reason"] = entry.finish_reason
        line["record"] = dict(entry.record)
    if message.tool_calls:
        line["tool_calls"] = [asdict(call) for call in message.tool_calls]
    if message.role == "tool":
        line["tool_call_id"] = message.tool_call_id
    if message.images:
        line["images"] = [asdict(picture) for picture in message.images]
    return line


def part_line(entry_id: str, at: int, content: str, thinking: str, tokens: Sequence[int]) -> dict[str, Any]:
    """The fields of a part of a reply: everything since the part before, which ended after `at` tokens.

    The first part of a reply has the entry's `parent`, `time` and `record` too.
    """
    return {
        "type": "part",
        "id": entry_id,
        "at": at,
        "content": content,
        "thinking": thinking,
        "generated": list(tokens),
    }


def header_line(
    date: str, model: str | None, system: str | None, branched_from: str | None = None
) -> dict[str, Any]:
    """The fields of a session's first line."""
    return {
        "type": "session",
        "version": SESSION_VERSION,
        "created": round(time.time(), 3),
        "date": date,
        "model": model,
        "system": system,
        "branched_from": branched_from,
    }


def encode(fields: Mapping[str, Any]) -> bytes:
    """A line of a session file."""
    return (json.dumps(fields, ensure_ascii=False) + "\n").encode("utf-8", "replace")


def recovered(transcript: Transcript) -> Iterator[str]:
    """Sentences about what opening the session repaired, and what to do about an unfinished reply."""
    yield from transcript.problems
    conversation = transcript.conversation
    turn = len(conversation.turns())
    if conversation.unanswered() is not None:
        yield f"Turn {turn} got no reply. /regenerate answers it."
    elif conversation.head in transcript.interrupted:
        yield f"Turn {turn}'s reply was cut off. /continue resumes it, /regenerate writes another."
    if others := len(transcript.interrupted - {conversation.head}):
        were = "was" if others == 1 else "were"
        yield f"{count('other reply', others, 'other replies')} {were} cut off: /tree shows what came."
