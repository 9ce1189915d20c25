"""Image files that go with messages: found, looked at, decoded; refuses to know models and sessions.

Pillow is imported only where there is an image.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import io
import sys
import warnings
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from chatcli import files
from chatcli.conversation.tree import Picture
from chatcli.errors import ChatcliError, ImagesRefused, NotAnImage
from chatcli.text import clean_line, decodable, file_size

# How a file of each kind begins, and what Pillow calls the kind.
SIGNATURES = {b"\x89PNG\r\n\x1a\n": "png", b"\xff\xd8\xff": "jpg", b"GIF8": "gif"}
FORMATS = {"png": "PNG", "jpg": "JPEG", "gif": "GIF", "webp": "WEBP"}
HEAD = 16
# Bytes and pixels. No model sees more than a small part of them.
LARGEST = 25_000_000
MOST_PIXELS = 100_000_000
# Kinds that a camera writes: the others have no side up.
PHOTOGRAPHS = ("jpg", "webp")
# The tag of a photograph that says how the camera was held, and its values for on a side.
ORIENTATION = 0x0112
SIDEWAYS = (5, 6, 7, 8)
# Images that are remembered while a message that names them is being written.
REMEMBERED = 4


@dataclass(frozen=True)
class Image:
    """An image that is to go with a message, and its file's bytes."""

    picture: Picture
    data: bytes = field(repr=False, compare=False)


def kind_of(head: bytes) -> str | None:
    """What kind of image begins with these bytes; None for anything else."""
    if head.startswith(b"RIFF") and head[8:12] == b"WEBP":
        return "webp"
    return next((kind for sign, kind in SIGNATURES.items() if head.startswith(sign)), None)


def is_image(path: Path) -> bool:
    """Whether a file begins as an image does."""
    try:
        with path.open("rb") as file:
            return kind_of(file.read(HEAD)) is not None
    except OSError:
        return False


def read(path: str | Path) -> Image:
    """An image from its file. Raises `NotAnImage`, and `ImagesRefused` where there is no Pillow."""
    path = files.from_home(str(path))
    name = decodable(clean_line(path.name))
    try:
        status = path.stat()
        if status.st_size > LARGEST:
            raise NotAnImage(
                f"The image {name} has {file_size(status.st_size)}, and {file_size(LARGEST)} is the "
                "most that a message takes: make it smaller."
            )
        return _read(path.absolute(), name, status.st_mtime_ns, status.st_size)
    except OSError as error:
        raise NotAnImage(f"The image {name} cannot be read: {error.strerror}.") from None


@functools.lru_cache(REMEMBERED)
def _read(path: Path, name: str, changed: int, size: int) -> Image:
    """`changed` and `size` are those of the file as it is now. Raises `OSError` too."""
    data = path.read_bytes()
    kind = kind_of(data[:HEAD])
    if kind is None:
        raise NotAnImage(f"{name} is no image that can be read: give a PNG, JPEG, WebP or GIF file.")
    width, height = _size(name, kind, data)
    return Image(Picture(hashlib.sha256(data).hexdigest(), name, kind, width, height), data)


def _size(name: str, kind: str, data: bytes) -> tuple[int, int]:
    """Width and height as a viewer shows it."""
    with _opened(name, data) as image:
        width, height = image.size
        if width * height > MOST_PIXELS:
            raise NotAnImage(_too_large(name))
        turned = kind in PHOTOGRAPHS and image.getexif().get(ORIENTATION, 1) in SIDEWAYS
    return (height, width) if turned else (width, height)


def pixels(picture: Picture, data: bytes) -> Any:
    """The first picture of a file, upright, as a numpy array (height, width, 3) of bytes.

    Raises `NotAnImage`, and `ImagesRefused` where there is no Pillow.
    """
    import numpy as np

    with _opened(picture.name, data) as image:
        from PIL import ImageOps

        upright = ImageOps.exif_transpose(image) if picture.kind in PHOTOGRAPHS else image
        return np.asarray(upright.convert("RGB"))


@contextlib.contextmanager
def _opened(name: str, data: bytes) -> Iterator[Any]:
    """A file's bytes as Pillow has them; what is wrong with them is told in a sentence."""
    try:
        from PIL import Image as Pillow
    except ImportError as error:
        raise ImagesRefused(f"Images need Pillow: run {sys.executable} -m pip install pillow") from error
    try:
        with warnings.catch_warnings():
            # Of size there is a limit of our own.
            warnings.simplefilter("ignore")
            yield Pillow.open(io.BytesIO(data), formats=tuple(FORMATS.values()))
    except ChatcliError:
        raise
    except Pillow.DecompressionBombError as error:
        raise NotAnImage(_too_large(name)) from error
    except Exception as error:
        # Pillow raises almost anything on a damaged file.
        raise NotAnImage(f"The image {name} is damaged: save it anew, or leave it out.") from error


def _too_large(name: str) -> str:
    return (
        f"The image {name} has more than {MOST_PIXELS // 1_000_000} million pixels, the most that a "
        "message takes: make it smaller."
    )


def told(images: Iterable[Image]) -> str:
    """Their chips, side by side."""
    return " ".join(str(one.picture) for one in images)
