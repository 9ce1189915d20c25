"""The store benchmark: its sizes match the files on disk, and its targets are judged by its numbers."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks import crowd, footprint, measure, restore, store
from benchmarks.footprint import StoredConversation
from benchmarks.restore import CacheShape
from benchmarks.store import StoreBench
from chatcli.bench.race import Spread
from chatcli.files import Location
from chatcli.model.load import LoadedModel, load
from chatcli.store.segments import inventory
from chatcli.store.segments.catalog import model_folder, rows_files
from chatcli.store.sessions import listing
from chatcli.threads.mlx_thread import Worker

TURNS = 6
TINY = CacheShape(2, 2, 8, 160)


@pytest.fixture(scope="module")
def worker() -> Iterator[Worker]:
    worker = Worker()
    yield worker
    worker.close()


@pytest.fixture(scope="module")
def loaded(worker: Worker, models: Path) -> LoadedModel:
    return worker.call(load, str(models / "qwen3_5"))


@pytest.fixture(scope="module")
def stored(
    worker: Worker, loaded: LoadedModel, tmp_path_factory: pytest.TempPathFactory
) -> StoredConversation:
    return footprint.converse(worker, loaded, tmp_path_factory.mktemp("talk"), TURNS)


@pytest.fixture(scope="module")
def measured(
    worker: Worker,
    loaded: LoadedModel,
    stored: StoredConversation,
) -> StoreBench:
    """A complete run of the smallest sizes."""
    restores = [restore.of_conversation(worker, loaded, stored, 1)]
    return StoreBench(stored.footprint, restores)


# Measuring


def task(log: list[str], name: str) -> measure.TimedTask:
    @contextlib.contextmanager
    def enter() -> Iterator[Callable[[], object]]:
        yield lambda: log.append(name)

    return enter


def test_contenders_take_turns_at_being_first() -> None:
    log: list[str] = []
    measure.contest(task(log, "ours"), task(log, "peer"), 3)
    assert ["peer", "ours", "ours", "peer", "peer", "ours", "ours", "peer"] == log


def test_memory_is_released_before_each_contender() -> None:
    log: list[str] = []
    trim = lambda: log.append("before")  # noqa: E731
    measure.contest(task(log, "ours"), task(log, "peer"), 1, trim)
    assert ["before", "peer", "before", "ours", "before", "ours", "before", "peer"] == log
    assert isinstance(measure.trim_heap(), bool)


def test_preparation_and_clean_up_are_not_timed() -> None:
    clock: list[str] = []

    @contextlib.contextmanager
    def enter() -> Iterator[Callable[[], object]]:
        clock.append("prepare")
        yield lambda: clock.append("work")
        clock.append("clean up")

    assert 0 < measure.seconds(enter)
    assert ["prepare", "work", "clean up"] == clock


def test_a_spread_is_the_median_and_both_extremes() -> None:
    assert Spread(3, 1, 9) == Spread.of([9, 1, 3])


# A conversation


def test_the_bytes_of_a_conversation_are_those_on_disk(
    stored: StoredConversation, loaded: LoadedModel
) -> None:
    (use,) = inventory.usage(stored.folder)
    assert (use.rows_bytes, use.state_bytes) == (stored.footprint.rows, stored.footprint.state_bytes)
    files = list(rows_files(model_folder(stored.folder, loaded.fingerprint)))
    assert len(files) == stored.footprint.rows_files


def test_rows_in_memory_are_as_many_as_the_tokens(stored: StoredConversation) -> None:
    """The tiny hybrid has one layer with attention: keys and values of 2 heads of 16 in float32."""
    assert stored.path.end == stored.footprint.tokens
    assert 2 * 2 * 16 * 4 * stored.footprint.tokens == stored.footprint.cache_rows
    assert stored.footprint.rows_overhead > 1


def test_joined_files_count_as_written(stored: StoredConversation) -> None:
    assert stored.footprint.rows_files < stored.footprint.segments
    footprint = stored.footprint
    assert (footprint.written - footprint.state_bytes) / footprint.rows > 1.2
    assert stored.footprint.written > stored.footprint.rows + stored.footprint.state_bytes


def test_the_peer_writes_its_whole_cache_every_turn(stored: StoredConversation) -> None:
    assert TURNS == pytest.approx(stored.footprint.peer_written / stored.footprint.peer_final, rel=0.01)


# Restoring


@pytest.mark.slow
def test_a_restored_conversation_equals_a_single_file_bit_for_bit(measured: StoreBench) -> None:
    assert [True] == [result.equal for result in measured.restores]


def test_a_made_up_cache_is_joined_and_comes_back_bit_for_bit(worker: Worker, tmp_path: Path) -> None:
    result = restore.of_shape(worker, TINY, tmp_path, 1)
    assert result.equal
    assert 2 * 2 * 2 * 8 * 160 * 2 == result.bytes
    assert (80, True) == (result.segments, result.files < 20)


# Many sessions


@pytest.mark.slow
def test_the_crowd_is_undamaged_and_as_large_as_requested(tmp_path: Path) -> None:
    crowd.write_sessions(tmp_path, 4)
    paths = list(crowd.write_segments(tmp_path, 4, 40))
    found, missed = crowd.matches(tmp_path, paths)
    assert 0 < missed.least and 0 < found.least
    (use,) = inventory.usage(tmp_path)
    shared = 3  # all four share the segment of the system prompt
    assert (40 - shared, 4) == (use.segments, use.states)
    assert [] == list(inventory.verify(tmp_path))
    summaries = listing.summaries(Location.of(tmp_path))
    assert [(crowd.TURNS, None)] * 4 == [(summary.turns, summary.problem) for summary in summaries]


# Targets and output


@pytest.mark.slow
def test_a_missed_target_is_noted_at_the_end(measured: StoreBench) -> None:
    worse = replace(measured, footprint=replace(measured.footprint, rows=2 * measured.footprint.cache_rows))
    last = store.tables(worse)[-1].notes
    assert "MISSED: rows on disk / rows in memory is 2.000, target at most 1.05." == last[0]


@pytest.mark.slow
def test_met_targets_are_noted_too(measured: StoreBench) -> None:
    fast = replace(measured.restores[0].fresh, ratio=Spread(1.0, 0.9, 1.1))
    good = replace(
        measured,
        footprint=replace(measured.footprint, rows=measured.footprint.cache_rows),
        restores=[replace(measured.restores[0], fresh=fast)],
    )
    assert ["All 2 targets are met."] == store.tables(good)[-1].notes


@pytest.mark.slow
def test_every_row_of_a_table_fills_its_columns(measured: StoreBench) -> None:
    for table in store.tables(measured):
        assert {len(table.columns)} >= {len(row) for row in table.rows}


@pytest.mark.slow
def test_the_numbers_survive_json(measured: StoreBench) -> None:
    data = json.loads(json.dumps(measured.as_json()))
    assert TURNS == data["talk"]["turns"]
    assert [target.name for target in measured.targets()] == [target["name"] for target in data["targets"]]


@pytest.mark.slow
def test_a_whole_run_prints_one_object_and_leaves_nothing(
    models: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    measured = store.run(str(models / "qwen3_5"), lambda _: None, quick=True)
    data = json.loads(json.dumps(measured.as_json()))
    assert [store.QUICK_TURNS, 3] == [data["talk"]["turns"], len(data["restores"])]
    assert [] == list(tmp_path.iterdir())
