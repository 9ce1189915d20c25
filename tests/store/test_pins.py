"""Pins: the checkpoints of a pinned session are never evicted, including those of its later turns."""

from __future__ import annotations

from pathlib import Path

import pytest

from chatcli.errors import UsageError
from chatcli.store import maintenance
from chatcli.store.segments import eviction, inventory
from chatcli.store.sessions import pins
from chatcli.store.sessions.folder import SessionFolder
from tests.store.test_privacy import Shelf
from tests.support.program import Program, segment_files

LIMIT = 1 << 30


@pytest.fixture
def shelf(tmp_path: Path) -> Shelf:
    """Two sessions with several states each; the first was used longest ago."""
    shelf = Shelf(tmp_path / "saved")
    for at, name in enumerate(("pack", "talk")):
        shelf.put(name, [at * 100 + number for number in range(1, 9)])
    return shelf


def evict_all_that_may_go(folder: Path) -> set[str]:
    eviction.remove(eviction.over_limit(folder, 1))
    return {path.name for path in segment_files(folder)}


def test_all_that_a_pinned_session_has_stays_and_the_rest_goes(shelf: Shelf) -> None:
    folder = SessionFolder(shelf.folder)
    ids = eviction.named_ids([folder.location / "pack.jsonl"])
    size = maintenance.pin(folder, "pack", LIMIT)
    left = evict_all_that_may_go(shelf.folder)
    assert size == inventory.total_bytes(shelf.folder) > 0
    assert {f"{name}.state.safetensors" for name in ids} < left
    assert len(ids) == sum(".rows." in name for name in left)
    maintenance.unpin(folder, "pack")
    assert set() == evict_all_that_may_go(shelf.folder)


def test_a_pin_follows_its_session_and_goes_with_it(shelf: Shelf) -> None:
    folder = SessionFolder(shelf.folder)
    for name in ("pack", "talk", "pack"):
        maintenance.pin(folder, name, LIMIT)
    assert ["talk", "pack"] == pins.names(shelf.folder)
    folder.rename("pack", "book")
    assert ["talk", "book"] == pins.names(shelf.folder)
    maintenance.delete(folder, "talk")
    folder.create("talk", model=None, system=None).close()
    assert ["book"] == pins.names(shelf.folder)


def test_pins_stay_within_the_limit(shelf: Shelf) -> None:
    folder = SessionFolder(shelf.folder)
    size = maintenance.pin(folder, "pack", LIMIT)
    with pytest.raises(UsageError, match="raise it with --cache-limit"):
        maintenance.pin(folder, "talk", size + 1)
    assert ["pack"] == pins.names(shelf.folder)


@pytest.mark.slow
def test_the_commands_pin_and_show_pins(chatcli: Program) -> None:
    chatcli.ask("My dog is called Biscuit.", "-S", "dog", "-n", 4)
    pinned = chatcli.run("cache", "pin", "do", "--json").json()
    assert "dog" == pinned["pinned"] and pinned["bytes"] > 0
    stats = chatcli.run("cache", "stats", "--json").json()
    assert [{"session": "dog", "bytes": pinned["bytes"]}] == stats["pinned"]
    assert "pinned: 'dog', " in chatcli.run("cache", "stats").text
    chatcli.run("cache", "unpin", "dog")
    assert [] == chatcli.run("cache", "stats", "--json").json()["pinned"]
