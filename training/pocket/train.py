"""Trains pocket on an endless stream of generated conversations, and exports it."""

from __future__ import annotations

import argparse
import json
import os
import time
from collections import defaultdict
from dataclasses import dataclass, field
from multiprocessing import get_context
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import torch
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer
from torch import Tensor, nn
from torch.nn import functional

from chatcli.pocket import FOLDER
from training.pocket import tokenizer as words
from training.pocket.conversations import Difficulty, conversation
from training.pocket.network import CHUNK, GatedDelta, Network, Shape
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
NO_THINKING = 0.15
LONGEST = 2048


@dataclass
class Pool:
    """Samples waiting for others of their length."""

    tokens: int
    waiting: dict[int, list[Sample]] = field(default_factory=lambda: defaultdict(list))

    def add(self, sample: Sample) -> dict[str, Any] | None:
        """A full batch, if this sample completes one: ids and marks [B, T]."""
        steps = [128, 192, 256, 320, 384, 448, 512, 640, 768, 1024, 1280, 1536, LONGEST]
        if len(sample.ids) > LONGEST:
            return None
        length = next(step for step in steps if step >= len(sample.ids))
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


def produce_batches(seed: int, folder: str, tokens: int, level: Any, out: Any, held: bool) -> None:
    """A worker process: put endless batches on the queue."""
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    torch.set_num_threads(1)
    source, coder = (
        Source(Random(seed), held),
        Coder(Tokenizer.from_file(f"{folder}/tokenizer.json")),
    )
    pool = Pool(tokens)
    while True:
        talk = conversation(source, LEVELS[level.value])
        batch = pool.add(coder.sample(talk, source.rng.random() >= NO_THINKING))
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


def loss_of(net: Network, batch: dict[str, Any], device: str) -> tuple[Tensor, list[bool]]:
    """The weighted loss, and for each row whether its last turn is all right."""
    ids = torch.from_numpy(batch["ids"].astype(np.int64)).to(device)
    marks = torch.from_numpy(batch["marks"]).to(device)[:, 1:]
    with torch.autocast(device, torch.bfloat16, enabled=device == "cuda"):
        hidden = net(ids)[:, :-1][marks > 0]
        logits = net.logits(hidden).float()
    kept, goal = marks[marks > 0], ids[:, 1:][marks > 0]
    weight = torch.where(kept == HISTORY, HISTORY_WEIGHT, 1.0)
    losses = functional.cross_entropy(logits, goal, reduction="none")
    wrong = torch.zeros(marks.shape, dtype=torch.bool, device=device)
    wrong[marks > 0] = (logits.argmax(-1) != goal) & (kept == LAST)
    return (losses * weight).sum() / weight.sum(), (~wrong.any(1)).tolist()


def rate(progress: float, step: int, top: float, hold: float) -> float:
    """The learning rate: a short rise, a plateau, then a straight fall."""
    fall = 1.0 if progress < hold else max(0.02, (1 - progress) / (1 - hold))
    return top * fall * min(1.0, (step + 1) / 200)


def exported(weight: Tensor) -> Tensor:
    """A weight as the file holds it: vectors stay wide, as mlx-lm adds one to some of them."""
    return weight.detach().to("cpu", torch.bfloat16 if weight.ndim > 1 else torch.float32).contiguous()


