"""What a list of sessions can have done with them; refuses to know how it looks."""

from __future__ import annotations

from chatcli.store import maintenance
from chatcli.store.sessions import search
from chatcli.store.sessions.folder import SessionFolder
from chatcli.tui.pickers.sessions import SessionActions


def actions_on(folder: SessionFolder) -> SessionActions:
    """Read, rename, delete and search the sessions of a folder."""
    return SessionActions(
        load=lambda name: folder.read(name).conversation,
        rename=folder.rename,
        delete=lambda name: maintenance.delete(folder, name),
        search=lambda words: search.names(folder.folder, words),
    )
