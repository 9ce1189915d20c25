"""Downloads a model's files from the hub into its cache: the child process that `hub.download` runs.

A process can be killed at any instant, even in a read that hangs. It writes JSON lines to standard output:
the progress, then the folder or an error of one sentence. It exits when its standard input is closed.
huggingface_hub cannot resume a file, so large files are downloaded here, under stable names.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import sys
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from huggingface_hub import HfApi, constants, get_token, hf_hub_url, snapshot_download
from huggingface_hub.errors import (
    GatedRepoError,
    HfHubHTTPError,
    HFValidationError,
    LocalEntryNotFoundError,
    OfflineModeIsEnabled,
    RepositoryNotFoundError,
)
from huggingface_hub.file_download import http_get, repo_folder_name

from chatcli import files
from chatcli.errors import ModelNotFound
from chatcli.model import hub
from chatcli.model.hub import FILE_PATTERNS, answer_seconds
from chatcli.settings.values import EXAMPLE_MODEL
from chatcli.text import file_size

REPORT_SECONDS = 0.2
PARALLEL_FILES = 4
# With the hub's own chunks of 10 MB a slow connection would report no progress for a long time.
CHUNK_BYTES = 1 << 20
SHA256 = re.compile("[0-9a-f]{64}")
# The base class of network errors in httpx or httpx2, whichever huggingface_hub uses.
NETWORK_ERROR: Any = HfHubHTTPError.__bases__[0]
LOG_IN = f"log in with: hf auth login (a token is made at {constants.ENDPOINT}/settings/tokens)"


class DownloadRefused(Exception):
    """The model cannot be downloaded: one sentence that says why, and what to do."""


@dataclass(frozen=True)
class LargeFile:
    """A file that the hub stores by the SHA-256 of its bytes, which is its name in the cache's `blobs`."""

    name: str
    sha256: str
    size: int

    def blob(self, folder: Path) -> Path:
        return folder / "blobs" / self.sha256

    def part(self, folder: Path) -> Path:
        """Where the file is while it is incomplete."""
        return folder / "blobs" / f"{self.sha256}.incomplete"

    def bytes_here(self, folder: Path) -> int:
        # In this order, because the file may be renamed in between.
        for path in (self.part(folder), self.blob(folder)):
            if path.is_file():
                return min(path.stat().st_size, self.size)
        return 0


@contextmanager
def reporting(files: Sequence[LargeFile], folder: Path, total: int) -> Iterator[None]:
    """While the block runs, report the bytes of large files that have arrived. `total` counts all files."""
    closed = threading.Event()

    def report() -> None:
        send(done=sum(file.bytes_here(folder) for file in files), total=total, files=len(files))

    def run() -> None:
        while not closed.wait(REPORT_SECONDS):
            report()

    report()
    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        yield
    finally:
        closed.set()
        thread.join()
        report()


def send(**message: Any) -> None:
    print(json.dumps(message), flush=True)


def main(name: str) -> None:
    """Download `name` and send its folder, or an error of one sentence."""

    def exit_with_parent() -> None:
        sys.stdin.buffer.read()
        os._exit(1)

    threading.Thread(target=exit_with_parent, daemon=True).start()
    constants.DOWNLOAD_CHUNK_SIZE = CHUNK_BYTES
    try:
        send(folder=str(fetch(name)))
    except DownloadRefused as refusal:
        send(error=str(refusal))
        os._exit(1)
    except Exception as error:
        # Nobody sees this process's own traceback.
        send(error=f"The download of '{name}' failed: {type(error).__name__}: {error}")
        os._exit(1)


def fetch(name: str) -> Path:
    """The folder with all files of `name`, downloaded. Raises `DownloadRefused`."""
    with explained(name):
        revision, files = listing(name)
        folder = hub.cache_folder() / repo_folder_name(repo_id=name, repo_type="model")
        fetch_large(name, revision, folder, files)
        # The small files, and the snapshot's folder, which links to all of them by name.
        return Path(snapshot_download(name, allow_patterns=FILE_PATTERNS, etag_timeout=answer_seconds()))


def listing(name: str) -> tuple[str, list[Any]]:
    """The hub's revision of a model, and those of its files that are downloaded. Raises `DownloadRefused`."""
    info = HfApi().model_info(name, files_metadata=True, timeout=answer_seconds())
    files = [
        file
        for file in info.siblings or []
        if any(fnmatch(file.rfilename, pattern) for pattern in FILE_PATTERNS)
    ]
    if not any(file.rfilename == "config.json" for file in files):
        raise DownloadRefused(
            f"'{name}' is on the hub, but holds no model that MLX can load (no config.json): "
            "choose another, such as one of mlx-community's."
        )
    return str(info.sha), files


def size(name: str) -> int:
    """The bytes of a model's files on the hub. Raises `ModelNotFound` with why it cannot be downloaded."""
    try:
        with explained(name):
            return sum(file.size or 0 for file in listing(name)[1])
    except DownloadRefused as refusal:
        raise ModelNotFound(str(refusal)) from refusal


