"""Models of the Hugging Face hub: which are here, and how one gets here; refuses to know MLX and terminals.

huggingface_hub is imported where it is needed: it takes a tenth of a second.
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

NAME = re.compile(r"[\w.-]+/[\w.-]+")
# Seconds over which the rate is taken, and between two words where there is no news.
WINDOW, OFTEN = 5.0, 0.1
# Seconds that a process may take to begin.
BEGINNING = 4.0
# The process is given the package's folder, and nothing of the folder that it runs in.
PROCESS = "import sys; sys.path[0] = sys.argv[1]; from chatcli.model.download import main; main(sys.argv[2])"
PREFIX = "models--"

# Told how far a download is. What it raises ends the download; the rest can be had later.
Told = Callable[[Download], None]


def find(name: str, told: Told = lambda _: None) -> Path:
    """The folder of a hub model: from the cache without a word to the hub, else downloaded.

    Raises `ModelNotFound`, and whatever `told` raises.
    """
    return local(name) or download(name, told)


def local(name: str) -> Path | None:
    """The folder of a model that is whole in the cache. Never asks the network."""
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HFValidationError, LocalEntryNotFoundError

    from chatcli.model.download import PATTERNS

    try:
        found = snapshot_download(name, local_files_only=True, allow_patterns=PATTERNS)
    except HFValidationError as error:
        raise ModelNotFound(f"'{name}' is no hub name.") from error
    except LocalEntryNotFoundError:
        return None
    return Path(found) if is_whole(Path(found)) else None


def is_whole(folder: Path) -> bool:
    """Whether a model's folder has its configuration, a tokenizer and all weights."""
    files = {path.name for path in folder.glob("*") if path.exists()}
    if "config.json" not in files or not any(name.startswith("tokenizer") for name in files):
        return False
    return not inspect.lacking_weights(folder)


def download(name: str, told: Told = lambda _: None) -> Path:
    """Bring the model into the hub's cache, from where it was left. Raises as `find` does.

    `told` is called several times a second, also while nothing comes.
    """
    from chatcli.model.download import PATIENCE

    last: dict[str, Any] = {}
    progress = _Progress(told)
    with _process(name) as lines:
        for said in lines:
            last = said or last
            if not last and progress.seconds > PATIENCE + BEGINNING:
                raise ModelNotFound(
                    f"'{name}' is not on this machine and the hub does not answer: check the "
                    "network, or choose a model that is here (chatcli models)."
                )
            progress.tell(said)
    if "folder" in last:
        return Path(last["folder"])
    raise ModelNotFound(last.get("error") or f"The download of '{name}' ended without a word.")


class _Progress:
    """What is told of a download, with the rate at which it goes."""

    def __init__(self, told: Told) -> None:
        self._told, self._began = told, time.monotonic()
        self._now = Download(0, 0)
        self._seen: deque[tuple[float, int]] = deque()

    @property
    def seconds(self) -> float:
        return time.monotonic() - self._began

    def tell(self, said: dict[str, Any]) -> None:
        """Say where it is. Without news it is where it was, which is told too: it can be stopped."""
        if "done" in said:
            self._seen.append((self.seconds, said["done"]))
            while len(self._seen) > 2 and self.seconds - self._seen[0][0] > WINDOW:
                self._seen.popleft()
            self._now = Download(said["done"], said["total"], said["files"], self._rate())
        self._told(self._now)

    def _rate(self) -> float | None:
        (began, first), (now, last) = self._seen[0], self._seen[-1]
        return max(last - first, 0) / (now - began) if now - began > 1 else None


@contextmanager
def _process(name: str) -> Iterator[Iterator[dict[str, Any]]]:
    """What the downloading process says; it is ended with this, wherever it is."""
    command = [sys.executable, "-c", PROCESS, str(Path(__file__).parents[2]), name]
    # A session of its own: Ctrl-C is for whoever waits, who ends it.
    with subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    ) as process:
        try:
            assert process.stdout is not None
            yield _lines(process.stdout)
        finally:
            process.kill()


def _lines(stream: IO[bytes]) -> Iterator[dict[str, Any]]:
    """Each line as it comes; nothing in between, so that whoever iterates can look around."""
    queue: SimpleQueue[bytes] = SimpleQueue()

    def read() -> None:
        for line in stream:
            queue.put(line)
        queue.put(b"")

    Thread(target=read, daemon=True).start()
    while True:
        try:
            line = queue.get(timeout=OFTEN)
        except Empty:
            yield {}
            continue
        if not line:
            return
        yield json.loads(line)


def names() -> list[str]:
    """The hub models that are in the cache, whole or not. Quick enough for a completion."""
    folders = cache_folder().glob(f"{PREFIX}*--*")
    return sorted(folder.name.removeprefix(PREFIX).replace("--", "/", 1) for folder in folders)


def cache_folder() -> Path:
    from huggingface_hub import constants

    return Path(constants.HF_HUB_CACHE).expanduser()


def cached() -> dict[str, Path]:
    """Each hub model of the cache and the folder of its newest files."""
    from huggingface_hub import scan_cache_dir
    from huggingface_hub.errors import CacheNotFound

    try:
        repos = scan_cache_dir().repos
    except CacheNotFound:
        return {}
    found = {}
    for repo in repos:
        if repo.repo_type == "model" and repo.revisions:
            newest = max(repo.revisions, key=lambda one: ("main" in one.refs, one.last_modified))
            found[repo.repo_id] = newest.snapshot_path
    return dict(sorted(found.items()))
