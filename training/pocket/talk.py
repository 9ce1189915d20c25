"""Talks to an exported pocket through mlx-lm, one turn at a time."""

from __future__ import annotations

import copy
import re
import time
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import mlx.core as mx
from mlx_lm import load
from mlx_lm.generate import BatchGenerator, generate_step
from mlx_lm.models.cache import make_prompt_cache

from chatcli.model import column_parallel
from training.pocket.configuration import MAX_REPLY_TOKENS

MARKERS = re.compile(r"</?think>|<\|")


@dataclass(frozen=True)
class Answer:
    """One reply. `ended`: by itself. `well_formed`: thinking, then an answer, then the end of turn."""

    thinking: str
    text: str
    ended: bool
    well_formed: bool
    tokens: int
    seconds: float


@dataclass(frozen=True)
class Engine:
    """The model as it ships, and its tokenizer."""

    model: Any
    tokenizer: Any

    @classmethod
    def open(cls, folder: Path) -> Engine:
        """Load a folder."""
        model, tokenizer = load(str(folder))[:2]
        column_parallel.split(model, column_parallel.cores())  # as chatcli runs it
        return cls(model, tokenizer)


@dataclass
class Talk:
    """A conversation. The cache holds `cached_ids`, the tokens with which every later prompt begins."""

    engine: Engine
    think: bool = True
    system: str | None = None
    messages: list[dict[str, str]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.cache = make_prompt_cache(self.engine.model)
        self.cached_ids: list[int] = []
        if self.system is not None:
            self.messages.append({"role": "system", "content": self.system})

    def say(self, text: str) -> Answer:
        """Send a message and read the reply."""
        self.messages.append({"role": "user", "content": text})
        self._prefill(self._ids(prompt=False))
        answer = self._generate(self._ids(prompt=True)[len(self.cached_ids) :])
        self.messages.append({"role": "assistant", "content": answer.text})
        return answer

    def _ids(self, prompt: bool) -> list[int]:
        ids: list[int] = self.engine.tokenizer.apply_chat_template(
            self.messages, add_generation_prompt=prompt, enable_thinking=self.think
        )
        return ids

    def _prefill(self, ids: list[int]) -> None:
        assert ids[: len(self.cached_ids)] == self.cached_ids
        new = mx.array(ids[len(self.cached_ids) :])
        self.engine.model(new[None], cache=self.cache)
        mx.eval([layer.state for layer in self.cache])
        self.cached_ids = ids

    def _generate(self, prompt: list[int]) -> Answer:
        tokenizer = self.engine.tokenizer
        started, ids, ended = time.perf_counter(), [], False
        cache = copy.deepcopy(self.cache)
        for token, _ in generate_step(
            mx.array(prompt), self.engine.model, max_tokens=MAX_REPLY_TOKENS, prompt_cache=cache
        ):
            if int(token) in tokenizer.eos_token_ids:
                ended = True
                break
            ids.append(int(token))
        seconds = time.perf_counter() - started
        return read(tokenizer.decode(ids), self.think, ended, len(ids), seconds)


def read(text: str, think: bool, ended: bool, tokens: int, seconds: float) -> Answer:
    """The parts of a generated text."""
    thinking, tag, reply = text.rpartition("</think>") if think else ("", "x", text)
    well_formed = ended and bool(tag) and bool(reply.strip()) and not MARKERS.search(thinking + reply)
    return Answer(thinking.strip(), reply.strip(), ended, well_formed, tokens, seconds)


def replies(
    engine: Engine, conversations: list[list[dict[str, str]]], think: bool
) -> Iterator[tuple[int, Answer]]:
    """The number of each conversation and the reply to its last message, many at once and in no order."""
    tokenizer = engine.tokenizer
    prompts: list[list[int]] = [
        tokenizer.apply_chat_template(messages, add_generation_prompt=True, enable_thinking=think)
        for messages in conversations
    ]
    ends = [[token] for token in tokenizer.eos_token_ids]
    generator = BatchGenerator(engine.model, max_tokens=MAX_REPLY_TOKENS, stop_tokens=ends)
    # Prompts of about the same length are run together, since the shorter ones are padded.
    order = sorted(range(len(prompts)), key=lambda number: len(prompts[number]))
    numbers = dict(zip(generator.insert([prompts[number] for number in order]), order, strict=True))
    generated: dict[int, list[int]] = defaultdict(list)
    while numbers:
        started = time.perf_counter()
        for response in generator.next_generated():
            ids = generated[response.uid]
            if response.finish_reason != "stop":
                ids.append(response.token)
            if response.finish_reason is not None:
                text, ended = tokenizer.decode(ids), response.finish_reason == "stop"
                yield (
                    numbers.pop(response.uid),
                    read(text, think, ended, len(ids), time.perf_counter() - started),
                )
    generator.close()
