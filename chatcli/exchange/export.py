"""Conversations as other programs read and write them; refuses to know files and terminals.

Out: Markdown, one HTML page, or JSON with the whole tree. In: that JSON, and lists of messages as
OpenAI's interface has them.
"""

from __future__ import annotations

import base64
import contextlib
import datetime
import hashlib
import html
import json
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, cast

from chatcli import files
from chatcli.conversation import finish
from chatcli.conversation.images import Image
from chatcli.conversation.tree import Conversation, Entry, Message, Picture, Role, Turn, new_id, spoken
from chatcli.errors import BadName, ChatcliError, FolderError, ImagesRefused, NotImportable
from chatcli.store.sessions.folder import SessionFile, SessionFolder, slug
from chatcli.store.sessions.images import Gallery
from chatcli.store.sessions.transcript import arguments_of, picture_of
from chatcli.text import clean, clean_line, decodable

FORMAT, VERSION = "chatcli", 1
ID = re.compile(r"\w{1,128}", re.ASCII)
LINK = re.compile(r"https?://|mailto:|#", re.IGNORECASE)
FORMATS = ("md", "html", "json")
SUFFIXES = {".md": "md", ".markdown": "md", ".json": "json", ".html": "html", ".htm": "html"}
BytesOf = Callable[[Picture], bytes]


@dataclass(frozen=True)
class Imported:
    """A conversation that was read, and the name that it had, if it had one."""

    conversation: Conversation
    name: str | None = None
    images: tuple[Image, ...] = ()


def format_of(suffix: str) -> str:
    """The format that a file's name asks for."""
    return SUFFIXES.get(suffix.lower(), "md")


def text_of(
    form: str,
    name: str,
    conversation: Conversation,
    *,
    thinking: bool = False,
    bytes_of: BytesOf | None = None,
) -> str:
    """A session in one of the formats: md, html or json (which has the thinking, and the images)."""
    if form == "json":
        return as_text(whole(name, conversation, bytes_of))
    return (page if form == "html" else markdown)(name, conversation, thinking=thinking)


def write(path: Path, text: str, *, force: bool = False) -> None:
    """Write a file of the person's, and one that is there already only by `force`.

    Raises `FolderError`.
    """
    with files.explained(f"write {path}"):
        try:
            file = path.open("w" if force else "x", encoding="utf-8", newline="\n")
        except FileExistsError:
            raise FolderError(f"{path} is there already.") from None
        with file:
            file.write(text)


def whole(name: str, conversation: Conversation, bytes_of: BytesOf | None = None) -> dict[str, Any]:
    """A session as plain data: every entry of every branch, parents first.

    `bytes_of` gives an image's file, which is kept in it; one that is lost is only named.
    """
    return {
        "format": FORMAT,
        "version": VERSION,
        "session": name,
        "model": conversation.model,
        "system": conversation.system,
        "date": conversation.date,
        "entries": [
            {
                "id": entry.id,
                "parent": entry.parent,
                "role": entry.message.role,
                "content": entry.message.content,
                "thinking": entry.message.thinking,
                "finish_reason": entry.finish_reason,
                "time": entry.created,
                **_images(entry.message, bytes_of),
            }
            for entry in conversation.entries.values()
        ],
        "labels": dict(conversation.labels),
        "head": conversation.head,
        **_told(conversation),
    }


def _images(message: Message, bytes_of: BytesOf | None) -> dict[str, Any]:
    """What a message shows, if it shows anything."""
    told = []
    for picture in message.images:
        told.append(asdict(picture))
        if bytes_of is not None:
            with contextlib.suppress(ImagesRefused):
                told[-1]["data"] = base64.b64encode(bytes_of(picture)).decode()
    return {"images": told} if told else {}


def _told(conversation: Conversation) -> dict[str, Any]:
    """What the template is told besides the date, if it is told anything."""
    told = {"effort": conversation.effort, "template_args": dict(conversation.template_args)}
    return {key: value for key, value in told.items() if value}


def as_text(exported: Mapping[str, Any]) -> str:
    """`whole` as a file: ASCII, an entry or two on a screen."""
    return json.dumps(exported, indent=2) + "\n"


