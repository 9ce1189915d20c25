"""The store's costs: bytes for a conversation, time to restore it, lookups in a large folder.

Everything happens in a temporary folder, and every ratio is of two things measured in the same run.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from chatcli.bench import footprint, restore, scale
from chatcli.bench.footprint import Footprint
from chatcli.bench.measure import Announce, Contest, milliseconds, temporary_folder
from chatcli.bench.restore import Restore
from chatcli.bench.scale import Scale
from chatcli.commands.results import Table
from chatcli.model.load import load
from chatcli.text import file_size
from chatcli.threads.mlx_thread import Worker

RESTORE_ROUNDS = 15
QUICK_DIVISOR = 10
# Rows files by the rows in memory, and a restore by a read of one file.
MAX_ROWS_OVERHEAD = 1.05
MAX_RESTORE_RATIO = 1.3


@dataclass(frozen=True)
class StorePlan:
    """What to measure. `quick`: a tenth of everything, and no large cache."""

    model: str
    turns: int
    sessions: int
    segments: int
    quick: bool = False

    def shortened(self) -> StorePlan:
        """With a tenth of everything if `quick`."""
        if not self.quick:
            return self
        turns, sessions, segments = (
            max(count // QUICK_DIVISOR, 2) for count in (self.turns, self.sessions, self.segments)
        )
        return replace(self, turns=turns, sessions=sessions, segments=segments)

    @property
    def shapes(self) -> Sequence[restore.CacheShape]:
        shapes = (restore.SMALL, restore.MIDDLE, restore.LARGE)
        return shapes[:-1] if self.quick else shapes


@dataclass(frozen=True)
class Target:
    """A number, and the most that it should be."""

    name: str
    value: float
    most: float

    @property
    def met(self) -> bool:
        return self.value <= self.most


@dataclass(frozen=True)
class StoreBench:
    """Everything that was measured."""

    plan: StorePlan
    footprint: Footprint
    restores: Sequence[Restore]
    scale: Scale

    def targets(self) -> list[Target]:
        size = Target("rows on disk / rows in memory", self.footprint.rows_overhead, MAX_ROWS_OVERHEAD)
        times = [
            Target(
                f"restore in fresh memory / one file, {one.name}", one.fresh.ratio.median, MAX_RESTORE_RATIO
            )
            for one in self.restores
        ]
        return [size, *times]

    def as_json(self) -> dict[str, Any]:
        """Plain data, with the targets and whether they are met."""
        return {
            "plan": asdict(self.plan),
            "talk": asdict(self.footprint),
            "restores": [asdict(one) for one in self.restores],
            "scale": asdict(self.scale),
            "targets": [asdict(target) | {"met": target.met} for target in self.targets()],
        }


def run(plan: StorePlan, announce: Announce) -> StoreBench:
    """Measure it all. Raises `ModelError`."""
    plan = plan.shortened()
    worker = Worker()
    try:
        with temporary_folder() as folder:
            announce(f"{plan.turns} turns with {plan.model} …")
            loaded = worker.call(load, plan.model)
            stored = footprint.converse(worker, loaded, folder / "talk", plan.turns)
            announce("restoring it …")
            restores = [restore.of_conversation(worker, loaded, stored, RESTORE_ROUNDS)]
            for shape in plan.shapes:
                announce(f"restoring {shape.name} …")
                with tempfile.TemporaryDirectory(dir=folder) as own:
                    restores.append(restore.of_shape(worker, shape, Path(own), RESTORE_ROUNDS))
            announce(f"{plan.sessions:,} sessions and {plan.segments:,} segments in one folder …")
            crowd = folder / "crowd"
            crowd.mkdir()
            return StoreBench(
                plan, stored.footprint, restores, scale.measure(crowd, plan.sessions, plan.segments)
            )
    finally:
        worker.close()


def tables(bench: StoreBench) -> list[Table]:
    """One table each for size, restoring and scale, then where a target is missed."""
    targets = bench.targets()
    missed = [
        f"MISSED: {target.name} is {target.value:.3f}, target at most {target.most}."
        for target in targets
        if not target.met
    ]
    verdict = Table("Targets", (), (), missed or [f"All {len(targets)} targets are met."])
    return [_size_table(bench.footprint), _restore_table(bench.restores), _scale_table(bench.scale), verdict]


def _size_table(footprint: Footprint) -> Table:
    kept = footprint.rows + footprint.state_bytes
    sizes = [
        ("rows", footprint.rows, footprint.written - footprint.state_bytes),
        ("states", footprint.state_bytes, footprint.state_bytes),
        ("chatcli, both", kept, footprint.written),
        ("mlx-lm, saved every turn", footprint.peer_final, footprint.peer_written),
    ]
    rows = [
        (name, file_size(final), file_size(written), f"{written / final:.2f}" if final else "–")
        for name, final, written in sizes
    ]
    title = f"{footprint.turns} turns, {footprint.tokens:,} tokens, {footprint.segments} checkpoints"
    notes = [
        f"{footprint.rows_files} rows files take {footprint.rows_overhead:.3f} of what the rows take in "
        f"memory ({file_size(footprint.cache_rows)}; target: at most {MAX_ROWS_OVERHEAD:.2f}).",
        f"{footprint.states} states are kept, so that as many places can be gone back to; "
        "mlx-lm's file is the last place only.",
        f"Bytes written by mlx-lm / by chatcli: {footprint.peer_written / footprint.written:.2f}.",
    ]
    return Table(title, ("", "on disk", "written", "written / on disk"), rows, notes)


def _restore_table(restores: Sequence[Restore]) -> Table:
    columns = ("restore", "bytes", "files", "chatcli", "one file", "ratio", "from … to")
    rows = [
        row
        for one in restores
        for row in (
            (one.name, file_size(one.bytes), str(one.files), *_contest_cells(one.contest)),
            ("  in fresh memory", "", "", *_contest_cells(one.fresh)),
        )
    ]
    notes = [
        f"Medians of {restores[0].contest.rounds} rounds, in turn; one file: the same bytes "
        f"as one tensor, read by mx.load. Target: at most {MAX_RESTORE_RATIO}.",
        "Layers×heads×dimensions: made-up caches in bfloat16, written as "
        f"{restore.SEGMENTS} segments. Fresh memory: as in a process that has just begun.",
    ]
    notes += [f"{one.name}: the arrays differ!" for one in restores if not one.equal]
    return Table("Restore a whole path from disk", columns, rows, notes)


def _contest_cells(contest: Contest) -> tuple[str, ...]:
    ratio = contest.ratio
    return (
        milliseconds(contest.ours.median),
        milliseconds(contest.peer.median),
        f"{ratio.median:.2f}",
        f"{ratio.least:.2f} … {ratio.most:.2f}",
    )


def _scale_table(scale: Scale) -> Table:
    timings = {
        "chatcli list": scale.list_all,
        "chatcli list, an empty folder": scale.list_empty,
        "chatcli cache stats": scale.stats,
        "the sessions' names by age": scale.names,
        "a turn's match, found": scale.match_found,
        "a turn's match, nothing but the system prompt": scale.match_missed,
        "opening the store": scale.opening,
        "the estimate before the first write": scale.estimate,
    }
    rows = [
        (name, milliseconds(spread.median), milliseconds(spread.least), milliseconds(spread.most))
        for name, spread in timings.items()
    ]
    title = f"{scale.sessions:,} sessions, {scale.segments:,} segments in {scale.files:,} files"
    return Table(title, ("", "median", "least", "most"), rows)
