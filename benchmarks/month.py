"""Simulates a month of conversations on disk: what is written, kept, evicted and computed again.

    python -m benchmarks.month [--days 30] [--limit 20GB]

The store is real, with its files, joining, thinning and limit. No model runs: each has its shape's array
sizes and a given number of seconds per token. Sizes and the limit are divided by `SCALE`, so that a month
fits in a temporary folder. For comparison two alternatives are calculated: saving the whole cache after every
turn, as mlx-lm's `save_prompt_cache` does, and keeping every checkpoint.
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.measure import options, progress
from benchmarks.shapes import sizes
from chatcli.bench.ours import RECOMPUTE_SECONDS
from chatcli.bench.race import Progress
from chatcli.bench.run import temporary_folder
from chatcli.cli.bench import show
from chatcli.cli.options import value_of
from chatcli.commands.results import Table
from chatcli.kv.memory_limit import Growth
from chatcli.store.segments import budget, catalog, inventory
from chatcli.store.segments.budget import Budget
from chatcli.store.segments.container import Tensor, Tensors
from chatcli.store.segments.segments import Increment, SegmentStore
from chatcli.store.segments.token_path import TokenPath, root_id
from chatcli.text import count, file_size

SCALE = 64
CONVERSATION_TURNS = 40
# Such a model's files are small enough to be written unscaled.
SMALL_STATE_BYTES = 1 << 20
DAY_SECONDS = 24 * 3600.0
# In tokens: a system prompt, messages, replies, and an occasional pasted text.
SYSTEM_TOKENS = 48
QUESTION_TOKENS, REPLY_TOKENS = (16, 64), (32, 80)
PASTED_TOKENS, PASTES = 1500, 0.01
# The number of turns in one process; the share of turns that go back; the share of processes that are killed.
VISIT_TURNS, BRANCHES, KILLS = (2, 10), 0.05, 0.02
# How many turns they go back on average, beyond the last.
BRANCH_TURNS = 1.0
# How many states an open conversation has in memory.
IN_MEMORY = 16


@dataclass(frozen=True)
class SimulatedModel:
    """A model's sizes in bytes, and the assumed seconds of prefill per token."""

    name: str
    growth: Growth
    seconds_per_token: float
    sessions: int

    @property
    def row_bytes(self) -> int:
        """The bytes of a token's rows on disk, including those of windows."""
        return self.growth.row_bytes + sum(window.row_bytes for window in self.growth.windows)

    @property
    def stateful(self) -> bool:
        return self.growth.state_bytes > 0


# Seconds per token are measured, with 28,000 tokens on an H200, `pocket` on two CPU cores. The number of
# sessions of each model is invented.
SECONDS_PER_TOKEN = {"qwen3.5-9b": 0.0026, "gpt-oss-20b": 0.00011, "qwen3-8b": 0.000058, "pocket": 0.0027}
SESSIONS = {"qwen3.5-9b": 16, "gpt-oss-20b": 10, "qwen3-8b": 4, "pocket": 10}


@dataclass
class SimulatedSession:
    """A conversation: the tokens and boundaries of its current branch."""

    model: SimulatedModel
    tokens: list[int]
    boundaries: list[int]
    last_used: int = 0

    @property
    def path(self) -> TokenPath:
        return TokenPath.cut(root_id(fingerprint(self.model)), self.tokens, self.boundaries)


@dataclass
class Way:
    """The cost of one way of keeping caches. `lost` counts sessions whose last turn cannot be restored.

    `most` is the most bytes on disk after any process.
    """

    name: str
    written: int = 0
    kept: int = 0
    most: int = 0
    evicted: int = 0
    prefilled: int = 0
    again: int = 0
    lost: int = 0


