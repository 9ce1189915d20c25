"""What the store costs: bytes for a conversation, time to restore it, time among many others.

Refuses to know the terminal. Everything happens in a temporary folder, and every ratio is of two
things measured in this run. `run` measures, `targets` judges; tables.py puts it into words.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from chatcli.bench import restore, scale, talk
from chatcli.bench.restore import Restore
from chatcli.bench.scale import Scale
from chatcli.bench.talk import Talk
from chatcli.model import load as model
from chatcli.threads.mlx_thread import Worker

ROUNDS = 15
QUICK = 10
MOST_OVERHEAD = 1.05
MOST_SLOWDOWN = 1.3

Tell = Callable[[str], None]


@dataclass(frozen=True)
class Plan:
    """What to measure. `quick`: a tenth of everything, and no large cache."""

    model: str
    turns: int
    sessions: int
    segments: int
    quick: bool = False

    def shortened(self) -> Plan:
        """What this plan comes to."""
        if not self.quick:
            return self
        turns, sessions, segments = (
            max(count // QUICK, 2) for count in (self.turns, self.sessions, self.segments)
        )
        return replace(self, turns=turns, sessions=sessions, segments=segments)

    @property
    def shapes(self) -> Sequence[restore.Shape]:
        every = (restore.SMALL, restore.MIDDLE, restore.LARGE)
        return every[:-1] if self.quick else every


@dataclass(frozen=True)
class StoreBench:
    """Everything that was measured."""

    plan: Plan
    talk: Talk
    restores: Sequence[Restore]
    scale: Scale

    def as_json(self) -> dict[str, Any]:
        """Plain data, the ratios and what they should be included."""
        judged = [asdict(one) | {"met": one.met} for one in targets(self)]
        return {**asdict(self), "targets": judged}


@dataclass(frozen=True)
class Target:
    """A number, and the most that it should be."""

    name: str
    value: float
    most: float

    @property
    def met(self) -> bool:
        return self.value <= self.most


def targets(found: StoreBench) -> list[Target]:
    """What this run says of each target."""
    size = Target("rows on disk / rows in memory", found.talk.rows_overhead, MOST_OVERHEAD)
    times = [
        Target(f"restore in fresh memory / one file, {one.name}", one.fresh.ratio.median, MOST_SLOWDOWN)
        for one in found.restores
    ]
    return [size, *times]


def run(plan: Plan, tell: Tell) -> StoreBench:
    """Measure it all; `tell` hears what is being done. Raises `ModelError`."""
    plan = plan.shortened()
    worker = Worker()
    try:
        with tempfile.TemporaryDirectory(prefix="chatcli-bench-") as folder:
            spoken, restores = _restores(plan, worker, Path(folder), tell)
            tell(f"{plan.sessions:,} sessions and {plan.segments:,} segments in one folder …")
            crowd = Path(folder) / "crowd"
            crowd.mkdir()
            found = scale.measure(crowd, plan.sessions, plan.segments)
            return StoreBench(plan, spoken, restores, found)
    finally:
        worker.close()


def _restores(plan: Plan, worker: Worker, folder: Path, tell: Tell) -> tuple[Talk, Sequence[Restore]]:
    """The conversation and the restores, of it and of made-up caches."""
    tell(f"{plan.turns} turns with {plan.model} …")
    loaded = worker.call(model.load, plan.model)
    spoken = talk.speak(worker, loaded, folder / "talk", plan.turns)
    tell("restoring it …")
    restores = [restore.of_talk(worker, loaded, spoken, ROUNDS)]
    for shape in plan.shapes:
        tell(f"restoring {shape.name} …")
        with tempfile.TemporaryDirectory(dir=folder) as own:
            restores.append(restore.of_shape(worker, shape, Path(own), ROUNDS))
    return spoken.talk, restores
