"""Tiny models of every architecture: a cache restored from disk continues with the same bits."""

from __future__ import annotations

import importlib.util
import inspect
import itertools
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import mlx.core as mx
import pytest
from mlx_lm.generate import maybe_quantize_kv_cache
from mlx_lm.models import cache as mlx_caches
from mlx_lm.models.cache import CacheList, ConcatenateKVCache, KVCache, make_prompt_cache
from mlx_lm.tokenizer_utils import TokenizerWrapper
from transformers import PreTrainedTokenizerFast

from chatcli.checkpoints.checkpoints import Checkpoints
from chatcli.engine.generate import GenerationRequest
from chatcli.model.load import LoadedModel
from chatcli.settings.values import Sampling
from chatcli.store.segments.segments import SegmentStore
from chatcli.store.segments.token_path import TokenPath, root_id
from chatcli.threads.mlx_thread import Worker
from tests.support import tiny
from tests.support.architectures import ARCHITECTURES, PROMPT, VOCABULARY, WINDOW, build, caches

FINGERPRINT = "f" * 32
STEP = 16
# The second and the last segment end in a chunk of one token, which rotates a window.
BOUNDARIES = [1, 18, 90, 132, 149]
# Another conversation, which shares the first checkpoints of the first one.
SHARED_SEGMENTS = 3
BRANCH = PROMPT[: BOUNDARIES[SHARED_SEGMENTS - 1]] + [(token * 5) % VOCABULARY for token in PROMPT[:30]]
BRANCH_BOUNDARIES = [*BOUNDARIES[:SHARED_SEGMENTS], 117]
REPLY_TOKENS, SHORT_REPLY_TOKENS = 40, 12
# Leaves with one row a token: all of their past can be cut, so they need no state file.
ROWS = {
    "KVCache",
    "RotatingKVCache",
    "ChunkedKVCache",
    "QuantizedKVCache",
    "ConcatenateKVCache",
}
# A long segment, which is cut on its way after so many tokens.
LONG_BOUNDARIES, DISTANCE = [1, 149], 2 * STEP
Generated = list[tuple[int, float]]


class Pages:
    """A cache of an unknown class: pages in a list, and a label that is not an array."""

    def __init__(self) -> None:
        self.pages: list[mx.array] = []
        self.label = "empty"

    @property
    def offset(self) -> int:
        return sum(page.shape[3] for page in self.pages)

    @property
    def state(self) -> Any:
        return self.pages, self.label

    @state.setter
    def state(self, value: Any) -> None:
        self.pages, self.label = value

    def update_and_fetch(self, keys: mx.array, values: mx.array) -> tuple[mx.array, mx.array]:
        self.pages = [*self.pages[-3:], mx.stack([keys, values])]
        if len(self.pages) == 4:
            self.pages = [mx.concatenate(self.pages, axis=3)]
        self.label = f"{self.offset} rows"
        rows = mx.concatenate(self.pages, axis=3)
        return rows[0], rows[1]

    def make_mask(self, *args: Any, **options: Any) -> Any:
        return mlx_caches.create_attention_mask(*args, offset=self.offset, **options)


class KVCacheSubclass(KVCache):
    """A third-party subclass of one of mlx-lm's classes."""


class WrappedKVCache:
    """A third-party cache that contains one of mlx-lm's."""

    def __init__(self) -> None:
        self.inner = KVCache()

    @property
    def offset(self) -> int:
        return int(self.inner.offset)

    @property
    def state(self) -> Any:
        return self.inner.state

    @state.setter
    def state(self, value: Any) -> None:
        self.inner.state = value

    def update_and_fetch(self, keys: mx.array, values: mx.array) -> Any:
        return self.inner.update_and_fetch(keys, values)

    def make_mask(self, *args: Any, **options: Any) -> Any:
        return self.inner.make_mask(*args, **options)


