"""Reads conversations from JSON exports, and from messages in OpenAI's format."""

from __future__ import annotations

import base64
import contextlib
import datetime
import hashlib
import json
import os
import re
import stat
import time
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

from chatcli import files
from chatcli.conversation.images import Image
from chatcli.conversation.tree import Conversation, Entry, Message, Role, new_id
from chatcli.errors import BadName, NotImportable
from chatcli.exchange.export import FORMAT, VERSION
from chatcli.replies.thinking import split_thinking
from chatcli.store.sessions.folder import SessionFile, SessionFolder, slug
from chatcli.store.sessions.images import Gallery
from chatcli.store.sessions.transcript import arguments_of, picture_of, tool_calls_of
from chatcli.text import clean_line, decodable

# Other programs' names for a reply's thinking.
THINKING_KEYS = ("reasoning_content", "reasoning", "thinking")
# The types of text parts of messages in OpenAI's APIs.
TEXT_TYPES = ("text", "input_text", "output_text")
# The year 5138 in seconds since the epoch. Later times are invalid.
MAX_TIME = 1e11
SEALED_SUFFIX = ".chatcli"
# The bytes after the first four of a sealed conversation (`sealed.py`). No text contains them.
SEALED_START = b"\0\0\0\0{"
ID = re.compile(r"\w{1,128}", re.ASCII)


def is_sealed(path: Path) -> bool:
    """Whether a file is named like a sealed conversation, or begins like one, as no text does."""
    if path.name.endswith(SEALED_SUFFIX):
        return True
    with contextlib.suppress(OSError), files.open_named(path) as file:
        if stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            return file.read(9)[4:] == SEALED_START
    return False


@dataclass(frozen=True)
class Imported:
    """A conversation that was read, and its name, if it had one."""

    conversation: Conversation
    name: str | None = None
    images: tuple[Image, ...] = ()


def read(data: bytes) -> Imported:
    """Read a conversation from an export, a list of messages, or messages one per line.

    Raises `NotImportable`.
    """
    if data[4:9] == SEALED_START:
        raise NotImportable("A sealed conversation cannot be read from a pipe: name its file.")
    try:
        parsed = _json(data.decode("utf-8-sig"))
    except (ValueError, RecursionError) as error:
        raise NotImportable(
            "This is not a conversation: give a JSON export of chatcli, or a JSON list of messages."
        ) from error
    if isinstance(parsed, dict) and parsed.get("format") == FORMAT:
        return _from_export(parsed)
    if isinstance(parsed, dict) and parsed.get("type") == "session":
        raise NotImportable(
            "This is a session file: put it into the sessions folder, "
            "or import what 'chatcli export --format json' writes."
        )
    if isinstance(parsed, dict) and "messages" in parsed:
        return Imported(_from_messages(parsed["messages"], parsed.get("system")))
    is_message = isinstance(parsed, dict) and "role" in parsed
    return Imported(_from_messages([parsed] if is_message else parsed, None))


def _json(text: str) -> Any:
    """A JSON value, or a list with the value of each line (JSONL)."""
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        values = [json.loads(line) for line in text.split("\n") if line.strip()]
        first = values[0] if values else None
        own_file = isinstance(first, dict) and first.get("type") == "session"
        return first if own_file else values


def _from_export(exported: Mapping[str, Any]) -> Imported:
    """The conversation of an export from `export.to_dict`."""
    version = exported.get("version")
    if type(version) is not int or version < 1:
        raise NotImportable("This export is damaged: its version is not a number.")
    if version > VERSION:
        raise NotImportable(
            f"This was exported by a newer chatcli (format {version}): upgrade chatcli to import it."
        )
    try:
        name = _text_or_none(exported.get("session"), "the session's name")
        conversation = _tree(exported)
        images = tuple(_images(exported["entries"]))
    except (ValueError, KeyError, TypeError, OverflowError) as error:
        raise NotImportable(f"This export is damaged: {_damage(error)}.") from error
    if not conversation.entries:
        raise NotImportable("This export contains no user or assistant messages.")
    return Imported(conversation, name, images)


