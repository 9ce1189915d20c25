"""A session with branches and difficult texts, to be exported."""

from __future__ import annotations

from pathlib import Path

import pytest

from chatcli.conversation.tree import Conversation, Message
from chatcli.store.sessions.folder import SessionFolder

HARD = 'a "quote" \\ and\nline\r\n\u2028 \0 \x1b[31m 日本 👩‍👩‍👧 </script> {title}'


@pytest.fixture
def folder(tmp_path: Path) -> SessionFolder:
    return SessionFolder(tmp_path / "saved")


def with_branches(folder: SessionFolder, name: str = "fruit") -> Conversation:
    """A session with two branches, whose head is not the last message."""
    with folder.create(name, model="pocket", system="Be kind.", date="2025-03-01") as session:
        first = session.append(Message("user", HARD), None)
        second = session.append(Message("assistant", "two", "hm"), first.id, finish_reason="stop")
        session.append(Message("user", "three"), second.id)
        other = session.append(Message("user", "other"), second.id)
        session.append(Message("assistant", "cut"), other.id, finish_reason="cancelled")
        session.set_label(second.id, "good")
        session.move_head(other.id)
        return session.conversation
