"""The image files of saved messages, stored once each and named by content."""

from __future__ import annotations

import contextlib
import hashlib
import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import ClassVar
from weakref import WeakValueDictionary

from chatcli import files
from chatcli.conversation.images import FORMATS, MAX_BYTES, Image
from chatcli.conversation.tree import Picture
from chatcli.errors import ImagesRefused
from chatcli.files import Location

FOLDER, SCRATCH = "images", "tmp"
SHARD_NAME = re.compile("[0-9a-f]{2}")
IMAGE_NAME = re.compile(rf"([0-9a-f]{{64}})\.({'|'.join(FORMATS)})")
MEND = "Put the file back, or continue from an earlier turn: /rewind TURN."


class Gallery:
    """The images in a sessions folder, and in memory those of private conversations."""

    # By content, as long as a conversation holds them.
    in_memory: ClassVar[WeakValueDictionary[str, Image]] = WeakValueDictionary()

    def __init__(self, sessions: Path | Location) -> None:
        self.folder = Location.of(sessions) / FOLDER

    def path(self, picture: Picture) -> Location:
        """The path of an image's file."""
        return self.folder / picture.sha256[:2] / f"{picture.sha256}.{picture.kind}"

    def data(self, picture: Picture) -> bytes:
        """An image's bytes. Raises `ImagesRefused` if the file is missing or was changed."""
        path = self.path(picture)
        if (held := self.in_memory.get(picture.sha256)) is not None:
            return held.data
        try:
            data = path.read_bytes(MAX_BYTES)
        except OSError as error:
            why = error.strerror or str(error)
            raise ImagesRefused(f"{_lost(picture, path)} cannot be read: {why}. {MEND}") from None
        if hashlib.sha256(data).hexdigest() != picture.sha256:
            raise ImagesRefused(f"{_lost(picture, path)} is damaged. {MEND}")
        return data

    @contextlib.contextmanager
    def keeping(self, images: Iterable[Image]) -> Iterator[None]:
        """Write images, and block `sweep` while the block writes the message that names them.

        Raises `FolderError`.
        """
        images = list(images)
        if not images:
            yield
            return
        with contextlib.ExitStack() as held:
            with files.explained(f"save an image to {self.folder}"):
                self.folder.make_folder()
                with contextlib.suppress(OSError):
                    files.sweep(self.folder / SCRATCH)
                held.enter_context(self.folder.locked(shared=True))
                for image in images:
                    path = self.path(image.picture)
                    files.write_once(path, image.data, self.folder / SCRATCH, reserve=0)
            yield


def _lost(picture: Picture, path: Location) -> str:
    return f"The image {picture.name} of this conversation ({path})"


def sweep(sessions: Path | Location, transcripts: Callable[[], Iterable[Location]]) -> None:
    """Remove images that none of the folder's `transcripts` names. Waits for processes that add images.

    Raises `OSError`; nothing is removed if a transcript cannot be read.
    """
    folder = Location.of(sessions) / FOLDER
    if not folder.is_folder():
        return
    with folder.locked():
        named: set[str] = set()
        for path in transcripts():
            with contextlib.suppress(FileNotFoundError):
                named |= files.hashes_in(path)
        files.sweep(folder / SCRATCH)
        for shard in map(folder.__truediv__, folder.names()):
            if SHARD_NAME.fullmatch(shard.name) and shard.is_folder():
                for name in shard.names():
                    image = IMAGE_NAME.fullmatch(name)
                    if image is not None and image[1] not in named:
                        (shard / name).unlink(missing_ok=True)
                shard.flush(through=True)
