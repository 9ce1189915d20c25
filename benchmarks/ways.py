"""Compares the ways to continue a long prompt, and other published workloads, with mlx-lm in the same run.

python -m benchmarks.ways [branch | shared-prefix | paste] [-m MODEL] [--quick | --full]
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from benchmarks.measure import options, progress
from chatcli.bench import report, run, workloads
from chatcli.bench.ours import Chatcli
from chatcli.bench.race import Answer, Contender, Query, Step, Workload
from chatcli.bench.run import BenchSetup, MakeWorkload, Plan
from chatcli.bench.scripted import Script
from chatcli.cli.bench import show
from chatcli.turn.typeahead import typeahead

WORKLOADS: dict[str, MakeWorkload] = {
    "ways": lambda letters, size: ways(((1300,), (1300, 5000), (1300, 5000, 21_000))[size], 5, letters),
    "branch": lambda _, size: branch((4, 8, 20)[size]),
    "shared-prefix": lambda letters, size: shared_prefix(512, (3, 10, 50)[size], letters),
    "paste": lambda letters, size: paste(((300,), (500, 2000), (500, 2000, 8000))[size], letters),
}


class ChatcliTypeahead(Chatcli):
    """chatcli with each message prefilled while it is typed: the user waits from Enter on."""

    name = "chatcli, typed ahead"

    def ask(self, request: Query, script: Script) -> Answer:
        written_before = self._store.written_bytes
        _, context = self.go_on_from(request, script)
        progress = typeahead(context, request.user_messages[-1], self._never)
        tokens = max((event.tokens for event in progress), default=0)
        answer = super().ask(request, script)
        written = self._store.written_bytes - written_before
        return replace(answer, ahead_tokens=answer.ahead_tokens + tokens, written_bytes=written)


def contenders(setup: BenchSetup) -> Iterator[Contender]:
    yield from run.contenders(setup)
    yield ChatcliTypeahead(setup.worker, setup.loaded, setup.folder)


def branch(count: int, reply: int = 64) -> Workload:
    """A conversation, then a different follow-up at each of its turns."""
    texts = tuple(workloads.user_message(number) for number in range(count))
    steps = [
        Step("follow-up", Query(workloads.SYSTEM, (*texts[: depth - 1], f"And what of day {depth}?")))
        for depth in range(2, count + 1)
    ]
    return Workload(
        "branch",
        f"another follow-up at each of {count} turns",
        [*workloads.turns(count).steps, *steps],
        reply,
        published="vllm-mlx PR 3, a shared prefix with follow-ups that diverge: 52.1 %",
    )


def shared_prefix(prefix: int, prompts: int, per_token: float) -> Workload:
    """Many conversations that begin with the same system prompt, then all of them again."""
    system = workloads.long_text(int(prefix * per_token))
    texts = [workloads.long_text(int(128 * per_token), 1000 * number) for number in range(1, prompts + 1)]
    steps = [Step(when, Query(system, (text,))) for when in ("cold", "warm") for text in texts]
    return Workload(
        "shared-prefix",
        f"{prompts} prompts of 128 tokens after {prefix} shared ones",
        steps,
        100,
        published="vllm-metal PR 283, 50 prompts after 512 tokens: 78.4 % hits cold, 97.5 % warm",
    )


def ways(lengths: Sequence[int], rounds: int, per_token: float, reply: int = 16) -> Workload:
    """A long message, after which the conversation is continued `rounds` times in each way."""
    steps: list[Step] = []

    def add(length: int, way: str, system: str, *texts: str, **options: bool) -> None:
        steps.append(Step(f"{length:,} {way}", Query(system, texts), **options))

    for length in lengths:
        text = workloads.long_text(int(length * per_token), 1000 * length)
        texts = [text]
        add(length, "first", workloads.SYSTEM, text)
        for way, how in (
            ("open", {}),
            ("reopened", {"reopened": True}),
            ("reopened, at once", {"reopened": True, "typed": False}),
        ):
            for _ in range(rounds):
                texts.append(workloads.user_message(len(texts)))
                add(length, way, workloads.SYSTEM, *texts, **how)
        for number in range(1, rounds + 1):
            add(length, "branch", workloads.SYSTEM, text, f"And what {'else ' * number}was there?")
        # The same text again, as the prefix that several conversations share.
        add(length, "first, shared", text, workloads.USER_MESSAGES[0])
        for number in range(1, rounds + 1):
            add(length, "shared", text, workloads.user_message(number))
    return Workload("ways", f"a long prompt, taken up {rounds} times in each way", steps, reply)


def paste(lengths: Sequence[int], per_token: float, reply: int = 64) -> Workload:
    """A long message, a few turns into a conversation."""
    texts = [workloads.user_message(number) for number in range(3)]
    steps = [Step(f"turn {n}", Query(workloads.SYSTEM, tuple(texts[:n]))) for n in range(1, len(texts) + 1)]
    for length in lengths:
        texts.append(workloads.long_text(int(length * per_token), 1000 * length))
        steps.append(Step(f"{length:,} tokens pasted", Query(workloads.SYSTEM, tuple(texts))))
    return Workload("paste", "a long message, from Enter to the first token", steps, reply)


if __name__ == "__main__":
    parser = options(__doc__)
    parser.add_argument("name", nargs="?", choices=WORKLOADS, default="ways")
    parser.add_argument("--full", action="store_true", help="as long as it was published (a GPU's work)")
    parser.add_argument("--repeats", type=int, default=1)
    parser.add_argument("--only", action="append", default=[], help="contenders with this in their names")
    chosen = parser.parse_args()
    size = run.FULL if chosen.full else run.QUICK if chosen.quick else run.USUAL
    outcome = run.run(
        WORKLOADS[chosen.name],
        Plan(chosen.model, size, chosen.repeats, chosen.only),
        progress,
        contenders if chosen.name == "paste" else run.contenders,
    )
    show(chosen.json, {"outcomes": [report.as_json(outcome)]}, report.tables(outcome))
