"""Search over all sessions: matches, excerpts, order, and the same hits as parsing every file."""

from __future__ import annotations

import json
import os
import random
import time
from pathlib import Path

import pytest

from chatcli.conversation.tree import Entry, Message
from chatcli.errors import ChatcliError, UsageError
from chatcli.store.sessions import search
from chatcli.store.sessions.folder import SessionFolder
from chatcli.store.sessions.search import Hit, find, fold, names, newest, split
from chatcli.store.sessions.transcript import encode, entry_line, parse
from chatcli.text import clean_line
from tests.support.program import Program

HEADER = {
    "type": "session",
    "version": 1,
    "created": 1.5,
    "date": "2025-03-01",
    "model": "pocket",
    "system": "Speak of ostriches.",
    "branched_from": None,
}
RECORD = {"prompt_tokens": 9, "model": "zanzibar", "segments": ["deadbeef" * 8]}
SEED = 20261121


def lines(*texts: str, thinking: str = "") -> bytes:
    """A session file of alternating user and assistant messages."""
    encoded, parent = [encode(HEADER)], None
    for number, text in enumerate(texts):
        reply = number % 2
        message = Message("assistant", text, thinking) if reply else Message("user", text)
        entry = Entry(f"e{number}", parent, message, 1.0, "stop", RECORD if reply else {})
        encoded.append(encode(entry_line(entry)))
        parent = entry.id
    return b"".join(encoded)


def save(folder: Path, name: str, data: bytes, age: int = 0) -> None:
    folder.mkdir(exist_ok=True)
    path = folder / f"{name}.jsonl"
    path.write_bytes(data)
    os.utime(path, (1e9 - age, 1e9 - age))


def search_in(folder: Path, *words: str, thinking: bool = False) -> list[tuple[str, int, str]]:
    hits = find(folder, words, thinking=thinking)
    return [(hit.session, hit.turn, hit.role) for hit in hits]


def marked(hit: Hit) -> list[str]:
    return [hit.excerpt[start:end] for start, end in hit.marks]


def test_every_word_must_be_in_one_message(tmp_path: Path) -> None:
    save(tmp_path, "fruit", lines("two pears", "three plums", "pears and plums", "fine"))
    assert [("fruit", 1, "user"), ("fruit", 2, "user")] == search_in(tmp_path, "pears")
    assert [("fruit", 2, "user")] == search_in(tmp_path, "plums", "pears")
    assert [] == search_in(tmp_path, "plums", "figs")


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("Crème BRÛLÉE", "creme brulee"),
        ("creme brulee", "Crème BRÛLÉE"),
        ("cre\u0300me bru\u0302le\u0301e", "crème"),
        ("die Straße", "STRASSE"),
        ("ΟΔΥΣΣΕΥΣ", "οδυσσευς"),
        ("ｆｕｌｌ ｗｉｄｔｈ", "full width"),
        ("日本語の本", "本語"),
        ("ﬁne", "fine"),
        ('say "cheese\\cake"', '"cheese\\cake"'),
        ("a line\nand another", "line and"),
        ("tab\tbed", "tab bed"),
    ],
)
def test_case_accents_and_unicode_forms_are_ignored(tmp_path: Path, text: str, word: str) -> None:
    save(tmp_path, "one", lines(text, "something else"))
    save(tmp_path, "other", lines("nothing of that sort", "—"))
    assert [("one", 1, "user")] == search_in(tmp_path, word)
    assert {"one"} == names(tmp_path, f'"{word}"' if '"' not in word else "cheese")


def test_a_quoted_phrase_matches_as_one_and_words_anywhere(tmp_path: Path) -> None:
    save(tmp_path, "a", lines("pears before apples"))
    save(tmp_path, "b", lines("apples before\n  pears"))
    assert {"a", "b"} == names(tmp_path, "before pears")
    assert {"b"} == names(tmp_path, '"before pears"')
    assert ["two pears", "and", "this one"] == split('"two pears" and "this one')
    assert set() == names(tmp_path, '  "" ')


def test_only_messages_are_searched(tmp_path: Path) -> None:
    """Not the system prompt, field names, numbers or ids, which are in the file too."""
    save(tmp_path, "fruit", lines("two pears", "three plums", thinking="count the quinces"))
    for word in ("ostriches", "zanzibar", "deadbeef", "assistant", "parent", "stop", "quinces"):
        assert [] == search_in(tmp_path, word)
        assert set() == names(tmp_path, word)
    assert [("fruit", 1, "assistant")] == search_in(tmp_path, "quinces", "plums", thinking=True)
    assert [] == search_in(tmp_path, "zanzibar", thinking=True)


def test_other_branches_are_searched_and_marked(tmp_path: Path) -> None:
    folder = SessionFolder(tmp_path)
    with folder.create("fruit", model="m", system=None) as session:
        first = session.append(Message("user", "one"), None)
        second = session.append(Message("assistant", "two"), first.id)
        session.append(Message("user", "old figs"), second.id)
        new = session.append(Message("user", "new figs"), second.id)
    hits = list(find(tmp_path, ["figs"]))
    assert [(2, False), (2, True)] == [(hit.turn, hit.on_path) for hit in hits]
    assert new.id == hits[1].entry