def _tree(exported: Mapping[str, Any]) -> Conversation:
    """Raises `ValueError` that says what is wrong, `KeyError` or `TypeError`."""
    date = datetime.date.fromisoformat(_text(exported["date"], "the date")).isoformat()
    system = _text_or_none(exported["system"], "the system prompt")
    tree = Conversation(date, system, _text_or_none(exported["model"], "the model's name"))
    if not isinstance(exported["entries"], list):
        raise ValueError("'entries' is not a list")
    for number, fields in enumerate(exported["entries"], start=1):
        entry = _entry(number, fields)
        if entry.id in tree.entries or not (entry.parent is None or entry.parent in tree.entries):
            raise ValueError(f"entry {number} has no place in the tree")
        tree.add(entry)
    labels = exported.get("labels", {})
    if not isinstance(labels, dict):
        raise ValueError("'labels' is not an object")
    for identifier, label in labels.items():
        tree.labels[tree.entries[identifier].id] = _text(label, "a label")
    head = exported["head"]
    tree.head = None if head is None else tree.entries[head].id
    tree.effort = _text_or_none(exported.get("effort"), "the effort")
    tree.template_args = arguments_of(exported.get("template_args", {}))
    tree.settings = arguments_of(exported.get("settings", {}))
    return tree


def _images(entries: Sequence[Mapping[str, Any]]) -> Iterator[Image]:
    """The images embedded in an export. Raises `ValueError`."""
    for fields in (image for entry in entries for image in entry.get("images", ()) if "data" in image):
        picture, data = picture_of(fields), base64.b64decode(fields["data"], validate=True)
        if hashlib.sha256(data).hexdigest() != picture.sha256:
            raise ValueError(f"the image {picture.name} has other content than its digest says")
        yield Image(picture, data)


def _entry(number: int, fields: Any) -> Entry:
    is_entry = isinstance(fields, dict) and fields.get("role") in ("user", "assistant", "tool")
    if not is_entry or not isinstance(fields["id"], str) or not ID.fullmatch(fields["id"]):
        raise ValueError(f"entry {number} is not a message")
    where = f"of entry {number}"
    created = fields["time"]
    if type(created) not in (int, float) or not 0 <= created < MAX_TIME:
        raise ValueError(f"the time {where} is invalid")
    thinking = fields.get("thinking", "") if fields["role"] == "assistant" else ""
    pictures = fields.get("images", [])
    if not isinstance(pictures, list) or not all(isinstance(picture, dict) for picture in pictures):
        raise ValueError(f"'images' {where} is not a list of images")
    message = Message(
        fields["role"],
        _text(fields["content"], f"the content {where}"),
        _text(thinking, f"the thinking {where}"),
        tuple(map(picture_of, pictures)),
        tool_calls_of(fields.get("tool_calls", [])),
        _text(fields.get("tool_call_id", ""), f"the tool_call_id {where}"),
    )
    reason = _text_or_none(fields.get("finish_reason"), f"the finish_reason {where}")
    return Entry(
        fields["id"], _text_or_none(fields["parent"], f"the parent {where}"), message, float(created), reason
    )


def _damage(error: Exception) -> str:
    if isinstance(error, KeyError):
        return f"'{clean_line(str(error.args[0]))}' is missing"
    return clean_line(str(error)) if isinstance(error, ValueError) else "a part is invalid"


def _text(value: Any, what: str) -> str:
    """Check a text. Raises `ValueError`, which names `what`."""
    if not isinstance(value, str):
        raise ValueError(f"{what} is not text")
    return decodable(value)


def _text_or_none(value: Any, what: str) -> str | None:
    return None if value is None else _text(value, what)


def _from_messages(given: Any, system: Any) -> Conversation:
    """A conversation from messages in OpenAI's format."""
    if not (system is None or isinstance(system, str)):
        raise NotImportable("The system prompt is not text.")
    if not isinstance(given, list) or not all(isinstance(fields, dict) for fields in given):
        raise NotImportable("This is not a list of messages: each must be an object with a role.")
    if any("messages" in fields for fields in given):
        raise NotImportable("The file contains several conversations: import them one by one.")
    if given and not any("role" in fields for fields in given):
        raise NotImportable(
            "This is another program's export in a format of its own: give a JSON list of messages, "
            "each an object with a role and a content."
        )
    messages = [_message(number, fields) for number, fields in enumerate(given, start=1)]
    prompts = [system] if isinstance(system, str) else []
    prompts += [message.content for message in messages if message.role == "system"]
    tree = Conversation(datetime.date.today().isoformat(), _joined(prompts) or None)
    for message in _alternating([message for message in messages if message.role != "system"]):
        reason = "stop" if message.role == "assistant" else None
        tree.add(Entry(new_id(), tree.head, message, time.time(), reason))
    if not tree.entries:
        raise NotImportable("The file contains no user or assistant messages.")
    return tree


