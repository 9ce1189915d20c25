"""A model's input for a stretch of a prompt: token ids, and embeddings for images."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import mlx.core as mx

from chatcli.model.load import LoadedModel
from chatcli.model.vision import Block


class Stretch:
    """Tokens of a prompt that begin and end between images. Positions count from the first token.

    Each image is embedded alone and once, even if calls divide it, so that its values do not depend on how
    the prompt is run.
    """

    def __init__(self, loaded: LoadedModel, tokens: Sequence[int]) -> None:
        self._loaded = loaded
        # The tokens, with the model's own for images.
        self.tokens = vocabulary_tokens(loaded, tokens)
        self._blocks = [] if loaded.vision is None else loaded.vision.blocks_in(tokens)

    def ids(self, start: int, end: int) -> Any:
        """Tokens [start, end) as an array of shape (1, tokens)."""
        return mx.array(self.tokens[start:end])[None]

    def arguments(self, start: int, end: int) -> dict[str, Any]:
        """Additional arguments of the model: none, or embeddings of shape (1, tokens, dimensions)."""
        rows = self.rows(start, end)
        return {} if rows is None else {"input_embeddings": rows[None]}

    def rows(self, start: int, end: int) -> Any:
        """Embeddings of shape (tokens, dimensions); None if there is no image in [start, end)."""
        parts: list[Any] = []
        position = start
        for first, block in self._blocks:
            last = first + len(block.tokens)
            if first < end and last > position:
                parts += self._text_rows(position, first)
                position = max(position, first)
                rows = self._image_rows(block, is_finished=last <= end)
                parts.append(rows[position - first : min(end, last) - first])
                position = min(end, last)
        return mx.concatenate([*parts, *self._text_rows(position, end)]) if parts else None

    def _text_rows(self, start: int, end: int) -> list[Any]:
        if start >= end:
            return []
        return [self._loaded.model.embed_inputs(mx.array(self.tokens[start:end]))]

    def _image_rows(self, block: Block, *, is_finished: bool) -> Any:
        """The embeddings of a whole image, kept for the next call unless it `is_finished` with this one."""
        vision = self._loaded.vision
        assert vision is not None
        rows = vision.unfinished.pop(block.picture.sha256, None)
        if rows is None:
            inputs, pixels = mx.array(list(block.tokens)), vision.pixels(block.picture)
            rows = self._loaded.model.embed_inputs(inputs, pixel_values=[pixels])
            mx.eval(rows)
        vision.unfinished = {} if is_finished else {block.picture.sha256: rows}
        return rows


def generation_arguments(loaded: LoadedModel, tokens: Sequence[int]) -> dict[str, Any]:
    """Additional arguments for mlx-lm's generation: none, or embeddings of shape (tokens, dimensions)."""
    stretch = Stretch(loaded, tokens)
    rows = stretch.rows(0, len(stretch.tokens))
    if rows is None:
        return {}
    # Generation runs on another stream.
    mx.eval(rows)
    return {"input_embeddings": rows}


def vocabulary_tokens(loaded: LoadedModel, tokens: Sequence[int]) -> list[int]:
    """A prompt's tokens, with the model's own for images, which are negative numbers in a prompt."""
    return list(tokens) if loaded.vision is None else loaded.vision.vocabulary_tokens(tokens)


def has_images(loaded: LoadedModel, tokens: Sequence[int]) -> bool:
    return loaded.vision is not None and bool(loaded.vision.blocks_in(tokens))
