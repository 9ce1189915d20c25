"""Checks the sessions folder: its disk, locks, and contents. Leaves no file there."""

from __future__ import annotations

import os
import shutil
import uuid
from collections.abc import Iterator
from pathlib import Path

from chatcli import files
from chatcli.doctor.finding import Finding, advice, ok, problem
from chatcli.store import maintenance
from chatcli.store.segments import budget, inventory
from chatcli.store.sessions.folder import SessionFolder
from chatcli.text import count, file_size

LITTLE_ROOM_BYTES = 10**9
NEARLY_FULL_SHARE = 0.9
FIX_FOLDER = "fix its permissions or choose another with --sessions DIR."


def folder(path: Path) -> Iterator[Finding]:
    """Whether sessions can be saved there, and its disk."""
    # The folder, or its nearest parent that exists and can be read.
    existing = next(each for each in (path, *path.absolute().parents) if os.access(each, os.F_OK))
    is_usable = existing.is_dir() and os.access(existing, os.R_OK | os.W_OK | os.X_OK)
    value = str(path) if existing == path else f"{path} (not there yet: the first chat creates it)"
    if is_usable:
        yield ok("folder", value, path=str(path))
    elif existing != path:
        todo = f"{existing} does not allow creating it: {FIX_FOLDER}"
        yield problem("folder", f"{path} does not exist", todo, path=str(path))
    elif path.is_dir():
        yield problem("folder", value, f"It cannot be read and written: {FIX_FOLDER}", path=str(path))
    else:
        todo = "It is not a folder: choose one with --sessions DIR."
        yield problem("folder", value, todo, path=str(path))
    usage = shutil.disk_usage(existing)
    value, data = f"{file_size(usage.free)} free of {file_size(usage.total)}", {"free_bytes": usage.free}
    if usage.free < files.RESERVE:
        yield problem("disk", value, "Free some space: no checkpoint can be written.", **data)
    elif usage.free < LITTLE_ROOM_BYTES:
        yield advice("disk", value, "Free some space: long conversations need a few gigabytes.", **data)
    else:
        yield ok("disk", value, **data)
    if is_usable:
        yield locks(existing)


def locks(existing: Path) -> Finding:
    """Whether a file lock works against other processes, as sessions need."""
    # Named like an unfinished file, so that it is removed later if this process is killed.
    scratch = existing / f".{uuid.uuid4().hex}{files.UNNAMED}"
    todo = "Two programs in this folder could overwrite each other: " + FIX_FOLDER
    descriptor = os.open(scratch, os.O_RDWR | os.O_CREAT | os.O_EXCL, files.PRIVATE_FILE)
    try:
        files.lock(descriptor, wait=False)
        held = files.is_locked(files.Location.of_file(scratch))
    except OSError as error:
        return problem("file locks", f"refused: {error.strerror}", todo)
    finally:
        os.close(descriptor)
        scratch.unlink(missing_ok=True)
    return ok("file locks", "work") if held else problem("file locks", "do not work", todo)


def sessions(folder: SessionFolder, whole: bool) -> Iterator[Finding]:
    """Every transcript, parsed if `whole`, else opened. Raises `FolderError`."""
    summaries = [] if whole else folder.summaries()
    opened = [summary.problem for summary in summaries if summary.problem]
    damaged = maintenance.damaged_transcripts(folder) if whole else opened
    number = folder.count()
    if damaged:
        value = f"{number:,}; damage in {count('place', len(damaged))}"
        todo = f"The first: {damaged[0]} To see each: {folder.command('cache verify')}"
        yield problem("sessions", value, todo, sessions=number, damaged=damaged)
    else:
        value = f"{number:,}. To check every checkpoint too: {folder.command('cache verify')}"
        yield ok("sessions", value if number else "none yet", sessions=number)


def checkpoints(sessions: SessionFolder, limit_bytes: int | None) -> Iterator[Finding]:
    """Their disk use, its limit, and the number of models. Raises `OSError`."""
    folder = sessions.folder
    if (folder / "kv").exists() and not (folder / "kv").is_dir():
        todo = "Move that file away: nothing can be saved until then."
        yield problem("checkpoints", f"{folder / 'kv'} is not a folder", todo)
        return
    limit_bytes = budget.limit_or_default(limit_bytes, folder)
    usages = inventory.usage(folder)
    used, segments = sum(each.bytes for each in usages), sum(each.segments for each in usages)
    value = (
        f"{file_size(used)} of at most {file_size(limit_bytes)}: "
        f"{count('segment', segments)} for {count('model', len(usages))}"
    )
    full = used > NEARLY_FULL_SHARE * limit_bytes
    todo = "The least useful are evicted first. To keep more: chatcli config cache_limit SIZE" if full else ""
    data = {"bytes": used, "limit_bytes": limit_bytes, "segments": segments, "models": len(usages)}
    yield Finding("checkpoints", "advice" if full else "ok", value, todo, data)