def _message(number: int, fields: Mapping[str, Any]) -> Message:
    role = fields.get("role")
    role = "system" if role == "developer" else role
    if role not in ("system", "user", "assistant") or fields.get("tool_calls"):
        whose = "calls a tool" if fields.get("tool_calls") else f"is from {_name(role)}"
        raise NotImportable(
            f"Message {number} {whose}: only text of system, user and assistant can be imported."
        )
    if fields.get("images"):
        raise NotImportable(f"Message {number} is not text alone, so it cannot be imported whole.")
    thinking, content = "", fields.get("content")
    if role == "assistant":
        given = next((fields[key] for key in THINKING_KEYS if fields.get(key)), "")
        if not given and isinstance(content, list):
            # Thinking in parts of the content, as in Anthropic's and Mistral's formats.
            thoughts = [part for part in content if isinstance(part, dict) and part.get("type") == "thinking"]
            given = [{"type": "text", "text": part.get("thinking")} for part in thoughts]
            content = [part for part in content if part not in thoughts]
        thinking = _content(number, given)
    content = _content(number, content, optional=bool(thinking))
    if role == "assistant" and not thinking:
        thinking, content = split_thinking(content)
    return Message(cast(Role, role), content, thinking)


def _name(role: Any) -> str:
    return f"'{clean_line(role)[:40]}'" if isinstance(role, str) else "nobody"


def _content(number: int, content: Any, *, optional: bool = False) -> str:
    """A message's text; missing text is allowed if `optional`."""
    if content is None and optional:
        return ""
    if isinstance(content, str):
        return decodable(content)
    parts: list[Any] = content if isinstance(content, list) else [None]
    if not all(isinstance(part, dict) and part.get("type") in TEXT_TYPES for part in parts):
        raise NotImportable(f"Message {number} is not text alone, so it cannot be imported whole.")
    return "".join(_content(number, part.get("text")) for part in parts)


def _alternating(messages: Sequence[Message]) -> Iterator[Message]:
    """Make roles alternate, starting with a user's: neighbours with the same role are joined."""
    last: Message | None = None
    for message in messages:
        if last is not None and last.role == message.role:
            last = replace(
                last,
                content=_joined([last.content, message.content]),
                thinking=_joined([last.thinking, message.thinking]),
            )
            continue
        if last is not None:
            yield last
        elif message.role == "assistant":
            # A greeting at the start answers no message.
            yield Message("user", "")
        last = message
    if last is not None:
        yield last


def _joined(texts: Sequence[str]) -> str:
    return "\n\n".join(text for text in texts if text)


def safe_name(name: str) -> str:
    """A name from a file, reduced to letters, digits and marks of any script, `-`, `_` and `.`."""
    kept = "".join(
        char if char.isalnum() or char in "-_." or unicodedata.category(char).startswith("M") else " "
        for char in name
    )
    return "-".join(kept.split()).strip("-.")


def save(folder: SessionFolder, imported: Imported, name: str | None = None) -> SessionFile:
    """Save an imported conversation as a session called `name`, else by its own name, else by its first
    words.

    Raises `SessionExists` if `name` is taken, `BadName`, or `FolderError`.
    """
    conversation = imported.conversation
    if name is None:
        contents = (entry.message.content for entry in conversation.entries.values())
        name = slug(next(filter(str.strip, contents), ""))
        with contextlib.suppress(BadName):
            name = files.check_name(safe_name(imported.name)) if imported.name is not None else name
        name = folder.free_name(name)
    with (
        Gallery(folder.location).keeping(imported.images),
        folder.building(
            name, model=conversation.model, system=conversation.system, date=conversation.date
        ) as session,
    ):
        session.fill(conversation)
    return session
