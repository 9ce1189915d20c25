"""Files that a message names as `@path`: found, completed, texts appended; knows no terminal."""

from __future__ import annotations

import os
import re
import stat
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from chatcli.conversation import attachments as attached
from chatcli.conversation import images
from chatcli.conversation.images import Image
from chatcli.errors import ChatcliError, UsageError
from chatcli.text import clean_line, file_size

# Bytes. A larger file is no context for one message.
LARGEST = 2_000_000
# Names that a folder may offer for completion.
MOST_CHOICES = 200
# Seconds until a text that could not be counted is counted again.
RETRY = 1.0
TYPED_NAME = re.compile(r'(?<![^\s(\[{])@("[^"\n]*|[^\s"]*)\Z')
LANGUAGES = {
    "cc": "cpp",
    "cs": "csharp",
    "h": "c",
    "hpp": "cpp",
    "js": "javascript",
    "kt": "kotlin",
    "log": "text",
    "md": "markdown",
    "pl": "perl",
    "py": "python",
    "pyi": "python",
    "rb": "ruby",
    "rs": "rust",
    "sh": "bash",
    "ts": "typescript",
    "txt": "text",
    "yml": "yaml",
    "zsh": "bash",
}


@dataclass(frozen=True)
class Named:
    """A file or folder that a message names, as written there and as found."""

    name: str
    path: Path


@dataclass(frozen=True)
class Attachment:
    name: str
    path: Path
    text: str


@dataclass(frozen=True)
class Expanded:
    """What the model is told, what of it came from files, and the images that it is shown."""

    text: str
    attachments: tuple[Attachment, ...] = ()
    images: tuple[Image, ...] = ()


@dataclass(frozen=True)
class Choice:
    """A completion of a name after `@`. `size` in bytes, None for a folder."""

    text: str
    shown: str
    size: int | None


def expand(message: str, folder: Path, quoted: Iterable[str] = ()) -> Expanded:
    """Each file that `message` names below a heading, in a fence, then the message as it is.

    The files come first, so that they are prefilled while the message is still being written.

    Names are looked up in `folder`, which relative ones start from. Those within `quoted` texts
    (what was pasted) name nothing. Raises `UsageError` for a folder, for what is neither text nor
    an image and for more than `LARGEST` bytes of text, and as `images.read` does.
    """
    naming = message
    for text in quoted:
        naming = naming.replace(text, " ")
    found = named(naming, folder)
    seen = {one: images.read(one.path) for one in found if images.is_image(one.path)}
    texts = [one for one in found if one not in seen]
    attachments = tuple(Attachment(one.name, one.path, read(one)) for one in texts)
    text = "\n\n".join([*map(_block, attachments), message])
    return Expanded(text, attachments, tuple(seen.values()))


def shown(message: str, folder: Path) -> tuple[Image, ...]:
    """The images alone that `message` names. Raises as `images.read` does."""
    found = (one.path for one in named(message, folder))
    return tuple(images.read(path) for path in found if images.is_image(path))


def named(message: str, folder: Path) -> list[Named]:
    """The files and folders that `message` names, each once, in its order."""
    found: dict[Path, Named] = {}
    for word, exact in attached.named(message):
        for name in [word] if exact else attached.readings(word):
            path = folder / os.path.expanduser(name)  # noqa: PTH111 (it never raises)
            if _is_there(path):
                found.setdefault(path, Named(name, path))
                break
    return list(found.values())


def _is_there(path: Path) -> bool:
    try:
        mode = path.stat().st_mode
    except (OSError, ValueError):  # ValueError: a NUL in the name
        return False
    return stat.S_ISREG(mode) or stat.S_ISDIR(mode)


def read(one: Named) -> str:
    """The text of a file. Raises `UsageError`."""
    name = clean_line(one.name)
    try:
        if one.path.is_dir():
            raise UsageError(
                f"@{name} is a folder: name a file in it, or put a space after the @ to mean no file."
            )
        _check_size(name, one.path.stat().st_size)
        data = one.path.read_bytes()
    except OSError as error:
        raise UsageError(
            f"@{name} cannot be read ({error.strerror}): make it readable, or leave out the @."
        ) from None
    _check_size(name, len(data))
    return _decoded(name, data)


def _check_size(name: str, size: int) -> None:
    if size > LARGEST:
        raise UsageError(
            f"@{name} has {file_size(size)}, and {file_size(LARGEST)} is the most that a message "
            "takes: attach a part of it."
        )


def _decoded(name: str, data: bytes) -> str:
    with suppress(UnicodeDecodeError):
        text = data.decode("utf-8-sig")
        if "\0" not in text:
            return text
    raise UsageError(f"@{name} is not text in UTF-8: convert it, or put a space after the @ to mean no file.")


