"""Stateful property tests of the store: it returns what was put, and keeps what sessions need.

A model in memory holds what was put. Conversations branch at any token, have other boundaries, and are
evicted, deleted, collected, half joined and opened again, in any order.
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
from chatcli.store.segments import catalog, eviction, inventory
from chatcli.store.segments.container import Tensor, pack
from chatcli.store.segments.rows import joined
from chatcli.store.segments.segments import Increment, SegmentStore
from chatcli.store.segments.token_path import TokenPath, root_id
from chatcli.store.sessions.folder import SessionFolder

FINGERPRINT = "f" * 32
ROOT = root_id(FINGERPRINT)
DAY = 24 * 3600.0
LARGE_LIMIT_BYTES = 1 << 40
# Thousands of flushed writes take minutes on a disk and seconds in memory.
MEMORY_FOLDER = Path("/dev/shm")
SEEDS = st.integers(0, 1000)
LENGTHS = st.lists(st.integers(1, 3), min_size=5, max_size=24)


@dataclass
class Conversation:
    """A conversation: its tokens, the ends of its segments, and whether a transcript names them."""

    name: str
    tokens: list[int]
    ends: list[int]
    saved: bool = True

    @property
    def path(self) -> TokenPath:
        return TokenPath.cut(ROOT, self.tokens, self.ends)


def tokens_of(seed: int) -> list[int]:
    """Sixty tokens out of two, so that conversations branch anywhere."""
    return random.Random(seed).choices([1, 2], k=60)


def number(tokens: Sequence[int], tensor_name: str) -> np.ndarray:
    """Values of shape (2, 4) that depend on all of these tokens, as a model's do."""
    digest = hashlib.sha256(bytes(tokens) + tensor_name.encode()).digest()
    return np.frombuffer(digest[:16], "<u2").reshape(2, 4)


def rows_of(tokens: Sequence[int], start: int, end: int) -> dict[str, np.ndarray]:
    """Rows of shape (1, 2, tokens, 4), of two layers."""
    return {
        tensor_name: np.stack([number(tokens[: at + 1], tensor_name) for at in range(start, end)], axis=1)[
            None
        ]
        for tensor_name in ("0.keys", "2.values")
    }


def checkpoint(conversation: Conversation, depth: int, stateful: bool) -> Increment:
    segments = conversation.path.upto(depth)
    last = segments[-1]
    rows = {
        name: Tensor.of(array) for name, array in rows_of(conversation.tokens, last.start, last.end).items()
    }
    state = {"1.0": Tensor.of(number(conversation.tokens[: last.end], "state"))} if stateful else {}
    return Increment(segments, rows, state, json.dumps({"at": last.end}), 0.5)


