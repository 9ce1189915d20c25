"""Whatever happens to a store, what it gives back is what was put, and what is needed stays.

A model in memory says what was put. Conversations part at any token, are cut into other segments,
evicted, deleted, collected, joined half, and opened again, in any order.
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import shutil
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from chatcli.store import maintenance
from chatcli.store.segments import eviction, inventory
from chatcli.store.segments.container import Tensor, pack
from chatcli.store.segments.rows import joined
from chatcli.store.segments.segments import Checkpoint, SegmentStore
from chatcli.store.segments.token_path import TokenPath, root_id
from chatcli.store.sessions.folder import SessionFolder

FINGERPRINT = "f" * 32
ROOT = root_id(FINGERPRINT)
DAY = 24 * 3600.0
PLENTY = 1 << 40
# Thousands of flushed writes take a disk minutes, where memory takes seconds.
QUICK = Path("/dev/shm")
SEEDS = st.integers(0, 1000)
LENGTHS = st.lists(st.integers(1, 3), min_size=5, max_size=24)


@dataclass
class Talk:
    """A conversation: its tokens, where it is cut, and whether a transcript names its segments."""

    name: str
    tokens: list[int]
    ends: list[int]
    saved: bool = True

    @property
    def chain(self) -> TokenPath:
        return TokenPath.cut(ROOT, self.tokens, self.ends)


def tokens_of(seed: int) -> list[int]:
    """Sixty tokens of two kinds, so that conversations part anywhere."""
    return random.Random(seed).choices([1, 2], k=60)


def number(tokens: Sequence[int], place: str) -> np.ndarray:
    """What a model would compute at the end of these tokens: all of them matter."""
    digest = hashlib.sha256(bytes(tokens) + place.encode()).digest()
    return np.frombuffer(digest[:16], "<u2").reshape(2, 4)


def rows_of(tokens: Sequence[int], start: int, end: int) -> dict[str, np.ndarray]:
    """Rows of shape (1, 2, tokens, 4), of two layers."""
    return {
        place: np.stack([number(tokens[: at + 1], place) for at in range(start, end)], axis=1)[None]
        for place in ("0.keys", "2.values")
    }


def checkpoint(talk: Talk, depth: int, stateful: bool) -> Checkpoint:
    segments = talk.chain.upto(depth)
    last = segments[-1]
    rows = {name: Tensor.of(array) for name, array in rows_of(talk.tokens, last.start, last.end).items()}
    state = {"1.0": Tensor.of(number(talk.tokens[: last.end], "state"))} if stateful else {}
    return Checkpoint(segments, rows, state, json.dumps({"at": last.end}), 0.5)


class Store(RuleBasedStateMachine):
    """`rows` and `states` are the ids that must be there: the model of what is on disk."""

    stateful = False

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(prefix="chatcli-", dir=QUICK if QUICK.is_dir() else None))
        self.talks: list[Talk] = []
        self.rows: set[str] = set()
        self.states: set[str] = set()
        self.store = self.opened()

    def opened(self) -> SegmentStore:
        return SegmentStore(self.folder, FINGERPRINT)

    def teardown(self) -> None:
        self.store.close()
        shutil.rmtree(self.folder)

    # What happens

    @initialize(seed=SEEDS, lengths=LENGTHS)
    def begin(self, seed: int, lengths: list[int]) -> None:
        self.add(tokens_of(seed), lengths)

    @rule(data=st.data(), seed=SEEDS, lengths=LENGTHS)
    def branch(self, data: st.DataObject, seed: int, lengths: list[int]) -> None:
        """A conversation that has its first tokens, and some of its cuts, from another."""
        other = data.draw(st.sampled_from(self.talks))
        at = data.draw(st.integers(0, other.ends[-1]))
        shared = sum(end <= at for end in other.ends)
        kept = data.draw(st.one_of(st.just(shared), st.integers(0, shared)))
        self.add([*other.tokens[:at], *tokens_of(seed)], lengths, other.ends[:kept])

    def add(self, tokens: list[int], lengths: list[int], before: Sequence[int] = ()) -> None:
        ends = list(before)
        for length in lengths:
            ends.append((ends[-1] if ends else 0) + length)
        ends = [end for end in ends if end < len(tokens)]
        talk = Talk(f"talk-{len(self.talks)}", tokens, ends)
        self.talks.append(talk)
        self.write(talk)
        self.take_turns(talk)

    def write(self, talk: Talk) -> None:
        """The transcript, as far as it matters: it names the segments."""
        session = SessionFolder(self.folder).create(talk.name, model=None, system=None)
        session.write({"type": "note", "id": "x", "record": {"segments": self.names(talk)}})
        session.close()

    def names(self, talk: Talk) -> list[str]:
        return [segment.id for segment in talk.chain]

    @rule(data=st.data())
    def go_on(self, data: st.DataObject) -> None:
        """A session is opened again, and what is missing is computed and put."""
        saved = [talk for talk in self.talks if talk.saved]
        if saved:
            self.take_turns(data.draw(st.sampled_from(saved)))

    def take_turns(self, talk: Talk) -> None:
        whole = len(talk.ends)
        for depth in range(self.depth(talk) + 1, whole + 1):
            self.store.put(checkpoint(talk, depth, self.stateful))
            self.rows.add(talk.chain[depth - 1].id)
            if self.stateful:
                self.states.add(talk.chain[depth - 1].id)
        self.store.flush()

    @rule()
    def restart(self) -> None:
        self.store.close()
        self.store = self.opened()

    @rule(data=st.data(), share=st.floats(0, 1))
    def evict(self, data: st.DataObject, share: float) -> None:
        """Down to a share of what is there, with one conversation open or none."""
        open_talk = data.draw(st.sampled_from([None, *self.talks]))
        open_ids = set(self.names(open_talk)) if open_talk else set()
        limit = int(share * inventory.total_bytes(self.folder))
        eviction.remove(eviction.over_limit(self.folder, limit, open_ids))
        left = self.on_disk()
        kept = {name for item in left if set(item.ids) & open_ids for name in item.ids}
        assert self.rows & open_ids <= kept
        if inventory.total_bytes(self.folder) > limit:
            assert all(set(item.ids) & open_ids for item in left)
        self.note_what_is_left()

    def note_what_is_left(self) -> None:
        """After an eviction; the tree must be closed: no file without the rows that it continues."""
        left = self.on_disk()
        held = {name for item in left for name in item.ids if item.kind == "rows"}
        assert all(item.parent in held | {ROOT} for item in left if item.kind == "rows")
        assert held <= self.rows
        self.rows = held
        self.states &= {item.ids[0] for item in left if item.kind == "state"}

    @rule(data=st.data())
    def delete(self, data: st.DataObject) -> None:
        saved = [talk for talk in self.talks if talk.saved]
        if saved:
            talk = data.draw(st.sampled_from(saved))
            talk.saved = False
            maintenance.delete(SessionFolder(self.folder), talk.name)
            self.keep_named()

    def keep_named(self) -> None:
        named = {name for talk in self.talks if talk.saved for name in self.names(talk)}
        self.rows &= named
        self.states &= named

    @rule(old=st.booleans())
    def collect(self, old: bool) -> None:
        """What is older than the grace and named by no session goes: here nothing is unnamed."""
        if old:
            for item in self.on_disk():
                os.utime(item.path, (time.time() - DAY, time.time() - DAY))
        eviction.remove(maintenance.collectable(SessionFolder(self.folder), PLENTY))

    @rule(data=st.data())
    @precondition(lambda self: any(len(item.ids) > 1 for item in self.on_disk()))
    def cut_joining_short(self, data: st.DataObject) -> None:
        """A process is killed after it joined files and before it removed them."""
        talk = data.draw(st.sampled_from(self.talks))
        before = {item.path for item in self.on_disk()}
        for depth in range(1, 1 + len([segment for segment in talk.chain if segment.id in self.rows])):
            written = checkpoint(talk, depth, False)
            if written.segment.id in self.rows:
                metadata = self.store._metadata(written, "rows")
                data = pack(self.store._tensors(written, "rows"), metadata)
                path = segment_file(self.store, written)
                if path not in before:
                    path.parent.mkdir(exist_ok=True)
                    path.write_bytes(data)

    # What must hold

    @invariant()
    def what_can_be_restored_is_what_was_put(self) -> None:
        for talk in self.talks:
            depth = self.depth(talk)
            assert depth == self.expected_depth(talk)
            self.check_rows(talk, depth)
            if self.stateful and depth:
                state, scalars = self.store.state(talk.chain[depth - 1])
                end = talk.ends[depth - 1]
                assert {"at": end} == json.loads(scalars)
                expected = number(talk.tokens[:end], "state")
                assert expected.tobytes() == state["1.0"].array().tobytes()

    def check_rows(self, talk: Talk, depth: int) -> None:
        with self.store.rows(talk.chain.upto(depth)) as rows:
            if depth:
                for name, expected in rows_of(talk.tokens, 0, talk.ends[depth - 1]).items():
                    assert expected.tobytes() == joined(rows, name).tobytes()

    @invariant()
    def what_others_share_is_of_the_same_tokens(self) -> None:
        for talk in self.talks[:3]:
            depth = min(self.depth(talk), len(talk.ends) - 1)
            rows = self.store.rows_of_other_path(talk.chain.after(depth), 1)
            if rows is not None:
                start = talk.chain[depth].start
                with rows:
                    for name, expected in rows_of(talk.tokens, start, start + rows.count).items():
                        assert expected.tobytes() == joined(rows, name).tobytes()

    @invariant()
    def nothing_is_damaged(self) -> None:
        assert [] == list(inventory.verify(self.folder))

    def depth(self, talk: Talk) -> int:
        return self.store.depth(talk.chain, stateful=self.stateful)

    def expected_depth(self, talk: Talk) -> int:
        names = self.names(talk)
        depth = next((at for at, name in enumerate(names) if name not in self.rows), len(names))
        while self.stateful and depth and names[depth - 1] not in self.states:
            depth -= 1
        return depth

    def on_disk(self) -> list[inventory.Item]:
        folder = self.store.folder
        items = [*inventory.rows(folder), *inventory.states(folder)]
        assert [] == [item for item in items if isinstance(item, inventory.Problem)]
        return [item for item in items if isinstance(item, inventory.Item)]


def segment_file(store: SegmentStore, made: Checkpoint) -> Path:
    from chatcli.store.segments import catalog

    return catalog.rows_path(store.folder, made.path.after(len(made.path) - 1))


class StatefulStore(Store):
    stateful = True


def run(machine: type[Store], examples: int) -> None:
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=examples,
            stateful_step_count=12,
            deadline=None,
            database=None,
            phases=[Phase.explicit, Phase.generate],
            suppress_health_check=list(HealthCheck),
        ),
    )


def test_rows_come_back_whatever_happened() -> None:
    run(Store, 30)


def test_rows_with_states_come_back_whatever_happened() -> None:
    run(StatefulStore, 30)
