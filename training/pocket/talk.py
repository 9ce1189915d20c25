"""Talks to an exported pocket through mlx-lm, a turn at a time; knows nothing of what is right."""

from __future__ import annotations

import copy
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import mlx.core as mx
from mlx_lm import load
from mlx_lm.generate import generate_step
from mlx_lm.models.cache import make_prompt_cache

LIMIT = 220


@dataclass(frozen=True)
class Answer:
    """One reply. ``formed`` is true where thinking, then an answer, then an end came."""

    thinking: str
    text: str
    formed: bool
    tokens: int
    seconds: float


@dataclass(frozen=True)
class Engine:
    """The model in float32, and its tokenizer."""

    model: Any
    tokenizer: Any

    @classmethod
    def open(cls, folder: Path) -> Engine:
        """Load a folder."""
        model, tokenizer = load(str(folder))[:2]
        model.set_dtype(mx.float32)
        return cls(model, tokenizer)


@dataclass
class Talk:
    """A conversation under way. The cache holds what every later prompt begins with."""

    engine: Engine
    think: bool = True
    system: str | None = None
    messages: list[dict[str, str]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.cache = make_prompt_cache(self.engine.model)
        self.fed: list[int] = []
        if self.system is not None:
            self.messages.append({"role": "system", "content": self.system})

    def say(self, text: str) -> Answer:
        """Send a message and read the reply."""
        self.messages.append({"role": "user", "content": text})
        self._feed(self._ids(prompt=False))
        tail = self._ids(prompt=True)[len(self.fed) :]
        answer = self._read(tail)
        self.messages.append({"role": "assistant", "content": answer.text})
        return answer

    def _ids(self, prompt: bool) -> list[int]:
        found: list[int] = self.engine.tokenizer.apply_chat_template(
            self.messages, add_generation_prompt=prompt, enable_thinking=self.think
        )
        return found

    def _feed(self, ids: list[int]) -> None:
        assert ids[: len(self.fed)] == self.fed
        fresh = mx.array(ids[len(self.fed) :])
        self.engine.model(fresh[None], cache=self.cache)
        mx.eval([layer.state for layer in self.cache])
        self.fed = ids

    def _read(self, tail: list[int]) -> Answer:
        start, got, ended = time.perf_counter(), [], False
        cache = copy.deepcopy(self.cache)
        for token, _ in generate_step(
            mx.array(tail), self.engine.model, max_tokens=LIMIT, prompt_cache=cache
        ):
            if int(token) in self.engine.tokenizer.eos_token_ids:
                ended = True
                break
            got.append(int(token))
        return self._parted(got, ended, time.perf_counter() - start)

    def _parted(self, ids: list[int], ended: bool, seconds: float) -> Answer:
        text = self.engine.tokenizer.decode(ids)
        thinking, mark, reply = text.rpartition("</think>") if self.think else ("", "x", text)
        formed = ended and bool(mark) and bool(reply.strip()) and "<" not in thinking + reply
        return Answer(thinking.strip(), reply.strip(), formed, len(ids), seconds)
