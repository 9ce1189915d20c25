"""Which session a run speaks with: opened, continued, branched or begun; refuses to know MLX."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import platformdirs

from chatcli import files
from chatcli.conversation.tree import Conversation
from chatcli.errors import SessionNotFound, TurnOutOfRange
from chatcli.store.sessions.folder import SessionFile, SessionFolder, slug


@dataclass(frozen=True)
class SessionRequest:
    """What was asked for: a name, the most recent session, or neither (a new one).

    `at` is the turn to continue from. `must_exist` refuses to begin a session of that name.
    `date` (ISO 8601) is what a session that is begun tells its model; None: today. `effort` and
    `template_args` are told to its template too; an argument that is None is taken away. `model_options` is
    what was said of how the model is to be run (fields of `ModelOptions`), against what the session keeps.
    """

    name: str | None = None
    latest: bool = False
    at: int | None = None
    system: str | None = None
    must_exist: bool = False
    date: str | None = None
    effort: str | None = None
    template_args: Mapping[str, Any] = field(default_factory=dict)
    model_options: Mapping[str, Any] = field(default_factory=dict)


def default_sessions() -> Path:
    """./sessions if it is there, else the user's data folder."""
    here = Path("sessions")
    return here if here.is_dir() else platformdirs.user_data_path("chatcli") / "sessions"


def open_existing(folder: SessionFolder, wanted: SessionRequest) -> SessionFile | None:
    """The session that is asked for, at the right place, or None if it is to be begun.

    Raises `SessionNotFound`, `SessionLocked`, `BadName` or `TurnOutOfRange`.
    """
    name = _existing_name(folder, wanted)
    if name is None:
        if wanted.at is not None:
            raise TurnOutOfRange("--at needs a saved session to continue: name it with -S NAME.")
        return None
    session = folder.open(name)
    try:
        if wanted.at is not None:
            # In memory only: the message that continues from there will say so on disk.
            session.conversation.head = session.conversation.end_of_turn(wanted.at)
    except BaseException:
        session.close()
        raise
    return session


def _existing_name(folder: SessionFolder, wanted: SessionRequest) -> str | None:
    if wanted.name is None:
        return folder.latest() if wanted.latest else None
    files.check_name(wanted.name)
    if wanted.must_exist:
        return folder.resolve(wanted.name)
    return wanted.name if folder.exists(wanted.name) else None


def begin(folder: SessionFolder, wanted: SessionRequest, first: str, model: str) -> SessionFile:
    """A new session, named as asked or after its first message."""
    name = wanted.name or folder.free_name(slug(first))
    return folder.create(name, model=model, system=wanted.system or None, date=wanted.date)


def branch(folder: SessionFolder, name: str, at: int | None, new_name: str | None = None) -> SessionFile:
    """A new session that shares turns 1 to `at` (default: all) with session `name`.

    The original is not touched. The checkpoints are shared without any doing: tokens name them.
    """
    source = folder.read(name)
    return branch_from(folder, source.name, source.conversation, at, new_name)


def branch_from(
    folder: SessionFolder, name: str, source: Conversation, at: int | None, new_name: str | None
) -> SessionFile:
    """`branch`, from a conversation in memory."""
    if not source.turns():
        raise SessionNotFound(f"The session '{name}' has no turns yet: there is nothing to branch.")
    leaf = source.head if at is None else source.end_of_turn(at)
    wanted = files.check_name(new_name) if new_name is not None else folder.free_name(name)
    made = folder.create(
        wanted, model=source.model, system=source.system, date=source.date, branched_from=name
    )
    made.set_template(source.effort, source.template_args)
    made.set_model_options(source.model_options)
    for entry in source.path(leaf):
        made.copy(entry)
    return made
