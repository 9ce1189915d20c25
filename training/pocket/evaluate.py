"""Measures the shipped pocket on values that training never saw, and prints a table."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import numpy as np

from chatcli.pocket import FOLDER
from training.pocket import freely
from training.pocket.conversations import rules
from training.pocket.talk import Answer, Engine, Talk
from training.pocket.turns import MAKERS, Desk, Turn
from training.pocket.values import Source

# The kinds of turns between telling a fact and asking for it.
MIDDLE_KINDS = ["talk", "sum", "beyond", "command", "tell", "self", "tell"]


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
    """All rows so far, with the form of every reply with thinking and the speed of every longer reply."""

    rows: dict[str, Row] = field(default_factory=dict)
    well_formed: list[bool] = field(default_factory=list)
    tokens_per_second: list[float] = field(default_factory=list)

    def add(self, name: str, right: bool, answer: Answer, think: bool = True) -> None:
        """Count one reply."""
        self.rows.setdefault(name, Row(name)).right.append(right)
        if think:
            self.well_formed.append(answer.well_formed)
        if answer.tokens > 20:
            self.tokens_per_second.append(answer.tokens / answer.seconds)

    def print_last(self) -> None:
        """Print the row that was finished last."""
        print(list(self.rows.values())[-1].text(), flush=True)

    def summary(self) -> str:
        """The last two lines: form and speed, over all rows."""
        well_formed = Row("well-formed (thinking, answer, end)", self.well_formed).text()
        speed = float(np.median(self.tokens_per_second)) if self.tokens_per_second else float("nan")
        return f"{well_formed}\n{'tokens a second, median':<44} {speed:>13.0f}"


def recall(
    engine: Engine, seed: int, count: int, think: bool, long: bool = False
) -> Iterator[tuple[str, Turn, Answer]]:
    """Conversations whose facts are told in turns 1 to 3 and asked for from turn 10 on."""
    for number in range(count):
        desk = Desk(Source(Random(f"{seed} {number}"), held=True))
        system = rules(desk.rng, 40) if long else None
        talk = Talk(engine, think, system)
        for _ in range(3):
            talk.say(desk.tell(2).user)
        early = list(desk.told)
        for _ in range(6):
            turn = MAKERS[desk.rng.choice(MIDDLE_KINDS)](desk)
            talk.say(turn.user)
        for fact in desk.rng.sample(early, min(2, len(early))):
            if fact in desk.told:
                turn = desk._asking([fact])
                yield fact.value, turn, talk.say(turn.user)


def single(engine: Engine, seed: int, count: int, kind: str, think: bool) -> Iterator[tuple[Turn, Answer]]:
    """Turns of one kind, each after a short conversation."""
    for number in range(count):
        desk = Desk(Source(Random(f"{kind} {seed} {number}"), held=True))
        talk = Talk(engine, think)
        for _ in range(desk.rng.choice([0, 1, 3])):
            talk.say(desk.tell(2).user)
        turn = MAKERS[kind](desk)
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
    "what do you know about me": ("know", lambda turn, answer: answer.text == turn.reply),
}


def measure(engine: Engine, seed: int, count: int, modes: tuple[bool, ...], show: bool) -> Table:
    """All rows, of `count` conversations each; each row is printed when it is done."""
    table = Table()
    for think in modes:
        mode = "" if think else ", no thinking"
        for value, turn, answer in recall(engine, seed, count, think):
            table.add(f"recall over 10 turns{mode}", value in answer.text, answer, think)
            report(show and value not in answer.text, turn.user, value, answer)
        table.print_last()
        for name, (kind, good) in KINDS.items():
            for turn, answer in single(engine, seed, count, kind, think):
                table.add(name + mode, good(turn, answer), answer, think)
                report(show and not good(turn, answer), turn.user, turn.reply, answer)
            table.print_last()
    for value, turn, answer in recall(engine, seed + 1, max(2, count // 5), True, long=True):
        table.add("recall over 10 turns, long system prompt", value in answer.text, answer)
        report(show and value not in answer.text, turn.user, value, answer)
    table.print_last()
    add_free_phrasing(engine, table, modes, show)
    return table


def add_free_phrasing(engine: Engine, table: Table, modes: tuple[bool, ...], show: bool) -> None:
    """Add the rows of free phrasing."""
    parts = {
        "free phrasing, looked at while writing": freely.SEEN,
        "free phrasing, kept aside": freely.KEPT,
    }
    for name, text in parts.items():
        for think in modes:
            for typed, wanted, answer in free(engine, text, think):
                good = wanted.lower() in answer.text.lower()
                table.add(name + ("" if think else ", no thinking"), good, answer, think)
                report(show and not good and text is freely.SEEN, typed, wanted, answer)
            table.print_last()


def report(show: bool, typed: str, right: str, answer: Answer) -> None:
    """Print one wrong reply if `show`."""
    if show:
        print(json.dumps({"typed": typed, "right": right, "thought": answer.thinking, "said": answer.text}))


def main() -> None:
    """Read options and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", default=str(FOLDER))
    parser.add_argument("--count", type=int, default=20, help="conversations a row")
    parser.add_argument("--both", action="store_true", help="measure without thinking too")
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--show", action="store_true", help="print every wrong reply")
    options = parser.parse_args()
    modes = (True, False) if options.both else (True,)
    engine = Engine.open(Path(options.model))
    table = measure(engine, options.seed, options.count, modes, options.show)
    print(table.summary())


if __name__ == "__main__":
    main()
