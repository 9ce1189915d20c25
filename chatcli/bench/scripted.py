"""A model that is told what to say, so that every contender holds the same conversation.

Refuses to know who runs it. The inner model really runs on the real caches; only what is generated
follows a script, because a random model's words are no reply that a conversation could go on from.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import mlx.core as mx
import mlx.nn as nn

from chatcli.errors import ModelBroken

WORD = re.compile(" [A-Za-z0-9]+")
LETTER = re.compile("[A-Z]")
ASKED = {"role": "user", "content": "."}


class Scripted(nn.Module):  # type: ignore[misc]
    """`inner` with one change: after a token of the script the next one of it is the likeliest.

    After any other token the script begins. Logits keep the inner model's values everywhere else, so
    that logprobs tell one cache from another.
    """

    def __init__(self, inner: Any, vocabulary: int, said: Sequence[int]) -> None:
        """`vocabulary`: how many token ids there are. Logits beyond them are cut off."""
        super().__init__()
        self.inner = inner
        self._vocabulary = vocabulary
        self._ids: list[Any] = []
        self._greedy: list[Any] = []
        self.say(said)

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)
        except AttributeError:
            return getattr(super().__getattr__("inner"), name)

    def __call__(self, inputs: Any, cache: Any = None, **options: Any) -> Any:
        logits = self.inner(inputs, cache=cache, **options)[..., : self._vocabulary]
        self._ids.append(inputs)
        self._greedy.append(mx.argmax(logits[:, -1], axis=-1))
        is_next = mx.arange(logits.shape[-1]) == self._next[inputs][..., None]
        return mx.where(is_next, logits.max(axis=-1, keepdims=True) + 1, logits)

    def say(self, said: Sequence[int]) -> None:
        """Follow another script from now on. No id may be in it twice."""
        assert len(set(said)) == len(said), "a token leads to one other"
        after = [said[0]] * self._vocabulary
        for token, following in zip(said, [*said[1:], said[0]], strict=True):
            after[token] = following
        self._next = mx.array(after)

    def taken(self) -> list[int]:
        """The ids of every token that was run since the last look."""
        ids = [token for run in self._ids for row in run.tolist() for token in row]
        self._forget()
        return ids

    def greedy(self, said: Sequence[int]) -> list[int]:
        """What the inner model would have said at each token of the script, since the last look.

        The first one answers the prompt's last token, which is run alone as each of `said` is.
        """
        alone = [
            (run.item(), chosen.item())
            for run, chosen in zip(self._ids, self._greedy, strict=True)
            if run.size == 1
        ]
        self._forget()
        begun = next((at for at, (token, _) in enumerate(alone) if token == said[0]), len(alone))
        return [chosen for _, chosen in alone[max(begun - 1, 0) :][: len(said)]]

    def _forget(self) -> None:
        self._ids.clear()
        self._greedy.clear()


@dataclass(frozen=True)
class Script:
    """What the model generates, `ids`, and the words of it that history keeps, `reply`."""

    ids: list[int]
    reply: str

    def __len__(self) -> int:
        return len(self.ids)


def script(tokenizer: Any, reply_tokens: int, thinking_tokens: int = 12, **options: Any) -> Script:
    """Thinking, where the template has any, then a reply of so many tokens, then the end.

    The reply is made of words that are one token each wherever they stand, none of them twice.
    `options` are the template's. Raises `ModelBroken` for a tokenizer that has not enough of them.
    """
    letters = list(_alone(tokenizer, LETTER))
    thinking, spare = letters[:thinking_tokens], letters[thinking_tokens:]
    reply = [*spare[:1], *_alone(tokenizer, WORD), *spare[1:]][:reply_tokens]
    ids = [*_around(tokenizer, thinking, **options), *reply, tokenizer.eos_token_id]
    _check(tokenizer, reply, reply_tokens, **options)
    return Script(ids, tokenizer.decode(reply))


def _alone(tokenizer: Any, pattern: re.Pattern[str]) -> Iterator[int]:
    """Tokens whose text fits `pattern` and that this text alone is read as."""
    for token in sorted(tokenizer.get_vocab().values()):
        text = tokenizer.decode([token])
        if pattern.fullmatch(text) and tokenizer.encode(text, add_special_tokens=False) == [token]:
            yield token


def _around(tokenizer: Any, thinking: list[int], **options: Any) -> list[int]:
    """The thinking with the marks that the generation prompt leaves to the model."""
    if not tokenizer.has_thinking or tokenizer.think_start not in str(tokenizer.chat_template):
        return []
    prompt = render(tokenizer, [ASKED], **options)
    opened = tokenizer.rfind_think_start(prompt)
    closed = tokenizer.rfind_think_end(prompt)
    if closed > opened:
        return []
    start = [] if opened >= 0 else tokenizer.encode(tokenizer.think_start, add_special_tokens=False)
    end = tokenizer.encode(tokenizer.think_end, add_special_tokens=False)
    return [*start, *thinking, *end]


def _check(tokenizer: Any, reply: list[int], count: int, **options: Any) -> None:
    """The template must show the reply's words as the very tokens that were generated."""
    said = {"role": "assistant", "content": tokenizer.decode(reply)}
    shown = render(tokenizer, [ASKED, said, ASKED], **options)
    places = range(len(shown) - len(reply) + 1)
    if len(reply) < count or not any(shown[at : at + len(reply)] == reply for at in places):
        raise ModelBroken(
            f"This model's tokenizer has no {count} words that are one token each, so the benchmark "
            "cannot tell it what to say: choose another model with -m."
        )


def render(tokenizer: Any, messages: Sequence[dict[str, str]], **options: Any) -> list[int]:
    """Messages as token ids, the generation prompt included."""
    text = tokenizer.apply_chat_template(
        list(messages), tokenize=False, add_generation_prompt=True, **options
    )
    return list(tokenizer.encode(text, add_special_tokens=False))
