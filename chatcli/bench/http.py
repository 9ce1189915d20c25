"""Contenders that are servers of their own, spoken to as their users do; refuses to know MLX.

Each is used where its command is on this machine and what it needs is given.
"""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from chatcli.bench.contender import Answer, Contender, Request, gaps
from chatcli.bench.http_server import HOST, Command, Event, Server
from chatcli.bench.scripted import Script
from chatcli.store.segments.inventory import bytes_below

CHAT = "/v1/chat/completions"
HEALTH = "/health"
# Tokens. Servers that are told no context take the model's whole one, or cut prompts at 4,096.
CONTEXT = 40960
# Loads what a server loads only when it is first asked.
WARMING = [{"role": "user", "content": "."}]
MEBIBYTE = 1 << 20


@dataclass(frozen=True)
class Counts:
    """What a server tells of a prompt, in tokens. `reused` is None where it does not tell."""

    prompt: int = 0
    reused: int | None = None


@dataclass
class Heard:
    """A stream as it went by: the moments of its texts, and its last counts."""

    times: list[float] = field(default_factory=list)
    counts: Counts = Counts()

    def take(self, event: Event) -> None:
        if speaks(event):
            self.times.append(time.perf_counter())
        self.counts = counts(event) or self.counts


class Http:
    """A server that is asked over HTTP.

    It generates what it likes, as many tokens as the script has at most, while the history that it is
    sent is the script's: so a server that keeps its own words finds others there, as with thinking.
    `greedy` stays empty. A gap is the time between two texts, which may be more than a token each.
    `memory` is what its processes have grown by since they were ready: weights are not in it.
    """

    def __init__(self, name: str, command: Command, model: str, folder: Path, ready: str = HEALTH) -> None:
        """`command` serves at a port, `model` is what requests name, `folder` what it may write in."""
        self.name = name
        self._command = command
        self._model = model
        self._folder = folder
        self._ready = ready
        self._server: Server | None = None
        self._idle = 0

    def ask(self, request: Request, script: Script) -> Answer:
        server = self._running()
        body = self._body(request.messages(script), len(script))
        heard = Heard()
        began = time.perf_counter()
        for event in server.stream(CHAT, body):
            heard.take(event)
        ended = time.perf_counter()
        # A reply that ended at once has no text.
        times = heard.times or [ended]
        told = self._counted(server, heard.counts)
        return Answer(
            prompt=told.prompt,
            reused=told.reused or 0,
            first=times[0] - began,
            gaps=gaps(times),
            after=ended - times[-1],
            memory=self._memory(server),
            disk=bytes_below(self._folder),
            tells=told.reused is not None,
        )

    def _body(self, messages: list[dict[str, str]], longest: int) -> dict[str, Any]:
        return {
            "model": self._model,
            "messages": messages,
            "max_tokens": longest,
            "temperature": 0,
            "stream": True,
            "stream_options": {"include_usage": True},
        }

    def _running(self) -> Server:
        if self._server is None:
            self._folder.mkdir(parents=True, exist_ok=True)
            self._server = Server(self.name, self._command, self._ready)
            for _ in self._server.stream(CHAT, self._body(WARMING, 1)):
                pass
            self._began(self._server)
            self._idle = self._server.memory()
        return self._server

    def _began(self, server: Server) -> None:
        """Called when it can be asked; what came before is in the folder."""

    def _ending(self, server: Server) -> None:
        """Called before it ends and is started again."""

    def _counted(self, server: Server, heard: Counts) -> Counts:
        return heard

    def _memory(self, server: Server) -> int:
        return max(server.memory() - self._idle, 0)

    def reopen(self, ahead: bool) -> None:
        """Its weights are loaded again, and what it has on disk is read: it knows no request `ahead`."""
        if self._server is not None:
            self._ending(self._server)
        self._end()
        self._running()

    def forget(self) -> None:
        self.close()
        self._running()

    def close(self) -> None:
        """End the server, and remove what it wrote."""
        self._end()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _end(self) -> None:
        if self._server is not None:
            self._server.close()
        self._server = None


class LlamaServer(Http):
    """llama.cpp's server with one slot, saved before it ends and restored after it began."""

    SAVED = "slot.bin"

    def __init__(self, program: str, gguf: Path, folder: Path) -> None:
        def command(port: int) -> list[str]:
            return [
                program,
                "--model",
                str(gguf),
                "--host",
                HOST,
                "--port",
                str(port),
                "--ctx-size",
                str(CONTEXT),
                "--parallel",
                "1",
                "--slot-save-path",
                f"{folder}/",
            ]

        super().__init__("llama-server", command, gguf.stem, folder)

    def _body(self, messages: list[dict[str, str]], longest: int) -> dict[str, Any]:
        return {**super()._body(messages, longest), "cache_prompt": True}

    def _ending(self, server: Server) -> None:
        server.post("/slots/0?action=save", {"filename": self.SAVED})

    def _began(self, server: Server) -> None:
        if (self._folder / self.SAVED).exists():
            server.post("/slots/0?action=restore", {"filename": self.SAVED})