def test_the_newest_sessions_come_first_and_are_read_lazily(tmp_path: Path) -> None:
    for age, name in enumerate(("new", "middle", "old")):
        save(tmp_path, name, lines("figs", "figs too"), age)
    save(tmp_path, "oldest", b"damaged\n", 9)
    reports: list[str] = []
    few = newest(find(tmp_path, ["figs"], report=reports.append), ["figs"], 3)
    assert ["new", "new", "middle"] == [hit.session for hit in few.hits]
    assert few.more
    assert [] == reports
    everything = newest(find(tmp_path, ["figs"], report=reports.append), ["figs"], None)
    assert (6, False) == (len(everything.hits), everything.more)
    assert 1e9 == everything.hits[0].last_used
    assert [
        "The session 'oldest' cannot be read: its first line is damaged. It has not been touched."
    ] == reports


def test_the_order_is_that_of_a_listing(tmp_path: Path) -> None:
    ages = list(range(600))
    random.Random(SEED).shuffle(ages)
    for number, age in enumerate(ages):
        save(tmp_path, f"s{number}", lines("figs"), age)
    session_order = [hit.session for hit in find(tmp_path, ["figs"])]
    assert SessionFolder(tmp_path).names() == session_order


def test_an_excerpt_is_one_line_with_its_words_marked(tmp_path: Path) -> None:
    long = "padding " * 300 + "die\n\nSTRASSE nach  Crème " + "filler " * 300
    save(tmp_path, "long", lines(f"é {long}"))
    save(tmp_path, "short", lines("Straße\x1b[31m\u202e"))
    hits = {hit.session: hit for hit in find(tmp_path, ["straße"])}
    assert "Straße␛[31m\ufffd" == hits["short"].excerpt
    assert ["Straße"] == marked(hits["short"])
    excerpt = hits["long"].excerpt
    assert excerpt.startswith("…padding ") and excerpt.endswith("…")
    assert len(excerpt) <= search.EXCERPT_LENGTH
    assert "die STRASSE nach Crème filler" in excerpt
    (hit,) = find(tmp_path, ["straße", "creme"])
    assert ["STRASSE", "Crème"] == marked(hit)


def test_an_excerpt_is_right_where_folding_changes_lengths(tmp_path: Path) -> None:
    save(tmp_path, "shifted", lines("ß" * 900 + " ŒUFS " + "½" * 900))
    (hit,) = find(tmp_path, ["œufs"])
    assert ["ŒUFS"] == marked(hit)


def test_an_excerpt_is_where_most_of_the_words_are(tmp_path: Path) -> None:
    text = "pears alone. " + "filler " * 90 + "here pears and plums meet"
    save(tmp_path, "fruit", lines(text))
    (hit,) = find(tmp_path, ["plums", "pears"])
    assert ["pears", "plums"] == marked(hit)


def test_an_empty_query_is_an_error(tmp_path: Path) -> None:
    for words in ([], [""], [" ", "\u0301"]):
        with pytest.raises(UsageError, match="nothing to search for"):
            list(find(tmp_path, words))


def test_missing_folders_and_unreadable_files_are_skipped(tmp_path: Path) -> None:
    assert set() == names(tmp_path / "nowhere", "figs")
    save(tmp_path, "fruit", lines("figs"))
    (tmp_path / "gone.jsonl").symlink_to("nowhere")
    (tmp_path / "folder.jsonl").mkdir()
    save(tmp_path, "-bad", lines("figs"))
    reports: list[str] = []
    assert ["fruit"] == [hit.session for hit in find(tmp_path, ["figs"], report=reports.append)]
    assert 3 == len(reports)
    assert {"fruit"} == names(tmp_path, "figs")


WORDS = [
    "pears",
    "PEARS",
    "Pläne",
    '"q"',
    "back\\slash",
    "new\nline",
    "\u2028",
    "日本",
    "\x1b",
    "x",
]
VARIANTS = [
    lambda data: data,
    lambda data: data.replace(b": ", b":"),
    lambda data: b"".join(json.dumps(json.loads(line)).encode() + b"\n" for line in data.splitlines()),
    lambda data: data.replace(b"pears", b"pe\xffars", 1),
    lambda data: data + b'{"type": "user", "id": "torn", "content": "pears',
    lambda data: data.replace(b'{"type": "user", ', b'{"x": 1, "type": "user", ', 1),
    lambda data: data.replace(b'"content": "', b'"content": 7, "text": "', 1),
    lambda data: b"\n".join(data.split(b"\n")[:1] + data.split(b"\n")[2:]),
]


