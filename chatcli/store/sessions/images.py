"""The image files of saved messages, each once, named by its content."""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from chatcli import files
from chatcli.conversation.images import Image
from chatcli.conversation.tree import Picture
from chatcli.errors import ImagesRefused

FOLDER, SCRATCH = "images", "tmp"
MEND = "Put it back there, or go on before it: /rewind TURN."


class Gallery:
    """The images in a sessions folder."""

    def __init__(self, sessions: Path) -> None:
        self.folder = sessions / FOLDER

    def path(self, picture: Picture) -> Path:
        """Where an image's bytes are."""
        return self.folder / picture.sha256[:2] / f"{picture.sha256}.{picture.kind}"

    def data(self, picture: Picture) -> bytes:
        """An image's bytes. Raises `ImagesRefused` if they are not there any more, or changed."""
        path = self.path(picture)
        try:
            data = path.read_bytes()
        except OSError as error:
            why = error.strerror or str(error)
            raise ImagesRefused(f"{_lost(picture, path)} cannot be read: {why}. {MEND}") from None
        if hashlib.sha256(data).hexdigest() != picture.sha256:
            raise ImagesRefused(f"{_lost(picture, path)} is damaged. {MEND}")
        return data

    @contextlib.contextmanager
    def keeping(self, images: Iterable[Image]) -> Iterator[None]:
        """Put images on disk and keep `sweep` away while the block writes the message that names them.

        Raises `FolderError`.
        """
        images = list(images)
        if not images:
            yield
            return
        with contextlib.ExitStack() as held:
            with files.explained(f"save an image to {self.folder}"):
                files.make_private(self.folder)
                with contextlib.suppress(OSError):
                    files.sweep(self.folder / SCRATCH)
                held.enter_context(files.locked_folder(self.folder, shared=True))
                for image in images:
                    path = self.path(image.picture)
                    files.write_once(path, image.data, self.folder / SCRATCH, reserve=0)
            yield


def _lost(picture: Picture, path: Path) -> str:
    return f"The image {picture.name} of this conversation ({path})"


def sweep(sessions: Path, transcripts: Callable[[], Iterable[Path]]) -> None:
    """Remove the images that none of the folder's `transcripts` names, while nobody adds one.

    Raises `OSError`; nothing is removed if a transcript cannot be read.
    """
    folder = sessions / FOLDER
    if not folder.is_dir():
        return
    with files.locked_folder(folder):
        named: set[str] = set()
        for path in transcripts():
            with contextlib.suppress(FileNotFoundError):
                named |= files.hashes_in(path)
        for path in (*files.abandoned(folder.glob(f"{SCRATCH}/*")), *folder.glob("??/*")):
            if path.stem not in named:
                path.unlink(missing_ok=True)
