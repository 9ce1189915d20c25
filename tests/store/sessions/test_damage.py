"""A transcript that something has damaged: never a crash, and no good line lost to a bad one."""

from __future__ import annotations

import itertools
import json
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from chatcli.conversation.tree import Message
from chatcli.errors import ChatcliError, SessionUnreadable, SessionVersionError
from chatcli.session import opening
from chatcli.store.sessions.folder import SessionFolder
from chatcli.store.sessions.transcript import Transcript, encode, parse, recovered
from tests.support.families import at_night

SEED = 20261121
MUTATIONS = 90
RECORD = {
    "prompt_tokens": 41,
    "reused_tokens": 30,
    "prefilled_tokens": 11,
    "settled_tokens": 0,
    "miss_reason": None,
    "restore_seconds": 0.25,
    "time_to_first_token": 0.5,
    "hit_ratio": 0.73,
    "model": "pocket",
    "fingerprint": "0f" * 16,
    "segments": ["ab" * 32, "cd" * 32],
    "draft_model": "tiny",
    "draft_segments": ["ef" * 32],
    "draft_accepted_tokens": 2,
    "generated_tokens": 3,
    "generated": [5, 6, 7],
    "boundaries": {"before": 12, "question": 30, "reply": 41},
    "template": "c0ffee",
}
STRANGE: list[Any] = [
    None,
    True,
    7,
    -1,
    1.5,
    "text",
    "",
    "\ud800",
    [],
    ["x"],
    {},
    {"a": {"b": [1]}},
    10**400,
    float("inf"),
    float("nan"),
    "../../x",
]
TREE = {"id", "parent", "type", "content", "time", "thinking", "finish_reason"}


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """A transcript with every kind of line: six turns, a branch, notes, other prompts."""
    folder = SessionFolder(tmp_path_factory.mktemp("real"))
    with folder.create("dog", model="pocket", system="Be brief.", date="2025-03-01") as session:
        for number in range(6):
            asked = session.append(Message("user", f"question {number} é"), session.conversation.head)
            reply = session.append(
                Message("assistant", f"answer {number}\n日本", "hm"),
                asked.id,
                finish_reason="stop",
                record=RECORD,
            )
            session.note(reply, {"settled_tokens": 9, "boundaries": RECORD["boundaries"]})
            if number == 2:
                session.move_head(asked.id)
                session.append(Message("assistant", "another"), asked.id, finish_reason="cancelled")
        session.set_system("Be long.")
        session.set_model("other")
        return session.path.read_bytes()


# Ways to damage bytes: each gives one mutation after another


def flipped(data: bytes, chance: random.Random) -> bytes:
    at = chance.randrange(len(data))
    return data[:at] + bytes([data[at] ^ chance.randrange(1, 256)]) + data[at + 1 :]


def cut(data: bytes, chance: random.Random) -> bytes:
    return data[: chance.randrange(len(data))]


def zeroed(data: bytes, chance: random.Random) -> bytes:
    at, length = chance.randrange(len(data)), chance.randrange(1, 1500)
    return (data[:at] + bytes(length) + data[at + length :])[: len(data)]


def not_text(data: bytes, chance: random.Random) -> bytes:
    at = chance.randrange(len(data))
    return data[:at] + chance.choice([b"\xff", b"\xc3", b"\xed\xa0\x80", b"\0"]) + data[at:]


def shuffled(data: bytes, chance: random.Random) -> bytes:
    """Some lines twice, some gone, some elsewhere."""
    first, *lines = data.splitlines(keepends=True)
    for _ in range(chance.randrange(1, 5)):
        at = chance.randrange(len(lines))
        deed = chance.choice(["twice", "gone", "elsewhere"])
        found = lines[at] if deed == "twice" else lines.pop(at)
        if deed != "gone":
            lines.insert(chance.randrange(len(lines)), found)
    return first + b"".join(lines)


def retyped(data: bytes, chance: random.Random) -> bytes:
    """A strange value in some field of some line, the record's parts included."""
    lines = [json.loads(line) for line in data.splitlines()]
    line = chance.choice(lines)
    found = line["record"] if "record" in line and chance.random() < 0.5 else line
    if found:
        found[chance.choice(list(found))] = chance.choice(STRANGE)
    return b"".join(json.dumps(line).encode() + b"\n" for line in lines)


def deepened(data: bytes, chance: random.Random) -> bytes:
    """A field nested deeper than anyone would."""
    lines = data.splitlines(keepends=True)
    depth = chance.choice([5, 300, 900, 990, 5000, 100_000])
    at = chance.randrange(len(lines))
    nested = b"[" * depth + b"]" * depth
    where = chance.choice([b'"record": {', b"{"])
    lines[at] = lines[at].replace(where, where + b'"deep": ' + nested + b", ", 1)
    return b"".join(lines)


