"""Opens, creates and branches sessions as a `SessionRequest` says."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from chatcli import files
from chatcli.conversation.images import Image
from chatcli.conversation.tree import Conversation
from chatcli.errors import SessionNotFound, TurnOutOfRange
from chatcli.records import ReplyRecord, program
from chatcli.store.sessions.folder import SessionFile, SessionFolder, slug
from chatcli.store.sessions.images import Gallery
from chatcli.store.sessions.log import SessionLog
from chatcli.store.sessions.transcript import Transcript
from chatcli.text import clean_line


@dataclass(frozen=True)
class SessionRequest:
    """Which session to open: by `name`, the `latest`, or neither (a new one), and what to change in it.

    `at` is the turn to continue from. `must_exist`: do not create a session of that name. `template_args` are
    passed to the chat template; None removes an argument. `model_options` (fields of `ModelOptions`) override
    the session's. `flags` are the names of settings whose values in this run win over the session's.
    `private`: what is said is in memory only, also after a saved session.
    """

    name: str | None = None
    latest: bool = False
    at: int | None = None
    system: str | None = None
    must_exist: bool = False
    template_args: Mapping[str, Any] = field(default_factory=dict)
    model_options: Mapping[str, Any] = field(default_factory=dict)
    flags: frozenset[str] = frozenset()
    private: bool = False


def open_session(folder: SessionFolder, request: SessionRequest, system: str | None = None) -> SessionLog:
    """The requested session, with its head at the requested turn. A new one has no file yet.

    Changes are written when the session is continued (`SessionLog.write_asked`). `system` is the default
    system prompt of a new one.

    Raises `SessionNotFound`, `SessionLocked`, `BadName` or `TurnOutOfRange`.
    """
    name = request.name
    if name is None:
        name = folder.latest() if request.latest else None
    elif request.must_exist:
        name = folder.resolve(name)
    elif not folder.exists(files.check_name(name)):
        name = None
    if name is None:
        if request.at is not None:
            raise TurnOutOfRange("--at needs a saved session to continue: name it with -S NAME.")
        session = SessionLog(Transcript(request.name or "", Conversation("", system or None)))
    else:
        session = SessionLog(folder.read(name)) if request.private else folder.open(name)
    session.is_private = request.private
    try:
        conversation = session.conversation
        if request.at is not None:
            session.move_head(conversation.end_of_turn(request.at), saved=False)
        if request.system is not None:
            session.set_system(request.system or None, saved=False)
        merged = {**conversation.template_args, **request.template_args}
        arguments = {name: value for name, value in merged.items() if value is not None}
        session.set_template(conversation.effort, arguments, saved=False)
    except BaseException:
        session.close()
        raise
    return session


def read_again(conversation: Conversation) -> list[str]:
    """A sentence if a conversation's checkpoints come from another machine or other libraries.

    This is known without the model, so it can be said before the model is loaded.
    """
    own = (entry.record for entry in reversed(conversation.path()) if entry.record.get("segments"))
    there = next(own, ReplyRecord()).get("program", "")
    if not there or there.startswith(here := program()):
        return []
    held = f"This conversation was held with {clean_line(there)}."
    return [f"{held} This is {here}: it is prefilled again first."]


def save(folder: SessionFolder, session: SessionLog, title: str, model: str) -> SessionFile:
    """Create a file for a session with all that was said in it, named as requested or after `title`."""
    conversation, name = session.conversation, session.name or folder.free_name(slug(title))
    gallery = Gallery(folder.location)
    pictures = {picture for entry in conversation.entries.values() for picture in entry.message.images}
    with (
        gallery.keeping([Image(picture, gallery.data(picture)) for picture in pictures]),
        folder.building(
            name, model=model, system=conversation.system, date=conversation.date or None
        ) as file,
    ):
        file.fill(conversation)
    return file


def branch(
    folder: SessionFolder, source: str | Transcript | SessionLog, at: int | None, new_name: str | None = None
) -> SessionFile:
    """A new session with turns 1 to `at` (default: to the head) of a session, which does not change.

    Both share checkpoints, which are named by tokens. Raises `SessionNotFound`, `TurnOutOfRange`,
    `SessionExists`, `BadName` or `FolderError`.
    """
    if isinstance(source, str):
        source = folder.read(source)
    name, before = source.name, source.conversation
    if not before.turns():
        raise SessionNotFound(f"The session '{name}' has no turns yet: there is nothing to branch.")
    leaf = before.head if at is None else before.end_of_turn(at)
    new_name = files.check_name(new_name) if new_name is not None else folder.free_name(name)
    with folder.building(
        new_name, model=before.model, system=before.system, date=before.date, branched_from=name
    ) as branched:
        branched.fill(before.upto(leaf))
    return branched
