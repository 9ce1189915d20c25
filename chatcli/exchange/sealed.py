"""Sealed conversations: a conversation's words, images and checkpoints in one file.

FORMAT.md describes the format, a safetensors file. Nothing here needs MLX. A file may come from anyone, so
all of it is checked before any byte goes into the store.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import stat
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
import xxhash

from chatcli import files, records
from chatcli.conversation.images import MAX_BYTES, Image
from chatcli.conversation.tree import Conversation, Entry
from chatcli.errors import FolderError, ImagesRefused, NotImportable, SegmentDamaged, SessionError, UsageError
from chatcli.exchange import export, importing
from chatcli.exchange.importing import Imported
from chatcli.files import Location, Streamed
from chatcli.store import maintenance
from chatcli.store.segments import catalog, eviction, inventory
from chatcli.store.segments.container import (
    PREFIX,
    Container,
    Tensor,
    TensorInfo,
    file_order,
    header,
)
from chatcli.store.segments.joining import segments_between
from chatcli.store.segments.rows import Piece, Rows, prefill_seconds
from chatcli.store.segments.segments import set_aside
from chatcli.store.segments.token_path import root_id
from chatcli.store.sessions import marker
from chatcli.store.sessions.folder import SessionFile, SessionFolder
from chatcli.store.sessions.images import Gallery
from chatcli.store.sessions.log import SessionLog
from chatcli.store.sessions.transcript import Transcript, encode, header_line, parse
from chatcli.text import clean_line, file_size

FORMAT, VERSION = "chatcli-sealed", "1"
WORDS, IMAGES, SEGMENTS = "words", "images/", "kv/"
# The largest header: enough for more than a hundred thousand arrays.
MAX_HEADER_BYTES = 32 << 20
# The metadata that a segment may have. Its checksums are recomputed from the header's.
KEYS = {"format", "version", "kind", "fingerprint", "id", "parent", "start", "end", "seconds", "created"}
KEYS |= {"ends", "cuts", "scalars"}
# An adapter's path is meaningless on another machine, and a file must not make chatcli read a folder.
LOCAL_OPTIONS = ("adapter_path",)

# Called with the number of bytes done and the total.
Progress = Callable[[int, int], None]


def no_progress(done: int, total: int) -> None:
    """Report no progress."""


# Sealing


class _Lines(SessionLog):
    """A session whose lines stay in memory."""

    def __init__(self, before: Conversation) -> None:
        line = header_line(before.date, before.model, before.system)
        super().__init__(Transcript("", Conversation(before.date, before.system, before.model)))
        self.lines = [encode(line)]

    def write(self, line: Mapping[str, Any], *, wait: bool = True, flush: bool = True) -> None:
        self.lines.append(encode(line))


@dataclass(frozen=True, eq=False)
class _Source:
    """A file of segments: its metadata and its tensors, stored at `path`, or in memory if None."""

    metadata: Mapping[str, str]
    tensors: Mapping[str, Tensor | TensorInfo]
    path: Location | None = None


def seal(
    folder: SessionFolder,
    name: str,
    conversation: Conversation,
    *,
    branches: bool = False,
    progress: Progress = no_progress,
) -> Streamed:
    """A conversation with the checkpoints of its path, or of all `branches`, as the content of a file.

    The content is read from the store while it is written. Writing it raises `SegmentDamaged` if a checkpoint
    is missing or damaged (which is then set aside): seal again, without it. Raises `OSError`.
    """
    portable = _without_local_options(conversation)
    lines = _Lines(portable)
    lines.fill(portable)
    words = np.frombuffer(b"".join(lines.lines), np.uint8)
    sources = [_Source({}, {WORDS: Tensor.of(words)})]
    gallery = Gallery(folder.location)
    for picture in _pictures(conversation).values():
        with contextlib.suppress(ImagesRefused):  # an image that is lost is only named
            data = np.frombuffer(gallery.data(picture), np.uint8)
            sources.append(_Source({}, {f"{IMAGES}{picture.sha256}": Tensor.of(data)}))
    entries = list(conversation.entries.values()) if branches else conversation.path()
    segments = list(_segments(folder.location, entries, branches=branches))
    for number, source in enumerate(segments):
        tensors = {f"{SEGMENTS}{number:06}/{key}": tensor for key, tensor in source.tensors.items()}
        sources.append(replace(source, tensors=tensors))
    newest = _newest_record(conversation.path())
    metadata = {
        "format": FORMAT,
        "version": VERSION,
        "name": name,
        "model": str(newest.get("model") or conversation.model or ""),
        "program": newest.get("program", ""),
        "segments": json.dumps([dict(source.metadata) for source in segments]),
    }
    of = {key: source for source in sources for key in source.tensors}
    tensors = {key: source.tensors[key] for key, source in of.items()}
    top = header(tensors, metadata, {key: _sum(tensor) for key, tensor in tensors.items()})
    if len(top) > MAX_HEADER_BYTES:
        raise UsageError("This conversation has too many checkpoints for one file: leave out --branches.")
    total = len(top) + sum(map(_bytes_of, tensors.values()))

    def parts() -> Iterator[bytes | memoryview]:
        done = len(top)
        yield top
        for source, keys in groupby(file_order(tensors), of.__getitem__):
            for chunk in _chunks(source, list(keys)):
                yield chunk
                done += len(chunk)
                progress(done, total)

    return Streamed(total, parts)


def _without_local_options(conversation: Conversation) -> Conversation:
    options = {k: v for k, v in conversation.model_options.items() if k not in LOCAL_OPTIONS}
    return replace(conversation, model_options=options)


def _pictures(conversation: Conversation) -> dict[str, Any]:
    """The images of all messages, by the digests of their files."""
    entries = conversation.entries.values()
    return {picture.sha256: picture for entry in entries for picture in entry.message.images}


def _newest_record(entries: Sequence[Entry]) -> records.ReplyRecord:
    """The record of the last reply that has checkpoints; empty if none has."""
    own = (entry.record for entry in reversed(entries) if entry.record.get("segments"))
    return next(own, records.ReplyRecord())


def _ids(entries: Collection[Entry]) -> set[str]:
    """The segments that replies name."""
    named = (entry.record for entry in entries)
    return {name for each in named for name in (*each.get("segments", ()), *each.get("reply_segments", ()))}


def _segments(sessions: Location, entries: Sequence[Entry], *, branches: bool) -> Iterator[_Source]:
    """The files of the segments that these replies name, each once; of all models only with `branches`."""
    wanted = _ids(entries)
    last = _newest_record(entries)
    used = [entry.record for entry in entries] if branches else [last]
    models = {each.get("settled_by", each.get("fingerprint")) for each in used} | {
        each.get("fingerprint") for each in used if branches
    }
    for fingerprint in sorted(model for model in models if model is not None):
        folder = catalog.model_folder(sessions, fingerprint)
        held = {root_id(fingerprint)}
        for item in sorted(_items(folder, wanted), key=lambda item: (item.start, -len(item.ids))):
            keep = next((n for n, name in enumerate(item.ids) if name not in wanted), len(item.ids))
            skip = next((n for n, name in enumerate(item.ids[:keep]) if name not in held), keep)
            if (item.parent if not skip else item.ids[skip - 1]) not in held or skip == keep:
                continue
            held.update(item.ids[:keep])
            with Container(item.path) as file:
                if (skip, keep) == (0, len(item.ids)):
                    yield _Source(file.metadata, file.tensors, item.path)
                else:  # its other segments belong to another conversation or come from another file
                    tensors, metadata = segments_between(file, keep, skip)
                    yield _Source(metadata, tensors)
        for name in sorted(held):
            path = catalog.state_path(folder, name)
            with contextlib.suppress(OSError, SegmentDamaged), Container(path) as file:
                yield _Source(file.metadata, file.tensors, path)


def _items(folder: Location, wanted: Collection[str]) -> Iterator[inventory.Item]:
    """The undamaged rows files that begin with a wanted segment."""
    digits = {name[: catalog.NAME_DIGITS] for name in wanted}
    for path in catalog.rows_files(folder):
        parts = catalog.ROWS_NAME.fullmatch(path.name)
        if parts is not None and parts[2] in digits:
            with contextlib.suppress(OSError, SegmentDamaged):
                yield inventory.read_rows(path)


def _sum(tensor: Tensor | TensorInfo) -> str:
    return tensor.sum if isinstance(tensor, TensorInfo) else xxhash.xxh3_64_hexdigest(tensor.raw().data)


def _bytes_of(tensor: Tensor | TensorInfo) -> int:
    return tensor.length if isinstance(tensor, TensorInfo) else len(tensor.raw())


def _chunks(source: _Source, keys: Sequence[str]) -> Iterator[bytes | memoryview]:
    """The checked bytes of a source's tensors. Sets a damaged file aside and raises `SegmentDamaged`."""
    if source.path is None:
        for key in keys:
            tensor = source.tensors[key]
            assert isinstance(tensor, Tensor)
            yield tensor.raw().data
        return
    try:
        with Container(source.path) as file:
            if list(file.tensors.values()) != list(source.tensors.values()):
                raise SegmentDamaged("it changed")
            for key in keys:
                yield from file.chunks(key.split("/", 2)[2])
    except FileNotFoundError as error:
        raise SegmentDamaged("it is gone") from error
    except SegmentDamaged as error:
        set_aside(source.path)
        if source.path.exists():
            raise FolderError(f"The checkpoint {source.path} is damaged and cannot be set aside.") from error
        raise