def markdown(name: str, conversation: Conversation, *, thinking: bool = False) -> str:
    """The current path for people, as Markdown. Thinking is quoted."""
    parts = [f"# {clean_line(name)}", f"*{_facts(conversation)}*"]
    if conversation.system:
        parts += ["## System prompt", _quoted(conversation.system)]
    for turn in conversation.turns():
        parts += [f"## {turn.number} · You", _printed(turn.user.message.shown)]
        if turn.reply is not None:
            parts.append(f"### Reply {finish.mark(turn.reply.finish_reason)}".rstrip())
            if thinking and turn.reply.message.thinking:
                parts.append(_quoted(f"*Thinking*\n\n{turn.reply.message.thinking}"))
            parts.append(_printed(turn.reply.message.content))
    return "\n\n".join(parts) + "\n"


def _printed(text: str) -> str:
    return clean(text.replace("\r\n", "\n")).strip("\n")


def _quoted(text: str) -> str:
    return "\n".join(f"> {line}".rstrip() for line in _printed(text).split("\n"))


def _facts(conversation: Conversation) -> str:
    turns = len(conversation.turns())
    model = [clean_line(conversation.model)] if conversation.model else []
    return " · ".join([*model, spoken(conversation.date), f"{turns} turn{'s' * (turns != 1)}"])


STYLE = """
:root { color-scheme: light dark; --back: #fff; --text: #1c1d21; --dim: #676b75; --line: #dcdee3;
  --code: #f3f4f6; --you: #eaf1fc; --accent: #2559a8; }
@media (prefers-color-scheme: dark) { :root { --back: #17181b; --text: #e4e5e8; --dim: #9a9ea8;
  --line: #35373d; --code: #222429; --you: #1d2a3d; --accent: #8ab4f0; } }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 46rem; padding: 1.5rem 1rem 4rem; background: var(--back);
  color: var(--text); font: 1rem/1.6 system-ui, sans-serif; overflow-wrap: break-word; }
header { border-bottom: 1px solid var(--line); margin-bottom: 1.5rem; }
h1 { font-size: 1.4rem; margin: 0; }
header p, summary, .cut { color: var(--dim); font-size: .875rem; }
a { color: var(--accent); }
.you { background: var(--you); border-radius: .75rem; margin: 2rem 0 1rem; padding: .75rem 1rem; }
.number { color: var(--dim); float: right; font-size: .875rem; margin-left: 1rem;
  text-decoration: none; }
.plain { white-space: pre-wrap; }
details { border-left: 3px solid var(--line); margin: .75rem 0; padding-left: .75rem; }
details .plain { color: var(--dim); font-size: .9375rem; }
summary { cursor: pointer; }
pre, code { font-family: ui-monospace, Menlo, Consolas, monospace; font-size: .875rem; }
code { background: var(--code); border-radius: .25rem; padding: .1em .3em; }
pre { background: var(--code); border-radius: .5rem; line-height: 1.45; overflow-x: auto;
  padding: .75rem 1rem; }
pre code { padding: 0; }
table { border-collapse: collapse; display: block; overflow-x: auto; }
th, td { border: 1px solid var(--line); padding: .3rem .6rem; text-align: left; }
blockquote { border-left: 3px solid var(--line); color: var(--dim); margin: 1rem 0;
  padding-left: .75rem; }
hr { border: 0; border-top: 1px solid var(--line); }
"""
PAGE = """<!DOCTYPE html>
<html>
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>{style}</style>
</head>
<body>
<header><h1 dir="auto">{title}</h1><p>{facts}</p>{system}</header>
<main>
{turns}
</main>
</body>
</html>
"""


def page(name: str, conversation: Conversation, *, thinking: bool = False) -> str:
    """The current path for people, as one HTML page that loads and runs nothing."""
    system = _folded("System prompt", conversation.system) if conversation.system else ""
    render = _renderer()
    return PAGE.format(
        title=html.escape(clean_line(name)),
        style=STYLE,
        facts=html.escape(_facts(conversation)),
        system=system,
        turns="\n".join(_turn(turn, thinking, render) for turn in conversation.turns()),
    )


def _turn(turn: Turn, thinking: bool, render: Callable[[str], str]) -> str:
    number = f'<a class="number" href="#turn-{turn.number}">{turn.number}</a>'
    parts = [
        f'<section class="you" aria-label="You" id="turn-{turn.number}">{number}'
        f"{_plain(turn.user.message.shown)}</section>"
    ]
    if turn.reply is not None:
        said = turn.reply.message
        thought = _folded("Thinking", said.thinking) if thinking and said.thinking else ""
        mark = finish.mark(turn.reply.finish_reason)
        cut = f'<p class="cut">{mark}</p>' if mark else ""
        # Markdown can spell control characters out, so what comes of it is cleaned too.
        text = clean(render(_printed(said.content)))
        parts.append(f'<article aria-label="Reply" dir="auto">{thought}{text}{cut}</article>')
    return "\n".join(parts)