class Store(RuleBasedStateMachine):
    """`rows` and `states` are the ids that must be there: the model of what is on disk."""

    stateful = False

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(
            tempfile.mkdtemp(prefix="chatcli-", dir=MEMORY_FOLDER if MEMORY_FOLDER.is_dir() else None)
        )
        self.conversations: list[Conversation] = []
        self.rows: set[str] = set()
        self.states: set[str] = set()
        self.store = self.open_store()

    def open_store(self) -> SegmentStore:
        return SegmentStore(self.folder, FINGERPRINT)

    def teardown(self) -> None:
        self.store.close()
        shutil.rmtree(self.folder)

    # Rules

    @initialize(seed=SEEDS, lengths=LENGTHS)
    def begin(self, seed: int, lengths: list[int]) -> None:
        self.add(tokens_of(seed), lengths)

    @rule(data=st.data(), seed=SEEDS, lengths=LENGTHS)
    def branch(self, data: st.DataObject, seed: int, lengths: list[int]) -> None:
        """A conversation that shares its first tokens, and some of its segments, with another."""
        source = data.draw(st.sampled_from(self.conversations))
        at = data.draw(st.integers(0, source.ends[-1]))
        shared = sum(end <= at for end in source.ends)
        shared_cuts = data.draw(st.one_of(st.just(shared), st.integers(0, shared)))
        self.add([*source.tokens[:at], *tokens_of(seed)], lengths, source.ends[:shared_cuts])

    def add(self, tokens: list[int], lengths: list[int], first_cuts: Sequence[int] = ()) -> None:
        ends = list(first_cuts)
        for length in lengths:
            ends.append((ends[-1] if ends else 0) + length)
        ends = [end for end in ends if end < len(tokens)]
        conversation = Conversation(f"talk-{len(self.conversations)}", tokens, ends)
        self.conversations.append(conversation)
        self.write(conversation)
        self.put_missing(conversation)

    def write(self, conversation: Conversation) -> None:
        """Write a transcript that names the segments."""
        session = SessionFolder(self.folder).create(conversation.name, model=None, system=None)
        session.write({"type": "note", "id": "x", "record": {"segments": self.segment_ids(conversation)}})
        session.close()

    def segment_ids(self, conversation: Conversation) -> list[str]:
        return [segment.id for segment in conversation.path]

    @rule(data=st.data())
    def reopen(self, data: st.DataObject) -> None:
        """Open a session again, and put its missing checkpoints."""
        saved_conversations = [conversation for conversation in self.conversations if conversation.saved]
        if saved_conversations:
            self.put_missing(data.draw(st.sampled_from(saved_conversations)))

    def put_missing(self, conversation: Conversation) -> None:
        segment_count = len(conversation.ends)
        for depth in range(self.depth(conversation) + 1, segment_count + 1):
            self.store.put(checkpoint(conversation, depth, self.stateful))
            self.rows.add(conversation.path[depth - 1].id)
            if self.stateful:
                self.states.add(conversation.path[depth - 1].id)
        self.store.flush()

    @rule()
    def restart(self) -> None:
        self.store.close()
        self.store = self.open_store()

    @rule(data=st.data(), share=st.floats(0, 1))
    def evict(self, data: st.DataObject, share: float) -> None:
        """Evict down to a share of the bytes on disk, with one conversation open or none."""
        open_conversation = data.draw(st.sampled_from([None, *self.conversations]))
        open_ids = set(self.segment_ids(open_conversation)) if open_conversation else set()
        limit = int(share * inventory.total_bytes(self.folder))
        eviction.remove(eviction.over_limit(self.folder, limit, open_ids))
        remaining = self.on_disk()
        remaining_open = {name for item in remaining if set(item.ids) & open_ids for name in item.ids}
        assert self.rows & open_ids <= remaining_open
        if inventory.total_bytes(self.folder) > limit:
            assert all(set(item.ids) & open_ids for item in remaining)
        self.check_remaining()

    def check_remaining(self) -> None:
        """Update the model after an eviction; every rows file must still have its parent's rows."""
        remaining = self.on_disk()
        remaining_rows = {name for item in remaining for name in item.ids if is_rows(item)}
        assert all(item.parent in remaining_rows | {ROOT} for item in remaining if is_rows(item))
        assert remaining_rows <= self.rows
        self.rows = remaining_rows
        self.states &= {item.ids[0] for item in remaining if not is_rows(item)}

    @rule(data=st.data())
    def delete(self, data: st.DataObject) -> None:
        saved_conversations = [conversation for conversation in self.conversations if conversation.saved]
        if saved_conversations:
            conversation = data.draw(st.sampled_from(saved_conversations))
            conversation.saved = False
            maintenance.delete(SessionFolder(self.folder), conversation.name)
            self.keep_named()

    def keep_named(self) -> None:
        named_ids = {
            name
            for conversation in self.conversations
            if conversation.saved
            for name in self.segment_ids(conversation)
        }
        self.rows &= named_ids
        self.states &= named_ids

    @rule(old=st.booleans())
    def collect(self, old: bool) -> None:
        """Collect what is older than the grace period and named by no session: here there is none."""
        if old:
            for item in self.on_disk():
                os.utime(item.path.path, (time.time() - DAY, time.time() - DAY))
        eviction.remove(maintenance.collectable(SessionFolder(self.folder), LARGE_LIMIT_BYTES))

    @rule(data=st.data())
    @precondition(lambda self: any(len(item.ids) > 1 for item in self.on_disk()))
    def interrupt_joining(self, data: st.DataObject) -> None:
        """Write joined files' parts again, as if a process had been killed before it removed them."""
        conversation = data.draw(st.sampled_from(self.conversations))
        existing = {item.path for item in self.on_disk()}
        for depth in range(1, 1 + len([segment for segment in conversation.path if segment.id in self.rows])):
            segment_checkpoint = checkpoint(conversation, depth, False)
            if segment_checkpoint.segment.id in self.rows:
                metadata = self.store._metadata(segment_checkpoint, "rows")
                data = pack(self.store._tensors(segment_checkpoint, "rows"), metadata)
                path = segment_file(self.store, segment_checkpoint).path
                if path not in {each.path for each in existing}:
                    path.parent.mkdir(exist_ok=True)
                    path.write_bytes(data)

    # Invariants

    @invariant()
    def restored_checkpoints_are_as_they_were_put(self) -> None:
        for conversation in self.conversations:
            depth = self.depth(conversation)
            assert depth == self.expected_depth(conversation)
            self.check_rows(conversation, depth)
            if self.stateful and depth:
                state, scalars = self.store.state(conversation.path[depth - 1])
                end = conversation.ends[depth - 1]
                assert {"at": end} == json.loads(scalars)
                expected = number(conversation.tokens[:end], "state")
                assert expected.tobytes() == state["1.0"].array().tobytes()

    def check_rows(self, conversation: Conversation, depth: int) -> None:
        with self.store.rows(conversation.path.upto(depth)) as rows:
            if depth:
                for name, expected in rows_of(conversation.tokens, 0, conversation.ends[depth - 1]).items():
                    assert expected.tobytes() == joined(rows, name).tobytes()

    @invariant()
    def borrowed_rows_are_of_the_same_tokens(self) -> None:
        for conversation in self.conversations[:3]:
            depth = min(self.depth(conversation), len(conversation.ends) - 1)
            rows = self.store.rows_of_other_path(conversation.path.after(depth), 1)
            if rows is not None:
                start = conversation.path[depth].start
                with rows:
                    for name, expected in rows_of(conversation.tokens, start, start + rows.count).items():
                        assert expected.tobytes() == joined(rows, name).tobytes()

    @invariant()
    def nothing_is_damaged(self) -> None:
        assert [] == list(inventory.verify(self.folder))

    def depth(self, conversation: Conversation) -> int:
        return self.store.depth(conversation.path, stateful=self.stateful)

    def expected_depth(self, conversation: Conversation) -> int:
        segment_ids = self.segment_ids(conversation)
        depth = next((at for at, name in enumerate(segment_ids) if name not in self.rows), len(segment_ids))
        while self.stateful and depth and segment_ids[depth - 1] not in self.states:
            depth -= 1
        return depth

    def on_disk(self) -> list[inventory.Item]:
        folder = self.store.location
        items = [*inventory.rows(folder), *inventory.states(folder)]
        assert [] == [item for item in items if isinstance(item, inventory.Problem)]
        return [item for item in items if isinstance(item, inventory.Item)]


def is_rows(item: inventory.Item) -> bool:
    return catalog.ROWS_NAME.fullmatch(item.path.name) is not None


def segment_file(store: SegmentStore, checkpoint: Increment) -> Path:
    from chatcli.store.segments import catalog

    return catalog.rows_path(store.location, checkpoint.path.after(len(checkpoint.path) - 1))


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


def test_rows_come_back_after_any_sequence_of_rules() -> None:
    run(Store, 15)


def test_rows_with_states_come_back_after_any_sequence_of_rules() -> None:
    run(StatefulStore, 15)
