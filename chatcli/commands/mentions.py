"""Files that a message mentions as `@path`: texts are put above it, images go with it, names complete."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from chatcli import files
from chatcli.conversation import attachments, images
from chatcli.conversation.images import Image
from chatcli.errors import UsageError
from chatcli.text import clean_line, file_size

# A larger file is too long for one message.
MAX_TEXT_BYTES = 2_000_000
# Names that a folder offers for completion.
MAX_CHOICES = 200
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
# Brackets and quotes would be a decorator's arguments.
FILE_NAME = re.compile(r"[\w ./~+-]+")
# Endings that tell a file from a handle or a decorator, such as @jane.doe and @pytest.mark.slow.
FILE_ENDING = re.compile(
    rf".+\.(?:{'|'.join(LANGUAGES)}|bash|c|cfg|conf|cpp|css|csv|docx|gif|go|html|ini|ipynb|java|jpeg|jpg|json"
    "|jsonl|pdf|php|png|pptx|rst|sql|svg|swift|tex|toml|tsv|tsx|vue|webp|xlsx|xml|yaml)",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class Mention:
    """A file or folder that a message mentions: its name as it is written there, and its path."""

    name: str
    path: Path


@dataclass(frozen=True)
class ExpandedMessage:
    """What the model is sent: the message below the text files that it mentions, and its images."""

    text: str
    images: tuple[Image, ...] = ()


@dataclass(frozen=True)
class Choice:
    """A completion of a name after `@`. `size` in bytes, None for a folder."""

    text: str
    shown: str
    size: int | None


def expand(message: str, folder: Path, quoted: Iterable[str] = ()) -> ExpandedMessage:
    """The text files that `message` mentions, each in a fence below a heading, then the message unchanged.

    The files come first, so that they are prefilled while the message is still being written.

    Relative names start from `folder`. Names in `quoted` texts, such as pastes, are ignored.
    Raises `UsageError` for a folder, for a missing file, for a file that is neither text nor an image and for
    more than `MAX_TEXT_BYTES` of text, and as `images.read` does.
    """
    typed = message
    for text in quoted:
        typed = typed.replace(text, " ")
    for name, mention in _named(typed, folder):
        if mention is None and _names_file(name, folder):
            raise UsageError(
                f"There is no file @{clean_line(name)}: correct its name, or put a space after the @ to mean "
                "no file."
            )
    blocks: list[str] = []
    pictures: list[Image] = []
    for mention in find(typed, folder):
        if images.is_image(mention.path):
            pictures.append(images.read(mention.path))
        else:
            blocks.append(attachments.block(mention.name, read_text(mention), language(mention.path)))
    return ExpandedMessage("\n\n".join([*blocks, message]), tuple(pictures))


def find(message: str, folder: Path) -> list[Mention]:
    """The files and folders that `message` mentions, each once, in its order."""
    by_path: dict[Path, Mention] = {}
    for _, mention in _named(message, folder):
        if mention is not None:
            by_path.setdefault(mention.path, mention)
    return list(by_path.values())


def _named(message: str, folder: Path) -> Iterator[tuple[str, Mention | None]]:
    """The word after each `@`, and the file or folder that it names, None if there is none.

    Punctuation at its end belongs to the name only if a file or folder is called so.
    """
    for word, exact in attachments.mentioned(message):
        name = word
        for name in [word] if exact else attachments.readings(word):
            path = folder / os.path.expanduser(name)  # noqa: PTH111 (it never raises)
            if _is_file_or_folder(path):
                yield name, Mention(name, path)
                break
        else:
            yield name, None


def _names_file(name: str, folder: Path) -> bool:
    """Whether a missing name must be a file's: by its ending, or because it begins with a folder's name.

    @jane.doe, @app.route and @types/node may be a handle, a decorator and a package.
    """
    if not FILE_NAME.fullmatch(name):
        return False
    top, slash, _ = name[1:].partition("/")
    is_below = slash and _is_file_or_folder(folder / os.path.expanduser(name[0] + top))  # noqa: PTH111
    return bool(is_below or FILE_ENDING.fullmatch(name))


def _is_file_or_folder(path: Path) -> bool:
    try:
        mode = path.stat().st_mode
    except (OSError, ValueError):  # ValueError: a NUL in the name
        return False
    return stat.S_ISREG(mode) or stat.S_ISDIR(mode)


def read_text(mention: Mention) -> str:
    """The text of a file. Raises `UsageError`."""
    name, path = clean_line(mention.name), mention.path
    try:
        if path.is_dir():
            raise UsageError(
                f"@{name} is a folder: name a file in it, or put a space after the @ to mean no file."
            )
        if (size := path.stat().st_size) > MAX_TEXT_BYTES:
            raise UsageError(
                f"@{name} has {file_size(size)}, and a message takes at most {file_size(MAX_TEXT_BYTES)}: "
                "attach a part of it."
            )
        data = files.read_named(path, MAX_TEXT_BYTES)
    except OSError as error:
        raise UsageError(
            f"@{name} cannot be read ({error.strerror}): make it readable, or leave out the @."
        ) from None
    with suppress(UnicodeDecodeError):
        text = data.decode("utf-8-sig")
        if "\0" not in text:
            return text
    raise UsageError(f"@{name} is not text in UTF-8: convert it, or put a space after the @ to mean no file.")


def language(path: Path) -> str:
    """The language of a file's fence, from its suffix; empty if the suffix is not a word."""
    suffix = path.suffix.removeprefix(".").lower()
    return LANGUAGES.get(suffix, suffix if suffix.isalnum() and len(suffix) <= 10 else "")


