"""The published workloads as requests, with their published results."""

from __future__ import annotations

from collections.abc import Sequence

from chatcli.bench.race import Query, Step, Workload

SYSTEM = "You are a helpful assistant. Answer briefly and remember what you were told."
USER_MESSAGES = (
    "My dog is called Biscuit.",
    "I live in Lisbon, by the river.",
    "What is my dog's name?",
    "7 and 5?",
    "And where do I live?",
    "Say it once more.",
    "My sister Ana is a nurse.",
    "What does my sister do?",
)
# Repeated to fill a long text; the number makes texts differ.
SENTENCE = "On day {} the river was calm, the market opened at nine and Ana bought bread for us. "


def user_message(number: int) -> str:
    """A short message, different for each number."""
    text = USER_MESSAGES[number % len(USER_MESSAGES)]
    return text if number < len(USER_MESSAGES) else f"{text} ({number})"


def turns(count: int, reply: int = 64) -> Workload:
    """A conversation of short messages."""
    texts = [user_message(number) for number in range(count)]
    steps = [Step(f"turn {number}", Query(SYSTEM, tuple(texts[:number]))) for number in range(1, count + 1)]
    return Workload(
        "turns",
        f"{count} turns, {reply} reply tokens",
        steps,
        reply,
        published="mlx-lm PR 1042, 40 turns of 64 tokens: 97.3 % of turn 40's prompt reused, "
        "61,116 of 64,434 tokens, prefill 40.9 s → 10.2 s",
    )


def agentic(tokens: int, rounds: int, per_token: float, reply: int = 64) -> Workload:
    """A long prompt that grows a little with each round, as an agent's does with each tool result."""
    first = long_text(int(tokens * per_token))
    results = [long_text(int(150 * per_token), 1000 * number) for number in range(1, rounds)]
    texts = [f"Here is what is known.\n{first}", *(f"Result:\n{text}" for text in results)]
    steps = [Step(f"round {number}", Query(SYSTEM, tuple(texts[:number]))) for number in range(1, rounds + 1)]
    return Workload(
        "agentic",
        f"a prompt of {tokens:,} tokens that grows in {rounds} rounds",
        steps,
        reply,
        published="28,000 tokens (vllm-mlx PR 90, vllm-metal PR 283): 96–99 % reused, 27 s → 0.7–1.8 s",
    )


def reopen(counts: Sequence[int], reply: int = 64) -> Workload:
    """After each of `counts` turns, a message to the running process and then to new ones."""
    texts: list[str] = []
    steps: list[Step] = []

    def add(label: str, **options: bool) -> None:
        texts.append(user_message(len(texts)))
        steps.append(Step(label, Query(SYSTEM, tuple(texts)), **options))

    for count in counts:
        while len(texts) < count:
            add(f"turn {len(texts) + 1}")
        add(f"after {count}: open")
        add(f"after {count}: reopened", reopened=True)
        add(f"after {count}: reopened, at once", reopened=True, typed=False)
    return Workload("reopen", "quit and come back", steps, reply)


def long_text(letters: int, first: int = 0) -> str:
    """About `letters` letters of plain sentences, numbered from `first`."""
    count = max(letters // len(SENTENCE), 1)
    return "".join(SENTENCE.format(first + number) for number in range(count)).strip()
