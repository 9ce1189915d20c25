"""Measures the store: bytes for a conversation, and time to restore it.

    python -m benchmarks.store [--quick]

Everything happens in a temporary folder, and both parts of every ratio are measured in the same run.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benchmarks import footprint, restore
from benchmarks.footprint import Footprint
from benchmarks.measure import Announce, Contest, announce, milliseconds, options
from benchmarks.restore import Restore
from chatcli.bench.run import temporary_folder
from chatcli.cli.bench import show
from chatcli.commands.results import Table
from chatcli.model.load import load
from chatcli.text import file_size
from chatcli.threads.mlx_thread import Worker

RESTORE_ROUNDS = 15
TURNS, QUICK_TURNS = 40, 4
# Rows files by the rows in memory, and a restore by a read of one file.
MAX_ROWS_OVERHEAD = 1.05
MAX_RESTORE_RATIO = 1.3


@dataclass(frozen=True)
class Target:
    """A number and its upper bound."""

    name: str
    value: float
    most: float

    @property
    def met(self) -> bool:
        return self.value <= self.most


@dataclass(frozen=True)
class StoreBench:
    """Everything that was measured."""

    footprint: Footprint
    restores: Sequence[Restore]

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
            "talk": asdict(self.footprint),
            "restores": [asdict(one) for one in self.restores],
            "targets": [asdict(target) | {"met": target.met} for target in self.targets()],
        }


def run(model: str, announce: Announce, *, quick: bool = False) -> StoreBench:
    """Measure everything; `quick`: a tenth of the turns, and no large cache. Raises `ModelError`."""
    turns = QUICK_TURNS if quick else TURNS
    shapes = (restore.SMALL, restore.MIDDLE, *(() if quick else (restore.LARGE,)))
    worker = Worker()
    try:
        with temporary_folder() as folder:
            announce(f"{turns} turns with {model} …")
            loaded = worker.call(load, model)
            stored = footprint.converse(worker, loaded, folder / "talk", turns)
            announce("restoring it …")
            restores = [restore.of_conversation(worker, loaded, stored, RESTORE_ROUNDS)]
            for shape in shapes:
                announce(f"restoring {shape.name} …")
                with tempfile.TemporaryDirectory(dir=folder) as own:
                    restores.append(restore.of_shape(worker, shape, Path(own), RESTORE_ROUNDS))
            return StoreBench(stored.footprint, restores)
    finally:
        worker.close()


def tables(bench: StoreBench) -> list[Table]:
    """One table each for size and restoring, then where a target is missed."""
    targets = bench.targets()
    missed = [
        f"MISSED: {target.name} is {target.value:.3f}, target at most {target.most}."
        for target in targets
        if not target.met
    ]
    verdict = Table("Targets", (), (), missed or [f"All {len(targets)} targets are met."])
    return [_size_table(bench.footprint), _restore_table(bench.restores), verdict]


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


if __name__ == "__main__":
    chosen = options(__doc__).parse_args()
    measured = run(chosen.model, announce, quick=chosen.quick)
    show(chosen.json, {"store": measured.as_json()}, tables(measured))
