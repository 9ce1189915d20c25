"""A real conversation's checkpoints, damaged in a thousand ways: named each time, believed never."""

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
from chatcli.store.segments import inventory, segments
from chatcli.store.segments.catalog import DAMAGED, ROWS_NAME, STATE_NAME, TOKENS, locate, state_path
from chatcli.store.segments.container import Container, Tensor
from chatcli.store.segments.segments import SegmentStore
from chatcli.store.segments.token_path import Segment, TokenPath
from chatcli.turn.prompt import render_history
from tests.support.checkpointing import Raw, raw, rewrite, whole
from tests.support.families import at_night
from tests.support.harness import MESSAGES, Harness
from tests.support.program import segment_files
from tests.support.tiny import write_model

FAMILIES = ["qwen3_5", "gpt_oss"]
# One more turn than fills the joined file.
SAID = [*MESSAGES, "Which river was it?"]
NEXT = "Thank you. Who swims?"
FLIPS = 36
MANY = 1000
Change = dict[Path, bytes]


@dataclass(frozen=True)
class Talk:
    """A conversation that is on disk, its path, and what the undamaged files give."""

    family: str
    model: Path
    sessions: Path
    chain: TokenPath
    fingerprint: str
    rows: Raw
    states: dict[str, Raw]

    @property
    def folder(self) -> Path:
        return self.sessions / "kv" / self.fingerprint

    @property
    def files(self) -> list[Path]:
        return sorted(self.folder.glob("??/*.safetensors"))


def path_in(harness: Harness, name: str) -> TokenPath:
    """The path of the checkpoints that a conversation's last turn left behind."""
    chat = harness.chat(name)
    return render_history(chat, chat.session.conversation.path()[-1]).path


def hold(model: Path, sessions: Path) -> Talk:
    with Harness(model, sessions, tokens=5) as harness:
        chat = harness.chat(model.name)
        for message in SAID:
            harness.say(chat, message)
    with Harness(model, sessions) as harness:
        chain = path_in(harness, model.name)
        fingerprint = harness.runtime.loaded.fingerprint
    store = SegmentStore(sessions, fingerprint)
    with store.rows(chain) as rows:
        right = whole(rows)
    having = [segment for segment in chain if store.has_state(segment.id)]
    states = {segment.id: raw(store.state(segment)[0]) for segment in having}
    store.close()
    return Talk(model.name, model, sessions, chain, fingerprint, right, states)


@pytest.fixture(scope="module")
def talks(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Talk]:
    """A hybrid's conversation and a sliding window's, in one folder."""
    folder = tmp_path_factory.mktemp("corruption")
    models = [write_model(folder / family, family) for family in FAMILIES]
    return {model.name: hold(model, folder / "saved") for model in models}


@pytest.fixture(params=FAMILIES)
def talk(request: pytest.FixtureRequest, talks: dict[str, Talk]) -> Talk:
    return talks[request.param]


def other_than(talk: Talk, talks: dict[str, Talk]) -> Talk:
    return next(other for other in talks.values() if other is not talk)


def test_the_conversation_has_all_that_is_to_be_damaged(talk: Talk) -> None:
    found = locate(talk.folder, talk.chain)
    assert [1, 8] == [one.segments for one in found][:2]
    assert len(talk.chain) == sum(one.segments for one in found)
    assert (talk.family == "qwen3_5") == (len(talk.chain) == len(talk.states))
    assert all(size for _, _, size in talk.rows.values())
    assert [] == list(inventory.verify(talk.sessions))


# What can happen to a file


def flips(path: Path, data: bytes, chance: random.Random) -> Iterator[Change]:
    """Evenly spread, the first of them in the header."""
    step = len(data) / FLIPS
    for number in range(FLIPS):
        changed = bytearray(data)
        changed[int(step * number + chance.random() * step)] ^= 1 << chance.randrange(8)
        yield {path: bytes(changed)}


