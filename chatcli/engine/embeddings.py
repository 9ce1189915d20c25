"""What a model is given for a stretch of a prompt, images included; refuses to know messages and caches."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import mlx.core as mx

from chatcli.model.load import LoadedModel
from chatcli.model.vision import Block


class Given:
    """A stretch of a prompt that begins and ends between images, for a model's calls.

    Each image is embedded alone and once, whatever the calls cut it into, so that its numbers are the
    same however the prompt was run.
    """

    def __init__(self, loaded: LoadedModel, tokens: Sequence[int]) -> None:
        self._loaded = loaded
        vision = loaded.vision
        # The tokens that are in the model's vocabulary.
        self.tokens = list(tokens) if vision is None else vision.real(tokens)
        self._blocks = [] if vision is None else vision.found(tokens)

    def ids(self, start: int, end: int) -> Any:
        """Tokens [start, end) as an array of shape (1, tokens)."""
        return mx.array(self.tokens[start:end])[None]

    def more(self, start: int, end: int) -> dict[str, Any]:
        """What the model is told besides: nothing, or embeddings of shape (1, tokens, dimensions)."""
        rows = self.rows(start, end)
        return {} if rows is None else {"input_embeddings": rows[None]}

    def rows(self, start: int, end: int) -> Any:
        """The embeddings of tokens [start, end), if there is some of an image there; else None."""
        parts: list[Any] = []
        at = start
        for first, block in self._blocks:
            last = first + len(block.tokens)
            if first < end and last > at:
                parts += self._words(at, first)
                at = max(at, first)
                rows = self._image(block, ends=last <= end)
                parts.append(rows[at - first : min(end, last) - first])
                at = min(end, last)
        return mx.concatenate([*parts, *self._words(at, end)]) if parts else None

    def _words(self, start: int, end: int) -> list[Any]:
        if start >= end:
            return []
        return [self._loaded.model.embed_inputs(mx.array(self.tokens[start:end]))]

    def _image(self, block: Block, *, ends: bool) -> Any:
        """The embeddings of a whole image. Unless it `ends` here, the next call takes more of it."""
        vision = self._loaded.vision
        assert vision is not None
        rows = vision.unfinished.pop(block.picture.sha256, None)
        if rows is None:
            inputs, pixels = mx.array(list(block.tokens)), vision.pixels(block.picture)
            rows = self._loaded.model.embed_inputs(inputs, pixel_values=[pixels])
            mx.eval(rows)
        vision.unfinished = {} if ends else {block.picture.sha256: rows}
        return rows


def whole(loaded: LoadedModel, tokens: Sequence[int]) -> dict[str, Any]:
    """What mlx-lm's generation is told besides the tokens: nothing, or embeddings (tokens, dimensions)."""
    given = Given(loaded, tokens)
    rows = given.rows(0, len(given.tokens))
    if rows is None:
        return {}
    # Generation runs on another stream.
    mx.eval(rows)
    return {"input_embeddings": rows}


def real(loaded: LoadedModel, tokens: Sequence[int]) -> list[int]:
    """A prompt's tokens as they are in the model's vocabulary."""
    return list(tokens) if loaded.vision is None else loaded.vision.real(tokens)


def shows(loaded: LoadedModel, tokens: Sequence[int]) -> bool:
    """Whether there is an image among a prompt's tokens."""
    return loaded.vision is not None and bool(loaded.vision.found(tokens))