def write(
    path: Path,
    folder: SessionFolder,
    name: str,
    conversation: Conversation,
    *,
    branches: bool = False,
    force: bool = False,
    progress: Progress = no_progress,
) -> None:
    """`seal` into a file, like `export.write`. Raises `FolderError` or `UsageError`."""
    while True:
        with files.explained(f"seal the session '{name}'"):
            content = seal(folder, name, conversation, branches=branches, progress=progress)
        with contextlib.suppress(SegmentDamaged):  # the file was set aside or is gone: try again without it
            export.write(path, content, force=force)
            return


# Reading


@dataclass(frozen=True)
class Sealed:
    """An open sealed conversation: its words, the model and program that computed it, and its segments."""

    transcript: Transcript
    model: str
    program: str
    images: Mapping[str, TensorInfo]
    segments: Sequence[Container]
    file: Container

    @property
    def tokens(self) -> int:
        """The number of tokens of the longest path with checkpoints."""
        return max((int(part.metadata["end"]) for part in self.segments), default=0)

    @property
    def seconds(self) -> float:
        """How long the prefill of its checkpoints took."""
        return sum(prefill_seconds(part.metadata) for part in self.segments if _is_rows(part))

    @property
    def bytes(self) -> int:
        """The size of its checkpoints."""
        return sum(info.length for part in self.segments for info in part.tensors.values())

    @property
    def foreign_reason(self) -> str | None:
        """Why no model here can use the checkpoints; None if one may, as far as is known without loading."""
        here = records.program()
        if not self.segments or not self.program or self.program.startswith(here):
            return None
        took = f", which took {self.seconds:,.0f} s there" if self.seconds >= 1 else ""
        return (
            f"It was made with {clean_line(self.model)} on {clean_line(self.program)}; this is {here}: "
            f"{self.tokens:,} tokens will be prefilled again{took}."
        )

    def about(self) -> dict[str, Any]:
        """Facts about it, other than its words."""
        return {
            "model": self.model,
            "program": self.program,
            "tokens": self.tokens,
            "segments": sum(len(catalog.segment_ends(part)) for part in self.segments if _is_rows(part)),
            "bytes": self.bytes,
            "note": self.foreign_reason,
        }


