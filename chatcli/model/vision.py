"""Images in a prompt, and mlx-lm's image processor for them.

A checkpoint is named by the tokens before it, but two images of one size have the same tokens for a model. So
in a prompt an image is a block of negative numbers that follow from its content, and code that compares
prompts tells images apart. `Vision` knows which tokens the model gets for a block.
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, is_dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

from chatcli.command_line import pip
from chatcli.conversation import images
from chatcli.conversation.images import Image
from chatcli.conversation.tree import Message, Picture
from chatcli.errors import ImagesRefused, TemplateRefused
from chatcli.model import inspect
from chatcli.store.sessions.images import Gallery

# The numbers of a block have 31 bits and a sign, because segment files store tokens as int32.
KEY_MASK = 0x7FFFFFFF
# How many prepared images keep their pixels in memory until they are run.
MAX_PREPARED = 4
# Shown for an image when tokens are decoded for a person.
IMAGE_TEXT = "[image]"


@dataclass(frozen=True)
class Block:
    """An image in a prompt: its negative numbers (`keys`), and the same number of tokens for the model."""

    picture: Picture
    keys: tuple[int, ...]
    tokens: tuple[int, ...]


class Vision:
    """A model's image processor, and the images it has prepared in this process."""

    def __init__(
        self,
        processor: Any,
        tokenizer: Any,
        gallery: Gallery,
        on_worker: Callable[..., Any],
        version: str = "",
    ) -> None:
        """`on_worker` calls a function on the thread that owns MLX. `version` is mlx-lm's."""
        self.gallery = gallery
        self.placeholder_text: str = processor.image_token
        self.placeholder = int(tokenizer.convert_tokens_to_ids(processor.image_token))
        self._settings = repr(processor) if is_dataclass(processor) else type(processor).__name__
        # Everything that an image's tokens depend on, besides the image.
        self.key = f"images {version} {self._settings}"
        self._processor, self._tokenizer, self._call = processor, tokenizer, on_worker
        # By the SHA-256 of the image's file, then by the first key.
        self._blocks: dict[str, Block] = {}
        self._blocks_by_first_key: dict[int, list[Block]] = {}
        self._pixels: dict[str, Any] = {}
        # The embeddings of a partly prefilled image, for example by typeahead. On the worker only.
        self.unfinished: dict[str, Any] = {}
        # An image's tokens follow from its width and height, so not every image has to be decoded.
        self._tokens_by_size: dict[tuple[int, int], tuple[int, ...]] = {}

    def block(self, picture: Picture) -> Block:
        """The block of an image in the conversation. Raises `ImagesRefused`."""
        if picture.sha256 not in self._blocks:
            size = picture.width, picture.height
            tokens = self._tokens_by_size.get(size) or self._prepare(picture, self.gallery.data(picture))
            self._add_block(picture, tokens)
        return self._blocks[picture.sha256]

    def learn(self, image: Image) -> None:
        """Prepare a new image before its message is sent. Raises `NotAnImage` or `ImagesRefused`."""
        if image.picture.sha256 not in self._blocks:
            self._add_block(image.picture, self._prepare(image.picture, image.data))

    def _add_block(self, picture: Picture, tokens: tuple[int, ...]) -> None:
        block = Block(picture, _keys(picture, tokens, self._settings), tokens)
        self._blocks[picture.sha256] = block
        self._blocks_by_first_key.setdefault(block.keys[0], []).append(block)
        self._tokens_by_size[picture.width, picture.height] = tokens

    def _prepare(self, picture: Picture, data: bytes) -> tuple[int, ...]:
        """An image's tokens for the model. Its pixels are kept until `MAX_PREPARED` others are prepared."""
        array = images.pixels(picture, data)
        tokens, pixels = self._call(self._process, picture, array)
        newest = list(self._pixels.items())[1 - MAX_PREPARED :]
        self._pixels = {**dict(newest), picture.sha256: pixels}
        return tuple(tokens)

    def _process(self, picture: Picture, array: Any) -> tuple[tuple[int, ...], Any]:
        """An image's tokens for the model, and its pixels as the processor returns them. On the worker."""
        placeholder = self.placeholder_text
        try:
            text, (pixels,) = self._processor(placeholder, images=[array])
        except (ValueError, TypeError, AssertionError, ImportError) as error:
            raise ImagesRefused(f"The model cannot read the image {picture.name}: {error}") from error
        tokens = tuple(self._encode(text))
        in_text = self._encode(f"a{placeholder}b")
        position = in_text.index(self.placeholder)
        if self._encode(f"a{text}b") != [*in_text[:position], *tokens, *in_text[position + 1 :]]:
            raise ImagesRefused("The model's tokenizer does not distinguish images from words.")
        return tokens, pixels

    def _encode(self, text: str) -> list[int]:
        return list(self._tokenizer.encode(text, add_special_tokens=False))

    def pixels(self, picture: Picture) -> Any:
        """An image's pixels as the model takes them. On the worker only. Raises `ImagesRefused`."""
        if picture.sha256 not in self._pixels:
            tokens = self._prepare(picture, self.gallery.data(picture))
            if tokens != self._blocks[picture.sha256].tokens:
                raise ImagesRefused(f"The image {picture.name} does not have the size that its message says.")
        return self._pixels[picture.sha256]

    def expanded(self, tokens: Sequence[int], pictures: Sequence[Picture]) -> list[int]:
        """Rendered tokens with a block in place of each placeholder. Raises `TemplateRefused`."""
        if tokens.count(self.placeholder) != len(pictures):
            raise TemplateRefused(
                "The model's chat template does not show each image of this conversation exactly once."
            )
        remaining = iter(pictures)
        expanded: list[int] = []
        for token in tokens:
            expanded += self.block(next(remaining)).keys if token == self.placeholder else (token,)
        return expanded

    def widened(self, count: int, tokens: Sequence[int], pictures: Sequence[Picture]) -> int:
        """The length of the first `count` rendered tokens once they are `expanded`."""
        images = tokens[:count].count(self.placeholder)
        return count + sum(len(self.block(picture).keys) - 1 for picture in pictures[:images])

    def blocks_in(self, tokens: Sequence[int]) -> list[tuple[int, Block]]:
        """The images in a prompt's tokens with their positions. The tokens start and end between images."""
        places: list[tuple[int, Block]] = []
        position = 0
        while position < len(tokens):
            if tokens[position] >= 0:
                position += 1
                continue
            candidates = self._blocks_by_first_key[tokens[position]]
            block = next(
                block
                for block in candidates
                if block.keys == tuple(tokens[position : position + len(block.keys)])
            )
            places.append((position, block))
            position += len(block.keys)
        return places

    def between_images(self, positions: Sequence[int], tokens: Sequence[int]) -> list[int]:
        """The positions that do not lie within an image of the prompt."""
        blocks = [(start, start + len(block.keys)) for start, block in self.blocks_in(tokens)]
        return [each for each in positions if not any(start < each < end for start, end in blocks)]

    def vocabulary_tokens(self, tokens: Sequence[int]) -> list[int]:
        """A prompt's tokens, with the model's own tokens for images."""
        replaced = list(tokens)
        for position, block in self.blocks_in(tokens):
            replaced[position : position + len(block.tokens)] = block.tokens
        return replaced

    @contextlib.contextmanager
    def keeping(self, new: Sequence[Image], held: list[Image] | None = None) -> Iterator[None]:
        """Prepare new images, and keep them on disk while their message is written.

        Those of a private conversation are added to `held` instead, and are there as long as that has them.

        Raises as `learn` does, and `FolderError`.
        """
        for image in new:
            self.learn(image)
        if held is not None:
            # The same object where another conversation has it already.
            held += [self.gallery.in_memory.setdefault(image.picture.sha256, image) for image in new]
        with self.gallery.keeping(new if held is None else ()):
            yield


