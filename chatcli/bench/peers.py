"""The contenders that use mlx-lm's own ways to reuse a prompt cache, in this process.

`NoReuse` prefills every prompt. `MlxLmServer` uses the `LRUPromptCache` of mlx-lm's server with the segments
into which the server divides a prompt. `MlxLmFile` saves a prompt cache after each reply and trims it to the
next prompt.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import mlx.core as mx
from mlx_lm.generate import BatchGenerator, generation_stream, stream_generate
from mlx_lm.models import cache as mlx_cache

from chatcli.bench.race import Answer, Contender, Query, gaps
from chatcli.bench.scripted import Script, render
from chatcli.kv.prompt_cache import nbytes
from chatcli.model.load import LoadedModel
from chatcli.store.segments.token_path import common_prefix
from chatcli.threads.mlx_thread import Worker

Cache = list[Any]
# How many tokens from a prompt's end mlx-lm's server looks for the thinking token.
THINK_START_TAIL_TOKENS = 11


class Peer(Contender):
    """What the peers share: rendering a request and generating the reply, on the model's thread."""

    def ask(self, request: Query, script: Script) -> Answer:
        return self._worker.call(self._ask, request, script)

    def _ask(self, request: Query, script: Script) -> Answer:
        raise NotImplementedError

    def _tokens(self, messages: Sequence[dict[str, str]]) -> list[int]:
        return render(self.loaded.tokenizer, messages)

    def _new(self) -> Cache:
        return list(mlx_cache.make_prompt_cache(self.loaded.model))

    def _generate(self, tokens: Sequence[int], cache: Cache, script: Script) -> list[float]:
        """Prefill `tokens` and generate the reply. Returns the time of each generated token."""
        responses = stream_generate(
            self.loaded.model,
            self.loaded.tokenizer,
            list(tokens),
            max_tokens=len(script),
            prompt_cache=cache,
        )
        return [time.perf_counter() for _ in responses]

    def _answer(
        self, script: Script, began: float, times: list[float], prompt_tokens: int, **fields: Any
    ) -> Answer:
        """The answer to a request that came at `began`; `fields` are its other fields."""
        after_seconds = time.perf_counter() - times[-1]
        greedy = self.loaded.model.greedy(script.ids)
        first = times[0] - began
        answer = Answer(prompt_tokens, 0, first, gaps(times), after_seconds, greedy=greedy)
        return replace(answer, **fields)


class NoReuse(Peer):
    """Prefills every prompt from its first token."""

    name = "no reuse"

    def _ask(self, request: Query, script: Script) -> Answer:
        began = time.perf_counter()
        tokens = self._tokens(request.messages(script))
        cache = self._new()
        times = self._generate(tokens, cache, script)
        return self._answer(script, began, times, len(tokens), memory_bytes=nbytes(cache))


class MlxLmFile(Peer):
    """One prompt cache, saved whole after each reply and loaded if it is not in memory."""

    name = "mlx-lm, a file each turn"

    def __init__(self, worker: Worker, loaded: LoadedModel, folder: Path) -> None:
        super().__init__(worker, loaded)
        self._path = folder / "prompt_cache.safetensors"
        self._cache: Cache | None = None
        self._cached_tokens: list[int] = []

    def _ask(self, request: Query, script: Script) -> Answer:
        began = time.perf_counter()
        tokens = self._tokens(request.messages(script))
        cache, reused = self._trimmed_cache(tokens)
        times = self._generate(tokens[reused:], cache, script)
        self._cache = cache
        # A cache without offsets cannot be trimmed, and has been run on every token.
        offset = next((leaf.offset for leaf in cache if hasattr(leaf, "offset")), None)
        self._cached_tokens = [*tokens, *script.ids][:offset]
        mlx_cache.save_prompt_cache(str(self._path), cache)
        size = self._path.stat().st_size
        return self._answer(
            script,
            began,
            times,
            len(tokens),
            reused_tokens=reused,
            memory_bytes=nbytes(cache),
            disk_bytes=size,
            written_bytes=size,
        )

    def _trimmed_cache(self, tokens: Sequence[int]) -> tuple[Cache, int]:
        """A cache of a proper prefix of `tokens`, and the length of that prefix."""
        if self._cache is None and self._path.exists():
            self._cache = self._load()
        if self._cache is None:
            return self._new(), 0
        shared = min(common_prefix(self._cached_tokens, tokens), len(tokens) - 1)
        surplus = len(self._cached_tokens) - shared
        if surplus and not mlx_cache.can_trim_prompt_cache(self._cache):
            return self._new(), 0
        mlx_cache.trim_prompt_cache(self._cache, surplus)
        return self._cache, shared

    def reopen(self, ahead: bool) -> None:
        # `_cached_tokens` stays, because a real program would have saved them beside the file.
        self._cache = self._worker.call(self._load) if ahead else None

    def _load(self) -> Cache:
        cache: Cache = mlx_cache.load_prompt_cache(str(self._path))
        mx.eval([leaf.state for leaf in cache])
        return cache

    def forget(self) -> None:
        self._cache, self._cached_tokens = None, []
        self._path.unlink(missing_ok=True)


