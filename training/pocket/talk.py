"""Talks to an exported pocket through mlx-lm, one turn at a time."""

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

MAX_REPLY_TOKENS = 220


@dataclass(frozen=True)
class Answer:
    """One reply. `well_formed`: thinking, then an answer, then the end of turn."""

    thinking: str
    text: str
    well_formed: bool
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
        text = tokenizer.decode(ids)
        thinking, tag, reply = text.rpartition("</think>") if self.think else ("", "x", text)
        well_formed = ended and bool(tag) and bool(reply.strip()) and "<" not in thinking + reply
        return Answer(thinking.strip(), reply.strip(), well_formed, len(ids), seconds)
