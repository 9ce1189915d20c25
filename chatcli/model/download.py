"""Downloads a model's files from the hub into its cache, in a process of its own.

A process can be ended at any instant, in the middle of a read that hangs too. What it says are lines
of JSON on standard output: how far it is, then the folder or one sentence. It ends with whoever
holds its standard input. huggingface_hub keeps whole files only, so large ones are fetched here
under names that last, from where they were left.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import re
import shutil
import sys
import threading
from collections.abc import Iterable, Iterator
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

from chatcli.model import hub
from chatcli.text import file_size

# What mlx-lm reads of a model (its DEFAULT_ALLOW_PATTERNS; mlx-lm is too slow to import for them).
PATTERNS = [
    "*.json",
    "model*.safetensors",
    "*.py",
    "tokenizer.model",
    "*.tiktoken",
    "tiktoken.model",
    "*.txt",
    "*.jsonl",
    "*.jinja",
]
# Seconds to wait for an answer, unless HF_HUB_ETAG_TIMEOUT says otherwise.
PATIENCE = (
    6.0
    if constants.HF_HUB_ETAG_TIMEOUT == constants.DEFAULT_ETAG_TIMEOUT
    else float(constants.HF_HUB_ETAG_TIMEOUT)
)
# Seconds between two words about how far it is.
OFTEN = 0.2
# Files at a time, and bytes at a time: with the hub's own 10 MB a slow line would say nothing for long.
FILES, CHUNK = 4, 1 << 20
SHA256 = re.compile("[0-9a-f]{64}")
# The base of what can go wrong on the way, in httpx or httpx2, whichever the hub's package has.
NETWORK: Any = HfHubHTTPError.__bases__[0]
LOG_IN = f"log in with: hf auth login (a token is made at {constants.ENDPOINT}/settings/tokens)"


class Refused(Exception):
    """One sentence that says why there is no download, and what to do."""


@dataclass(frozen=True)
class Large:
    """A file that has a name of its own in the cache: the SHA-256 of its bytes."""

    name: str
    sha256: str
    size: int

    def blob(self, folder: Path) -> Path:
        return folder / "blobs" / self.sha256

    def part(self, folder: Path) -> Path:
        """What there is of it before it is whole."""
        return folder / "blobs" / f"{self.sha256}.incomplete"

    def here(self, folder: Path) -> int:
        """The bytes of it that are on this machine."""
        for path in (self.blob(folder), self.part(folder)):
            if path.is_file():
                return min(path.stat().st_size, self.size)
        return 0


class Meter:
    """Bytes of each file that are here; told as lines until it is closed."""

    def __init__(self, done: dict[str, int], total: int) -> None:
        self.done, self._total = done, total
        self._closed = threading.Event()
        self._tell()
        self._teller = threading.Thread(target=self._keep_telling, daemon=True)
        self._teller.start()

    def _keep_telling(self) -> None:
        while not self._closed.wait(OFTEN):
            self._tell()

    def _tell(self) -> None:
        say(done=sum(self.done.values()), total=self._total, files=len(self.done))

    def close(self) -> None:
        self._closed.set()
        self._teller.join()
        self._tell()

    def bar(self, name: str) -> type:
        """What the hub's download takes for a progress bar, which it makes for one file."""
        done = self.done

        class Bar:
            def __init__(self, initial: int = 0, **_: Any) -> None:
                done[name] = initial

            def update(self, count: float | None = 1) -> None:
                done[name] += int(count or 0)

            def __enter__(self) -> Bar:
                return self

            def __exit__(self, *_: object) -> None: ...

        return Bar


def say(**told: Any) -> None:
    print(json.dumps(told), flush=True)


def main(name: str) -> None:
    """Download `name`, or say in one sentence why not."""
    threading.Thread(target=_end_with_the_parent, daemon=True).start()
    constants.DOWNLOAD_CHUNK_SIZE = CHUNK
    try:
        say(folder=str(fetch(name)))
    except Refused as refusal:
        say(error=str(refusal))
        os._exit(1)
    except Exception as surprise:
        # Nobody sees this process's own errors.
        say(error=f"The download of '{name}' failed: {type(surprise).__name__}: {surprise}")
        os._exit(1)


def _end_with_the_parent() -> None:
    sys.stdin.buffer.read()
    os._exit(1)


def fetch(name: str) -> Path:
    """The folder with all files of `name`. Raises `Refused`."""
    with explained(name):
        found = HfApi().model_info(name, files_metadata=True, timeout=PATIENCE)
        wanted = [file for file in found.siblings or [] if is_wanted(file.rfilename)]
        if not any(file.rfilename == "config.json" for file in wanted):
            raise Refused(
                f"'{name}' is on the hub, but holds no model that MLX can load (no config.json): "
                "choose another, such as one of mlx-community's."
            )
        folder = hub.cache_folder() / repo_folder_name(repo_id=name, repo_type="model")
        fetch_large(name, str(found.sha), folder, wanted)
        # The rest, which is small, and the folder that shows all of it by name.
        return Path(snapshot_download(name, allow_patterns=PATTERNS, etag_timeout=PATIENCE))


