"""Models of the Hugging Face hub: finds them in its cache, or downloads them in a child process.

huggingface_hub takes a tenth of a second to import, so each function imports what it needs.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Thread
from typing import IO, Any

from chatcli.errors import ModelNotFound
from chatcli.events import Download
from chatcli.model import inspect

HUB_NAME = re.compile(r"[\w.-]+/[\w.-]+")
# The files that mlx-lm reads: a copy of its DEFAULT_ALLOW_PATTERNS, because importing mlx-lm is slow.
FILE_PATTERNS = [
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
# How long to wait for the hub to answer, unless HF_HUB_ETAG_TIMEOUT is set.
ANSWER_SECONDS = 6.0
# How long the download process may take to start.
STARTUP_SECONDS = 4.0
# The span over which the download rate is averaged.
RATE_SECONDS = 5.0
POLL_SECONDS = 0.1
# sys.path[0] is this package's folder, never the current folder.
CHILD_CODE = (
    "import sys; sys.path[0] = sys.argv[1]; from chatcli.model.download import main; main(sys.argv[2])"
)
CACHE_PREFIX = "models--"
# If either of these variables is true, huggingface_hub does not use the network.
OFFLINE_VARIABLES = ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE")

# Called with the state of a download. An exception ends the download, which can be resumed later.
DownloadCallback = Callable[[Download], None]


def find_cached(name: str) -> Path | None:
    """The folder of a complete model in the cache. Never uses the network. Raises `ModelNotFound`."""
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HFValidationError, LocalEntryNotFoundError

    try:
        folder = Path(snapshot_download(name, local_files_only=True, allow_patterns=FILE_PATTERNS))
    except HFValidationError as error:
        raise ModelNotFound(f"'{name}' is not a hub name.") from error
    except LocalEntryNotFoundError:
        return None
    files = {path.name for path in folder.glob("*") if path.exists()}
    has_tokenizer = any(file.startswith("tokenizer") for file in files)
    is_complete = "config.json" in files and has_tokenizer and not inspect.lacking_weights(folder)
    return folder if is_complete else None


def download(name: str, on_progress: DownloadCallback = lambda _: None) -> Path:
    """Download the model into the hub's cache, resuming partial files.

    `on_progress` is called every `POLL_SECONDS`, even if nothing arrives, so that it can raise to cancel.
    Raises `ModelNotFound`, and whatever `on_progress` raises.
    """
    message: dict[str, Any] = {}
    progress, started = Download(0, 0), time.monotonic()
    samples: deque[tuple[float, int]] = deque()  # (seconds, bytes) of the last RATE_SECONDS
    with _download_process(name) as messages:
        for new in messages:
            message = new or message
            seconds = time.monotonic() - started
            if not message and seconds > answer_seconds() + STARTUP_SECONDS:
                raise ModelNotFound(
                    f"'{name}' is not on this machine and the hub does not answer: check the "
                    "network, or choose a model that is here: chatcli models"
                )
            if "done" in new:
                samples.append((seconds, new["done"]))
                while len(samples) > 2 and seconds - samples[0][0] > RATE_SECONDS:
                    samples.popleft()
                first_seconds, first_bytes = samples[0]
                elapsed = seconds - first_seconds
                rate = max(new["done"] - first_bytes, 0) / elapsed if elapsed > 1 else None
                progress = Download(new["done"], new["total"], new["files"], rate)
            on_progress(progress)
    if "folder" in message:
        return Path(message["folder"])
    raise ModelNotFound(message.get("error") or f"The download of '{name}' ended without an answer.")


def answer_seconds() -> float:
    """How long to wait for the hub to answer, in seconds."""
    from huggingface_hub import constants

    is_default = constants.HF_HUB_ETAG_TIMEOUT == constants.DEFAULT_ETAG_TIMEOUT
    return ANSWER_SECONDS if is_default else float(constants.HF_HUB_ETAG_TIMEOUT)


@contextmanager
def _download_process(name: str) -> Iterator[Iterator[dict[str, Any]]]:
    """Run `chatcli.model.download` in a process and yield its messages; kill it at the end."""
    command = [sys.executable, "-c", CHILD_CODE, str(Path(__file__).parents[2]), name]
    # In its own session, so that Ctrl-C in the terminal reaches only the waiting process.
    with subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    ) as process:
        try:
            assert process.stdout is not None
            yield _messages(process.stdout)
        finally:
            process.kill()


def _messages(stream: IO[bytes]) -> Iterator[dict[str, Any]]:
    """Each line of JSON as it arrives, and an empty message after every `POLL_SECONDS` without one."""
    queue: SimpleQueue[bytes] = SimpleQueue()

    def read() -> None:
        for line in stream:
            queue.put(line)
        queue.put(b"")

    Thread(target=read, daemon=True).start()
    while True:
        try:
            line = queue.get(timeout=POLL_SECONDS)
        except Empty:
            yield {}
            continue
        if not line:
            return
        yield json.loads(line)


def names() -> list[str]:
    """The names of the models in the hub's cache, complete or not. Fast enough for completion."""
    folders = cache_folder().glob(f"{CACHE_PREFIX}*--*")
    return sorted(folder.name.removeprefix(CACHE_PREFIX).replace("--", "/", 1) for folder in folders)


def cache_folder() -> Path:
    from huggingface_hub import constants

    return Path(constants.HF_HUB_CACHE).expanduser()


def cached() -> dict[str, Path]:
    """The models in the hub's cache, by name, each with the folder of its newest revision."""
    from huggingface_hub import scan_cache_dir
    from huggingface_hub.errors import CacheNotFound

    try:
        repos = scan_cache_dir().repos
    except CacheNotFound:
        return {}
    folders = {}
    for repo in repos:
        if repo.repo_type == "model" and repo.revisions:
            newest = max(repo.revisions, key=lambda version: ("main" in version.refs, version.last_modified))
            folders[repo.repo_id] = newest.snapshot_path
    return dict(sorted(folders.items()))
