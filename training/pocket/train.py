"""Trains pocket on an endless stream of generated conversations, and exports it.

Under torchrun every GPU learns from conversations of its own and all take the mean of their gradients.
"""

from __future__ import annotations

import argparse
import os
import time
from collections import defaultdict, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from multiprocessing import get_context
from pathlib import Path
from queue import Empty
from random import Random
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer
from torch import Tensor
from torch.nn import functional

from chatcli.pocket import FOLDER
from training.pocket import tokenizer as words
from training.pocket.configuration import Shape, export_configuration
from training.pocket.conversations import LONG, Conversation, Difficulty, by_hand, conversation
from training.pocket.grounding import grounded
from training.pocket.network import CHUNK, Network
from training.pocket.tokenizer import HISTORY, LAST, Coder, Sample
from training.pocket.values import Source

LEVELS = [
    Difficulty(2, 2),
    Difficulty(4, 4),
    Difficulty(8, 8),
    Difficulty(16, 16),
    Difficulty(24, 30),
]
HISTORY_WEIGHT = 0.4
NO_THINKING = 0.12
THOUGHT_THROUGHOUT = 0.5
# In how many of their last turns long conversations think, at most.
DEEPEST = 24
PATIENCE = 60
# Batches of a length that may be learnt once more.
KEPT = 200
LONGEST = 8192


STEPS = [128, 192, 256, 320, 384, 448, 512, 640, 768, 1024, 1280, 1536, 2048, 3072, 4096, 6144, LONGEST]


@dataclass
class Pool:
    """Samples waiting for others of their length."""

    tokens: int
    waiting: dict[int, list[Sample]] = field(default_factory=lambda: defaultdict(list))

    def add(self, sample: Sample) -> dict[str, Any] | None:
        """A full batch, if this sample completes one: ids and marks [B, T]."""
        if len(sample.ids) > LONGEST:
            return None
        length = next(step for step in STEPS if step >= len(sample.ids))
        rows = self.waiting[length]
        rows.append(sample)
        if len(rows) < self.tokens // length:
            return None
        self.waiting[length] = []
        ids = np.zeros((len(rows), length), np.int16)
        marks = np.zeros((len(rows), length), np.uint8)
        for i, row in enumerate(rows):
            ids[i, : len(row.ids)], marks[i, : len(row.ids)] = row.ids, row.marks
        return {"ids": ids, "marks": marks, "sorts": [row.sort for row in rows]}


def produce_batches(
    seed: int, folder: str, tokens: int, hand: float, level: Any, long: Any, out: Any
) -> None:
    """A worker process: put endless batches on the queue; `hand` is the share of those written by hand."""
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    torch.set_num_threads(1)
    source, coder = (
        Source(Random(seed)),
        Coder(Tokenizer.from_file(f"{folder}/tokenizer.json")),
    )
    pool = Pool(tokens)
    spent = {True: 0, False: 0}
    while True:
        # `long` is the share of tokens that long conversations get.
        far = spent[True] < long.value * sum(spent.values())
        make = by_hand if source.rng.random() < hand else conversation
        talk = make(source, LONG if far else LEVELS[level.value])
        think, deep = source.rng.random() >= NO_THINKING, 1
        if far:
            deep = source.rng.randint(2, DEEPEST)
        elif source.rng.random() < THOUGHT_THROUGHOUT:
            deep = len(talk.turns)
        talk = Conversation(talk.system, grounded(talk.turns, deep))
        sample = coder.sample(talk, think, deep)
        spent[far] += len(sample.ids) if len(sample.ids) <= LONGEST else 0
        batch = pool.add(sample)
        if batch is not None:
            out.put(batch)


@dataclass
class Score:
    """The running share of last turns that were right in every token, by kind."""

    right: dict[str, float] = field(default_factory=dict)

    def note(self, sorts: list[str], exact: list[bool]) -> None:
        """Blend in a batch."""
        for sort, good in zip(sorts, exact, strict=True):
            self.right[sort] = 0.995 * self.right.get(sort, 0.0) + 0.005 * good

    def row(self) -> str:
        """One line."""
        return ", ".join(f"{k} {100 * v:.1f}" for k, v in sorted(self.right.items()))