class CacheWithExtraState(WrappedKVCache):
    """A cache whose state begins with a constant `value`."""

    value: Any = None

    @property
    def state(self) -> Any:
        return self.value, *self.inner.state

    @state.setter
    def state(self, value: Any) -> None:
        first, *rest = value
        assert self.value == first
        self.inner.state = rest


class EmptyList(CacheWithExtraState):
    def __init__(self) -> None:
        super().__init__()
        self.value: Sequence[Any] = []


class Dtype(CacheWithExtraState):
    def __init__(self) -> None:
        super().__init__()
        self.value = mx.float32


Cache = list[Any]


def quantized(bits: int) -> Callable[[Any], Cache]:
    def make(model: Any) -> Cache:
        cache: Cache = make_prompt_cache(model)
        maybe_quantize_kv_cache(cache, 0, 32, bits)
        return cache

    return make


def each_layer(maker: Callable[[], Any]) -> Callable[[Any], Cache]:
    return lambda model: [maker() for _ in model.layers]


def nested(model: Any) -> Cache:
    return [CacheList(part) for part in make_prompt_cache(model)]


@dataclass(frozen=True)
class Variant:
    """An architecture with a cache that it does not make by itself."""

    architecture: str
    make_cache: Callable[[Any], Cache]
    classes: str
    in_layer: Callable[[Any], Any] = lambda part: part


VARIANTS = {
    "4 bits": Variant("qwen3", quantized(4), "QuantizedKVCache"),
    "8 bits": Variant("qwen3", quantized(8), "QuantizedKVCache"),
    "4 bits and state": Variant("qwen3_5", quantized(4), "ArraysCache QuantizedKVCache"),
    "a window that keeps its start": Variant(
        "qwen3", lambda model: list(make_prompt_cache(model, WINDOW)), "RotatingKVCache"
    ),
    "concatenated": Variant("qwen3", each_layer(ConcatenateKVCache), "ConcatenateKVCache"),
    "nested": Variant("falcon_h1", nested, "ArraysCache CacheList KVCache", lambda part: part.caches[0]),
    "pages": Variant("qwen3", each_layer(Pages), "Pages"),
    "an heir": Variant("qwen3", each_layer(KVCacheSubclass), "KVCacheSubclass"),
    "a cache inside": Variant("qwen3", each_layer(WrappedKVCache), "WrappedKVCache"),
    "an empty list": Variant("qwen3", each_layer(EmptyList), "EmptyList"),
}
UNSAVABLE = "no JSON"
VARIANTS[UNSAVABLE] = Variant("qwen3", each_layer(Dtype), "Dtype")
CASES = [*ARCHITECTURES, *(name for name in VARIANTS if name != UNSAVABLE)]


class ModelWithCache:
    """A model with a variant's cache."""

    def __init__(self, model: Any, variant: Variant) -> None:
        self._model, self._variant = model, variant

    def make_cache(self) -> Cache:
        return self._variant.make_cache(self._model)

    def __call__(self, tokens: mx.array, cache: Cache) -> mx.array:
        return self._model(tokens, cache=[self._variant.in_layer(part) for part in cache])

    def __getattr__(self, name: str) -> Any:
        return getattr(self._model, name)


def model_of(case: str) -> Any:
    if case in ARCHITECTURES:
        return build(case)
    # Quantization groups hold at least 32 numbers.
    variant = VARIANTS[case]
    return ModelWithCache(build(variant.architecture, head_dim=32), variant)


def classes_of(case: str) -> set[str]:
    return caches(case) if case in ARCHITECTURES else set(VARIANTS[case].classes.split())


def class_names(cache: Sequence[Any]) -> Iterator[str]:
    for part in cache:
        yield type(part).__name__
        yield from class_names(getattr(part, "caches", ()))


@dataclass(frozen=True)
class SharedSetup:
    """A worker and a tokenizer for all tests. MLX never frees a worker's stream threads: one is enough."""

    worker: Worker
    tokenizer: TokenizerWrapper


