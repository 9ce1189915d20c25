"""Images as a prompt has them; refuses to know MLX, templates and caches.

A checkpoint belongs to the tokens before it, but two images of one size give a model the same
tokens. So in a prompt an image stands as numbers below zero that follow from its content, and
whatever compares prompts tells it from any other. What the model is given instead is known here.
"""

from __future__ import annotations

import contextlib
import hashlib
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, is_dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

from chatcli.conversation import images
from chatcli.conversation.images import Image
from chatcli.conversation.tree import Message, Picture
from chatcli.errors import ImagesRefused, TemplateRefused
from chatcli.model import inspect
from chatcli.store.sessions.images import Gallery

# Numbers of 31 bits, as a checkpoint's file has them.
BITS = 0x7FFFFFFF
# Prepared images whose pixels are kept until they are run.
KEPT = 4
# What shows an image to a person who reads tokens.
SIGN = "[image]"


@dataclass(frozen=True)
class Block:
    """An image in a prompt: the numbers that stand there, and as many tokens for the model."""

    picture: Picture
    keys: tuple[int, ...]
    tokens: tuple[int, ...]


class Vision:
    """A model's image processor, and the images that it was shown in this process."""

    def __init__(
        self,
        processor: Any,
        tokenizer: Any,
        gallery: Gallery,
        on_worker: Callable[..., Any],
        version: str = "",
    ) -> None:
        """`on_worker` calls what it is given on the thread that owns MLX. `version` is mlx-lm's."""
        self.gallery = gallery
        self.placeholder_text: str = processor.image_token
        self.placeholder = int(tokenizer.convert_tokens_to_ids(processor.image_token))
        settings = repr(processor) if is_dataclass(processor) else type(processor).__name__
        self._settings = settings
        self.key = f"images {version} {settings}"
        self._processor, self._tokenizer, self._call = processor, tokenizer, on_worker
        # By the file's digest, and by the first number of each.
        self._blocks: dict[str, Block] = {}
        self._beginning: dict[int, list[Block]] = {}
        self._pixels: dict[str, Any] = {}
        # The embeddings of an image that was run in part, as a draft is: for the worker alone.
        self.unfinished: dict[str, Any] = {}
        # An image's tokens follow from its size alone, so not each has to be decoded.
        self._sized: dict[tuple[int, int], tuple[int, ...]] = {}

    def block(self, picture: Picture) -> Block:
        """An image of the conversation. Raises `ImagesRefused`."""
        if picture.sha256 not in self._blocks:
            size = picture.width, picture.height
            tokens = self._sized.get(size) or self._prepare(picture, self.gallery.data(picture))
            self._place(picture, tokens)
        return self._blocks[picture.sha256]

    def learn(self, image: Image) -> None:
        """Prepare an image before it is said. Raises `NotAnImage` or `ImagesRefused`."""
        if image.picture.sha256 not in self._blocks:
            self._place(image.picture, self._prepare(image.picture, image.data))

    def _place(self, picture: Picture, tokens: tuple[int, ...]) -> None:
        made = Block(picture, _keys(picture, tokens, self._settings), tokens)
        self._blocks[picture.sha256] = made
        self._beginning.setdefault(made.keys[0], []).append(made)
        self._sized[picture.width, picture.height] = tokens

    def _prepare(self, picture: Picture, data: bytes) -> tuple[int, ...]:
        """An image's tokens for the model; its pixels are kept for a while."""
        array = images.pixels(picture, data)
        tokens, pixels = self._call(self._processed, picture, array)
        newest = list(self._pixels.items())[1 - KEPT :]
        self._pixels = {**dict(newest), picture.sha256: pixels}
        return tuple(tokens)

    def _processed(self, picture: Picture, array: Any) -> tuple[tuple[int, ...], Any]:
        """An image's tokens for the model, and its pixels as the processor has them."""
        mark = self.placeholder_text
        try:
            text, (pixels,) = self._processor(mark, images=[array])
        except (ValueError, TypeError, AssertionError, ImportError) as error:
            raise ImagesRefused(f"The model cannot be shown the image {picture.name}: {error}") from error
        tokens = tuple(self._encode(text))
        between = self._encode(f"a{mark}b")
        at = between.index(self.placeholder)
        if self._encode(f"a{text}b") != [*between[:at], *tokens, *between[at + 1 :]]:
            raise ImagesRefused("The model's tokenizer does not keep images apart from words.")
        return tokens, pixels

    def _encode(self, text: str) -> list[int]:
        return list(self._tokenizer.encode(text, add_special_tokens=False))

    def pixels(self, picture: Picture) -> Any:
        """What the model's own code takes of an image. On the worker only. Raises `ImagesRefused`."""
        if picture.sha256 not in self._pixels:
            tokens = self._prepare(picture, self.gallery.data(picture))
            if tokens != self._blocks[picture.sha256].tokens:
                raise ImagesRefused(f"The image {picture.name} is not of the size that it was said.")
        return self._pixels[picture.sha256]

    def expanded(self, tokens: Sequence[int], pictures: Sequence[Picture]) -> list[int]:
        """Rendered tokens, each placeholder in them as its image. Raises `TemplateRefused`."""
        if tokens.count(self.placeholder) != len(pictures):
            raise TemplateRefused(
                "The model's chat template does not show each image of this conversation once."
            )
        blocks = iter(pictures)
        made: list[int] = []
        for token in tokens:
            made += self.block(next(blocks)).keys if token == self.placeholder else (token,)
        return made

    def widened(self, count: int, tokens: Sequence[int], pictures: Sequence[Picture]) -> int:
        """How many the first `count` rendered tokens are once images stand in them."""
        shown = tokens[:count].count(self.placeholder)
        return count + sum(len(self.block(one).keys) - 1 for one in pictures[:shown])

    def found(self, tokens: Sequence[int]) -> list[tuple[int, Block]]:
        """Where each image of a prompt begins; the tokens must not begin or end within one."""
        places: list[tuple[int, Block]] = []
        at = 0
        while at < len(tokens):
            if tokens[at] >= 0:
                at += 1
                continue
            places.append((at, self._standing(tokens, at)))
            at += len(places[-1][1].keys)
        return places

    def _standing(self, tokens: Sequence[int], at: int) -> Block:
        blocks = self._beginning[tokens[at]]
        return next(one for one in blocks if one.keys == tuple(tokens[at : at + len(one.keys)]))

    def real(self, tokens: Sequence[int]) -> list[int]:
        """The tokens that the model is given for a prompt's."""
        made = list(tokens)
        for at, block in self.found(tokens):
            made[at : at + len(block.tokens)] = block.tokens
        return made

    @contextlib.contextmanager
    def keeping(self, said: Sequence[Image]) -> Iterator[None]:
        """Prepare images and keep them on disk while the message that they go with is written.

        Raises as `learn` does, and `FolderError`.
        """
        for image in said:
            self.learn(image)
        with self.gallery.keeping(said):
            yield