def _is_rows(part: Container) -> bool:
    return part.metadata.get("kind") == "rows"


@contextlib.contextmanager
def opened(path: Path) -> Iterator[Sealed]:
    """Open a sealed conversation, checking its header and its words. Raises `NotImportable` and `OSError`."""
    try:
        with contextlib.closing(_container(path)) as file:
            yield _sealed(file)
    except SegmentDamaged as error:
        raise NotImportable(f"{path} is not a sealed conversation, or is damaged: {error}.") from error


def _container(path: Path) -> Container:
    with files.open_named(path) as file:
        facts = os.fstat(file.fileno())
        if not stat.S_ISREG(facts.st_mode):
            raise SegmentDamaged(files.NO_FILE)
        if int.from_bytes(file.read(PREFIX), "little") > MAX_HEADER_BYTES:
            raise SegmentDamaged("its header is too long")
        return Container(Location.of_file(path.resolve()), os.dup(file.fileno()))


def _sealed(file: Container) -> Sealed:
    metadata = file.metadata
    if metadata.get("format") != FORMAT:
        raise SegmentDamaged("it has a different format")
    if not metadata["version"].isdecimal() or int(metadata["version"][:9]) > int(VERSION):
        raise NotImportable("This was sealed by a newer chatcli: upgrade chatcli to import it.")
    if WORDS not in file.tensors or file.tensors[WORDS].length > files.MAX_IMPORT_BYTES:
        raise SegmentDamaged("its messages are missing or too large")
    name = importing.safe_name(metadata.get("name", ""))
    try:
        transcript = parse(name, file.read(WORDS).raw().tobytes())
    except SessionError as error:
        raise NotImportable(str(error)) from error
    conversation = _without_local_options(transcript.conversation)
    if transcript.problems or transcript.interrupted or not conversation.entries:
        raise SegmentDamaged("; ".join(transcript.problems[:1]) or "it has no messages")
    for entry in conversation.entries.values():
        if not importing.ID.fullmatch(entry.id):
            raise SegmentDamaged("a message has an invalid id")
    parts = _parts(file)
    images = {key.removeprefix(IMAGES): info for key, info in file.tensors.items() if key.startswith(IMAGES)}
    used = 1 + len(images) + sum(len(part.tensors) for part in parts)
    too_large = any(info.length > MAX_BYTES for info in images.values())
    if used != len(file.tensors) or not images.keys() <= _pictures(conversation).keys() or too_large:
        raise SegmentDamaged("it holds data that no message names")
    _check_segments(parts, _ids(conversation.entries.values()))
    transcript = replace(transcript, conversation=conversation)
    return Sealed(transcript, metadata["model"], metadata["program"], images, parts, file)


