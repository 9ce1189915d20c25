"""An empty sessions folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from chatcli.store.sessions.folder import SessionFolder


@pytest.fixture
def folder(tmp_path: Path) -> SessionFolder:
    return SessionFolder(tmp_path)