def keeping(
    vision: Vision | None, new: Sequence[Image], model: str, held: list[Image] | None = None
) -> AbstractContextManager[None]:
    """`Vision.keeping`, if there are images. Raises `ImagesRefused` if the model cannot see images."""
    if not new:
        return contextlib.nullcontext()
    return check(vision, model).keeping(new, held)


def prepare(vision: Vision | None, new: Sequence[Image], model: str) -> None:
    """Prepare new images, so that a refusal comes before the turn begins.

    Raises `ImagesRefused` or `NotAnImage`.
    """
    for image in new:
        check(vision, model).learn(image)


def check(vision: Vision | None, model: str) -> Vision:
    """Raises `ImagesRefused` for a model without a processor."""
    if vision is not None:
        return vision
    if not inspect.processors():
        raise ImagesRefused(f"Images need a newer mlx-lm. To install it: {pip('install -U mlx-lm')}")
    raise ImagesRefused(
        f"The model '{Path(model).name}' cannot see images: leave them out, or choose one that can, "
        "as listed by: chatcli models"
    )


def pictures(messages: Sequence[Message]) -> list[Picture]:
    """The images of a path's messages, in order."""
    return [picture for message in messages for picture in message.images]


def legible(tokenizer: Any, tokens: Sequence[int]) -> str:
    """The text of prompt tokens, with `IMAGE_TEXT` for each image."""
    runs = groupby(tokens, lambda token: token < 0)
    return "".join(IMAGE_TEXT if image else str(tokenizer.decode(list(run))) for image, run in runs)


def _keys(picture: Picture, tokens: tuple[int, ...], settings: str) -> tuple[int, ...]:
    """The negative numbers of an image: a hash of its bytes and of the processor's result."""
    identity = f"chatcli:image:1:{picture.sha256}:{settings}:{tokens}"
    seed = hashlib.sha256(identity.encode()).digest()
    digests = (hashlib.sha256(seed + index.to_bytes(4, "little")) for index in range(len(tokens)))
    return tuple(-1 - (int.from_bytes(digest.digest()[:4], "little") & KEY_MASK) for digest in digests)