def keeping(vision: Vision | None, said: Sequence[Image], model: str) -> AbstractContextManager[None]:
    """`Vision.keeping`. Raises `ImagesRefused` for images that the model cannot be shown."""
    if not said:
        return contextlib.nullcontext()
    return check(vision, model).keeping(said)


def prepare(vision: Vision | None, said: Sequence[Image], model: str) -> None:
    """See whether these images can be shown, before anything begins.

    Raises `ImagesRefused` or `NotAnImage`.
    """
    for image in said:
        check(vision, model).learn(image)


def check(vision: Vision | None, model: str) -> Vision:
    """Raises `ImagesRefused` for a model without a processor."""
    if vision is not None:
        return vision
    if not inspect.processors():
        raise ImagesRefused(f"Images need a newer mlx-lm: run {sys.executable} -m pip install -U mlx-lm")
    raise ImagesRefused(
        f"The model '{Path(model).name}' cannot be shown images: leave them out, or choose one that "
        "'chatcli models' lists with images."
    )


def pictures(messages: Sequence[Message]) -> list[Picture]:
    """The images of a path, in order."""
    return [picture for message in messages for picture in message.images]


def legible(tokenizer: Any, tokens: Sequence[int]) -> str:
    """The text of some of a prompt's tokens, images as a sign."""
    runs = groupby(tokens, lambda token: token < 0)
    return "".join(SIGN if image else str(tokenizer.decode(list(run))) for image, run in runs)


def _keys(picture: Picture, tokens: tuple[int, ...], settings: str) -> tuple[int, ...]:
    """The numbers of an image: of its bytes, and of what the processor makes of them."""
    made_of = f"chatcli:image:1:{picture.sha256}:{settings}:{tokens}"
    whole = hashlib.sha256(made_of.encode()).digest()
    digests = (hashlib.sha256(whole + at.to_bytes(4, "little")) for at in range(len(tokens)))
    return tuple(-1 - (int.from_bytes(one.digest()[:4], "little") & BITS) for one in digests)
