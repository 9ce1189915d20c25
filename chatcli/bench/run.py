"""Sets up a workload's model and contenders, and runs it; refuses to know how it is shown."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import mlx.core as mx

from chatcli.bench import http, restore, shapes, workloads
from chatcli.bench.contender import Contender
from chatcli.bench.ours import Chatcli, Drafted
from chatcli.bench.peers import Cold, Saved, Served
from chatcli.bench.race import Progress, race
from chatcli.bench.report import Outcome
from chatcli.bench.scripted import Script, Scripted, script
from chatcli.bench.workloads import Workload
from chatcli.errors import UsageError
from chatcli.model import load as model
from chatcli.model.load import LoadedModel
from chatcli.text import file_size
from chatcli.threads.mlx_thread import Worker

ROUNDS = 9
QUICK, USUAL, FULL = range(3)
LARGE = ("qwen3-8b", "gpt-oss-20b", "qwen3.5-9b")


@dataclass(frozen=True)
class Plan:
    """What to measure with: `shape` is one of `shapes.SHAPES` and goes before `model`.

    `size` is QUICK, USUAL or FULL (as published). `only` names the contenders that are wanted beside
    the reference; none: all. `servers`: over HTTP too; `gguf` and `ollama` are what those would run.
    """

    model: str = model.POCKET
    shape: str | None = None
    size: int = USUAL
    repeats: int = 1
    only: Sequence[str] = ()
    servers: bool = False
    gguf: Path | None = None
    ollama: str | None = None

    @property
    def shapes(self) -> Sequence[str]:
        """The three families that `models` compares."""
        return LARGE if self.size == FULL else shapes.SMALL


@dataclass(frozen=True)
class House:
    """A loaded model, the thread that runs it and a folder for what is written."""

    worker: Worker
    loaded: LoadedModel
    folder: Path


def _turns(_: float, size: int) -> Workload:
    return workloads.turns((10, 40, 40)[size])


def _models(_: float, size: int) -> Workload:
    return replace(
        workloads.turns(6, (64, 256, 256)[size]),
        name="models",
        published="mlx-lm PR 1042, 6 turns of 256 tokens: full attention 94.8 %, with sliding "
        "windows 80.5 %, recurrent hybrid 80.4 %",
    )


def _branch(_: float, size: int) -> Workload:
    return workloads.branch((4, 8, 20)[size])


def _reopen(_: float, size: int) -> Workload:
    return workloads.reopen(((1, 3), (1, 10), (1, 10, 40))[size])


def _agentic(per_token: float, size: int) -> Workload:
    tokens, rounds = ((700, 4), (2800, 8), (28_000, 20))[size]
    return workloads.agentic(tokens, rounds, per_token)


def _shared_prefix(per_token: float, size: int) -> Workload:
    prompts = (3, 10, 50)[size]
    return workloads.shared_prefix(512, prompts, per_token, repeats=1)


def _exact(per_token: float, size: int) -> Workload:
    return workloads.exact(((64, 500), (64, 2000), (64, 16_000))[size], per_token)


def _paste(per_token: float, size: int) -> Workload:
    return workloads.paste(((300,), (500, 2000), (500, 2000, 8000))[size], per_token)


# Each is told how many letters there are to a token, and the size.
WORKLOADS: dict[str, Callable[[float, int], Workload]] = {
    "turns": _turns,
    "models": _models,
    "branch": _branch,
    "reopen": _reopen,
    "agentic": _agentic,
    "shared-prefix": _shared_prefix,
    "exact": _exact,
    "paste": _paste,
}


def run(name: str, plan: Plan, progress: Progress) -> list[Outcome]:
    """One workload, once for each model that it takes.

    Raises `ModelError` or `UsageError`.
    """
    if name != "models":
        return [_one(name, plan, progress)]
    chosen = [plan.shape] if plan.shape else plan.shapes
    return [_one(name, replace(plan, shape=shape), progress) for shape in chosen]


def _one(name: str, plan: Plan, progress: Progress) -> Outcome:
    with opened(plan) as house:
        workload = WORKLOADS[name](per_token(house), plan.size)
        said = house.worker.call(script, house.loaded.tokenizer, workload.reply)
        house = replace(house, loaded=house.worker.call(scripted, house.loaded, said))
        with entered(house, name, plan) as contenders:
            found = race(contenders, workload.steps, said, plan.repeats * workload.repeats, progress)
            notes = _read(house, contenders) if name == "reopen" else []
        return Outcome(workload, house.loaded.name, found, notes)


def per_token(house: House) -> float:
    """Letters to a token of the workloads' plain text."""
    text = workloads.long_text(2000)
    return len(text) / len(house.loaded.tokenizer.encode(text, add_special_tokens=False))


