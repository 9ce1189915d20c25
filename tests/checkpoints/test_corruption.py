"""Damage to the checkpoints of a real conversation: each is reported, and none is restored."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from chatcli.errors import SegmentDamaged
from chatcli.events import TurnRecord
from chatcli.files import Location
from chatcli.store.segments import inventory, segments
from chatcli.store.segments.catalog import DAMAGED, ROWS_NAME, STATE_NAME, TOKENS, locate, state_path
from chatcli.store.segments.container import Container, Tensor
from chatcli.store.segments.segments import SegmentStore
from chatcli.store.segments.token_path import Segment, TokenPath
from chatcli.turn.prompt import render_history
from tests.support.checkpointing import Raw, raw, read_rows, rewrite
from tests.support.families import at_night
from tests.support.harness import MESSAGES, Harness
from tests.support.program import segment_files
from tests.support.tiny import write_model

FAMILIES = ["qwen3_5", "gpt_oss"]
# One turn more than a joined file holds.
QUESTIONS = [*MESSAGES, "Which river was it?"]
NEXT_QUESTION = "Thank you. Who swims?"
FLIPS_PER_FILE = 36
MIN_DAMAGES = 1000
Change = dict[Path, bytes]


@dataclass(frozen=True)
class SavedConversation:
    """A conversation on disk: its path, and the rows and states of the undamaged files."""

    family: str
    model: Path
    sessions: Path
    token_path: TokenPath
    fingerprint: str
    rows: Raw
    states: dict[str, Raw]

    @property
    def folder(self) -> Path:
        return self.sessions / "kv" / self.fingerprint

    @property
    def files(self) -> list[Path]:
        """Those of the path: a reply that was cut has one more, beside it."""
        ids = [segment.id[:16] for segment in self.token_path]
        files = sorted(self.folder.glob("??/*.safetensors"))
        return [path for path in files if any(each in path.name for each in ids)]


def path_in(harness: Harness, name: str) -> TokenPath:
    """The path of the last checkpoint of a conversation."""
    chat = harness.chat(name)
    return render_history(chat, chat.session.conversation.path()[-1]).path


def save_conversation(model: Path, sessions: Path) -> SavedConversation:
    with Harness(model, sessions, tokens=5) as harness:
        chat = harness.chat(model.name)
        for message in QUESTIONS:
            harness.say(chat, message)
    with Harness(model, sessions) as harness:
        token_path = path_in(harness, model.name)
        fingerprint = harness.runtime.loaded.fingerprint
    store = SegmentStore(sessions, fingerprint)
    with store.rows(token_path) as stored_rows:
        rows_read = read_rows(stored_rows)
    with_state = [segment for segment in token_path if store.has_state(segment.id)]
    states = {segment.id: raw(store.state(segment)[0]) for segment in with_state}
    store.close()
    return SavedConversation(model.name, model, sessions, token_path, fingerprint, rows_read, states)


@pytest.fixture(scope="module")
def conversations(tmp_path_factory: pytest.TempPathFactory) -> dict[str, SavedConversation]:
    """Conversations of a hybrid and of a sliding window model, in one folder."""
    folder = tmp_path_factory.mktemp("corruption")
    models = [write_model(folder / family, family) for family in FAMILIES]
    return {model.name: save_conversation(model, folder / "saved") for model in models}


@pytest.fixture(params=FAMILIES)
def saved(request: pytest.FixtureRequest, conversations: dict[str, SavedConversation]) -> SavedConversation:
    return conversations[request.param]


def other_conversation(
    saved: SavedConversation, conversations: dict[str, SavedConversation]
) -> SavedConversation:
    return next(other for other in conversations.values() if other is not saved)


def test_the_conversation_has_every_kind_of_file(saved: SavedConversation) -> None:
    files = locate(Location.of(saved.folder), saved.token_path)
    assert [1, 8] == [file.segments for file in files][:2]
    assert len(saved.token_path) == sum(file.segments for file in files)
    assert (saved.family == "qwen3_5") == (len(saved.token_path) == len(saved.states))
    assert all(size for _, _, size in saved.rows.values())
    assert [] == list(inventory.verify(saved.sessions))


# Kinds of damage


def flips(path: Path, data: bytes, rng: random.Random) -> Iterator[Change]:
    """Single bit flips, evenly spread; the first is in the header."""
    step = len(data) / FLIPS_PER_FILE
    for number in range(FLIPS_PER_FILE):
        changed = bytearray(data)
        changed[int(step * number + rng.random() * step)] ^= 1 << rng.randrange(8)
        yield {path: bytes(changed)}


def cuts(path: Path, data: bytes, rng: random.Random) -> Iterator[Change]:
    for length in (0, 1, 7, 8, rng.randrange(9, len(data)), len(data) // 2, len(data) - 1):
        yield {path: data[:length]}


def zeros(path: Path, data: bytes, rng: random.Random) -> Iterator[Change]:
    for length in (16, 512, len(data)):
        start = rng.randrange(max(1, len(data) - length))
        yield {path: data[:start] + bytes(min(length, len(data))) + data[start + length :]}


def additions(path: Path, data: bytes, rng: random.Random) -> Iterator[Change]:
    for suffix in (b"\0", rng.randbytes(4096), data):
        yield {path: data + suffix}


def swaps(path: Path, data: bytes, others: list[Path], rng: random.Random) -> Iterator[Change]:
    """The content of another file in place of this one's, and the two contents exchanged."""
    for other in rng.sample(others, 2):
        yield {path: other.read_bytes()}
        yield {path: other.read_bytes(), other: data}


