"""Whole tiny models: a restored or rewound cache gives the same logits, bit for bit."""

from __future__ import annotations

import itertools
import threading
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np
import pytest
from mlx.utils import tree_flatten
from mlx_lm.models.cache import CacheList, KVCache

from chatcli.engine import generate as engine
from chatcli.engine.generate import GenerationRequest
from chatcli.files import Location
from chatcli.kv import prompt_cache
from chatcli.kv.leaf import leaves
from chatcli.kv.prompt_cache import RowLog
from chatcli.model.load import LoadedModel, load
from chatcli.settings.values import Sampling
from chatcli.store.segments.container import Container, Tensor, pack
from chatcli.store.segments.rows import Piece, Rows
from chatcli.store.segments.segments import Increment, SegmentStore
from tests.support.checkpointing import FINGERPRINT, path_of, raw
from tests.support.families import at_night
from tests.support.tiny import CONFIGS, write_model

WINDOW = 32
TOKENS = [5 + (number * 37 + number**2 // 3) % 300 for number in range(400)]
TAIL = [11, 200, 7, 42, 99]
DENSE = [name for name in CONFIGS if "num_local_experts" not in CONFIGS[name]]
# Lengths of the segments; the window holds 32 tokens, a buffer 256.
SEGMENT_LENGTHS = {
    "one": [40],
    "single tokens": [1, 1, 1, 30, 1, 1],
    "uneven": [17, 1, 46, 2, 64, 1],
    "at the window": [31, 1, 32, 1, 31],
    "far past the window": [150, 3, 147],
}


@pytest.fixture(scope="module")
def families(tmp_path_factory: pytest.TempPathFactory) -> dict[str, LoadedModel]:
    folder = tmp_path_factory.mktemp("models")
    return {name: load(str(write_model(folder / name, name))) for name in CONFIGS}


@pytest.fixture(params=CONFIGS)
def loaded(request: pytest.FixtureRequest, families: dict[str, LoadedModel]) -> LoadedModel:
    return families[request.param]


Tensors = dict[str, Tensor]


@dataclass
class SegmentFile:
    """The file of a segment's rows, and the state at its end."""

    file: Path
    state: Tensors
    scalars: str
    end: int

    @property
    def rows(self) -> Tensors:
        return tensors_in(self.file)


class TensorFolder:
    """Writes tensors to numbered files in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def write(self, tensors: Tensors) -> Path:
        path = self.folder / f"{len(list(self.folder.iterdir()))}.safetensors"
        path.write_bytes(pack(tensors, {}))
        return path


@pytest.fixture
def disk(tmp_path: Path) -> TensorFolder:
    return TensorFolder(tmp_path)


def tensors_in(path: Path) -> Tensors:
    with Container(Location.of_file(path)) as file:
        return {name: file.read(name) for name in file.tensors}


def open_rows(files: list[Path], count: int | None = None) -> Rows:
    """The rows of these files, or of their first `count` tokens."""
    pieces: list[Piece] = []
    remaining = 1 << 30 if count is None else count
    for path in files:
        file = Container(Location.of_file(path))
        length = next(iter(file.tensors.values())).shape[2]
        pieces.append(Piece(file, min(length, remaining), length))
        remaining -= pieces[-1].count
    return Rows(pieces)


def prefill(
    loaded: LoadedModel, lengths: list[int], disk: TensorFolder, step: int = 16
) -> tuple[list[Any], list[SegmentFile]]:
    """Prefill segments of these lengths in chunks of `step`. Returns the cache and the segment files."""
    cache, segments, start = prompt_cache.new(loaded.model), [], 0
    for length in lengths:
        log, end = RowLog(), start + length
        chunks = engine.prefill(replace(loaded, prefill_step=step), cache, TOKENS[start:end], log)
        assert length == sum(chunks)
        rows = prompt_cache.segment_rows(cache, log, start, end)
        state, scalars = prompt_cache.state(cache)
        on_disk = tensors_in(disk.write(state))
        segments.append(SegmentFile(disk.write(rows), on_disk, scalars, end))
        start = end
    return cache, segments


def restored_cache(loaded: LoadedModel, segments: list[SegmentFile]) -> list[Any]:
    cache, last = prompt_cache.new(loaded.model), segments[-1]
    with open_rows([segment.file for segment in segments]) as rows:
        assert last.end == rows.count
        prompt_cache.fill(cache, rows, last.state, last.scalars)
    return cache


def logits(loaded: LoadedModel, cache: list[Any], pieces: list[list[int]]) -> list[bytes]:
    """The next token's logits after each piece, as bytes."""
    outputs = []
    with mx.stream(engine.generation_stream):
        for piece in pieces:
            out = loaded.model(mx.array(piece)[None], cache=cache)[:, -1].astype(mx.float32)
            mx.eval(out)
            assert mx.isfinite(out).all().item()
            outputs.append(np.array(out).tobytes())
    return outputs


# Single tokens until a window of 32 has rotated, then more tokens than it holds in one piece.
CONTINUATION = [TAIL, *([token] for token in TAIL * 7), TAIL * 9, [3]]
SHORT_CONTINUATION = [TAIL, [3], TAIL * 9, [4]]


def generate(loaded: LoadedModel, cache: list[Any], tail: list[int], count: int) -> list[int]:
    sampling = Sampling(temp=1.0, seed=3, max_tokens=count)
    reply = engine.generate(
        loaded, cache, GenerationRequest(tail, sampling, count), threading.Event(), RowLog()
    )
    return [token.id for token in reply]


@pytest.mark.parametrize("lengths", SEGMENT_LENGTHS.values(), ids=SEGMENT_LENGTHS)
def test_a_cache_filled_from_its_segments_continues_with_the_same_bits(
    loaded: LoadedModel, lengths: list[int], disk: TensorFolder
) -> None:
    live, segments = prefill(loaded, lengths, disk)
    expected = logits(loaded, live, CONTINUATION)
    assert len(expected) == len(set(expected))
    assert expected == logits(loaded, restored_cache(loaded, segments), CONTINUATION)


@pytest.mark.slow
@pytest.mark.parametrize("step", [1, 7, 64])
def test_every_chunk_of_a_prefill_is_saved(loaded: LoadedModel, step: int, disk: TensorFolder) -> None:
    live, segments = prefill(loaded, [50, 61], disk, step)
    assert logits(loaded, live, CONTINUATION) == logits(
        loaded, restored_cache(loaded, segments), CONTINUATION
    )


def test_every_checkpoint_of_a_path_can_be_restored(loaded: LoadedModel, disk: TensorFolder) -> None:
    lengths = [17, 1, 46, 2]
    _, segments = prefill(loaded, lengths, disk)
    for depth in range(1, len(lengths) + 1):
        cold, _ = prefill(loaded, lengths[:depth], disk)
        assert logits(loaded, cold, SHORT_CONTINUATION) == logits(
            loaded, restored_cache(loaded, segments[:depth]), SHORT_CONTINUATION
        )


def test_a_restored_cache_can_be_extended_and_saved_again(loaded: LoadedModel, disk: TensorFolder) -> None:
    lengths = [45, 3, 50]
    live, segments = prefill(loaded, lengths, disk)
    cache, log = restored_cache(loaded, segments[:2]), RowLog()
    list(engine.prefill(replace(loaded, prefill_step=16), cache, TOKENS[48:98], log))
    rows = prompt_cache.segment_rows(cache, log, 48, 98)
    assert raw(segments[2].rows) == raw(rows)
    assert raw(segments[2].state) == raw(prompt_cache.state(cache)[0])
    assert logits(loaded, live, SHORT_CONTINUATION) == logits(loaded, cache, SHORT_CONTINUATION)


def test_a_segment_has_the_rows_of_its_own_tokens_only(loaded: LoadedModel, disk: TensorFolder) -> None:
    lengths = SEGMENT_LENGTHS["uneven"]
    _, segments = prefill(loaded, lengths, disk)
    assert all(segment.rows for segment in segments)
    assert lengths == [{part.shape[2] for part in segment.rows.values()}.pop() for segment in segments]
    assert {1} == {len({part.shape[2] for part in segment.rows.values()}) for segment in segments}


def test_rows_do_not_depend_on_later_tokens(loaded: LoadedModel, disk: TensorFolder) -> None:
    short, long = prefill(loaded, [40, 20], disk)[1], prefill(loaded, [40, 20, 90], disk)[1]
    for left, right in itertools.zip_longest(short, long[:2]):
        assert raw(left.rows) == raw(right.rows)
        assert raw(left.state) == raw(right.state)


def test_rows_to_be_written_do_not_change_with_the_cache(loaded: LoadedModel) -> None:
    cache, log = prompt_cache.new(loaded.model), RowLog()
    list(engine.prefill(loaded, cache, TOKENS[:300], log))
    rows = prompt_cache.segment_rows(cache, log, 0, 300)
    state, _ = prompt_cache.state(cache)
    before = {name: part.raw().tobytes() for name, part in {**rows, **state}.items()}
    generate(loaded, cache, TOKENS[300:310], 40)
    list(engine.prefill(loaded, cache, TOKENS[:200], RowLog()))
    assert before == {name: part.raw().tobytes() for name, part in {**rows, **state}.items()}


def test_an_empty_cache_has_no_rows_and_can_be_filled_with_nothing(loaded: LoadedModel) -> None:
    cache = prompt_cache.new(loaded.model)
    assert {} == prompt_cache.segment_rows(cache, RowLog(), 0, 0)
    fresh = prompt_cache.new(loaded.model)
    state, scalars = prompt_cache.state(cache)
    prompt_cache.fill(fresh, Rows([]), state, scalars)
    plain = prompt_cache.new(loaded.model)
    assert logits(loaded, plain, SHORT_CONTINUATION) == logits(loaded, fresh, SHORT_CONTINUATION)


@pytest.mark.parametrize("tail", [TAIL, [7]], ids=["tail", "one token"])
@pytest.mark.parametrize("before", [1, at_night(31), 33, at_night(150)])
def test_generation_that_is_rewound_leaves_no_trace(
    loaded: LoadedModel, before: int, tail: list[int], disk: TensorFolder
) -> None:
    cache, _ = prefill(loaded, [before], disk)
    untouched, _ = prefill(loaded, [before], disk)
    snapshot = prompt_cache.snapshot(cache, before)
    assert before == snapshot.position
    reply = generate(loaded, cache, tail, 34)
    prompt_cache.rewind(cache, snapshot)
    assert reply == generate(loaded, cache, tail, 34)
    assert 34 == len(reply) or loaded.tokenizer.eos_token_id in reply
    prompt_cache.rewind(cache, snapshot)
    assert logits(loaded, untouched, SHORT_CONTINUATION) == logits(loaded, cache, SHORT_CONTINUATION)


@pytest.mark.parametrize("planned", [True, False])
def test_a_buffer_with_room_holds_the_same_rows(
    loaded: LoadedModel, planned: bool, disk: TensorFolder
) -> None:
    cache, _ = prefill(loaded, [60, 90], disk)
    untouched, _ = prefill(loaded, [60, 90], disk)
    prompt_cache.reserve(cache, planned=planned)
    plain = [leaf.cache for leaf in leaves(cache) if type(leaf.cache) is KVCache]
    for leaf in plain:
        rows = leaf.keys.shape[2]
        assert (planned, True) == (rows % leaf.step == 0, rows > leaf.offset)
    buffers = [leaf.keys for leaf in plain]
    prompt_cache.reserve(cache, planned=planned)
    assert all(leaf.keys is buffer for leaf, buffer in zip(plain, buffers, strict=True)), "room is left alone"
    assert logits(loaded, untouched, SHORT_CONTINUATION) == logits(loaded, cache, SHORT_CONTINUATION)


def test_a_device_that_plans_attention_changes_no_token(loaded: LoadedModel, disk: TensorFolder) -> None:
    (cache, _), (expected, _) = (prefill(loaded, [60, 90], disk) for _ in range(2))
    reply = generate(replace(loaded, plans_attention=True), cache, TAIL, 20)
    assert reply == generate(loaded, expected, TAIL, 20)
    assert logits(loaded, expected, SHORT_CONTINUATION) == logits(loaded, cache, SHORT_CONTINUATION)


def test_a_cache_can_be_rewound_to_an_older_snapshot(loaded: LoadedModel, disk: TensorFolder) -> None:
    cache = prompt_cache.new(loaded.model)
    snapshots = [prompt_cache.snapshot(cache, 0)]
    for start, end in ((0, 40), (40, 90)):
        list(engine.prefill(replace(loaded, prefill_step=16), cache, TOKENS[start:end], RowLog()))
        snapshots.append(prompt_cache.snapshot(cache, end))
    for depth, lengths in ((2, [40, 50]), (1, [40]), (0, [])):
        generate(loaded, cache, TAIL, 20)
        prompt_cache.rewind(cache, snapshots[depth])
        cold, _ = prefill(loaded, lengths, disk)
        assert logits(loaded, cold, SHORT_CONTINUATION) == logits(loaded, cache, SHORT_CONTINUATION)
        prompt_cache.rewind(cache, snapshots[depth])


def test_rows_after_generation_and_rewind_are_the_same(loaded: LoadedModel, disk: TensorFolder) -> None:
    _, expected = prefill(loaded, [40, 60], disk)
    cache, _ = prefill(loaded, [40], disk)
    snapshot, log = prompt_cache.snapshot(cache, 40), RowLog()
    generate(loaded, cache, TAIL, 60)
    prompt_cache.rewind(cache, snapshot)
    list(engine.prefill(replace(loaded, prefill_step=16), cache, TOKENS[40:100], log))
    assert raw(expected[1].rows) == raw(prompt_cache.segment_rows(cache, log, 40, 100))


@pytest.fixture(scope="module")
def half_precision(tmp_path_factory: pytest.TempPathFactory) -> dict[str, LoadedModel]:
    """The models in bfloat16, without experts: MLX multiplies those in float32 only on a CPU."""
    folder = tmp_path_factory.mktemp("half")
    models = {name: load(str(write_model(folder / name, name))) for name in DENSE}
    for loaded in models.values():
        loaded.model.set_dtype(mx.bfloat16)
    return models


@pytest.mark.parametrize("family", DENSE)
def test_bfloat16_stays_bfloat16_byte_for_byte(
    half_precision: dict[str, LoadedModel], family: str, disk: TensorFolder
) -> None:
    loaded = half_precision[family]
    live, segments = prefill(loaded, [40, 1, 30], disk)
    assert {"bfloat16"} == {part.dtype for segment in segments for part in segment.rows.values()}
    restored = restored_cache(loaded, segments)
    pairs_of_leaves = zip(leaves(live), leaves(restored), strict=True)
    for left, right in ((ours.cache, theirs.cache) for ours, theirs in pairs_of_leaves):
        if type(left) is KVCache:
            assert left.keys.dtype == right.keys.dtype == mx.bfloat16
            assert mx.array_equal(left.keys[..., :71, :], right.keys[..., :71, :]).item()
            assert mx.array_equal(left.values[..., :71, :], right.values[..., :71, :]).item()
        else:
            pairs = zip(tree_flatten(left.state), tree_flatten(right.state), strict=True)
            arrays = [(a, b) for (_, a), (_, b) in pairs if isinstance(a, mx.array)]
            assert arrays
            assert all(a.dtype == b.dtype and mx.array_equal(a, b).item() for a, b in arrays)
    assert logits(loaded, live, SHORT_CONTINUATION) == logits(loaded, restored, SHORT_CONTINUATION)


@pytest.mark.parametrize("family", [name for name in CONFIGS if name != "qwen3_5"])
@pytest.mark.parametrize(("before", "borrowed"), [(0, 16), (0, 48), (20, 32), (100, 64), (0, 80)])
def test_rows_borrowed_from_a_segment_equal_a_prefill(
    families: dict[str, LoadedModel], family: str, before: int, borrowed: int, disk: TensorFolder
) -> None:
    loaded = families[family]
    lengths = [before, 97] if before else [97]
    cold, expected = prefill(loaded, lengths, disk)
    _, segments = prefill(loaded, [*lengths[:-1], 50, 47] if borrowed > 50 else lengths, disk)
    cache, log = prompt_cache.new(loaded.model), RowLog()
    if before:
        with open_rows([segments[0].file]) as own_rows:
            prompt_cache.fill(cache, own_rows, {}, "{}")
    with open_rows([segment.file for segment in segments[len(lengths) - 1 :]], borrowed) as borrowed_rows:
        prompt_cache.append(cache, log, borrowed_rows, {}, "{}")
    # Only runs with the same chunks have the same bits: a cold run in one segment differs after token 50.
    rest = TOKENS[before + borrowed : before + 97]
    list(engine.prefill(replace(loaded, prefill_step=16), cache, rest, log))
    rows = prompt_cache.segment_rows(cache, log, before, before + 97)
    assert [97] == list({part.shape[2] for part in rows.values()})
    if borrowed <= 50:
        assert raw(expected[-1].rows) == raw(rows)
        assert logits(loaded, cold, SHORT_CONTINUATION) == logits(loaded, cache, SHORT_CONTINUATION)
    else:
        last = SegmentFile(disk.write(rows), {}, "{}", before + 97)
        live = restored_cache(loaded, [*segments[: len(lengths) - 1], last])
        assert logits(loaded, live, SHORT_CONTINUATION) == logits(loaded, cache, SHORT_CONTINUATION)


def test_only_recurrent_layers_have_state(families: dict[str, LoadedModel], disk: TensorFolder) -> None:
    stateful = {
        name: prompt_cache.is_stateful(prompt_cache.new(family.model)) for name, family in families.items()
    }
    assert {name: name == "qwen3_5" for name in CONFIGS} == stateful
    for name, loaded in families.items():
        assert (name == "qwen3_5") == bool(prefill(loaded, [20], disk)[1][0].state)


def test_a_layout_depends_on_the_model_and_not_on_the_tokens(
    families: dict[str, LoadedModel], disk: TensorFolder
) -> None:
    fresh = {name: prompt_cache.layout(prompt_cache.new(family.model)) for name, family in families.items()}
    assert len(CONFIGS) == len(set(fresh.values()))
    used = {name: prompt_cache.layout(prefill(family, [40], disk)[0]) for name, family in families.items()}
    assert fresh == used


def test_rows_of_no_width_are_stored_and_restored(tmp_path: Path) -> None:
    """MiniMax-M3's indexer caches keys with values of no width."""
    cache: list[Any] = [CacheList(KVCache(), KVCache())]
    keys = mx.random.normal((1, 1, 20, 8)).astype(mx.bfloat16)
    for leaf in cache[0].caches:
        leaf.update_and_fetch(keys, mx.zeros((1, 1, 20, 0), mx.bfloat16))
    path = path_of(TOKENS, [20])
    store = SegmentStore(tmp_path, FINGERPRINT)
    rows = prompt_cache.segment_rows(cache, RowLog(), 0, 20)
    assert 0 < store.put(Increment(path, rows, {}, "", 0.0))
    store.close()
    restored: list[Any] = [CacheList(KVCache(), KVCache())]
    with store.rows(path) as rows:
        prompt_cache.fill(restored, rows, {}, "{}")
    for leaf in restored[0].caches:
        assert mx.array_equal(keys, leaf.keys[..., : leaf.offset, :]).item()
        assert ((1, 1, 20, 0), mx.bfloat16) == (
            leaf.values[..., : leaf.offset, :].shape,
            leaf.values.dtype,
        )