class VllmMlx(Http):
    """vllm-mlx with the batching that its prefix cache needs.

    It keeps that cache below the home folder and writes it when it ends, so it gets a home of its own.
    Its answers do not say what was reused, but its counters do.
    """

    def __init__(self, program: str, model_folder: Path, folder: Path) -> None:
        def command(port: int) -> list[str]:
            return [
                "env",
                f"HOME={folder}",
                program,
                "serve",
                str(model_folder),
                "--host",
                HOST,
                "--port",
                str(port),
                "--continuous-batching",
            ]

        super().__init__("vllm-mlx", command, str(model_folder), folder)
        self._saved_before = 0

    def _began(self, server: Server) -> None:
        self._saved_before = saved_tokens(_statistics(server)) or 0

    def _counted(self, server: Server, heard: Counts) -> Counts:
        if heard.reused is not None:
            return heard
        saved = saved_tokens(_statistics(server))
        if saved is None:
            return heard
        reused, self._saved_before = saved - self._saved_before, saved
        return Counts(heard.prompt, min(reused, heard.prompt))

    def _memory(self, server: Server) -> int:
        held = _statistics(server).get("current_memory_mb")
        return super()._memory(server) if held is None else int(held * MEBIBYTE)


def _statistics(server: Server) -> Mapping[str, Any]:
    """The counters of vllm-mlx's prefix cache; a model that sees has them one level deeper."""
    told = server.get("/v1/cache/stats").get("engine_cache") or {}
    found: Mapping[str, Any] = told.get("prefix_cache", told)
    return found


def saved_tokens(statistics: Mapping[str, Any]) -> int | None:
    """Tokens that a prefix cache has saved since it began."""
    return statistics.get("tokens_saved")


def mlx_lm(model_folder: Path, folder: Path) -> Http:
    """mlx-lm's own server."""

    def command(port: int) -> list[str]:
        serve = [sys.executable, "-m", "mlx_lm", "server", "--model", str(model_folder)]
        return [*serve, "--host", HOST, "--port", str(port)]

    return Http("mlx-lm's server over HTTP", command, "default_model", folder)


def ollama(program: str, model: str, folder: Path) -> Http:
    """A server of its own beside the one that may be running, with the same models."""

    def command(port: int) -> list[str]:
        return [
            "env",
            f"OLLAMA_HOST={HOST}:{port}",
            f"OLLAMA_CONTEXT_LENGTH={CONTEXT}",
            "OLLAMA_KEEP_ALIVE=-1",
            program,
            "serve",
        ]

    return Http("ollama", command, model, folder, ready="/api/version")


def found(
    model_folder: Path | None,
    gguf: Path | None,
    ollama_model: str | None,
    folder: Path,
    *,
    path: str | None = None,
) -> list[Contender]:
    """The contenders that can be had here; none is started before it is asked.

    `model_folder` is an MLX model's, None for one that has no files. `folder` is what they may write
    in, each in one of its own. `path` is searched for their commands, instead of the PATH.
    """
    made: list[Contender] = []
    if model_folder is not None:
        made.append(mlx_lm(model_folder, folder / "mlx-lm"))
    if model_folder is not None and (program := shutil.which("vllm-mlx", path=path)):
        made.append(VllmMlx(program, model_folder, folder / "vllm-mlx"))
    if gguf is not None and (program := shutil.which("llama-server", path=path)):
        made.append(LlamaServer(program, gguf, folder / "llama-server"))
    if ollama_model and (program := shutil.which("ollama", path=path)):
        made.append(ollama(program, ollama_model, folder / "ollama"))
    return made


def speaks(event: Event) -> bool:
    """Whether an event brings text, the model's thinking included."""
    return any(
        (choice.get("delta") or {}).get(name)
        for choice in event.get("choices") or ()
        for name in ("content", "reasoning", "reasoning_content")
    )


def counts(event: Event) -> Counts | None:
    """What an event tells of the prompt, in OpenAI's `usage` and llama-server's `timings`."""
    usage, timings = event.get("usage") or {}, event.get("timings") or {}
    run, prompt = timings.get("prompt_n"), usage.get("prompt_tokens")
    reused = (usage.get("prompt_tokens_details") or {}).get("cached_tokens")
    if reused is None:
        reused = timings.get("cache_n")
    if run is not None and prompt is None:
        prompt = run + (reused or 0)
    if run is not None and reused is None:
        reused = prompt - run
    return None if prompt is None else Counts(prompt, reused)