@pytest.fixture(scope="module")
def shared_setup() -> Iterator[SharedSetup]:
    """The end-of-text token is outside the models' vocabulary, so that no reply ends early."""
    words = tiny.tokenizer()
    end = words.id_to_token(words.get_vocab_size() - 1)
    worker, fast = Worker(), PreTrainedTokenizerFast(tokenizer_object=words, eos_token=end)
    yield SharedSetup(worker, TokenizerWrapper(fast))
    worker.close()


def day_and_night_cases(first: int = 0, step: int = 1) -> Iterator[Any]:
    """Every case. By day one for each set of cache classes, and of these every `step`th from `first` on."""
    seen: list[str] = []
    for name in CASES:
        kind = " ".join(sorted(classes_of(name)))
        by_day = kind not in seen and len(seen) % step == first
        seen += [kind] if kind not in seen else []
        yield pytest.param(name, marks=[] if by_day else [pytest.mark.slow])


@pytest.fixture(params=list(day_and_night_cases()))
def case(request: pytest.FixtureRequest) -> str:
    """An architecture or a variant of one; skipped where this mlx-lm has no such module."""
    if importlib.util.find_spec(f"mlx_lm.models.{request.param}") or request.param in VARIANTS:
        return str(request.param)
    pytest.skip(f"this mlx-lm has no {request.param}")


class Process:
    """The state of one chatcli process: a fresh model, store and live cache."""

    def __init__(self, shared_setup: SharedSetup, case: str, folder: Path | None) -> None:
        model = shared_setup.worker.call(model_of, case)
        self.classes = set(class_names(shared_setup.worker.call(make_prompt_cache, model)))
        self.store = None if folder is None else SegmentStore(folder, FINGERPRINT)
        loaded = LoadedModel(case, model, shared_setup.tokenizer, FINGERPRINT, 1024, STEP)
        self.checkpoints = Checkpoints(shared_setup.worker, loaded, self.store)

    def __enter__(self) -> Process:
        return self

    def __exit__(self, *_: object) -> None:
        if self.store is not None:
            self.store.close()

    def restore(self, prompt: list[int], boundaries: list[int]) -> tuple[int, bool, str | None]:
        """Restore the deepest checkpoint. Returns its depth, whether in memory, and the miss reason."""
        segments = path(prompt, boundaries)
        plan = self.checkpoints.restore(self.checkpoints.plan(segments))
        return plan.depth, plan.source != "disk", plan.reason

    def prefill(self, prompt: list[int], boundaries: list[int], first: int = 0) -> None:
        """Extend the cache through the segments from `first` on, and persist each."""
        segments = path(prompt, boundaries)
        for depth in range(first, len(segments)):
            steps = self.checkpoints.prefill(segments.upto(depth + 1), depth, threading.Event())
            assert segments[depth].end - segments[depth].start == sum(step.tokens for step in steps)
            self.checkpoints.hand_over()

    def advance(self, segments: TokenPath, chunks: int | None = None) -> int:
        """Bring the cache to the end of a path, or stop after some chunks. Returns what was there already."""
        stop = threading.Event()
        plan, steps = self.checkpoints.advance(segments, stop)
        for number, _ in enumerate((step for step in steps if step.tokens), start=1):
            if number == chunks:
                stop.set()
        return plan.tokens

    def say(self, prompt: list[int], start: int, count: int = REPLY_TOKENS) -> Generated:
        """Generate greedily from the rest of the prompt. Returns tokens with their logprobs."""
        sampling = Sampling(temp=0.0, max_tokens=count)
        never = threading.Event()
        tokens = self.checkpoints.generate(GenerationRequest(prompt[start:], sampling, count), never)
        return [(token.id, token.logprob) for token in tokens]


