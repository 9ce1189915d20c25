"""The published workloads as requests, each with the numbers that were published for it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from chatcli.bench.contender import Request
from chatcli.bench.race import Step

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
# Repeated to fill a long text; the number keeps two texts apart.
SENTENCE = "On day {} the river was calm, the market opened at nine and Ana bought bread for us. "


@dataclass(frozen=True)
class Workload:
    """Requests in order. `reply` is the length of each reply in tokens, `published` what others report."""

    name: str
    title: str
    steps: Sequence[Step]
    reply: int
    repeats: int = 1
    published: str = ""


def user_message(number: int) -> str:
    """A short message, different for each number."""
    text = USER_MESSAGES[number % len(USER_MESSAGES)]
    return text if number < len(USER_MESSAGES) else f"{text} ({number})"


def turns(count: int, reply: int = 64) -> Workload:
    """A conversation of short messages."""
    texts = [user_message(number) for number in range(count)]
    steps = [Step(f"turn {number}", Request(SYSTEM, tuple(texts[:number]))) for number in range(1, count + 1)]
    return Workload(
        "turns",
        f"{count} turns, {reply} reply tokens",
        steps,
        reply,
        published="mlx-lm PR 1042, 40 turns of 64 tokens: 97.3 % of turn 40's prompt reused, "
        "61,116 of 64,434 tokens, prefill 40.9 s → 10.2 s",
    )


def branch(count: int, reply: int = 64) -> Workload:
    """A conversation, then another follow-up at every one of its turns."""
    texts = tuple(user_message(number) for number in range(count))
    steps = [
        Step(f"depth {depth}", Request(SYSTEM, (*texts[: depth - 1], f"And what of day {depth}?")))
        for depth in range(2, count + 1)
    ]
    return Workload(
        "branch",
        f"another follow-up at each of {count} turns",
        [*turns(count).steps, *steps],
        reply,
        published="vllm-mlx PR 3, a shared prefix with follow-ups that diverge: 52.1 %",
    )


def agentic(tokens: int, rounds: int, per_token: float, reply: int = 64) -> Workload:
    """A long prompt that grows a little each round, as an agent's does with each tool's result."""
    first = long_text(int(tokens * per_token))
    results = [long_text(int(150 * per_token), 1000 * number) for number in range(1, rounds)]
    texts = [f"Here is what is known.\n{first}", *(f"Result:\n{text}" for text in results)]
    steps = [
        Step(f"round {number}", Request(SYSTEM, tuple(texts[:number]))) for number in range(1, rounds + 1)
    ]
    return Workload(
        "agentic",
        f"a prompt of {tokens:,} tokens that grows in {rounds} rounds",
        steps,
        reply,
        published="28,000 tokens (vllm-mlx PR 90, vllm-metal PR 283): 96–99 % reused, 27 s → 0.7–1.8 s",
    )


def shared_prefix(prefix: int, prompts: int, per_token: float, repeats: int) -> Workload:
    """Many conversations that begin with the same system prompt, and all of them once more."""
    system = long_text(int(prefix * per_token))
    texts = [long_text(int(128 * per_token), 1000 * number) for number in range(1, prompts + 1)]
    steps = [
        Step(f"{when} {number}", Request(system, (text,)))
        for when in ("cold", "warm")
        for number, text in enumerate(texts, start=1)
    ]
    return Workload(
        "shared-prefix",
        f"{prompts} prompts of 128 tokens after {prefix} shared ones",
        steps,
        100,
        repeats,
        published="vllm-metal PR 283, 50 prompts after 512 tokens: 78.4 % hits cold, 97.5 % warm",
    )


def reopen(counts: Sequence[int], reply: int = 64) -> Workload:
    """After each of `counts` turns: a message to the running process, then to new ones."""
    texts: list[str] = []
    steps: list[Step] = []

    def add(label: str, **options: bool) -> None:
        texts.append(user_message(len(texts)))
        steps.append(Step(label, Request(SYSTEM, tuple(texts)), **options))

    for count in counts:
        while len(texts) < count:
            add(f"turn {len(texts) + 1}")
        add(f"after {count}: open")
        add(f"after {count}: reopened", reopened=True)
        add(f"after {count}: reopened, at once", reopened=True, typed=False)
    return Workload("reopen", "quit and come back", steps, reply)


def ways(lengths: Sequence[int], rounds: int, per_token: float, reply: int = 64) -> Workload:
    """A long message, after which the conversation is taken up `rounds` times in each way there is."""
    steps: list[Step] = []

    def add(length: int, way: str, system: str, *texts: str, **options: bool) -> None:
        steps.append(Step(f"{length:,} {way}", Request(system, texts), **options))

    for length in lengths:
        text = long_text(int(length * per_token), 1000 * length)
        texts = [text]
        add(length, "first", SYSTEM, text)
        for way, options in (
            ("open", {}),
            ("reopened", {"reopened": True}),
            ("reopened, at once", {"reopened": True, "typed": False}),
        ):
            for _ in range(rounds):
                texts.append(user_message(len(texts)))
                add(length, way, SYSTEM, *texts, **options)
        for number in range(1, rounds + 1):
            add(length, "branch", SYSTEM, text, f"And what {'else ' * number}was there?")
        # The same text once more, as what several conversations share.
        add(length, "first, shared", text, USER_MESSAGES[0])
        for number in range(1, rounds + 1):
            add(length, "shared", text, user_message(number))
    return Workload("ways", f"a long prompt, taken up {rounds} times in each way", steps, reply)


def paste(lengths: Sequence[int], per_token: float, reply: int = 64) -> Workload:
    """A long message, a few turns into a conversation."""
    texts = [user_message(number) for number in range(3)]
    steps = [Step(f"turn {n}", Request(SYSTEM, tuple(texts[:n]))) for n in range(1, len(texts) + 1)]
    for length in lengths:
        texts.append(long_text(int(length * per_token), 1000 * length))
        steps.append(Step(f"{length:,} tokens pasted", Request(SYSTEM, tuple(texts))))
    return Workload("paste", "a long message, from Enter to the first token", steps, reply)


def exact(lengths: Sequence[int], per_token: float, reply: int = 64) -> Workload:
    """The same prompt again, short and long."""
    texts = [long_text(int(length * per_token), 1000 * length) for length in lengths]
    steps = [
        Step(f"{length:,} tokens, {when}", Request(SYSTEM, (text,)))
        for length, text in zip(lengths, texts, strict=True)
        for when in ("first", "again")
    ]
    return Workload(
        "exact",
        "the same prompt again",
        steps,
        reply,
        published="vllm-mlx PR 3, the same prompt again: 1.4 times as fast; a long one (PR 259): 26 times",
    )


def long_text(letters: int, first: int = 0) -> str:
    """About `letters` letters of plain sentences, numbered from `first`."""
    count = max(letters // len(SENTENCE), 1)
    return "".join(SENTENCE.format(first + number) for number in range(count)).strip()
