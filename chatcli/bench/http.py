"""Contenders that are servers, asked over HTTP as their users do.

Each takes part if its command is on this machine and the model that it needs is given.
"""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from chatcli.bench.contender import Answer, Contender, Request, gaps
from chatcli.bench.http_server import HOST, Command, Event, Server
from chatcli.bench.scripted import Script

CHAT_PATH = "/v1/chat/completions"
HEALTH_PATH = "/health"
# Without it servers take the model's whole context, or cut prompts at 4,096 tokens.
CONTEXT_TOKENS = 40960
# Makes a server load what it loads with its first request.
WARM_UP_MESSAGES = [{"role": "user", "content": "."}]
MEBIBYTE = 1 << 20


@dataclass(frozen=True)
class PromptCounts:
    """A prompt's tokens as a server reports them. `reused` is None where it does not report it."""

    prompt: int = 0
    reused: int | None = None


class Http:
    """A server that is asked over HTTP.

    It generates what it likes, at most as many tokens as the script has, while the history that it is
    sent is the script's: so a server that caches its own reply does not find it there, as with thinking.
    `greedy` stays empty. A gap is the time between two texts, which may be more than a token each.
    `memory_bytes` is what its processes have grown by since they were ready: weights are not in it.
    """

    def __init__(
        self, name: str, command: Command, model: str, folder: Path, ready: str = HEALTH_PATH
    ) -> None:
        """`command` serves at a port, `model` is the name in requests, `folder` is for what it writes."""
        self.name = name
        self._command = command
        self._model = model
        self._folder = folder
        self._ready = ready
        self._server: Server | None = None
        self._idle_bytes = 0

    def ask(self, request: Request, script: Script) -> Answer:
        server = self._running()
        body = self._body(request.messages(script), len(script))
        times = []
        counts = PromptCounts()
        began = time.perf_counter()
        for event in server.stream(CHAT_PATH, body):
            if has_text(event):
                times.append(time.perf_counter())
            counts = prompt_counts(event) or counts
        ended = time.perf_counter()
        # A reply that ended at once has no text.
        times = times or [ended]
        counts = self._complete(server, counts)
        return Answer(
            prompt_tokens=counts.prompt,
            reused_tokens=counts.reused or 0,
            time_to_first_token=times[0] - began,
            gaps=gaps(times),
            after_seconds=ended - times[-1],
            memory_bytes=self._memory(server),
            disk_bytes=sum(path.stat().st_size for path in self._folder.rglob("*") if path.is_file()),
            reports_reuse=counts.reused is not None,
        )

    def _body(self, messages: list[dict[str, str]], max_tokens: int) -> dict[str, Any]:
        return {
            "model": self._model,
            "messages": messages,
            "max_tokens": max_tokens,
            "temperature": 0,
            "stream": True,
            "stream_options": {"include_usage": True},
        }

    def _running(self) -> Server:
        if self._server is None:
            self._folder.mkdir(parents=True, exist_ok=True)
            self._server = Server(self.name, self._command, self._ready)
            for _ in self._server.stream(CHAT_PATH, self._body(WARM_UP_MESSAGES, 1)):
                pass
            self._on_ready(self._server)
            self._idle_bytes = self._server.memory()
        return self._server

    def _on_ready(self, server: Server) -> None:
        """Called when it can be asked; what it saved before is in the folder."""

    def _before_restart(self, server: Server) -> None:
        """Called before it ends and is started again."""

    def _complete(self, server: Server, counts: PromptCounts) -> PromptCounts:
        """The counts of an answer, with what the server reports elsewhere."""
        return counts

    def _memory(self, server: Server) -> int:
        return max(server.memory() - self._idle_bytes, 0)

    def reopen(self, ahead: bool) -> None:
        """Restart it, which loads its weights and what it has on disk, whether `ahead` or not."""
        if self._server is not None:
            self._before_restart(self._server)
        self._stop()
        self._running()

    def forget(self) -> None:
        self.close()
        self._running()

    def close(self) -> None:
        """End the server, and remove what it wrote."""
        self._stop()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _stop(self) -> None:
        if self._server is not None:
            self._server.close()
        self._server = None


class LlamaServer(Http):
    """llama.cpp's server with one slot, which is saved before a restart and restored after it."""

    SLOT_FILE = "slot.bin"

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
                str(CONTEXT_TOKENS),
                "--parallel",
                "1",
                "--slot-save-path",
                f"{folder}/",
            ]

        super().__init__("llama-server", command, gguf.stem, folder)

    def _body(self, messages: list[dict[str, str]], max_tokens: int) -> dict[str, Any]:
        return {**super()._body(messages, max_tokens), "cache_prompt": True}

    def _before_restart(self, server: Server) -> None:
        server.post("/slots/0?action=save", {"filename": self.SLOT_FILE})

    def _on_ready(self, server: Server) -> None:
        if (self._folder / self.SLOT_FILE).exists():
            server.post("/slots/0?action=restore", {"filename": self.SLOT_FILE})