def cuts(path: Path, data: bytes, chance: random.Random) -> Iterator[Change]:
    for length in (0, 1, 7, 8, chance.randrange(9, len(data)), len(data) // 2, len(data) - 1):
        yield {path: data[:length]}


def zeros(path: Path, data: bytes, chance: random.Random) -> Iterator[Change]:
    for length in (16, 512, len(data)):
        start = chance.randrange(max(1, len(data) - length))
        yield {path: data[:start] + bytes(min(length, len(data))) + data[start + length :]}


def additions(path: Path, data: bytes, chance: random.Random) -> Iterator[Change]:
    for more in (b"\0", chance.randbytes(4096), data):
        yield {path: data + more}


def swaps(path: Path, data: bytes, others: list[Path], chance: random.Random) -> Iterator[Change]:
    """The other file's bytes here, and each in the other's place."""
    for other in chance.sample(others, 2):
        yield {path: other.read_bytes()}
        yield {path: other.read_bytes(), other: data}


def damages(talk: Talk, foreign: Talk) -> Iterator[Change]:
    for path in talk.files:
        chance = random.Random(path.name)
        data = path.read_bytes()
        for kind in (flips, cuts, zeros, additions):
            yield from (change for change in kind(path, data, chance) if change[path] != data)
        others = [other for other in talk.files if other != path]
        yield from swaps(path, data, others, chance)
        yield {path: chance.choice(foreign.files).read_bytes()}


def apply(change: Change) -> Change:
    """Write it; what was there before comes back."""
    before = {path: path.read_bytes() for path in change}
    for path, data in change.items():
        path.write_bytes(data)
    return before


def undo(talk: Talk, before: Change) -> None:
    for path in list(talk.folder.glob(f"??/*{DAMAGED}")):
        path.unlink()
    for path, data in before.items():
        path.write_bytes(data)


# The store


def is_believed(talk: Talk, store: SegmentStore, change: Change) -> bool:
    """Whether everything was read as if nothing had happened. What is read is right in any case."""
    stateful = bool(talk.states)
    assert 0 <= store.depth(talk.chain, stateful=stateful) <= len(talk.chain)
    whole_rows = rows_are_right(talk, store)
    states = [segment for segment in talk.chain if state_path(talk.folder, segment.id) in change]
    return all([whole_rows, *(state_is_right(talk, store, one) for one in states)])


def rows_are_right(talk: Talk, store: SegmentStore) -> bool:
    try:
        with store.rows(talk.chain) as rows:
            found = whole(rows)
    except SegmentDamaged:
        return False
    assert talk.rows == found
    return True


def state_is_right(talk: Talk, store: SegmentStore, segment: Segment) -> bool:
    try:
        found = raw(store.state(segment)[0])
    except SegmentDamaged:
        return False
    assert talk.states[segment.id] == found
    return True


@pytest.mark.slow
def test_a_thousand_damages_are_named_and_never_believed(talks: dict[str, Talk]) -> None:
    count = 0
    for talk in talks.values():
        store = SegmentStore(talk.sessions, talk.fingerprint)
        for change in list(damages(talk, other_than(talk, talks))):
            before = apply(change)
            named = {problem.path for problem in inventory.verify(talk.sessions)}
            believed = is_believed(talk, store, change)
            undo(talk, before)
            assert (set(change), False) == (named, believed)
            count += 1
        assert is_believed(talk, store, dict.fromkeys(talk.files, b""))
        store.close()
    assert [] == list(inventory.verify(talk.sessions))
    assert count >= MANY


def tensor_of(*values: int) -> Tensor:
    return Tensor.of(np.asarray(values, "<i4"))


# Signed again with a right digest and right sums. What is wrong shows in the file itself.
LIES: dict[str, Callable[[Path], None]] = {
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
ABOUT_ROWS: dict[str, Callable[[Path], None]] = {
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
ABOUT_STATES: dict[str, Callable[[Path], None]] = {
    "rows' kind": lambda path: rewrite(path, {"kind": "rows"}),
    "no scalars": lambda path: rewrite(path, {"scalars": None}),
    "scalars that are none": lambda path: rewrite(path, {"scalars": "{"}),
    "deep scalars": lambda path: rewrite(path, {"scalars": "[" * 100_000}),
}


def size_of(path: Path) -> int:
    return path.stat().st_size


def lies_about(path: Path) -> dict[str, Callable[[Path], None]]:
    return {**LIES, **(ABOUT_ROWS if ROWS_NAME.fullmatch(path.name) else ABOUT_STATES)}


def test_a_signed_file_that_lies_about_itself_is_named_and_never_believed(talk: Talk) -> None:
    store = SegmentStore(talk.sessions, talk.fingerprint)
    rows = [path for path in talk.files if ROWS_NAME.fullmatch(path.name)]
    states = [path for path in talk.files if STATE_NAME.fullmatch(path.name)]
    # The joined file, a small one and a state.
    for path in (max(rows, key=size_of), min(rows, key=size_of), *states[:1]):
        for lie, tell in lies_about(path).items():
            before = {path: path.read_bytes()}
            tell(path)
            named = [problem.path for problem in inventory.verify(talk.sessions)]
            list(inventory.usage(talk.sessions))
            is_believed(talk, store, before)
            undo(talk, before)
            assert (lie, [path]) == (lie, named)
    store.close()


# The whole harness


def copy_of(talk: Talk, folder: Path) -> Talk:
    shutil.copytree(talk.sessions, folder / "saved")
    return Talk(**{**vars(talk), "sessions": folder / "saved"})


def go_on(talk: Talk) -> TurnRecord:
    with Harness(talk.model, talk.sessions, tokens=5) as harness:
        return harness.say(harness.chat(talk.family), NEXT)


@pytest.fixture(scope="module")
def undamaged(talks: dict[str, Talk], tmp_path_factory: pytest.TempPathFactory) -> dict[str, TurnRecord]:
    folder = tmp_path_factory.mktemp("undamaged")
    return {name: go_on(copy_of(talk, folder / name)) for name, talk in talks.items()}


def flip_header(path: Path) -> None:
    flip(path, 100)


def flip_rows(path: Path) -> None:
    """In the full attention of either model, which needs every row, or in the first state."""
    with Container(path) as file:
        name = next(name for name in ("3.keys", "1.keys", *sorted(file.tensors)) if name in file.tensors)
        at = file.tensors[name].offset
    flip(path, at + 5)


def flip(path: Path, position: int) -> None:
    data = bytearray(path.read_bytes())
    data[position] ^= 0x10
    path.write_bytes(data)


def halve(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def empty(path: Path) -> None:
    path.write_bytes(b"")


def needed(talk: Talk) -> list[Path]:
    """The files that the next turn reads."""
    rows = [found.path for found in locate(talk.folder, talk.chain)]
    last = state_path(talk.folder, talk.chain[-1].id)
    return [*rows, *([last] if talk.states else [])]


@pytest.mark.parametrize("damage", [at_night(flip_header), flip_rows, halve, at_night(empty)])
def test_a_turn_over_damaged_files_says_the_same_and_why_it_took_longer(
    talk: Talk, undamaged: dict[str, TurnRecord], tmp_path: Path, damage: Callable[[Path], None]
) -> None:
    right = undamaged[talk.family]
    assert None is right.miss_reason
    for number in range(len(needed(talk))):
        mine = copy_of(talk, tmp_path / str(number))
        damage(needed(mine)[number])
        record = go_on(mine)
        assert (right.tokens, right.logprobs) == (record.tokens, record.logprobs)
        assert record.miss_reason
        assert record.reused_tokens < right.reused_tokens


def test_swapped_files_cost_time_only(talk: Talk, undamaged: dict[str, TurnRecord], tmp_path: Path) -> None:
    right = undamaged[talk.family]
    mine = copy_of(talk, tmp_path)
    one, other = needed(mine)[1:3]
    apply({one: other.read_bytes(), other: one.read_bytes()})
    record = go_on(mine)
    assert (right.tokens, right.logprobs) == (record.tokens, record.logprobs)
    assert record.miss_reason


def test_what_a_repair_set_aside_is_written_anew(
    talk: Talk, undamaged: dict[str, TurnRecord], tmp_path: Path
) -> None:
    mine = copy_of(talk, tmp_path)
    for path, damage in zip(needed(mine), (flip_rows, halve, flip_rows), strict=False):
        damage(path)
    for problem in list(inventory.verify(mine.sessions)):
        segments.set_aside(problem.path)
    assert [] == list(inventory.verify(mine.sessions))
    first, second = go_on(mine), go_on(mine)
    assert undamaged[talk.family].tokens == first.tokens
    assert first.miss_reason
    assert None is second.miss_reason
    assert second.reused_tokens > undamaged[talk.family].reused_tokens
    assert [] == list(inventory.verify(mine.sessions))


def test_a_folder_of_nothing_but_damage_is_a_cold_start(
    talk: Talk, undamaged: dict[str, TurnRecord], tmp_path: Path
) -> None:
    mine = copy_of(talk, tmp_path)
    for number, path in enumerate(segment_files(mine.sessions)):
        (flip_header, halve, empty)[number % 3](path)
    record = go_on(mine)
    assert undamaged[talk.family].tokens == record.tokens
    assert (0, True) == (record.reused_tokens, bool(record.miss_reason))
