"""Listings: as exact as parsing every file, and quick with ten thousand of them."""

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
    """What a listing says if it reads everything."""
    conversation = parse(path.stem, path.read_bytes()).conversation
    turns = conversation.turns()
    words = turns[0].user.message.content if turns else ""
    return Summary(path.stem, len(turns), words, conversation.model, path.stat().st_mtime)


def wander(session: SessionFile, chance: random.Random) -> None:
    """Anything that a session can go through."""
    tree = session.conversation
    for _ in range(chance.randrange(24)):
        deed = chance.choice(["say"] * 6 + ["note", "head", "system", "model", "sibling"])
        some = chance.choice([*tree.entries, None])
        if deed == "say":
            role = "assistant" if tree.unanswered() else "user"
            session.append(Message(role, chance.choice(HARD)), tree.head)
        elif deed == "sibling":
            session.append(Message("user", chance.choice(HARD)), some)
        elif deed == "head":
            session.move_head(some)
        elif deed == "system":
            session.set_system(chance.choice(HARD))
        elif deed == "model":
            session.set_model(f"m{chance.random()}")
        elif some is not None:
            session.note(tree.entries[some], {"settled_tokens": 3})


def test_a_listing_says_what_parsing_says_whatever_a_session_went_through(
    folder: SessionFolder,
) -> None:
    chance = random.Random(SEED)
    for number in range(150):
        model = chance.choice([None, "pocket", "ünï/model"])
        with folder.create(f"s-{number}", model=model, system=chance.choice(HARD)) as session:
            wander(session, chance)
    summaries = folder.summaries()
    assert 150 == len(summaries)
    assert [as_parsed(folder.folder / f"{summary.name}.jsonl") for summary in summaries] == summaries


def forward(turns: int = 3) -> bytes:
    """A conversation that only ever went forward."""
    lines, parent = [encode(HEADER)], None
    for number in range(2 * turns):
        role = "assistant" if number % 2 else "user"
        entry = Entry(f"e{number}", parent, Message(role, f"words {number}"), 1.0, "stop")
        lines.append(encode(entry_line(entry)))
        parent = entry.id
    return b"".join(lines)


BENT: dict[str, Callable[[bytes], bytes]] = {
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


@pytest.mark.parametrize("how", BENT)
def test_a_bent_file_is_listed_as_it_is_read(folder: SessionFolder, how: str) -> None:
    path = folder.folder / "dog.jsonl"
    path.write_bytes(BENT[how](forward()))
    assert BENT[how](forward()) != forward()
    assert [as_parsed(path)] == folder.summaries()


def test_damage_within_a_message_leaves_a_listing_as_it_was(folder: SessionFolder) -> None:
    """The one thing that a listing trusts: a line that begins well. Reading it tells the rest."""
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
    assert ["-bad", "new", "a", "b", "old"] == folder.names()
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


def test_every_session_of_a_crowd_is_listed(crowd: SessionFolder) -> None:
    assert 10_000 == len(crowd.summaries())


def test_a_listing_leaves_nothing_in_the_folder(folder: SessionFolder) -> None:
    (folder.folder / "dog.jsonl").write_bytes(forward())
    before = {path: path.read_bytes() for path in folder.folder.iterdir()}
    json.dumps([vars(summary) for summary in folder.summaries()])
    assert before == {path: path.read_bytes() for path in folder.folder.iterdir()}
