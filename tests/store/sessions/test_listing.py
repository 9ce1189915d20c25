"""Listings: equal to parsing every file, and complete with ten thousand of them."""

from __future__ import annotations

import json
import os
import random
from collections.abc import Callable
from pathlib import Path

import pytest

from chatcli.conversation.tree import Entry, Message
from chatcli.store.sessions.folder import SessionFile, SessionFolder
from chatcli.store.sessions.listing import Summary
from chatcli.store.sessions.transcript import encode, entry_line, parse
from tests.support.program import Program

SEED = 20261121
HARD = [
    'a "quote" \\ and\nline\r\n',
    "\u2028 \x85 \0 \x1b",
    "日本 👩‍👩‍👧",
    '\n{"type": "user"',
    "",
    "x" * 9000,
]
HEADER = {
    "type": "session",
    "version": 1,
    "created": 1.5,
    "date": "2025-03-01",
    "model": "pocket",
    "system": None,
    "branched_from": None,
}


def as_parsed(path: Path) -> Summary:
    """The summary of a file that is parsed completely."""
    conversation = parse(path.stem, path.read_bytes()).conversation
    turns = conversation.turns()
    first_words = turns[0].user.message.content if turns else ""
    return Summary(path.stem, len(turns), first_words, conversation.model, path.stat().st_mtime)


def change_at_random(session: SessionFile, rng: random.Random) -> None:
    """Make up to 23 random changes of any kind."""
    tree = session.conversation
    for _ in range(rng.randrange(24)):
        action = rng.choice(["say"] * 6 + ["note", "head", "system", "model", "sibling"])
        entry_id = rng.choice([*tree.entries, None])
        if action == "say":
            role = "assistant" if tree.unanswered() else "user"
            session.append(Message(role, rng.choice(HARD)), tree.head)
        elif action == "sibling":
            session.append(Message("user", rng.choice(HARD)), entry_id)
        elif action == "head":
            session.move_head(entry_id)
        elif action == "system":
            session.set_system(rng.choice(HARD))
        elif action == "model":
            session.set_model(f"m{rng.random()}")
        elif entry_id is not None:
            session.note(tree.entries[entry_id], {"settled_tokens": 3})


def test_a_listing_equals_parsing_after_any_changes(
    folder: SessionFolder,
) -> None:
    rng = random.Random(SEED)
    for number in range(150):
        model = rng.choice([None, "pocket", "ünï/model"])
        with folder.create(f"s-{number}", model=model, system=rng.choice(HARD)) as session:
            change_at_random(session, rng)
    summaries = folder.summaries()
    assert 150 == len(summaries)
    assert [as_parsed(folder.folder / f"{summary.name}.jsonl") for summary in summaries] == summaries


def forward(turns: int = 3) -> bytes:
    """A session file of `turns` turns without branches."""
    lines, parent = [encode(HEADER)], None
    for number in range(2 * turns):
        role = "assistant" if number % 2 else "user"
        entry = Entry(f"e{number}", parent, Message(role, f"words {number}"), 1.0, "stop")
        lines.append(encode(entry_line(entry)))
        parent = entry.id
    return b"".join(lines)


VARIANTS: dict[str, Callable[[bytes], bytes]] = {
    "torn": lambda data: data + b'{"type": "user", "id": "x"',
    "one line": lambda data: data[: data.index(b"\n") + 1],
    "windows": lambda data: data.replace(b"\n", b"\r\n"),
    "marked": lambda data: b"\xef\xbb\xbf" + data,
    "twice": lambda data: data + data,
    "zeros": lambda data: data.replace(b"words 2", bytes(7)),
    "no first words": lambda data: data.replace(b'"words 0"', b"words 0"),
    "not text": lambda data: data.replace(b"words 0", b"words \xff"),
    "spaced": lambda data: data.replace(b": ", b":"),
    "other order": lambda data: data.replace(b'{"type": "user", ', b'{"x": 1, "type": "user", '),
    "a line lost": lambda data: b"".join(
        line for line in data.splitlines(keepends=True) if b'"e2"' not in line[:40]
    ),
    "an unknown kind": lambda data: data + b'{"type": "label", "id": "e0"}\n',
    "a ring": lambda data: data.replace(b'"id": "e3"', b'"id": "e0"'),
    "an empty line": lambda data: data.replace(b"\n", b"\n\n", 2),
}


@pytest.mark.parametrize("variant", VARIANTS)
def test_an_odd_file_is_listed_as_it_is_read(folder: SessionFolder, variant: str) -> None:
    path = folder.folder / "dog.jsonl"
    path.write_bytes(VARIANTS[variant](forward()))
    assert VARIANTS[variant](forward()) != forward()
    assert [as_parsed(path)] == folder.summaries()


def test_damage_within_a_message_does_not_change_a_listing(folder: SessionFolder) -> None:
    """A listing trusts a line whose beginning is valid; only reading the session reports the damage."""
    path = folder.folder / "dog.jsonl"
    path.write_bytes(forward().replace(b'"words 4"', b"words 4"))
    assert [3] == [summary.turns for summary in folder.summaries()]
    assert 2 == len(folder.read("dog").problems)


def test_names_and_summaries_are_in_the_same_order(folder: SessionFolder) -> None:
    for name, age in (("b", 2), ("a", 2), ("new", 1), ("old", 3), ("-bad", 0)):
        path = folder.folder / f"{name}.jsonl"
        path.write_bytes(forward())
        os.utime(path, (1e9 - age, 1e9 - age))
    (folder.folder / "gone.jsonl").symlink_to("nowhere")
    assert ["gone", "-bad", "new", "a", "b", "old"] == folder.names()
    assert folder.names() == [summary.name for summary in folder.summaries()]
    assert folder.summaries()[:3] == folder.summaries(3)


def test_the_json_of_a_listing_has_these_keys(chatcli: Program) -> None:
    chatcli.sessions.mkdir()
    path = chatcli.sessions / "dog.jsonl"
    path.write_bytes(forward())
    os.utime(path, (1e9, 1e9))
    (chatcli.sessions / "bad.jsonl").write_bytes(b"")
    bad = "The session 'bad' cannot be read: its first line is damaged. It has not been touched."
    assert [
        {"name": "bad", "turns": 0, "first_words": "", "model": None, "last_used": 0.0, "problem": bad},
        {
            "name": "dog",
            "turns": 3,
            "first_words": "words 0",
            "model": "pocket",
            "last_used": 1e9,
            "problem": None,
        },
    ] == chatcli.run("list", "--json").json()


@pytest.fixture(scope="module")
def crowd(tmp_path_factory: pytest.TempPathFactory) -> SessionFolder:
    """Ten thousand sessions: most of two turns, some of forty turns and 80 kB."""
    folder = tmp_path_factory.mktemp("crowd")
    small, large = forward(2), forward(40).replace(b"words", b"words " * 160)
    for number in range(10_000):
        data = large if number % 10 == 0 else small
        (folder / f"session-{number}.jsonl").write_bytes(data)
    return SessionFolder(folder)


def test_all_of_ten_thousand_sessions_are_listed(crowd: SessionFolder) -> None:
    assert 10_000 == len(crowd.summaries())


def test_a_listing_leaves_nothing_in_the_folder(folder: SessionFolder) -> None:
    (folder.folder / "dog.jsonl").write_bytes(forward())
    old_contents = {path: path.read_bytes() for path in folder.folder.iterdir()}
    json.dumps([vars(summary) for summary in folder.summaries()])
    assert old_contents == {path: path.read_bytes() for path in folder.folder.iterdir()}