WAYS = (flipped, cut, zeroed, not_text, shuffled, retyped, deepened)


def mutations(data: bytes, way: Callable[[bytes, random.Random], bytes]) -> Iterator[bytes]:
    chance = random.Random(f"{SEED} {way.__name__}")
    return (way(data, chance) for _ in range(MUTATIONS))


# What must hold for any bytes at all


def use(folder: SessionFolder) -> Transcript | None:
    """Everything that the program does with a session; None if it is refused."""
    path = folder.folder / "dog.jsonl"
    before = path.read_bytes()
    folder.summaries()
    try:
        transcript = folder.read("dog")
    except (SessionUnreadable, SessionVersionError):
        with pytest.raises(ChatcliError):
            folder.open("dog")
        assert before == path.read_bytes()
        return None
    list(recovered(transcript))
    with folder.open("dog") as session:
        whole = before[: before.rindex(b"\n") + 1]
        assert whole == path.read_bytes()
        entry = session.append(Message("user", "next"), session.conversation.head)
        if session.conversation.turns()[0].user.id != entry.id:
            opening.branch_from(folder, "dog", session.conversation, None, None).close()
    after = folder.read("dog")
    assert whole == path.read_bytes()[: len(whole)]
    assert entry.id == after.conversation.path()[-1].id
    assert "next" == after.conversation.path()[-1].message.content
    return transcript


def good_entries(lines: list[bytes]) -> set[str]:
    """The ids of the entries in these lines."""
    found = [json.loads(line) for line in lines]
    return {line["id"] for line in found if line["type"] in ("user", "assistant")}


def is_json(line: bytes) -> bool:
    try:
        return isinstance(json.loads(line), dict)
    except (ValueError, RecursionError):
        return False


@pytest.mark.parametrize("way", [*WAYS[:2], *map(at_night, WAYS[2:])])
def test_a_damaged_transcript_is_refused_in_a_sentence_or_kept_but_for_its_bad_lines(
    real: bytes, tmp_path: Path, way: Callable[[bytes, random.Random], bytes]
) -> None:
    sound = set(real.split(b"\n")[:-1])
    read = 0
    for number, data in enumerate(mutations(real, way)):
        folder = SessionFolder(tmp_path / str(number))
        folder.folder.mkdir()
        (folder.folder / "dog.jsonl").write_bytes(data)
        transcript = use(folder)
        if transcript is not None:
            read += 1
            lines = data.split(b"\n")[1:-1]
            good = good_entries([line for line in lines if line in sound])
            assert way is shuffled or good <= set(transcript.conversation.entries)
            assert sum(not is_json(line) for line in lines) <= len(transcript.problems)
    assert read > MUTATIONS // 3


@pytest.mark.parametrize("lost", range(1, 13))
def test_any_lost_line_costs_nothing_but_itself(real: bytes, lost: int) -> None:
    lines = real.splitlines(keepends=True)
    whole = parse("dog", real)
    lost_line = json.loads(lines[lost])
    for replacement in (b"", b"garbage\n", lines[lost][:40] + b"\n", bytes(50) + b"\n"):
        back = parse("dog", b"".join([*lines[:lost], replacement, *lines[lost + 1 :]]))
        assert len(whole.conversation.path()) == len(back.conversation.path())
        kept = [e.message for e in whole.conversation.path() if e.id != lost_line["id"]]
        assert kept == [e.message for e in back.conversation.path() if e.id != lost_line["id"]]
        assert back.problems or lost_line["type"] == "note" or replacement == b""


