"""Runs a workload with every contender, with scripted replies."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import mlx.core as mx

from chatcli.bench import workloads
from chatcli.bench.ours import Chatcli
from chatcli.bench.peers import MlxLmFile, MlxLmServer, NoReuse
from chatcli.bench.race import Contender, Progress, Workload, race
from chatcli.bench.report import Outcome
from chatcli.bench.scripted import Script, Scripted, script
from chatcli.errors import UsageError
from chatcli.model.load import LoadedModel, load
from chatcli.settings.values import POCKET
from chatcli.threads.mlx_thread import Worker

QUICK, USUAL, FULL = range(3)


@dataclass(frozen=True)
class Plan:
    """What to measure. `size` is QUICK, USUAL or FULL (as published).

    `only` selects contenders besides the reference by a part of their names; empty: all.
    """

    model: str = POCKET
    size: int = USUAL
    repeats: int = 1
    only: Sequence[str] = ()


@dataclass(frozen=True)
class BenchSetup:
    """A loaded model, the thread that runs it and a temporary folder."""

    worker: Worker
    loaded: LoadedModel
    folder: Path


# Called with the letters per token and the plan's size.
MakeWorkload = Callable[[float, int], Workload]
WORKLOADS: dict[str, MakeWorkload] = {
    "turns": lambda _, size: workloads.turns((10, 40, 40)[size]),
    "agentic": lambda letters, size: workloads.agentic((700, 2800, 28_000)[size], (4, 8, 20)[size], letters),
    "reopen": lambda _, size: workloads.reopen(((1, 3), (1, 10), (1, 10, 40))[size]),
}


def contenders(setup: BenchSetup) -> Iterator[Contender]:
    """The reference, mlx-lm's own ways, and chatcli."""
    yield NoReuse(setup.worker, setup.loaded)
    yield MlxLmServer(setup.worker, setup.loaded)
    yield MlxLmFile(setup.worker, setup.loaded, setup.folder)
    yield Chatcli(setup.worker, setup.loaded, setup.folder)


def run(
    make: MakeWorkload,
    plan: Plan,
    progress: Progress,
    contenders: Callable[[BenchSetup], Iterator[Contender]] = contenders,
) -> Outcome:
    """Raises `ModelError` or `UsageError`."""
    with opened(plan) as setup:
        workload = make(letters_per_token(setup.loaded.tokenizer), plan.size)
        reply = setup.worker.call(script, setup.loaded.tokenizer, workload.reply)
        setup = replace(setup, loaded=setup.worker.call(scripted, setup.loaded, reply))
        with contextlib.ExitStack() as stack:
            reference, *others = contenders(setup)
            for contender in (reference, *others):
                stack.callback(contender.close)
            for part in plan.only:
                if not any(part in other.name for other in others):
                    names = ", ".join(f"'{other.name}'" for other in others)
                    raise UsageError(f"There is no contender '{part}': choose among {names}.")
            only = [other for other in others if any(part in other.name for part in plan.only)]
            chosen = [reference, *(only or others)]
            result = race(chosen, workload.steps, reply, plan.repeats, progress)
        return Outcome(workload, setup.loaded.name, result)


def letters_per_token(tokenizer: Any) -> float:
    """The average letters per token of the workloads' plain text."""
    text = workloads.long_text(2000)
    return len(text) / len(tokenizer.encode(text, add_special_tokens=False))


@contextlib.contextmanager
def temporary_folder() -> Iterator[Path]:
    """A temporary folder, removed afterwards."""
    with tempfile.TemporaryDirectory(prefix="chatcli-bench-") as name:
        yield Path(name)


@contextlib.contextmanager
def opened(plan: Plan) -> Iterator[BenchSetup]:
    """The plan's model, and a temporary folder, removed afterwards."""
    worker = Worker()
    try:
        with temporary_folder() as folder:
            yield BenchSetup(worker, worker.call(load, plan.model), folder)
    finally:
        worker.close()


def scripted(loaded: LoadedModel, reply: Script) -> LoadedModel:
    """Make the model follow a script. Creates an array, so it must run on the worker."""
    vocabulary = len(loaded.tokenizer.get_vocab())
    return replace(loaded, model=Scripted(loaded.model, vocabulary, reply.ids))


def device() -> str:
    """The device that MLX uses."""
    default = mx.default_device()
    properties = mx.device_info(default) if hasattr(mx, "device_info") else {}
    return str(properties.get("device_name") or default)