@dataclass
class Month:
    """A simulated month: turns, tokens, and the cost of each way."""

    turns: int
    sessions: int
    limit: int
    models: Sequence[SimulatedModel]
    ours: Way = field(default_factory=lambda: Way("chatcli"))
    snapshots: Way = field(default_factory=lambda: Way("mlx-lm, saved every turn"))
    everything: Way = field(default_factory=lambda: Way("every checkpoint kept"))

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def fingerprint(model: SimulatedModel) -> str:
    return model.name.encode().hex()[:32].ljust(32, "0")


def simulate(
    days: int, turns_a_day: int, sessions: dict[str, int], limit: int, seed: int, progress: Progress
) -> Month:
    """Simulate the conversations. `limit` is the most bytes that checkpoints may take."""
    models = [
        SimulatedModel(name, sizes(name), SECONDS_PER_TOKEN[name], number)
        for name, number in sessions.items()
        if number
    ]
    month = Month(days * turns_a_day, sum(sessions.values()), limit, models)
    rng = random.Random(seed)
    waiting = [model for model in models for _ in range(model.sessions)]
    rng.shuffle(waiting)
    held: list[SimulatedSession] = []
    with temporary_folder() as folder:
        simulation = Simulation(folder, month, rng)
        visits = 0
        for day in range(days):
            turns = 0
            while turns < turns_a_day:
                visits += 1
                # New sessions start until the last week. The newest and most recently used are the likeliest.
                if waiting and len(held) <= (day + turns / turns_a_day) * month.sessions / max(days - 7, 1):
                    held.append(SimulatedSession(waiting.pop(), [], []))
                    session = held[-1]
                else:
                    weights = [1 / (1 + visits - each.last_used) for each in held]
                    (session,) = rng.choices(held, weights)
                session.last_used = visits
                number = min(rng.randint(*VISIT_TURNS), turns_a_day - turns)
                simulation.visit(session, number)
                turns += number
            simulation.age(DAY_SECONDS)
            progress(day + 1, days, "month")
        simulation.finish(held)
    return month


@dataclass(frozen=True)
class Conversation:
    """One conversation's disk use, and the most seconds that returning to one of its turns takes."""

    name: str
    written: int
    kept: int
    states: int
    longest_seconds: float


def conversations(turns: int, seed: int = 1) -> list[Conversation]:
    """A conversation with each recurrent model, in one process and with one process per turn."""
    measured: list[Conversation] = []
    for name in SESSIONS:
        model = SimulatedModel(name, sizes(name), SECONDS_PER_TOKEN[name], 1)
        for a_process, visits in (("in one process", [turns]), ("a process each", [1] * turns)):
            if not model.stateful:
                continue
            session = SimulatedSession(model, [], [])
            with temporary_folder() as folder:
                month = Month(turns, 1, budget.MAX_BYTES, [model])
                scale = SCALE if model.growth.state_bytes > SMALL_STATE_BYTES else 1
                simulation = Simulation(folder, month, random.Random(seed), scale)
                for number in visits:
                    simulation.visit(session, number, steadily=True)
                simulation.finish([session])
                (usage,) = inventory.usage(folder)
                longest = simulation.longest_way(session)
            title = f"{name}, {a_process}"
            measured.append(Conversation(title, month.ours.written, month.ours.kept, usage.states, longest))
    return measured