def test_searching_lines_has_the_hits_of_parsing_everything(tmp_path: Path) -> None:
    rng = random.Random(SEED)
    for number in range(200):
        texts = [" ".join(rng.choices(WORDS, k=3)) for _ in range(rng.randrange(1, 7))]
        data = rng.choice(VARIANTS)(lines(*texts, thinking=rng.choice(WORDS)))
        save(tmp_path, f"s{number}", data)
    for words in (["pears"], ["plane"], ['"Q"'], ["slash", "x"], ["new line"], ["\u65e5"], ["zzz"]):
        expected = set()
        for path in tmp_path.iterdir():
            for entry in parse(path.stem, path.read_bytes()).conversation.entries.values():
                if search.Query(words).held_by(entry.message.content):
                    expected.add((path.stem, entry.id))
        hits = list(find(tmp_path, words))
        assert expected == {(hit.session, hit.entry) for hit in hits}
        if '"' not in words[0]:  # a typed quote is not searched for
            typed = " ".join(f'"{word}"' for word in words)
            assert {session for session, _ in expected} == names(tmp_path, typed)
        assert all(hit.excerpt == clean_line(hit.excerpt) for hit in hits)


def test_folding_a_part_is_a_part_of_folding_the_whole() -> None:
    for text in ("e\u0301\u0302x", "ǅ", "İstanbul", "각", "ϔ", "\u1e9b\u0323", "½ Å ﬃ"):
        for split_at in range(len(text) + 1):
            assert fold(text) == fold(text[:split_at]) + fold(text[split_at:])


@pytest.mark.slow
def test_ten_thousand_sessions_are_searched_in_seconds(tmp_path: Path) -> None:
    plain, accented = lines(*["some words"] * 8), lines(*["schöne Wörter"] * 8)
    for number in range(10_000):
        (tmp_path / f"s{number}.jsonl").write_bytes(accented if number % 2 else plain)
    save(tmp_path, "wanted", lines("an ostrich", "schöner Strauß"), age=10**6)
    began = time.process_time()
    assert {"wanted"} == names(tmp_path, "ostrich")
    assert [("wanted", 1, "assistant")] == search_in(tmp_path, "strauss")
    assert time.process_time() - began < 6


# The command


def test_the_command_shows_where_a_message_is(chatcli: Program) -> None:
    save(chatcli.sessions, "fruit", lines("Two PÉARS, please.", "Here: two pears."))
    lines_of_output = chatcli.run("search", "pears", "two").text.splitlines()
    assert ["  Two PÉARS, please.", "  Here: two pears."] == lines_of_output[1::2]
    for line, role in zip(lines_of_output[::2], ("you", "reply"), strict=True):
        assert line.startswith(f"fruit  turn 1 · {role} · ") and line.endswith(" d ago")


def test_the_command_marks_another_branch(chatcli: Program) -> None:
    with SessionFolder(chatcli.sessions).create("fruit", model="m", system=None) as session:
        session.append(Message("user", "old figs"), None)
        session.append(Message("user", "new figs"), None)
    old, _, new, _ = chatcli.run("search", "figs").text.splitlines()
    assert old.endswith(" (other branch)") and "(other" not in new


def test_the_command_in_json(chatcli: Program) -> None:
    save(chatcli.sessions, "fruit", lines("Two PÉARS, please.", "Here: two plums."))
    result = chatcli.run("search", "pears", "--json")
    assert result.out.isascii()
    assert [
        {
            "session": "fruit",
            "turn": 1,
            "role": "user",
            "entry": "e0",
            "on_path": True,
            "excerpt": "Two PÉARS, please.",
            "last_used": 1e9,
            "time": 1.0,
        }
    ] == result.json()
    assert [] == chatcli.run("search", "figs", "--json").json()


def test_no_hit_is_a_sentence_and_an_empty_query_an_error(chatcli: Program) -> None:
    result = chatcli.run("search", "figs", "two pears")
    assert "No messages match 'figs', 'two pears'.\n" == result.text
    assert "nothing to search for" in chatcli.run("search", " ", expect=2).errors


def test_the_command_stops_at_fifty_and_skips_what_is_damaged(chatcli: Program) -> None:
    save(chatcli.sessions, "many", lines(*["figs"] * 60), age=5)
    save(chatcli.sessions, "bad", b"\x1b[31m damaged\n")
    result = chatcli.run("search", "figs")
    assert 50 == result.text.count("  figs\n")
    assert "To see all: chatcli search --all figs\n" in result.text
    assert "chatcli: The session 'bad' cannot be read" in result.errors
    assert 1 == result.errors.count("\n")
    assert 60 == len(chatcli.run("search", "figs", "--all", "--json").json())


def test_control_characters_in_excerpts_are_escaped(chatcli: Program) -> None:
    save(chatcli.sessions, "evil", lines("figs \x1b]0;gone\x07 \u202e"))
    result = chatcli.run("search", "figs")
    assert b"\x1b" not in result.out and "\u202e" not in result.text


def test_an_unreadable_folder_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(ChatcliError, match="Cannot read the sessions folder"):
        names(tmp_path / "file", "figs")