def export(net: Network, folder: Path) -> None:
    """Write weights in bfloat16, and the configuration, as mlx-lm loads them."""
    folder.mkdir(parents=True, exist_ok=True)
    state = {f"model.{k}": exported(v) for k, v in net.state_dict().items()}
    save_file(state, str(folder / "model.safetensors"), metadata={"format": "pt"})
    (folder / "model.safetensors").chmod(0o644)
    eos = words.SPECIAL.index(words.END)
    text = net.shape.text_config() | {"eos_token_id": eos}
    config = {
        "model_type": "qwen3_5",
        "architectures": ["Qwen3_5ForCausalLM"],
        "eos_token_id": eos,
        "tie_word_embeddings": True,
        "text_config": text,
    }
    (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n")
    generation = {
        "eos_token_id": [eos, 0],
        "pad_token_id": 0,
        "do_sample": False,
        "temperature": 0.0,
        "max_new_tokens": 300,
    }
    (folder / "generation_config.json").write_text(json.dumps(generation, indent=2) + "\n")


def load(net: Network, folder: Path) -> None:
    """Read exported weights back."""
    state = load_file(str(folder / "model.safetensors"))
    net.load_state_dict({k.removeprefix("model."): v.float() for k, v in state.items()})


def compile_memory_bound_parts(net: Network) -> None:
    """Compile the parts whose speed memory bandwidth limits."""
    from . import network

    network.within = torch.compile(network.within, dynamic=True)
    GatedDelta.mixed = torch.compile(GatedDelta.mixed, dynamic=True)  # type: ignore[method-assign]
    GatedDelta.finish = torch.compile(GatedDelta.finish, dynamic=True)  # type: ignore[method-assign]
    network.Feed.forward = torch.compile(network.Feed.forward, dynamic=True)  # type: ignore[method-assign]
    network.Norm.forward = torch.compile(network.Norm.forward, dynamic=True)  # type: ignore[method-assign]


def optimizer(net: nn.Module, top: float) -> torch.optim.AdamW:
    """AdamW, decaying matrices alone."""
    many = [p for p in net.parameters() if p.ndim > 1]
    few = [p for p in net.parameters() if p.ndim < 2]
    groups = [{"params": many, "weight_decay": 0.05}, {"params": few, "weight_decay": 0.0}]
    return torch.optim.AdamW(groups, lr=top, betas=(0.9, 0.98), fused=torch.cuda.is_available())


def raise_level(score: Score, level: Any) -> None:
    """Go up a level once nine in ten answers are right."""
    if score.right.get("ask", 0) > 0.9 and level.value < len(LEVELS) - 1:
        level.value += 1
        score.right["ask"] = 0.5
        print(f"level {level.value}", flush=True)


def start_workers(options: argparse.Namespace) -> tuple[Any, Any, list[Any]]:
    """Start the worker processes. Returns their queue of batches, the level they share, and them."""
    spawn = get_context("spawn")
    level, queue = spawn.Value("i", options.level), spawn.Queue(options.workers * 3)
    workers = [
        spawn.Process(
            target=produce_batches,
            args=(options.seed * 1000 + i, options.tokenizer, options.tokens, level, queue, False),
            daemon=True,
        )
        for i in range(options.workers)
    ]
    for worker in workers:
        worker.start()
    return queue, level, workers


def fit(options: argparse.Namespace) -> None:
    """Train for so many seconds, saving as it goes."""
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.manual_seed(options.seed)
    torch.set_float32_matmul_precision("high")
    folder, out = Path(options.tokenizer), Path(options.out)
    queue, level, workers = start_workers(options)
    net = Network(Shape(Tokenizer.from_file(str(folder / "tokenizer.json")).get_vocab_size())).to(device)
    if options.resume:
        load(net, Path(options.resume))
    if options.compile:
        compile_memory_bound_parts(net)
    adam, score, begun = optimizer(net, options.rate), Score(), time.time()
    step = seen = 0
    wait, average = 0.0, 0.0
    saved = begun
    while (now := time.time()) - begun < options.seconds:
        for group in adam.param_groups:
            group["lr"] = rate((now - begun) / options.seconds, step, options.rate, options.hold)
        batch = queue.get()
        wait += time.time() - now
        loss, exact = loss_of(net, batch, device)
        adam.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        adam.step()
        score.note(batch["sorts"], exact)
        step, seen = step + 1, seen + batch["ids"].size
        average += loss.item()
        if step % options.every == 0:
            took = time.time() - begun
            print(
                f"{took:.0f}s step {step} loss {average / options.every:.4f} level {level.value} "
                f"{seen / took / 1e3:.0f}k tokens/s waited {wait:.0f}s {score.row()}",
                flush=True,
            )
            average = 0.0
        raise_level(score, level)
        if time.time() - saved > 120:
            export(net, out)
            saved = time.time()
    for worker in workers:
        worker.terminate()
    export(net, out)


def main() -> None:
    """Read options, train the tokenizer if there is none, fit, export."""
    parser = argparse.ArgumentParser(description=__doc__)
    here = FOLDER
    parser.add_argument("--out", default=str(here))
    parser.add_argument("--tokenizer", default=str(here))
    parser.add_argument("--resume", default="")
    parser.add_argument("--seconds", type=float, default=1500)
    parser.add_argument("--tokens", type=int, default=65536, help="tokens in a batch")
    parser.add_argument("--rate", type=float, default=1e-3)
    parser.add_argument("--hold", type=float, default=0.7, help="where the rate begins to fall")
    parser.add_argument("--workers", type=int, default=15)
    parser.add_argument("--level", type=int, default=0)
    parser.add_argument("--every", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--compile", action=argparse.BooleanOptionalAction, default=False)
    options = parser.parse_args()
    if not (Path(options.tokenizer) / "tokenizer.json").exists():
        words.save(words.train(), Path(options.tokenizer))
    assert LONGEST % CHUNK == 0
    fit(options)


if __name__ == "__main__":
    main()