@contextlib.contextmanager
def opened(plan: Plan) -> Iterator[House]:
    """The plan's model, and a folder that is removed afterwards."""
    worker = Worker()
    try:
        with tempfile.TemporaryDirectory(prefix="chatcli-bench-") as folder:
            load, name = (shapes.load, plan.shape) if plan.shape else (model.load, plan.model)
            yield House(worker, worker.call(load, name), Path(folder))
    finally:
        worker.close()


def scripted(loaded: LoadedModel, said: Script) -> LoadedModel:
    """The model, told what to say. Makes an array, so it runs on the worker."""
    vocabulary = len(loaded.tokenizer.get_vocab())
    return replace(loaded, model=Scripted(loaded.model, vocabulary, said.ids))


@contextlib.contextmanager
def entered(house: House, name: str, plan: Plan) -> Iterator[list[Contender]]:
    """Everyone who runs, the reference first; closed afterwards whatever happens."""
    with contextlib.ExitStack() as stack:
        made = []
        for contender in _wanted(_contenders(house, name, plan), plan.only):
            stack.callback(contender.close)
            made.append(contender)
        yield made


def _contenders(house: House, name: str, plan: Plan) -> Iterator[Contender]:
    parts = house.worker, house.loaded
    yield Cold(*parts)
    yield Served(*parts)
    yield Saved(*parts, house.folder)
    yield Chatcli(*parts, house.folder)
    if name == "paste":
        yield Drafted(*parts, house.folder)
    if plan.servers or plan.gguf or plan.ollama:
        folder = None if plan.shape else model.resolve(plan.model)
        yield from http.found(folder, plan.gguf, plan.ollama, house.folder / "http")


def device() -> str:
    """What MLX runs on here."""
    where = mx.default_device()
    told = mx.device_info(where) if hasattr(mx, "device_info") else {}
    return str(told.get("device_name") or where)


def _wanted(every: Iterator[Contender], only: Sequence[str]) -> list[Contender]:
    """The reference and those whose names have one of `only` in them. Raises `UsageError`."""
    reference, *others = every
    for part in only:
        if not any(part in one.name for one in others):
            names = ", ".join(f"'{one.name}'" for one in others)
            raise UsageError(f"There is no contender '{part}': choose among {names}.")
    chosen = [one for one in others if not only or any(part in one.name for part in only)]
    return [reference, *chosen]


def _read(house: House, contenders: Sequence[Contender]) -> list[str]:
    """How a restore of the whole conversation compares with a plain read of its bytes."""
    ours = next((one for one in contenders if type(one) is Chatcli), None)
    if ours is None:
        return []
    folder, path = ours.place()
    found = restore.of_path(house.worker, house.loaded, house.loaded.name, folder, path, ROUNDS)
    least, most = found.fresh.ratio.least, found.fresh.ratio.most
    return [
        f"Restoring all {path.end:,} tokens ({file_size(found.bytes)} in {found.files} files) takes "
        f"{found.fresh.ours.median * 1000:.1f} ms, {found.fresh.ratio.median:.2f} times a plain mx.load of "
        f"the same bytes in one file ({least:.2f} … {most:.2f}, {found.fresh.rounds} rounds in turn)."
        + ("" if found.equal else " The arrays differ!")
    ]