class MlxLmServer(Peer):
    """mlx-lm's server without HTTP, in memory only."""

    name = "mlx-lm's server"

    def __init__(self, worker: Worker, loaded: LoadedModel) -> None:
        super().__init__(worker, loaded)
        self._prompt_cache: Any = None
        self.forget()

    def forget(self) -> None:
        self._prompt_cache = mlx_cache.LRUPromptCache()

    def _ask(self, request: Query, script: Script) -> Answer:
        began = time.perf_counter()
        messages = request.messages(script)
        tokens = self._tokens(messages)
        cache, rest = self._prompt_cache.fetch_nearest_cache(self.name, tokens)
        reused = len(tokens) - len(rest)
        ends = [reused, *(end for end in self._segment_ends(messages, tokens) if end > reused), len(tokens)]
        kinds = ["system", "user"][-(len(ends) - 2) :] if len(ends) > 2 else []
        segments = [tokens[start:end] for start, end in itertools.pairwise(ends)]
        times = list(self._batch(segments, kinds, tokens[:reused], cache, script))
        memory = self._prompt_cache.nbytes
        return self._answer(script, began, times, len(tokens), reused_tokens=reused, memory_bytes=memory)

    def _segment_ends(self, messages: Sequence[dict[str, str]], tokens: Sequence[int]) -> list[int]:
        """Where the system prompt ends, and where the thinking begins if it is near the end."""
        tokenizer = self.loaded.tokenizer
        empty = tokenizer.apply_chat_template([messages[0], {"role": "user", "content": ""}], tokenize=False)
        system = common_prefix(tokenizer.encode(empty, add_special_tokens=False), tokens)
        thinking = -1
        if tokenizer.has_thinking:
            thinking = tokenizer.rfind_think_start(tokens, start=len(tokens) - THINK_START_TAIL_TOKENS)
        return [end for end in (system, thinking) if 0 < end < len(tokens)]

    def _batch(
        self,
        segments: Sequence[Sequence[int]],
        kinds: Sequence[str],
        cached_tokens: Sequence[int],
        cache: Cache | None,
        script: Script,
    ) -> Iterator[float]:
        """Run the segments in a batch of one, and keep the cache at each end as the server does.

        Yields the time of each generated token.
        """
        tokenizer = self.loaded.tokenizer
        generator = BatchGenerator(
            self.loaded.model,
            stop_tokens=[[token] for token in tokenizer.eos_token_ids],
            stream=generation_stream,
        )
        (uid,) = generator.insert_segments(
            segments=[[list(segment) for segment in segments]],
            max_tokens=[len(script)],
            caches=[cache],
            all_tokens=[list(cached_tokens)],
        )
        remaining_kinds = list(kinds)
        while True:
            prompts, responses = generator.next()
            ended = any(prompt.end_of_segment and not prompt.end_of_prompt for prompt in prompts)
            if ended and remaining_kinds:
                segment_cache, key = generator.extract_cache([uid])[uid]
                kind = remaining_kinds.pop(0)
                self._prompt_cache.insert_cache(self.name, list(key), segment_cache, cache_type=kind)
            for response in responses:
                yield time.perf_counter()
                if response.finish_reason is not None:
                    key = list(response.all_tokens)
                    self._prompt_cache.insert_cache(self.name, key, response.prompt_cache)
                    generator.close()
                    return