def fetch_large(name: str, revision: str, folder: Path, files: Sequence[Any]) -> None:
    """Download the files that the hub stores by their checksum into the cache's `blobs`.

    `files` are all files of the model, as the hub lists them. Raises `DownloadRefused`.
    """
    large = [
        LargeFile(file.rfilename, file.lfs.sha256, file.lfs.size)
        for file in files
        if file.lfs and SHA256.fullmatch(file.lfs.sha256)
    ]
    names = {file.name for file in large}
    small_bytes = sum(file.size or 0 for file in files if file.rfilename not in names)
    total = small_bytes + sum(file.size for file in large)
    (folder / "blobs").mkdir(parents=True, exist_ok=True)
    needed = total - sum(file.bytes_here(folder) for file in large)
    free = shutil.disk_usage(folder).free
    if needed > free:
        raise DownloadRefused(
            f"'{name}' needs {file_size(needed)} more on the disk of {folder.parent}, where "
            f"{file_size(free)} are free: free some space, or set HF_HOME to a folder on another disk."
        )
    pool = ThreadPoolExecutor(PARALLEL_FILES)
    with reporting(large, folder, total):
        try:
            list(pool.map(lambda file: fetch_one(name, revision, folder, file), large))
        finally:
            # After an error other downloads may be in the middle of a read: they end with the process.
            pool.shutdown(wait=False, cancel_futures=True)


def fetch_one(name: str, revision: str, folder: Path, file: LargeFile) -> None:
    """Download one file, resuming a partial one. Raises `DownloadRefused` if its checksum is wrong."""
    blob, part = file.blob(folder), file.part(folder)
    if blob.exists() or file.size > constants.MAX_HTTP_DOWNLOAD_SIZE:
        return
    # No compression: a compressed response could not be resumed.
    headers = {"Accept-Encoding": "identity"}
    if token := get_token():
        headers["authorization"] = f"Bearer {token}"
    with part.open("ab") as output:
        # Wait for another process that downloads the same file.
        files.lock(output)
        if blob.exists():
            part.unlink(missing_ok=True)
            return
        if output.tell() > file.size:
            output.seek(0)
            output.truncate()
        http_get(
            hf_hub_url(name, file.name, revision=revision),
            output,
            resume_size=output.tell(),
            headers=headers,
            expected_size=file.size,
        )
        output.flush()
        with part.open("rb") as downloaded:
            sha256 = hashlib.file_digest(downloaded, "sha256").hexdigest()
        if sha256 != file.sha256:
            part.unlink()
            raise DownloadRefused(f"'{file.name}' of '{name}' arrived damaged: try again.")
        part.rename(blob)


@contextmanager
def explained(name: str) -> Iterator[None]:
    """Translate the errors of the hub, the network and the disk. Raises `DownloadRefused`."""
    try:
        yield
    except (
        HfHubHTTPError,
        OfflineModeIsEnabled,
        HFValidationError,
        LocalEntryNotFoundError,
        NETWORK_ERROR,
        OSError,
    ) as error:
        raise DownloadRefused(explanation(name, error)) from error


def explanation(name: str, error: Exception) -> str:
    """One sentence that says what went wrong and what to do."""
    if isinstance(error, GatedRepoError):
        return f"'{name}' is gated: accept its terms at {constants.ENDPOINT}/{name}, then {LOG_IN}."
    if isinstance(error, RepositoryNotFoundError):
        return f"The hub has no model '{name}' that you may see: check the name; if it is private, {LOG_IN}."
    if isinstance(error, HFValidationError):
        return f"'{name}' is not a hub name: hub names look like {EXAMPLE_MODEL}."
    folder = hub.cache_folder() / repo_folder_name(repo_id=name, repo_type="model")
    is_partial = any(path.is_file() for path in folder.glob("blobs/*"))
    absence = f"'{name}' is {'incomplete' if is_partial else 'not'} on this machine"
    if isinstance(error, OfflineModeIsEnabled):
        return (
            f"{absence} and HF_HUB_OFFLINE is set: unset it to download the "
            "model, or choose one that is here: chatcli models"
        )
    if isinstance(error, HfHubHTTPError):
        status = error.response.status_code
        if status in (401, 403):
            return f"The hub denies access to '{name}' ({status}): {LOG_IN}."
        return f"The hub answered {status} when asked for '{name}': try again later."
    if isinstance(error, OSError) and error.errno:
        return f"'{name}' cannot be saved in {constants.HF_HUB_CACHE}: {error.strerror}."
    return (
        f"{absence}, and the hub cannot be reached at {constants.ENDPOINT} "
        f"({type(error).__name__}): check the network and ask for the model again, which downloads "
        "it, or choose one that is here: chatcli models"
    )