def losses_of(hidden: Tensor, matrix: Tensor, goal: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
    """The weighted mean loss of hidden states [N, D], and which of them choose a wrong token [N]."""
    logits = functional.linear(hidden, matrix).float()
    losses = functional.cross_entropy(logits, goal, reduction="none")
    return (losses * weight).sum() / weight.sum(), logits.argmax(-1) != goal


@dataclass(frozen=True)
class Lesson:
    """A batch as a step needs it: ids [B, T], the places of learnt tokens among all, what each must be.

    `last` are those of last turns among them, `rows` the conversations that these belong to.
    """

    ids: Tensor
    places: Tensor
    goal: Tensor
    weight: Tensor
    last: Tensor
    rows: Any
    sorts: list[str]

    @classmethod
    def of(cls, batch: dict[str, Any], device: str) -> Lesson:
        """Send a batch to the device without waiting for it."""

        def send(array: Any) -> Tensor:
            tensor = torch.from_numpy(np.ascontiguousarray(array))
            return tensor if device == "cpu" else tensor.pin_memory().to(device, non_blocking=True)

        ids, marks = batch["ids"].astype(np.int64), batch["marks"][:, 1:]
        at = np.flatnonzero(marks)
        row = at // marks.shape[1]
        kept = marks.ravel()[at]
        weight = np.where(kept == HISTORY, HISTORY_WEIGHT, 1.0).astype(np.float32)
        last = np.flatnonzero(kept == LAST)
        goal = ids[:, 1:].ravel()[at]
        return cls(send(ids), send(at + row), send(goal), send(weight), send(last), row[last], batch["sorts"])


@dataclass
class Supply:
    """Batches as they are generated and, with `twice`, each beside an earlier one of its length.

    Where generating cannot keep up, earlier ones are learnt alone.
    """

    queue: Any
    twice: bool
    rng: Random
    kept: dict[int, deque[dict[str, Any]]] = field(
        default_factory=lambda: defaultdict(lambda: deque(maxlen=KEPT))
    )

    def next(self) -> dict[str, Any]:
        """The batch of a step."""
        if not self.twice:
            return self.queue.get(timeout=PATIENCE)  # type: ignore[no-any-return]
        many = sum(map(len, self.kept.values())) > KEPT
        try:
            batch = self.queue.get(block=not many, timeout=PATIENCE)
        except Empty:
            if not many:
                raise
            lengths = list(self.kept)
            (length,) = self.rng.choices(lengths, [len(self.kept[each]) for each in lengths])
            return self.beside(self.rng.choice(self.kept[length]))
        joined = self.beside(batch)
        self.kept[batch["ids"].shape[1]].append(batch)
        return joined

    def beside(self, batch: dict[str, Any]) -> dict[str, Any]:
        """A batch with an earlier one, if there is any."""
        before = self.kept[batch["ids"].shape[1]]
        if not before:
            return batch
        other = self.rng.choice(before)
        joined = {name: np.concatenate([batch[name], other[name]]) for name in ("ids", "marks")}
        return {**joined, "sorts": batch["sorts"] + other["sorts"]}


def rate(progress: float, hold: float) -> float:
    """The share of the top learning rate: a plateau, then a straight fall."""
    return 1.0 if progress < hold else max(0.02, (1 - progress) / (1 - hold))


def exported(name: str, weight: Tensor) -> Tensor:
    """A weight as the file holds it: bfloat16, but for what decays are computed of.

    One wide vector, of a norm say, makes all that follows it wide on a CPU, and half as fast.
    """
    wide = name.endswith(("A_log", "dt_bias"))
    return weight.detach().to("cpu", torch.float32 if wide else torch.bfloat16).contiguous()


def export(net: Network, folder: Path) -> None:
    """Write weights and the configuration as mlx-lm loads them."""
    folder.mkdir(parents=True, exist_ok=True)
    state = {f"model.{k}": exported(k, v) for k, v in net.state_dict().items()}
    save_file(state, str(folder / "model.safetensors"), metadata={"format": "pt"})
    (folder / "model.safetensors").chmod(0o644)
    export_configuration(net.shape, folder)


def load(net: Network, folder: Path) -> None:
    """Read exported weights back."""
    state = load_file(str(folder / "model.safetensors"))
    net.load_state_dict({k.removeprefix("model."): v.float() for k, v in state.items()})


class Muon(torch.optim.Optimizer):
    """Momentum made orthogonal, for matrices: every direction of an update gets the same length."""

    def __init__(self, matrices: list[Tensor], lr: float) -> None:
        groups = [
            {"params": [p for p in matrices if p.shape == shape]} for shape in {p.shape for p in matrices}
        ]
        super().__init__(groups, {"lr": lr, "momentum": 0.95, "decay": 0.02})

    @torch.no_grad()  # type: ignore[untyped-decorator]
    def step(self, closure: Any = None) -> None:
        """Move all matrices of a shape at once."""
        for group in self.param_groups:
            matrices = group["params"]
            grad = torch.stack([p.grad for p in matrices])
            state = self.state[matrices[0]]
            mean = state.setdefault("mean", torch.zeros_like(grad))
            mean.lerp_(grad, 1 - group["momentum"])
            update = orthogonal(grad.lerp(mean, group["momentum"])).float()
            rows, columns = update.shape[1:]
            scale = group["lr"] * max(1.0, rows / columns) ** 0.5
            torch._foreach_mul_(matrices, 1 - group["lr"] * group["decay"])
            torch._foreach_add_(matrices, list(update.unbind(0)), alpha=-scale)


def orthogonal(batch: Tensor) -> Tensor:
    """Each matrix of [N, R, C] with its singular values brought near one, by Newton and Schulz."""
    x = batch.bfloat16()
    turned = x.shape[1] > x.shape[2]
    x = x.mT if turned else x
    x = x / (x.norm(dim=(1, 2), keepdim=True) + 1e-7)
    for _ in range(5):
        a = x @ x.mT
        b = torch.baddbmm(a, a, a, beta=-4.7750, alpha=2.0315)
        x = torch.baddbmm(x, b, x, beta=3.4445)
    return x.mT if turned else x


def optimizers(net: Network, top: float, muon: float) -> list[torch.optim.Optimizer]:
    """Muon for the layers' matrices, AdamW for the rest."""
    inner = {id(p) for p in net.layers.parameters() if p.ndim == 2 and min(p.shape) > 8} if muon else set()
    matrices = [p for p in net.parameters() if id(p) in inner]
    many = [p for p in net.parameters() if p.ndim > 1 and id(p) not in inner]
    few = [p for p in net.parameters() if p.ndim < 2]
    groups = [{"params": many, "weight_decay": 0.05}, {"params": few, "weight_decay": 0.0}]
    adam = torch.optim.AdamW(groups, lr=top, betas=(0.9, 0.98), fused=torch.cuda.is_available())
    found = [adam, *([Muon(matrices, muon)] if matrices else [])]
    for each in found:
        for group in each.param_groups:
            group["top"] = group["lr"]
    return found


def raise_level(score: Score, level: Any, least: int = 0) -> None:
    """Go up a level once eight in ten answers are right, or it is time."""
    if (score.right.get("ask", 0) > 0.8 or level.value < least) and level.value < len(LEVELS) - 1:
        level.value += 1
        score.right["ask"] = 0.5
        print(f"level {level.value}", flush=True)


def start_workers(options: argparse.Namespace) -> tuple[Any, Any, Any, list[Any]]:
    """Start the worker processes. Returns their queue, the level and long share they read, and them."""
    spawn = get_context("spawn")
    level, long, queue = (
        spawn.Value("i", options.level),
        spawn.Value("d", 0.0),
        spawn.Queue(options.workers * 3),
    )
    workers = [
        spawn.Process(
            target=produce_batches,
            args=(
                options.seed * 1000 + rank() * 100 + i,
                options.tokenizer,
                options.tokens,
                options.hand,
                level,
                long,
                queue,
            ),
            daemon=True,
        )
        for i in range(options.workers)
    ]
    for worker in workers:
        worker.start()
    return queue, level, long, workers


def rank() -> int:
    """Which of the processes that train together this is."""
    return int(os.environ.get("RANK", "0"))


def share_gradients(net: Network) -> None:
    """Replace the gradients by their mean over all processes."""
    if not dist.is_initialized():
        return
    grads = [p.grad for p in net.parameters() if p.grad is not None]
    flat = torch.cat([grad.flatten() for grad in grads])
    dist.all_reduce(flat, dist.ReduceOp.SUM)
    flat /= dist.get_world_size()
    parts = flat.split([grad.numel() for grad in grads])
    torch._foreach_copy_(grads, [part.view_as(grad) for part, grad in zip(parts, grads, strict=True)])


def agreed(value: float, device: str) -> float:
    """The first process's value: rates must be the same everywhere, and clocks are not."""
    if not dist.is_initialized():
        return value
    shared = torch.tensor([value], dtype=torch.float64, device=device)
    dist.broadcast(shared, 0)
    return float(shared.item())


@dataclass
class Run:
    """One network while it is trained."""

    net: Network
    optimizers: list[torch.optim.Optimizer]
    losses: Callable[..., tuple[Tensor, Tensor]] = losses_of
    score: Score = field(default_factory=Score)
    level: int = 0
    step: int = 0
    seen: int = 0
    result: tuple[Lesson, Tensor, Tensor] | None = None

    def learn(self, batch: dict[str, Any], device: str, scale: float) -> float:
        """One step; the loss of the step before, as waiting for this one's would stop the device."""
        for each in self.optimizers:
            for group in each.param_groups:
                group["lr"] = group["top"] * scale * min(1.0, (self.step + 1) / 200)
        lesson = Lesson.of(batch, device)
        with torch.autocast(device.split(":")[0], torch.bfloat16):
            hidden = self.net(lesson.ids).flatten(0, 1)[lesson.places]
            loss, wrong = self.losses(hidden, self.net.embed_tokens.weight, lesson.goal, lesson.weight)
        for each in self.optimizers:
            each.zero_grad(set_to_none=True)
        loss.backward()
        share_gradients(self.net)
        torch.nn.utils.clip_grad_norm_(self.net.parameters(), 1.0)
        for each in self.optimizers:
            each.step()
        self.step, self.seen = self.step + 1, self.seen + batch["ids"].size
        before, self.result = self.result, (lesson, loss.detach(), wrong[lesson.last])
        return self.noted(*before) if before else 0.0

    def noted(self, lesson: Lesson, loss: Tensor, wrong: Tensor) -> float:
        """Count which conversations of a step were right in every token of the last turn; its loss."""
        bad = np.zeros(len(lesson.sorts), bool)
        bad[lesson.rows[wrong.cpu().numpy()]] = True
        self.score.note(lesson.sorts, (~bad).tolist())
        return float(loss.item())


def fit(options: argparse.Namespace) -> None:
    """Train for so many seconds, saving as it goes. Of several trials the best goes on."""
    device = f"cuda:{os.environ.get('LOCAL_RANK', '0')}" if torch.cuda.is_available() else "cpu"
    if "RANK" in os.environ:
        dist.init_process_group("nccl" if torch.cuda.is_available() else "gloo")
    if device != "cpu":
        torch.cuda.set_device(device)
    # On a CPU with bfloat16 units "medium" uses them.
    torch.set_float32_matmul_precision("medium" if device == "cpu" else "high")
    folder, out = Path(options.tokenizer), Path(options.out)
    queue, level, long, workers = start_workers(options)
    size = Tokenizer.from_file(str(folder / "tokenizer.json")).get_vocab_size()
    losses: Any = losses_of
    if options.compile:
        from training.pocket.fused import fuse

        fuse()
        losses = torch.compile(losses_of, dynamic=True)
    begun = time.time()
    runs: list[tuple[float, Run]] = []
    for each in options.trials:
        interval, muon = int(each.split(":")[0]), float(each.split(":")[1])
        torch.manual_seed(options.seed)
        shape = Shape(size, options.width, options.feed, options.layers, interval)
        net = Network(shape).to(device)
        if options.resume:
            load(net, Path(options.resume))
        run = Run(net, optimizers(net, options.rate, muon), losses, level=options.level)
        trial = options.trial if len(options.trials) > 1 else 0.0
        runs.append((train(run, options, queue, level, long, device, trial), run))
        print(f"trial {each}: level {run.level}, loss {runs[-1][0]:.4f}", flush=True)
    chosen = max(range(len(runs)), key=lambda i: (runs[i][1].level, -runs[i][0]))
    run = runs[chosen][1]
    print(f"{options.trials[chosen]} goes on", flush=True)
    train(run, options, queue, level, long, device, options.seconds - (time.time() - begun), out)
    for worker in workers:
        worker.terminate()
    if rank() == 0:
        export(run.net, out)
    if dist.is_initialized():
        dist.destroy_process_group()


def train(
    run: Run,
    options: argparse.Namespace,
    queue: Any,
    level: Any,
    long: Any,
    device: str,
    seconds: float,
    out: Path | None = None,
) -> float:
    """Train for some seconds; the mean loss of the last steps. A trial (no `out`) holds its rate."""
    level.value = run.level
    begun = saved = time.time()
    wait = average = last = 0.0
    seen = run.seen
    supply = Supply(queue, options.twice, Random(rank()))
    while (progress := agreed((time.time() - begun) / max(seconds, 1e-9), device)) < 1:
        now = time.time()
        if out is not None:
            long.value = options.long if progress >= options.long_from else 0.0
        batch = supply.next()
        wait += time.time() - now
        average += run.learn(batch, device, rate(progress, options.hold) if out else 1.0)
        if run.step % options.every == 0 and rank() == 0:
            took, last = time.time() - begun, average / options.every
            print(
                f"{took:.0f}s step {run.step} loss {last:.4f} level {level.value} "
                f"{(run.seen - seen) / took / 1e3:.0f}k tokens/s waited {wait:.0f}s {run.score.row()}",
                flush=True,
            )
            average = 0.0
        raise_level(run.score, level, int(progress * 12) if out else 0)
        if out is not None and rank() == 0 and time.time() - saved > 120:
            export(run.net, out)
            saved = time.time()
    run.level = level.value
    return last


def main() -> None:
    """Read options, train the tokenizer if there is none, fit, export."""
    parser = argparse.ArgumentParser(description=__doc__)
    here = FOLDER
    parser.add_argument("--out", default=str(here))
    parser.add_argument("--tokenizer", default=str(here))
    parser.add_argument("--resume", default="")
    parser.add_argument("--seconds", type=float, default=1500)
    parser.add_argument("--tokens", type=int, default=65536, help="tokens in a batch")
    parser.add_argument("--rate", type=float, default=1.5e-3)
    parser.add_argument(
        "--trials",
        nargs="+",
        default=["3:0.02"],
        help="every which layer is full attention, and Muon's rate for the matrices or 0 for AdamW",
    )
    parser.add_argument("--trial", type=float, default=40, help="seconds of each of several trials")
    parser.add_argument("--layers", type=int, default=6)
    parser.add_argument("--width", type=int, default=256)
    parser.add_argument("--feed", type=int, default=640, help="width of the feed-forward part")
    parser.add_argument("--hand", type=float, default=0.5, help="share of dialogues written by hand")
    parser.add_argument("--long", type=float, default=0.3, help="share of tokens in long conversations")
    parser.add_argument("--long-from", type=float, default=0.6, help="where they begin")
    parser.add_argument("--hold", type=float, default=0.7, help="where the rate begins to fall")
    parser.add_argument("--workers", type=int, default=15)
    parser.add_argument("--level", type=int, default=0)
    parser.add_argument("--every", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--compile",
        action=argparse.BooleanOptionalAction,
        default=False,
        help="fused kernels; needs fla-core",
    )
    parser.add_argument(
        "--twice",
        action=argparse.BooleanOptionalAction,
        default=False,
        help="every batch beside an earlier one, where generating is slower than learning",
    )
    options = parser.parse_args()
    if not (Path(options.tokenizer) / "tokenizer.json").exists():
        words.save(words.train(), Path(options.tokenizer))
    assert LONGEST % CHUNK == 0
    fit(options)


if __name__ == "__main__":
    main()