def path(prompt: list[int], boundaries: list[int], distance: int = 0) -> TokenPath:
    return TokenPath.cut(root_id(FINGERPRINT), prompt, boundaries, distance=distance)


def uninterrupted(
    shared_setup: SharedSetup, case: str, prompt: list[int], boundaries: list[int]
) -> Generated:
    """The tokens of a run without a store."""
    with Process(shared_setup, case, None) as process:
        process.prefill(prompt, boundaries)
        return process.say(prompt, boundaries[-1], SHORT_REPLY_TOKENS)


def save_conversation(shared_setup: SharedSetup, case: str, folder: Path) -> Generated:
    """Save the first conversation. Asserts that a rewind gives the same tokens; returns them."""
    with Process(shared_setup, case, folder) as process:
        assert classes_of(case) == process.classes
        process.prefill(PROMPT, BOUNDARIES)
        generated = process.say(PROMPT, BOUNDARIES[-1])
        process.checkpoints.worker.call(process.checkpoints.live.rewind)
        assert generated[:SHORT_REPLY_TOKENS] == process.say(PROMPT, BOUNDARIES[-1], SHORT_REPLY_TOKENS)
    return generated


def is_plausible(generated: Generated) -> bool:
    """Whether all logprobs are finite, and more than two tokens differ."""
    return all(float("-inf") < logprob <= 0 for _, logprob in generated) and len(dict(generated)) > 2


def test_a_restored_model_gives_the_same_tokens_and_logprobs(
    shared_setup: SharedSetup, case: str, tmp_path: Path
) -> None:
    expected = save_conversation(shared_setup, case, tmp_path)
    assert REPLY_TOKENS == len(expected)
    assert is_plausible(expected)
    with Process(shared_setup, case, tmp_path) as process:
        assert (len(BOUNDARIES), False, None) == process.restore(PROMPT, BOUNDARIES)
        assert expected == process.say(PROMPT, BOUNDARIES[-1])
    expected = uninterrupted(shared_setup, case, BRANCH, BRANCH_BOUNDARIES)
    with Process(shared_setup, case, tmp_path) as process:
        assert (SHARED_SEGMENTS, False, None) == process.restore(BRANCH, BRANCH_BOUNDARIES)
        process.prefill(BRANCH, BRANCH_BOUNDARIES, SHARED_SEGMENTS)
        assert expected == process.say(BRANCH, BRANCH_BOUNDARIES[-1], SHORT_REPLY_TOKENS)
    assert bool(classes_of(case) - ROWS - {"CacheList"}) == bool(state_files(tmp_path))


@pytest.mark.parametrize("case", list(day_and_night_cases(0, 3)), indirect=True)
def test_a_long_segment_that_was_interrupted_goes_on_with_the_same_bits_as_one_that_is_not_cut(
    shared_setup: SharedSetup, case: str, tmp_path: Path
) -> None:
    expected = uninterrupted(shared_setup, case, PROMPT, LONG_BOUNDARIES)
    segments = path(PROMPT, LONG_BOUNDARIES, DISTANCE)
    done = []
    for chunks in (4, 3, 1):
        with Process(shared_setup, case, tmp_path) as process:
            done.append(process.advance(segments, chunks))
    with Process(shared_setup, case, tmp_path) as process:
        done.append(process.advance(segments))
        assert expected == process.say(PROMPT, LONG_BOUNDARIES[-1], SHORT_REPLY_TOKENS)
    assert [0, 33, 65, 65] == done
    with Process(shared_setup, case, tmp_path) as process:
        assert LONG_BOUNDARIES[-1] == process.advance(segments)
        assert expected == process.say(PROMPT, LONG_BOUNDARIES[-1], SHORT_REPLY_TOKENS)


