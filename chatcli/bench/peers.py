"""mlx-lm's own ways of answering a request, in this process; refuses to know chatcli's.

`Cold` reuses nothing. `Served` is mlx-lm's server: its `LRUPromptCache`, driven with the segments
that it cuts a prompt into. `Saved` writes a prompt cache after each reply and cuts it to what fits.
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

from chatcli.bench.contender import Answer, Request, gaps
from chatcli.bench.scripted import Script, render
from chatcli.kv.prompt_cache import nbytes
from chatcli.model.load import LoadedModel
from chatcli.store.segments.token_path import common_prefix
from chatcli.threads.mlx_thread import Worker

Cache = list[Any]
# As far from a prompt's end as mlx-lm's server looks for the thinking token.
TAIL = 11
LEAST = 1


class Peer:
    """What the peers have in common: the model, its thread, and how a request becomes tokens."""

    name = "peer"

    def __init__(self, worker: Worker, loaded: LoadedModel) -> None:
        self.loaded = loaded
        self._worker = worker

    def ask(self, request: Request, script: Script) -> Answer:
        return self._worker.call(self._ask, request, script)

    def _ask(self, request: Request, script: Script) -> Answer:
        raise NotImplementedError

    def reopen(self, ahead: bool) -> None:
        self.forget()

    def forget(self) -> None:
        """Nothing is kept."""

    def close(self) -> None:
        self.forget()

    def _tokens(self, messages: Sequence[dict[str, str]]) -> list[int]:
        return render(self.loaded.tokenizer, messages)

    def _new(self) -> Cache:
        return list(mlx_cache.make_prompt_cache(self.loaded.model))

    def _generate(self, tokens: Sequence[int], cache: Cache, script: Script) -> list[float]:
        """Run `tokens` and what is said then. Returns the moment of each token."""
        responses = stream_generate(
            self.loaded.model,
            self.loaded.tokenizer,
            list(tokens),
            max_tokens=len(script),
            prompt_cache=cache,
        )
        return [time.perf_counter() for _ in responses]

    def _answer(self, script: Script, began: float, times: list[float], prompt: int, **held: Any) -> Answer:
        """What was taken since `began`, with what is `held`: other fields of the answer."""
        after = time.perf_counter() - times[-1]
        greedy = self.loaded.model.greedy(script.ids)
        first = times[0] - began
        answer = Answer(prompt, 0, first, gaps(times), after, greedy=greedy)
        return replace(answer, **held)


class Cold(Peer):
    """Every prompt is run from its first token."""

    name = "no reuse"

    def _ask(self, request: Request, script: Script) -> Answer:
        began = time.perf_counter()
        tokens = self._tokens(request.messages(script))
        cache = self._new()
        times = self._generate(tokens, cache, script)
        return self._answer(script, began, times, len(tokens), memory=nbytes(cache))


class Saved(Peer):
    """One prompt cache, written whole after each reply and read when it is not in memory."""

    name = "mlx-lm, a file each turn"

    def __init__(self, worker: Worker, loaded: LoadedModel, folder: Path) -> None:
        super().__init__(worker, loaded)
        self._path = folder / "prompt_cache.safetensors"
        self._cache: Cache | None = None
        self._held: list[int] = []

    def _ask(self, request: Request, script: Script) -> Answer:
        began = time.perf_counter()
        tokens = self._tokens(request.messages(script))
        cache, reused = self._fitting(tokens)
        times = self._generate(tokens[reused:], cache, script)
        self._cache = cache
        self._held = [*tokens, *script.ids][: _length(cache, len(tokens) + len(script))]
        mlx_cache.save_prompt_cache(str(self._path), cache)
        size = self._path.stat().st_size
        return self._answer(
            script,
            began,
            times,
            len(tokens),
            reused=reused,
            memory=nbytes(cache),
            disk=size,
            written=size,
        )

    def _fitting(self, tokens: Sequence[int]) -> tuple[Cache, int]:
        """A cache that begins as `tokens` do, and how many of them it holds."""
        if self._cache is None and self._path.exists():
            self._cache = self._load()
        if self._cache is None:
            return self._new(), 0
        shared = min(common_prefix(self._held, tokens), len(tokens) - LEAST)
        beyond = len(self._held) - shared
        if beyond and not mlx_cache.can_trim_prompt_cache(self._cache):
            return self._new(), 0
        mlx_cache.trim_prompt_cache(self._cache, beyond)
        return self._cache, shared

    def reopen(self, ahead: bool) -> None:
        # The tokens would lie beside the file.
        self._cache = self._worker.call(self._load) if ahead else None

    def _load(self) -> Cache:
        cache: Cache = mlx_cache.load_prompt_cache(str(self._path))
        mx.eval([leaf.state for leaf in cache])
        return cache

    def forget(self) -> None:
        self._cache, self._held = None, []
        self._path.unlink(missing_ok=True)


class Served(Peer):
    """mlx-lm's server without its HTTP: in memory only."""

    name = "mlx-lm's server"

    def __init__(self, worker: Worker, loaded: LoadedModel) -> None:
        super().__init__(worker, loaded)
        self._kept: Any = None
        self.forget()

    def forget(self) -> None:
        self._kept = mlx_cache.LRUPromptCache()

    def _ask(self, request: Request, script: Script) -> Answer:
        began = time.perf_counter()
        messages = request.messages(script)
        tokens = self._tokens(messages)
        cache, rest = self._kept.fetch_nearest_cache(self.name, tokens)
        reused = len(tokens) - len(rest)
        cuts = [reused, *(at for at in self._cuts(messages, tokens) if at > reused), len(tokens)]
        kinds = ["system", "user"][-(len(cuts) - 2) :] if len(cuts) > 2 else []
        parts = [tokens[start:end] for start, end in itertools.pairwise(cuts)]
        times = list(self._batch(parts, kinds, tokens[:reused], cache, script))
        return self._answer(script, began, times, len(tokens), reused=reused, memory=self._kept.nbytes)

    def _cuts(self, messages: Sequence[dict[str, str]], tokens: Sequence[int]) -> list[int]:
        """Where the system prompt ends, and where the thinking begins if it is near the end."""
        tokenizer = self.loaded.tokenizer
        asked = tokenizer.apply_chat_template([messages[0], {"role": "user", "content": ""}], tokenize=False)
        system = common_prefix(tokenizer.encode(asked, add_special_tokens=False), tokens)
        thinking = -1
        if tokenizer.has_thinking:
            thinking = tokenizer.rfind_think_start(tokens, start=len(tokens) - TAIL)
        return [at for at in (system, thinking) if 0 < at < len(tokens)]

    def _batch(
        self,
        parts: Sequence[Sequence[int]],
        kinds: Sequence[str],
        held: Sequence[int],
        cache: Cache | None,
        script: Script,
    ) -> Iterator[float]:
        """Run the parts in a batch of one, keeping the cache at each end as the server does."""
        tokenizer = self.loaded.tokenizer
        generator = BatchGenerator(
            self.loaded.model,
            stop_tokens=[[token] for token in tokenizer.eos_token_ids],
            stream=generation_stream,
        )
        (uid,) = generator.insert_segments(
            segments=[[list(part) for part in parts]],
            max_tokens=[len(script)],
            caches=[cache],
            all_tokens=[list(held)],
        )
        unnamed = list(kinds)
        while True:
            prompts, generated = generator.next()
            ended = any(one.end_of_segment and not one.end_of_prompt for one in prompts)
            if ended and unnamed:
                made, key = generator.extract_cache([uid])[uid]
                self._kept.insert_cache(self.name, list(key), made, cache_type=unnamed.pop(0))
            for one in generated:
                yield time.perf_counter()
                if one.finish_reason is not None:
                    self._kept.insert_cache(self.name, list(one.all_tokens), one.prompt_cache)
                    generator.close()
                    return


def _length(cache: Cache, most: int) -> int:
    """How many tokens a cache holds: those that can be cut know it, the others were not run further."""
    known = (leaf.offset for leaf in cache if hasattr(leaf, "offset"))
    return min(next(known, most), most)