class Simulation:
    """The sessions folder of the simulated month."""

    def __init__(self, folder: Path, month: Month, rng: random.Random, scale: int = SCALE) -> None:
        """Bytes are divided by `scale`."""
        self._folder, self._month, self._rng, self._scale = folder, month, rng, scale
        self._budget = Budget(folder, month.limit // scale, set)

    def visit(self, session: SimulatedSession, turns: int, *, steadily: bool = False) -> None:
        """A process opens the session, takes turns and ends.

        Unless `steadily`, it may be killed, and turns may go back to earlier ones.
        """
        rng, month, model = self._rng, self._month, session.model
        store = SegmentStore(
            self._folder, fingerprint(model), self._budget.written, recompute_seconds=RECOMPUTE_SECONDS
        )
        in_memory: list[str] = []
        is_open = False
        for _ in range(turns):
            done = 0
            if not session.tokens:
                session.tokens = self._tokens(SYSTEM_TOKENS)
                session.boundaries = [SYSTEM_TOKENS]
                is_open = True
            elif is_open:
                done = len(session.boundaries)
            if len(session.boundaries) > 3 and not steadily and rng.random() < BRANCHES:
                # Replies end at every other boundary after the system prompt's. Most turns that go back do so
                # by one or two.
                back = 2 + 2 * int(rng.expovariate(1 / BRANCH_TURNS))
                at = max(len(session.boundaries) - 1 - back, 2)
                session.boundaries = session.boundaries[: at + 1]
                session.tokens = session.tokens[: session.boundaries[-1]]
                is_open = False
                # A recurrent state cannot be cut, and the file has only the last turn's.
                month.snapshots.again += session.boundaries[-1] if model.stateful else 0
            if not is_open:
                done = self._restore(store, session, in_memory)
            pasted = PASTED_TOKENS if not steadily and rng.random() < PASTES else 0
            for length in (rng.randint(*QUESTION_TOKENS) + pasted, rng.randint(*REPLY_TOKENS)):
                session.tokens += self._tokens(length)
                session.boundaries.append(len(session.tokens))
            path = TokenPath(session.path.root, [*session.tokens, 0], session.path.segments)
            for depth in range(done + 1, len(path) + 1):
                self._checkpoint(store, model, path.upto(depth))
                in_memory = [*in_memory, path[depth - 1].id][-IN_MEMORY:]
            self._put(store, model, path, with_state=model.stateful, seconds=0.0)  # the reply is settled
            is_open = True
            new = [path[-2], path[-1]]
            tokens = sum(segment.end - segment.start for segment in new)
            for way in (month.ours, month.snapshots, month.everything):
                way.prefilled += tokens
            month.snapshots.written += path.end * model.row_bytes + model.growth.state_bytes
            month.everything.written += tokens * model.row_bytes + 2 * model.growth.state_bytes
        if steadily or rng.random() >= KILLS:
            store.flush()
            store.tidy()
        store.close()
        month.ours.written += store.written_bytes * self._scale
        month.ours.most = max(month.ours.most, inventory.total_bytes(self._folder) * self._scale)

    def _restore(self, store: SegmentStore, session: SimulatedSession, in_memory: Sequence[str]) -> int:
        """Restore the session. Returns how many segments are there; the rest is computed again."""
        store.flush()
        path = session.path
        depth = store.depth(path, stateful=session.model.stateful, in_memory=in_memory)
        if depth:
            with store.rows(path.upto(depth)) as rows:
                store.touch(rows, path[depth - 1])
        self._month.ours.again += path.end - path.upto(depth).end
        return depth

    def _checkpoint(self, store: SegmentStore, model: SimulatedModel, path: TokenPath) -> None:
        seconds = (path[-1].end - path[-1].start) * model.seconds_per_token
        is_due = model.stateful and store.is_due(path, seconds, model.growth.state_bytes)
        self._put(store, model, path, with_state=is_due, seconds=seconds)

    def _put(
        self, store: SegmentStore, model: SimulatedModel, path: TokenPath, *, with_state: bool, seconds: float
    ) -> None:
        rows: Tensors = {"0.keys": _array(path[-1].end - path[-1].start, model.row_bytes // self._scale)}
        state: Tensors = {"1.0": _array(1, model.growth.state_bytes // self._scale)} if with_state else {}
        store.put(Increment(path, rows, state, "{}", seconds))

    def _tokens(self, number: int) -> list[int]:
        return [self._rng.randrange(1 << 16) for _ in range(number)]

    def age(self, seconds: float) -> None:
        """Let time pass."""
        for model in self._month.models:
            for path in catalog.cache_files(catalog.model_folder(self._folder, fingerprint(model))):
                used = path.stat().st_mtime - seconds
                os.utime(path.path, (used, used))

    def longest_way(self, session: SimulatedSession) -> float:
        """The most seconds that returning to a boundary takes in a new process."""
        store = SegmentStore(self._folder, fingerprint(session.model))
        path = session.path
        tokens = [
            path.upto(depth).end - path.upto(store.depth(path.upto(depth), stateful=True)).end
            for depth in range(len(path) + 1)
        ]
        store.close()
        return max(tokens) * session.model.seconds_per_token

    def finish(self, held: Sequence[SimulatedSession]) -> None:
        """Count what is kept, and the sessions that cannot be resumed where they ended."""
        month = self._month
        month.ours.kept = inventory.total_bytes(self._folder) * self._scale
        month.everything.kept = month.everything.written
        for session in held:
            model, path = session.model, session.path
            store = SegmentStore(self._folder, fingerprint(model))
            month.ours.lost += store.depth(path, stateful=False) < len(path)
            store.close()
            month.snapshots.kept += path.end * model.row_bytes + model.growth.state_bytes
        for way in (month.ours, month.snapshots, month.everything):
            way.evicted = way.written - way.kept
            way.most = max(way.most, way.kept)


def _array(rows: int, row_bytes: int) -> Tensor:
    """An array of zeros of this size, shaped like keys or a state."""
    return Tensor.of(np.zeros((1, 1, rows, max(row_bytes, 1)), np.uint8))


def conversation_table(turns: int, measured: Sequence[Conversation]) -> Table:
    rows = [
        (
            each.name,
            file_size(each.written),
            file_size(each.kept),
            str(each.states),
            f"{each.longest_seconds:.2f} s",
        )
        for each in measured
    ]
    columns = (f"{turns} turns", "written", "kept", "states", "longest way back")
    return Table("One conversation", columns, rows)


def table(month: Month) -> Table:
    rows = [
        (
            way.name,
            file_size(way.written),
            file_size(way.kept),
            file_size(way.most),
            file_size(way.evicted),
            f"{way.again:,} ({way.again / way.prefilled:.1%})",
            str(month.sessions - way.lost),
        )
        for way in (month.ours, month.snapshots, month.everything)
    ]
    notes = list(_notes(month))
    columns = (
        "",
        "written",
        "kept",
        "at most",
        "gone again",
        "tokens computed again",
        "sessions that resume",
    )
    return Table(f"{month.turns:,} turns in {count('session', month.sessions)}", columns, rows, notes)


def _notes(month: Month) -> Iterator[str]:
    models = ", ".join(
        f"{model.name} {model.sessions} ({file_size(model.row_bytes)} a token, "
        f"{file_size(model.growth.state_bytes)} a state, {model.seconds_per_token * 1000:.2g} ms a token)"
        for model in month.models
    )
    yield f"Simulated: no model runs. Sessions and true sizes: {models}; the times are given, not measured."
    yield (
        f"chatcli's store is real, with 1/{SCALE} of the bytes and of its limit ({file_size(month.limit)}); "
        f"{KILLS:.0%} of its processes are killed and {BRANCHES:.0%} of the turns go back to an earlier one. "
        "The other two are arithmetic: mlx-lm's file is as if it fitted the next prompt."
    )


if __name__ == "__main__":
    parser = options(__doc__, model=False)
    parser.add_argument("--days", type=int, default=30)
    parser.add_argument("--turns", type=int, default=100, help="a day")
    parser.add_argument("--limit", default="20GB", help="the most that checkpoints may take")
    parser.add_argument("--seed", type=int, default=1)
    chosen = parser.parse_args()
    limit_bytes = value_of("cache_limit", chosen.limit)
    simulated = simulate(chosen.days, chosen.turns, SESSIONS, limit_bytes, chosen.seed, progress)
    single = conversations(CONVERSATION_TURNS)
    show(
        chosen.json,
        {"month": simulated.as_json(), "conversations": [asdict(each) for each in single]},
        [table(simulated), conversation_table(CONVERSATION_TURNS, single)],
    )
