"""Checks the disk of the sessions folder: room, file system, locks, speed. Leaves no file there."""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import shutil
import statistics
import tempfile
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

from chatcli import files
from chatcli.doctor import child
from chatcli.doctor.finding import Finding, advice, ok, problem
from chatcli.text import file_size

MIB = 1 << 20
BYTES_PER_FLUSH = 8 * MIB
MAX_WRITE_SECONDS = 5.0
FLUSH_COUNT, FLUSH_BYTES = 5, 4096
# Below this, and for a flush that takes longer, there is advice.
SLOW_BYTES_PER_SECOND, SLOW_FLUSH_SECONDS = 100 * 10**6, 0.05
CHECKPOINT_BYTES = 10**9
LITTLE_ROOM_BYTES = 10**9
NETWORK = re.compile(
    r"nfs\d?|cifs|smb\w*|afpfs|webdav|9p|afs|ceph|glusterfs|lustre|gpfs|beegfs|vboxsf|virtiofs"
    r"|prl_fs|fuse\.(sshfs|s3fs|rclone|gcsfuse|glusterfs|davfs)|davfs2?"
)
IN_MEMORY = ("tmpfs", "ramfs")
# A line of /proc/mounts, and one of what `mount` prints on macOS.
LINUX_MOUNT = re.compile(r"\S+ (\S+) (\S+) .*")
MAC_MOUNT = re.compile(r".+? on (.+) \((\w+).*\)")
FIX_FOLDER = "fix its permissions or choose another with --sessions DIR."


def nearest_existing(folder: Path) -> Path:
    """The folder, or the nearest above it that exists and can be looked at."""
    for path in (folder, *folder.absolute().parents):
        with contextlib.suppress(OSError):
            path.stat()
            return path
    return Path("/")


def readable(folder: Path) -> bool:
    """Whether the folder can be listed, or is known not to exist."""
    existing = nearest_existing(folder)
    return existing.is_dir() and os.access(existing, os.X_OK | (os.R_OK if existing == folder else 0))


def usable(folder: Path) -> bool:
    """Whether files can be made in it, or the folder itself."""
    existing = nearest_existing(folder)
    return existing.is_dir() and os.access(existing, os.R_OK | os.W_OK | os.X_OK)


def folder(path: Path) -> Iterator[Finding]:
    """Whether sessions can be kept there."""
    existing = nearest_existing(path)
    if existing != path:
        if usable(path):
            yield ok("folder", f"{path} (not there yet: the first chat creates it)", path=str(path))
        else:
            todo = f"{existing} does not allow creating it: {FIX_FOLDER}"
            yield problem("folder", f"{path} is not there", todo, path=str(path))
    elif usable(path):
        yield ok("folder", str(path), path=str(path))
    elif path.is_dir():
        todo = f"It cannot be read and written: {FIX_FOLDER}"
        yield problem("folder", str(path), todo, path=str(path))
    else:
        todo = "It is not a folder: choose one with --sessions DIR."
        yield problem("folder", str(path), todo, path=str(path))


def room(path: Path) -> Iterator[Finding]:
    """What is free on the disk for this user."""
    usage = shutil.disk_usage(nearest_existing(path))
    value = f"{file_size(usage.free)} free of {file_size(usage.total)}"
    data = {"free_bytes": usage.free, "total_bytes": usage.total}
    if usage.free < files.RESERVE:
        yield problem("disk", value, "Free some space: no checkpoint can be written.", **data)
    elif usage.free < LITTLE_ROOM_BYTES:
        yield advice("disk", value, "Free some space: long conversations need a few gigabytes.", **data)
    else:
        yield ok("disk", value, **data)


def file_system(path: Path) -> Iterator[Finding]:
    """Its kind, where the system knows."""
    kind = kind_at(nearest_existing(path).resolve(), mounts())
    if kind is None:
        yield ok("file system", "not known")
    elif NETWORK.fullmatch(kind):
        todo = "Checkpoints load faster from a local disk: choose one with --sessions DIR."
        yield advice("file system", f"{kind}, on the network or another machine", todo, kind=kind)
    elif kind in IN_MEMORY:
        todo = "Conversations there are lost at a restart: choose a disk with --sessions DIR."
        yield advice("file system", f"{kind}, in memory", todo, kind=kind)
    else:
        yield ok("file system", kind, kind=kind)


def mounts() -> list[tuple[str, str]]:
    """(mount point, kind) of each file system, in the order in which they were mounted."""
    try:
        text, line = Path("/proc/mounts").read_text(errors="surrogateescape"), LINUX_MOUNT
    except OSError:
        try:
            text, line = child.output(["/sbin/mount"], 5), MAC_MOUNT
        except child.ChildFailed:
            return []
    matches = filter(None, map(line.fullmatch, text.splitlines()))
    return [(_unescaped(match[1]), match[2]) for match in matches]