def all_damages(saved: SavedConversation, foreign: SavedConversation) -> Iterator[Change]:
    for path in saved.files:
        rng = random.Random(path.name)
        data = path.read_bytes()
        for kind in (flips, cuts, zeros, additions):
            yield from (change for change in kind(path, data, rng) if change[path] != data)
        others = [other for other in saved.files if other != path]
        yield from swaps(path, data, others, rng)
        yield {path: rng.choice(foreign.files).read_bytes()}


def write_change(change: Change) -> Change:
    """Write the change. Returns the contents before it."""
    before = {path: path.read_bytes() for path in change}
    for path, data in change.items():
        path.write_bytes(data)
    return before


def undo(saved: SavedConversation, before: Change) -> None:
    for path in list(saved.folder.glob(f"??/*{DAMAGED}")):
        path.unlink()
    for path, data in before.items():
        path.write_bytes(data)


# The store


def all_is_read(saved: SavedConversation, store: SegmentStore, change: Change) -> bool:
    """Whether all rows and states are read without an error. Asserts that what is read is right."""
    stateful = bool(saved.states)
    assert 0 <= store.depth(saved.token_path, stateful=stateful) <= len(saved.token_path)
    rows_read = rows_are_read(saved, store)
    states = [
        segment for segment in saved.token_path if state_path(Location.of(saved.folder), segment.id) in change
    ]
    return all([rows_read, *(state_is_read(saved, store, state) for state in states)])


def rows_are_read(saved: SavedConversation, store: SegmentStore) -> bool:
    try:
        with store.rows(saved.token_path) as rows:
            rows_read = read_rows(rows)
    except SegmentDamaged:
        return False
    assert saved.rows == rows_read
    return True


def state_is_read(saved: SavedConversation, store: SegmentStore, segment: Segment) -> bool:
    try:
        state = raw(store.state(segment)[0])
    except SegmentDamaged:
        return False
    assert saved.states[segment.id] == state
    return True


@pytest.mark.slow
def test_a_thousand_damages_are_reported_and_never_read(conversations: dict[str, SavedConversation]) -> None:
    count = 0
    for saved in conversations.values():
        store = SegmentStore(saved.sessions, saved.fingerprint)
        for change in list(all_damages(saved, other_conversation(saved, conversations))):
            before = write_change(change)
            reported = {problem.path for problem in inventory.verify(saved.sessions)}
            read = all_is_read(saved, store, change)
            undo(saved, before)
            assert (set(change), False) == (reported, read)
            count += 1
        assert all_is_read(saved, store, dict.fromkeys(saved.files, b""))
        store.close()
    assert [] == list(inventory.verify(saved.sessions))
    assert count >= MIN_DAMAGES


def tensor_of(*values: int) -> Tensor:
    return Tensor.of(np.asarray(values, "<i4"))


