"""What the full-screen lists need of the world around them."""

from __future__ import annotations

from collections.abc import Callable

from chatcli.conversation.tree import Conversation
from chatcli.errors import SessionNotFound
from chatcli.tui.pickers.sessions import SessionActions


def _not_found(name: str) -> Conversation:
    raise SessionNotFound(name)


def session_actions(load: Callable[[str], Conversation] = _not_found) -> SessionActions:
    """Actions that find nothing and change nothing."""
    return SessionActions(load, lambda old, new: new, lambda name: None, lambda words: (), lambda name: None)