def _plain(text: str) -> str:
    return f'<div class="plain" dir="auto">{html.escape(_printed(text))}</div>'


def _folded(title: str, text: str) -> str:
    return f"<details><summary>{title}</summary>{_plain(text)}</details>"


def _renderer() -> Callable[[str], str]:
    """Markdown to HTML in which nothing is active: no raw HTML, no images, links to pages only."""
    from markdown_it import MarkdownIt

    class Inert(MarkdownIt):
        def validateLink(self, url: str) -> bool:  # noqa: N802 - it is called so
            return LINK.match(url) is not None

    rules = Inert("commonmark", {"html": False, "linkify": False})
    rules.enable(["table", "strikethrough"]).disable("image")
    return rules.render


def read(data: bytes) -> Imported:
    """A conversation from an exported file, a list of messages, or messages a line each.

    Raises `NotImportable`.
    """
    try:
        found = _json(data.decode("utf-8-sig"))
    except (ValueError, RecursionError) as error:
        raise NotImportable(
            "This is no conversation: give a JSON export of chatcli, or a JSON list of messages."
        ) from error
    if isinstance(found, dict) and found.get("format") == FORMAT:
        return _own(found)
    if isinstance(found, dict) and found.get("type") == "session":
        raise NotImportable(
            "This is a session's own file: put it into the sessions folder, "
            "or import what 'chatcli export --format json' writes."
        )
    if isinstance(found, dict) and "messages" in found:
        return Imported(_messages(found["messages"], found.get("system")))
    alone = isinstance(found, dict) and "role" in found
    return Imported(_messages([found] if alone else found, None))


def _json(text: str) -> Any:
    """One value, or the values of lines."""
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        values = [json.loads(line) for line in text.split("\n") if line.strip()]
        first = values[0] if values else None
        own_file = isinstance(first, dict) and first.get("type") == "session"
        return first if own_file else values


def _own(found: Mapping[str, Any]) -> Imported:
    """A conversation from `whole`."""
    version = found.get("version")
    if isinstance(version, int) and version > VERSION:
        raise NotImportable(
            f"This was exported by a newer chatcli (format {version}): upgrade chatcli to import it."
        )
    try:
        conversation = _tree(found)
        images = tuple(_shown(found["entries"]))
    except (ValueError, KeyError, TypeError, OverflowError) as error:
        raise NotImportable(f"This export is damaged: {_damage(error)}.") from error
    if not conversation.entries:
        raise NotImportable("There are no messages in this export.")
    return Imported(conversation, _text_or_none(found.get("session")), images)


def _shown(entries: Sequence[Mapping[str, Any]]) -> Iterator[Image]:
    """The images that came with an export. Raises `ValueError`."""
    for given in (one for entry in entries for one in entry.get("images", ()) if "data" in one):
        picture, data = picture_of(given), base64.b64decode(given["data"], validate=True)
        if hashlib.sha256(data).hexdigest() != picture.sha256:
            raise ValueError(f"the image {picture.name} is another one")
        yield Image(picture, data)


def _tree(found: Mapping[str, Any]) -> Conversation:
    """Raises `ValueError` with what is wrong, `KeyError` or `TypeError`."""
    date = datetime.date.fromisoformat(found["date"]).isoformat()
    tree = Conversation(date, _text_or_none(found["system"]), _text_or_none(found["model"]))
    for number, given in enumerate(found["entries"], start=1):
        entry = _entry(number, given)
        if entry.id in tree.entries or not (entry.parent is None or entry.parent in tree.entries):
            raise ValueError(f"entry {number} has no place in the tree")
        tree.add(entry)
    for identifier, label in dict(found.get("labels", {})).items():
        tree.labels[tree.entries[identifier].id] = _text(label)
    head = found["head"]
    tree.head = None if head is None else tree.entries[head].id
    tree.effort = _text_or_none(found.get("effort"))
    tree.template_args = arguments_of(found.get("template_args", {}))
    return tree


def _entry(number: int, given: Any) -> Entry:
    good = isinstance(given, dict) and given.get("role") in ("user", "assistant")
    if not good or not isinstance(given["id"], str) or not ID.fullmatch(given["id"]):
        raise ValueError(f"entry {number} is no message")
    created = float(given["time"])
    if not abs(created) < 1e300:
        raise ValueError(f"entry {number} has no time")
    thinking = _text(given.get("thinking", "")) if given["role"] == "assistant" else ""
    images = tuple(map(picture_of, given.get("images", ())))
    message = Message(given["role"], _text(given["content"]), thinking, images)
    reason = _text_or_none(given.get("finish_reason"))
    return Entry(given["id"], _text_or_none(given["parent"]), message, created, reason)


