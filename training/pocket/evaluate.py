"""Measures the shipped pocket on what training never saw, and prints a table.

Of the held-out dialogues only totals are printed: whoever sees what was wrong there has seen the examination.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, field
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from random import Random

import numpy as np

from chatcli.pocket import FOLDER
from training.pocket import freely, held_out, loops, written
from training.pocket.conversations import rules
from training.pocket.grounding import grounded
from training.pocket.held_out import Dialogue
from training.pocket.phrases import words_in
from training.pocket.speed import speeds
from training.pocket.talk import Answer, Engine, Talk, replies
from training.pocket.turns import MAKERS, Desk, Known, Turn
from training.pocket.turns import answer as evidence
from training.pocket.values import Source

# The kinds of turns between telling a fact and asking for it.
MIDDLE_KINDS = ["talk", "sum", "beyond", "command", "tell", "self", "tell"]
LONG_TURNS = 30
LONG_TOKENS = 8000
RANDOM_MESSAGES = 2000

# What long messages are made of: places and things, and nothing about the person who writes.
THINGS = "bridge harbour market museum orchard station lighthouse bakery library tower mill square".split()
LOOKS = "old narrow quiet crowded famous half-ruined painted windy forgotten enormous crooked bright".split()
DOINGS = [
    "was closed for most of the winter",
    "stands where two roads meet",
    "smells of rain and warm bread",
    "has been drawn by every child in town",
    "gets its water from the hills",
    "looked better in the old photographs",
    "was rebuilt after the flood",
    "belongs to nobody in particular",
    "opens late, and closes when the light goes",
    "can be seen from the ferry",
    "keeps its doors shut against the wind",
    "was sold, and sold again",
]


@dataclass
class Row:
    """One line of the table."""

    name: str
    right: list[bool] = field(default_factory=list)

    def text(self) -> str:
        """The line as printed."""
        share = 100 * float(np.mean(self.right)) if self.right else float("nan")
        return f"{self.name:<44} {sum(self.right):>5} / {len(self.right):<5} {share:6.1f} %"


@dataclass
class Table:
    """All rows so far, with the form of every reply with thinking."""

    rows: dict[str, Row] = field(default_factory=dict)
    well_formed: list[bool] = field(default_factory=list)

    def add(self, name: str, right: bool, answer: Answer, think: bool = True) -> None:
        """Count one reply."""
        self.rows.setdefault(name, Row(name)).right.append(right)
        if think:
            self.well_formed.append(answer.well_formed)

    def print_last(self) -> None:
        """Print the row that was finished last."""
        print(list(self.rows.values())[-1].text(), flush=True)


def filler(rng: Random, tokens: int, engine: Engine) -> str:
    """A message of about that many tokens, in which nothing is to be remembered."""
    text = "This is what I read today."
    while len(engine.tokenizer.encode(text)) < tokens:
        text += f" The {rng.choice(LOOKS)} {rng.choice(THINGS)} {rng.choice(DOINGS)}."
    return text


def recall(
    engine: Engine,
    seed: int,
    count: int,
    think: bool,
    rules_before: int = 0,
    turns: int = 10,
    asked: int = 2,
    tokens: int = 0,
) -> Iterator[tuple[str, Turn, Answer]]:
    """Conversations whose facts are told in turns 1 to 3 and asked for from turn `turns` on.

    With `tokens` the turns between are messages so long that the prompt has that many when they are over.
    """
    for number in range(count):
        desk = Desk(Source(Random(f"{seed} {number}"), held=True))
        system = rules(desk.rng, rules_before) if rules_before else None
        talk = Talk(engine, think, system)
        for _ in range(3):
            talk.say(desk.tell(2).user)
        early = list(desk.told)
        for left in range(turns - 4, 0, -1):
            if tokens:
                talk.say(filler(desk.rng, (tokens - len(talk.cached_ids)) // left - 30, engine))
            else:
                talk.say(MAKERS[desk.rng.choice(MIDDLE_KINDS)](desk).user)
        for fact in desk.rng.sample(early, min(asked, len(early))):
            if fact in desk.told:
                turn = desk._asking([fact])
                yield expected(fact), turn, talk.say(turn.user)


def expected(fact: Known) -> str:
    """What a reply to the question for a fact must have; "Monday" is enough where "on Monday" was told."""
    found = evidence(fact)
    return {"yes": "Yes,", "no": "No,"}.get(found, found.removeprefix("on "))


def has(text: str, value: str) -> bool:
    """Whether a reply has the value, in capitals or not."""
    return value.casefold() in text.casefold()


def single(engine: Engine, seed: int, count: int, kind: str, think: bool) -> Iterator[tuple[Turn, Answer]]:
    """Turns of one kind, each after a short conversation."""
    for number in range(count):
        desk = Desk(Source(Random(f"{kind} {seed} {number}"), held=True))
        talk = Talk(engine, think)
        told = [desk.tell(2) for _ in range(desk.rng.choice([0, 1, 3]))]
        told += desk.tell_passage() if kind == "ask passage" else []
        for each in told:
            talk.say(each.user)
        *_, turn = grounded([*told, MAKERS[kind](desk)])
        yield turn, talk.say(turn.user)


def free(engine: Engine, text: str, think: bool) -> Iterator[tuple[str, str, Answer]]:
    """The hand-written conversations: what was typed, what the answer must contain, the answer."""
    for lines in freely.parsed(text):
        talk = Talk(engine, think)
        for typed, wanted in lines:
            answer = talk.say(typed)
            if wanted:
                yield typed, wanted, answer


KINDS: dict[str, tuple[str, Callable[[Turn, Answer], bool]]] = {
    "sums": ("sum", lambda turn, answer: answer.text == turn.reply),
    "honest about what was never told": ("unknown", lambda _, answer: "not told me" in answer.text),
    "honest about what it cannot do": ("beyond", lambda turn, answer: answer.text == turn.reply),
    "chatcli's commands": ("command", lambda turn, answer: answer.text == turn.reply),
    "what it is": ("self", lambda turn, answer: answer.text == turn.reply),
    "small talk": ("talk", lambda turn, answer: answer.text == turn.reply),
    "acknowledging facts": ("tell", lambda turn, answer: answer.text == turn.reply),
    "lists, negation, appointments and the like": (
        "ask passage",
        lambda turn, answer: answer.text == turn.reply,
    ),
    "what do you know about me": ("know", lambda turn, answer: answer.text == turn.reply),
}


def add_generated(table: Table, engine: Engine, options: argparse.Namespace) -> None:
    """Rows of turns that the generators make, in frames that training has and values that it has not."""
    for think in (True, False) if options.both else (True,):
        mode = "" if think else ", no thinking"
        for value, turn, answer in recall(engine, options.seed, options.count, think):
            table.add(f"recall over 10 turns{mode}", has(answer.text, value), answer, think)
            report(options.show and not has(answer.text, value), turn.user, value, answer)
        table.print_last()
        for name, (kind, good) in KINDS.items():
            for turn, answer in single(engine, options.seed, options.count, kind, think):
                table.add(name + mode, good(turn, answer), answer, think)
                report(options.show and not good(turn, answer), turn.user, turn.reply, answer)
            table.print_last()


def add_long(table: Table, engine: Engine, options: argparse.Namespace) -> None:
    """Rows of recall in long conversations."""
    count = options.count
    conversations: dict[str, dict[str, int]] = {
        "recall over 10 turns, long system prompt": {"count": max(2, count // 5), "rules_before": 40},
        f"recall over {LONG_TURNS} turns": {"count": max(2, count // 2), "turns": LONG_TURNS, "asked": 4},
        f"recall over {LONG_TURNS} turns, {LONG_TOKENS:,} tokens": {
            "count": max(2, count // 4),
            "turns": LONG_TURNS,
            "asked": 4,
            "tokens": LONG_TOKENS,
        },
    }
    for name, shape in conversations.items():
        for value, turn, answer in recall(engine, options.seed + 1, think=True, **shape):
            table.add(name, has(answer.text, value), answer)
            report(options.show and not has(answer.text, value), turn.user, value, answer)
        table.print_last()


def add_free(table: Table, engine: Engine, options: argparse.Namespace) -> None:
    """Rows of the short hand-written lists."""
    parts = {
        "free phrasing, looked at while writing": freely.SEEN,
        "free phrasing, kept aside": freely.KEPT,
    }
    for name, text in parts.items():
        for think in (True, False) if options.both else (True,):
            for typed, wanted, answer in free(engine, text, think):
                good = wanted.lower() in answer.text.lower()
                table.add(name + ("" if think else ", no thinking"), good, answer, think)
                report(options.show and not good and text is freely.SEEN, typed, wanted, answer)
            table.print_last()


def add_dialogues(table: Table, engine: Engine, options: argparse.Namespace, name: str, file: Path) -> None:
    """Rows of a file of dialogues: replies, whole dialogues, and how often one says the advert.

    With fewer than 20 conversations a row, it takes as many of the dialogues in proportion.
    """
    chosen = held_out.dialogues(file.read_text())
    chosen = [
        d
        for number, d in enumerate(chosen)
        if number * options.count // 20 != (number - 1) * options.count // 20
    ]
    kinds: dict[str, Row] = {}
    dialogues = Row(f"{name} dialogues, all of it right")
    adverts = Row(f"{name} dialogues, advert at most once")
    for dialogue in chosen:
        talk, verdicts = Talk(engine), []
        for turn in dialogue.turns:
            answer = talk.say(turn.typed)
            if turn.checked:
                verdicts.append(turn.right(answer.text))
                table.add(f"{name} dialogues, replies", verdicts[-1], answer)
                report(options.reveal and not verdicts[-1], turn.typed, turn.expected, answer)
        kinds.setdefault(dialogue.kind, Row(f"  {dialogue.kind}")).right.extend(verdicts)
        dialogues.right.append(all(verdicts))
        if (said := adverts_said(dialogue, talk)) is not None:
            adverts.right.append(said <= 1)
    table.print_last()
    for row in (dialogues, adverts, *(kinds.values() if options.reveal else ())):
        print(row.text(), flush=True)


def add_written(table: Table, engine: Engine, options: argparse.Namespace) -> None:
    """Rows of the dialogues by hand that are kept aside, file by file: what was asked, and what was told."""
    for file, found in written.files().items():
        asked, told = f"by hand, {file}: questions", f"by hand, {file}: said back"
        for number, dialogue in enumerate(list(filter(written.kept_aside, found))[: options.count]):
            talk = Talk(engine)
            for exchange, turn in written.rendered(Source(Random(f"{options.seed} {number}")), dialogue, 0.0):
                answer = talk.say(turn.user)
                if exchange.asks:
                    good = "not told" in answer.text
                    if not turn.thinking.endswith("Not told."):
                        value = turn.thinking.partition(" Told: ")[2].partition(". So ")[0]
                        good = words_in(value) - SMALL <= words_in(answer.text) or answer.text == turn.reply
                    table.add(asked, good, answer)
                elif turn.sort == "written new":
                    good = answer.text == turn.reply
                    table.add(told, good, answer)
                else:
                    continue
                report(options.show and not good, turn.user, turn.reply, answer)
        for name in (asked, told):
            if name in table.rows:
                print(table.rows[name].text(), flush=True)


# Words that an answer may leave out.
SMALL = frozenset(
    "a an the is are was were of to at on in for by with it you your he she they his her their".split()
)


def adverts_said(dialogue: Dialogue, talk: Talk) -> int | None:
    """How often the advert was said unasked; None where nothing asks for it twice and it was never said."""
    replies = [message["content"] for message in talk.messages if message["role"] == "assistant"]
    said = sum(
        "chatcli -m" in text
        for turn, text in zip(dialogue.turns, replies, strict=True)
        if "-m" not in turn.expected
    )
    invited = sum("[honest]" in turn.expected for turn in dialogue.turns)
    return said if said or invited > 1 else None


def add_loops(table: Table, engine: Engine, options: argparse.Namespace) -> None:
    """The row of random messages: a quarter comes after a fact, a fifth is answered without thinking."""
    count = RANDOM_MESSAGES * options.count // 20
    before = [
        {"role": "user", "content": "Hi, I am Ada and my cat is called Momo."},
        {
            "role": "assistant",
            "content": "Nice to meet you, Ada. I will remember that your cat is called Momo.",
        },
    ]
    typed = list(loops.messages(options.seed, count))
    conversations = [
        [*(before if number % 4 == 3 else []), {"role": "user", "content": text}]
        for number, text in enumerate(typed)
    ]
    for think in (True, False):
        numbers = [number for number in range(count) if (number % 5 != 4) is think]
        for place, answer in replies(engine, [conversations[number] for number in numbers], think):
            heard = "\n".join(message["content"] for message in conversations[numbers[place]])
            circle = loops.repeated(answer.thinking, heard) or loops.repeated(answer.text, heard)
            good = answer.ended and circle is None
            table.add("random messages, no loop", good, answer, think=True)
            report(options.show and not good, typed[numbers[place]], "no loop", answer)
    table.print_last()


def print_speed(options: argparse.Namespace) -> None:
    """Print the speeds, beside those of another model."""
    folders = [options.model, *([options.against] if options.against else [])]
    engines = [Engine.open(Path(folder)) for folder in folders]
    measured = speeds(engines, filler(Random(options.seed), 2000, engines[0]))
    for name in measured[0]:
        print(f"{name:<44} " + " ".join(f"{one[name]:>13,.0f}" for one in measured), flush=True)


ADDED: dict[str, Callable[[Table, Engine, argparse.Namespace], None]] = {
    "loops": add_loops,
    "held-out": partial(add_dialogues, name="held-out", file=held_out.HELD_OUT),
    "development": partial(add_dialogues, name="development", file=held_out.DEVELOPMENT),
    "long": add_long,
    "written": add_written,
    "generated": add_generated,
    "free": add_free,
}


def run(part: str, options: argparse.Namespace) -> tuple[str, list[bool]]:
    """What a part prints, and the form of its replies."""
    table, printed = Table(), io.StringIO()
    with contextlib.redirect_stdout(printed):
        ADDED[part](table, Engine.open(Path(options.model)), options)
    return printed.getvalue(), table.well_formed


def report(show: bool, typed: str, right: str, answer: Answer) -> None:
    """Print one wrong reply if `show`."""
    if show:
        wrong = {"typed": typed, "right": right, "thought": answer.thinking, "said": answer.text}
        print(json.dumps(wrong, ensure_ascii=False))


def main() -> None:
    """Read options and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", default=str(FOLDER))
    parser.add_argument("--against", help="another model's folder, whose speed is measured too")
    parts = [*ADDED, "speed"]
    parser.add_argument("--only", nargs="+", choices=parts, default=parts, help="these parts of the table")
    parser.add_argument("--jobs", type=int, default=2, help="parts measured at once")
    parser.add_argument("--count", type=int, default=20, help="conversations a row; all else in proportion")
    parser.add_argument("--both", action="store_true", help="measure without thinking too")
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument(
        "--show",
        action="store_true",
        help="print every wrong reply, but to held-out and development dialogues",
    )
    parser.add_argument(
        "--reveal",
        action="store_true",
        help="print those too: to held-out dialogues only when training is over",
    )
    options = parser.parse_args()
    os.nice(5)
    well_formed: list[bool] = []
    # The longest part first.
    order = sorted(set(options.only) & set(ADDED), key=list(ADDED).index)
    with ProcessPoolExecutor(options.jobs, mp_context=get_context("spawn")) as pool:
        for done in as_completed([pool.submit(run, part, options) for part in order]):
            printed, forms = done.result()
            print(printed, end="", flush=True)
            well_formed += forms
    if well_formed:
        print(Row("well-formed (thinking, answer, end)", well_formed).text())
    if "speed" in options.only:
        print_speed(options)


if __name__ == "__main__":
    main()