def typed_name(before: str) -> str | None:
    """The name after the `@` that is being typed, with its opening quote; None if there is none."""
    match = TYPED_NAME.search(before)
    return match[1] if match else None


def choices(typed: str, folder: Path) -> list[Choice]:
    """Completions of a typed name, folders first. Hidden names only after a dot."""
    in_quotes = typed.startswith('"')
    head, slash, start = typed.removeprefix('"').rpartition("/")
    head += slash
    where = folder / os.path.expanduser(head)  # noqa: PTH111 (it never raises)
    # Names with their sizes in bytes, None for a folder.
    entries: list[tuple[str, int | None]] = []
    with suppress(OSError, ValueError), os.scandir(where) as listing:
        for entry in listing:
            hidden = entry.name.startswith(".") and not start.startswith(".")
            can_be_typed = entry.name.isprintable() and '"' not in entry.name
            if not hidden and can_be_typed and entry.name.lower().startswith(start.lower()):
                with suppress(OSError):
                    entries.append((entry.name, None if entry.is_dir() else entry.stat().st_size))
    entries.sort(key=lambda entry: (entry[1] is not None, entry[0]))
    offered = []
    for name, size in entries[:MAX_CHOICES]:
        shown = name if size is not None else f"{name}/"
        text = head + shown
        if in_quotes or " " in text:
            # A folder's quote stays open: a name in it may follow.
            text = f'"{text}"' if size is not None else f'"{text}'
        offered.append(Choice(text, shown, size))
    return offered


def sizes(text: str, folder: Path) -> str:
    """Every file that `text` mentions with its size; empty if it mentions none."""
    mentioned = find(text, folder) if "@" in text else []
    return " · ".join(f"@{clean_line(mention.name)} {_size(mention.path)}" for mention in mentioned)


def _size(path: Path) -> str:
    try:
        status = path.stat()
    except OSError:
        return "is gone"
    if stat.S_ISDIR(status.st_mode):
        return "is a folder"
    too_large = status.st_size > MAX_TEXT_BYTES and not images.is_image(path)
    return f"{file_size(status.st_size)}{', too large' * too_large}"