@pytest.mark.parametrize("case", list(day_and_night_cases(1, 3)), indirect=True)
def test_prompts_that_part_within_a_long_segment_share_it_up_to_the_last_cut(
    shared_setup: SharedSetup, case: str, tmp_path: Path
) -> None:
    # Rows are lent up to the last whole chunk, a state up to the last cut.
    shared, chunk, cut = 118, 113, 97
    other = PROMPT[:shared] + [(token * 5) % VOCABULARY for token in PROMPT[:32]]
    expected = uninterrupted(shared_setup, case, other, LONG_BOUNDARIES)
    first, second = (path(tokens, LONG_BOUNDARIES, DISTANCE) for tokens in (PROMPT, other))
    with Process(shared_setup, case, tmp_path) as process:
        process.advance(first)
        process.say(PROMPT, LONG_BOUNDARIES[-1], 1)
        assert process.advance(second) in (cut, chunk)
        assert expected == process.say(other, LONG_BOUNDARIES[-1], SHORT_REPLY_TOKENS)
        assert process.store is not None
        process.store.flush()
        # Only the first prompt's rows, which hold more than both share.
        for rows in tmp_path.rglob(f"*-{second.id[:16]}.rows.*"):
            rows.unlink()
    with Process(shared_setup, case, tmp_path) as process:
        assert (cut if process.checkpoints.stateful else chunk) == process.advance(second)
        assert expected == process.say(other, LONG_BOUNDARIES[-1], SHORT_REPLY_TOKENS)


@pytest.mark.parametrize("case", list(day_and_night_cases(2, 3)), indirect=True)
def test_a_reply_that_is_longer_than_a_cut_goes_on_open_as_reopened(
    shared_setup: SharedSetup, case: str, tmp_path: Path
) -> None:
    end = LONG_BOUNDARIES[-1]
    with Process(shared_setup, case, tmp_path) as process:
        process.advance(path(PROMPT, LONG_BOUNDARIES, DISTANCE))
        reply = [token for token, _ in process.say(PROMPT, end)]
        prompt = [*PROMPT, *reply, *PROMPT[:20]]
        boundaries = [*LONG_BOUNDARIES, end + len(reply), len(prompt) - 1]
        segments = path(prompt, boundaries, DISTANCE)
        assert len(segments) == len(LONG_BOUNDARIES) + 4 + 2 + 1
        process.advance(segments)
        expected = process.say(prompt, boundaries[-1], SHORT_REPLY_TOKENS)
        process.checkpoints.worker.call(process.checkpoints.live.rewind)
        assert expected == process.say(prompt, boundaries[-1], SHORT_REPLY_TOKENS)
    with Process(shared_setup, case, tmp_path) as process:
        assert boundaries[-1] == process.advance(segments)
        assert expected == process.say(prompt, boundaries[-1], SHORT_REPLY_TOKENS)


def state_files(folder: Path) -> list[Path]:
    return list(folder.rglob("*.state.*"))


def test_a_cache_that_cannot_be_saved_is_a_miss_and_no_error(
    shared_setup: SharedSetup, tmp_path: Path
) -> None:
    expected = save_conversation(shared_setup, UNSAVABLE, tmp_path)
    with Process(shared_setup, UNSAVABLE, tmp_path) as process:
        depth, _, _ = process.restore(PROMPT, BOUNDARIES)
        assert 0 == depth
        process.prefill(PROMPT, BOUNDARIES)
        assert expected == process.say(PROMPT, BOUNDARIES[-1])


def test_the_table_holds_every_cache_class_of_mlx_lm() -> None:
    """Except the batched ones, which are for mlx-lm's server."""
    base = mlx_caches._BaseCache
    classes = [kind for _, kind in inspect.getmembers(mlx_caches, inspect.isclass)]
    known = {kind.__name__ for kind in classes if issubclass(kind, base) and kind is not base}
    single = {name for name in known if not name.startswith("Batch")}
    assert single <= set(itertools.chain.from_iterable(map(classes_of, CASES)))


def test_the_table_holds_at_least_a_hundred_architectures() -> None:
    assert 100 <= len(ARCHITECTURES)