def _parts(file: Container) -> list[Container]:
    """The files of segments in it. Raises `SegmentDamaged`."""
    try:
        each = json.loads(file.metadata["segments"])
    except (ValueError, RecursionError) as error:
        raise SegmentDamaged("its list of segments is missing or invalid") from error
    if not isinstance(each, list):
        raise SegmentDamaged("its list of segments is missing or invalid")
    named: dict[str, dict[str, TensorInfo]] = {}
    for key, info in file.tensors.items():
        if (match := re.fullmatch(r"kv/(\d{6})/(.+)", key, re.ASCII)) is not None:
            named.setdefault(match[1], {})[match[2]] = info
    parts = []
    for number, metadata in enumerate(each):
        is_text = isinstance(metadata, dict) and metadata.keys() <= KEYS
        if not is_text or not all(isinstance(value, str) for value in metadata.values()):
            raise SegmentDamaged("a segment's metadata is invalid")
        parts.append(file.part(named.pop(f"{number:06}", {}), metadata))
    return parts


def _check_segments(parts: Sequence[Container], named: set[str]) -> None:
    """Check that each is a segment of this conversation, has its own id, occurs once, and follows another.

    Raises `SegmentDamaged`.
    """
    # Where each segment ends, by model and id.
    ends: dict[tuple[str, str], int] = {}
    rows: dict[str, list[Piece]] = {}
    starts: list[tuple[str, str, int]] = []
    for part in parts:
        fingerprint = part.metadata["fingerprint"]
        if not inventory.MODEL_NAME.fullmatch(fingerprint):
            raise SegmentDamaged("a fingerprint is invalid")
        inventory.name_of(part, fingerprint)
        if not _is_rows(part):
            continue
        ids, own_ends = catalog.segment_ids(part), catalog.segment_ends(part)
        keys = [(fingerprint, name) for name in ids]
        if (
            not ends.keys().isdisjoint(keys)
            or not named >= set(ids)
            or str(own_ends[-1]) != part.metadata["end"]
        ):
            raise SegmentDamaged("a segment occurs twice, or does not belong to this conversation")
        starts.append((fingerprint, part.metadata["parent"], int(part.metadata["start"])))
        ends.update(zip(keys, own_ends, strict=True))
        length = own_ends[-1] - starts[-1][2]
        rows.setdefault(fingerprint, []).append(Piece(part, length, length))
    for fingerprint, parent, start in starts:
        if ends.get((fingerprint, parent), 0 if parent == root_id(fingerprint) else None) != start:
            raise SegmentDamaged("a segment's parent is missing")
    states = [part.metadata for part in parts if not _is_rows(part)]
    for metadata in states:
        if str(ends.pop((metadata["fingerprint"], metadata["id"]), None)) != metadata["end"]:
            raise SegmentDamaged("a state occurs twice, or belongs to no segment")
    for pieces in rows.values():
        Rows(pieces)


