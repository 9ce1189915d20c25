"""Measures the shipped pocket on values it never saw, and prints a table; trains nothing."""

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

MIDDLE = ["talk", "sum", "beyond", "command", "tell", "self", "tell"]


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
    """All rows so far, and the speed and form of every reply with thinking."""

    rows: dict[str, Row] = field(default_factory=dict)
    formed: list[bool] = field(default_factory=list)
    speeds: list[float] = field(default_factory=list)

    def note(self, name: str, good: bool, answer: Answer, think: bool = True) -> None:
        """Count one reply."""
        self.rows.setdefault(name, Row(name)).right.append(good)
        if think:
            self.formed.append(answer.formed)
        if answer.tokens > 20:
            self.speeds.append(answer.tokens / answer.seconds)

    def say_last(self) -> None:
        """Print the row that was just finished."""
        print(list(self.rows.values())[-1].text(), flush=True)

    def summary(self) -> str:
        """The last two lines: form and speed, over all rows."""
        formed = Row("well-formed (thinking, answer, end)", self.formed).text()
        speed = float(np.median(self.speeds)) if self.speeds else float("nan")
        return f"{formed}\n{'tokens a second, median':<44} {speed:>13.0f}"


def recall(
    engine: Engine, seed: int, count: int, think: bool, long: bool = False
) -> Iterator[tuple[str, Turn, Answer]]:
    """Conversations whose facts of turns 1 to 3 are asked for from turn 10 on."""
    for number in range(count):
        desk = Desk(Source(Random(f"{seed} {number}"), held=True))
        system = rules(desk.rng, 40) if long else None
        talk = Talk(engine, think, system)
        for _ in range(3):
            talk.say(desk.tell(2).user)
        early = list(desk.told)
        for _ in range(6):
            turn = MAKERS[desk.rng.choice(MIDDLE)](desk)
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
    """The hand-written conversations: what was typed, what was wanted, what came."""
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
    """Everything, ``count`` conversations a row; each row is printed when it is done."""
    table = Table()
    for think in modes:
        mode = "" if think else ", no thinking"
        for value, turn, answer in recall(engine, seed, count, think):
            table.note(f"recall over 10 turns{mode}", value in answer.text, answer, think)
            report(show and value not in answer.text, turn.user, value, answer)
        table.say_last()
        for name, (kind, good) in KINDS.items():
            for turn, answer in single(engine, seed, count, kind, think):
                table.note(name + mode, good(turn, answer), answer, think)
                report(show and not good(turn, answer), turn.user, turn.reply, answer)
            table.say_last()
    for value, turn, answer in recall(engine, seed + 1, max(2, count // 5), True, long=True):
        table.note("recall over 10 turns, long system prompt", value in answer.text, answer)
        report(show and value not in answer.text, turn.user, value, answer)
    table.say_last()
    freed(engine, table, modes, show)
    return table


def freed(engine: Engine, table: Table, modes: tuple[bool, ...], show: bool) -> None:
    """Add the rows of free phrasing."""
    parts = {
        "free phrasing, looked at while writing": freely.SEEN,
        "free phrasing, kept aside": freely.KEPT,
    }
    for name, text in parts.items():
        for think in modes:
            for typed, wanted, answer in free(engine, text, think):
                good = wanted.lower() in answer.text.lower()
                table.note(name + ("" if think else ", no thinking"), good, answer, think)
                report(show and not good and text is freely.SEEN, typed, wanted, answer)
            table.say_last()


def report(wanted: bool, typed: str, right: str, answer: Answer) -> None:
    """Print one wrong reply, if that is wanted."""
    if wanted:
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