def is_wanted(name: str) -> bool:
    return any(fnmatch(name, pattern) for pattern in PATTERNS)


def fetch_large(name: str, revision: str, folder: Path, wanted: Iterable[Any]) -> None:
    """Put the files that the hub keeps by their checksum where its cache has them."""
    wanted = list(wanted)
    large = [
        Large(file.rfilename, file.lfs.sha256, file.lfs.size)
        for file in wanted
        if file.lfs and SHA256.fullmatch(file.lfs.sha256)
    ]
    names = {file.name for file in large}
    small = sum(file.size or 0 for file in wanted if file.rfilename not in names)
    done = {file.name: file.here(folder) for file in large}
    total = small + sum(file.size for file in large)
    (folder / "blobs").mkdir(parents=True, exist_ok=True)
    _check_room(name, folder, total - sum(done.values()))
    meter, pool = Meter(done, total), ThreadPoolExecutor(FILES)
    try:
        list(pool.map(lambda file: fetch_one(name, revision, folder, file, meter), large))
    finally:
        # After an error the other files are in the middle of a read: they end with the process.
        pool.shutdown(wait=False, cancel_futures=True)
        meter.close()


def _check_room(name: str, folder: Path, needed: int) -> None:
    free = shutil.disk_usage(folder).free
    if needed > free:
        raise Refused(
            f"'{name}' needs {file_size(needed)} more on the disk of {folder.parent}, where "
            f"{file_size(free)} are free: make room, or set HF_HOME to a folder on another disk."
        )


def fetch_one(name: str, revision: str, folder: Path, file: Large, meter: Meter) -> None:
    """One file, from where it was left. Raises `Refused` if its bytes are not what they should be."""
    blob, part = file.blob(folder), file.part(folder)
    if blob.exists() or file.size > constants.MAX_HTTP_DOWNLOAD_SIZE:
        return
    with part.open("ab") as there:
        # Another process that fetches it too is waited for.
        fcntl.flock(there, fcntl.LOCK_EX)
        if blob.exists():
            part.unlink(missing_ok=True)
            return
        if there.tell() > file.size:
            there.seek(0)
            there.truncate()
        http_get(
            hf_hub_url(name, file.name, revision=revision),
            there,
            resume_size=there.tell(),
            headers=headers(),
            expected_size=file.size,
            tqdm_class=meter.bar(file.name),
        )
        there.flush()
        if _sha256(part) != file.sha256:
            part.unlink()
            raise Refused(f"'{file.name}' of '{name}' came damaged: try again.")
        part.rename(blob)


def headers() -> dict[str, str]:
    """Who asks, and for the bytes as they are: packed ones could not be gone on with."""
    token = get_token()
    return {"Accept-Encoding": "identity"} | ({"authorization": f"Bearer {token}"} if token else {})


def _sha256(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(CHUNK):
            digest.update(chunk)
    return digest.hexdigest()


@contextmanager
def explained(name: str) -> Iterator[None]:
    """Turn what the hub and the network raise into `Refused`."""
    try:
        yield
    except (
        HfHubHTTPError,
        OfflineModeIsEnabled,
        HFValidationError,
        LocalEntryNotFoundError,
        NETWORK,
        OSError,
    ) as error:
        raise Refused(sentence(name, error)) from error


def sentence(name: str, error: Exception) -> str:
    """What went wrong and what to do, by the kind of error."""
    if isinstance(error, GatedRepoError):
        return f"'{name}' is gated: accept its terms at {constants.ENDPOINT}/{name}, then {LOG_IN}."
    if isinstance(error, RepositoryNotFoundError):
        return f"The hub has no model '{name}' that you may see: check the name; if it is private, {LOG_IN}."
    if isinstance(error, OfflineModeIsEnabled):
        return (
            f"{_lacking(name)} and HF_HUB_OFFLINE is set: unset it to download the "
            "model, or choose one that is here (chatcli models)."
        )
    if isinstance(error, HFValidationError):
        return f"'{name}' is no hub name: those look like mlx-community/Qwen3.5-4B-MLX-4bit."
    if isinstance(error, HfHubHTTPError):
        return _answered(name, error.response.status_code)
    if isinstance(error, OSError) and error.errno:
        return f"'{name}' cannot be kept in {constants.HF_HUB_CACHE}: {error.strerror}."
    return (
        f"{_lacking(name)}, and the hub cannot be reached at {constants.ENDPOINT} "
        f"({type(error).__name__}): check the network and ask for the model again, which downloads "
        "it, or choose one that is here (chatcli models)."
    )


def _lacking(name: str) -> str:
    """That a model is not here, or only a part of it."""
    folder = hub.cache_folder() / repo_folder_name(repo_id=name, repo_type="model")
    begun = any(path.is_file() for path in folder.glob("blobs/*"))
    return f"'{name}' is {'not whole' if begun else 'not'} on this machine"


def _answered(name: str, status: int) -> str:
    if status in (401, 403):
        return f"The hub does not let you have '{name}' ({status}): {LOG_IN}."
    return f"The hub answered {status} when asked for '{name}': try again later."
