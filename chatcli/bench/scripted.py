"""A model that generates scripted replies, so that every contender has the same conversation.

The inner model really runs, on real caches. Only the generated tokens follow a script, because a random
model's replies could not be continued.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import mlx.core as mx
import mlx.nn as nn
from mlx_lm.utils import _get_classes

from chatcli.errors import ModelBroken

WORD = re.compile(" [A-Za-z0-9]+")
LETTER = re.compile("[A-Z]")
USER_MESSAGE = {"role": "user", "content": "."}
CODE_NAME = "scripted_model.py"
CODE = """\
from chatcli.bench.scripted import classes

Model, ModelArgs = classes(__file__)
"""


class Scripted(nn.Module):  # type: ignore[misc]
    """`inner` with one change: after each token of the script, the script's next token is the likeliest.

    After any other token the script starts. All other logits keep the inner model's values, so that logprobs
    show whether two caches are equal.
    """

    def __init__(self, inner: Any, vocabulary: int, script_ids: Sequence[int]) -> None:
        """`script_ids` must be distinct. Logits beyond the `vocabulary` ids are cut off."""
        assert len(set(script_ids)) == len(script_ids), "each token must have one successor"
        super().__init__()
        self.inner = inner
        self._vocabulary = vocabulary
        self._ids: list[Any] = []
        self._greedy: list[Any] = []
        self._next = _successors(vocabulary, script_ids)

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)
        except AttributeError:
            return getattr(super().__getattr__("inner"), name)

    def __call__(self, inputs: Any, cache: Any = None, **options: Any) -> Any:
        logits = self.inner(inputs, cache=cache, **options)[..., : self._vocabulary]
        self._ids.append(inputs)
        self._greedy.append(mx.argmax(logits[:, -1], axis=-1))
        return _follow(logits, self._next[inputs])

    def greedy(self, script_ids: Sequence[int]) -> list[int]:
        """The inner model's argmax before each token of the script, since the last call.

        The first one follows the prompt's last token, which is run alone like each of `script_ids`.
        """
        single = [
            (run.item(), choice.item())
            for run, choice in zip(self._ids, self._greedy, strict=True)
            if run.size == 1
        ]
        self._ids.clear()
        self._greedy.clear()
        start = next((at for at, (token, _) in enumerate(single) if token == script_ids[0]), len(single))
        return [choice for _, choice in single[max(start - 1, 0) :][: len(script_ids)]]


def _successors(vocabulary: int, script_ids: Sequence[int]) -> mx.array:
    """For each token, its successor in the script."""
    successors = [script_ids[0]] * vocabulary
    for token, successor in zip(script_ids, [*script_ids[1:], script_ids[0]], strict=True):
        successors[token] = successor
    return mx.array(successors)


def _follow(logits: mx.array, tokens: mx.array) -> mx.array:
    """Change logits so that `tokens` are the likeliest."""
    is_next = mx.arange(logits.shape[-1]) == tokens[..., None]
    return mx.where(is_next, logits.max(axis=-1, keepdims=True) + 1, logits)


def write_code(folder: Path, vocabulary: int, script_ids: Sequence[int]) -> None:
    """Make the model in `folder` follow a script in every process that loads it with its own code."""
    path = folder / "config.json"
    config = json.loads(path.read_text())
    config |= {"model_file": CODE_NAME, "script": list(script_ids), "script_vocabulary": vocabulary}
    path.write_text(json.dumps(config))
    (folder / CODE_NAME).write_text(CODE)


def classes(code_file: str) -> tuple[type, type]:
    """The model's classes for `CODE`, a file beside the configuration."""
    config = json.loads(Path(code_file).with_name("config.json").read_text())
    vocabulary, script_ids = config["script_vocabulary"], config["script"]
    base, arguments = _get_classes(config)

    class Model(base):  # type: ignore[misc, valid-type]
        def __init__(self, args: Any) -> None:
            super().__init__(args)
            # With an underscore, because it would otherwise be a weight.
            self._next = _successors(vocabulary, script_ids)

        def __call__(self, inputs: Any, cache: Any = None, **options: Any) -> Any:
            logits = super().__call__(inputs, cache=cache, **options)[..., :vocabulary]
            return _follow(logits, self._next[inputs])

    return Model, arguments


@dataclass(frozen=True)
class Script:
    """`ids` are what the model generates, `reply` is the text that history keeps."""

    ids: list[int]
    reply: str

    def __len__(self) -> int:
        return len(self.ids)


def script(tokenizer: Any, reply_tokens: int, thinking_tokens: int = 12, **options: Any) -> Script:
    """Thinking, if the template has any, then a reply of `reply_tokens`, then the end of turn.

    The reply consists of distinct words that are one token each in any context. `options` are the template's.
    Raises `ModelBroken` for a tokenizer without enough such words.
    """
    letters = list(_single_tokens(tokenizer, LETTER))
    thinking, spare = letters[:thinking_tokens], letters[thinking_tokens:]
    reply = [*spare[:1], *_single_tokens(tokenizer, WORD), *spare[1:]][:reply_tokens]
    text = tokenizer.decode(reply)
    # The template must render the reply as exactly the generated tokens.
    history = [USER_MESSAGE, {"role": "assistant", "content": text}, USER_MESSAGE]
    rendered = render(tokenizer, history, **options)
    starts = range(len(rendered) - len(reply) + 1)
    if len(reply) < reply_tokens or not any(rendered[at : at + len(reply)] == reply for at in starts):
        raise ModelBroken(
            f"This model's tokenizer has no {reply_tokens} words that are one token each, so the benchmark "
            "cannot tell it what to say: choose another model with -m."
        )
    return Script([*_with_think_tags(tokenizer, thinking, **options), *reply, tokenizer.eos_token_id], text)


def _single_tokens(tokenizer: Any, pattern: re.Pattern[str]) -> Iterator[int]:
    """Tokens whose text matches `pattern` and is encoded as that one token."""
    for token in sorted(tokenizer.get_vocab().values()):
        text = tokenizer.decode([token])
        if pattern.fullmatch(text) and tokenizer.encode(text, add_special_tokens=False) == [token]:
            yield token


def _with_think_tags(tokenizer: Any, thinking: list[int], **options: Any) -> list[int]:
    """The thinking, with the tags that the model must write itself."""
    if not tokenizer.has_thinking or tokenizer.think_start not in str(tokenizer.chat_template):
        return []
    prompt = render(tokenizer, [USER_MESSAGE], **options)
    opened = tokenizer.rfind_think_start(prompt)
    closed = tokenizer.rfind_think_end(prompt)
    if closed > opened:
        return []
    start = [] if opened >= 0 else tokenizer.encode(tokenizer.think_start, add_special_tokens=False)
    end = tokenizer.encode(tokenizer.think_end, add_special_tokens=False)
    return [*start, *thinking, *end]


def render(tokenizer: Any, messages: Sequence[dict[str, str]], **options: Any) -> list[int]:
    """Messages as token ids, including the generation prompt."""
    text = tokenizer.apply_chat_template(
        list(messages), tokenize=False, add_generation_prompt=True, **options
    )
    return list(tokenizer.encode(text, add_special_tokens=False))