class VllmMlx(Http):
    """vllm-mlx with the batching that its prefix cache needs.

    It keeps that cache below the home folder and writes it when it ends, so it gets a home of its own.
    Its answers do not report what was reused, but its counters do.
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
        self._saved_tokens = 0

    def _on_ready(self, server: Server) -> None:
        self._saved_tokens = saved_tokens(_statistics(server)) or 0

    def _complete(self, server: Server, counts: PromptCounts) -> PromptCounts:
        if counts.reused is not None:
            return counts
        saved = saved_tokens(_statistics(server))
        if saved is None:
            return counts
        reused, self._saved_tokens = saved - self._saved_tokens, saved
        return PromptCounts(counts.prompt, min(reused, counts.prompt))

    def _memory(self, server: Server) -> int:
        mebibytes = _statistics(server).get("current_memory_mb")
        return super()._memory(server) if mebibytes is None else int(mebibytes * MEBIBYTE)


def _statistics(server: Server) -> Mapping[str, Any]:
    """The counters of vllm-mlx's prefix cache; a vision model has them one level deeper."""
    engine: Mapping[str, Any] = server.get("/v1/cache/stats").get("engine_cache") or {}
    statistics: Mapping[str, Any] = engine.get("prefix_cache", engine)
    return statistics


def saved_tokens(statistics: Mapping[str, Any]) -> int | None:
    """Prompt tokens that the prefix cache has saved since the server's start."""
    return statistics.get("tokens_saved")


def mlx_lm(model_folder: Path, folder: Path) -> Http:
    """mlx-lm's own server."""

    def command(port: int) -> list[str]:
        serve = [sys.executable, "-m", "mlx_lm", "server", "--model", str(model_folder)]
        return [*serve, "--host", HOST, "--port", str(port)]

    return Http("mlx-lm's server over HTTP", command, "default_model", folder)


def ollama(program: str, model: str, folder: Path) -> Http:
    """Another server beside the one that may be running, with the same models."""

    def command(port: int) -> list[str]:
        return [
            "env",
            f"OLLAMA_HOST={HOST}:{port}",
            f"OLLAMA_CONTEXT_LENGTH={CONTEXT_TOKENS}",
            "OLLAMA_KEEP_ALIVE=-1",
            program,
            "serve",
        ]

    return Http("ollama", command, model, folder, ready="/api/version")


def available(
    model_folder: Path | None,
    gguf: Path | None,
    ollama_model: str | None,
    folder: Path,
    *,
    path: str | None = None,
) -> list[Contender]:
    """The contenders that can run here; none is started before it is asked.

    `model_folder` is an MLX model's, None for one that has no files. Each contender writes in a folder
    of its own in `folder`. `path` is searched for their commands, instead of the PATH.
    """
    contenders: list[Contender] = []
    if model_folder is not None:
        contenders.append(mlx_lm(model_folder, folder / "mlx-lm"))
    if model_folder is not None and (program := shutil.which("vllm-mlx", path=path)):
        contenders.append(VllmMlx(program, model_folder, folder / "vllm-mlx"))
    if gguf is not None and (program := shutil.which("llama-server", path=path)):
        contenders.append(LlamaServer(program, gguf, folder / "llama-server"))
    if ollama_model and (program := shutil.which("ollama", path=path)):
        contenders.append(ollama(program, ollama_model, folder / "ollama"))
    return contenders


def has_text(event: Event) -> bool:
    """Whether an event brings text, the model's thinking included."""
    return any(
        (choice.get("delta") or {}).get(name)
        for choice in event.get("choices") or ()
        for name in ("content", "reasoning", "reasoning_content")
    )


def prompt_counts(event: Event) -> PromptCounts | None:
    """The prompt's counts in an event: OpenAI's `usage` and llama-server's `timings`."""
    usage, timings = event.get("usage") or {}, event.get("timings") or {}
    prefilled, prompt = timings.get("prompt_n"), usage.get("prompt_tokens")
    reused = (usage.get("prompt_tokens_details") or {}).get("cached_tokens")
    if reused is None:
        reused = timings.get("cache_n")
    if prefilled is not None and prompt is None:
        prompt = prefilled + (reused or 0)
    if prefilled is not None and reused is None:
        reused = prompt - prefilled
    return None if prompt is None else PromptCounts(prompt, reused)