def _unescaped(path: str) -> str:
    """Blanks and the like are octal in /proc/mounts."""
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), path)


def kind_at(path: Path, mounted: list[tuple[str, str]]) -> str | None:
    """The kind of the file system that holds `path`: the innermost, and the last mounted there."""
    holding = [
        (len(Path(mount).parts), number, kind)
        for number, (mount, kind) in enumerate(mounted)
        if path.is_relative_to(mount)
    ]
    return max(holding)[2] if holding else None


def locks(path: Path) -> Iterator[Finding]:
    """Whether a lock keeps other processes away, as sessions need it."""
    # Named as what a killed process leaves, so that it is swept if this one is killed.
    scratch = nearest_existing(path) / f".{uuid.uuid4().hex}{files.UNNAMED}"
    todo = "Two programs in this folder could overwrite each other: " + FIX_FOLDER
    descriptor = os.open(scratch, os.O_RDWR | os.O_CREAT | os.O_EXCL, files.PRIVATE_FILE)
    try:
        files.lock(descriptor, wait=False)
        held = files.is_locked(files.Location.of_file(scratch))
    except OSError as error:
        yield problem("file locks", f"refused: {error.strerror}", todo)
        return
    finally:
        os.close(descriptor)
        scratch.unlink(missing_ok=True)
    yield ok("file locks", "work") if held else problem("file locks", "do not work", todo)


def speed(path: Path, size: int) -> Iterator[Finding]:
    """Write, flush and read back about `size` bytes; then how long a small flush takes."""
    existing = nearest_existing(path)
    if shutil.disk_usage(existing).free < size + files.RESERVE:
        yield advice("speed", "not measured", "Free some space: there is too little to measure with.")
        return
    # The file has no name, so none stays whatever happens.
    with tempfile.TemporaryFile(dir=existing, buffering=0) as file:
        written, write_seconds = _write(file.fileno(), size)
        read_seconds = _read(file.fileno(), written)
        flush = _flush_seconds(file.fileno())
    yield _throughput(written / write_seconds, written / read_seconds)
    yield _latency(flush)


def _write(descriptor: int, size: int) -> tuple[int, float]:
    """Returns bytes written and flushed, and the seconds; ends early on a very slow disk."""
    _uncached(descriptor)
    piece, written = os.urandom(MIB), 0
    began = time.perf_counter()
    while written < size and time.perf_counter() - began < MAX_WRITE_SECONDS:
        for _ in range(BYTES_PER_FLUSH // MIB):
            written += os.write(descriptor, piece)
        os.fsync(descriptor)
    return written, time.perf_counter() - began


def _read(descriptor: int, size: int) -> float:
    """Seconds to read it back, from the disk where the system can be told so."""
    if hasattr(os, "posix_fadvise"):
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    began = time.perf_counter()
    for at in range(0, size, MIB):
        os.pread(descriptor, MIB, at)
    return time.perf_counter() - began


def _uncached(descriptor: int) -> None:
    """Have macOS keep no copy in memory."""
    if hasattr(fcntl, "F_NOCACHE"):
        with contextlib.suppress(OSError):
            fcntl.fcntl(descriptor, fcntl.F_NOCACHE, 1)


def _flush_seconds(descriptor: int) -> float:
    """The median time of a flush after a small write, as each message needs one."""
    times = []
    for _ in range(FLUSH_COUNT):
        os.write(descriptor, os.urandom(FLUSH_BYTES))
        began = time.perf_counter()
        os.fsync(descriptor)
        times.append(time.perf_counter() - began)
    return statistics.median(times)


def _throughput(write: float, read: float) -> Finding:
    """Both in bytes a second."""
    back = f"a checkpoint of 1 GB loads in about {_seconds(CHECKPOINT_BYTES / read)}"
    value = f"write {file_size(int(write))}/s, read {file_size(int(read))}/s: {back}"
    data = {"write_bytes_per_second": write, "read_bytes_per_second": read}
    if min(write, read) < SLOW_BYTES_PER_SECOND:
        return advice("speed", value, "That is slow: choose a faster disk with --sessions DIR.", **data)
    return ok("speed", value, **data)


def _seconds(count: float) -> str:
    return f"{count:.1f} s" if count < 10 else f"{count:.0f} s"


def _latency(flush: float) -> Finding:
    value = f"{1000 * flush:.1f} ms (each message waits for one)"
    if flush > SLOW_FLUSH_SECONDS:
        todo = "That is slow: choose a faster disk with --sessions DIR."
        return advice("flush", value, todo, flush_seconds=flush)
    return ok("flush", value, flush_seconds=flush)
