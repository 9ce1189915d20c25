"""Damaged transcripts: never a crash, and no good line lost to a bad one."""

from __future__ import annotations

import itertools
import json
import random
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from chatcli.conversation.tree import Message
from chatcli.errors import ChatcliError, SessionUnreadable, SessionVersionError
from chatcli.session import opening
from chatcli.store.sessions import served
from chatcli.store.sessions.folder import SessionFolder
from chatcli.store.sessions.transcript import Transcript, encode, parse, recovered
from tests.support.families import at_night

SEED = 20261121
MUTATION_COUNT = 90
RECORD = {
    "prompt_tokens": 41,
    "reused_tokens": 30,
    "typeahead_tokens": 0,
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
    "thinking_tokens": 2,
    "generated_tokens": 3,
    "generated": [5, 6, 7],
    "boundaries": {"before": 12, "question": 30, "reply": 41},
    "template": "c0ffee",
}
ODD_VALUES: list[Any] = [
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
            question = session.append(Message("user", f"question {number} é"), session.conversation.head)
            reply = session.append(
                Message("assistant", f"answer {number}\n日本", "hm"),
                question.id,
                finish_reason="stop",
                record=RECORD,
            )
            session.note(reply, {"settled_tokens": 9, "boundaries": RECORD["boundaries"]})
            if number == 2:
                session.move_head(question.id)
                session.append(Message("assistant", "another"), question.id, finish_reason="cancelled")
        session.set_system("Be long.")
        session.set_model("other")
        return session.path.read_bytes()


# Mutators: each returns damaged bytes


def flipped(data: bytes, rng: random.Random) -> bytes:
    at = rng.randrange(len(data))
    return data[:at] + bytes([data[at] ^ rng.randrange(1, 256)]) + data[at + 1 :]


def cut(data: bytes, rng: random.Random) -> bytes:
    return data[: rng.randrange(len(data))]


def zeroed(data: bytes, rng: random.Random) -> bytes:
    at, length = rng.randrange(len(data)), rng.randrange(1, 1500)
    return (data[:at] + bytes(length) + data[at + length :])[: len(data)]


def not_text(data: bytes, rng: random.Random) -> bytes:
    at = rng.randrange(len(data))
    return data[:at] + rng.choice([b"\xff", b"\xc3", b"\xed\xa0\x80", b"\0"]) + data[at:]


def shuffled(data: bytes, rng: random.Random) -> bytes:
    """Duplicate, remove or move some lines."""
    header, *lines = data.splitlines(keepends=True)
    for _ in range(rng.randrange(1, 5)):
        at = rng.randrange(len(lines))
        edit = rng.choice(["twice", "gone", "elsewhere"])
        line = lines[at] if edit == "twice" else lines.pop(at)
        if edit != "gone":
            lines.insert(rng.randrange(len(lines)), line)
    return header + b"".join(lines)


def retyped(data: bytes, rng: random.Random) -> bytes:
    """Set a field of a line, or of its record, to an odd value."""
    lines = [json.loads(line) for line in data.splitlines()]
    line = rng.choice(lines)
    fields = line["record"] if "record" in line and rng.random() < 0.5 else line
    if fields:
        fields[rng.choice(list(fields))] = rng.choice(ODD_VALUES)
    return b"".join(json.dumps(line).encode() + b"\n" for line in lines)


def deepened(data: bytes, rng: random.Random) -> bytes:
    """Add a deeply nested field to a line or its record."""
    lines = data.splitlines(keepends=True)
    depth = rng.choice([5, 300, 900, 990, 5000, 100_000])
    at = rng.randrange(len(lines))
    nested = b"[" * depth + b"]" * depth
    place = rng.choice([b'"record": {', b"{"])
    lines[at] = lines[at].replace(place, place + b'"deep": ' + nested + b", ", 1)
    return b"".join(lines)


MUTATORS = (flipped, cut, zeroed, not_text, shuffled, retyped, deepened)


def mutations(data: bytes, mutate: Callable[[bytes, random.Random], bytes]) -> Iterator[bytes]:
    rng = random.Random(f"{SEED} {mutate.__name__}")
    return (mutate(data, rng) for _ in range(MUTATION_COUNT))


# Invariants for any bytes


def use(folder: SessionFolder) -> Transcript | None:
    """List, read, open, append to and branch a session; None if it is refused."""
    path = folder.folder / "dog.jsonl"
    old_bytes = path.read_bytes()
    folder.summaries()
    try:
        transcript = folder.read("dog")
    except (SessionUnreadable, SessionVersionError):
        with pytest.raises(ChatcliError):
            folder.open("dog")
        assert old_bytes == path.read_bytes()
        return None
    list(recovered(transcript))
    with folder.open("dog") as session:
        complete_lines = old_bytes[: old_bytes.rindex(b"\n") + 1]
        assert complete_lines == path.read_bytes()
        entry = session.append(Message("user", "next"), session.conversation.head)
        if session.conversation.turns()[0].user.id != entry.id:
            opening.branch(folder, session, None).close()
    reread = folder.read("dog")
    assert complete_lines == path.read_bytes()[: len(complete_lines)]
    assert entry.id == reread.conversation.path()[-1].id
    assert "next" == reread.conversation.path()[-1].message.content
    return transcript


def good_entries(lines: list[bytes]) -> set[str]:
    """The ids of the entries in these lines."""
    parsed = [json.loads(line) for line in lines]
    return {line["id"] for line in parsed if line["type"] in ("user", "assistant")}


def is_json(line: bytes) -> bool:
    try:
        return isinstance(json.loads(line), dict)
    except (ValueError, RecursionError):
        return False


@pytest.mark.parametrize("mutate", [*MUTATORS[:2], *map(at_night, MUTATORS[2:])])
def test_a_damaged_transcript_is_refused_or_read_without_its_bad_lines(
    real: bytes, tmp_path: Path, mutate: Callable[[bytes, random.Random], bytes]
) -> None:
    undamaged_lines = set(real.split(b"\n")[:-1])
    readable = 0
    for number, data in enumerate(mutations(real, mutate)):
        folder = SessionFolder(tmp_path / str(number))
        folder.folder.mkdir()
        (folder.folder / "dog.jsonl").write_bytes(data)
        transcript = use(folder)
        if transcript is not None:
            readable += 1
            lines = data.split(b"\n")[1:-1]
            expected_ids = good_entries([line for line in lines if line in undamaged_lines])
            assert mutate is shuffled or expected_ids <= set(transcript.conversation.entries)
            assert sum(not is_json(line) for line in lines) <= len(transcript.problems)
    assert readable > MUTATION_COUNT // 3


@pytest.mark.parametrize("lost", range(1, 13))
def test_any_lost_line_costs_nothing_but_itself(real: bytes, lost: int) -> None:
    lines = real.splitlines(keepends=True)
    undamaged = parse("dog", real)
    lost_line = json.loads(lines[lost])
    for replacement in (b"", b"garbage\n", lines[lost][:40] + b"\n", bytes(50) + b"\n"):
        back = parse("dog", b"".join([*lines[:lost], replacement, *lines[lost + 1 :]]))
        assert len(undamaged.conversation.path()) == len(back.conversation.path())
        remaining = [e.message for e in undamaged.conversation.path() if e.id != lost_line["id"]]
        assert remaining == [e.message for e in back.conversation.path() if e.id != lost_line["id"]]
        assert back.problems or lost_line["type"] == "note" or replacement == b""


def test_messages_alternate_whatever_run_of_lines_is_lost(real: bytes) -> None:
    lines = real.splitlines(keepends=True)
    for start, end in itertools.combinations(range(1, len(lines)), 2):
        back = parse("dog", b"".join([*lines[:start], b"garbage\n", *lines[end:]]))
        roles = [entry.message.role for entry in back.conversation.path()]
        assert ["user", "assistant"] * (len(roles) // 2) == roles[: len(roles) // 2 * 2]


def test_boundaries_of_a_lost_line_are_dropped(real: bytes) -> None:
    lines = real.splitlines(keepends=True)
    back = parse("dog", b"".join(lines[:1] + lines[2:]))
    assert set() == {e.id for e in back.conversation.path() if "boundaries" in e.record}
    assert "segments" in back.conversation.path()[-1].record


@pytest.mark.parametrize("key", [*RECORD, "deep"])
@pytest.mark.parametrize("value", [{"x": {"y": {"z": 1}}}, [[[[1]]]], ["../x"]], ids=repr)
def test_a_damaged_record_costs_a_reply_its_record_only(real: bytes, key: str, value: Any) -> None:
    header, user_line, reply, *_ = real.splitlines(keepends=True)
    line = json.loads(reply)
    line["record"] = {**RECORD, key: value}
    back = parse("dog", header + user_line + encode(line))
    (entry,) = [e for e in back.conversation.entries.values() if e.message.role == "assistant"]
    assert line["content"] == entry.message.content
    if (key, value) != ("deep", ["../x"]):
        assert ["line 3 of the session 'dog' has a damaged record: left out"] == back.problems
        assert {**RECORD, key: 0}.keys() - {key} == entry.record.keys()


def test_each_wrong_value_of_each_field_is_reported(real: bytes) -> None:
    """A value of the wrong type is one problem."""
    header, user_line, reply, *_ = real.splitlines(keepends=True)
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
            assert 1 == len(parse("dog", header + user_line + bad).problems), (field, value)


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
def test_a_wrong_header_is_refused_and_the_file_untouched(
    real: bytes, tmp_path: Path, change: dict[str, Any]
) -> None:
    header, _, rest = real.partition(b"\n")
    data = encode({**json.loads(header), **change}) + rest
    (tmp_path / "dog.jsonl").write_bytes(data)
    assert None is use(SessionFolder(tmp_path))
    assert [True] == [bool(summary.problem) for summary in SessionFolder(tmp_path).summaries()]
    assert data == (tmp_path / "dog.jsonl").read_bytes()


@pytest.mark.parametrize("data", [b"", b"\n", b"\0", bytes(5000), b"\xef\xbb\xbf", b"{}", b"\r\n"])
def test_a_nearly_empty_file_is_refused_untouched(tmp_path: Path, data: bytes) -> None:
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
def test_changes_that_editors_make_cost_nothing(
    real: bytes, tmp_path: Path, edit: Callable[[bytes], bytes]
) -> None:
    (tmp_path / "dog.jsonl").write_bytes(edit(real))
    transcript = use(SessionFolder(tmp_path))
    assert transcript is not None
    assert [] == transcript.problems
    assert parse("dog", real).conversation == transcript.conversation


def test_two_swapped_files_are_read_as_what_they_contain(real: bytes, tmp_path: Path) -> None:
    folder = SessionFolder(tmp_path)
    with folder.create("cat", model="m", system=None) as session:
        session.append(Message("user", "meow"), None)
        cat = session.path
    (tmp_path / "dog.jsonl").write_bytes(cat.read_bytes())
    cat.write_bytes(real)
    assert "meow" == folder.read("dog").conversation.path()[0].message.content
    assert parse("cat", real) == folder.read("cat")


def test_lone_surrogates_become_text_that_can_be_encoded(tmp_path: Path, real: bytes) -> None:
    header, user_line, *_ = real.splitlines(keepends=True)
    bad = json.dumps({**json.loads(user_line), "content": "a\ud800b"}).encode() + b"\n"
    (tmp_path / "dog.jsonl").write_bytes(header + bad)
    assert use(SessionFolder(tmp_path)) is not None
    assert "a?b" == SessionFolder(tmp_path).read("dog").conversation.path()[0].message.content


def test_an_odd_line_of_what_was_served_is_left_out(tmp_path: Path) -> None:
    facts = {"session": "a", "kept_as": "b", "system": "c", "date": "2026-11-22"}
    good = {"id": "good", "time": time.time(), "record": RECORD, **facts}
    odd = itertools.product(good, ODD_VALUES)
    lines = [{**good, "id": f"odd{number}", key: value} for number, (key, value) in enumerate(odd)]
    (tmp_path / served.NAME).write_text("\n".join(map(json.dumps, [good, *lines, good])))
    replies = served.replies(SessionFolder(tmp_path).location)
    assert good == {"time": good["time"], **replies["good"]}
    for reply in replies.values():
        assert all(isinstance(reply[fact], str) for fact in ("id", *facts))