# Wrong metadata under a right digest: only a check of the metadata itself can find it.
WRONG_METADATA: dict[str, Callable[[Path], None]] = {
    "another format": lambda path: rewrite(path, {"format": "other"}),
    "no format": lambda path: rewrite(path, {"format": None}),
    "another version": lambda path: rewrite(path, {"version": "3"}),
    "the first version": lambda path: rewrite(path, {"version": "1"}),
    "no kind": lambda path: rewrite(path, {"kind": None}),
    "an unknown kind": lambda path: rewrite(path, {"kind": "other"}),
    "another model": lambda path: rewrite(path, {"fingerprint": "0" * 32}),
    "no model": lambda path: rewrite(path, {"fingerprint": None}),
    "another id": lambda path: rewrite(path, {"id": "0" * 64}),
    "no id": lambda path: rewrite(path, {"id": None}),
    "no start": lambda path: rewrite(path, {"start": None}),
    "a start that is none": lambda path: rewrite(path, {"start": "x"}),
    "no seconds": lambda path: rewrite(path, {"seconds": None}),
    "seconds that are none": lambda path: rewrite(path, {"seconds": "x"}),
}
WRONG_ROWS_METADATA: dict[str, Callable[[Path], None]] = {
    "states' kind": lambda path: rewrite(path, {"kind": "state"}),
    "no parent": lambda path: rewrite(path, {"parent": None}),
    "an empty parent": lambda path: rewrite(path, {"parent": ""}),
    "a parent that is none": lambda path: rewrite(path, {"parent": "xyz"}),
    "another parent": lambda path: rewrite(path, {"parent": "0" * 64}),
    "another start": lambda path: rewrite(path, {"start": "100000"}),
    "a negative start": lambda path: rewrite(path, {"start": "-5"}),
    "no ends": lambda path: rewrite(path, {"ends": None}),
    "ends of nothing": lambda path: rewrite(path, {"ends": "[]"}),
    "ends that are none": lambda path: rewrite(path, {"ends": "x"}),
    "ends that are a number": lambda path: rewrite(path, {"ends": "5"}),
    "ends that are null": lambda path: rewrite(path, {"ends": "null"}),
    "ends that are texts": lambda path: rewrite(path, {"ends": '["5"]'}),
    "ends that are true": lambda path: rewrite(path, {"ends": "[true]"}),
    "ends that are floats": lambda path: rewrite(path, {"ends": "[1e3]"}),
    "ends beyond any": lambda path: rewrite(path, {"ends": f"[{1 << 63}]"}),
    "deep ends": lambda path: rewrite(path, {"ends": "[" * 100_000}),
    "a thousand ends": lambda path: rewrite(path, {"ends": str(list(range(100_000, 200_000)))}),
    "no tokens": lambda path: rewrite(path, {}, **{TOKENS: None}),
    "other tokens": lambda path: rewrite(path, {}, **{TOKENS: tensor_of(1, 2, 3)}),
    "tokens of another type": lambda path: rewrite(
        path, {}, **{TOKENS: Tensor.of(np.array([np.nan, np.inf]))}
    ),
    "a table of tokens": lambda path: rewrite(path, {}, **{TOKENS: Tensor.of(np.zeros((2, 2), "<i4"))}),
}
WRONG_STATE_METADATA: dict[str, Callable[[Path], None]] = {
    "rows' kind": lambda path: rewrite(path, {"kind": "rows"}),
    "no scalars": lambda path: rewrite(path, {"scalars": None}),
    "scalars that are none": lambda path: rewrite(path, {"scalars": "{"}),
    "deep scalars": lambda path: rewrite(path, {"scalars": "[" * 100_000}),
}


def size_of(path: Path) -> int:
    return path.stat().st_size


def wrong_metadata_for(path: Path) -> dict[str, Callable[[Path], None]]:
    return {
        **WRONG_METADATA,
        **(WRONG_ROWS_METADATA if ROWS_NAME.fullmatch(path.name) else WRONG_STATE_METADATA),
    }


def test_a_file_with_wrong_metadata_is_reported_and_never_read(saved: SavedConversation) -> None:
    store = SegmentStore(saved.sessions, saved.fingerprint)
    rows = [path for path in saved.files if ROWS_NAME.fullmatch(path.name)]
    states = [path for path in saved.files if STATE_NAME.fullmatch(path.name)]
    # The joined file, a small one and a state file.
    for path in (max(rows, key=size_of), min(rows, key=size_of), *states[:1]):
        for kind, rewrite_file in wrong_metadata_for(path).items():
            before = {path: path.read_bytes()}
            rewrite_file(path)
            reported = [problem.path for problem in inventory.verify(saved.sessions)]
            list(inventory.usage(saved.sessions))
            all_is_read(saved, store, before)
            undo(saved, before)
            assert (kind, [path]) == (kind, reported)
    store.close()


# Turns over damaged files