# Importing


def unpack(
    folder: SessionFolder,
    sealed: Sealed,
    name: str | None = None,
    *,
    limit: int,
    checkpoints: bool = True,
    progress: Progress = no_progress,
) -> SessionFile:
    """Put the segments into the store, then the words into a new session; neither if an error occurs.

    Every byte is read and checked first. Imports only the words without `checkpoints`, or if this machine
    cannot use them. Raises `NotImportable`, also if the segments take more than `limit` bytes, and whatever
    `importing.save` raises.
    """
    folder_of = folder.location
    parts = sealed.segments if checkpoints and sealed.foreign_reason is None else ()
    size = sum(info.length for part in parts for info in part.tensors.values())
    if size > limit:
        raise NotImportable(
            f"Its checkpoints take {file_size(size)}, but the limit for all checkpoints is "
            f"{file_size(limit)}: raise it with --cache-limit, or import only the words with --no-cache."
        )
    images = []
    written: list[Location] = []
    try:
        pictures = _pictures(sealed.transcript.conversation)
        for sha256, info in sealed.images.items():
            data = sealed.file.read(f"{IMAGES}{sha256}").raw().tobytes()
            if hashlib.sha256(data).hexdigest() != sha256 or len(data) != info.length:
                raise SegmentDamaged("an image does not match its digest")
            images.append(Image(pictures[sha256], data))
        done = 0
        for part in parts:
            for key in part.tensors:
                for chunk in part.chunks(key):
                    progress(done := done + len(chunk), 2 * size)
        marker.claim(folder_of)
        for part in parts:
            fingerprint = part.metadata["fingerprint"]
            model, file_name = (
                catalog.model_folder(folder_of, fingerprint),
                inventory.name_of(part, fingerprint),
            )
            target = model / file_name[:2] / file_name
            with files.explained(f"write to the sessions folder {folder.folder}"):
                if files.write_once(target, _content(part), model / inventory.TEMPORARY):
                    written.append(target)
            progress(done := done + sum(info.length for info in part.tensors.values()), 2 * size)
        imported = Imported(sealed.transcript.conversation, sealed.transcript.name or None, tuple(images))
        session = importing.save(folder, imported, name)
    except BaseException:
        for target in written:
            with contextlib.suppress(OSError):
                target.unlink(missing_ok=True)
        raise
    with contextlib.suppress(OSError):
        ids = _ids(session.conversation.entries.values()) | maintenance.open_segments(folder_of)
        eviction.remove(eviction.over_limit(folder_of, limit, ids))
    return session


def _content(part: Container) -> Streamed:
    """A segment's own file."""
    sums = {key: info.sum for key, info in part.tensors.items()}
    top = header(part.tensors, part.metadata, sums)

    def parts() -> Iterator[bytes | memoryview]:
        yield top
        for key in file_order(part.tensors):
            yield from part.chunks(key)

    return Streamed(len(top) + sum(info.length for info in part.tensors.values()), parts)
