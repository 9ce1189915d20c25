"""Reads and decodes the image files that go with messages.

Pillow is imported only when there is an image.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import io
import warnings
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from chatcli import files
from chatcli.command_line import pip
from chatcli.conversation.tree import Picture
from chatcli.errors import ChatcliError, ImagesRefused, NotAnImage
from chatcli.text import clean_line, decodable, file_size

# The first bytes of each kind of file, and Pillow's name of the kind.
SIGNATURES = {b"\x89PNG\r\n\x1a\n": "png", b"\xff\xd8\xff": "jpg", b"GIF8": "gif"}
FORMATS = {"png": "PNG", "jpg": "JPEG", "gif": "GIF", "webp": "WEBP"}
HEAD_BYTES = 16
# The most pixels of an image. No model sees more than a small part of them.
MAX_BYTES = 25_000_000
MAX_PIXELS = 100_000_000
# Kinds with an Exif orientation.
PHOTOGRAPHS = ("jpg", "webp")
# The Exif tag of the orientation, and its values that swap width and height.
ORIENTATION = 0x0112
SIDEWAYS = (5, 6, 7, 8)
# How many images stay in memory while a message that names them is typed.
CACHED_IMAGES = 4


@dataclass(frozen=True)
class Image:
    """An image for a message, and its file's bytes."""

    picture: Picture
    data: bytes = field(repr=False, compare=False)


def kind_of(head: bytes) -> str | None:
    """The kind of an image that begins with these bytes; None if it is not one."""
    if head.startswith(b"RIFF") and head[8:12] == b"WEBP":
        return "webp"
    return next((kind for sign, kind in SIGNATURES.items() if head.startswith(sign)), None)


def is_image(path: Path) -> bool:
    """Whether a file begins like an image."""
    try:
        with files.open_named(path) as file:
            return kind_of(file.read(HEAD_BYTES)) is not None
    except OSError:
        return False


def read(path: str | Path) -> Image:
    """Read an image from a file. Raises `NotAnImage`, and `ImagesRefused` without Pillow."""
    path = files.from_home(str(path))
    name = decodable(clean_line(path.name))
    try:
        status = path.stat()
        if status.st_size > MAX_BYTES:
            raise NotAnImage(_too_many_bytes(name, status.st_size))
        return _read(path.absolute(), name, status.st_mtime_ns, status.st_size)
    except OSError as error:
        raise NotAnImage(f"The image {name} cannot be read: {error.strerror}.") from None


@functools.lru_cache(CACHED_IMAGES)
def _read(path: Path, name: str, changed: int, size: int) -> Image:
    """`read`, cached while the file's time and size stay the same. Also raises `OSError`."""
    return from_bytes(name, files.read_named(path, MAX_BYTES))


def from_bytes(name: str, data: bytes) -> Image:
    """An image from its file's bytes. Raises `NotAnImage`, and `ImagesRefused` without Pillow."""
    if len(data) > MAX_BYTES:
        raise NotAnImage(_too_many_bytes(name, len(data)))
    kind = kind_of(data[:HEAD_BYTES])
    if kind is None:
        raise NotAnImage(f"{name} is not an image that can be read: give a PNG, JPEG, WebP or GIF file.")
    with _opened(name, data) as image:
        width, height = image.size
        if width * height > MAX_PIXELS:
            raise NotAnImage(_too_large(name))
        is_sideways = kind in PHOTOGRAPHS and image.getexif().get(ORIENTATION, 1) in SIDEWAYS
    if is_sideways:  # rotated as a viewer shows it
        width, height = height, width
    return Image(Picture(hashlib.sha256(data).hexdigest(), name, kind, width, height), data)


def pixels(picture: Picture, data: bytes) -> Any:
    """The first frame of a file, upright, as a NumPy array (height, width, 3) of uint8.

    Raises `NotAnImage`, and `ImagesRefused` without Pillow.
    """
    import numpy as np

    with _opened(picture.name, data) as image:
        from PIL import ImageOps

        upright = ImageOps.exif_transpose(image) if picture.kind in PHOTOGRAPHS else image
        return np.asarray(upright.convert("RGB"))


@contextlib.contextmanager
def _opened(name: str, data: bytes) -> Iterator[Any]:
    """Open a file's bytes with Pillow. Translates its errors to `NotAnImage` or `ImagesRefused`."""
    try:
        from PIL import Image as Pillow
    except ImportError as error:
        raise ImagesRefused(f"Images need Pillow. To install it: {pip('install pillow')}") from error
    try:
        with warnings.catch_warnings():
            # Pillow already warns about sizes below `MAX_PIXELS`.
            warnings.simplefilter("ignore")
            yield Pillow.open(io.BytesIO(data), formats=tuple(FORMATS.values()))
    except ChatcliError:
        raise
    except Pillow.DecompressionBombError as error:
        raise NotAnImage(_too_large(name)) from error
    except Exception as error:
        # Pillow raises almost anything on a damaged file.
        raise NotAnImage(f"The image {name} is damaged: save it again, or leave it out.") from error


def _too_many_bytes(name: str, size: int) -> str:
    return (
        f"The image {name} has {file_size(size)}, and {file_size(MAX_BYTES)} is the limit: make it smaller."
    )


def _too_large(name: str) -> str:
    return (
        f"The image {name} has more than {MAX_PIXELS // 1_000_000} million pixels, the "
        "limit: make it smaller."
    )


def chips(images: Iterable[Image]) -> str:
    """The chips of the images, side by side."""
    return " ".join(str(image.picture) for image in images)