def _block(one: Attachment) -> str:
    return attached.block(one.name, one.text, language(one.path))


def language(path: Path) -> str:
    """What a fence calls the language of a file, by its suffix; empty if that is no word."""
    suffix = path.suffix.removeprefix(".").lower()
    return LANGUAGES.get(suffix, suffix if suffix.isalnum() and len(suffix) <= 10 else "")


def typed_name(before: str) -> str | None:
    """What stands after the `@` that is being typed, an opening quote included; None if none is."""
    match = TYPED_NAME.search(before)
    return match[1] if match else None


def choices(typed: str, folder: Path) -> list[Choice]:
    """What may complete a typed name, folders first. Hidden names only after a dot."""
    head, slash, start = typed.removeprefix('"').rpartition("/")
    head += slash
    where = folder / os.path.expanduser(head)  # noqa: PTH111 (it never raises)
    found = sorted(_entries(where, start), key=lambda entry: (entry[1] is not None, entry[0]))
    in_quotes = typed.startswith('"')
    return [_choice(head, name, size, in_quotes) for name, size in found[:MOST_CHOICES]]


def _entries(where: Path, start: str) -> list[tuple[str, int | None]]:
    """(name, bytes or None for a folder) of what begins with `start`, in either case."""
    found: list[tuple[str, int | None]] = []
    with suppress(OSError, ValueError), os.scandir(where) as listing:
        for entry in listing:
            if _fits(entry.name, start):
                with suppress(OSError):
                    found.append((entry.name, None if entry.is_dir() else entry.stat().st_size))
    return found


def _fits(name: str, start: str) -> bool:
    shown = start.startswith(".") or not name.startswith(".")
    plain = name.isprintable() and '"' not in name
    return shown and plain and name.lower().startswith(start.lower())


def _choice(head: str, name: str, size: int | None, in_quotes: bool) -> Choice:
    shown = name if size is not None else f"{name}/"
    text = head + shown
    if in_quotes or " " in text:
        text = f'"{text}"' if size is not None else f'"{text}'
    return Choice(text, shown, size)


def _look(one: Named) -> str:
    """What to show beside an image's name."""
    try:
        picture = images.read(one.path).picture
    except ChatcliError:
        return "cannot be shown"
    return f"{picture.width}×{picture.height}"


class Sizes:
    """How many tokens each named file has, counted on a thread, once per state of the file.

    `tokens` is called on that thread. It gives None while it cannot tell; then the bytes stand in.
    """

    def __init__(self, tokens: Callable[[str], int | None]) -> None:
        self._tokens = tokens
        self._labels: dict[tuple[Path, int, int], str] = {}
        self._counting = threading.Lock()
        self._not_before = 0.0

    def line(self, text: str, folder: Path, changed: Callable[[], None]) -> str:
        """Every file that `text` names with its size; empty if it names none."""
        found = named(text, folder) if "@" in text else []
        return " · ".join(f"@{clean_line(one.name)} {self.label(one, changed)}" for one in found)

    def label(self, one: Named, changed: Callable[[], None]) -> str:
        """What to show beside a name now. `changed` is called, on a thread, when it is known better."""
        try:
            status = one.path.stat()
        except OSError:
            return "is gone"
        if stat.S_ISDIR(status.st_mode):
            return "is a folder"
        if status.st_size > LARGEST and not images.is_image(one.path):
            return f"{file_size(status.st_size)}, too large"
        key = one.path, status.st_mtime_ns, status.st_size
        if key in self._labels:
            return self._labels[key]
        self._begin(one, key, changed)
        return file_size(status.st_size)

    def _begin(self, one: Named, key: tuple[Path, int, int], changed: Callable[[], None]) -> None:
        """One file at a time; the others' turn comes when this one has been shown."""
        if time.monotonic() >= self._not_before and self._counting.acquire(blocking=False):
            threading.Thread(target=self._count, args=(one, key, changed), daemon=True).start()

    def _count(self, one: Named, key: tuple[Path, int, int], changed: Callable[[], None]) -> None:
        try:
            label = self._measure(one)
            if label is None:
                self._not_before = time.monotonic() + RETRY
            else:
                self._labels[key] = label
        finally:
            self._counting.release()
        changed()

    def _measure(self, one: Named) -> str | None:
        if images.is_image(one.path):
            return _look(one)
        try:
            text = read(one)
        except UsageError:
            return "is not text"
        try:
            count = self._tokens(text)
        except ChatcliError:
            return None
        return None if count is None else f"{count:,} token{'s'[: count != 1]}"
