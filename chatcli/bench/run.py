"""Runs a workload: its model, its contenders, the race and the notes."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import mlx.core as mx

from chatcli.bench import http, restore, shapes, workloads
from chatcli.bench.contender import Contender
from chatcli.bench.measure import temporary_folder
from chatcli.bench.ours import Chatcli, ChatcliTypeahead
from chatcli.bench.peers import MlxLmFile, MlxLmServer, NoReuse
from chatcli.bench.race import Progress, race
from chatcli.bench.report import Outcome
from chatcli.bench.scripted import Script, Scripted, script
from chatcli.bench.workloads import Workload
from chatcli.errors import UsageError
from chatcli.model.load import LoadedModel, load
from chatcli.model.locate import resolve
from chatcli.settings.values import POCKET
from chatcli.text import file_size
from chatcli.threads.mlx_thread import Worker

RESTORE_ROUNDS = 9
QUICK, USUAL, FULL = range(3)
LARGE = ("qwen3-8b", "gpt-oss-20b", "qwen3.5-9b")


@dataclass(frozen=True)
class Plan:
    """What to measure with: `shape` is one of `shapes.SHAPES` and goes before `model`.

    `size` is QUICK, USUAL or FULL (as published). `only` selects contenders beside the reference by a
    part of their names; empty: all. `servers`: over HTTP too; `gguf` and `ollama` are what those run.
    """

    model: str = POCKET
    shape: str | None = None
    size: int = USUAL
    repeats: int = 1
    only: Sequence[str] = ()
    servers: bool = False
    gguf: Path | None = None
    ollama: str | None = None


@dataclass(frozen=True)
class BenchSetup:
    """A loaded model, the thread that runs it and a temporary folder."""

    worker: Worker
    loaded: LoadedModel
    folder: Path


# Called with the number of letters to a token, and the plan's size.
WORKLOADS: dict[str, Callable[[float, int], Workload]] = {
    "turns": lambda _, size: workloads.turns((10, 40, 40)[size]),
    "models": lambda _, size: replace(
        workloads.turns(6, (64, 256, 256)[size]),
        name="models",
        published="mlx-lm PR 1042, 6 turns of 256 tokens: full attention 94.8 %, with sliding "
        "windows 80.5 %, recurrent hybrid 80.4 %",
    ),
    "branch": lambda _, size: workloads.branch((4, 8, 20)[size]),
    "reopen": lambda _, size: workloads.reopen(((1, 3), (1, 10), (1, 10, 40))[size]),
    "ways": lambda letters, size: workloads.ways(
        ((1300,), (1300, 5000), (1300, 5000, 21_000))[size], 5, letters, reply=16
    ),
    "agentic": lambda letters, size: workloads.agentic((700, 2800, 28_000)[size], (4, 8, 20)[size], letters),
    "shared-prefix": lambda letters, size: workloads.shared_prefix(
        512, (3, 10, 50)[size], letters, repeats=1
    ),
    "exact": lambda letters, size: workloads.exact((64, (500, 2000, 16_000)[size]), letters),
    "paste": lambda letters, size: workloads.paste(((300,), (500, 2000), (500, 2000, 8000))[size], letters),
}


def run(name: str, plan: Plan, progress: Progress) -> list[Outcome]:
    """One workload, once for each model that it takes.

    Raises `ModelError` or `UsageError`.
    """
    if name != "models" or plan.shape:
        return [_run(name, plan, progress)]
    # One model of each kind of attention.
    kinds = LARGE if plan.size == FULL else shapes.SMALL
    return [_run(name, replace(plan, shape=shape), progress) for shape in kinds]


def _run(name: str, plan: Plan, progress: Progress) -> Outcome:
    with opened(plan) as setup:
        workload = WORKLOADS[name](letters_per_token(setup.loaded.tokenizer), plan.size)
        reply = setup.worker.call(script, setup.loaded.tokenizer, workload.reply)
        setup = replace(setup, loaded=setup.worker.call(scripted, setup.loaded, reply))
        with contextlib.ExitStack() as stack:
            contenders = []
            for contender in _selected(_contenders(setup, name, plan), plan.only):
                stack.callback(contender.close)
                contenders.append(contender)
            result = race(contenders, workload.steps, reply, plan.repeats * workload.repeats, progress)
            notes = _restore_notes(setup, contenders) if name == "reopen" else []
        return Outcome(workload, setup.loaded.name, result, notes)


def letters_per_token(tokenizer: Any) -> float:
    """Of the workloads' plain text."""
    text = workloads.long_text(2000)
    return len(text) / len(tokenizer.encode(text, add_special_tokens=False))


@contextlib.contextmanager
def opened(plan: Plan) -> Iterator[BenchSetup]:
    """The plan's model, and a folder that is removed afterwards."""
    worker = Worker()
    try:
        with temporary_folder() as folder:
            loaded = worker.call(shapes.load, plan.shape) if plan.shape else worker.call(load, plan.model)
            yield BenchSetup(worker, loaded, folder)
    finally:
        worker.close()


def scripted(loaded: LoadedModel, reply: Script) -> LoadedModel:
    """The model, following a script. Makes an array, so it runs on the worker."""
    vocabulary = len(loaded.tokenizer.get_vocab())
    return replace(loaded, model=Scripted(loaded.model, vocabulary, reply.ids))


def _contenders(setup: BenchSetup, name: str, plan: Plan) -> Iterator[Contender]:
    worker, loaded, folder = setup.worker, setup.loaded, setup.folder
    yield NoReuse(worker, loaded)
    yield MlxLmServer(worker, loaded)
    yield MlxLmFile(worker, loaded, folder)
    yield Chatcli(worker, loaded, folder)
    if name == "paste":
        yield ChatcliTypeahead(worker, loaded, folder)
    if plan.servers or plan.gguf or plan.ollama:
        model_folder = None if plan.shape else resolve(plan.model)
        yield from http.available(model_folder, plan.gguf, plan.ollama, folder / "http")


def _selected(contenders: Iterator[Contender], only: Sequence[str]) -> list[Contender]:
    """The reference and those with one of `only` in their names. Raises `UsageError`."""
    reference, *others = contenders
    for part in only:
        if not any(part in contender.name for contender in others):
            names = ", ".join(f"'{contender.name}'" for contender in others)
            raise UsageError(f"There is no contender '{part}': choose among {names}.")
    chosen = [other for other in others if not only or any(part in other.name for part in only)]
    return [reference, *chosen]


def _restore_notes(setup: BenchSetup, contenders: Sequence[Contender]) -> list[str]:
    """How a restore of the whole conversation compares with a plain read of its bytes."""
    ours = next((contender for contender in contenders if type(contender) is Chatcli), None)
    if ours is None:
        return []
    folder, path = ours.last_conversation()
    loaded = setup.loaded
    result = restore.of_path(setup.worker, loaded, loaded.name, folder, path, RESTORE_ROUNDS)
    fresh, ratio = result.fresh, result.fresh.ratio
    return [
        f"Restoring all {path.end:,} tokens ({file_size(result.bytes)} in {result.files} files) takes "
        f"{fresh.ours.median * 1000:.1f} ms, {ratio.median:.2f} times a plain mx.load of the same "
        f"bytes in one file ({ratio.least:.2f} … {ratio.most:.2f}, {fresh.rounds} rounds in turn)."
        + ("" if result.equal else " The arrays differ!")
    ]


def device() -> str:
    """What MLX runs on here."""
    default = mx.default_device()
    properties = mx.device_info(default) if hasattr(mx, "device_info") else {}
    return str(properties.get("device_name") or default)
