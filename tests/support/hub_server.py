"""A local hub: the part of its protocol that huggingface_hub uses, over real HTTP."""

from __future__ import annotations

import hashlib
import json
import os
import re
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote, urlsplit

COMMIT = "c0ffee" * 6 + "c0de"
LARGE = (".safetensors", "tokenizer.json")
PIECE = 64 << 10
API = re.compile(r"/api/models/([^/]+/[^/]+)(/revision/[^/]+)?(/tree/[^/]+)?")
FILE = re.compile(r"/([^/]+/[^/]+)/resolve/[^/]+/(.+)")


@dataclass
class Request:
    """What was asked for, from which byte on, and how many bytes of it went out."""

    method: str
    path: str
    start: int = 0
    sent: int = 0


@dataclass
class Hub:
    """Repositories by name, answers that are refusals (status, X-Error-Code), and what was asked.

    `delay` is waited before each piece of a weight file: seconds for 64 KiB. The bytes of the file
    `damaged` are wrong.
    """

    repos: dict[str, Path] = field(default_factory=dict)
    refusals: dict[str, tuple[int, str]] = field(default_factory=dict)
    gated: set[str] = field(default_factory=set)
    damaged: str = "nothing"
    delay: float = 0.0
    requests: list[Request] = field(default_factory=list)
    port: int = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def sent(self, name: str) -> list[Request]:
        """The downloads of files of this name."""
        return [
            request for request in self.requests if request.method == "GET" and request.path.endswith(name)
        ]

    def settings(self, home: Path) -> dict[str, str]:
        """The variables that make huggingface_hub use this hub, and a cache in `home`."""
        return {"HF_ENDPOINT": self.url, "HF_HOME": str(home / "hf"), "NO_PROXY": "127.0.0.1"}

    def environment(self, home: Path, **more: str) -> dict[str, str]:
        """The whole environment of a process that uses this hub."""
        kept = {key: value for key, value in os.environ.items() if not key.startswith("HF_")}
        return {**kept, "HOME": str(home), **self.settings(home), **more}


@contextmanager
def serving(**hub: object) -> Iterator[Hub]:
    """A hub that answers until this is left."""
    running_hub = Hub(**hub)  # type: ignore[arg-type]

    class Handler(Answers):
        hub = running_hub

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    running_hub.port = server.server_address[1]
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield running_hub
    finally:
        server.shutdown()
        server.server_close()


def sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


class Answers(BaseHTTPRequestHandler):
    """The hub's side of each request."""

    hub: Hub
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: object) -> None: ...

    def do_HEAD(self) -> None:
        self.answer()

    def do_GET(self) -> None:
        self.answer()

    def answer(self) -> None:
        path = unquote(urlsplit(self.path).path)
        self.request_made = Request(self.command, path)
        self.hub.requests.append(self.request_made)
        about, file = API.fullmatch(path), FILE.fullmatch(path)
        name = (about or file or [None, ""])[1]
        if name in self.hub.refusals:
            self.refuse(*self.hub.refusals[name])
        elif name not in self.hub.repos:
            self.refuse(401, "RepoNotFound")
        elif file and name in self.hub.gated:
            self.refuse(401, "GatedRepo")
        elif file:
            self.send_file(self.hub.repos[name] / file[2])
        elif about:
            self.send_json(self.tree(name) if about[3] else self.info(name))

    def refuse(self, status: int, code: str) -> None:
        self.send_response(status)
        if code:
            self.send_header("X-Error-Code", code)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def files(self, name: str) -> list[Path]:
        return sorted(path for path in self.hub.repos[name].iterdir() if path.is_file())

    def info(self, name: str) -> object:
        siblings = []
        for path in self.files(name):
            entry = {"rfilename": path.name, "size": path.stat().st_size, "blobId": "0" * 40}
            if path.name.endswith(LARGE):
                entry["lfs"] = {"sha256": sha256(path), "size": entry["size"], "pointerSize": 100}
            siblings.append(entry)
        return {"id": name, "modelId": name, "sha": COMMIT, "siblings": siblings}

    def tree(self, name: str) -> object:
        entries = []
        for path in self.files(name):
            size = path.stat().st_size
            entry = {"type": "file", "path": path.name, "size": size, "oid": "0" * 40}
            if path.name.endswith(LARGE):
                entry["lfs"] = {"oid": sha256(path), "size": size, "pointerSize": 100}
            entries.append(entry)
        return entries

    def send_json(self, value: object) -> None:
        data = json.dumps(value).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(data)

    def send_file(self, path: Path) -> None:
        if not path.is_file():
            self.refuse(404, "EntryNotFound")
            return
        data = path.read_bytes()
        range_match = re.fullmatch(r"bytes=(\d+)-", self.headers.get("Range", ""))
        start = self.request_made.start = int(range_match[1]) if range_match else 0
        self.send_response(206 if range_match else 200)
        if range_match:
            self.send_header("Content-Range", f"bytes {start}-{len(data) - 1}/{len(data)}")
        self.send_header("X-Repo-Commit", COMMIT)
        self.send_header("ETag", f'"{sha256(path)}"')
        self.send_header("Content-Length", str(len(data) - start))
        self.end_headers()
        if self.command == "GET":
            self.send_pieces(data, start)

    def send_pieces(self, data: bytes, start: int) -> None:
        slow = self.path.endswith(".safetensors")
        for at in range(start, len(data), PIECE):
            piece = data[at : at + PIECE]
            if slow and self.hub.delay:
                time.sleep(self.hub.delay)
            if self.path.endswith(self.hub.damaged):
                piece = bytes(len(piece))
            try:
                self.wfile.write(piece)
            except OSError:
                self.close_connection = True
                return
            self.request_made.sent += len(piece)