def copy_of(saved: SavedConversation, folder: Path) -> SavedConversation:
    shutil.copytree(saved.sessions, folder / "saved")
    return SavedConversation(**{**vars(saved), "sessions": folder / "saved"})


def next_turn(saved: SavedConversation) -> TurnRecord:
    with Harness(saved.model, saved.sessions, tokens=5) as harness:
        return harness.say(harness.chat(saved.family), NEXT_QUESTION)


@pytest.fixture(scope="module")
def undamaged(
    conversations: dict[str, SavedConversation], tmp_path_factory: pytest.TempPathFactory
) -> dict[str, TurnRecord]:
    folder = tmp_path_factory.mktemp("undamaged")
    return {name: next_turn(copy_of(saved, folder / name)) for name, saved in conversations.items()}


def flip_header(path: Path) -> None:
    flip(path, 100)


def flip_rows(path: Path) -> None:
    """Flip a bit in a full attention layer, which needs every row, or in the first state."""
    with Container(Location.of_file(path)) as file:
        name = next(name for name in ("3.keys", "1.keys", *sorted(file.tensors)) if name in file.tensors)
        position = file.tensors[name].offset
    flip(path, position + 5)


def flip(path: Path, position: int) -> None:
    data = bytearray(path.read_bytes())
    data[position] ^= 0x10
    path.write_bytes(data)


def halve(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def empty(path: Path) -> None:
    path.write_bytes(b"")


def files_of_next_turn(saved: SavedConversation) -> list[Path]:
    """The files that the next turn reads."""
    rows = [located.path.path for located in locate(Location.of(saved.folder), saved.token_path)]
    last_state = state_path(Location.of(saved.folder), saved.token_path[-1].id).path
    return [*rows, *([last_state] if saved.states else [])]


@pytest.mark.parametrize("damage", [at_night(flip_header), flip_rows, halve, at_night(empty)])
def test_a_turn_over_damaged_files_gives_the_same_reply_and_a_miss_reason(
    saved: SavedConversation, undamaged: dict[str, TurnRecord], tmp_path: Path, damage: Callable[[Path], None]
) -> None:
    expected = undamaged[saved.family]
    assert None is expected.miss_reason
    for number in range(len(files_of_next_turn(saved))):
        damaged = copy_of(saved, tmp_path / str(number))
        damage(files_of_next_turn(damaged)[number])
        record = next_turn(damaged)
        assert (expected.tokens, expected.logprobs) == (record.tokens, record.logprobs)
        assert record.miss_reason
        assert record.reused_tokens < expected.reused_tokens


def test_swapped_files_cost_time_only(
    saved: SavedConversation, undamaged: dict[str, TurnRecord], tmp_path: Path
) -> None:
    expected = undamaged[saved.family]
    damaged = copy_of(saved, tmp_path)
    first, second = files_of_next_turn(damaged)[1:3]
    write_change({first: second.read_bytes(), second: first.read_bytes()})
    record = next_turn(damaged)
    assert (expected.tokens, expected.logprobs) == (record.tokens, record.logprobs)
    assert record.miss_reason


def test_segments_set_aside_by_a_repair_are_written_again(
    saved: SavedConversation, undamaged: dict[str, TurnRecord], tmp_path: Path
) -> None:
    damaged = copy_of(saved, tmp_path)
    for path, damage in zip(files_of_next_turn(damaged), (flip_rows, halve, flip_rows), strict=False):
        damage(path)
    for problem in list(inventory.verify(damaged.sessions)):
        segments.set_aside(problem.path)
    assert [] == list(inventory.verify(damaged.sessions))
    first, second = next_turn(damaged), next_turn(damaged)
    assert undamaged[saved.family].tokens == first.tokens
    assert first.miss_reason
    assert None is second.miss_reason
    assert second.reused_tokens > undamaged[saved.family].reused_tokens
    assert [] == list(inventory.verify(damaged.sessions))


def test_a_wholly_damaged_folder_is_a_cold_start(
    saved: SavedConversation, undamaged: dict[str, TurnRecord], tmp_path: Path
) -> None:
    damaged = copy_of(saved, tmp_path)
    for number, path in enumerate(segment_files(damaged.sessions)):
        (flip_header, halve, empty)[number % 3](path)
    record = next_turn(damaged)
    assert undamaged[saved.family].tokens == record.tokens
    assert (0, True) == (record.reused_tokens, bool(record.miss_reason))