def _damage(error: Exception) -> str:
    if isinstance(error, KeyError):
        return f"'{clean_line(str(error.args[0]))}' is not there"
    return clean_line(str(error)) if isinstance(error, ValueError) else "a part is not what it should be"


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(value)
    return decodable(value)


def _text_or_none(value: Any) -> str | None:
    return None if value is None else _text(value)


def _messages(given: Any, system: Any) -> Conversation:
    """A conversation from messages as OpenAI's interface has them."""
    if not isinstance(given, list) or not all(isinstance(one, dict) for one in given):
        raise NotImportable("This is no list of messages: each must be an object with a role.")
    if any("messages" in one for one in given):
        raise NotImportable("There are several conversations here: import them one by one.")
    said = [_message(number, one) for number, one in enumerate(given, start=1)]
    prompts = [system] if isinstance(system, str) else []
    prompts += [one.content for one in said if one.role == "system"]
    tree = Conversation(datetime.date.today().isoformat(), _joined(prompts) or None)
    for message in _alternating([one for one in said if one.role != "system"]):
        reason = "stop" if message.role == "assistant" else None
        tree.add(Entry(new_id(), tree.head, message, time.time(), reason))
    if not tree.entries:
        raise NotImportable("There are no messages of a user or an assistant here.")
    return tree


def _message(number: int, given: Mapping[str, Any]) -> Message:
    role = given.get("role")
    role = "system" if role == "developer" else role
    if role not in ("system", "user", "assistant") or given.get("tool_calls"):
        whose = "calls a tool" if given.get("tool_calls") else f"is from {_name(role)}"
        raise NotImportable(
            f"Message {number} {whose}: only text of system, user and assistant can be imported."
        )
    thinking = given.get("reasoning_content") or given.get("thinking") or ""
    kept = _content(number, thinking) if role == "assistant" else ""
    said = _content(number, given.get("content"), empty=bool(kept))
    return Message(cast(Role, role), said, kept)


def _name(role: Any) -> str:
    return f"'{clean_line(role)[:40]}'" if isinstance(role, str) else "nobody"


def _content(number: int, given: Any, *, empty: bool = False) -> str:
    """A message's text. `empty`: it may have none."""
    if given is None and empty:
        return ""
    if isinstance(given, str):
        return decodable(given)
    parts: list[Any] = given if isinstance(given, list) else [None]
    if not all(isinstance(part, dict) and part.get("type") == "text" for part in parts):
        raise NotImportable(f"Message {number} is not text alone, so it cannot be imported whole.")
    return "".join(_content(number, part.get("text")) for part in parts)


def _alternating(said: Sequence[Message]) -> Iterator[Message]:
    """Messages whose roles alternate, a user's first: neighbours of one role are joined."""
    last: Message | None = None
    for message in said:
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
            # A greeting: what it answers is as empty as it was.
            yield Message("user", "")
        last = message
    if last is not None:
        yield last


def _joined(texts: Sequence[str]) -> str:
    return "\n\n".join(text for text in texts if text)


def save(folder: SessionFolder, imported: Imported, name: str | None = None) -> SessionFile:
    """A new session with an imported conversation, called `name`, else as it was, else by its words.

    Raises `SessionExists` if `name` is taken, `BadName`, or `FolderError`.
    """
    found = imported.conversation
    wanted = name if name is not None else folder.free_name(_own_name(imported))
    made = folder.create(wanted, model=found.model, system=found.system, date=found.date)
    try:
        made.set_template(found.effort, found.template_args)
        with Gallery(folder.folder).keeping(imported.images):
            for entry in found.entries.values():
                made.copy(entry)
        for entry_id, label in found.labels.items():
            made.set_label(entry_id, label)
        made.move_head(found.head)
    except BaseException:
        for undo in (made.close, lambda: folder.delete(made.name)):
            with contextlib.suppress(ChatcliError):
                undo()
        raise
    return made


def _own_name(imported: Imported) -> str:
    with contextlib.suppress(BadName):
        if imported.name is not None:
            return files.check_name(imported.name)
    said = (entry.message.content for entry in imported.conversation.entries.values())
    return slug(next(filter(str.strip, said), ""))