def test_messages_alternate_whatever_run_of_lines_is_lost(real: bytes) -> None:
    lines = real.splitlines(keepends=True)
    for start, end in itertools.combinations(range(1, len(lines)), 2):
        back = parse("dog", b"".join([*lines[:start], b"garbage\n", *lines[end:]]))
        roles = [entry.message.role for entry in back.conversation.path()]
        assert ["user", "assistant"] * (len(roles) // 2) == roles[: len(roles) // 2 * 2]


def test_what_a_lost_line_stood_for_is_not_remembered_as_boundaries(real: bytes) -> None:
    lines = real.splitlines(keepends=True)
    back = parse("dog", b"".join(lines[:1] + lines[2:]))
    assert set() == {e.id for e in back.conversation.path() if "boundaries" in e.record}
    assert "segments" in back.conversation.path()[-1].record


@pytest.mark.parametrize("key", [*RECORD, "deep"])
@pytest.mark.parametrize("value", [{"x": {"y": {"z": 1}}}, [[[[1]]]], ["../x"]], ids=repr)
def test_strange_numbers_cost_a_reply_its_numbers_only(real: bytes, key: str, value: Any) -> None:
    header, asked, reply, *_ = real.splitlines(keepends=True)
    line = json.loads(reply)
    line["record"] = {**RECORD, key: value}
    back = parse("dog", header + asked + encode(line))
    (entry,) = [e for e in back.conversation.entries.values() if e.message.role == "assistant"]
    assert line["content"] == entry.message.content
    if (key, value) != ("deep", ["../x"]):
        assert ["line 3 of the session 'dog' has numbers that are damaged: left out"] == back.problems
        assert {**RECORD, key: 0}.keys() - {key} == entry.record.keys()


def test_each_strange_value_of_each_field_is_told(real: bytes) -> None:
    """Where a value is of the wrong kind, it is named in the problems."""
    header, asked, reply, *_ = real.splitlines(keepends=True)
    wrong: dict[str, list[Any]] = {
        "id": [None, 7, "", [], {}],
        "parent": [7, [], {}],
        "content": [None, 7, [], {}],
        "time": [None, "noon", [], 10**400, float("nan"), float("inf")],
        "thinking": [None, 7, []],
        "finish_reason": [7, [], {}],
        "record": [None, 7, [], "x"],
    }
    for field, values in wrong.items():
        for value in values:
            bad = json.dumps({**json.loads(reply), field: value}).encode() + b"\n"
            assert 1 == len(parse("dog", header + asked + bad).problems), (field, value)


@pytest.mark.parametrize(
    "change",
    [
        {"version": 2},
        {"version": 10**9},
        {"version": "1"},
        {"version": None},
        {"date": 5},
        {"date": "soon"},
        {"system": 5},
        {"system": []},
        {"model": {}},
        {"type": "user"},
    ],
    ids=repr,
)
def test_a_header_that_says_something_else_is_refused_untouched(
    real: bytes, tmp_path: Path, change: dict[str, Any]
) -> None:
    header, _, rest = real.partition(b"\n")
    data = encode({**json.loads(header), **change}) + rest
    (tmp_path / "dog.jsonl").write_bytes(data)
    assert None is use(SessionFolder(tmp_path))
    assert [True] == [bool(summary.problem) for summary in SessionFolder(tmp_path).summaries()]
    assert data == (tmp_path / "dog.jsonl").read_bytes()


@pytest.mark.parametrize("data", [b"", b"\n", b"\0", bytes(5000), b"\xef\xbb\xbf", b"{}", b"\r\n"])
def test_a_file_that_is_hardly_there_is_refused_untouched(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "dog.jsonl").write_bytes(data)
    assert None is use(SessionFolder(tmp_path))


@pytest.mark.parametrize(
    "edit",
    [
        lambda data: b"\xef\xbb\xbf" + data,
        lambda data: data.replace(b"\n", b"\r\n"),
        lambda data: b"\xef\xbb\xbf" + data.replace(b"\n", b"\r\n"),
        lambda data: data.replace(b'": ', b'" :  '),
    ],
)
def test_what_editors_do_to_a_file_costs_nothing(
    real: bytes, tmp_path: Path, edit: Callable[[bytes], bytes]
) -> None:
    (tmp_path / "dog.jsonl").write_bytes(edit(real))
    transcript = use(SessionFolder(tmp_path))
    assert transcript is not None
    assert [] == transcript.problems
    assert parse("dog", real).conversation == transcript.conversation


def test_two_files_that_changed_places_are_each_what_they_contain(real: bytes, tmp_path: Path) -> None:
    folder = SessionFolder(tmp_path)
    with folder.create("cat", model="m", system=None) as session:
        session.append(Message("user", "meow"), None)
        cat = session.path
    (tmp_path / "dog.jsonl").write_bytes(cat.read_bytes())
    cat.write_bytes(real)
    assert "meow" == folder.read("dog").conversation.path()[0].message.content
    assert parse("cat", real) == folder.read("cat")


def test_lone_surrogates_are_read_as_text_that_can_be_written(tmp_path: Path, real: bytes) -> None:
    header, asked, *_ = real.splitlines(keepends=True)
    bad = json.dumps({**json.loads(asked), "content": "a\ud800b"}).encode() + b"\n"
    (tmp_path / "dog.jsonl").write_bytes(header + bad)
    assert use(SessionFolder(tmp_path)) is not None
    assert "a?b" == SessionFolder(tmp_path).read("dog").conversation.path()[0].message.content
